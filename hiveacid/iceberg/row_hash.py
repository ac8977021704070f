"""Hashes of rows that depend on their values only: not on types' widths, encodings, or an order.

A hash has 128 bits, in two lanes of 64 bits with different functions. Lanes are mixed by the
finalizers of SplitMix64 and of MurmurHash3, so that a collision is as unlikely as for random
numbers; nothing protects against rows that were chosen to collide.

Equal are integers of all widths, `float` and `double`, decimals of all scales, texts of `string`,
`varchar`, and `char`, the two zeros, all NaN, maps with their entries in any order, and timestamps
with and without a zone that have the same number of microseconds. A null contributes nothing to its
row, and nothing to its struct: a column or a field that a table lacks is null there.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from functools import cache
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types

from hiveacid.dataclass import dataclass
from hiveacid.errors import UnsupportedTable

# One row of the array for each lane.
Hashes = NDArray[np.uint64]
# The lanes of one hash.
Digest = tuple[int, int]

_LANES = 2
_WORD = 8
# Rows are hashed in parts of about this size, which bounds the memory of their hashes.
_MOST_BYTES = 16 << 20
# The digits of all decimals with one scale: 38 before the point and 38 after it.
_DECIMAL = pa.decimal256(76, 38)


def _lanes(*values: int) -> Hashes:
    return np.array(values, np.uint64).reshape(_LANES, 1)


# Distances between the places of a text or of an array.
_STEPS = _lanes(0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)
_SHIFTS = _lanes(30, 33), _lanes(27, 33), _lanes(31, 33)
_FACTORS = (
    _lanes(0xBF58476D1CE4E5B9, 0xFF51AFD7ED558CCD),
    _lanes(0x94D049BB133111EB, 0xC4CEB9FE1A85EC53),
)


@dataclass(slots=True)
class PartitionSum:
    """The rows of a partition as a number and a sum of hashes.

    Attributes:
        values: The values of the partition keys.
        rows: The number of rows.
        lanes: The sums of the hashes of the rows, modulo 2**64 in each lane.
    """

    values: tuple[Any, ...]
    rows: int = 0
    lanes: Digest = (0, 0)

    def add(self, rows: int, lanes: Digest) -> None:
        """Add rows."""
        self.rows += rows
        first, second = (
            (own + lane) % (1 << 64) for own, lane in zip(self.lanes, lanes, strict=True)
        )
        self.lanes = first, second

    def is_equal(self, other: "PartitionSum") -> bool:
        """Return whether both have the same rows, except for collisions of hashes."""
        return (self.rows, self.lanes) == (other.rows, other.lanes)

    @property
    def digest(self) -> str:
        """The sums of both lanes in hexadecimal."""
        return "".join(f"{lane:016x}" for lane in self.lanes)


@dataclass(slots=True)
class TableSum:
    """The rows of a table as a sum for each partition; nothing else is kept of them.

    Attributes:
        keys: The names of the partition keys, in lower case.
        parts: The sums, by the hashes of the values of the keys.
    """

    keys: Sequence[str]
    parts: dict[Digest, PartitionSum] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(part.rows for part in self.parts.values())

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows.

        Raises:
            UnsupportedTable: A column has a type that no Hive table has.
        """
        for part in _parts(batch):
            self._add(part)

    def merge(self, table_sum: "TableSum") -> None:
        """Add the rows of another sum with the same keys."""
        for key, part in table_sum.parts.items():
            self._part(key, part.values).add(part.rows, part.lanes)

    def _add(self, batch: pa.RecordBatch) -> None:
        columns = [(n.lower(), c) for n, c in zip(batch.schema.names, batch.columns, strict=True)]
        keys = {name: column for name, column in columns if name in self.keys}
        groups = _row_hashes(keys.items(), len(batch))
        rows = _row_hashes(
            [column_pair for column_pair in columns if column_pair[0] not in keys], len(batch)
        )
        for positions in _groups(groups):
            values = tuple(
                keys[name][int(positions[0])].as_py() if name in keys else None
                for name in self.keys
            )
            group_hashes = rows if len(positions) == len(batch) else rows[:, positions]
            part = self._part(_digest(groups[:, positions[0]]), values)
            part.add(len(positions), _digest(group_hashes.sum(axis=1, dtype=np.uint64)))

    def _part(self, key: Digest, values: tuple[Any, ...]) -> PartitionSum:
        if key not in self.parts:
            self.parts[key] = PartitionSum(values)
        return self.parts[key]


def kind_of(type_: pa.DataType) -> str:
    """Return the kind of a type: values of different kinds are never equal.

    Raises:
        UnsupportedTable: No Hive table has such values.
    """
    for kind, is_kind, _ in _KINDS:
        if is_kind(type_):
            return kind
    raise UnsupportedTable(f"Values of the type {type_} cannot be compared with those of a table.")


