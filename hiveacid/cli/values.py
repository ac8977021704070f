r"""Arrow values as JSON values and as text, without losing a digit.

| Hive type | JSON |
|---|---|
| integers, boolean | as they are |
| string, char, varchar | as they are; bytes that are no text as escapes: `"\xff"` |
| decimal | a string with all digits of its scale: `"1.50"` |
| float, double | a number; NaN and the infinities are the strings `"NaN"`, `"Infinity"`, `"-Infinity"` |
| date, timestamp | a string as Hive prints it: `"2024-01-31"`, `"2024-01-31 12:00:00.5"` |
| binary | a base64 string |
| array, struct | a list, an object |
| map | an object when its keys are strings, else a list of `[key, value]` |
"""

import base64
import datetime
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np  # noqa: TID253
import pyarrow as pa  # noqa: TID253

from hiveacid.tables.scan.times import TIMESTAMP

Convert = Callable[[Any], Any]

_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_DAY = _EPOCH.toordinal()
_DAYS_IN_400_YEARS = 146_097
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def json_values(array: pa.Array) -> list[Any]:
    """Convert a column to values that `json.dumps` writes exactly."""
    convert = _converter(array.type)
    plain = array.cast(_with_integer_times(array.type))
    try:
        values = plain.to_pylist()
    except UnicodeDecodeError:
        values = plain.cast(_with_bytes(plain.type)).to_pylist()
    return values if convert is None else [None if v is None else convert(v) for v in values]


def text_value(value: Any) -> str:
    """One JSON value as a cell of tab-separated text; NULL as Hive prints it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool | list | dict):
        return json.dumps(value, ensure_ascii=False)
    text = str(value).replace("\\", "\\\\")
    return text.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def _with_integer_times(kind: pa.DataType) -> pa.DataType:
    """Replace times by integers: Python's own hold no nanoseconds, and one calendar only."""
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_date(kind):
        return pa.int32()
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_with_integer_times(kind.value_type)))
    if pa.types.is_struct(kind) and kind != TIMESTAMP:
        return pa.struct([field.with_type(_with_integer_times(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_with_integer_times(kind.key_type), _with_integer_times(kind.item_type))
    return kind


def _with_bytes(kind: pa.DataType) -> pa.DataType:
    """Replace texts by bytes, which Hive does not check to be one."""
    if pa.types.is_string(kind):
        return pa.binary()
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_with_bytes(kind.value_type)))
    if pa.types.is_struct(kind) and kind != TIMESTAMP:
        return pa.struct([field.with_type(_with_bytes(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_with_bytes(kind.key_type), _with_bytes(kind.item_type))
    return kind


def _converter(kind: pa.DataType) -> Convert | None:
    """Return the conversion from Arrow's value to a JSON value; None if not needed."""
    if pa.types.is_string(kind):
        return _text
    if pa.types.is_decimal(kind):
        return lambda value: format(value, "f")
    if pa.types.is_float32(kind):
        # The shortest digits that give the same 4-byte number, not those of its 8-byte neighbour.
        return lambda value: _number(float(str(np.float32(value))))
    if pa.types.is_float64(kind):
        return _number
    if pa.types.is_timestamp(kind):
        per_second = _PER_SECOND[kind.unit]
        return lambda value: _timestamp(value, per_second)
    if kind == TIMESTAMP:
        return lambda parts: _timestamp(parts["seconds"] * 10**9 + parts["nanos"], 10**9)
    if pa.types.is_date(kind):
        return _date
    if pa.types.is_binary(kind):
        return lambda value: base64.b64encode(value).decode("ascii")
    if pa.types.is_list(kind):
        return _list_converter(kind)
    if pa.types.is_struct(kind):
        return _struct_converter(kind)
    if pa.types.is_map(kind):
        return _map_converter(kind)
    return None


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode(errors="backslashreplace")


def _number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _date(days: int) -> str:
    # The calendar repeats itself after 400 years, and Python's ends with the year 9999.
    ages, days = divmod(days + _EPOCH_DAY - 1, _DAYS_IN_400_YEARS)
    date = datetime.date.fromordinal(days + 1)
    return f"{date.year + 400 * ages:04d}-{date.month:02d}-{date.day:02d}"


def _timestamp(value: int, per_second: int) -> str:
    seconds, fraction = divmod(value, per_second)
    days, seconds = divmod(seconds, 86400)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    text = f"{_date(days)} {clock}"
    digits = f"{fraction:0{len(str(per_second)) - 1}d}".rstrip("0") if fraction else ""
    return f"{text}.{digits}" if digits else text


def _null_safe(kind: pa.DataType) -> Convert:
    convert = _converter(kind)
    if convert is None:
        return lambda value: value
    return lambda value: None if value is None else convert(value)


def _list_converter(kind: pa.DataType) -> Convert:
    element = _null_safe(kind.value_type)
    return lambda values: [element(value) for value in values]


def _struct_converter(kind: pa.DataType) -> Convert:
    fields = {field.name: _null_safe(field.type) for field in kind}
    return lambda values: {name: field(values[name]) for name, field in fields.items()}


def _map_converter(kind: pa.DataType) -> Convert:
    key, item = _null_safe(kind.key_type), _null_safe(kind.item_type)
    if pa.types.is_string(kind.key_type):
        return lambda pairs: {_text(k): item(v) for k, v in pairs}
    return lambda pairs: [[key(k), item(v)] for k, v in pairs]
