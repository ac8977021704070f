"""Bucket hashes are those that Hive computed."""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.errors import UnsupportedTable
from hiveacid.rules.schema import HiveType, parse_type
from hiveacid.tables.bucketing import bucket_hashes, bucket_numbers


def _vectors(name: str) -> list[dict[str, Any]]:
    vectors = json.loads((Path(__file__).parents[1] / "data" / name).read_text())["vectors"]
    return list(vectors)


VECTORS = _vectors("bucket_hash_vectors.json")
MORE_VECTORS = _vectors("hive_bucket_hashes.json")
NESTED = {
    "[1,2,null]": [1, 2, None],
    "[a,b]": ["a", "b"],
    "{a:1,b:2}": [("a", 1), ("b", 2)],
    "{1:x}": [(1, "x")],
    "(7,x)": {"a": 7, "b": "x"},
}
ARROW = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "varchar(10)": pa.string(),
    "char(10)": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("ns"),
    "decimal(10,2)": pa.decimal128(10, 2),
    "decimal(38,10)": pa.decimal128(38, 10),
    "decimal(10,0)": pa.decimal128(10, 0),
    "decimal(5,2)": pa.decimal128(5, 2),
    "array<int>": pa.list_(pa.int32()),
    "array<string>": pa.list_(pa.string()),
    "map<string,int>": pa.map_(pa.string(), pa.int32()),
    "map<int,string>": pa.map_(pa.int32(), pa.string()),
    "struct<a:int,b:string>": pa.struct([("a", pa.int32()), ("b", pa.string())]),
}


def _nanoseconds(text: str) -> int:
    text, _, fraction = text.partition(" (")[0].partition(".")
    seconds = int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())
    return seconds * 10**9 + int(fraction.ljust(9, "0"))


PARSED: dict[str, Callable[[str], Any]] = {
    "boolean": lambda text: text == "true",
    "float": float,
    "double": float,
    "date": date.fromisoformat,
    "timestamp": _nanoseconds,
}


def _value(hive_type: str, text: str) -> Any:
    if text == "null":
        return None
    if text in NESTED:
        return NESTED[text]
    if hive_type.endswith("int"):
        return int(text)
    if hive_type.startswith("decimal"):
        return Decimal(text)
    return PARSED.get(hive_type, str)(text)


SINGLE = [vector for vector in VECTORS if vector["type"] in ARROW]
(TWO_COLUMNS,) = [vector for vector in VECTORS if vector["type"] not in ARROW]


@pytest.mark.parametrize("vector", SINGLE, ids=lambda v: f"{v['type']}={v['value']}")
def test_hashes_of_single_values_are_those_of_hive(vector: dict[str, Any]) -> None:
    name, hive_type = vector["type"], parse_type(vector["type"])
    column = pa.array([_value(name, vector["value"])], ARROW[name])
    hashes = [bucket_hashes(column, hive_type, version)[0] for version in (1, 2)]
    buckets = [bucket_numbers([column], [hive_type], 8, version)[0] for version in (1, 2)]
    assert hashes == [vector["v1"], vector["v2"]]
    assert buckets == [vector["v1_mod8"], vector["v2_mod8"]]


LIST_OF_BINARY = pa.list_(pa.binary())


