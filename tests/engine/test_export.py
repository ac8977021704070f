"""Changes that are written to files: whole, and once."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hiveacid.errors import (
    HiveAcidError,
    InvalidJob,
    PositionMismatch,
    TransactionAborted,
)
from hiveacid.jobs.export_job import ExportChangesJob
from hiveacid.jobs.report import ChangesRange, RunReport
from hiveacid.jobs.sources import ChangesSource
from hiveacid.metastore.txn.live_transaction import LiveTransaction
from hiveacid.progress import Phase
from hiveacid.spark.run import run
from tests.engine.acid_tables import left_behind
from tests.engine.compaction_case import Case
from tests.observers import At

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)


class Killed(BaseException):
    """An exception that no code of this package catches."""


@pytest.fixture
def told(make: Callable[..., Case]) -> Case:
    """1: insert 1 and 2; 2: update 1; 3: delete 2."""
    case = make()
    case.append((1, "a", "x"), (2, "b", "x"))
    case.change(lambda table: table.update({"v": "'A'"}, "id = 1"))
    case.change(lambda table: table.delete("id = 2"))
    return case


@pytest.fixture
def job(told: Case, tmp_path: Path) -> ExportChangesJob:
    return ExportChangesJob(
        source=ChangesSource(told.name, after="0", up_to="3", keys=["id"]),
        path=f"file:{tmp_path}/feed",
        run_token="audit",
        metastore=told.client.options,
    )


def export(told: Case, job: ExportChangesJob, *observers: At) -> RunReport:
    report = run(told.spark, job, observers)
    assert isinstance(report, RunReport)
    return report


def folders(job: ExportChangesJob) -> list[str]:
    return sorted(path.name for path in Path(job.path.removeprefix("file:")).glob("*"))


def read(told: Case, job: ExportChangesJob) -> list[Any]:
    frame = told.spark.read.format(job.format).option("header", "true")
    rows = frame.load(f"{job.path}/changes_after_{job.source.after}").collect()
    return [row.asDict(recursive=True) for row in rows]


def lines(job: ExportChangesJob) -> Iterator[Any]:
    for path in Path(job.path.removeprefix("file:")).glob("changes_after_*/part-*"):
        yield from map(json.loads, path.read_text().splitlines())


def test_each_range_has_a_folder(told: Case, job: ExportChangesJob) -> None:
    report = export(told, replace(job, source=replace(job.source, up_to="2")))
    assert (report.rows_inserted, report.changes) == (
        4,
        (ChangesRange(table=told.name, after=0, up_to=2),),
    )
    later = replace(job, source=replace(job.source, after="2"), run_token="later", format="csv")
    export(told, later)
    assert folders(job) == ["changes_after_0", "changes_after_2"]
    assert sorted(
        (row["_write_id"], row["_change_type"], row["id"], row["v"]) for row in read(told, job)
    ) == [
        (1, "insert", 1, "a"),
        (1, "insert", 2, "b"),
        (2, "update_after", 1, "A"),
        (2, "update_before", 1, "a"),
    ]
    (row,) = read(told, later)
    assert (row["_change_type"], row["id"], json.loads(row["_row_id"])["rowid"]) == (
        "delete",
        "2",
        1,
    )


def test_an_envelope_has_rows_before_and_after(told: Case, job: ExportChangesJob) -> None:
    export(told, replace(job, format="json", envelope="debezium"))
    one, changed, two = (
        {"id": 1, "v": "a", "p": "x"},
        {"id": 1, "v": "A", "p": "x"},
        {"id": 2, "v": "b", "p": "x"},
    )
    told_rows = list(lines(job))
    assert all(row["ts_ms"] > 0 and row["source"]["table"] == told.name for row in told_rows)
    found = [
        (row["op"], row["source"]["version"], row["before"], row["after"]) for row in told_rows
    ]
    assert sorted(found, key=str) == [
        ("c", 1, None, one),
        ("c", 1, None, two),
        ("d", 3, two, None),
        ("u", 2, one, changed),
    ]


def test_a_folder_is_written_once(told: Case, job: ExportChangesJob) -> None:
    first = replace(job, source=replace(job.source, up_to="2"))
    export(told, first)
    again = export(told, job)
    assert again.already_done
    assert again.changes[0].up_to == 2
    assert len(read(told, job)) == 4


def test_a_folder_of_another_consumer_or_table_is_no_export_that_was_done(
    told: Case, job: ExportChangesJob, make: Callable[..., Case]
) -> None:
    export(told, replace(job, consumer="lake"))
    where = r"feed/changes_after_0/_range\.json belongs to an export of"
    other = make("other")
    other.append((7, "z", "x"))
    of_other = ChangesSource(other.name, after="0", up_to="1")
    for foreign in (
        replace(job, consumer="other"),
        job,
        replace(job, source=of_other, target=other.name, consumer="lake"),
    ):
        with pytest.raises(PositionMismatch, match=where):
            export(told, foreign)
    assert export(told, replace(job, consumer="lake")).already_done


@pytest.mark.parametrize("content", [None, "{", '{"format": 1, "job": "export", "target": "a.t"}'])
def test_a_folder_without_a_description_is_left_alone(
    told: Case, job: ExportChangesJob, content: str | None
) -> None:
    folder = Path(job.path.removeprefix("file:")) / "changes_after_0"
    folder.mkdir(parents=True)
    (folder / "part-0").write_text("of another program")
    if content is not None:
        (folder / "_range.json").write_text(content)
    with pytest.raises(HiveAcidError, match=r"changes_after_0.*_range\.json") as raised:
        export(told, job)
    assert "move that folder away" in raised.value.remedy
    assert (folder / "part-0").read_text() == "of another program"


def test_a_killed_export_leaves_nothing_that_the_next_one_does_not_replace(
    told: Case, job: ExportChangesJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die() -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(LiveTransaction, "abort", lambda txn, reason: txn._heartbeat.stop())
        with pytest.raises(Killed):
            export(told, job, At(Phase.PUBLISH, die))
    assert [name[0] for name in folders(job)] == ["_"]
    export(told, job)
    assert folders(job) == ["changes_after_0"]
    assert len(read(told, job)) == 5
    assert left_behind(told.client) == []


def test_an_export_that_is_overtaken_publishes_nothing(told: Case, job: ExportChangesJob) -> None:
    reports = []
    with pytest.raises(TransactionAborted):
        export(told, job, At(Phase.WRITE, lambda: reports.append(export(told, job))))
    assert folders(job) == ["changes_after_0"]
    assert [len(read(told, job)), reports[0].already_done] == [5, False]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"format": "csv", "envelope": "debezium"}, "rows in rows"),
        ({"path": "/feed"}, "does not name its file system"),
        ({"format": "avro"}, "format"),
        ({"target": "a.b"}, "target"),
    ],
)
def test_unsupported_exports_are_refused(hms: Any, more: dict[str, str], says: str) -> None:
    given = {"source": ChangesSource("c.d", after="0"), "path": "file:/feed", **more}
    with pytest.raises(InvalidJob, match=says):
        ExportChangesJob(**given).validate()  # type: ignore[arg-type]
