"""Row ids in the driver: their counts, repetitions and order; and files that become one."""

import pyarrow as pa
from pyspark.sql.types import StructType

from hiveacid.rules.row_id import encode_bucket
from hiveacid.spark.read.acid_snapshot import BUCKET, KEY, PARTITION, ROW, WRITE_ID
from hiveacid.spark.statements.source import grouped
from hiveacid.spark.write.flat_rows import BUCKET_NUMBER, FlatRows
from hiveacid.spark.write.row_ids import (
    CLAUSE,
    INSERTED,
    SOURCE_ROW,
    FewRowIds,
    Writes,
)
from hiveacid.storage.staging import FlatFile

BUCKETS = [encode_bucket(0), encode_bucket(1), 1]  # The last one is of before Hive 3.


def ids(*rows: tuple[int, ...]) -> FewRowIds:
    """Row ids: write id, bucket, row, partition, clause, and the row of the source."""
    names = (*KEY, CLAUSE, SOURCE_ROW)
    columns = zip(*rows, strict=True) if rows else [[] for _ in names]
    arrays = [pa.array(column, pa.int64()) for column in columns]
    return FewRowIds(pa.table(dict(zip(names, arrays, strict=True))))


class Output:
    """Receives the rows to delete."""

    def __init__(self) -> None:
        self.deletes: list[tuple[int, ...]] = []

    def write_deletes(self, keys: pa.Table, partitions: object) -> None:
        names = (PARTITION, BUCKET_NUMBER, WRITE_ID, BUCKET, ROW)
        self.deletes += zip(*[keys[name].to_pylist() for name in names], strict=True)


def test_deletes_are_in_the_order_of_their_files_and_of_their_row_ids():
    first, second, old = BUCKETS
    output = Output()
    given = ids(
        (2, first, 5, 1, 0, 1),
        (2, second, 0, 0, 1, 2),
        (1, first, 9, 0, 0, 3),
        (1, first, 1, 0, -1, 4),
        (1, old, 7, 0, 0, 5),
        (1, first, 2, 0, 0, 6),
    )
    given.write_deletes(output, ())
    assert output.deletes == [
        (0, 0, 1, first, 2),
        (0, 0, 1, first, 9),
        (0, 1, 1, old, 7),
        (0, 1, 2, second, 0),
        (1, 0, 2, first, 5),
    ]
    assert given.by_clause() == {-1: 1, 0: 4, 1: 1}
    assert given.repeated(9) == []


def test_nothing_is_deleted_where_no_clause_acts():
    output = Output()
    for given in (ids(), ids((1, BUCKETS[0], 0, 0, -1, 0))):
        given.write_deletes(output, ())
        assert given.repeated(9) == []
    assert output.deletes == []


def test_rows_with_several_matches_are_reported_with_their_number():
    key, other, third = (1, BUCKETS[0], 3, 0), (1, BUCKETS[0], 4, 0), (1, BUCKETS[0], 3, 1)
    rows = [(*key, 0, 1), (*other, 0, 2), (*key, 1, 3), (*third, 0, 4), (*key, -1, 5)]
    assert ids(*rows).repeated(9) == [(key, 2)]
    assert ids(*rows, (*other, 0, 6), (*other, 0, 7)).repeated(9) == [(key, 2), (other, 3)]
    assert ids(*rows, (*other, 0, 6)).repeated(1) == [(key, 2)]


class Written(FlatRows):
    """Files whose columns are known."""

    def columns(self, names, files):
        return [TABLES[file.path].select(names) for file in files]


TABLES = {
    "a": pa.table({SOURCE_ROW: [10, 11], INSERTED: [True, True]}),
    "b": pa.table({SOURCE_ROW: [20, 21], INSERTED: [True, False]}),
    "none": pa.table({SOURCE_ROW: pa.array([], pa.int64()), INSERTED: pa.array([], pa.bool_())}),
}
FILES = [FlatFile("", path, 1) for path in TABLES]


def uneven(given: FewRowIds, inserted: bool | None) -> list[str]:
    files = given.files_to_rewrite(
        Written(tuple(FILES), StructType()), Writes(FILES, inserted), [0]
    )
    return [file.path for file in files]


def test_a_file_is_written_again_if_a_row_of_it_does_not_count_once():
    nobody = ids((1, BUCKETS[0], 0, 0, 0, None))
    assert uneven(nobody, inserted=True) == []
    assert uneven(nobody, inserted=False) == ["a", "b"]
    assert uneven(nobody, inserted=None) == ["b"]
    # Row 21 updates a row, and counts by that.
    once = ids((1, BUCKETS[0], 0, 0, 0, 21))
    assert uneven(once, inserted=None) == []
    assert uneven(once, inserted=True) == []
    # Row 10 updates two rows; or meets one that it leaves alone, or deletes.
    twice = [(1, BUCKETS[0], row, 0, 0, 10) for row in (1, 2)]
    assert uneven(ids(*twice), inserted=True) == ["a"]
    assert uneven(ids((1, BUCKETS[0], 1, 0, -1, 10)), inserted=True) == ["a"]
    assert uneven(ids((1, BUCKETS[0], 1, 0, 1, 10)), inserted=True) == ["a"]


def names(files: list[FlatFile]) -> list[list[str]]:
    return [[file.path for file in group] for group in grouped(files)]


def test_small_files_of_a_partition_become_one():
    mib = 1 << 20
    files = [FlatFile("", name, 20 * mib, p) for name, p in (("c", "p=2"), ("b", "p=1"))]
    files += [FlatFile("", name, 5 * mib, "p=1") for name in ("d", "a", "e")]
    assert names(files) == [["a", "b", "d"], ["e"], ["c"]]
    assert names([FlatFile("", "large", 99 * mib)]) == [["large"]]
    assert names([]) == []


def test_files_of_a_bucket_become_one_however_large_they_are():
    mib = 1 << 20
    files = [FlatFile("", name, 30 * mib, None, b) for name, b in (("x", 1), ("y", 0), ("z", 1))]
    assert names(files) == [["y"], ["x", "z"]]
