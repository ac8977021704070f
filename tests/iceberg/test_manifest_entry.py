"""Measures of data files in manifests, against the values in the files."""

import io
import math
import sys
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.conversions import from_bytes
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampType,
)

from hiveacid.iceberg.data_file import _result
from hiveacid.iceberg.data_file_task import CopyShares, WrittenDataFile
from hiveacid.iceberg.file_writing import _upper_bound, manifest_entry, partition_record
from hiveacid.orc.copying.assemble import Part
from hiveacid.orc.copying.transplant import FieldId, flatten
from hiveacid.orc.format.layout import Layout
from hiveacid.orc.format.tail import OrcTail
from tests.orc.orc_tables import flat_file, without_row_index


def written(
    rows: pa.Table, fields: dict[str, FieldId], *, has_row_index: bool = True
) -> WrittenDataFile:
    file = flat_file(rows) if has_row_index else without_row_index(flat_file(rows))
    tail = OrcTail.read(file)
    layout = Layout.joint([("file", tail)], like=tail)
    done = flatten([Part(file, tail)], io.BytesIO(), layout=layout, fields=fields)
    return _result("file.orc", done, CopyShares())


@pytest.mark.parametrize(
    ("type_", "arrow", "values", "low", "high"),
    [
        (IntegerType(), pa.int32(), [3, None, -7], -7, 3),
        (LongType(), pa.int64(), [2**63 - 1, -(2**63)], -(2**63), 2**63 - 1),
        (FloatType(), pa.float32(), [1.5, -2.25], -2.25, 1.5),
        (DoubleType(), pa.float64(), [math.inf, 0.1], 0.1, math.inf),
        (DoubleType(), pa.float64(), [math.nan, 0.1], None, None),
        (BooleanType(), pa.bool_(), [True, False], False, True),
        (BooleanType(), pa.bool_(), [True, True], True, True),
        (DateType(), pa.date32(), [date(1970, 1, 2), date(1969, 12, 31)], -1, 1),
        (
            DecimalType(9, 2),
            pa.decimal128(9, 2),
            [Decimal("1.10"), Decimal("-3")],
            Decimal("-3.00"),
            Decimal("1.10"),
        ),
        (StringType(), pa.string(), ["ä", "b" * 40], "b" * 16, "ä"),
        (StringType(), pa.string(), ["a" * 40, "b" * 40], "a" * 16, "b" * 15 + "c"),
        (IntegerType(), pa.int32(), [None, None], None, None),
    ],
)
def test_bounds_are_those_of_the_values(type_: PrimitiveType, arrow, values, low, high) -> None:
    rows = pa.table({"a": pa.array(values, arrow)})
    schema = Schema(NestedField(4, "a", type_, required=False))
    file = written(rows, {"a": FieldId("a", 4)})
    entry = manifest_entry(file, "file:/f.orc", schema, Record(), 0, [])
    assert entry.value_counts == {4: len(values)}
    assert entry.null_value_counts == {4: values.count(None)}
    found = [
        None if 4 not in bounds else from_bytes(type_, bounds[4])
        for bounds in (entry.lower_bounds, entry.upper_bounds)
    ]
    assert found == [low, high]
    assert entry.column_sizes[4] > 0
    assert entry.split_offsets == [3]
    assert (entry.record_count, entry.file_size_in_bytes) == (len(values), file.bytes)


def test_a_file_without_a_row_index_has_no_counts_of_nulls_and_no_bounds() -> None:
    rows = pa.table({"a": pa.array([3, -7], pa.int32())})
    schema = Schema(NestedField(4, "a", IntegerType(), required=False))
    file = written(rows, {"a": FieldId("a", 4)}, has_row_index=False)
    entry = manifest_entry(file, "file:/f.orc", schema, Record(), 0, [])
    assert (entry.value_counts, entry.null_value_counts) == ({4: 2}, {})
    assert (entry.lower_bounds, entry.upper_bounds) == ({}, {})


def test_bounds_of_timestamps_include_all_values() -> None:
    moments = [datetime(1969, 12, 31, 23, 59, 59, 999_999), datetime(2020, 1, 1, 0, 0, 0, 1)]
    rows = pa.table({"a": pa.array(moments, pa.timestamp("ns"))})
    schema = Schema(NestedField(1, "a", TimestampType(), required=False))
    entry = manifest_entry(
        written(rows, {"a": FieldId("a", 1)}), "file:/f.orc", schema, Record(), 0, []
    )
    low, high = (
        from_bytes(TimestampType(), bounds[1])
        for bounds in (entry.lower_bounds, entry.upper_bounds)
    )
    micros = [value // 1000 for value in rows["a"].cast(pa.int64()).to_pylist()]
    assert min(micros) - 2000 <= low <= min(micros)
    assert max(micros) <= high <= max(micros) + 2000


def test_values_inside_of_lists_have_no_counts() -> None:
    rows = pa.table({"a": pa.array([[1, 2], [3]], pa.list_(pa.int64()))})
    fields = {"a": FieldId("a", 1, {"element": FieldId("element", 2)})}
    from pyiceberg.types import ListType

    schema = Schema(NestedField(1, "a", ListType(2, LongType(), False), required=False))
    entry = manifest_entry(written(rows, fields), "file:/f.orc", schema, Record(), 0, [])
    assert entry.value_counts == {1: 2}
    assert not entry.lower_bounds
    assert entry.column_sizes.keys() == {1, 2}


@given(st.text(max_size=40))
def test_upper_bounds_of_texts_do_not_come_before_them(text: str) -> None:
    bound = _upper_bound(text)
    assert bound is None or (len(bound) <= 16 and bound.encode() >= text.encode())


def test_upper_bounds_skip_numbers_that_are_no_characters() -> None:
    assert _upper_bound("a" * 15 + "\ud7ff" + "b") == "a" * 15 + "\ue000"
    assert _upper_bound("a" + chr(sys.maxunicode) * 20) == "b"
    assert _upper_bound(chr(sys.maxunicode) * 17) is None


def test_partition_keys_have_counts_and_bounds() -> None:
    rows = pa.table({"a": pa.array([1, 2, 3], pa.int32())})
    keys = {"d": DateType(), "n": IntegerType(), "x": DoubleType(), "s": StringType()}
    columns = {"a": IntegerType(), **keys}
    schema = Schema(
        *(
            NestedField(number, name, type_, required=False)
            for number, (name, type_) in enumerate(columns.items(), 1)
        )
    )
    file = written(rows, {"a": FieldId("a", 1)})
    partition = Record(-2, None, math.nan, "ü" * 40)
    entry = manifest_entry(file, "file:/f.orc", schema, partition, 0, list(keys))
    assert entry.value_counts == dict.fromkeys(range(1, 6), 3)
    assert entry.null_value_counts == {1: 0, 2: 0, 3: 3, 4: 0, 5: 0}
    assert entry.lower_bounds.keys() == entry.upper_bounds.keys() == {1, 2, 5}
    assert from_bytes(DateType(), entry.lower_bounds[2]) == -2
    assert from_bytes(StringType(), entry.upper_bounds[5]) == "ü" * 40


def test_partition_values_are_those_of_manifests() -> None:
    values = [
        pa.scalar(date(1970, 1, 3), pa.date32()),
        pa.scalar(None, pa.string()),
        pa.scalar(datetime(1970, 1, 1, 0, 0, 1), pa.timestamp("us")),
        pa.scalar(Decimal("1.5"), pa.decimal128(4, 1)),
    ]
    assert partition_record(values) == Record(2, None, 1_000_000, Decimal("1.5"))
