"""The accesses and locations that jobs name."""

import pytest

from hiveacid.jobs.definition_jobs import CreateTableLikeJob, RenameTableJob
from hiveacid.jobs.export_job import ExportChangesJob
from hiveacid.jobs.job import Access, Job, accesses_of, paths_of
from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.jobs.script_job import ScriptJob
from hiveacid.jobs.sources import ChangesSource, PathSource, QuerySource, TableSource
from hiveacid.jobs.write_jobs import DeleteJob, InsertJob, TransactionJob, UpdateJob

QUERY = QuerySource(
    "SELECT * FROM a JOIN b USING (id)",
    {"a": TableSource("Stage.A"), "b": PathSource("s3a://landing/b", "orc")},
)
INSERT = InsertJob(target="dw.T", source=QUERY)
UPDATE = UpdateJob(target="dw.u", set={"x": "1"}, inputs={"c": ChangesSource("stage.c", after="0")})


@pytest.mark.parametrize(
    ("job", "accesses"),
    [
        (CleanJob(target="dw.t"), [("dw.t", None, "clean")]),
        (INSERT, [("dw.t", None, "insert"), ("stage.a", None, "read")]),
        (UPDATE, [("dw.u", ("x",), "update"), ("stage.c", None, "read")]),
        (
            ScriptJob.of([UPDATE, DeleteJob(target="dw.u", where="true")]),
            [
                ("dw.u", ("x",), "update"),
                ("stage.c", None, "read"),
                ("dw.u", None, "delete"),
            ],
        ),
        (
            ExportChangesJob(
                target="dw.t",
                source=ChangesSource("dw.t", after="0"),
                path="s3a://out",
            ),
            [("dw.t", None, "read")],
        ),
        (
            CreateTableLikeJob(target="dw.copy", like="dw.t"),
            [("dw.copy", None, "create_table_like"), ("dw.t", None, "read")],
        ),
        (
            RenameTableJob(target="dw.t", new_name="dw.n"),
            [("dw.t", None, "rename_table"), ("dw.n", None, "rename_table")],
        ),
    ],
)
def test_every_named_table_is_an_access(job: Job, accesses: list[tuple[str, object, str]]) -> None:
    found = accesses_of(job)
    for access in accesses:
        assert Access(*access) in found  # type: ignore[arg-type]
    assert {access.table for access in found} == {access[0] for access in accesses}


def test_all_statements_of_a_transaction_count() -> None:
    found = accesses_of(TransactionJob(statements=(INSERT, UPDATE)))
    assert {(access.table, access.action) for access in found} == {
        *(("dw.t", "insert"), ("dw.u", "update")),
        *(("stage.a", "read"), ("stage.c", "read")),
    }


def test_locations_are_those_of_sources_and_targets() -> None:
    job = ExportChangesJob(target="dw.t", source=ChangesSource("dw.t", after="0"), path="s3a://out")
    assert paths_of(job) == ("s3a://out",)
    assert paths_of(TransactionJob(statements=(INSERT, UPDATE))) == ("s3a://landing/b",)
    like = CreateTableLikeJob(target="dw.copy", like="dw.t", location="hdfs://nn/x")
    assert paths_of(like) == ("hdfs://nn/x",)
