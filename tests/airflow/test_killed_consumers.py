"""Consumers that are killed at random copy every change of a busy table once."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from hiveacid.jobs.job_json import to_json
from tests.airflow.busy_table import BusyTable, live_through

# A seed that finds a mistake is written down here, and stays.
FAILED: tuple[int, ...] = ()
SEEDS = int(os.environ.get("CONSUMERS", "3"))
# The work of an Airflow worker for a consumer's task, in a process that can be killed.
WORKER = """\
import sys
from types import SimpleNamespace
from airflow_hiveacid import HiveAcidChangesOperator
from hiveacid.jobs.job_json import from_json
nothing = lambda **_: None
ti = SimpleNamespace(
    dag_id="d", run_id="r", task_id="t", map_index=-1, try_number=1,
    xcom_push=nothing, xcom_pull=nothing,
)
task = SimpleNamespace(outlets=[], inlets=[])
consumer, job = sys.argv[1:]
HiveAcidChangesOperator(task_id="t", consumer=consumer, job=from_json(job)).execute(
    {"ti": ti, "task": task}
)
"""
SPARK_SETTINGS = "-Dspark.ui.enabled=false -Dspark.log.level=ERROR -Dspark.sql.shuffle.partitions=2"


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_a_killed_consumer_copies_every_change_once(
    spark: Any, hms: Any, client: Any, database: str
) -> None:
    busy = BusyTable(spark, client, database, Random(1), ["log"])
    live_through(busy, 2)
    assert busy.problems() == []
    assert busy.changes


@pytest.mark.consumers
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3", "4.0.1", "3.1.3"], indirect=True)
@pytest.mark.parametrize("seed", [*FAILED, *range(SEEDS)])
def test_consumers_that_are_killed_twenty_times_copy_every_change_once(
    spark: Any, hms: Any, client: Any, database: str, seed: int
) -> None:
    busy = BusyTable(spark, client, database, Random(seed))
    live_through(busy, 20)
    assert busy.problems() == []


@pytest.mark.consumers
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("hms", ["4.0.1", "3.1.3"], indirect=True)
def test_a_worker_that_is_killed_twenty_times_copies_every_change_once(
    spark: Any,
    hms: Any,
    client: Any,
    database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection = {"conn_type": "spark", "host": "local[2]"}
    options = f"{os.environ['SPARK_SUBMIT_OPTS']} {SPARK_SETTINGS}"
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", options)
    busy = BusyTable(spark, client, database, Random(7), ["log"])
    job = to_json(busy.job("log"))

    def run_for(seconds: float) -> bool:
        """Run the consumer; whether it came to its end."""
        with (tmp_path / "worker.log").open("a") as log:
            worker = subprocess.Popen(
                [sys.executable, "-c", WORKER, "log", job],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                return worker.wait(seconds) == 0
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(worker.pid, signal.SIGKILL)
                worker.wait()
                return False

    busy.write()
    begun = time.monotonic()
    assert run_for(600), (tmp_path / "worker.log").read_text()[-4000:]
    whole = time.monotonic() - begun
    killed = 0
    while killed < 20:
        for _ in range(busy.random.randrange(1, 3)):
            busy.write()
        killed += not run_for(whole * busy.random.uniform(0.4, 1.1))
        if busy.random.random() < 0.3:
            busy.maintain()
        if busy.random.random() < 0.4:
            busy.end_late()
    with busy.in_process():
        busy.catch_up()
    assert busy.problems() == []
