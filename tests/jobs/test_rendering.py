"""Braces in rendered values are literal: they do not let a value skip its check."""

from typing import Any

import pytest

from hiveacid.errors import UserError
from hiveacid.jobs.definition_jobs import ColumnSpec, CreateTableJob
from hiveacid.jobs.export_job import ExportChangesJob
from hiveacid.jobs.fields import before_rendering
from hiveacid.jobs.iceberg_job import IcebergExportJob
from hiveacid.jobs.job import Job
from hiveacid.jobs.maintenance_jobs import CleanJob, CompactJob
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.sources import (
    BatchSource,
    ChangesSource,
    PathSource,
    QuerySource,
    TableSource,
)
from hiveacid.jobs.stream_job import StreamJob, StreamSource
from hiveacid.jobs.write_jobs import DeleteJob, InsertJob, MergeJob, RestoreJob, TransactionJob
from hiveacid.rules.compaction_policy import CompactionPolicy
from hiveacid.rules.merge import NotMatchedInsert

T = "{{ params.x }}"
FEED = TableSource("db.feed")
ON_TABLE: dict[str, Any] = {"target": "db.t", "where": "id = 1"}
STREAM: dict[str, Any] = {
    "name": "s",
    "source": StreamSource("rate"),
    "statements": [InsertJob(target="db.t", source=BatchSource())],
    "checkpoint": "/checkpoints",
}
JOBS: list[Job] = [
    DeleteJob(**{**ON_TABLE, "target": T}),
    DeleteJob(**{**ON_TABLE, "where": f"id = 1 OR ({T}"}),
    DeleteJob(**ON_TABLE, metastore=MetastoreOptions(uris=T)),
    InsertJob(target="db.t", source=TableSource(T)),
    InsertJob(target="db.t", source=ChangesSource("db.feed", after=T)),
    InsertJob(target="db.t", source=QuerySource(f"SELECT 1) {T}")),
    InsertJob(target="db.t", source=PathSource("/x", "csv", schema=f"a nonsense{T}, b wrong")),
    MergeJob(target="db.t", source=FEED, on="t.a = s.a", when=[NotMatchedInsert()], target_alias=T),
    RestoreJob(target="db.t", as_of=T),
    TransactionJob(statements=[DeleteJob(**{**ON_TABLE, "target": T})]),
    CompactJob(target="db.t", type=T),
    CompactJob(target="db.t", partitions=[T]),
    CompactJob(target="db.t", policy=CompactionPolicy(measure=T)),  # type: ignore[arg-type]
    CleanJob(target="db.t", retention=T),
    CreateTableJob(target="db.n", columns=(ColumnSpec("a", T),)),
    CreateTableJob(
        target="db.n", columns=(ColumnSpec("a", "int"),), properties={"hiveacid.retention": T}
    ),
    ExportChangesJob(target="db.t", source=ChangesSource("db.t", after="0"), path=T),
    IcebergExportJob(target="db.t", table=T),
    StreamJob(**{**STREAM, "name": T}),
    StreamJob(**{**STREAM, "checkpoint": T}),
    StreamJob(**{**STREAM, "trigger": T}),
]


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.tag)
def test_a_rendered_value_with_braces_is_checked(job: Job) -> None:
    with before_rendering():
        job.validate()
    for value in ("{{", "{{ ds }}", "{% if", "a b {{ '}}' }}"):
        rendered = job.render(lambda text, value=value: text.replace(T, value))
        with pytest.raises(UserError):
            rendered.validate()


def test_templates_are_skipped_only_before_rendering() -> None:
    job = RestoreJob(target="db.t", as_of=T)
    with pytest.raises(UserError):
        job.validate()
    with pytest.raises(UserError), before_rendering():
        DeleteJob(target="wrong", where="id = 1").validate()
    with pytest.raises(UserError):
        job.validate()
