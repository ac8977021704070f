"""A report in the folder of a table, where others may write, cannot name tables of other jobs."""

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import AssetAlias
from airflow.sdk.execution_time.context import OutletEventAccessors

from airflow_hiveacid import HiveAcidDeleteOperator
from airflow_hiveacid.assets import table_asset
from airflow_hiveacid.hooks.tasks import HiveAcidTaskRefused
from hiveacid.errors import CorruptFile
from hiveacid.jobs import CompactJob, DeleteJob, InsertJob, StreamJob, TransactionJob
from hiveacid.jobs.job import Job
from hiveacid.jobs.report import (
    CompactReport,
    Report,
    RunReport,
    ScriptReport,
    StatementReport,
    TableReport,
)
from hiveacid.jobs.script_job import ScriptJob
from hiveacid.jobs.sources import BatchSource, TableSource
from hiveacid.jobs.stream_job import StreamReport, StreamSource
from hiveacid.parser.script import to_jobs

OTHER = "hr.salaries"
ONE = DeleteJob(target="db.T", where="id = 1", run_in="spark")
TWO = TransactionJob(
    statements=[
        DeleteJob(target="db.T", where="id = 1"),
        InsertJob(target="db.u", source=TableSource("db.feed")),
    ],
    run_in="spark",
)
SCRIPT = ScriptJob.of(
    to_jobs("DELETE FROM db.t WHERE id = 1; ALTER TABLE db.u COMPACT 'minor'; CREATE DATABASE d")
)
STREAM = StreamJob(
    name="s",
    source=StreamSource("rate"),
    statements=[InsertJob(target="db.t", source=BatchSource())],
    checkpoint="/checkpoints",
)


def run_report(target: str = "db.t", *tables: str, **more: Any) -> RunReport:
    changed = tuple(TableReport(table=table) for table in tables)
    return RunReport(job="delete", target=target, tables=changed, **more)


@pytest.mark.parametrize(
    ("job", "report"),
    [
        (ONE, run_report()),
        (ONE, run_report("db.t", "db.t", write_ids={"db.t": 7})),
        (TWO, run_report("db.t", "db.t", "db.u", write_ids={"db.t": 7, "db.u": 8})),
        (CompactJob(target="db.t"), CompactReport(target="db.t")),
        (SCRIPT, ScriptReport.of("db.t", [run_report(), CompactReport(target="db.u")])),
        (SCRIPT, ScriptReport.of("db.t", [RunReport(job="create_database", target="d")])),
        (STREAM, StreamReport(target="db.t", tables=(TableReport(table="db.t"),))),
    ],
)
def test_the_report_of_the_job_is_accepted(job: Job, report: Report) -> None:
    job.require_own(report)


@pytest.mark.parametrize(
    ("job", "report"),
    [
        (ONE, run_report(OTHER)),
        (ONE, run_report("db.t", "db.t", OTHER)),
        (ONE, run_report("db.t", OTHER)),
        (ONE, run_report("db.t", write_ids={OTHER: 7})),
        (ONE, run_report("db.u")),
        (TWO, run_report("db.t", "db.u", OTHER)),
        (CompactJob(target="db.t"), CompactReport(target=OTHER)),
        (SCRIPT, ScriptReport.of("db.t", [run_report(), CompactReport(target=OTHER)])),
        (SCRIPT, ScriptReport.of("db.t", [run_report("db.t", OTHER)])),
        (SCRIPT, ScriptReport(target="db.t", statements=(StatementReport(),))),
        (STREAM, StreamReport(target="db.t", tables=(TableReport(table=OTHER),))),
    ],
)
def test_the_report_of_another_job_is_an_error(job: Job, report: Report) -> None:
    with pytest.raises(CorruptFile, match="which the job does not write"):
        job.require_own(report)


@pytest.mark.parametrize("forged", [run_report(OTHER), run_report("db.t", "db.t", OTHER)])
def test_a_forged_report_emits_no_event(spark_submit: Any, context: Any, forged: Report) -> None:
    spark_submit.will(report=forged.to_dict())
    events = OutletEventAccessors()
    outlets = [AssetAlias("written"), table_asset(OTHER, "hms:9083")]
    task = SimpleNamespace(outlets=outlets)
    dag = SimpleNamespace(timetable=object())
    with pytest.raises(HiveAcidTaskRefused, match="CorruptFile"):
        HiveAcidDeleteOperator(task_id="t", job=ONE).execute(
            context | {"task": task, "dag": dag, "outlet_events": events}
        )
    assert [events[outlet].extra for outlet in outlets] == [{}, {}]
    assert events[outlets[0]].asset_alias_events == []
