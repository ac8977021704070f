"""Digests of rows: of their row ids one by one, and of all their values in their order."""

import zlib
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum, auto
from functools import cache
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hiveacid.orc.format.compression import fast_zlib
from hiveacid.orc.format.streams import Integers
from hiveacid.orc.row_keys.keys import KEY_COLUMNS, Keys, sorted_distinct
from hiveacid.rules.compaction import Tally

Hashes = NDArray[np.uint64]

# Number of places for each hash of a set, and their maximum in total.
_PLACES, _MOST_PLACES = 16, 1 << 24
_START = np.uint64(0x9E3779B97F4A7C15)
_DIGEST_BYTES = 8
_crc32 = (fast_zlib() or zlib).crc32
# The last of Hive's six columns.
_ROW = len(KEY_COLUMNS)


def hash_row_ids(keys: Keys) -> Hashes:
    """Return a hash for each row id; collisions of row ids that occur together are unlikely."""
    return np.broadcast_to(_mixed_parts(keys.row_ids()), len(keys))


def tally(keys: Keys) -> Tally:
    """Count rows, and sum up hashes of their row ids and current write ids.

    The hash of a row is the mark of the next row number less that of its own. The marks are as good
    as random, so that other rows have another sum; but in a sum over consecutive rows only the
    marks of both ends remain, and no others have to be calculated.

    Args:
        keys: The key columns of the rows, in any order.
    """
    if len(keys) == 0:
        return Tally()
    breaks = keys.rows[1:] != keys.rows[:-1] + 1
    for part in (keys.original_write_ids, keys.buckets, keys.current_write_ids):
        if len(distinct := _distinct(part)) > 1:
            breaks |= distinct[1:] != distinct[:-1]
    places = np.flatnonzero(breaks)
    firsts, lasts = np.append(0, places + 1), np.append(places, len(keys) - 1)
    return _between(keys[firsts], keys[lasts], len(keys))


def tally_consecutive(ends: Keys, count: int) -> Tally:
    """Count rows of one write id and bucket with consecutive numbers; see ``tally``.

    Args:
        ends: The first and the last row.
        count: The number of rows.
    """
    return _between(ends[:1], ends[1:], count)


def _between(firsts: Keys, lasts: Keys, count: int) -> Tally:
    ends, starts = (
        Tally(count, int(_marks(keys, offset).sum(dtype=np.uint64)))
        for keys, offset in ((lasts, 1), (firsts, 0))
    )
    return replace(ends - starts, rows=count)


def _marks(keys: Keys, offset: int) -> Hashes:
    parts = keys.current_write_ids, keys.original_write_ids, keys.buckets
    numbers = keys.rows.astype(np.uint64) + np.uint64(offset)
    return _mixed(_mixed_parts(parts) + numbers * _START)


def _mixed_parts(parts: Sequence[Integers]) -> Hashes:
    hashes = np.full(1, _START)
    for part in parts:
        hashes = _mixed(hashes + _distinct(part))
    return hashes


