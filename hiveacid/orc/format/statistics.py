"""Statistics of columns: computed, merged, and without values that mislead readers.

Ranges of doubles may mislead. NaN is neither less nor greater than any other value. Writers that
encounter NaN first treat it as the smallest and the largest value, writers that encounter it later
omit it, and readers that check only such a range skip matching rows. ORC's Java reader also
distinguishes the two zeros, which SQL does not. So statistics that this package writes or copies
never contain NaN, and a range that ends in a zero includes both.

Ranges of texts mislead readers of Java. Bounds are ordered by their UTF-8 bytes, but these readers
compare them by UTF-16 code units, in which a supplementary character, above U+FFFF, precedes
U+E000 to U+FFFF. A range misleads if its upper bound has the former, or its lower bound the latter: then
a text on the other side of the bound may seem to be outside. Such ranges are left out, too.
"""

import math
import re
import struct
from collections.abc import Callable, Iterable, Sequence
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from hiveacid.errors import CorruptFile
from hiveacid.orc.format.envelope import EnvelopeColumn, TypeKind, is_envelope, kind_of
from hiveacid.orc.format.protobuf import FIXED64, Field, Message, pack

# Field numbers of ColumnStatistics.
COUNT = 1
INTEGERS = 2
DOUBLES = 3
STRINGS = 4
BUCKETS = 5
DECIMALS = 6
DATES = 7
BINARIES = 8
TIMESTAMPS = 9
HAS_NULL = 10
BYTES_ON_DISK = 11
COLLECTIONS = 12

# Statistics of which nothing is known: they lack even the count. Only `stored_statistics` gives
# them a form for files.
UNKNOWN = b""

_INT64 = range(-(1 << 63), 1 << 63)
_EXACT = Context(prec=80)
_MOST_DIGITS = 100
_LARGEST_DECIMAL = Decimal(10) ** 38
_FIRST_NANO, _LAST_NANO = 0, 999_999

_MISLEADING = (
    *(TypeKind.FLOAT, TypeKind.DOUBLE),
    *(TypeKind.STRING, TypeKind.VARCHAR, TypeKind.CHAR),
)

# Field numbers of the statistics of doubles.
_SMALLEST, _LARGEST, _SUM = 1, 2, 3

_INDEX_ENTRY = 1
_INDEX_STATISTICS = 2

_LOWEST_ZERO = struct.pack("<d", -0.0)
_HIGHEST_ZERO = struct.pack("<d", 0.0)
# Matches doubles that may be NaN or infinite, a range that may end in a zero, or characters that the
# encodings order differently: most bytes contain none of these.
_SUSPECT_DOUBLES = rb"[\x09\x11\x19].{6}[\xf0-\xff][\x7f\xff]|[\x09\x11]\0{7}[\0\x80]"
# Characters from U+E000 to U+FFFF, and supplementary ones.
_LAST_OF_PLANE = re.compile(rb"[\xee\xef][\x80-\xbf]{2}")
_SUPPLEMENTARY = re.compile(rb"[\xf0-\xf4][\x80-\xbf]{3}")
_SUSPECT = re.compile(
    b"|".join((_SUSPECT_DOUBLES, _LAST_OF_PLANE.pattern, _SUPPLEMENTARY.pattern)), re.DOTALL
)


def count_statistics(count: int, *, has_null: bool = False) -> Message:
    """Return statistics that contain only the number of non-null values."""
    return Message().add_number(COUNT, count).add_number(HAS_NULL, int(has_null))


def integer_statistics(count: int, smallest: int, largest: int, total: int | None) -> Message:
    """Statistics of integers without nulls; a sum beyond 64 bits is left out, as ORC demands."""
    integers = Message().add_signed(1, smallest).add_signed(2, largest)
    if total is not None and total in _INT64:
        integers.add_signed(3, total)
    message = Message().add_number(COUNT, count).add_data(INTEGERS, integers.encode())
    return message.add_number(HAS_NULL, 0)


