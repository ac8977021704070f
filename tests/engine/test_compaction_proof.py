"""A compactor that loses, repeats, exchanges or changes a row: it is caught, and nothing is published."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions

from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.jobs.report import CompactReport
from hiveacid.jobs.run_options import Place
from hiveacid.metastore.catalog import StorageFormat
from hiveacid.records.table_history import table_history
from hiveacid.rules.schema import TableKind
from hiveacid.spark import compaction as bucket_sorting
from hiveacid.spark.parallel import SparkTasks
from hiveacid.upkeep.compaction import tasks as compact_tasks
from hiveacid.upkeep.compaction.scheduling import Caught
from hiveacid.upkeep.table_cleaning import clean
from tests.engine.acid_tables import everything, folder, left_behind
from tests.engine.compaction_case import Case
from tests.engine.sabotage import (
    changes_a_value,
    changes_a_writer,
    deletes_a_row_too_many,
    doubles_a_row,
    drops_a_row,
    exchanges_a_row,
    forgets_a_delete_file,
    forgets_a_stripe,
    forgets_all_deletes,
    includes_an_aborted_write_id,
    loses_an_event,
    reads_less,
    reads_other_values,
    reads_twice,
    repeats_an_event,
    sorted_by_spark,
    swaps_two_rows,
    takes_a_file_twice,
    takes_a_stripe_of_another_file,
    write_other_rows,
)
from tests.orc.acid_files import enveloped, with_acid_metadata
from tests.orc.orc_tables import flat_file


@pytest.fixture(params=["worker", "spark"])
def run_in(request: pytest.FixtureRequest) -> Place:
    return request.param


HIVE4 = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
BOTH = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
# Rows that only Spark sorts, or decodes.
SPARK = pytest.mark.parametrize("run_in", ["spark"], indirect=True)

Patch = pytest.MonkeyPatch
Sabotage = Callable[[Patch], None]


@pytest.fixture(autouse=True)
def here(monkeypatch: Patch) -> None:
    """Let tasks run in this process, where they can be sabotaged."""

    def tried(_: SparkTasks, work: Any, items: Sequence[Any], **_how: Any) -> list[Any]:
        return list(map(Caught(work), items))

    monkeypatch.setattr(SparkTasks, "tried", tried)


@pytest.fixture
def case(make: Callable[..., Case], tmp_path: Path) -> Iterator[Case]:
    """Rows of four write ids; one is aborted, and another one deletes."""
    case = make()
    case.append(*[(number, "a", "x") for number in range(10)])
    case.append(*[(number, "b", "y") for number in range(10, 20)])
    _aborted_beside(case)
    case.change(lambda table: table.delete("id in (3, 12)"))
    case.append((20, "c", "z"))
    case.change(lambda table: table.delete("id = 5"))
    yield case
    assert left_behind(case.client) == []


def _aborted_beside(case: Case) -> None:
    """An aborted write id, whose rows lie in one file with those of a committed one."""
    write_ids = []
    for number in range(2):
        txn = case.client.open_txn("stream", "localhost", None)
        write_ids.append(case.client.allocate_write_id(txn, case.ref))
        case.client.abort_txn(txn) if number else case.client.commit_txn(txn)
    first, last = write_ids
    directory = _root(case) / f"delta_{first:07d}_{last:07d}"
    directory.mkdir()
    (directory / "_orc_acid_version").write_bytes(b"2")
    rows = {"id": pa.array([30, 31, 99], pa.int32()), "v": ["s"] * 3, "p": ["x"] * 3}
    ids = [(first, 1 << 29, 0), (first, 1 << 29, 1), (last, 1 << 29, 0)]
    file = with_acid_metadata(flat_file(enveloped(flat_file(pa.table(rows)), ids)), ids)
    (directory / "bucket_00000").write_bytes(file.getvalue())


def _root(case: Case) -> Path:
    return folder(case.client.get_table(case.ref))


ROWS = [
    *[(number, "a", "x") for number in range(10) if number not in (3, 5)],
    *[(number, "b", "y") for number in range(10, 20) if number != 12],
    (20, "c", "z"),
    (30, "s", "x"),
    (31, "s", "x"),
]


@BOTH
def test_the_report_and_the_note_contain_the_counts(case: Case) -> None:
    assert case.rows() == ROWS
    if case.client.features.hides_compactions:
        (minor,) = case.compact("minor").partitions
        proof = minor.proof
        assert (proof.rows_read, proof.rows_aborted, proof.rows_deleted) == (24, 1, 0), minor
        assert (proof.rows_written, minor.rows) == (23, 23)
        assert (proof.events_read, proof.events_written, minor.deletes) == (3, 3, 3)
        assert case.rows() == ROWS
        clean(case.client, CleanJob(target=case.name, metastore=case.client.options, retention="0"))
    report = case.compact("major")
    (major,) = report.partitions
    assert major.outcome == "compacted", major
    proof = major.proof
    assert (proof.rows_deleted, proof.rows_written, major.rows) == (3, 20, 20), major
    assert proof.rows_read == (23 if case.client.features.hides_compactions else 24)
    assert proof.events_read == 0
    assert len(proof.rows_digest) == 16
    assert CompactReport.from_dict(report.to_dict()) == report
    newest = table_history(case.client, case.ref)[0]
    aborted = f" - {proof.rows_aborted} aborted" * (proof.rows_aborted > 0)
    balance = f"{proof.rows_read} - 3 deleted{aborted} = 20, {proof.rows_digest}"
    assert newest.proof == f"rows: {balance}"
    assert case.rows() == ROWS


@SPARK
@HIVE4
def test_the_digest_of_a_bucket_is_the_same_after_any_compaction(
    make: Callable[..., Case], monkeypatch: Patch
) -> None:
    proofs = []
    for name, sort in (("copied", False), ("sorted", True)):
        case = make(name)
        for number in range(3):
            case.append((number, "a", "x"), (number, "b", "x"))
        case.change(lambda table: table.delete("id = 1 and v = 'a'"))
        with monkeypatch.context() as patch:
            if sort:
                sorted_by_spark(patch)
            (done,) = case.compact("major").partitions
        assert done.outcome == "compacted", done
        proofs.append((done.proof.rows_written, done.proof.rows_digest))
    assert proofs[0] == proofs[1]


def _caught(case: Case, type_: str) -> None:
    table = case.client.get_table(case.ref)
    before = everything(table)
    (done,) = case.compact(type_).partitions
    assert done.outcome == "failed", done
    assert done.error is not None
    # The writer of a sorted bucket refuses a row that is there twice by itself.
    assert done.error.id in ("ProofFailed", "OutOfOrder"), done.error
    assert everything(table) == before


REENCODING = [
    drops_a_row,
    doubles_a_row,
    exchanges_a_row,
    swaps_two_rows,
    changes_a_value,
    changes_a_writer,
]
ANY = [*REENCODING, forgets_a_stripe, takes_a_stripe_of_another_file, takes_a_file_twice]
ANY += [includes_an_aborted_write_id]


@HIVE4
def test_a_sabotaged_compactor_is_caught(case: Case) -> None:
    def caught(type_: str, sabotages: Sequence[Sabotage]) -> None:
        for sabotage in sabotages:
            with pytest.MonkeyPatch.context() as patch:
                sabotage(patch)
                _caught(case, type_)

    caught("minor", [*ANY, loses_an_event, repeats_an_event])
    major = [forgets_a_delete_file, forgets_all_deletes, deletes_a_row_too_many]
    caught("major", [drops_a_row, changes_a_value, includes_an_aborted_write_id, *major])
    assert case.rows() == ROWS
    (done,) = case.compact("major").partitions
    assert done.outcome == "compacted", done
    assert case.rows() == ROWS


@pytest.mark.parametrize("hms", ["fake 3.1.3"], indirect=True)
def test_it_is_caught_before_hive_3_could_see_it(case: Case) -> None:
    for sabotage in (drops_a_row, forgets_all_deletes):
        with pytest.MonkeyPatch.context() as patch:
            sabotage(patch)
            _caught(case, "major")


@HIVE4
def test_copied_stripes_are_counted_too(make: Callable[..., Case]) -> None:
    case = make()
    for number in range(3):
        case.append((number, "a", "x"))
    table = case.client.get_table(case.ref)
    before = everything(table)
    # Small stripes are put together; let them be large enough.
    with pytest.MonkeyPatch.context() as large:
        large.setattr(
            compact_tasks.plan_stripes, "__kwdefaults__", {"tiny_bytes": 0, "group_bytes": 1 << 20}
        )
        for sabotage in (forgets_a_stripe, takes_a_file_twice, takes_a_stripe_of_another_file):
            with pytest.MonkeyPatch.context() as patch:
                sabotage(patch)
                (done,) = case.compact("minor").partitions
            assert done.error is not None, (sabotage, done)
            assert done.error.id == "ProofFailed", done.error
            assert everything(table) == before
        (done,) = case.compact("minor").partitions
    assert (done.stripes_copied, done.stripes_encoded) == (3, 0), done
    assert done.proof.rows_encoded == 0


@SPARK
@HIVE4
def test_the_way_by_spark_is_proved_too(case: Case, monkeypatch: Patch) -> None:
    sorted_by_spark(monkeypatch)
    as_events = bucket_sorting.as_events
    for change in (
        lambda frame: frame.where("id != 7"),
        lambda frame: frame.withColumn("v", functions.expr("if(id = 7, 'other', v)")),
    ):
        with pytest.MonkeyPatch.context() as patch:
            spoil = partial(write_other_rows, as_events, change)
            patch.setattr(bucket_sorting, "as_events", spoil)
            _caught(case, "major")
    (done,) = case.compact("major").partitions
    assert done.outcome == "compacted", done
    assert done.proof.rows_encoded == len(ROWS)
    assert case.rows() == ROWS


@SPARK
@pytest.mark.sampled(1)
@HIVE4
@pytest.mark.parametrize("form", [StorageFormat.ORC, StorageFormat.PARQUET, StorageFormat.TEXTFILE])
def test_rows_without_row_ids_are_counted_by_their_values(
    make: Callable[..., Case], form: StorageFormat
) -> None:
    case = make(kind=TableKind.INSERT_ONLY, format=form)
    for number in range(3):
        case.append((number, "a", "x"), (number, "b", "x"))
    table = case.client.get_table(case.ref)
    before, rows = everything(table), case.rows()
    for sabotage in (
        (forgets_a_stripe, takes_a_file_twice, takes_a_stripe_of_another_file)
        if form is StorageFormat.ORC
        else (reads_less, reads_twice, reads_other_values)
    ):
        with pytest.MonkeyPatch.context() as patch:
            sabotage(patch)
            (done,) = case.compact("major").partitions
        assert done.error is not None, (sabotage, done)
        assert done.error.id == "ProofFailed", done.error
        assert everything(table) == before
    (done,) = case.compact("major").partitions
    assert (done.outcome, done.rows, done.proof.rows_read) == ("compacted", 6, 6), done
    assert case.rows() == rows
