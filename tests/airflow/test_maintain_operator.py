"""Maintenance of many tables as one task of a worker that has neither Java nor a Spark connection."""

import json
import logging
from collections.abc import Mapping
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_hiveacid import Budget, HiveAcidCompactOperator, HiveAcidMaintainOperator, WorkerLimits
from airflow_hiveacid.hooks.tasks import HiveAcidTaskTrouble
from hiveacid.errors import AccessRefused, InvalidJob
from hiveacid.jobs.maintenance_jobs import CompactJob, parse_needs
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.owner import find_open_transactions
from tests.compaction.written_table import WrittenTable, expected_rows, twelve_deltas

TOKEN = "d/r/t/-1"


@pytest.fixture
def tables(
    client: MetastoreClient, database: str, monkeypatch: pytest.MonkeyPatch
) -> list[WrittenTable]:
    host, port = client.options.uris.removeprefix("thrift://").split(":")
    connection = {"conn_type": "hive_acid_metastore", "host": host, "port": int(port)}
    monkeypatch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", json.dumps(connection))
    monkeypatch.setenv("PATH", "")
    for name in ("JAVA_HOME", "SPARK_HOME", "AIRFLOW_CONN_SPARK_DEFAULT"):
        monkeypatch.delenv(name, raising=False)
    return [twelve_deltas(client, f"{database}.{name}") for name in ("a", "b")]


FAKE = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)


@FAKE
def test_the_worker_maintains_all_tables(
    tables: list[WrittenTable],
    database: str,
    context: dict[str, Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    operator = HiveAcidMaintainOperator(task_id="t", tables=f"{database}.*")
    with caplog.at_level(logging.INFO):
        report = operator.execute(context)
    assert json.loads(json.dumps(report)) == report
    assert [each["compacted"] for each in report["tables"]] == [1, 1]
    for table in tables:
        assert table.rows() == expected_rows()
        assert len(table.directories()) == 1
    actions = [
        (json.loads(record.message)["job"], json.loads(record.message)["outcome"])
        for record in caplog.records
        if record.name == "airflow_hiveacid.audit"
    ]
    assert sorted(actions) == [("CleanJob", "done")] * 2 + [("CompactJob", "done")] * 2


@FAKE
def test_after_a_failure_the_report_of_the_others_is_available(
    tables: list[WrittenTable], database: str, context: dict[str, Any]
) -> None:
    next(tables[0].root.rglob("bucket_00000")).write_bytes(b"no ORC file")
    operator = HiveAcidMaintainOperator(task_id="t", tables=[f"{database}.a", f"{database}.b"])
    with pytest.raises(AirflowFailException, match=r"1 of 2 tables failed \(.*\.a\)"):
        operator.execute(context)
    report = context["ti"].xcoms["return_value"]
    done = {each["table"]: each["compacted"] for each in report["tables"]}
    assert done == {str(tables[0].ref): 0, str(tables[1].ref): 1}
    assert tables[1].rows() == expected_rows()


@FAKE
def test_large_work_is_returned_for_tasks_of_spark(
    tables: list[WrittenTable], database: str, context: dict[str, Any]
) -> None:
    operator = HiveAcidMaintainOperator(
        task_id="t", tables=f"{database}.*", worker={"max_encoded_bytes": 1}, budget=Budget()
    )
    report = operator.execute(context)
    groups = [parse_needs(group) for group in report["on_spark"]]
    assert sorted(group[0].table for group in groups) == [str(table.ref) for table in tables]
    job = CompactJob(target="{{ task.need }}", worker=WorkerLimits(max_encoded_bytes=1 << 30))
    for group in report["on_spark"]:
        compact = HiveAcidCompactOperator(task_id="c", job=job, need=group)
        assert compact.execute(context)["partitions"][0]["outcome"] == "compacted"


@FAKE
def test_a_killed_task_ends_its_work_and_its_transactions(
    tables: list[WrittenTable],
    database: str,
    context: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    operator = HiveAcidMaintainOperator(task_id="t", tables=f"{database}.*", parallel=1)
    before = [table.directories() for table in tables]
    open_txn, killed = MetastoreClient.open_txn, []

    def kill(client: MetastoreClient, *given: Any, **more: Any) -> int:
        txn = open_txn(client, *given, **more)
        if not killed:
            killed.append(txn)
            operator.on_kill()
        return txn

    monkeypatch.setattr(MetastoreClient, "open_txn", kill)
    with pytest.raises(HiveAcidTaskTrouble, match="TaskKilled"):
        operator.execute(context)
    assert killed
    assert [table.directories() for table in tables] == before
    for table in tables:
        tokens = CompactJob(target=str(table.ref), run_token=TOKEN).tokens
        assert find_open_transactions(table.client, *tokens) == []
        assert table.client.show_locks(table.ref) == []


@FAKE
def test_a_task_that_is_killed_before_its_work_does_not_begin_it(
    tables: list[WrittenTable],
    database: str,
    context: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    operator = HiveAcidMaintainOperator(task_id="t", tables=f"{database}.*")
    before = [table.directories() for table in tables]
    maintenance = operator._maintenance
    monkeypatch.setattr(operator, "_maintenance", lambda: (operator.on_kill(), maintenance())[1])
    with pytest.raises(HiveAcidTaskTrouble, match="TaskKilled"):
        operator.execute(context)
    assert [table.directories() for table in tables] == before


@FAKE
def test_a_refused_table_does_not_stop_the_others(
    tables: list[WrittenTable],
    database: str,
    context: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(job: CompactJob, context: Mapping[str, Any]) -> None:
        if job.target == str(tables[0].ref):
            raise AccessRefused(f"{job.target} is refused.")

    monkeypatch.setattr("airflow_hiveacid.operators.maintenance.require_job_access", refuse)
    operator = HiveAcidMaintainOperator(task_id="t", tables=f"{database}.*")
    with pytest.raises(AirflowFailException, match="AccessRefused"):
        operator.execute(context)
    assert len(tables[0].directories()) == 12
    assert len(tables[1].directories()) == 1


@pytest.mark.parametrize(
    "invalid",
    [{"tables": "orders"}, {"tables": []}, {"tables": "a.*", "parallel": 0}],
)
def test_invalid_settings_are_refused_while_the_dag_is_parsed(invalid: dict[str, Any]) -> None:
    with pytest.raises(InvalidJob):
        HiveAcidMaintainOperator(task_id="t", **invalid)


def test_templates_are_checked_when_the_task_runs() -> None:
    operator = HiveAcidMaintainOperator(
        task_id="t", tables="{{ params.tables }}", budget={"max_bytes": "{{ params.bytes }}"}
    )
    assert operator.tables == "{{ params.tables }}"
