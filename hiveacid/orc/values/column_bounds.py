"""The bounds of a column's values in the stripes of a file, as far as its tail is reliable.

Bounds have two uses. Readers skip stripes whose values are out of them, so that wider bounds are
sufficient (``ranges_of``). ANALYZE stores them, and engines answer min and max from the stored ones,
so that they must be exact (``stripe_statistics``); in all other cases the caller decodes the stripe.

Statistics of other writers are used only where all writers compute them alike, and as readers compare:

* The type in the file may predate that of the table, and then have other values than readers show.
* Days before the Gregorian calendar may be those of the Julian one.
* A char is stored with its padding, and a varchar may be longer than the table shows.
* Long texts are cut: separate fields have bounds instead of values. Java replaces bytes that are not
  UTF-8 by another character.
* NaN has no place in an order. The zeros -0.0 and 0.0 are equal in SQL, and different in bounds.
* Times are relative to the time zone of the writer, and rounded in several ways.
"""

import math
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from decimal import Decimal as Number
from typing import Any

from hiveacid.dataclass import dataclass
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
from hiveacid.rules.column_statistics import ColumnStatistics, StatisticsKind, kind_of_statistics
from hiveacid.rules.schema import LOCAL_ZONE, Char, Decimal, HiveType, Primitive, Varchar

# Decimals with no more digits are numbers of 64 bits, but for their point.
LONG_DIGITS = 18

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_INTEGER_KINDS = (TypeKind.BYTE, TypeKind.SHORT, TypeKind.INT, TypeKind.LONG)
_TEXT_KINDS = (TypeKind.STRING, TypeKind.VARCHAR, TypeKind.CHAR)
_PLAIN_KINDS = {
    "boolean": TypeKind.BOOLEAN,
    "float": TypeKind.FLOAT,
    "double": TypeKind.DOUBLE,
    "binary": TypeKind.BINARY,
    "date": TypeKind.DATE,
    "timestamp": TypeKind.TIMESTAMP,
}
_STRING, _DATE = Primitive("string"), Primitive("date")
_EARLIEST = -(1 << 63)
_EXACT = Context(prec=400)
# Java's replacement for bytes that are not UTF-8: such a bound is invalid.
_REPLACED = "\ufffd".encode()
_MILLIS = 1000


# The columns of a file


def row_columns(tail: OrcTail) -> list[tuple[str, int]]:
    """The names of the table's columns in a file, in lower case, and their numbers."""
    root = EnvelopeColumn.ROW if tail.is_acid else EnvelopeColumn.ROOT
    struct = Message.decode(tail.types[root])
    names = [
        name.decode(errors="replace").lower() for name in struct.all_data(TypeField.FIELD_NAMES)
    ]
    return list(zip(names, struct.all_numbers(TypeField.SUBTYPES), strict=False))


def _column_number(tail: OrcTail, name: str) -> int | None:
    """Return the number of a column, unless the file lacks it or has duplicates of it."""
    numbers = [number for stored, number in row_columns(tail) if stored == name.lower()]
    return numbers[0] if len(numbers) == 1 else None


def _stores(type_: Message, hive_type: HiveType) -> bool:
    """Return whether a file holds the values that readers show: its type may predate the table's."""
    kind = type_.number(TypeField.KIND)
    match hive_type:
        case Primitive(name) if name in _INTEGERS:
            return kind in _INTEGER_KINDS[: _INTEGERS.index(name) + 1]
        case Primitive(name) if name in _PLAIN_KINDS:
            return kind == _PLAIN_KINDS[name]
        case Decimal(precision, scale):
            decimal_shape = (type_.number(TypeField.PRECISION), type_.number(TypeField.SCALE))
            return kind == TypeKind.DECIMAL and decimal_shape == (precision, scale)
    return kind in _TEXT_KINDS


def _bounds(message: Message, hive_type: HiveType) -> tuple[Any, Any] | None:
    """Return the smallest and largest integer, day, or decimal in units of its last digit."""
    if isinstance(hive_type, Decimal):
        decimals = message.message(DECIMALS) or Message()
        low, high = decimals.data(1), decimals.data(2)
        if low is None or high is None:
            return None
        smallest, largest = (
            decimal_of(bound).scaleb(hive_type.scale, _EXACT) for bound in (low, high)
        )
        return smallest, largest
    values = message.message(DATES if hive_type == _DATE else INTEGERS) or Message()
    return (values.signed(1), values.signed(2)) if values.has(1) and values.has(2) else None


# Bounds that stripes are skipped by


@dataclass(frozen=True, slots=True)
class ColumnRange:
    """Between which values all that are not null lie, both included.

    Integers are themselves, days count from 1970, decimals are counted in units of their last
    digit, and texts are their bytes. A stripe without values has no bounds.
    """

    low: Any = None
    high: Any = None

    @property
    def is_empty(self) -> bool:
        """Return whether all values are null."""
        return self.low is None


def ranges_of(tail: OrcTail, name: str, hive_type: HiveType) -> list[ColumnRange | None]:
    """Return the range of a column in each stripe, as far as it is known.

    Args:
        tail: The tail of a full ACID file or of a flat one.
        name: The column's name, in any case.
        hive_type: Its type in the table.
    """
    column = _column_number(tail, name)
    if column is None or not _has_range(Message.decode(tail.types[column]), hive_type):
        return [None] * len(tail.stripes)
    return [
        _range(columns[column], hive_type, tail.is_julian) for columns in tail.stripe_statistics
    ]


def all_values_in(tail: OrcTail, name: str) -> bool:
    """Return whether a column certainly has a value, and no null, in each row of a file.

    Args:
        tail: The tail of a full ACID file or of a flat one.
        name: The column's name, in any case.
    """
    column = _column_number(tail, name)
    return column is not None and all(
        column < len(columns) and Message.decode(columns[column]).number(COUNT, -1) == stripe.rows
        for stripe, columns in zip(tail.stripes, tail.stripe_statistics, strict=True)
    )


