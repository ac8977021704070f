"""Exact statistics of the columns of a file's stripes, taken from its tail.

Statistics are used only where all writers compute them alike. In all other cases the caller decodes
the stripe: merely wide bounds are sufficient to skip data, but engines answer min and max from the
stored statistics.
"""

import math
from collections.abc import Callable, Mapping
from decimal import Context
from typing import Any

from hiveacid.orc.format.envelope import EnvelopeColumn, TypeField, TypeKind
from hiveacid.orc.format.protobuf import Message
from hiveacid.orc.format.statistics import (
    BINARIES,
    BUCKETS,
    COUNT,
    DATES,
    DECIMALS,
    DOUBLES,
    INTEGERS,
    STRINGS,
    TIMESTAMPS,
    decimal_of,
)
from hiveacid.orc.format.tail import (
    FIRST_GREGORIAN_DAY,
    WRITER_JAVA,
    WRITER_VERSION_ORC_135,
    FooterField,
    OrcTail,
    PostScriptField,
)
from hiveacid.rules.column_statistics import (
    ColumnStatistics,
    StatisticsKind,
    kind_of_statistics,
)
from hiveacid.rules.schema import Decimal, HiveType, Primitive

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_INTEGER_KINDS = (TypeKind.BYTE, TypeKind.SHORT, TypeKind.INT, TypeKind.LONG)
_TEXT_KINDS = (TypeKind.STRING, TypeKind.VARCHAR, TypeKind.CHAR)
_PLAIN_KINDS: Mapping[str, TypeKind] = {
    "boolean": TypeKind.BOOLEAN,
    "float": TypeKind.FLOAT,
    "double": TypeKind.DOUBLE,
    "binary": TypeKind.BINARY,
    "date": TypeKind.DATE,
    "timestamp": TypeKind.TIMESTAMP,
}
_EXACT = Context(prec=80)
_MILLIS = 1000

_Detail = tuple[Any, Any, int, int, int]


def row_columns(tail: OrcTail) -> list[tuple[str, int]]:
    """The names of the table's columns in a file, in lower case, and their numbers."""
    root = EnvelopeColumn.ROW if tail.is_acid else EnvelopeColumn.ROOT
    struct = Message.decode(tail.types[root])
    names = [
        name.decode(errors="replace").lower() for name in struct.all_data(TypeField.FIELD_NAMES)
    ]
    return list(zip(names, struct.all_numbers(TypeField.SUBTYPES), strict=False))


def stripe_statistics(
    tail: OrcTail, column: int, hive_type: HiveType
) -> list[ColumnStatistics | None]:
    """Return the exact statistics of a column in each stripe, as far as the tail contains them.

    Args:
        tail: The tail of the file.
        column: The number of the column in the file.
        hive_type: Its type in the table.
    """
    kind = kind_of_statistics(hive_type)
    if kind is None or not _stores(Message.decode(tail.types[column]), hive_type):
        return [None] * len(tail.stripes)
    read = _READERS[kind]
    return [
        _of_stripe(tail, columns[column], stripe.rows, read, hive_type)
        for columns, stripe in zip(tail.stripe_statistics, tail.stripes, strict=True)
    ]


def _stores(type_: Message, hive_type: HiveType) -> bool:
    """Return whether a file holds exactly the values that readers show."""
    kind = type_.number(TypeField.KIND)
    match hive_type:
        case Primitive(name) if name in _INTEGERS:
            return kind in _INTEGER_KINDS[: _INTEGERS.index(name) + 1]
        case Primitive(name) if name in _PLAIN_KINDS:
            return kind == _PLAIN_KINDS[name]
        case Decimal(precision, scale):
            stored = (type_.number(TypeField.PRECISION), type_.number(TypeField.SCALE))
            return kind == TypeKind.DECIMAL and stored == (precision, scale)
    return kind in _TEXT_KINDS


