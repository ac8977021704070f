"""Ranges of numbers with a fraction, as far as readers can trust them.

A value that is not a number is neither less nor greater than any other. Writers that meet one first
take it for the smallest and the largest value, those that meet one later leave it out, and readers
that look no further than at such a range skip rows that do match. ORC's Java reader also tells the
two zeros apart, which SQL does not. So nothing that we write or copy says NaN in its statistics,
and a range that ends in a zero includes both.
"""

import math
import re
import struct

from airflow_hiveacid.orc.envelope import TypeField, TypeKind
from airflow_hiveacid.orc.protobuf import FIXED64, Field, Message

# Field numbers: of the statistics of a column, and of those of doubles.
DOUBLES = 3
_SMALLEST, _LARGEST, _SUM = 1, 2, 3

_INDEX_ENTRY = 1
_INDEX_STATISTICS = 2

_LOWEST_ZERO = struct.pack("<d", -0.0)
_HIGHEST_ZERO = struct.pack("<d", 0.0)
# Where a double may be NaN or infinite, or a range may end in a zero: most bytes have neither.
_SUSPECT = re.compile(
    rb"[\x09\x11\x19].{6}[\xf0-\xff][\x7f\xff]|[\x09\x11]\0{7}[\0\x80]", re.DOTALL
)


def has_ranges(type_: bytes) -> bool:
    """Whether the statistics of a column of this type are those of doubles."""
    return Message.decode(type_).number(TypeField.KIND) in (TypeKind.FLOAT, TypeKind.DOUBLE)


def sound_statistics(statistics: bytes) -> bytes:
    """The statistics of a column, without the range of doubles if it misleads."""
    if not _SUSPECT.search(statistics):
        return statistics
    message = Message.decode(statistics)
    doubles = message.message(DOUBLES)
    if doubles is None:
        return statistics
    sound = sound_range(doubles)
    if sound is None:
        # An empty range would be one from zero to zero to some readers.
        return message.without(DOUBLES).encode()
    return message.with_data({DOUBLES: sound.encode()}).encode()


def sound_range(doubles: Message) -> Message | None:
    """The statistics of doubles that readers can trust; None if they know nothing for certain.

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


def sound_index(index: bytes) -> bytes:
    """A row index of a column of doubles, without ranges that mislead; the same one if it has none.

    Args:
        index: The stream, decompressed.
    """
    if not _SUSPECT.search(index):
        return index
    return Message(map(_sound_entry, Message.decode(index).fields)).encode()


def _sound_entry(field: Field) -> Field:
    number, wire_type, value = field
    if number != _INDEX_ENTRY or not isinstance(value, bytes):
        return field
    entry = Message.decode(value)
    statistics = entry.data(_INDEX_STATISTICS)
    if statistics is None:
        return field
    sound = entry.with_data({_INDEX_STATISTICS: sound_statistics(statistics)})
    return number, wire_type, sound.encode()