def timestamp_statistics(count: int, millis: tuple[int, int], *, has_null: bool) -> Message:
    """Statistics of timestamps from the first to the last millisecond that they may be in."""
    message = Message().add_number(COUNT, count)
    if count and all(bound in _INT64 for bound in millis):
        first, last = millis
        timestamps = Message().add_signed(3, first).add_signed(4, last)
        message.add_data(TIMESTAMPS, timestamps.encode())
    return message.add_number(HAS_NULL, int(has_null))


def known_statistics(
    columns: tuple[bytes, ...], rows: int, types: Sequence[bytes]
) -> tuple[bytes, ...]:
    """Return the statistics of each column of a stripe or of a file, `UNKNOWN` without evidence.

    ORC Java writes entries with zero values if a file has no row index. Only the count of the root,
    which is never null, distinguishes them from those of nulls. The key columns of a full ACID file
    may have statistics while the user's columns lack them, so the column `row` is checked, too.

    Args:
        columns: The statistics in the file, possibly of fewer columns, or none.
        rows: The rows of the stripe or of the file.
        types: The types of the file.
    """
    unknown_columns = (UNKNOWN,) * len(types)
    if len(columns) != len(types) or Message.decode(columns[0]).number(COUNT, -1) != rows:
        return unknown_columns
    if is_envelope(types):
        row = Message.decode(columns[EnvelopeColumn.ROW])
        count = row.number(COUNT, -1)
        if count != rows and not (0 <= count < rows and row.number(HAS_NULL, 1)):
            return (*columns[: EnvelopeColumn.ROW], *unknown_columns[EnvelopeColumn.ROW :])
    return columns


def stored_statistics(statistics: bytes, rows: int) -> bytes:
    """Return the statistics of a column in the form for files, which mislead no reader.

    Readers of Java take a missing count for zero values, and skip the rows. Trino takes a count
    that equals the rows for the absence of nulls. A larger count is neither.

    Args:
        statistics: The statistics of a stripe or of the file.
        rows: The rows of the file.
    """
    if statistics == UNKNOWN:
        return count_statistics(rows + 1, has_null=True).encode()
    return reliable_statistics(statistics)


def integer_range(statistics: bytes) -> tuple[int, int] | None:
    """Return the smallest and the largest value, if the statistics contain them."""
    integers = Message.decode(statistics).message(INTEGERS)
    if integers is None or not (integers.has(1) and integers.has(2)):
        return None
    return integers.signed(1), integers.signed(2)


def merge_columns(parts: Sequence[Sequence[bytes]]) -> tuple[bytes, ...]:
    """Unite the statistics of all columns of several files or stripes."""
    return tuple(
        merge([Message.decode(data) for data in column]) for column in zip(*parts, strict=True)
    )


def of_all_stripes(stripes: Sequence[tuple[bytes, ...]]) -> tuple[bytes, ...]:
    """Unite statistics that this package has made: those of a single stripe are those of its file."""
    return stripes[0] if len(stripes) == 1 else merge_columns(stripes)


def merge(parts: Sequence[Message]) -> bytes:
    """Merge the statistics of one column.

    A value that is unknown in one part is unknown in the result, too: readers trust statistics and
    skip data because of them.
    """
    if not _all_have(parts, COUNT):
        return UNKNOWN
    united = Message().add_number(COUNT, sum(part.number(COUNT) for part in parts))
    filled_parts = [part for part in parts if part.number(COUNT) > 0]
    for field, union in _UNIONS:
        details = [part.message(field) for part in filled_parts]
        known_details = [detail for detail in details if detail is not None]
        if not known_details or len(known_details) < len(filled_parts):
            continue
        merged = union(known_details)
        if merged is not None and merged.fields:
            united.add_data(field, merged.encode())
    # Statistics without the flag come from writers that did not keep it.
    united.add_number(HAS_NULL, int(any(part.number(HAS_NULL, 1) for part in parts)))
    if all(part.has(BYTES_ON_DISK) for part in parts):
        united.add_number(BYTES_ON_DISK, sum(part.number(BYTES_ON_DISK) for part in parts))
    united.fields.sort(key=lambda field: field[0])
    return united.encode()


