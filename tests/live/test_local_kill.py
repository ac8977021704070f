"""A merge with its driver on the worker, whose worker dies: one retry, green, applied once."""

import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.txn.owner import find_open_transactions
from hiveacid.rules.names import TableRef
from hiveacid.rules.run_tokens import marked_token
from tests.live.airflow_api import wait_until
from tests.live.airflow_processes import AirflowProcesses, TaskProcess
from tests.live.applied import applied, committed_write_ids
from tests.live.table_lock import TableLock
from tests.rows import rows_of

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

DAG = "add_bookings"
TABLE = TableRef("bank", "accounts")


@pytest.fixture(scope="module")
def airflow(
    tmp_path_factory: pytest.TempPathFactory, connections: Mapping[str, Mapping[str, Any]]
) -> Iterator[AirflowProcesses]:
    dag = Path(__file__).parent / "dags" / f"{DAG}.py"
    home = tmp_path_factory.mktemp("local_kill") / "airflow"
    with AirflowProcesses(home, [dag], connections=connections) as airflow:
        airflow.wait_for_dags(DAG)
        airflow.api.unpause(DAG)
        yield airflow


@pytest.fixture
def accounts(hms4: EmbeddedMetastore) -> Iterator[SimpleNamespace]:
    with MetastoreClient(hms4.options) as client:
        client.create_database(TABLE.database)
        columns = [HiveColumn("account", "bigint"), HiveColumn("balance", "bigint")]
        client.create_table(HiveTable.new(TABLE, columns))
        yield SimpleNamespace(
            client=client,
            rows=lambda: rows_of(hms4.uri, str(TABLE)),
            committed=lambda: committed_write_ids(client, TABLE),
            applied=lambda: applied(client, TABLE),
            # It excludes other writers.
            locked=lambda: TableLock(client, TABLE),
            open=lambda token: find_open_transactions(client, marked_token(token, [str(TABLE)])),
        )
        client.drop_database(TABLE.database, cascade=True)


def one_task(airflow: AirflowProcesses) -> TaskProcess:
    """The task at work, once it has started Spark."""
    tasks: list[TaskProcess] = []

    def has_started() -> bool:
        tasks[:] = [task for task in airflow.task_processes() if task.runner and task.programs]
        return bool(tasks)

    wait_until("the task has started Spark", has_started, 120, every=0.1)
    return tasks[0]


def while_spark_starts(
    airflow: AirflowProcesses, accounts: SimpleNamespace, token: str, kill: Callable[..., None]
) -> None:
    kill(one_task(airflow))
    assert accounts.open(token) == []


def while_it_waits_for_its_lock(
    airflow: AirflowProcesses, accounts: SimpleNamespace, token: str, kill: Callable[..., None]
) -> None:
    with accounts.locked() as lock:
        task = one_task(airflow)
        lock.let_open(lambda: bool(accounts.open(token)))
        kill(task)


def after_its_commit(
    airflow: AirflowProcesses, accounts: SimpleNamespace, token: str, kill: Callable[..., None]
) -> None:
    before = accounts.committed()
    with accounts.locked() as lock:
        task = one_task(airflow)
        lock.let_open(lambda: bool(accounts.open(token)))
        # The task cannot hear of the end of its driver.
        assert task.runner is not None
        os.kill(task.runner, signal.SIGSTOP)
    wait_until("it has committed", lambda: accounts.committed() > before, 120, every=0.1)
    kill(task)


CASES = [
    (while_spark_starts, TaskProcess.kill_worker),
    (while_it_waits_for_its_lock, TaskProcess.kill_worker),
    # Its code, and its driver, go on as ghosts.
    (while_it_waits_for_its_lock, TaskProcess.kill_supervisor),
    (after_its_commit, TaskProcess.kill_worker),
]


@pytest.mark.parametrize(
    ("moment", "kill"), CASES, ids=[f"{moment.__name__}-{kill.__name__}" for moment, kill in CASES]
)
def test_a_merge_whose_worker_dies_is_green_after_one_retry_and_applied_once(
    moment, kill, airflow, accounts, tmp_path
):
    feed = tmp_path / "feed.json"
    feed.write_text("\n".join(json.dumps({"account": n, "cents": 10 * n}) for n in range(5)))
    conf = {"table": str(TABLE), "feed": str(feed)}
    # Something to add to.
    airflow.api.wait_for_run(DAG, airflow.api.trigger(DAG, conf))
    assert accounts.rows() == [{"account": n, "balance": 10 * n} for n in range(5)]

    run_id = airflow.api.trigger(DAG, conf)
    token = f"{DAG}/{run_id}/merge/-1"
    moment(airflow, accounts, token, kill)
    airflow.api.wait_for_run(DAG, run_id)

    assert accounts.rows() == [{"account": n, "balance": 20 * n} for n in range(5)]
    assert airflow.api.task(DAG, run_id, "merge")["try_number"] == 2
    (write_id,) = accounts.applied()[token]
    assert accounts.committed() == {write_id} | set().union(*accounts.applied().values())
    report = airflow.api.xcom(DAG, run_id, "merge")
    assert report["already_done"] is (moment is after_its_commit)
    assert report["write_ids"] == {str(TABLE): write_id}
    assert airflow.api.xcom(DAG, run_id, "merge", "write_ids") == {str(TABLE): write_id}
    assert airflow.api.xcom(DAG, run_id, "merge", "txn_id") == report["txn_id"]
    assert accounts.open(token) == []
    wait_until("no ghost runs", lambda: airflow.task_processes() == [], 60)
