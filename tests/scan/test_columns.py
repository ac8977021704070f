"""Values of columns that files lack, and of partition keys."""

from typing import Any

import pyarrow as pa
import pytest

from hiveacid.cli.values import json_values
from hiveacid.errors import UnsupportedFile, UnsupportedTable
from hiveacid.metastore.catalog import HiveColumn
from hiveacid.tables.scan.columns import TableColumns


def value(type_: str, text: str, unit: str | None = "us") -> Any:
    (scalar,) = TableColumns([], [HiveColumn("k", type_)], unit).values({"k": text})
    return json_values(pa.array([scalar], scalar.type))[0]


@pytest.mark.parametrize(
    ("text", "unit", "shown"),
    [
        ("2020-01-01 10:00:00", "us", "2020-01-01 10:00:00"),
        ("2020-01-01 10:00:00.0", "ns", "2020-01-01 10:00:00"),
        ("2020-01-01 10:00:00.1 ", "us", "2020-01-01 10:00:00.1"),
        ("2020-01-01 10:00:00.123456789", "us", "2020-01-01 10:00:00.123456"),
        ("2020-01-01 10:00:00.123456789", "ns", "2020-01-01 10:00:00.123456789"),
        ("1969-12-31 23:59:59.999999999", None, "1969-12-31 23:59:59.999999999"),
        ("0001-01-01 00:00:00.000000001", None, "0001-01-01 00:00:00.000000001"),
        ("9999-12-31", "us", "9999-12-31 00:00:00"),
    ],
)
def test_timestamps_have_the_digits_of_their_unit(text: str, unit: str | None, shown: str) -> None:
    assert value("timestamp", text, unit) == shown


# 1500-02-29 exists only in the Julian calendar, which neither Hive nor Spark applies to texts.
@pytest.mark.parametrize(
    "text", ["abc", "1500-02-29", "2020-01-01 10:00:00.", "2020-01-01 10:00:00.1234567890"]
)
@pytest.mark.parametrize("type_", ["timestamp", "date"])
def test_texts_that_are_no_time_are_refused(type_: str, text: str) -> None:
    with pytest.raises(UnsupportedTable, match=f"k='{text}', which is not a valid {type_}"):
        value(type_, text)


def test_years_that_nanoseconds_cannot_hold_are_refused_in_that_unit() -> None:
    with pytest.raises(UnsupportedFile, match=r"before 1677 or after 2262"):
        value("timestamp", "0001-01-01 00:00:00", "ns")


@pytest.mark.parametrize("unit", [None, "us", "ns"])
def test_timestamps_that_files_lack_are_null(unit: str | None) -> None:
    rows = pa.record_batch({"s": pa.array([{"x": 1}, None], pa.struct({"x": pa.int32()}))})
    columns = [HiveColumn("at", "timestamp"), HiveColumn("s", "struct<x:int,at:timestamp>")]
    table = TableColumns(columns, [HiveColumn("k", "timestamp")], unit)
    batch = table.batch(rows, table.values({"k": None}))
    assert {name: json_values(batch[name]) for name in ("at", "s", "k")} == {
        "at": [None, None],
        "s": [{"x": 1, "at": None}, None],
        "k": [None, None],
    }
