"""The operators with a real metastore, a real spark-submit and real files."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_hiveacid import (
    HiveAcidDeleteOperator,
    HiveAcidInsertOperator,
    HiveAcidMergeOperator,
    HiveAcidUpdateOperator,
    MatchedDelete,
    MatchedUpdate,
    NotMatchedInsert,
    PathSource,
)
from airflow_hiveacid.hooks.tasks import HiveAcidTaskTrouble
from hiveacid.drivers.java_start import DIE_WITH_PARENT
from hiveacid.jobs import DeleteJob, InsertJob, MergeJob, UpdateJob
from hiveacid.jobs.job_json import to_json
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.locks import queue_of
from hiveacid.metastore.txn.owner import find_open_transactions
from hiveacid.rules.names import TableRef
from hiveacid.rules.run_tokens import marked_token
from tests.rows import rows_of

TABLE = TableRef("airflow_end_to_end", "orders")
# By options of Java: a folder for SPARK_CONF_DIR would be part of the class path, which the archive
# of classes knows without it.
SPARK_SETTINGS = "-Dspark.ui.enabled=false -Dspark.log.level=ERROR -Dspark.sql.shuffle.partitions=2"
ROWS = [
    {"id": 1, "amount": 10, "at": "2026-11-20 09:00:00", "country": "de"},
    {"id": 2, "amount": 20, "at": "2026-11-20 09:30:00", "country": "de"},
    {"id": 3, "amount": 30, "at": "2026-11-20 10:00:00", "country": "fr"},
]
# It matters how often this is applied.
ADD_ONE = UpdateJob(target=str(TABLE), set={"amount": "amount + 1"}, all_rows=True, run_in="spark")
# The work of an Airflow worker for a task, in a process that can be killed.
WORKER = """\
import sys
from types import SimpleNamespace
from airflow_hiveacid import HiveAcidUpdateOperator
from hiveacid.jobs.job_json import from_json
ti = SimpleNamespace(
    dag_id="d", run_id="r", task_id=sys.argv[1], map_index=-1, xcom_push=lambda key, value: None
)
HiveAcidUpdateOperator(task_id="t", job=from_json(sys.argv[2])).execute({"ti": ti})
"""


def context(task_id):
    ti = SimpleNamespace(
        dag_id="d", run_id="r", task_id=task_id, map_index=-1, xcom_push=lambda key, value: None
    )
    return {"ti": ti, "task": SimpleNamespace(outlets=[])}


def feed(path, rows):
    path.write_text("\n".join(map(json.dumps, rows)))
    kinds = {"id": "INT", "amount": "INT", "at": "TIMESTAMP", "country": "STRING", "op": "STRING"}
    schema = ", ".join(f"{name} {kinds[name]}" for name in rows[0])
    return PathSource(path=str(path), format="json", schema=schema)


@pytest.fixture(scope="module")
def orders(hms4, fast_java, tmp_path_factory):
    """The table after an insert by its operator, on a worker whose clock is not UTC."""
    folder = tmp_path_factory.mktemp("orders")
    host, port = hms4.uri.removeprefix("thrift://").split(":")
    connection = {"conn_type": "hive_acid_metastore", "host": host, "port": int(port)}
    columns = [HiveColumn("id", "int"), HiveColumn("amount", "int"), HiveColumn("at", "timestamp")]
    with pytest.MonkeyPatch.context() as patch, MetastoreClient(hms4.options) as client:
        patch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", json.dumps(connection))
        patch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]"}')
        patch.setenv("SPARK_SUBMIT_OPTS", f"{os.environ['SPARK_SUBMIT_OPTS']} {SPARK_SETTINGS}")
        patch.setenv("TZ", "Asia/Tokyo")
        client.create_database(TABLE.database)
        client.create_table(
            HiveTable.new(TABLE, columns, partition_keys=[HiveColumn("country", "string")])
        )
        job = InsertJob(target=str(TABLE), source=feed(folder / "rows.json", ROWS), run_in="spark")
        insert = HiveAcidInsertOperator(task_id="insert", job=job)
        yield SimpleNamespace(
            metastore=hms4,
            client=client,
            insert=insert,
            report=insert.execute(context("insert")),
            rows=lambda: rows_of(hms4.uri, str(TABLE)),
            open=lambda token: find_open_transactions(client, marked_token(token, [str(TABLE)])),
        )
        client.drop_database(TABLE.database, cascade=True)


def counts(report):
    return [report[f"rows_{what}"] for what in ("inserted", "updated", "deleted")]


def drivers_of(pid):
    """Return the processes that are to die with a process."""
    wanted, pids = f"{DIE_WITH_PARENT}={pid}".encode(), []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdecimal() and wanted in (process / "environ").read_bytes().split(
                b"\0"
            ):
                pids.append(int(process.name))
        except OSError:
            continue
    return pids


def test_a_retry_after_a_commit_is_green_and_applies_nothing_twice(orders):
    again = orders.insert.execute(context("insert"))
    assert orders.rows() == ROWS
    assert again == orders.report | {"already_done": True, "seconds": again["seconds"]}


def test_each_operator_returns_the_report_of_what_it_did(orders, tmp_path):
    assert counts(orders.report) == [3, 0, 0]
    steps = ["launch", "session", "import", "open", "lock", "snapshot"]
    assert list(orders.report["seconds"])[: len(steps)] == steps
    assert list(orders.report["seconds"])[-2:] == ["commit", "end"]
    assert orders.report["partitions"] == ["country=de", "country=fr"]
    changes = feed(
        tmp_path / "changes.json",
        [
            ROWS[0] | {"amount": 11, "op": "upsert"},
            ROWS[1] | {"op": "delete"},
            {"id": 4, "amount": 40, "at": "2026-11-20 11:00:00", "country": "pl", "op": "upsert"},
        ],
    )
    merge = MergeJob(
        run_in="spark",
        target=str(TABLE),
        source=changes,
        on="t.country = s.country AND t.id = s.id",
        when=(
            MatchedDelete(condition="s.op = 'delete'"),
            MatchedUpdate(set={"amount": "s.amount"}),
            NotMatchedInsert(),
        ),
    )
    merged = HiveAcidMergeOperator(task_id="merge", job=merge).execute(context("merge"))
    assert counts(merged) == [1, 1, 1]

    # That of an update is looked at after the retry below, which wants a Spark of its own anyway.
    delete = DeleteJob(target=str(TABLE), where="id = 1 AND country = 'de'", run_in="spark")
    deleted = HiveAcidDeleteOperator(task_id="delete", job=delete).execute(context("delete"))
    assert (counts(deleted), deleted["already_done"]) == ([0, 0, 1], False)
    assert deleted["partitions"] == ["country=de"]

    assert [(row["id"], row["amount"], row["at"]) for row in orders.rows()] == [
        (3, 30, "2026-11-20 10:00:00"),
        (4, 40, "2026-11-20 11:00:00"),
    ]


def test_two_changes_of_one_row_fail_the_task_for_good(orders, tmp_path):
    before = orders.rows()
    last = before[-1]
    merge = MergeJob(
        run_in="spark",
        target=str(TABLE),
        source=feed(tmp_path / "changes.json", [last, last | {"amount": -1}]),
        on="t.id = s.id",
        when=(MatchedUpdate(),),
    )
    with pytest.raises(AirflowFailException) as failed:
        HiveAcidMergeOperator(task_id="twice", job=merge).execute(context("twice"))
    text = str(failed.value)
    assert text.startswith("CheckFailed: Several source rows match one row")
    assert f"id={last['id']}" in text
    assert "Make the source unique" in text
    assert failed.value.error.exit_code == 30
    assert orders.rows() == before
    assert orders.open("d/r/twice/-1") == []


def test_on_kill_stops_spark_and_aborts_the_transaction(orders, eventually):
    before, token = orders.rows(), "d/r/killed/-1"
    operator = HiveAcidUpdateOperator(task_id="killed", job=ADD_ONE)

    def kill():
        with MetastoreClient(orders.metastore.options) as client:
            marked = marked_token(token, [str(TABLE)])
            opened = lambda: find_open_transactions(client, marked)  # noqa: E731
            eventually("the driver opened a transaction", opened, seconds=300)
        operator.on_kill()

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(HiveAcidTaskTrouble, match="TaskKilled"):
        operator.execute(context("killed"))
    killer.join()
    assert orders.open(token) == []
    assert orders.client.show_locks(queue_of(TABLE)) == []
    assert drivers_of(os.getpid()) == []
    assert orders.rows() == before


def test_the_retry_of_a_task_whose_worker_was_killed_applies_once(orders, eventually):
    before, token = orders.rows(), "d/r/lost/-1"
    worker = subprocess.Popen([sys.executable, "-c", WORKER, "lost", to_json(ADD_ONE)])

    def is_open():
        assert worker.poll() is None
        return orders.open(token)

    eventually("the driver opened a transaction", is_open, seconds=300)
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    eventually("the driver ended with its worker", lambda: not drivers_of(worker.pid), seconds=300)
    assert orders.rows() == before

    operator = HiveAcidUpdateOperator(task_id="lost", job=ADD_ONE)
    report = operator.execute(context("lost"))
    assert (counts(report), report["already_done"]) == ([0, len(before), 0], False)
    assert orders.rows() == [row | {"amount": row["amount"] + 1} for row in before]
    assert orders.open(token) == []