def compare_like_values(hive_type: HiveType) -> bool:
    """Return whether the bounds of a column compare as SQL compares its values, in files of this type."""
    match hive_type:
        case Char() | Varchar():
            return False
        case Primitive(name):
            return name not in ("float", "double", "timestamp", LOCAL_ZONE)
    return True


def _has_range(type_: Message, hive_type: HiveType) -> bool:
    match hive_type:
        case Primitive("string"):
            return type_.number(TypeField.KIND) == TypeKind.STRING
        case Primitive(name):
            return name in (*_INTEGERS, "date") and _stores(type_, hive_type)
        case Decimal(precision):
            return precision <= LONG_DIGITS and _stores(type_, hive_type)
    return False


def _range(statistics: bytes, hive_type: HiveType, is_julian: bool) -> ColumnRange | None:
    message = Message.decode(statistics)
    if message.number(COUNT, -1) == 0:
        return ColumnRange()
    if hive_type == _STRING:
        return _text_range(message.message(STRINGS) or Message())
    if (bounds := _bounds(message, hive_type)) is None:
        return None
    low, high = bounds
    if isinstance(hive_type, Decimal):
        low = int(low.to_integral_value(ROUND_FLOOR, _EXACT))
        high = int(high.to_integral_value(ROUND_CEILING, _EXACT))
    elif hive_type == _DATE and is_julian:
        # Days in the other calendar remain before the first Gregorian day.
        low = low if low >= FIRST_GREGORIAN_DAY else _EARLIEST
        high = max(high, FIRST_GREGORIAN_DAY - 1)
    return ColumnRange(low, high)


def _text_range(values: Message) -> ColumnRange | None:
    """Return the range of texts; for those of more than a kilobyte, separate fields hold bounds."""
    low = values.data(1) if values.has(1) else values.data(4)
    high = values.data(2) if values.has(2) else values.data(5)
    if low is None or high is None or _REPLACED in low or _REPLACED in high:
        return None
    return ColumnRange(low, high)


# Exact statistics


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
    return [
        _of_stripe(tail, Message.decode(columns[column]), stripe.rows, kind, hive_type)
        for columns, stripe in zip(tail.stripe_statistics, tail.stripes, strict=True)
    ]


def _of_stripe(
    tail: OrcTail, message: Message, rows: int, kind: StatisticsKind, hive_type: HiveType
) -> ColumnStatistics | None:
    values = message.number(COUNT)
    if not message.has(COUNT) or values > rows:
        return None
    if values == 0:
        return ColumnStatistics(nulls=rows)
    detail = _without_counts(tail, message, kind, hive_type)
    if detail is None or detail.trues > values:
        return None
    longest = max(detail.longest, -(-detail.length // values))
    return replace(detail, values=values, nulls=rows - values, longest=longest)


def _without_counts(
    tail: OrcTail, message: Message, kind: StatisticsKind, hive_type: HiveType
) -> ColumnStatistics | None:
    match kind:
        case StatisticsKind.BOOLEAN:
            trues = (message.message(BUCKETS) or Message()).all_numbers(1)
            return ColumnStatistics(trues=trues[0]) if len(trues) == 1 else None
        case StatisticsKind.STRING:
            strings = message.message(STRINGS) or Message()
            longest = max(len(strings.data(field) or b"") for field in (1, 2, 4, 5))
            length = strings.signed(3) if strings.has(3) else None
            return None if length is None else ColumnStatistics(length=length, longest=longest)
        case StatisticsKind.BINARY:
            binaries = message.message(BINARIES) or Message()
            return ColumnStatistics(length=binaries.signed(1)) if binaries.has(1) else None
    bounds = _exact_bounds(tail, message, kind, hive_type)
    return None if bounds is None else ColumnStatistics(low=bounds[0], high=bounds[1])


def _exact_bounds(
    tail: OrcTail, message: Message, kind: StatisticsKind, hive_type: HiveType
) -> tuple[Any, Any] | None:
    if kind is StatisticsKind.DOUBLE:
        doubles = message.message(DOUBLES) or Message()
        if not all(doubles.has(field) for field in (1, 2, 3)):
            return None
        low, high, total = (doubles.real(field) for field in (1, 2, 3))
        # Writers that meet NaN after the first value leave it out of the range, but not of the sum.
        is_unordered = any(map(math.isnan, (low, high, total)))
        # This package's statistics contain -0.0 to 0.0 for a range that ends in either zero.
        return None if is_unordered else (low + 0.0, high + 0.0)
    if kind is StatisticsKind.TIMESTAMP:
        version = tail.postscript.number(PostScriptField.WRITER_VERSION)
        times = message.message(TIMESTAMPS) or Message()
        is_java = tail.footer.number(FooterField.WRITER) == WRITER_JAVA
        if not is_java or version < WRITER_VERSION_ORC_135 or not (times.has(3) and times.has(4)):
            return None
        # Only these milliseconds do not depend on the writer's time zone.
        first, last = times.signed(3) // _MILLIS, times.signed(4) // _MILLIS
        # Writers round times before 1970 in several ways.
        return (first, last) if first >= 0 else None
    bounds = _bounds(message, hive_type)
    if bounds is None:
        return None
    if kind is StatisticsKind.DATE and tail.is_julian and bounds[0] < FIRST_GREGORIAN_DAY:
        return None
    if kind is StatisticsKind.DECIMAL and any(map(_has_fraction, bounds)):
        return None
    return int(bounds[0]), int(bounds[1])


def _has_fraction(bound: Number) -> bool:
    return bound != bound.to_integral_value()
