"""Times of Parquet files, as the Python scan reads them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from hiveacid.cli.values import json_values
from hiveacid.errors import UnsupportedFile
from hiveacid.metastore.catalog import HiveColumn
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.tables.scan.columns import TableColumns
from hiveacid.tables.scan.parquet_file import ParquetFile, paired
from tests.scan.parquet_cases import CASES, NEW_YORK, Case, write_int96


def shown(path: Path, type_: str, name: str = "at", unit: str | None = None) -> list[str | None]:
    """The values of a column of a file."""
    columns = TableColumns([HiveColumn(name, type_)], unit=unit)
    file = ParquetFile(ReadOnlyStorage.of(str(path.parent)), path.name)
    return [
        value
        for batch in file.batches([name])
        for value in json_values(columns.batch(batch, [])[name])
    ]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_times_are_those_that_hive_shows(case: Case, tmp_path: Path) -> None:
    assert shown(case.write(tmp_path), case.type) == case.shown


def test_nested_local_times_have_no_zone(tmp_path: Path) -> None:
    nested = pa.array([[1_577_872_800_000_000]], pa.list_(pa.timestamp("us")))
    table = pa.table({"at": nested}).replace_schema_metadata(NEW_YORK)
    parquet.write_table(table, tmp_path / "local")
    assert shown(tmp_path / "local", "array<timestamp>") == [["2020-01-01 10:00:00"]]
    parquet.write_table(table, tmp_path / "instants", use_deprecated_int96_timestamps=True)
    with pytest.raises(
        UnsupportedFile, match=r"instants: at holds .* the clock of America/New_York"
    ):
        shown(tmp_path / "instants", "array<timestamp>")


def test_timestamps_of_96_bits_have_all_digits_in_all_years(tmp_path: Path) -> None:
    # Days and nanoseconds as Hive writes them, in years that a number of nanoseconds cannot hold.
    stored = [(5_373_331, 79_199_123_456_789), (2_396_759, 17_762_000_000_001), (1_721_424, 999)]
    write_int96(tmp_path / "file", stored)
    assert shown(tmp_path / "file", "timestamp") == [
        "9999-07-31 21:59:59.123456789",
        "1850-01-01 04:56:02.000000001",
        "0001-01-01 00:00:00.000000999",
    ]


@pytest.mark.parametrize("int96", [False, True])
@pytest.mark.parametrize("kind", ["timestamp", "array<timestamp>", "map<int,struct<at:timestamp>>"])
def test_nested_nanoseconds_are_kept(tmp_path: Path, kind: str, int96: bool) -> None:
    nanos = [1_577_872_800_123_456_789, None, -1]
    at: Any = pa.array(nanos, pa.timestamp("ns"))
    expected: list[Any] = ["2020-01-01 10:00:00.123456789", None, "1969-12-31 23:59:59.999999999"]
    if kind.startswith("array"):
        at = pa.ListArray.from_arrays([0, 2, 2, 3], at)
        expected = [expected[:2], [], expected[2:]]
    elif kind.startswith("map"):
        structs = pa.StructArray.from_arrays([at], ["at"])
        at = pa.MapArray.from_arrays([0, 2, 3], pa.array([1, 2, 3], pa.int32()), structs)
        first, second, third = ({"at": text} for text in expected)
        expected = [[[1, first], [2, second]], [[3, third]]]
    table = pa.table({"at": at})
    parquet.write_table(
        table, tmp_path / "file", version="2.6", use_deprecated_int96_timestamps=int96
    )
    assert shown(tmp_path / "file", kind) == expected


@pytest.mark.parametrize("int96", [False, True])
def test_digits_are_those_of_the_requested_unit(tmp_path: Path, int96: bool) -> None:
    table = pa.table({"at": pa.array([-1], pa.timestamp("ns"))})
    parquet.write_table(
        table, tmp_path / "file", version="2.6", use_deprecated_int96_timestamps=int96
    )
    assert shown(tmp_path / "file", "timestamp", unit="ns") == ["1969-12-31 23:59:59.999999999"]
    assert shown(tmp_path / "file", "timestamp", unit="us") == ["1969-12-31 23:59:59.999999"]


def test_rows_of_batches_of_other_lengths_are_paired() -> None:
    def batches(*lengths: int) -> Iterator[pa.RecordBatch]:
        rows = iter(range(sum(lengths)))
        return iter([pa.record_batch({"n": [next(rows) for _ in range(n)]}) for n in lengths])

    pairs = list(paired(batches(4, 0, 2, 3), batches(3, 3, 3)))
    assert [left["n"] for left, _ in pairs] == [right["n"] for _, right in pairs]
    assert [n for left, _ in pairs for n in left["n"].to_pylist()] == list(range(9))
