"""Bring rows of files that are older than the table's columns to the columns of today.

Fields are found by their names, in any case, as Hive finds them: what a file lacks is null, and
what the table lacks is left out. Of the types only those changes are made here whose outcome is
beyond doubt; all others are for Spark's reader.
"""

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from airflow_hiveacid.errors import BeyondArrow, UnsupportedFile
from airflow_hiveacid.orc.format.compression import Codec, Compression
from airflow_hiveacid.orc.format.envelope import TypeField, TypeKind
from airflow_hiveacid.orc.format.protobuf import Message
from airflow_hiveacid.orc.format.statistics import count_statistics
from airflow_hiveacid.orc.format.tail import MAGIC, OrcTail

_TEXTS = (TypeKind.STRING, TypeKind.CHAR, TypeKind.VARCHAR)
_NEVER_TEXT = (TypeKind.LIST, TypeKind.MAP, TypeKind.STRUCT, TypeKind.UNION, TypeKind.BINARY)
# The digits that integers may have, and what else can hold a type.
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
    """Bring Arrow batches of full ACID files to other types.

    Args:
        batches: The rows.
        old: The types of their file.
        new: The types that are wanted, those of the envelope included.

    Raises:
        BeyondArrow: There is a change of a type that is not made here.
    """
    from pyarrow import RecordBatch

    if _has_other_blanks(old, new):
        raise BeyondArrow("A CHAR column has other blanks behind its texts than it had before.")
    schema = _schema(new)
    for batch in batches:
        # The columns of the envelope always stand in the same order, whatever they are called.
        columns = [
            _converted(column, field.type)
            for column, field in zip(batch.columns, schema, strict=True)
        ]
        yield RecordBatch.from_arrays(columns, schema=schema)


def check_lossless(old: Sequence[bytes], new: Sequence[bytes], name: str) -> None:
    """Refuse a change of a column that would lose values for good.

    Readers show such values as null; the file still has them, in case the change is taken back.

    Args:
        old: The types of a file.
        new: Those of the table.
        name: What messages call the file.

    Raises:
        UnsupportedFile: A type of the table cannot hold all values of that of the file.
    """
    if (column := _lost_column(old, new, 0, 0, "")) is not None:
        raise UnsupportedFile(
            f"{name} has values of another type in the column {column}, and some may not fit the"
            " table's.",
            remedy="Give the column its old type back, or overwrite the table, or the partition,"
            " with its own rows.",
        )


def _lost_column(
    old: Sequence[bytes], new: Sequence[bytes], old_column: int, new_column: int, path: str
) -> str | None:
    before, after = Message.decode(old[old_column]), Message.decode(new[new_column])
    if not _holds(before, after):
        return path.removeprefix(".").removeprefix("row.")
    inside, wanted = _subcolumns(before), _subcolumns(after)
    for name in inside.keys() & wanted.keys():
        lost = _lost_column(old, new, inside[name], wanted[name], f"{path}.{name}")
        if lost is not None:
            return lost
    return None


def _holds(before: Message, after: Message) -> bool:
    """Whether a type has room for the values of another one, leaving aside what is nested."""
    old, new = (message.number(TypeField.KIND) for message in (before, after))
    room = after.number(TypeField.PRECISION) - after.number(TypeField.SCALE)
    if old == new == TypeKind.DECIMAL:
        scale = before.number(TypeField.SCALE)
        return after.number(TypeField.SCALE) >= scale and (
            room >= before.number(TypeField.PRECISION) - scale
        )
    if old == new or (new in _TEXTS and old not in _NEVER_TEXT):
        return True
    if old in _DIGITS and new == TypeKind.DECIMAL:
        return room >= _DIGITS[old]
    return new in _WIDER.get(old, ())


def check_clocks(old: Sequence[bytes], new: Sequence[bytes]) -> None:
    """Refuse timestamps by a clock that is not UTC's where timestamps by UTC are wanted, or vice versa.

    Raises:
        BeyondArrow: There are some; their numbers would mean something else.
    """
    if any(
        {before.number(TypeField.KIND), after.number(TypeField.KIND)} == _BY_CLOCK_AND_BY_UTC
        for before, after in _pairs(old, new)
    ):
        raise BeyondArrow("A column of timestamps has got another kind of time zone.")


def _has_other_blanks(old: Sequence[bytes], new: Sequence[bytes]) -> bool:
    """Whether texts need more or fewer blanks behind them, of which Arrow knows nothing."""
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
    before, after = Message.decode(old[old_column]), Message.decode(new[new_column])
    yield before, after
    inside, wanted = _subcolumns(before), _subcolumns(after)
    for name in inside.keys() & wanted.keys():
        yield from _pairs(old, new, inside[name], wanted[name])


def _subcolumns(type_: Message) -> dict[str, int]:
    """The column numbers of what is nested in a type, by names or by places."""
    columns = type_.all_numbers(TypeField.SUBTYPES)
    if type_.number(TypeField.KIND) != TypeKind.STRUCT:
        # Trino names the elements of lists and maps, Hive doesn't.
        return dict(zip(map(str, range(len(columns))), columns, strict=True))
    names = [name.decode().lower() for name in type_.all_data(TypeField.FIELD_NAMES)]
    return dict(zip(names, columns, strict=True))


def _schema(types: tuple[bytes, ...]) -> Any:
    """What the library makes of ORC types."""
    from pyarrow import orc

    nothing = (count_statistics(0).encode(),) * len(types)
    tail = OrcTail.new(types, Compression(Codec.NONE, 64 << 10), 0)
    empty = MAGIC + replace(tail, file_statistics=nothing).encode(len(MAGIC))
    return orc.ORCFile(io.BytesIO(empty)).schema


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

    # Of names that differ by nothing but case the first one counts.
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

    # Neither the offsets nor the elements of a slice begin at zero; those of nulls may hide values.
    lengths = compute.fill_null(compute.list_value_length(values), 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    elements = _converted(values.flatten(), type_.value_type)
    return pa.ListArray.from_arrays(pa.array(offsets), elements, type=type_, mask=values.is_null())


def _is_safe(old: Any, new: Any) -> bool:
    """Whether a cast gives what every reader of the old values shows."""
    from pyarrow import types

    if types.is_integer(old) and types.is_integer(new):
        return bool(old.bit_width <= new.bit_width)
    if types.is_float32(old) and types.is_float64(new):
        return True
    if types.is_decimal(old) and types.is_decimal(new):
        digits = new.precision - new.scale
        return bool(new.scale >= old.scale and digits >= old.precision - old.scale)
    return False
