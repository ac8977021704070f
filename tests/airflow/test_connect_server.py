"""Operators whose jobs run on a server of Spark, by a worker without Java."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_hiveacid import HiveAcidInsertOperator, HiveAcidUpdateOperator, QuerySource
from airflow_hiveacid.hooks.tasks import HiveAcidTaskConflict, HiveAcidTaskTrouble
from hiveacid.jobs import InsertJob, UpdateJob
from hiveacid.jobs.job_json import to_json
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.locks import Operation, Target
from hiveacid.rules.names import TableRef
from tests.door.servers import CONNECT, REFUSED, Server, by_connect
from tests.engine.acid_tables import create, left_behind
from tests.rows import rows_of

# Spark's own client of the metastore cannot speak to version 4.
pytestmark = [pytest.mark.server, pytest.mark.parametrize("hms", ["3.1.3"], indirect=True)]

# The work of an Airflow worker for a task, in a process that can be killed.
WORKER = """\
import json, sys
from types import SimpleNamespace
from airflow_hiveacid import HiveAcidUpdateOperator
from hiveacid.jobs.job_json import from_json
ti = SimpleNamespace(
    dag_id="d", run_id="r", task_id=sys.argv[1], map_index=-1, xcom_push=lambda key, value: None
)
context = {"ti": ti, "task": SimpleNamespace(outlets=[])}
print(json.dumps(HiveAcidUpdateOperator(task_id="t", job=from_json(sys.argv[2])).execute(context)))
"""
# A statement that Spark works on for hours.
ENDLESS = QuerySource(
    "SELECT int(a.id) AS id, 'x' AS v, 0 AS n FROM range(1000000) a JOIN range(1000000) b"
    " ON a.id * b.id = -1",
    trusted=True,
)


@pytest.fixture
def server(
    hms: EmbeddedMetastore,
    client: MetastoreClient,
    database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    eventually: Callable[..., None],
) -> Iterator[Server]:
    create(client, f"{database}.t", {"id": "int", "v": "string", "n": "int"})
    server = Server(CONNECT, hms, tmp_path)
    host, port = hms.uri.removeprefix("thrift://").split(":")
    metastore = {"conn_type": "hive_acid_metastore", "host": host, "port": int(port)}
    monkeypatch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", json.dumps(metastore))
    connect_as("anna", server, monkeypatch)
    eventually("the server accepts connections", server.accepts, 120)
    by_connect(server, "anna", [f"INSERT INTO {database}.t VALUES (1, 'one', 0), (2, 'two', 0)"])
    yield server
    server.stop()


def connect_as(user: str, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    spark = {
        "conn_type": "spark_connect",
        "host": "127.0.0.1",
        "port": server.port,
        "login": user,
    }
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(spark))


@pytest.fixture
def rows(hms: EmbeddedMetastore, database: str) -> Callable[[], list[tuple[Any, ...]]]:
    return lambda: [tuple(row.values()) for row in rows_of(hms.uri, f"{database}.t")]


def add_one(database: str, **more: Any) -> UpdateJob:
    """It matters how often this is applied."""
    return UpdateJob(
        target=f"{database}.t", set={"n": "n + 1"}, all_rows=True, run_in="spark", **more
    )


def test_a_worker_without_java_changes_tables_as_its_user(
    server: Server,
    client: MetastoreClient,
    database: str,
    context: dict[str, Any],
    rows: Callable[[], list[tuple[Any, ...]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    reports = [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", WORKER, "update", to_json(add_one(database))],
                env=environment | {"PATH": "/nowhere"},
                stdout=subprocess.PIPE,
                check=True,
                timeout=300,
            ).stdout.splitlines()[-1]
        )
        for _ in range(2)
    ]
    assert [report["rows_updated"] for report in reports] == [2, 2]
    assert [report["already_done"] for report in reports] == [False, True]
    assert rows() == [(1, "one", 1), (2, "two", 1)]

    wrong = UpdateJob(target=f"{database}.t", set={"n": "n / 0"}, where="id = 1", run_in="spark")
    with pytest.raises(AirflowFailException) as failed:
        HiveAcidUpdateOperator(task_id="wrong", job=wrong).execute(context)
    assert "InvalidJob: " in str(failed.value)
    assert "DIVIDE_BY_ZERO" in str(failed.value)
    with pytest.raises(AirflowFailException, match="driver_memory, but Spark connection"):
        HiveAcidUpdateOperator(task_id="memory", job=add_one(database), driver_memory="2g").execute(
            context
        )
    connect_as(REFUSED, server, monkeypatch)
    with pytest.raises(AirflowFailException) as failed:
        HiveAcidUpdateOperator(task_id="refused", job=add_one(database)).execute(context)
    assert f"AccessRefused: spark:{REFUSED} may not update" in str(failed.value)
    assert "Ask those who run" in str(failed.value)
    assert rows() == [(1, "one", 1), (2, "two", 1)]
    assert left_behind(client) == []


def test_a_change_is_applied_once_after_its_worker_was_killed(
    server: Server,
    client: MetastoreClient,
    database: str,
    context: dict[str, Any],
    rows: Callable[[], list[tuple[Any, ...]]],
    monkeypatch: pytest.MonkeyPatch,
    eventually: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    target = Target(TableRef(database, "t"), Operation.UPDATE)

    def kill_waiting_worker(task: str) -> None:
        worker = subprocess.Popen([sys.executable, "-c", WORKER, task, to_json(add_one(database))])
        before = len(left_behind(client))
        eventually("the statement waits", lambda: len(left_behind(client)) > before)
        assert worker.poll() is None
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()

    def retry(task: str) -> dict[str, Any]:
        context["ti"].task_id = task
        return HiveAcidUpdateOperator(task_id="t", job=add_one(database)).execute(context)

    # The next attempt follows the statement.
    with ThreadPoolExecutor(1) as threads:
        with Transaction(client, targets=[target]):
            kill_waiting_worker("followed")
            attempt = threads.submit(retry, "followed")
            eventually(
                "the next attempt follows it",
                lambda: "An earlier attempt has sent the statement" in capsys.readouterr().out,
            )
        report = attempt.result(120)
    assert (report["rows_updated"], report["already_done"]) == (2, False)
    assert rows() == [(1, "one", 1), (2, "two", 1)]

    # It ends meanwhile.
    with Transaction(client, targets=[target]):
        kill_waiting_worker("ended")
    eventually("the statement has ended", lambda: left_behind(client) == [])
    assert retry("ended")["rows_updated"] == 2
    assert rows() == [(1, "one", 2), (2, "two", 2)]

    # It ends meanwhile, and no server remembers the statement; another user has other sessions.
    with Transaction(client, targets=[target]):
        kill_waiting_worker("forgotten")
    eventually("the statement has ended", lambda: left_behind(client) == [])
    connect_as("bert", server, monkeypatch)
    assert retry("forgotten")["already_done"]
    assert rows() == [(1, "one", 3), (2, "two", 3)]

    # Both run, and one ends the other.
    connect_as("anna", server, monkeypatch)
    with Transaction(client, targets=[target]):
        kill_waiting_worker("raced")
    connect_as("bert", server, monkeypatch)
    for _ in range(3):
        with suppress(HiveAcidTaskTrouble, HiveAcidTaskConflict):
            assert retry("raced")["rows_updated"] == 2
            break
    assert rows() == [(1, "one", 4), (2, "two", 4)]
    eventually("both statements have ended", lambda: left_behind(client) == [])
    assert rows() == [(1, "one", 4), (2, "two", 4)]


def test_a_killed_task_interrupts_its_statement(
    server: Server,
    client: MetastoreClient,
    database: str,
    context: dict[str, Any],
    rows: Callable[[], list[tuple[Any, ...]]],
    eventually: Callable[..., None],
) -> None:
    job = InsertJob(target=f"{database}.t", source=ENDLESS, run_in="spark")
    operator = HiveAcidInsertOperator(task_id="t", job=job)
    with ThreadPoolExecutor(1) as threads:
        attempt = threads.submit(operator.execute, context)
        eventually("the transaction is open", lambda: left_behind(client) != [])
        operator.on_kill()
        with pytest.raises(HiveAcidTaskTrouble, match="TaskKilled"):
            attempt.result(60)
    eventually("the transaction is aborted", lambda: left_behind(client) == [])
    assert len(rows()) == 2
    # The next attempt does not follow an interrupted statement.
    update = HiveAcidUpdateOperator(task_id="t", job=add_one(database))
    holder = Transaction(client, targets=[Target(TableRef(database, "t"), Operation.UPDATE)])
    with ThreadPoolExecutor(1) as threads, holder:
        before = len(left_behind(client))
        attempt = threads.submit(update.execute, context)
        eventually("the statement waits", lambda: len(left_behind(client)) > before)
        update.on_kill()
        with pytest.raises(HiveAcidTaskTrouble, match="TaskKilled"):
            attempt.result(60)
    assert rows() == [(1, "one", 0), (2, "two", 0)]
    again = HiveAcidUpdateOperator(task_id="t", job=add_one(database)).execute(context)
    assert (again["rows_updated"], again["already_done"]) == (2, False)
    assert rows() == [(1, "one", 1), (2, "two", 1)]