def decimal_of(text: bytes) -> Decimal:
    """A bound of decimals, which statistics hold as text.

    Raises:
        CorruptFile: It is no number, or far too long.
    """
    try:
        number = Decimal(text.decode())
    except (InvalidOperation, UnicodeDecodeError):
        number = Decimal("NaN")
    # A few characters can represent a billion digits.
    if not number.is_finite() or abs(number.adjusted()) > _MOST_DIGITS or len(text) > _MOST_DIGITS:
        raise CorruptFile("Statistics of decimals have another type.")
    return number


def may_mislead(type_: bytes) -> bool:
    """Return whether the ranges of a column of this type may mislead readers."""
    return kind_of(type_) in _MISLEADING


def reliable_statistics(statistics: bytes) -> bytes:
    """The statistics of a column, without the range of doubles or texts if it misleads."""
    if not _SUSPECT.search(statistics):
        return statistics
    message = Message.decode(statistics)
    doubles, texts = message.message(DOUBLES), message.message(STRINGS)
    if doubles is not None:
        reliable = reliable_range(doubles)
        if reliable is not None:
            return message.with_data({DOUBLES: reliable.encode()}).encode()
        # Some readers interpret an empty range as a range from zero to zero.
        return message.without(DOUBLES).encode()
    if texts is not None and _misleads(texts):
        # Hive 3 takes a missing bound for a lack of values.
        return message.without(STRINGS).encode()
    return statistics


def _misleads(texts: Message) -> bool:
    low, high = _bound(texts, exact=1, cut_field=4), _bound(texts, exact=2, cut_field=5)
    return bool(
        (low is not None and _LAST_OF_PLANE.search(low[0]))
        or (high is not None and _SUPPLEMENTARY.search(high[0]))
    )


def reliable_range(doubles: Message) -> Message | None:
    """Return the reliable part of the statistics of doubles, if any.

    The sum is NaN if any value is, even if the range hides it.
    """
    if any(math.isnan(doubles.real(field)) for field in (_SMALLEST, _LARGEST, _SUM)):
        return None
    widened: list[Field] = []
    for field in doubles.fields:
        number, wire_type, _ = field
        if wire_type == FIXED64 and number in (_SMALLEST, _LARGEST) and doubles.real(number) == 0:
            zero = _LOWEST_ZERO if number == _SMALLEST else _HIGHEST_ZERO
            widened.append((number, wire_type, zero))
        else:
            widened.append(field)
    return Message(widened)


def reliable_index(index: bytes) -> bytes:
    """Return a row index without misleading ranges, unchanged if it lacks such ranges.

    Args:
        index: The stream, decompressed.
    """
    if not _SUSPECT.search(index):
        return index
    return Message(map(_reliable_entry, Message.decode(index).fields)).encode()


def _all_have(parts: Iterable[Message], *fields: int) -> bool:
    return all(part.has(field) for part in parts for field in fields)


def _integers(parts: Sequence[Message]) -> Message:
    merged = _signed_range(parts)
    if _all_have(parts, 3):
        total = sum(part.signed(3) for part in parts)
        if total in _INT64:
            merged.add_signed(3, total)
    return merged


def _signed_range(parts: Sequence[Message]) -> Message:
    merged = Message()
    if _all_have(parts, 1):
        merged.add_signed(1, min(part.signed(1) for part in parts))
    if _all_have(parts, 2):
        merged.add_signed(2, max(part.signed(2) for part in parts))
    return merged


def _doubles(parts: Sequence[Message]) -> Message | None:
    reliable = [range_ for part in parts if (range_ := reliable_range(part)) is not None]
    if len(reliable) < len(parts):
        return None
    merged = Message()
    if _all_have(reliable, 1, 2):
        merged.add_real(1, min(part.real(1) for part in reliable))
        merged.add_real(2, max(part.real(2) for part in reliable))
    if _all_have(reliable, 3):
        merged.add_real(3, sum(part.real(3) for part in reliable))
    # Infinite sums of opposite signs add up to NaN.
    return reliable_range(merged)


