"""Both engines take the fields of a job by their names, and refuse a field that they do not know."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from hiveacid.errors import InvalidJob, SparkNeeded
from hiveacid.jobs.job import Job
from hiveacid.jobs.sources import QuerySource, TableSource
from hiveacid.jobs.write_jobs import DeleteJob, InsertJob, MergeJob, UpdateJob
from hiveacid.rules.merge import MatchedDelete
from hiveacid.spark.statements import from_job
from hiveacid.worker.run import statement_of


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterInsert(InsertJob):
    only_new: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterUpdate(UpdateJob):
    only_new: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterDelete(DeleteJob):
    only_new: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterMerge(MergeJob):
    only_new: bool = True


SOURCE = TableSource("d.s")
CASES: list[tuple[type[Job], type[Job], dict[str, Any]]] = [
    (InsertJob, LaterInsert, {"source": SOURCE}),
    (UpdateJob, LaterUpdate, {"set": {"a": "1"}, "all_rows": True}),
    (DeleteJob, LaterDelete, {"where": "a = 1"}),
    (MergeJob, LaterMerge, {"source": SOURCE, "on": "t.a = s.a", "when": [MatchedDelete()]}),
]


@pytest.mark.parametrize(
    ("known", "later", "given"), CASES, ids=["insert", "update", "delete", "merge"]
)
def test_a_field_that_an_engine_does_not_know_is_refused(
    known: type[Job], later: type[Job], given: dict[str, Any]
) -> None:
    assert statement_of(known(target="d.t", **given)).target.full_name == "d.t"
    new = later(target="d.t", **given)
    with pytest.raises(InvalidJob, match=r"of d\.t has a field .* only_new"):
        statement_of(new)
    with pytest.raises(InvalidJob, match=r"of d\.t has a field .* only_new"):
        from_job.statement_of(new, spark=None)  # type: ignore[arg-type]


def test_what_a_statement_does_not_evaluate_needs_spark() -> None:
    insert = InsertJob(target="d.t", source=QuerySource("VALUES (1)"))
    delete = DeleteJob(target="d.t", where="a = 1", inputs={"s": SOURCE})
    merge = MergeJob(target="d.t", source=SOURCE, on="t.a = s.a", when=[MatchedDelete()])
    for job, reason in (
        (delete, "subqueries"),
        (replace(insert, merge_schema=True), "merge_schema"),
        (replace(insert, defaults=[0]), "the keyword DEFAULT"),
        (replace(merge, merge_schema=True), "merge_schema"),
    ):
        with pytest.raises(SparkNeeded, match=reason):
            statement_of(job)