def _column_with(value: str, hive_type: str) -> pa.Array:
    """One value of a type that contains a date, a timestamp or bytes."""
    if value.startswith("0x"):
        raw = bytes.fromhex(value[2:])
        binary = {"binary": (raw, pa.binary()), "array<binary>": ([raw, None, raw], LIST_OF_BINARY)}
        return pa.array([binary[hive_type][0]], binary[hive_type][1])
    if hive_type == "date":
        return pa.array([date.fromisoformat(value)])
    nanos = _nanoseconds(value)
    unit, at = ("ns", nanos) if nanos % 1000 else ("us", nanos // 1000)
    stamp, number = pa.timestamp(unit, tz="UTC"), pa.int32()
    fields = pa.struct([("a", number), ("b", stamp)])
    types = {
        "timestamp": (at, stamp),
        "array<timestamp>": ([at, None, at], pa.list_(stamp)),
        "map<timestamp,int>": ([(at, 7)], pa.map_(stamp, number)),
        "map<int,timestamp>": ([(7, at)], pa.map_(number, stamp)),
        "struct<a:int,b:timestamp>": ({"a": 7, "b": at}, fields),
        "array<struct<a:int,b:timestamp>>": ([{"a": 7, "b": at}] * 2, pa.list_(fields)),
    }
    content, arrow_type = types[hive_type]
    return pa.array([content], arrow_type)


@pytest.mark.parametrize("name", sorted({vector["type"] for vector in MORE_VECTORS}))
def test_hashes_of_dates_timestamps_and_binary_are_those_of_hive(name: str) -> None:
    vectors = {
        each["value"]: [each["v1"], each["v2"]] for each in MORE_VECTORS if each["type"] == name
    }
    hashes = {
        value: [
            bucket_hashes(_column_with(value, name), parse_type(name), version)[0]
            for version in (1, 2)
        ]
        for value in vectors
    }
    assert hashes == vectors


# Hive 4.0.1 inserted these into tables of bucketing version 1 with 7 buckets.
@pytest.mark.parametrize(
    ("at", "bucket"), [("0001-01-01 00:00:00", 5), ("1582-10-04 23:59:59.999999", 5)]
)
def test_version_1_counts_old_timestamps_by_the_julian_calendar(at: str, bucket: int) -> None:
    column = _column_with(at, "timestamp")
    assert bucket_numbers([column], [parse_type("timestamp")], 7, 1).tolist() == [bucket]


@pytest.mark.parametrize("version", [1, 2])
def test_two_clustering_columns_are_hashed_together(version: int) -> None:
    columns = [pa.array([5], pa.int32()), pa.array(["k"])]
    numbers = bucket_numbers(columns, [parse_type("int"), parse_type("string")], 2**31 - 1, version)
    assert numbers[0] == (TWO_COLUMNS[f"v{version}"] & 0x7FFFFFFF) % (2**31 - 1)


INTEGERS = st.integers(-(2**31), 2**31 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int": (ARROW["int"], INTEGERS),
    "string": (ARROW["string"], TEXTS),
    "char(10)": (ARROW["char(10)"], TEXTS),
    "timestamp": (pa.timestamp("us", tz="UTC"), st.integers(-(2**55), 2**57)),
    "decimal(10,2)": (
        ARROW["decimal(10,2)"],
        st.decimals(-99999, 99999, places=2, allow_nan=False),
    ),
    "array<string>": (ARROW["array<string>"], st.lists(st.none() | TEXTS, max_size=4)),
    "map<int,string>": (
        ARROW["map<int,string>"],
        st.dictionaries(INTEGERS, st.none() | TEXTS, max_size=3).map(lambda d: list(d.items())),
    ),
    "struct<a:int,b:string>": (
        ARROW["struct<a:int,b:string>"],
        st.fixed_dictionaries({"a": st.none() | INTEGERS, "b": st.none() | TEXTS}),
    ),
}


@pytest.mark.parametrize("name", COLUMNS)
@given(data=st.data())
def test_a_column_is_hashed_like_its_values(name: str, data: st.DataObject) -> None:
    arrow_type, values = COLUMNS[name]
    hive_type: HiveType = parse_type(name)
    rows = data.draw(st.lists(st.none() | values, min_size=1, max_size=12))
    start = data.draw(st.integers(0, len(rows) - 1))
    for version in (1, 2):
        alone = [bucket_hashes(pa.array([row], arrow_type), hive_type, version)[0] for row in rows]
        column = pa.array(rows, arrow_type)
        chunked = pa.chunked_array([column.slice(0, start), column.slice(start)])
        assert bucket_hashes(column, hive_type, version).tolist() == alone
        assert bucket_hashes(column.slice(start), hive_type, version).tolist() == alone[start:]
        assert bucket_hashes(chunked, hive_type, version).tolist() == alone


@pytest.mark.parametrize("text", ["0001-01-01 00:00:00", "9999-12-31 23:59:59"])
def test_timestamps_beyond_the_reach_of_nanoseconds_have_a_bucket(text: str) -> None:
    seconds = int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())
    column = pa.array([seconds * 10**6], pa.timestamp("us", tz="UTC"))
    buckets = [bucket_numbers([column], [parse_type("timestamp")], 32, v)[0] for v in (1, 2)]
    assert all(0 <= bucket < 32 for bucket in buckets)


def test_every_bucket_number_is_in_range() -> None:
    column = pa.array(np.arange(-5000, 5000, dtype=np.int64))
    for version in (1, 2):
        numbers = bucket_numbers([column], [parse_type("bigint")], 7, version)
        assert set(numbers.tolist()) == set(range(7))


def test_a_type_that_hive_cannot_hash_is_refused() -> None:
    column = pa.array([1], pa.int64())
    with pytest.raises(UnsupportedTable, match="interval_day_time"):
        bucket_hashes(column, parse_type("interval_day_time"), 2)