def _of_stripe(
    tail: OrcTail,
    encoded: bytes,
    rows: int,
    read: Callable[[OrcTail, Message, HiveType], _Detail | None],
    hive_type: HiveType,
) -> ColumnStatistics | None:
    message = Message.decode(encoded)
    values = message.number(COUNT)
    if not message.has(COUNT) or values > rows:
        return None
    if values == 0:
        return ColumnStatistics(nulls=rows)
    detail = read(tail, message, hive_type)
    if detail is None:
        return None
    low, high, length, longest, trues = detail
    if trues > values:
        return None
    longest = max(longest, -(-length // values))
    return ColumnStatistics(values, rows - values, low, high, length, longest, trues)


def _boolean(tail: OrcTail, message: Message, hive_type: HiveType) -> _Detail | None:
    counts = message.message(BUCKETS)
    trues = counts.all_numbers(1) if counts is not None else []
    return (None, None, 0, 0, trues[0]) if len(trues) == 1 else None


def _signed(message: Message | None) -> tuple[int, int] | None:
    if message is None or not (message.has(1) and message.has(2)):
        return None
    return message.signed(1), message.signed(2)


def _long(tail: OrcTail, message: Message, hive_type: HiveType) -> _Detail | None:
    bounds = _signed(message.message(INTEGERS))
    return None if bounds is None else (*bounds, 0, 0, 0)


def _date(tail: OrcTail, message: Message, hive_type: HiveType) -> _Detail | None:
    bounds = _signed(message.message(DATES))
    # Earlier days may be in another calendar.
    if bounds is None or (tail.is_julian and bounds[0] < FIRST_GREGORIAN_DAY):
        return None
    return (*bounds, 0, 0, 0)


def _timestamp(tail: OrcTail, message: Message, hive_type: HiveType) -> _Detail | None:
    version = tail.postscript.number(PostScriptField.WRITER_VERSION)
    if tail.footer.number(FooterField.WRITER) != WRITER_JAVA or version < WRITER_VERSION_ORC_135:
        return None
    times = message.message(TIMESTAMPS)
    if times is None or not (times.has(3) and times.has(4)):
        return None
    # Only these milliseconds do not depend on the writer's time zone.
    low, high = times.signed(3) // _MILLIS, times.signed(4) // _MILLIS
    # Writers round times before 1970 in several ways.
    return (low, high, 0, 0, 0) if low >= 0 else None


def _double(tail: OrcTail, message: Message, hive_type: HiveType) -> _Detail | None:
    doubles = message.message(DOUBLES)
    if doubles is None or not all(doubles.has(field) for field in (1, 2, 3)):
        return None
    low, high, total = (doubles.real(field) for field in (1, 2, 3))
    # Writers that meet NaN after the first value leave it out of the range, but not of the sum.
    if any(map(math.isnan, (low, high, total))):
        return None
    # This package's statistics contain -0.0 to 0.0 for a range that ends in either zero; SQL has
    # only one zero.
    return (low + 0.0, high + 0.0, 0, 0, 0)


def _decimal(tail: OrcTail, message: Message, hive_type: HiveType) -> _Detail | None:
    assert isinstance(hive_type, Decimal)
    decimals = message.message(DECIMALS)
    low, high = (decimals.data(1), decimals.data(2)) if decimals is not None else (None, None)
    if low is None or high is None:
        return None
    bounds = [decimal_of(bound).scaleb(hive_type.scale, _EXACT) for bound in (low, high)]
    if any(bound != bound.to_integral_value() for bound in bounds):
        return None
    return (int(bounds[0]), int(bounds[1]), 0, 0, 0)


def _string(tail: OrcTail, message: Message, hive_type: HiveType) -> _Detail | None:
    strings = message.message(STRINGS)
    if strings is None or not strings.has(3):
        return None
    longest = max(len(strings.data(field) or b"") for field in (1, 2, 4, 5))
    return (None, None, strings.signed(3), longest, 0)


def _binary(tail: OrcTail, message: Message, hive_type: HiveType) -> _Detail | None:
    binaries = message.message(BINARIES)
    if binaries is None or not binaries.has(1):
        return None
    return (None, None, binaries.signed(1), 0, 0)


_READERS: Mapping[StatisticsKind, Callable[[OrcTail, Message, HiveType], _Detail | None]] = {
    StatisticsKind.BOOLEAN: _boolean,
    StatisticsKind.LONG: _long,
    StatisticsKind.DOUBLE: _double,
    StatisticsKind.STRING: _string,
    StatisticsKind.BINARY: _binary,
    StatisticsKind.DECIMAL: _decimal,
    StatisticsKind.DATE: _date,
    StatisticsKind.TIMESTAMP: _timestamp,
}
