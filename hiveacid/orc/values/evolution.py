"""Convert rows of older files to the current columns of the table.

Fields are found by their names, in any case, like in Hive: a field that the file lacks is null, and
a field that the table lacks is omitted. Only type changes with an unambiguous result are made here;
all others require Spark's reader.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from hiveacid.errors import BeyondArrow, UnsupportedFile
from hiveacid.orc.format.batches import schema_of
from hiveacid.orc.format.envelope import TypeField, TypeKind
from hiveacid.orc.format.protobuf import Message

_TEXTS = (TypeKind.STRING, TypeKind.CHAR, TypeKind.VARCHAR)
_NEVER_TEXT = (TypeKind.LIST, TypeKind.MAP, TypeKind.STRUCT, TypeKind.UNION, TypeKind.BINARY)
# The maximum digits of integers, and the types that can hold another type.
_DIGITS: dict[int, int] = {
    TypeKind.BYTE: 3,
    TypeKind.SHORT: 5,
    TypeKind.INT: 10,
    TypeKind.LONG: 19,
}
_BY_CLOCK_AND_BY_UTC = {TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT}
_REAL = (TypeKind.FLOAT, TypeKind.DOUBLE)
_WIDER: dict[int, tuple[TypeKind, ...]] = {
    TypeKind.BYTE: (TypeKind.SHORT, TypeKind.INT, TypeKind.LONG, *_REAL),
    TypeKind.SHORT: (TypeKind.INT, TypeKind.LONG, *_REAL),
    TypeKind.INT: (TypeKind.LONG, *_REAL),
    TypeKind.LONG: _REAL,
    TypeKind.FLOAT: (TypeKind.DOUBLE,),
    TypeKind.DATE: (TypeKind.TIMESTAMP,),
    TypeKind.TIMESTAMP: (TypeKind.TIMESTAMP_INSTANT,),
    TypeKind.TIMESTAMP_INSTANT: (TypeKind.TIMESTAMP,),
}


def evolved(batches: Iterable[Any], old: Sequence[bytes], new: tuple[bytes, ...]) -> Iterator[Any]:
    """Convert Arrow batches of full ACID files to other types.

    Args:
        batches: The rows.
        old: The types of their file.
        new: The required types, including those of the envelope.

    Raises:
        BeyondArrow: A type change is not supported here.
    """
    from pyarrow import RecordBatch

    if _has_other_blanks(old, new):
        raise BeyondArrow("A CHAR column has other blanks behind its texts than it had before.")
    schema = schema_of(new)
    for batch in batches:
        # The columns of the envelope always have the same order, regardless of their names.
        columns = [
            _converted(column, field.type)
            for column, field in zip(batch.columns, schema, strict=True)
        ]
        yield RecordBatch.from_arrays(columns, schema=schema)


def check_lossless(old: tuple[bytes, ...], new: tuple[bytes, ...], name: str) -> None:
    """Reject a change of a column that would lose values permanently.

    Readers show such values as null; the file still has them, in case the change is reverted.

    Args:
        old: The types of a file.
        new: The types of the table.
        name: The name of the file in messages.

    Raises:
        UnsupportedFile: A type of the table cannot hold all values of the file's type.
    """
    if (column := _first_lost_column(old, new)) is not None:
        raise UnsupportedFile(
            f"{name} has values of another type in the column {column}, and some may not fit the"
            " table's.",
            remedy="Give the column its old type back, or overwrite the table, or the partition,"
            " with its own rows.",
        )


# Thousands of files have the same types.
@lru_cache(maxsize=64)
def _first_lost_column(old: tuple[bytes, ...], new: tuple[bytes, ...]) -> str | None:
    return _lost_column(old, new, 0, 0, "")


def _lost_column(
    old: Sequence[bytes], new: Sequence[bytes], old_column: int, new_column: int, path: str
) -> str | None:
    old_type, new_type = Message.decode(old[old_column]), Message.decode(new[new_column])
    if not _holds(old_type, new_type):
        return path.removeprefix(".").removeprefix("row.")
    old_fields, new_fields = _subcolumns(old_type), _subcolumns(new_type)
    for name in old_fields.keys() & new_fields.keys():
        lost_path = _lost_column(old, new, old_fields[name], new_fields[name], f"{path}.{name}")
        if lost_path is not None:
            return lost_path
    return None


def _holds(old_type: Message, new_type: Message) -> bool:
    """Return whether a type can hold the values of another one, ignoring nested types."""
    old, new = (message.number(TypeField.KIND) for message in (old_type, new_type))
    room = new_type.number(TypeField.PRECISION) - new_type.number(TypeField.SCALE)
    if old == new == TypeKind.DECIMAL:
        scale = old_type.number(TypeField.SCALE)
        return new_type.number(TypeField.SCALE) >= scale and (
            room >= old_type.number(TypeField.PRECISION) - scale
        )
    if new in _TEXTS and old not in _NEVER_TEXT:
        # Spark and pyarrow declare strings for the texts of any column.
        return old == TypeKind.STRING or _longest_text(old_type) <= _longest_text(new_type)
    if old == new:
        return True
    if old in _DIGITS and new == TypeKind.DECIMAL:
        return room >= _DIGITS[old]
    return new in _WIDER.get(old, ())


def _longest_text(type_: Message) -> float:
    """Return the maximum characters of the values of a type, as texts."""
    kind = type_.number(TypeField.KIND)
    if kind in _DIGITS:
        return _DIGITS[kind] + len("-")
    if kind in (TypeKind.CHAR, TypeKind.VARCHAR):
        return type_.number(TypeField.MAXIMUM_LENGTH)
    return math.inf


def check_clocks(old: Sequence[bytes], new: Sequence[bytes]) -> None:
    """Reject conversions between timestamps by a local clock and timestamps in UTC.

    Raises:
        BeyondArrow: A column requires such a conversion, which would change its meaning.
    """
    if any(
        {old_type.number(TypeField.KIND), new_type.number(TypeField.KIND)} == _BY_CLOCK_AND_BY_UTC
        for old_type, new_type in _pairs(old, new)
    ):
        raise BeyondArrow("A column of timestamps has got another kind of time zone.")


def _has_other_blanks(old: Sequence[bytes], new: Sequence[bytes]) -> bool:
    """Return whether texts need a different number of trailing blanks, which Arrow ignores."""
    for pair in _pairs(old, new):
        kinds = {message.number(TypeField.KIND) for message in pair}
        lengths = {message.number(TypeField.MAXIMUM_LENGTH) for message in pair}
        if TypeKind.CHAR in kinds and (len(kinds) > 1 or len(lengths) > 1):
            return True
    return False


def _pairs(
    old: Sequence[bytes], new: Sequence[bytes], old_column: int = 0, new_column: int = 0
) -> Iterator[tuple[Message, Message]]:
    """The types of each column that a file and its table both have, nested ones included."""
    old_type, new_type = Message.decode(old[old_column]), Message.decode(new[new_column])
    yield old_type, new_type
    old_fields, new_fields = _subcolumns(old_type), _subcolumns(new_type)
    for name in old_fields.keys() & new_fields.keys():
        yield from _pairs(old, new, old_fields[name], new_fields[name])


def _subcolumns(type_: Message) -> dict[str, int]:
    """Return the numbers of the columns nested in a type, by name or by position."""
    columns = type_.all_numbers(TypeField.SUBTYPES)
    if type_.number(TypeField.KIND) != TypeKind.STRUCT:
        # Trino names the elements of lists and maps, Hive doesn't.
        return dict(zip(map(str, range(len(columns))), columns, strict=True))
    names = [name.decode().lower() for name in type_.all_data(TypeField.FIELD_NAMES)]
    return dict(zip(names, columns, strict=True))


def _converted(values: Any, type_: Any) -> Any:
    import pyarrow as pa
    from pyarrow import types

    if values.type == type_:
        return values
    if types.is_struct(values.type) and types.is_struct(type_):
        return _struct(values, type_)
    if types.is_list(values.type) and types.is_list(type_):
        return _list(values, type_)
    if not _is_safe(values.type, type_):
        raise BeyondArrow(f"Values of type {values.type} become {type_}.")
    try:
        return values.cast(type_)
    except pa.ArrowInvalid as error:
        raise BeyondArrow(f"Not every {values.type} is a {type_}: {error}") from error


def _struct(values: Any, type_: Any) -> Any:
    import pyarrow as pa

    # Of names that differ only by case, the first one counts.
    places = {values.type.field(i).name.lower(): i for i in reversed(range(values.type.num_fields))}
    children = []
    for field in type_:
        place = places.get(field.name.lower())
        if place is None:
            children.append(pa.nulls(len(values), field.type))
        else:
            children.append(_converted(values.field(place), field.type))
    return pa.StructArray.from_arrays(children, fields=list(type_), mask=values.is_null())


def _list(values: Any, type_: Any) -> Any:
    import pyarrow as pa
    from pyarrow import compute

    # Neither the offsets nor the elements of a slice begin at zero; elements of nulls may hide
    # values.
    lengths = compute.fill_null(compute.list_value_length(values), 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    elements = _converted(values.flatten(), type_.value_type)
    return pa.ListArray.from_arrays(pa.array(offsets), elements, type=type_, mask=values.is_null())


def _is_safe(old: Any, new: Any) -> bool:
    """Return whether a cast gives the value that every reader of the old values shows."""
    from pyarrow import types

    if types.is_integer(old) and types.is_integer(new):
        return bool(old.bit_width <= new.bit_width)
    if types.is_float32(old) and types.is_float64(new):
        return True
    if types.is_decimal(old) and types.is_decimal(new):
        digits = new.precision - new.scale
        return bool(new.scale >= old.scale and digits >= old.precision - old.scale)
    return False
