"""Tails contain the ranges of columns, unless a value may be outside of them."""

import io
from dataclasses import replace
from datetime import date
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from hiveacid.orc.format.envelope import FIELDS
from hiveacid.orc.format.protobuf import Message
from hiveacid.orc.format.statistics import COUNT, STRINGS, UNKNOWN
from hiveacid.orc.format.tail import FooterField, OrcTail
from hiveacid.orc.values.column_bounds import ColumnRange, ranges_of
from hiveacid.rules.schema import parse_type


def tail_of(table: pa.Table, **options: Any) -> OrcTail:
    sink = io.BytesIO()
    orc.write_table(table, sink, **options)
    return OrcTail.read(sink)


def ranges(values: Any, arrow_type: pa.DataType, hive_type: str) -> list[ColumnRange | None]:
    tail = tail_of(pa.table({"c": pa.array(values, arrow_type)}))
    return ranges_of(tail, "c", parse_type(hive_type))


@pytest.mark.parametrize(
    ("values", "arrow_type", "hive_type", "expected"),
    [
        ([3, None, -7], pa.int64(), "bigint", (-7, 3)),
        ([3, -7], pa.int8(), "int", (-7, 3)),
        ([-(2**63), 2**63 - 1], pa.int64(), "bigint", (-(2**63), 2**63 - 1)),
        ([date(1970, 1, 3), date(1969, 12, 31)], pa.date32(), "date", (-1, 2)),
        (["b", "é", ""], pa.string(), "string", (b"", "é".encode())),
        ([Decimal("1.50"), Decimal("-0.07")], pa.decimal128(15, 2), "decimal(15,2)", (-7, 150)),
        ([None, None], pa.int64(), "bigint", (None, None)),
    ],
)
def test_a_range_holds_all_values(values, arrow_type, hive_type, expected):
    assert ranges(values, arrow_type, hive_type) == [ColumnRange(*expected)]


@pytest.mark.parametrize(
    ("values", "arrow_type", "hive_type"),
    [
        # A column that was wider once: readers show nulls, or cut.
        ([1 << 40], pa.int64(), "int"),
        ([Decimal("1.234")], pa.decimal128(15, 3), "decimal(15,2)"),
        ([5], pa.int64(), "string"),
        (["5"], pa.string(), "int"),
        (["5"], pa.string(), "char(3)"),
        (["5"], pa.string(), "varchar(3)"),
        ([1.5], pa.float64(), "double"),
        ([Decimal(1)], pa.decimal128(19, 0), "decimal(19,0)"),
        ([True], pa.bool_(), "boolean"),
        ([0], pa.timestamp("us"), "timestamp"),
        ([[1]], pa.list_(pa.int64()), "array<bigint>"),
    ],
)
def test_nothing_is_known_of_values_that_readers_show_otherwise(values, arrow_type, hive_type):
    assert ranges(values, arrow_type, hive_type) == [None]


def test_columns_are_found_behind_nested_ones_and_in_the_envelope() -> None:
    columns = {
        "bucket": pa.array([[1, 2]]),
        "tree": pa.array([{"c": 5, "x": {"c": 6}}]),
        "C": pa.array([7]),
    }
    flat = pa.table(columns)
    envelope = {name.decode(): pa.array([0]) for name, _ in FIELDS[:-1]}
    row = pa.StructArray.from_arrays(list(columns.values()), list(columns))
    for table in (flat, pa.table({**envelope, "row": row})):
        tail = tail_of(table)
        assert ranges_of(tail, "c", parse_type("bigint")) == [ColumnRange(7, 7)]
        assert ranges_of(tail, "x", parse_type("bigint")) == [None]
        assert ranges_of(tail, "bucket", parse_type("bigint")) == [None]


def test_a_duplicate_name_is_ambiguous() -> None:
    tail = tail_of(pa.table({"a": pa.array([1]), "A": pa.array([2])}))
    assert ranges_of(tail, "a", parse_type("bigint")) == [None]


def test_each_stripe_has_its_own() -> None:
    table = pa.table({"c": pa.array(range(200_000), pa.int64())})
    tail = tail_of(table, stripe_size=64 << 10, row_index_stride=1000)
    found = [known for known in ranges_of(tail, "c", parse_type("bigint")) if known]
    assert len(found) == len(tail.stripes) > 1
    assert (found[0].low, found[-1].high) == (0, 199_999)
    assert all(one.high < other.low for one, other in pairwise(found))


def test_unknown_statistics_have_no_range() -> None:
    tail = tail_of(pa.table({"c": pa.array([1])}))
    unknown = replace(tail, stripe_statistics=((UNKNOWN, UNKNOWN),))
    assert ranges_of(unknown, "c", parse_type("bigint")) == [None]


def test_days_of_the_old_calendar_precede_the_new_one() -> None:
    tail = tail_of(pa.table({"c": pa.array([-200_000, 5], pa.int32()).cast(pa.date32())}))
    old = replace(tail, footer=tail.footer.without(FooterField.CALENDAR))
    (known,) = ranges_of(old, "c", parse_type("date"))
    assert known is not None
    assert known.low < -10_000_000
    assert known.high == 5


def test_long_texts_have_bounds_and_broken_ones_none() -> None:
    tail = tail_of(pa.table({"c": pa.array(["x"])}))

    def with_bounds(*bounds: tuple[int, bytes]) -> list[ColumnRange | None]:
        strings = Message()
        for field, bound in bounds:
            strings.add_data(field, bound)
        statistics = Message().add_number(COUNT, 2).add_data(STRINGS, strings.encode())
        other = replace(tail, stripe_statistics=((b"", statistics.encode()),))
        return ranges_of(other, "c", parse_type("string"))

    assert with_bounds((4, b"a"), (5, b"c")) == [ColumnRange(b"a", b"c")]
    assert with_bounds((1, b"a"), (5, b"c")) == [ColumnRange(b"a", b"c")]
    assert with_bounds((1, b"a")) == [None]
    # Java's bytes in another encoding, which are fewer.
    assert with_bounds((1, "\ufffd".encode()), (2, b"\xf0\x9f\x98\x80")) == [None]
