"""The choice between the worker and Spark, as far as the job alone makes it."""

from typing import Any

import pytest

from hiveacid import BatchSource, StreamSource
from hiveacid.api.jobs import place_of
from hiveacid.jobs.definition_jobs import AnalyzeJob
from hiveacid.jobs.iceberg_job import IcebergExportJob
from hiveacid.jobs.job import Job
from hiveacid.jobs.maintenance_jobs import CleanJob, CompactJob
from hiveacid.jobs.script_job import ScriptJob
from hiveacid.jobs.stage_jobs import StageJob
from hiveacid.jobs.stream_job import StreamJob
from hiveacid.jobs.write_jobs import DeleteJob, InsertJob
from hiveacid.parser.script import placed, to_script

T = "shop.orders"
STREAM = StreamJob(
    name="orders",
    source=StreamSource("rate"),
    statements=[InsertJob(target=T, source=BatchSource())],
    checkpoint="/checkpoints",
)


def delete(**options: Any) -> DeleteJob:
    return DeleteJob(target=T, where="id = 1", **options)


def script(sql: str, run_in: str = "auto") -> Job:
    read = to_script(sql, "shop", {}, False, False)
    return ScriptJob(target=read.target, statements=placed(read.statements, run_in))


@pytest.mark.parametrize(
    ("job", "place"),
    [
        (delete(), "auto"),
        (delete(run_in="worker"), "worker"),
        (delete(run_in="spark"), "spark"),
        (StageJob(change=delete(run_in="spark")), "spark"),
        (CompactJob(target=T), "auto"),
        (CompactJob(target=T, run_in="worker"), "worker"),
        # The worker sees first whether there is any work.
        (CompactJob(target=T, run_in="spark"), "auto"),
        (AnalyzeJob(target=T), "worker"),
        (CleanJob(target=T), "worker"),
        (IcebergExportJob(target=T, table="lake.orders"), "worker"),
        (STREAM, "spark"),
        (script("CREATE TABLE a (id int)"), "worker"),
        (script("DELETE FROM a WHERE id = 1"), "auto"),
        (script("DELETE FROM a WHERE id = 1", "worker"), "worker"),
        (script("DELETE FROM a WHERE id = 1", "spark"), "spark"),
        (script("DELETE FROM a WHERE id = 1; ALTER TABLE a COMPACT 'minor'", "worker"), "worker"),
        (script("DELETE FROM a WHERE id = 1; ALTER TABLE a COMPACT 'minor'"), "auto"),
        (script("ANALYZE TABLE a COMPUTE STATISTICS"), "worker"),
        (script("CREATE TABLE b AS SELECT * FROM a"), "spark"),
    ],
)
def test_a_job_runs_where_it_can(job: Job, place: str) -> None:
    assert place_of(job) == place
