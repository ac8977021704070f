"""A rebalance of an insert-only table sorts its files, and blocks no writer."""

from collections.abc import Callable
from typing import Any

import pytest
from pyarrow import orc, parquet

from hiveacid.errors import UnsupportedTable
from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.metastore.catalog import StorageFormat
from hiveacid.progress import Phase
from hiveacid.rules.schema import TableKind
from hiveacid.upkeep.table_cleaning import clean
from tests.engine.acid_tables import folder, left_behind
from tests.engine.compaction_case import Case, report_of_compaction
from tests.observers import At

FAKES_AND_REAL = pytest.mark.parametrize(
    "hms",
    [
        "fake 4.0.1",
        "fake 3.1.3",
        *[pytest.param(real, marks=pytest.mark.conflicts) for real in ("4.0.1", "3.1.3")],
    ],
    indirect=True,
)
FAKE4 = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
FORMATS = {StorageFormat.ORC: orc.read_table, StorageFormat.PARQUET: parquet.read_table}


def ids(case: Case, directory: str, form: StorageFormat = StorageFormat.ORC) -> list[list[int]]:
    """The ids in each file of a directory, as they lie there."""
    root = folder(case.client.get_table(case.ref)) / directory
    paths = sorted(path for path in root.iterdir() if path.name.startswith("0"))
    return [FORMATS[form](str(path))["id"].to_pylist() for path in paths]


@FAKES_AND_REAL
def test_appends_continue_and_readers_keep_their_files(make: Callable[..., Case]) -> None:
    case = make(kind=TableKind.INSERT_ONLY)
    case.append((3, "a", "x"), (1, "b", "x"))
    case.append((2, "c", "y"))
    before = case.directories()

    def meanwhile() -> None:
        for number in (9, 5):
            case.append((number, "new", "z"))

    reader = case.open()
    old = reader.to_df()
    with case.open(At(Phase.WRITE, meanwhile)) as table:
        (done,) = report_of_compaction(table, "rebalance", order_by=["ID desc"]).partitions
    assert (done.outcome, done.type, done.rows) == ("compacted", "rebalance", 3), done
    assert ids(case, done.published[0]) == [[3, 2, 1]]
    assert {*before} < {*case.directories()}
    assert sorted(row["id"] for row in old.collect()) == [1, 2, 3]
    reader.close()
    everybody = [(1, "b", "x"), (2, "c", "y"), (3, "a", "x"), (5, "new", "z"), (9, "new", "z")]
    assert case.rows() == everybody
    # Rows that were written meanwhile are sorted by the next one.
    with case.open() as table:
        (done,) = report_of_compaction(table, "rebalance", order_by=["id"]).partitions
        assert ids(case, done.published[0]) == [[1, 2, 3, 5, 9]]
        (again,) = report_of_compaction(table, "rebalance", order_by=["id"]).partitions
        assert again.outcome == "skipped"
        assert {row["id"] for row in table.to_df(as_of_write_id=2).collect()} == {1, 2, 3}
        told = [entry.operation for entry in table.history() if entry.write_id is None]
        assert told == ["rebalance"] * 2
    assert left_behind(case.client) == []
    for _ in range(2):
        with case.open() as table:
            clean(case.client, CleanJob(target=case.name, retention="0"))
    assert case.directories() == [done.published[0]]
    assert case.rows() == everybody


@FAKE4
def test_files_of_parquet_are_split_and_buckets_kept(make: Callable[..., Case]) -> None:
    flat: dict[str, Any] = {"kind": TableKind.INSERT_ONLY, "format": StorageFormat.PARQUET}
    case = make(**flat, num_buckets=2, bucket_columns=["id"])
    case.append(*((number, "v", "p") for number in (6, 2, 5, 1, 4, 3)))
    case.append((0, "v", "p"))
    before = [
        sorted(rows)
        for rows in (ids(case, name, StorageFormat.PARQUET) for name in case.directories())
    ]
    with case.open() as table:
        (done,) = report_of_compaction(table, "rebalance", order_by=["id"]).partitions
    after = ids(case, done.published[0], StorageFormat.PARQUET)
    assert len(after) == 2
    assert all(rows == sorted(rows) for rows in after)
    for directory in before:
        for bucket in directory:
            assert any({*bucket} <= {*rows} for rows in after)


@FAKE4
def test_without_columns_it_is_a_major_one(make: Callable[..., Case]) -> None:
    case = make(kind=TableKind.INSERT_ONLY)
    case.append((3, "a", "x"), (1, "b", "x"))
    case.append((2, "c", "y"))
    with case.open() as table:
        (done,) = report_of_compaction(table, "rebalance").partitions
    assert (done.type, done.stripes_copied, done.stripes_encoded) == ("rebalance", 2, 0)
    assert ids(case, done.published[0]) == [[3, 1, 2]]


@FAKE4
def test_text_is_not_worth_sorting(make: Callable[..., Case]) -> None:
    case = make(kind=TableKind.INSERT_ONLY, format=StorageFormat.TEXTFILE)
    with case.open() as table, pytest.raises(UnsupportedTable, match="kept as text"):
        table.compact("rebalance", order_by=["id"])
