"""Files and rows are passed over only where none of the wanted values can be."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from hiveacid.api.table import AcidTable
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.orc.values.column_bounds import ColumnRange
from hiveacid.rules.directory import Rules
from hiveacid.rules.schema import parse_type
from hiveacid.rules.write_ids import NO_OPEN, ValidTxnList, ValidWriteIdList
from hiveacid.spark.read.acid_snapshot import AcidSnapshot
from hiveacid.spark.read.value_pruning import ColumnValues, SortedValues, only_with
from hiveacid.spark.session import scan_session
from hiveacid.tables.visible_files import list_partitions
from tests.engine.acid_tables import create

TYPES = {
    "tags": "array<string>",
    "id": "bigint",
    "small": "int",
    "s": "string",
    "d": "date",
    "p": "decimal(12,2)",
    "c": "char(9)",
    "f": "double",
}
STRANGE = ["", " ", "'", "\\", "it''s \\' \"x\"", "a\0b", "%_", "é", "\uffff", "😀", "x" * 3000]


def text(number: int) -> str:
    return STRANGE[number] if 0 <= number < len(STRANGE) else f"text {number:07d}"


def row(number: int) -> tuple[Any, ...]:
    return (
        [str(number), None],
        number,
        -number,
        text(number),
        date(1500, 1, 1) if number == 5 else date(1990, 1, 1) + timedelta(days=number),
        Decimal(number) / 4,
        f"c{number}",
        number / 2,
    )


# Spark makes no frames with a char.
SCHEMA = ", ".join(f"{name} {type_}" for name, type_ in TYPES.items()).replace("char(9)", "string")
ARROW = [pa.int64(), pa.int32(), pa.string(), pa.date32(), pa.decimal128(12, 2)]
SEARCHED = ["id", "small", "s", "d", "p"]
# Four deltas, each with half of the numbers of a range.
RANGES = [range(0, 4000, 2), range(1, 4000, 2), range(4000, 8000, 2), range(10_000, 10_020)]


@pytest.fixture(scope="module")
def snapshot(spark: SparkSession, fake4: EmbeddedMetastore) -> Any:
    name = "pruned_by_values.t"
    client = MetastoreClient(fake4.options)
    client.create_database("pruned_by_values")
    parameters = {"orc.row.index.stride": "1000"}
    table = create(client, name, TYPES, parameters=parameters)
    with AcidTable(name, fake4.uri, spark=spark, run_in="spark") as acid:
        for numbers in RANGES:
            acid.append(spark.createDataFrame(map(row, numbers), SCHEMA).coalesce(1))
        acid.delete("id = 4002")
    yield seen(table, len(RANGES) + 1)
    client.drop_database("pruned_by_values", cascade=True)
    client.close()


def seen(table: HiveTable, write_id: int) -> AcidSnapshot:
    write_ids = ValidWriteIdList.parse(f"{table.ref.full_name}:{write_id}:{NO_OPEN}::")
    txns = ValidTxnList(high_watermark=1_000_000)
    return AcidSnapshot(table, list_partitions(table, [], write_ids, txns, Rules.HIVE4), write_ids)


WANTED: dict[str, Sequence[int]] = {
    "few": [7, 4000, 4002, 10_001, 999_999],
    "a list of strange ones": list(range(len(STRANGE))),
    "many": [*range(1000, 3000), 20_000],
    "none there": [-5, 9000],
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("wanted", WANTED)
@pytest.mark.parametrize("column", TYPES)
def test_no_row_with_a_wanted_value_is_lost(spark, snapshot, column, wanted):
    numbers = WANTED[wanted]
    fewer, where = only_with(snapshot, [values(snapshot, column, numbers)])
    found = fewer.rows(scan_session(spark), where=where).join(
        wanted_rows(spark, numbers, column), column
    )
    assert sorted(r.id for r in found.select("id").collect()) == sorted(
        {*numbers, None} & set(there())
    )


def test_files_without_wanted_values_are_left_out(spark, snapshot):
    def kept(**wanted: Sequence[int]) -> list[int]:
        fewer, _ = only_with(snapshot, [values(snapshot, *each) for each in wanted.items()])
        (partition,) = fewer.partitions
        assert partition.deletes == snapshot.partitions[0].deletes
        directories = [file.directory for file in partition.inserts]
        return [directory.max_write_id for directory in directories]

    assert kept(id=[5000]) == [3]
    assert kept(id=[4100, 10_000]) == [3, 4]
    # Values between the requested ones are no reason to read a file.
    assert kept(small=[0, 10_000]) == [1, 4]
    assert kept(p=[1001]) == kept(d=[1001]) == kept(s=[1001]) == [1, 2]
    assert kept(id=[5000, 10_000], small=[5000, 10_000]) == [3, 4]
    assert kept(c=[5000]) == kept(f=[5000]) == [1, 2, 3, 4]
    assert kept(id=[]) == []
    assert kept() == [1, 2, 3, 4]


def test_the_reader_skips_what_lies_between_the_values(spark, snapshot):
    _, where = only_with(snapshot, [values(snapshot, "id", [10, 7990])])
    frame = snapshot.rows(scan_session(spark), where=where).select("id")
    assert sorted(row.id for row in frame.collect()) == [10, 7990]
    scan = frame._jdf.queryExecution().executedPlan().collectLeaves().head()
    # A group has 1000 rows: the first of two files, and the last of another one.
    assert scan.metrics().apply("numOutputRows").value() <= 3 * 1000


def test_a_row_with_a_null_is_none(spark, snapshot):
    ids = pa.chunked_array([[5000, None], [10_000]], pa.int64())
    smalls = pa.chunked_array([[None, 0, -10_000]], pa.int32())
    columns = {column.name: column for column in snapshot.table.columns}
    wanted = [ColumnValues(columns["id"], ids), ColumnValues(columns["small"], smalls)]
    fewer, _ = only_with(snapshot, wanted)
    assert [file.directory.max_write_id for file in fewer.partitions[0].inserts] == [4]


def test_files_without_row_ids_stay_because_their_rows_are_counted(spark, snapshot):
    (partition,) = snapshot.partitions
    inserts = tuple(replace(file, raw=True) for file in partition.inserts)
    raw = replace(snapshot, partitions=[replace(partition, inserts=inserts)])
    fewer, _ = only_with(raw, [values(snapshot, "id", [5000])])
    assert fewer.partitions == raw.partitions


def test_a_few_columns_are_the_same_rows(spark, snapshot):
    few = snapshot.of_columns({"ID", "s"}).rows(scan_session(spark), with_key=False)
    assert few.columns == ["id", "s"]
    assert sorted(map(tuple, few.collect())) == sorted((n, text(n)) for n in there())
    assert snapshot.of_columns(()).rows(scan_session(spark)).count() == len(there())


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
@pytest.mark.parametrize("version", ["1", "2"])
def test_only_the_buckets_of_the_values_are_read(spark, client, hms, database, version):
    name = f"{database}.t"
    parameters = {"bucketing_version": version}
    table = create(
        client,
        name,
        {"id": "bigint", "s": "string", "v": "int"},
        bucket_columns=["s", "id"],
        num_buckets=8,
        parameters=parameters,
    )
    numbers = list(range(400))
    with AcidTable(name, hms.uri, spark=spark, run_in="spark") as acid:
        frame = spark.createDataFrame(
            [(n, text(n), n) for n in numbers], "id long, s string, v int"
        )
        acid.append(frame)
    whole = seen(table, 1)
    for wanted in ([5], [3, 7, 250], [500]):
        keys = [values(whole, "id", wanted), values(whole, "s", wanted)]
        fewer, where = only_with(whole, keys)
        assert len(fewer.partitions[0].inserts) <= len(wanted)
        found = fewer.rows(scan_session(spark), where=where).where(F.col("id").isin(wanted))
        assert sorted(r.v for r in found.collect()) == sorted({*wanted} & {*numbers})
    every_id = values(whole, "id", numbers)
    # One of the two columns does not determine the bucket. Definitions that change under files:
    # tests/engine/test_bucket_counts.py.
    assert len(only_with(whole, [every_id])[0].partitions[0].inserts) == 8


@pytest.mark.parametrize("name", TYPES)
def test_values_of_other_types_than_the_column_are_ignored(snapshot, name):
    column = next(column for column in snapshot.table.columns if column.name == name)
    others = [
        pa.array([1.5]),
        pa.array([True]),
        pa.array([1], pa.uint64()),
        pa.array([Decimal("1.5")], pa.decimal128(30, 1)),
        pa.array([[1]]),
        pa.array([b"x"]),
        pa.array([0], pa.timestamp("us")),
        *([] if name == "s" else [pa.array(["1"])]),
    ]
    for other in others:
        assert ColumnValues(column, pa.chunked_array([other])).sorted is None


@given(
    st.lists(st.text(max_size=3) | st.sampled_from(STRANGE)),
    st.tuples(st.text(max_size=3), st.text(max_size=3)),
)
def test_texts_are_found_by_their_bytes(texts, bounds):
    low, high = (bound.encode(errors="ignore") for bound in bounds)
    clean = [text.encode(errors="ignore").decode() for text in texts]
    sorted_values = SortedValues.of(pa.chunked_array([clean], pa.string()), parse_type("string"))
    expected = any(low <= text.encode() <= high for text in clean)
    assert sorted_values.any_in(ColumnRange(low, high)) == expected


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)),
    st.tuples(*[st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)] * 2),
)
def test_integers_are_found_to_the_last_one(numbers, bounds):
    sorted_values = SortedValues.of(pa.chunked_array([numbers], pa.int64()), parse_type("bigint"))
    low, high = bounds
    assert sorted_values.any_in(ColumnRange(low, high)) == any(low <= n <= high for n in numbers)


def test_invalid_text_is_ignored() -> None:
    broken = pa.chunked_array([pa.array([b"a\xff"], pa.binary()).view(pa.string())])
    assert SortedValues.of(broken, parse_type("string")) is None


def values(snapshot: AcidSnapshot, name: str, numbers: Sequence[int]) -> ColumnValues:
    position = list(TYPES).index(name)
    (column,) = (column for column in snapshot.table.columns if column.name == name)
    given = [row(number)[position] for number in numbers]
    types = dict(zip(SEARCHED, ARROW, strict=True))
    return ColumnValues(column, pa.chunked_array([given], types.get(name)))


def wanted_rows(spark: SparkSession, numbers: Sequence[int], column: str) -> Any:
    position = list(TYPES).index(column)
    type_ = SCHEMA.split(", ")[position]
    rows = [(row(number)[position],) for number in numbers]
    return F.broadcast(spark.createDataFrame(rows, type_).distinct())


def there() -> list[int]:
    return [number for numbers in RANGES for number in numbers if number != 4002]