class HashSet:
    """A set of hashes for lookups."""

    def __init__(self, hashes: Hashes) -> None:
        self._sorted = sorted_distinct(hashes)
        places = min(1 << (len(self._sorted) * _PLACES).bit_length(), _MOST_PLACES)
        # Most hashes are absent, which one lookup of a byte usually detects.
        self._mask = np.uint64(places - 1)
        self._seen = np.zeros(places, dtype=np.bool_)
        self._seen[self._sorted & self._mask] = True

    def contains(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Return for each hash whether it is in the set."""
        membership: NDArray[np.bool_] = self._seen[hashes & self._mask]
        if membership.any():
            suspects = hashes[membership]
            places = np.minimum(np.searchsorted(self._sorted, suspects), len(self._sorted) - 1)
            membership[membership] = self._sorted[places] == suspects
        return membership


class ValueDigest:
    """A digest of rows in their order.

    The values of a column are split into plain runs of bytes: the positions of nulls, the lengths
    of texts and lists, and their contents. Bytes behind a null are ignored.
    """

    def __init__(self) -> None:
        self._parts: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self.rows = 0

    def add(self, batch: Any) -> None:
        """Add the rows of a batch of ACID events, whose row ids are counted elsewhere."""
        self.rows += batch.num_rows
        self._add("", batch.column(_ROW))

    @property
    def value(self) -> int:
        """The digest of all that was taken."""
        whole = ";".join(f"{name}:{part:08x}" for name, part in sorted(self._parts.items()))
        return int.from_bytes(blake2b(whole.encode(), digest_size=_DIGEST_BYTES).digest(), "little")

    def _add(self, name: str, column: Any) -> None:
        row_offset = self._counts.get(name, 0)
        self._counts[name] = row_offset + len(column)
        shape = _shapes().get(column.type.id, _Shape.FIXED)
        if shape is _Shape.DICTIONARY:
            column = column.dictionary_decode()
            shape = _shapes().get(column.type.id, _Shape.FIXED)
        if column.null_count:
            nulls = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)) + row_offset
            self._update(f"{name}?", nulls.astype(np.int64).tobytes())
            column = column.drop_null()
        if len(column) == 0:
            return
        if shape is _Shape.FIXED:
            width = column.type.bit_width // 8
            start = column.offset * width
            self._update(name, column.buffers()[1][start : start + len(column) * width])
        elif shape in (_Shape.TEXTS, _Shape.LARGE_TEXTS):
            _, starts, data = column.buffers()
            integer = np.int32 if shape is _Shape.TEXTS else np.int64
            offsets = np.frombuffer(starts, integer)[
                column.offset : column.offset + len(column) + 1
            ]
            self._update(f"{name}#", np.diff(offsets).astype(np.int64))
            if data is not None:
                self._update(name, data[int(offsets[0]) : int(offsets[-1])])
        elif shape is _Shape.STRUCTS:
            for number, child in enumerate(column.flatten()):
                self._add(f"{name}.{number}", child)
        elif shape in (_Shape.LISTS, _Shape.MAPS):
            offsets = column.offsets.to_numpy()
            self._update(f"{name}#", np.diff(offsets).astype(np.int64).tobytes())
            is_map = shape is _Shape.MAPS
            children = (column.keys, column.items) if is_map else (column.values,)
            for number, child in enumerate(children):
                start, end = int(offsets[0]), int(offsets[-1])
                self._add(f"{name}.{number}", child[start:end])
        elif shape is _Shape.FLAGS:
            self._update(name, column.to_numpy(zero_copy_only=False).tobytes())

    def _update(self, name: str, data: Any) -> None:
        self._parts[name] = _crc32(data, self._parts.get(name, 0))


class _Shape(Enum):
    """The forms that the values of a column have in Arrow's memory."""

    FIXED = auto()
    TEXTS = auto()
    LARGE_TEXTS = auto()
    FLAGS = auto()
    STRUCTS = auto()
    LISTS = auto()
    MAPS = auto()
    DICTIONARY = auto()
    NULLS = auto()


@cache
def _shapes() -> dict[int, _Shape]:
    """Return the forms by the numbers of Arrow's types; all others have values of a fixed width."""
    import pyarrow as pa

    nothing = pa.null()
    shapes = {
        _Shape.TEXTS: [pa.string(), pa.binary()],
        _Shape.LARGE_TEXTS: [pa.large_string(), pa.large_binary()],
        _Shape.FLAGS: [pa.bool_()],
        _Shape.STRUCTS: [pa.struct([])],
        _Shape.LISTS: [pa.list_(nothing), pa.large_list(nothing)],
        _Shape.MAPS: [pa.map_(pa.int32(), nothing)],
        _Shape.DICTIONARY: [pa.dictionary(pa.int32(), pa.string())],
        _Shape.NULLS: [nothing],
    }
    return {type_.id: shape for shape, types in shapes.items() for type_ in types}


def _distinct(values: Integers) -> Hashes:
    """Return the values, reduced to one if they are all equal."""
    if len(values) and values[0] == values[-1]:
        is_repeated = values.strides == (0,)
        if is_repeated or (values == values[0]).all():
            values = values[:1]
    return values.astype(np.uint64)


def _mixed(values: Hashes) -> Hashes:
    """Make each bit of the result depend on each bit of the value."""
    mixed = values ^ (values >> np.uint64(30))
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed
