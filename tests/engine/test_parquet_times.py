"""Times of Parquet files, as Spark reads them."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from airflow_hiveacid.acid.names import TableRef
from airflow_hiveacid.acid.schema import TableKind
from airflow_hiveacid.engine.read.flat_snapshot import FlatSnapshot
from airflow_hiveacid.engine.session import scan_session
from airflow_hiveacid.errors import UnsupportedFile
from airflow_hiveacid.metastore.catalog import HiveColumn, HiveTable
from airflow_hiveacid.metastore.formats import StorageFormat
from tests.scan.parquet_cases import CASES, GREGORIAN, JULIAN, NEW_YORK


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