def described(type_: pa.DataType) -> str:
    """Return the kind of a type with the kinds inside of it, for messages."""
    if types.is_struct(type_):
        field_kinds = (f"{field.name.lower()}: {described(field.type)}" for field in type_)
        return f"struct<{', '.join(field_kinds)}>"
    if types.is_map(type_):
        return f"map<{described(type_.key_type)}, {described(type_.item_type)}>"
    if _is_list(type_):
        return f"array<{described(type_.value_type)}>"
    zone = " with a zone" if types.is_timestamp(type_) and type_.tz else ""
    return f"{kind_of(type_)}{zone}"


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    parts = max(1, min(batch.num_rows, batch.nbytes // _MOST_BYTES))
    length = -(-batch.num_rows // parts)
    for start in range(0, batch.num_rows, length or 1):
        yield batch.slice(start, length)


def _row_hashes(columns: Iterable[tuple[str, pa.Array]], length: int) -> Hashes:
    total = np.zeros((_LANES, length), np.uint64)
    for name, column in columns:
        total += _hashes(column, name)
    return _mixed(total + _seed("row"))


def _groups(hashes: Hashes) -> Sequence[NDArray[np.intp]]:
    """Return the positions of rows with the same hash: in most batches, all rows have the same."""
    if (hashes == hashes[:, :1]).all():
        return [np.arange(hashes.shape[1])]
    order = np.lexsort(hashes)
    changes = (np.diff(hashes[:, order], axis=1) != 0).any(axis=0)
    return np.split(order, np.flatnonzero(changes) + 1)


def _hashes(array: pa.Array, path: str) -> Hashes:
    """Hash values; null becomes zero.

    Args:
        array: The values.
        path: The name of their column, and of the levels inside of it.
    """
    if types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if array.null_count == len(array):
        return np.zeros((_LANES, len(array)), np.uint64)
    kind = kind_of(array.type)
    hashes = _FUNCTIONS[kind](array, f"{path}\0{kind}")
    if array.null_count:
        hashes[:, np.asarray(array.is_null())] = 0
    return hashes


def _integers(array: pa.Array, path: str) -> Hashes:
    return _hash_words(_numbers(array), path)


def _floats(array: pa.Array, path: str) -> Hashes:
    values = array.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
    # Adding zero turns the negative zero into the positive one.
    return _hash_words(np.where(np.isnan(values), np.nan, values + 0.0).view(np.uint64), path)


def _timestamps(array: pa.Array, path: str) -> Hashes:
    microseconds = array.cast(pa.timestamp("us", array.type.tz), safe=False).cast(pa.int64())
    micros = _numbers(microseconds).view(np.int64)
    # Arrow before version 25 reads years before 1677 or after 2262 in ORC files modulo 2**64 ns.
    nanos = micros * 1000
    micros = nanos // 1000 + ((nanos < 0) & (nanos % 1000 != 0))
    return _hash_words(micros.view(np.uint64), path)


def _dates(array: pa.Array, path: str) -> Hashes:
    return _hash_words(_numbers(array.cast(pa.date32()).cast(pa.int32())), path)


def _booleans(array: pa.Array, path: str) -> Hashes:
    return _hash_words(_numbers(array.cast(pa.int8())), path)


def _decimals(array: pa.Array, path: str) -> Hashes:
    wide = array.cast(_DECIMAL)
    count = _DECIMAL.bit_width // 64
    words = np.frombuffer(
        wide.buffers()[1], np.uint64, len(wide) * count, wide.offset * count * _WORD
    )
    total = np.zeros((_LANES, len(wide)), np.uint64)
    for place, word in enumerate(words.reshape(len(wide), count).T):
        total += _hash_words(word, f"{path}\0{place}")
    return _mixed(total + _seed(path))


def _bytes(array: pa.Array, path: str) -> Hashes:
    """Hash texts by their words of eight bytes, which are mixed with their places in the text."""
    if not any(is_(array.type) for is_ in _WITH_OFFSETS):
        array = array.cast(pa.large_binary())
    is_large = types.is_large_string(array.type) or types.is_large_binary(array.type)
    _, starts_buffer, data = array.buffers()
    width = np.dtype(np.int64 if is_large else np.int32)
    offsets = np.frombuffer(
        starts_buffer, width, len(array) + 1, array.offset * width.itemsize
    ).astype(np.int64)
    lengths = np.diff(offsets)
    words = (lengths + _WORD - 1) // _WORD
    ends = np.cumsum(words)
    places = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - words, words)
    starts = np.repeat(offsets[:-1] - offsets[0], words) + places * _WORD
    content = np.zeros(offsets[-1] - offsets[0] + _WORD, np.uint8)
    if data is not None:
        content[:-_WORD] = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    word_values = np.ndarray((len(content) - _WORD + 1,), np.dtype("<u8"), content, strides=(1,))[
        starts
    ]
    remaining_lengths = np.repeat(lengths, words) - places * _WORD
    bits = (np.clip(_WORD - remaining_lengths, 0, _WORD) * 8).astype(np.uint64)
    # Bytes of the next text are shifted out.
    word_values = word_values << bits >> bits
    mixed = _mixed(_numbered(word_values, places) + _seed(path))
    return _of_several(mixed, ends, lengths, path)


def _lists(array: pa.Array, path: str) -> Hashes:
    offsets = np.asarray(array.offsets).astype(np.int64)
    elements = array.values[offsets[0] : offsets[-1]]
    lengths = np.diff(offsets)
    ends = np.cumsum(lengths)
    places = np.arange(len(elements)) - np.repeat(ends - lengths, lengths)
    mixed = _mixed(_numbered(_hashes(elements, path), places))
    return _without_empty(_of_several(mixed, ends, lengths, path), lengths, array.type.value_type)


def _maps(array: pa.Array, path: str) -> Hashes:
    offsets = np.asarray(array.offsets).astype(np.int64)
    extent = slice(int(offsets[0]), int(offsets[-1]))
    keys = _hashes(array.keys[extent], f"{path}\0key")
    mixed = _mixed(keys + _hashes(array.items[extent], f"{path}\0value"))
    lengths = np.diff(offsets)
    hashes = _of_several(mixed, np.cumsum(lengths), lengths, path)
    return _without_empty(hashes, lengths, array.type.item_type)


def _structs(array: pa.Array, path: str) -> Hashes:
    total = np.zeros((_LANES, len(array)), np.uint64)
    for place, struct_field in enumerate(array.type):
        total += _hashes(array.field(place), f"{path}\0{struct_field.name.lower()}")
    return _mixed(total + _seed(path))


def _of_several(
    hashes: Hashes, ends: NDArray[np.int64], lengths: NDArray[np.int64], path: str
) -> Hashes:
    """Sum up the hashes of parts of values.

    Args:
        hashes: The hashes of all parts.
        ends: The position after the last part of each value.
        lengths: The lengths of the values.
        path: See ``_hashes``.
    """
    sums = np.zeros((_LANES, hashes.shape[1] + 1), np.uint64)
    np.cumsum(hashes, axis=1, out=sums[:, 1:])
    total = sums[:, ends] - sums[:, np.append(0, ends[:-1])]
    return _mixed(total + lengths.astype(np.uint64) * _STEPS + _seed(f"{path}\0length"))


def _without_empty(hashes: Hashes, lengths: NDArray[np.int64], element_type: pa.DataType) -> Hashes:
    """Let no elements count as null if they would be structs.

    pyiceberg returns arrays and maps without elements instead of null for these types.
    """
    if types.is_struct(element_type):
        hashes[:, lengths == 0] = 0
    return hashes


def _hash_words(words: NDArray[np.uint64], path: str) -> Hashes:
    return _mixed(words + _seed(path))


def _numbered(values: NDArray[np.uint64], places: NDArray[np.int64]) -> Hashes:
    """Let the same value at another place be another one."""
    return values + (places + 1).astype(np.uint64) * _STEPS


def _mixed(values: Hashes) -> Hashes:
    """Make each bit of a lane depend on each of its bits; the values are changed in place."""
    for shift, factor in zip(_SHIFTS, _FACTORS, strict=False):
        values ^= values >> shift
        values *= factor
    values ^= values >> _SHIFTS[-1]
    return values


@cache
def _seed(path: str) -> Hashes:
    """Return the number that distinguishes equal values of different columns and kinds."""
    digest = blake2b(path.encode(), digest_size=_LANES * _WORD).digest()
    return np.frombuffer(digest, np.dtype("<u8")).astype(np.uint64).reshape(_LANES, 1)


def _digest(lanes: Hashes) -> Digest:
    return int(lanes[0]), int(lanes[1])


def _numbers(array: pa.Array) -> NDArray[np.uint64]:
    """Return integers as 64 bits, and zero for null."""
    numbers: NDArray[np.int64] = array.fill_null(0).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return numbers.view(np.uint64)


def _is_list(type_: pa.DataType) -> bool:
    return bool(types.is_list(type_) or types.is_large_list(type_))


def _is_text(type_: pa.DataType) -> bool:
    return bool(
        types.is_string(type_) or types.is_large_string(type_) or types.is_string_view(type_)
    )


def _is_binary(type_: pa.DataType) -> bool:
    return bool(
        types.is_binary(type_)
        or types.is_large_binary(type_)
        or types.is_binary_view(type_)
        or types.is_fixed_size_binary(type_)
    )


# The types whose values have offsets.
_WITH_OFFSETS = types.is_string, types.is_binary, types.is_large_string, types.is_large_binary
_KINDS: Sequence[tuple[str, Callable[[pa.DataType], bool], Callable[[pa.Array, str], Hashes]]] = (
    ("boolean", types.is_boolean, _booleans),
    ("integer", types.is_integer, _integers),
    ("float", types.is_floating, _floats),
    ("decimal", types.is_decimal, _decimals),
    ("date", types.is_date, _dates),
    ("timestamp", types.is_timestamp, _timestamps),
    ("text", _is_text, _bytes),
    ("binary", _is_binary, _bytes),
    ("map", types.is_map, _maps),
    ("array", _is_list, _lists),
    ("struct", types.is_struct, _structs),
)
_FUNCTIONS = {kind: function for kind, _, function in _KINDS}
