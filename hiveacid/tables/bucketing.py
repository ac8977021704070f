"""Hive's bucket hashes, versions 1 and 2, over Arrow columns.

The bucket of a row is ``(hash & 0x7fffffff) % buckets``. Version 1 is the Java hash code of the
value, version 2 is Murmur3 of its bytes; a null counts as 0 in both.

Two hashes of Hive depend on more than the value; this module computes those of a Hive 4 with its
default settings that runs in UTC:

- Version 1 of a timestamp depends on the time zone of Hive's Java.
- Version 2 of binary covers the whole buffer that holds the value. A vectorized write copies each
  value into a new buffer, half as long again and filled with zeros. Without vectorization, and in
  the function ``murmur_hash``, the buffer may hold bytes of earlier rows.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hiveacid.errors import UnsupportedTable
from hiveacid.orc.format.tail import FIRST_GREGORIAN_DAY
from hiveacid.rules.schema import Array, Char, HiveType, Map, Primitive, Struct, Varchar
from hiveacid.rules.schema import Decimal as HiveDecimal

# Hive's variant of Murmur3 has a seed of its own.
_SEED = np.uint32(104729)
_C1 = np.uint32(0xCC9E2D51)
_C2 = np.uint32(0x1B873593)

_SECONDS_OF_DAY = 86_400

Hashes = NDArray[np.int32]


def bucket_numbers(
    columns: Sequence[pa.Array], types: Sequence[HiveType], buckets: int, version: int
) -> NDArray[np.int32]:
    """The bucket of every row, from the values of the clustering columns in order."""
    hashes = np.zeros(len(columns[0]), dtype=np.int32)
    with np.errstate(over="ignore"):
        for column, hive_type in zip(columns, types, strict=True):
            hashes = hashes * np.int32(31) + bucket_hashes(column, hive_type, version)
    return (hashes & np.int32(0x7FFFFFFF)) % np.int32(buckets)


def writer_numbers(properties: NDArray[Any]) -> NDArray[Any]:
    """Return the bucket or writer number in each bucket property of row ids; see ``decode_bucket``."""
    return np.where(properties >> 29 == 1, properties >> 16 & 0xFFF, properties)


def bucket_hashes(column: pa.Array, hive_type: HiveType, version: int) -> Hashes:
    """Hive's hash of every value of one column."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    hashes = np.zeros(len(column), dtype=np.int32)
    if column.null_count == len(column):
        return hashes
    present = np.asarray(pc.is_valid(column))
    values = column if column.null_count == 0 else column.filter(pa.array(present))
    hashes[present] = _hashes_of_present(values, hive_type, version)
    return hashes


def _hashes_of_present(values: pa.Array, hive_type: HiveType, version: int) -> Hashes:
    if isinstance(hive_type, Array | Map | Struct):
        with np.errstate(over="ignore"):
            return _nested(values, hive_type, version)
    if isinstance(hive_type, HiveDecimal):
        return _decimal(values, version)
    if isinstance(hive_type, Char):
        return _text(pc.utf8_rtrim(values, characters=" "), 1, version)
    if isinstance(hive_type, Varchar):
        return _text(values, 1, version)
    if isinstance(hive_type, Primitive) and hive_type.name in _PRIMITIVES:
        return _PRIMITIVES[hive_type.name](values, version)
    raise UnsupportedTable(
        f"A table clustered by a column of type {hive_type} cannot be written.",
        remedy="Cluster the table by a column of another type.",
    )


def _boolean(values: pa.Array, version: int) -> Hashes:
    return np.asarray(values.cast(pa.int8())).astype(np.int32)


def _tinyint(values: pa.Array, version: int) -> Hashes:
    return np.asarray(values).astype(np.int32)


def _smallint(values: pa.Array, version: int) -> Hashes:
    return _integers(np.asarray(values).astype(np.int64), 2, version)


def _int(values: pa.Array, version: int) -> Hashes:
    return _integers(np.asarray(values).astype(np.int64), 4, version)


def _bigint(values: pa.Array, version: int) -> Hashes:
    return _integers(np.asarray(values).astype(np.int64), 8, version)


def _date(values: pa.Array, version: int) -> Hashes:
    days = np.asarray(values.cast(pa.date32()).cast(pa.int32())).astype(np.int64)
    return _integers(days, 4, version)


def _integers(values: NDArray[np.int64], width: int, version: int) -> Hashes:
    if version == 2:
        return murmur3_of_integers(values, width)
    return _folded(values) if width == 8 else values.astype(np.int32)


def _float(values: pa.Array, version: int) -> Hashes:
    bits = _canonical(np.asarray(values).astype(np.float32)).view(np.int32)
    if version == 1:
        return bits
    # Hive converts the bits to a number again before it takes the bytes: that is the format.
    bits_again = _canonical(bits.astype(np.float32)).view(np.int32)
    return murmur3_of_integers(bits_again.astype(np.int64), 4)


