"""Compaction and cleaning as tasks of a worker that has neither Java nor a Spark connection."""

import json
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from airflow_hiveacid import (
    HiveAcidCleanOperator,
    HiveAcidCompactOperator,
    HiveAcidSqlOperator,
    WorkerLimits,
)
from airflow_hiveacid.hooks.tasks import HiveAcidTaskTrouble
from hiveacid.jobs import CleanJob, CompactJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.owner import find_open_transactions
from tests.compaction.written_table import WrittenTable, expected_rows, twelve_deltas

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)


@pytest.fixture
def table(client: MetastoreClient, database: str, monkeypatch: pytest.MonkeyPatch) -> WrittenTable:
    host, port = client.options.uris.removeprefix("thrift://").split(":")
    connection = {"conn_type": "hive_acid_metastore", "host": host, "port": int(port)}
    monkeypatch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", json.dumps(connection))
    monkeypatch.setenv("PATH", "")
    for name in ("JAVA_HOME", "SPARK_HOME", "AIRFLOW_CONN_SPARK_DEFAULT"):
        monkeypatch.delenv(name, raising=False)
    return twelve_deltas(client, f"{database}.t")


@pytest.mark.parametrize("run_in", ["auto", "worker"])
def test_a_small_table_is_compacted_and_cleaned_by_the_worker(
    table: WrittenTable, context: dict[str, Any], run_in: str
) -> None:
    job = CompactJob(target=str(table.ref), run_in=run_in)
    report = HiveAcidCompactOperator(task_id="t", job=job).execute(context)
    (done,) = report["partitions"]
    assert (done["outcome"], done["type"], done["rows"]) == ("compacted", "major", 548)
    assert json.loads(json.dumps(report)) == report
    xcoms = context["ti"].xcoms
    assert (xcoms["txn_id"], xcoms["txn_ids"]) == (done["txn_id"], [done["txn_id"]])
    assert "application_id" not in xcoms
    HiveAcidCleanOperator(task_id="c", job=CleanJob(target=str(table.ref), retention="0")).execute(
        context
    )
    assert table.directories() == done["published"]
    assert table.rows() == expected_rows()


def test_sql_that_compacts_a_small_table_runs_in_the_worker(
    table: WrittenTable, context: dict[str, Any]
) -> None:
    compact = f"ALTER TABLE {table.ref} COMPACT"
    sql = f"{compact} 'major'; ALTER TABLE {table.ref} SET TBLPROPERTIES ('a' = 'b'); {compact} 'minor'"
    report = HiveAcidSqlOperator(task_id="t", sql=sql).execute(context)
    major, properties, minor = (each["compaction"] or each["run"] for each in report["statements"])
    assert [each["outcome"] for each in major["partitions"]] == ["compacted"]
    assert properties["job"] == "table_properties"
    assert [each["outcome"] for each in minor["partitions"]] == ["skipped"]
    assert "application_id" not in context["ti"].xcoms
    assert table.rows() == expected_rows()
    again = HiveAcidSqlOperator(task_id="t", sql=sql).execute(context)
    compactions = [each["compaction"] for each in again["statements"] if each["compaction"]]
    assert [part["outcome"] for each in compactions for part in each["partitions"]] == [
        "skipped",
        "skipped",
    ]


def test_sql_with_rows_or_a_large_compaction_requires_a_spark_connection(
    table: WrittenTable, context: dict[str, Any]
) -> None:
    compact = f"ALTER TABLE {table.ref} COMPACT 'major'"
    before = table.directories()
    for sql in (f"{compact}; TRUNCATE TABLE {table.ref}", f"{compact} ORDER BY id"):
        rebalance = sql.replace("'major' ORDER", "'rebalance' ORDER")
        with pytest.raises(AirflowException, match="no Spark connection 'spark_default'"):
            HiveAcidSqlOperator(task_id="t", sql=rebalance).execute(context)
    assert table.directories() == before


def test_a_killed_task_ends_its_work_and_its_transaction(
    table: WrittenTable, context: dict[str, Any]
) -> None:
    job = CompactJob(target=str(table.ref), type="major", run_token="d/r/t/-1")
    operator = HiveAcidCompactOperator(task_id="t", job=job)
    before = table.directories()

    def kill(key: str, value: object) -> None:
        if key == "txn_ids":
            operator.on_kill()

    context["ti"].xcom_push = kill
    with pytest.raises(HiveAcidTaskTrouble, match="TaskKilled"):
        operator.execute(context)
    assert table.directories() == before
    assert find_open_transactions(table.client, *job.tokens) == []
    assert table.client.show_locks(table.ref) == []
    context["ti"].xcom_push = lambda key, value: None
    again = HiveAcidCompactOperator(task_id="t", job=job).execute(context)
    assert again["partitions"][0]["outcome"] == "compacted"


def test_work_beyond_the_limits_requires_a_spark_connection(
    table: WrittenTable, context: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    job = CompactJob(target=str(table.ref), worker=WorkerLimits(max_encoded_bytes=1))
    with pytest.raises(AirflowException, match="no Spark connection 'spark_default'"):
        HiveAcidCompactOperator(task_id="t", job=job).execute(context)
    assert "On Spark: " in capsys.readouterr().out


def test_a_corrupt_file_fails_the_task_of_the_worker_for_good(
    table: WrittenTable, context: dict[str, Any]
) -> None:
    next(table.root.rglob("bucket_00000")).write_bytes(b"no ORC file")
    job = CompactJob(target=str(table.ref), run_in="worker")
    with pytest.raises(AirflowFailException, match="CorruptFile"):
        HiveAcidCompactOperator(task_id="t", job=job).execute(context)
    assert table.client.show_locks(table.ref) == []
