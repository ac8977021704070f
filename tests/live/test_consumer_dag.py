"""A DAG with two consumers whose processes are killed at random copies every change of a table once."""

import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import pytest

from airflow_hiveacid.cluster.packaged import example_dags
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.records.consumers import known_consumers
from hiveacid.rules.names import TableRef
from tests.airflow.busy_table import BusyTable
from tests.live.airflow_api import ENDED, wait_until
from tests.live.airflow_processes import AirflowProcesses, TaskProcess

pytestmark = [pytest.mark.consumers, pytest.mark.timeout(3600)]

DAG = "two_consumers"
KILLS = 20
SEED = int(os.environ.get("CONSUMERS_SEED", "11"))
# The victims, in percent.
VICTIMS = {"worker": 40, "driver": 25, "code": 15, "worker and driver": 10, "scheduler": 10}


class Chaos:
    """Kill processes of an Airflow's tasks, at random moments.

    Attributes:
        killed: The number of killed processes by kind.
    """

    def __init__(self, airflow: AirflowProcesses, random: Random, seconds: float) -> None:
        self.killed: Counter[str] = Counter()
        self._airflow = airflow
        self._random = random
        self._seconds = seconds

    def strike(self) -> None:
        """Wait for a task, let it work for a while, and kill something of it."""
        wait_until("a task is at work", lambda: bool(self._at_work()), 300, every=0.1)
        time.sleep(self._random.uniform(0, self._seconds))
        tasks = self._at_work()
        if not tasks:
            return  # It was faster.
        task = self._random.choice(tasks)
        (victim,) = self._random.choices(list(VICTIMS), list(VICTIMS.values()))
        if victim == "driver" and not task.programs:
            victim = "worker"
        self._kill(victim, task)
        self.killed[victim] += 1

    def _kill(self, victim: str, task: TaskProcess) -> None:
        if victim == "scheduler":
            self._airflow.kill("scheduler")
            self._airflow.start("scheduler")
        elif victim == "driver":
            task.kill_programs()
        elif victim == "code":
            task.kill_runner()
        else:
            task.kill_worker()
            if victim == "worker and driver":
                task.kill_programs()

    def _at_work(self) -> list[TaskProcess]:
        return [task for task in self._airflow.task_processes() if task.runner is not None]


@pytest.fixture
def busy(spark: Any, client: MetastoreClient, database: str) -> BusyTable:
    return BusyTable(spark, client, database, Random(SEED))


@pytest.fixture
def airflow(hms: EmbeddedMetastore, busy: BusyTable, tmp_path: Path) -> Iterator[AirflowProcesses]:
    dag = tmp_path / f"{DAG}.py"
    shutil.copy(example_dags() / dag.name, dag)
    text = dag.read_text()
    tables = f'TABLE, LOG, COPY = "{busy.table}", "{busy.log}", "{busy.copy}"'
    for said, meant in (
        ('TABLE, LOG, COPY = "default.orders", "default.order_changes", "default.orders_copy"', tables),
        ("EventTrigger(table=TABLE)", "EventTrigger(table=TABLE, poke_interval=1)"),
        ('"retries": 2, "retry_delay": timedelta(minutes=1)',
         '"retries": 99, "retry_delay": timedelta(seconds=1)'),
        ("SELECT id, status,", "SELECT id, v,"),
        # The model knows of no updates, but of a deleted and an inserted row.
        (', keys=["id"])}', ")}"),
    ):  # fmt: skip
        assert said in text
        text = text.replace(said, meant)
    dag.write_text(text)
    host, port = hms.uri.removeprefix("thrift://").split(":")
    connections: dict[str, dict[str, Any]] = {
        "hive_acid_default": {"conn_type": "hive_acid_metastore", "host": host, "port": int(port)},
        "spark_default": {"conn_type": "spark", "host": "local[1]"},
    }
    # By the last two a worker is missed that died before its task was known to run, and by those
    # before them all that went with a scheduler.
    soon = {
        "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "10",
        "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "10",
        "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT": "90",
        "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT_CHECK_INTERVAL": "10",
    }
    with AirflowProcesses(
        tmp_path / "airflow", [dag], connections=connections, environment=soon
    ) as airflow:
        airflow.wait_for_dags(DAG)
        airflow.api.unpause(DAG)
        yield airflow


def live(busy: BusyTable, stop: threading.Event) -> Counter[str]:
    """Write, compact and clean; return the counts."""
    done: Counter[str] = Counter()
    while not stop.wait(busy.random.uniform(0, 2)):
        deed: Callable[[], None] = busy.write
        if busy.random.random() < 0.2:
            deed = busy.compact_and_clean
        elif busy.random.random() < 0.2:
            deed = busy.end_late
        deed()
        done[deed.__name__] += 1
    busy.end_late()
    return done


@pytest.mark.parametrize("hms", ["4.0.1", "3.1.3"], indirect=True)
def test_a_dag_that_is_killed_twenty_times_copies_every_change_once(
    hms: EmbeddedMetastore, busy: BusyTable, airflow: AirflowProcesses
) -> None:
    begun = time.monotonic()

    def have_seen_all() -> bool:
        """Return whether both are at the end; a schedule would also poll from time to time."""
        if all(run["state"] in ENDED for run in airflow.api.runs(DAG)):
            airflow.api.trigger(DAG)
        ref = TableRef.parse(busy.table)
        with MetastoreClient(hms.options) as client:
            now = Snapshot.take(client, [ref]).write_ids[ref.full_name]
            consumers = known_consumers(client.get_table(ref), now, None)
        return [one.behind for one in consumers] == [0, 0]

    busy.write()
    wait_until("both have copied the first change", have_seen_all, 300, every=2)
    durations = [task["duration"] or 0 for task in airflow.api.task_instances(DAG)]
    chaos = Chaos(airflow, Random(SEED), median(durations))
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        life = pool.submit(live, busy, stop)
        try:
            while chaos.killed.total() < KILLS and not life.done():
                chaos.strike()
        finally:
            stop.set()
        done = life.result()
    wait_until("both have copied all", have_seen_all, 600, every=2)
    wait_until("no ghost runs", lambda: airflow.task_processes() == [], 120)
    tries = sum(task["try_number"] - 1 for task in airflow.api.task_instances(DAG))
    print(
        f"{dict(chaos.killed)} killed, {tries} tries again in {len(airflow.api.runs(DAG))} runs, "
        f"{busy.changes.total()} changes, {dict(done)}, {time.monotonic() - begun:.0f} s"
    )
    assert tries > 0
    assert busy.problems() == []
