"""Times of Parquet files, as Spark reads them."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from hiveacid.errors import UnsupportedFile
from hiveacid.metastore.catalog import HiveColumn, HiveTable, StorageFormat
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import MappedColumns, TableKind
from hiveacid.spark.read.flat_snapshot import FlatSnapshot
from hiveacid.spark.read.nanoseconds import InspectedFile, finer_column_in
from hiveacid.spark.session import scan_session
from tests.scan.parquet_cases import CASES, GREGORIAN, JULIAN, NEW_YORK, write_int96


def shown(spark: SparkSession, folder: Path, columns: list[HiveColumn]) -> list[tuple[str, ...]]:
    """The rows of a table without partitions whose files are in a folder, as texts."""
    table = HiveTable.new(
        TableRef("db", "t"),
        columns,
        kind=TableKind.NOT_ACID,
        location=str(folder),
        format=StorageFormat.PARQUET,
    )
    rows = FlatSnapshot.of_plain(table, []).rows(scan_session(spark))
    texts = [F.col(column.name).cast("string") for column in columns]
    return sorted(map(tuple, rows.select(*texts).collect()))


@pytest.mark.parametrize("type_", ["timestamp", "date"])
def test_times_are_those_that_hive_shows(spark: SparkSession, tmp_path: Path, type_: str) -> None:
    cases = [case for case in CASES if case.type == type_]
    for case in cases:
        case.write(tmp_path)
    expected = sorted((text,) for case in cases for text in case.shown)
    assert shown(spark, tmp_path, [HiveColumn("at", type_)]) == expected


def test_dates_and_timestamps_of_one_file_have_their_own_calendars(
    spark: SparkSession, tmp_path: Path
) -> None:
    stored = {
        "day": (pa.date32(), JULIAN),
        "at": (pa.timestamp("us"), GREGORIAN * 86_400_000_000),
        "more": (pa.list_(pa.timestamp("us")), [GREGORIAN * 86_400_000_000]),
    }
    table = pa.table({name: pa.array([value], kind) for name, (kind, value) in stored.items()})
    parquet.write_table(table, tmp_path / "file")
    columns = [
        HiveColumn("day", "date"),
        HiveColumn("at", "timestamp"),
        HiveColumn("more", "array<timestamp>"),
    ]
    midnight = "1500-01-01 00:00:00"
    assert shown(spark, tmp_path, columns) == [("1500-01-01", midnight, f"[{midnight}]")]


def test_nested_instants_in_a_zone_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    nested = pa.array([[0]], pa.list_(pa.timestamp("us")))
    table = pa.table({"at": nested}).replace_schema_metadata(NEW_YORK)
    parquet.write_table(table, tmp_path / "local")
    columns = [HiveColumn("at", "array<timestamp>")]
    assert shown(spark, tmp_path, columns) == [("[1970-01-01 00:00:00]",)]
    parquet.write_table(table, tmp_path / "instants", use_deprecated_int96_timestamps=True)
    with pytest.raises(
        UnsupportedFile, match=r"instants: at holds .* the clock of America/New_York"
    ):
        shown(spark, tmp_path, columns)


# The unit of an Arrow array, a number of them, and whether it has more digits than microseconds.
DIGITS = [
    ("ms", 1_577_872_800_123, False),
    ("us", 1_577_872_800_123_456, False),
    ("us", -1, False),
    ("us", 253_402_300_799_999_999, False),
    ("ns", 1_577_872_800_123_456_000, False),
    ("ns", 1_577_872_800_123_456_789, True),
    ("ns", -1, True),
]


def finer_column(file: Path) -> str | None:
    columns = MappedColumns(("at",))
    return finer_column_in(["at"], InspectedFile(str(file), None, StorageFormat.PARQUET, columns))


@pytest.mark.parametrize("int96", [False, True])
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(("unit", "number", "finer"), DIGITS)
def test_files_with_nanoseconds_are_found(
    tmp_path: Path, unit: str, number: int, finer: bool, nested: bool, int96: bool
) -> None:
    kind = pa.timestamp(unit)
    at = pa.array([[None, number]], pa.list_(kind)) if nested else pa.array([None, number], kind)
    write = {"version": "2.6", "use_deprecated_int96_timestamps": int96}
    parquet.write_table(pa.table({"at": at}), tmp_path / "file", **write)
    assert finer_column(tmp_path / "file") == ("at" if finer else None)


def test_nanoseconds_of_distant_years_are_found(tmp_path: Path) -> None:
    write_int96(tmp_path / "file", [(5_373_331, 123_456_000)])
    assert finer_column(tmp_path / "file") is None
    write_int96(tmp_path / "file", [(5_373_331, 123_456_001)])
    assert finer_column(tmp_path / "file") == "at"
