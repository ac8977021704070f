import datetime
import decimal
import json

import pyarrow as pa
import pytest

from hiveacid.cli.values import json_values, text_value

NAN = float("nan")
LAST = datetime.date(9999, 12, 31)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pa.int64(), 2**63 - 1, "9223372036854775807"),
        (pa.bool_(), True, "true"),
        (pa.string(), 'é"\n', '"é\\"\\n"'),
        (pa.decimal128(38, 10), decimal.Decimal("0E-10"), '"0.0000000000"'),
        (pa.decimal128(38, 0), decimal.Decimal("-" + "9" * 38), f'"-{"9" * 38}"'),
        (pa.float32(), 0.1, "0.1"),
        (pa.float64(), 0.1 + 0.2, "0.30000000000000004"),
        (pa.float64(), NAN, '"NaN"'),
        (pa.float32(), float("-inf"), '"-Infinity"'),
        (pa.date32(), LAST, '"9999-12-31"'),
        (pa.timestamp("ns"), 1, '"1970-01-01 00:00:00.000000001"'),
        (pa.timestamp("ns"), -500_000_000, '"1969-12-31 23:59:59.5"'),
        (pa.timestamp("ns"), 1_704_067_200 * 10**9, '"2024-01-01 00:00:00"'),
        (pa.binary(), b"\x00\xff", '"AP8="'),
        (pa.list_(pa.timestamp("ns")), [0, None], '["1970-01-01 00:00:00", null]'),
        (
            pa.struct([("d", pa.date32()), ("x", pa.int8())]),
            {"d": LAST},
            '{"d": "9999-12-31", "x": null}',
        ),
        (pa.map_(pa.string(), pa.float64()), [("a", NAN), ("b", None)], '{"a": "NaN", "b": null}'),
        (pa.map_(pa.int32(), pa.string()), [(1, "a")], '[[1, "a"]]'),
    ],
    ids=str,
)
def test_json_values_keep_every_digit(kind, value, expected):
    values = json_values(pa.array([value, None], kind))
    assert [json.dumps(value, ensure_ascii=False, allow_nan=False) for value in values] == [
        expected,
        "null",
    ]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pa.string(), b"a\xff", "a\\xff"),
        (pa.list_(pa.string()), [b"\xc3\xa9", b"\xff"], ["é", "\\xff"]),
        (
            pa.struct([("a", pa.string()), ("b", pa.binary())]),
            {"a": b"\xff", "b": b"\xff"},
            {"a": "\\xff", "b": "/w=="},
        ),
        (pa.map_(pa.string(), pa.string()), [(b"\xfe", b"\xff")], {"\\xfe": "\\xff"}),
    ],
    ids=str,
)
def test_bytes_that_are_no_text_are_escaped(kind, value, expected):
    """Hive stores any bytes in a string."""
    assert json_values(unchecked(pa.array([value, None], of_bytes(kind)), kind)) == [expected, None]


def of_bytes(kind):
    if pa.types.is_string(kind):
        return pa.binary()
    if pa.types.is_list(kind):
        return pa.list_(of_bytes(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(of_bytes(kind.key_type), of_bytes(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(of_bytes(field.type)) for field in kind])
    return kind


def unchecked(array, kind):
    """Return the same buffers as another type, without validation, as ORC's library does."""
    if pa.types.is_struct(kind):
        children = [unchecked(array.field(n), kind.field(n).type) for n in range(kind.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())
    if pa.types.is_list(kind):
        values = unchecked(array.values, kind.value_type)
        return pa.ListArray.from_arrays(array.offsets, values, type=kind, mask=array.is_null())
    if pa.types.is_map(kind):
        keys, items = unchecked(array.keys, kind.key_type), unchecked(array.items, kind.item_type)
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=kind, mask=array.is_null())
    return array.view(kind)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "NULL"),
        (True, "true"),
        ("a\tb\nc\r\\", "a\\tb\\nc\\r\\\\"),
        ([1, None], "[1, null]"),
        (1.5, "1.5"),
    ],
)
def test_text_values_stay_on_one_line_in_one_column(value, expected):
    assert text_value(value) == expected


@pytest.mark.parametrize(
    ("days", "shown"),
    [
        (2**31 - 1, "5881580-07-11"),
        (2_932_896, "9999-12-31"),
        (2_932_897, "10000-01-01"),
        (-719_162, "0001-01-01"),
        (-719_163, "0000-12-31"),
    ],
)
def test_dates_beyond_those_of_python_are_shown(days: int, shown: str) -> None:
    assert json_values(pa.array([days], pa.int32()).cast(pa.date32())) == [shown]


def test_moments_beyond_those_of_python_are_shown() -> None:
    far = pa.array([253_402_300_800, -62_135_596_801], pa.timestamp("s"))
    assert json_values(far) == ["10000-01-01 00:00:00", "0000-12-31 23:59:59"]