def _strings(parts: Sequence[Message]) -> Message | None:
    # Long values are cut: field 4 then is a lower bound and field 5 an upper bound, in the place
    # of the exact smallest and largest value. At equal bytes the bound must win.
    lower = [_bound(part, exact=1, cut_field=4) for part in parts]
    upper = [_bound(part, exact=2, cut_field=5) for part in parts]
    known_lower = [bound for bound in lower if bound is not None]
    known_upper = [bound for bound in upper if bound is not None]
    if len(known_lower) < len(parts) or len(known_upper) < len(parts):
        return None
    merged = Message()
    smallest, lower_field = min(known_lower, key=lambda bound: (bound[0], -bound[1]))
    largest, upper_field = max(known_upper)
    merged.add_data(lower_field, smallest).add_data(upper_field, largest)
    if _all_have(parts, 3):
        merged.add_signed(3, sum(part.signed(3) for part in parts))
    return merged


def _bound(part: Message, *, exact: int, cut_field: int) -> tuple[bytes, int] | None:
    for field in (exact, cut_field):
        value = part.data(field)
        if value is not None:
            return value, field
    return None


def _buckets(parts: Sequence[Message]) -> Message | None:
    counts = [part.all_numbers(1) for part in parts]
    if len({len(count) for count in counts}) != 1:
        return None
    return Message().add_data(1, pack(sum(column) for column in zip(*counts, strict=True)))


def _decimals(parts: Sequence[Message]) -> Message:
    def numbers(field: int) -> list[Decimal]:
        return [decimal_of(part.data(field) or b"0") for part in parts]

    def text(number: Decimal) -> bytes:
        return format(number, "f").encode()

    merged = Message()
    if _all_have(parts, 1):
        merged.add_data(1, text(min(numbers(1))))
    if _all_have(parts, 2):
        merged.add_data(2, text(max(numbers(2))))
    if _all_have(parts, 3):
        total = Decimal(0)
        for number in numbers(3):
            total = _EXACT.add(total, number)
        if abs(total) < _LARGEST_DECIMAL:
            merged.add_data(3, text(total))
    return merged


def _binaries(parts: Sequence[Message]) -> Message:
    return Message().add_signed(1, sum(part.signed(1) for part in parts))


def _timestamps(parts: Sequence[Message]) -> Message | None:
    # Only the UTC milliseconds (3, 4) compare across time zones. The nanoseconds below them
    # (5, 6) are stored plus one, and absent means as far out as can be.
    if not _all_have(parts, 3, 4):
        return None
    smallest, first = min((part.signed(3), part.number(5, _FIRST_NANO + 1)) for part in parts)
    largest, last = max((part.signed(4), part.number(6, _LAST_NANO + 1)) for part in parts)
    merged = Message().add_signed(3, smallest).add_signed(4, largest)
    if first != _FIRST_NANO + 1:
        merged.add_number(5, first)
    if last != _LAST_NANO + 1:
        merged.add_number(6, last)
    return merged


def _collections(parts: Sequence[Message]) -> Message:
    merged = Message().add_number(1, min(part.number(1) for part in parts))
    merged.add_number(2, max(part.number(2) for part in parts))
    return merged.add_number(3, sum(part.number(3) for part in parts))


def _reliable_entry(field: Field) -> Field:
    number, wire_type, value = field
    if number != _INDEX_ENTRY or not isinstance(value, bytes):
        return field
    entry = Message.decode(value)
    statistics = entry.data(_INDEX_STATISTICS)
    if statistics is None:
        return field
    reliable = entry.with_data({_INDEX_STATISTICS: reliable_statistics(statistics)})
    return number, wire_type, reliable.encode()


_UNIONS: tuple[tuple[int, Callable[[Sequence[Message]], Any]], ...] = (
    (INTEGERS, _integers),
    (DOUBLES, _doubles),
    (STRINGS, _strings),
    (BUCKETS, _buckets),
    (DECIMALS, _decimals),
    (DATES, _signed_range),
    (BINARIES, _binaries),
    (TIMESTAMPS, _timestamps),
    (COLLECTIONS, _collections),
)
