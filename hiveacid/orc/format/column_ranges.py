"""Value ranges of a column in the stripes of a file, as far as the file's tail is reliable.

Other writers' statistics are trusted only where all readers trust them: ranges of types other than
plain ones count as unknown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import Any

from hiveacid.orc.format.envelope import EnvelopeColumn, TypeField, TypeKind
from hiveacid.orc.format.protobuf import Message
from hiveacid.orc.format.statistics import (
    COUNT,
    DATES,
    DECIMALS,
    INTEGERS,
    STRINGS,
    decimal_of,
)
from hiveacid.orc.format.tail import OrcTail
from hiveacid.rules.schema import Decimal, HiveType, Primitive

# Decimals with no more digits are numbers of 64 bits, but for their point.
LONG_DIGITS = 18

# The first day of the Gregorian calendar. Files may count earlier days in the Julian calendar.
FIRST_GREGORIAN_DAY = -141427
_EARLIEST = -(1 << 63)
_EXACT = Context(prec=400)
# Java's replacement for bytes that are not UTF-8: such a bound is invalid.
_REPLACED = "\ufffd".encode()
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_INTEGER_KINDS = (TypeKind.BYTE, TypeKind.SHORT, TypeKind.INT, TypeKind.LONG)


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
    if column is None or not _stores(Message.decode(tail.types[column]), hive_type):
        return [None] * len(tail.stripes)
    return [
        _range(columns[column], hive_type, tail.is_julian) for columns in tail.stripe_statistics
    ]


def _column_number(tail: OrcTail, name: str) -> int | None:
    """Return the number of a column, unless the file lacks it or has duplicates of it."""
    root = EnvelopeColumn.ROW if tail.is_acid else EnvelopeColumn.ROOT
    struct = Message.decode(tail.types[root])
    names = [
        field.decode(errors="replace").lower() for field in struct.all_data(TypeField.FIELD_NAMES)
    ]
    numbers: Sequence[int] = struct.all_numbers(TypeField.SUBTYPES)
    if names.count(name.lower()) != 1 or len(names) != len(numbers):
        return None
    return numbers[names.index(name.lower())]


def _stores(type_: Message, hive_type: HiveType) -> bool:
    """Return whether a file holds the values that readers show: its type may predate the table's."""
    kind = type_.number(TypeField.KIND)
    match hive_type:
        case Primitive(name) if name in _INTEGERS:
            return kind in _INTEGER_KINDS[: _INTEGERS.index(name) + 1]
        case Primitive("string"):
            return kind == TypeKind.STRING
        case Primitive("date"):
            return kind == TypeKind.DATE
        case Decimal(precision, scale) if precision <= LONG_DIGITS:
            stored = (type_.number(TypeField.PRECISION), type_.number(TypeField.SCALE))
            return kind == TypeKind.DECIMAL and stored == (precision, scale)
    return False


def _range(statistics: bytes, hive_type: HiveType, julian: bool) -> ColumnRange | None:
    message = Message.decode(statistics)
    if message.number(COUNT, -1) == 0:
        return ColumnRange()
    match hive_type:
        case Decimal(_, scale):
            return _decimal_range(message.message(DECIMALS), scale)
        case Primitive("string"):
            return _text_range(message.message(STRINGS))
        case Primitive("date"):
            days = _signed_range(message.message(DATES))
            return _with_old_days(days) if days and julian else days
    return _signed_range(message.message(INTEGERS))


def _signed_range(values: Message | None) -> ColumnRange | None:
    if values is None or not (values.has(1) and values.has(2)):
        return None
    return ColumnRange(values.signed(1), values.signed(2))


def _with_old_days(days: ColumnRange) -> ColumnRange:
    """Widen a range for days in the other calendar, which remain before the first Gregorian day."""
    low = days.low if days.low >= FIRST_GREGORIAN_DAY else _EARLIEST
    return ColumnRange(low, max(days.high, FIRST_GREGORIAN_DAY - 1))


def _decimal_range(values: Message | None, scale: int) -> ColumnRange | None:
    low, high = (values.data(1), values.data(2)) if values is not None else (None, None)
    if low is None or high is None:
        return None
    lowest, highest = (decimal_of(bound).scaleb(scale, _EXACT) for bound in (low, high))
    return ColumnRange(
        int(lowest.to_integral_value(ROUND_FLOOR, _EXACT)),
        int(highest.to_integral_value(ROUND_CEILING, _EXACT)),
    )


def _text_range(values: Message | None) -> ColumnRange | None:
    """Return the range of texts; for long texts, separate fields hold only bounds.

    Long means more than a kilobyte.
    """
    if values is None:
        return None
    low = values.data(1) if values.has(1) else values.data(4)
    high = values.data(2) if values.has(2) else values.data(5)
    if low is None or high is None or _REPLACED in low or _REPLACED in high:
        return None
    return ColumnRange(low, high)
