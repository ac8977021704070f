"""Compactions that turn out to need Spark for some partitions after the worker has done others."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid import HiveAcidCompactOperator, HiveAcidSqlOperator
from airflow_hiveacid.hooks.tasks import HiveAcidTaskConflict
from hiveacid.errors import LockTimeout
from hiveacid.jobs import CompactJob
from hiveacid.jobs.report import CompactReport, ErrorReport, PartitionReport, ScriptReport
from hiveacid.metastore.client import MetastoreClient
from tests.airflow.cluster_task import deferred_by, first_event, rebuilt
from tests.airflow.conftest import SparkSubmit
from tests.compaction.written_table import WrittenTable
from tests.fakes.kubernetes import KubernetesServer
from tests.fakes.spark_cluster import SparkCluster

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)


@pytest.fixture
def table(
    spark_submit: SparkSubmit,
    client: MetastoreClient,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """A table of which the partition p=1 is small, and p=2 must be sorted by Spark."""
    host, port = client.options.uris.removeprefix("thrift://").split(":")
    connection = {"conn_type": "hive_acid_metastore", "host": host, "port": int(port)}
    monkeypatch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", json.dumps(connection))
    small, unsorted = WrittenTable.create_partitions(client, f"{database}.t", "p=1", "p=2")
    small.insert(1), small.insert(2)
    unsorted.insert(3), unsorted.insert_in_disorder()
    return str(small.ref)


def partition(table: str, name: str, outcome: str, **more: Any) -> PartitionReport:
    return PartitionReport(table=table, partition=name, outcome=outcome, reason="major", **more)


def outcomes(report: dict[str, Any]) -> list[tuple[str, str, int]]:
    return [(each["partition"], each["outcome"], each["rows"]) for each in report["partitions"]]


def test_spark_gets_only_the_rest_and_the_report_has_both_parts(
    table: str, spark_submit: SparkSubmit, context: dict[str, Any]
) -> None:
    done = partition(table, "p=2", "compacted", rows=7)
    spark_submit.will(report=CompactReport(target=table, partitions=(done,)).to_dict())
    job = CompactJob(target=table, type="major")
    report = HiveAcidCompactOperator(task_id="t", job=job).execute(context)
    assert spark_submit.seen.job["partitions"] == ["p=2"]
    assert outcomes(report) == [("p=1", "compacted", 2), ("p=2", "compacted", 7)]


def test_the_task_fails_with_the_failures_of_both_parts(
    table: str, spark_submit: SparkSubmit, context: dict[str, Any]
) -> None:
    error = ErrorReport.of(LockTimeout("Transaction 7 waited."))
    failed = partition(table, "p=2", "failed", error=error)
    on_spark = CompactReport(target=table, partitions=(failed,), error=error)
    spark_submit.will(report=on_spark.to_dict(), exit_code=error.exit_code)
    job = CompactJob(target=table, type="major")
    with pytest.raises(
        HiveAcidTaskConflict, match=f"1 of 2 failed \\({table}/p=2\\): Transaction 7"
    ):
        HiveAcidCompactOperator(task_id="t", job=job).execute(context)


def test_sql_reports_both_parts(
    table: str, spark_submit: SparkSubmit, context: dict[str, Any]
) -> None:
    again = partition(table, "p=1", "skipped"), partition(table, "p=2", "compacted", rows=7)
    statement = CompactReport(target=table, partitions=again)
    spark_submit.will(report=ScriptReport.of(table, [statement]).to_dict())
    operator = HiveAcidSqlOperator(task_id="t", sql=f"ALTER TABLE {table} COMPACT 'major'")
    (reported,) = operator.execute(context)["statements"]
    assert outcomes(reported["compaction"]) == [("p=1", "compacted", 2), ("p=2", "compacted", 7)]


@pytest.fixture
def on_kubernetes(
    table: str, context: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Any:
    def push(key: str, value: Any, **_: Any) -> None:
        context["ti"].xcom_push(key, value)

    # The triggerer's way to the same XComs.
    monkeypatch.setattr("airflow.sdk.execution_time.xcom.XCom.set", push)
    with KubernetesServer() as kubernetes:
        yield SparkCluster(tmp_path, kubernetes, monkeypatch)


def test_a_deferred_task_reports_both_parts(
    table: str, on_kubernetes: SparkCluster, context: dict[str, Any]
) -> None:
    def operator() -> HiveAcidCompactOperator:
        job = CompactJob(target=table, type="major")
        return HiveAcidCompactOperator(
            task_id="t", job=job, deploy_mode="cluster", deferrable=True, poll_seconds=0.01
        )

    deferred = deferred_by(operator(), context)
    (application,) = on_kubernetes.applications
    on_kubernetes.begin(application)
    done = partition(table, "p=2", "compacted", rows=7)
    on_kubernetes.report(application, CompactReport(target=table, partitions=(done,)))
    on_kubernetes.kubernetes.end(application)
    event = asyncio.run(first_event(rebuilt(deferred, context)))
    # Another worker continues.
    resume: Callable[..., Any] = getattr(operator(), deferred.method_name)
    assert outcomes(resume(context, event=event)) == [
        ("p=1", "compacted", 2),
        ("p=2", "compacted", 7),
    ]