def _double(values: pa.Array, version: int) -> Hashes:
    bits = _canonical(np.asarray(values).astype(np.float64)).view(np.int64)
    if version == 1:
        return _folded(bits)
    bits_again = _canonical(bits.astype(np.float64)).view(np.int64)
    return murmur3_of_integers(bits_again, 8)


def _canonical(values: NDArray[Any]) -> NDArray[Any]:
    """Java uses a single bit pattern for NaN."""
    values = values.copy()
    values[np.isnan(values)] = np.nan
    return values


def _folded(values: NDArray[np.int64]) -> Hashes:
    """Java's hash of a long: the two halves mixed."""
    unsigned = values.view(np.uint64)
    mixed = unsigned ^ (unsigned >> np.uint64(32))
    return (mixed & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(np.int32)


def _string(values: pa.Array, version: int) -> Hashes:
    return _text(values, 0, version)


def _binary(values: pa.Array, version: int) -> Hashes:
    if version == 1:
        return _text(values, 1, version)

    def hash_of_buffer(rows: NDArray[np.uint8]) -> Hashes:
        return murmur3(np.pad(rows, ((0, 0), (0, rows.shape[1] // 2))))

    return _by_length(values.cast(pa.large_binary()), hash_of_buffer)


def _text(values: pa.Array, first: int, version: int) -> Hashes:
    """Hash texts by their UTF-8 bytes; version 1 begins with 0 or 1, depending on the type."""

    def java_hash(rows: NDArray[np.uint8]) -> Hashes:
        hashes = np.full(len(rows), first, dtype=np.int32)
        with np.errstate(over="ignore"):
            for position in range(rows.shape[1]):
                hashes = hashes * np.int32(31) + rows[:, position].view(np.int8).astype(np.int32)
        return hashes

    return _by_length(values.cast(pa.large_binary()), murmur3 if version == 2 else java_hash)


def _by_length(values: pa.Array, hashed: Callable[[NDArray[np.uint8]], Hashes]) -> Hashes:
    """Hash byte strings of every length, all those of one length at once."""
    offsets = np.frombuffer(values.buffers()[1], dtype=np.int64)[
        values.offset : values.offset + len(values) + 1
    ]
    buffer = values.buffers()[2]
    data = np.frombuffer(buffer, dtype=np.uint8) if buffer else np.zeros(0, dtype=np.uint8)
    lengths = np.diff(offsets)
    hashes = np.zeros(len(values), dtype=np.int32)
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        positions = offsets[rows][:, None] + np.arange(length)
        matrix = data[positions] if length else np.zeros((len(rows), 0), dtype=np.uint8)
        hashes[rows] = hashed(matrix)
    return hashes


def _decimal(values: pa.Array, version: int) -> Hashes:
    return np.array([_decimal_hash(value, version) for value in values.to_pylist()], np.int32)


def _decimal_hash(value: Decimal, version: int) -> int:
    sign, digits, exponent = value.as_tuple()
    unscaled = int("".join(map(str, digits)) or "0") * (-1 if sign else 1)
    scale = -int(exponent)
    while scale > 0 and unscaled % 10 == 0:
        unscaled //= 10
        scale -= 1
    if version == 1:
        return _wrapped(31 * _big_integer_hash(unscaled) + scale)
    length = (unscaled + (unscaled < 0)).bit_length() // 8 + 1
    data = np.frombuffer(unscaled.to_bytes(length, "big", signed=True), dtype=np.uint8)
    return int(murmur3(data.reshape(1, length))[0])


def _big_integer_hash(value: int) -> int:
    magnitude, result = abs(value), 0
    for word in range((magnitude.bit_length() + 31) // 32 - 1, -1, -1):
        result = 31 * result + (magnitude >> (32 * word) & 0xFFFFFFFF)
    return _wrapped(_wrapped(result) * (-1 if value < 0 else 1))


def _timestamp(values: pa.Array, version: int) -> Hashes:
    per_second = _PER_SECOND[values.type.unit]
    seconds, parts = np.divmod(np.asarray(values.cast(pa.int64())), np.int64(per_second))
    nanos = parts * (1_000_000_000 // per_second)
    if version == 1:
        return _folded(_java_seconds(seconds) << np.int64(30) | nanos)
    pairs = zip(seconds.tolist(), nanos.tolist(), strict=True)
    return np.array([_timestamp_hash(*pair) for pair in pairs], np.int32)


def _java_seconds(seconds: NDArray[np.int64]) -> NDArray[np.int64]:
    """Seconds since 1970 in UTC, as ``java.sql.Timestamp`` counts them.

    It interprets a date before 1582-10-15 in the Julian calendar. The same date there is a later
    day for each century year that is a leap year in that calendar only.
    """
    days = seconds // _SECONDS_OF_DAY
    # Years that begin in March, so that a leap day is the last day of a year.
    since_march_of_year_0 = days + 719_468
    era, day = np.divmod(since_march_of_year_0, 146_097)
    century = 4 * era + np.minimum(day // 36_524, 3)
    shift = (century - century // 4 - 2) * _SECONDS_OF_DAY
    return np.where(days < FIRST_GREGORIAN_DAY, seconds + shift, seconds)


def _timestamp_hash(seconds: int, nanos: int) -> int:
    """Version 2 of a timestamp: Murmur3 of Hive's serialized form."""
    far = not 0 <= seconds <= 0x7FFFFFFF
    first = seconds & 0x7FFFFFFF
    text = bytearray()
    if far or nanos:
        first |= 0x80000000
        reversed_nanos = int(f"{nanos:09d}"[::-1])
        text += _variable_long(-reversed_nanos - 1 if far else reversed_nanos)
    if far:
        text += _variable_long(seconds >> 31)
    data = np.frombuffer(first.to_bytes(4, "big") + bytes(text), dtype=np.uint8)
    return int(murmur3(data.reshape(1, len(data)))[0])


def _variable_long(value: int) -> bytes:
    """Hadoop's variable-length integer: one byte, or a length byte and the big-endian rest."""
    if -112 <= value <= 127:
        return value.to_bytes(1, "big", signed=True)
    marker, magnitude = (-112, value) if value >= 0 else (-120, ~value)
    length = (magnitude.bit_length() + 7) // 8
    return (marker - length).to_bytes(1, "big", signed=True) + magnitude.to_bytes(length, "big")


def _nested(values: pa.Array, hive_type: Array | Map | Struct, version: int) -> Hashes:
    if isinstance(hive_type, Struct):
        hashes = np.zeros(len(values), dtype=np.int32)
        for index, (_, field_type) in enumerate(hive_type.fields):
            child = pc.struct_field(values, [index])
            hashes = hashes * np.int32(31) + bucket_hashes(child, field_type, version)
        return hashes
    if isinstance(hive_type, Array):
        return _summed(values, bucket_hashes(values.flatten(), hive_type.element, version), 31)
    first, last = values.offsets[0].as_py(), values.offsets[-1].as_py()
    keys = bucket_hashes(values.keys[first:last], hive_type.key, version)
    # Hive hashes the values of a map by version 1 even where the keys go by version 2.
    items = bucket_hashes(values.items[first:last], hive_type.value, 1)
    return _summed(values, keys ^ items, 1)


def _summed(values: pa.Array, elements: Hashes, factor: int) -> Hashes:
    offsets = np.asarray(values.offsets).astype(np.int64)
    offsets = offsets - offsets[0]
    hashes = np.zeros(len(values), dtype=np.int32)
    lengths = np.diff(offsets)
    for position in range(int(lengths.max(initial=0))):
        rows = np.flatnonzero(lengths > position)
        hashes[rows] = hashes[rows] * np.int32(factor) + elements[offsets[rows] + position]
    return hashes


def _wrapped(value: int) -> int:
    """An integer reduced to Java's 32 bits."""
    return (value + 0x80000000) % 0x100000000 - 0x80000000


_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

_PRIMITIVES: dict[str, Callable[[pa.Array, int], Hashes]] = {
    "boolean": _boolean,
    "tinyint": _tinyint,
    "smallint": _smallint,
    "int": _int,
    "bigint": _bigint,
    "float": _float,
    "double": _double,
    "string": _string,
    "binary": _binary,
    "date": _date,
    "timestamp": _timestamp,
}


def murmur3(rows: NDArray[np.uint8]) -> Hashes:
    """Hash each row of a matrix of bytes, all of the same length, as version 2 does.

    Hive sign-extends the bytes of the tail before they are mixed in, unlike the reference.
    """
    count, length = rows.shape
    hashes = np.full(count, _SEED, dtype=np.uint32)
    with np.errstate(over="ignore"):
        blocks = length // 4
        if blocks:
            words = np.ascontiguousarray(rows[:, : blocks * 4]).view("<u4").astype(np.uint32)
            for index in range(blocks):
                hashes ^= _mixed(words[:, index])
                hashes = _rotated(hashes, 13) * np.uint32(5) + np.uint32(0xE6546B64)
        if length % 4:
            tail = np.zeros(count, dtype=np.int32)
            for offset in range(length % 4):
                byte = rows[:, blocks * 4 + offset].view(np.int8).astype(np.int32)
                tail ^= byte << np.int32(8 * offset)
            hashes ^= _mixed(tail.view(np.uint32))
        hashes ^= np.uint32(length)
        hashes ^= hashes >> np.uint32(16)
        hashes *= np.uint32(0x85EBCA6B)
        hashes ^= hashes >> np.uint32(13)
        hashes *= np.uint32(0xC2B2AE35)
        hashes ^= hashes >> np.uint32(16)
    return hashes.view(np.int32)


def murmur3_of_integers(values: NDArray[np.int64], width: int) -> Hashes:
    """Hash integers as Hive does: as ``width`` bytes, the most significant one first."""
    big_endian = values.astype(f">i{width}")
    return murmur3(big_endian.view(np.uint8).reshape(len(values), width))


def _mixed(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    return _rotated(words * _C1, 15) * _C2


def _rotated(words: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))
