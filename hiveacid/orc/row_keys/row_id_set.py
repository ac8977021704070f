"""The one answer to "is this row id among those?": of delete events, or of rows that were found."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from hiveacid.dataclass import dataclass
from hiveacid.orc.format.envelope import EnvelopeColumn
from hiveacid.orc.format.streams import Integers
from hiveacid.orc.format.tail import OrcTail

Mask = NDArray[np.bool_]

_KEY_COLUMNS = (
    EnvelopeColumn.ORIGINAL_TRANSACTION,
    EnvelopeColumn.BUCKET,
    EnvelopeColumn.ROW_ID,
)
# Shorter runs of rows, on average, are looked up all at once.
_ROWS_OF_A_RUN = 16


class RowIds(NamedTuple):
    """The three parts of the row ids of some rows.

    Attributes:
        write_ids: The write ids that inserted the rows.
        buckets: Their bucket properties.
        rows: Their row numbers.
    """

    write_ids: Integers
    buckets: Integers
    rows: Integers

    @classmethod
    def joined(cls, parts: Iterable["RowIds"]) -> Self:
        """Concatenate row ids."""
        nothing = np.empty((3, 0), np.int64)
        return cls(*(np.concatenate(columns) for columns in zip(nothing, *parts, strict=True)))

    def only(self, chosen: Mask | Integers) -> "RowIds":
        """Return the row ids that a mask, or their places, select."""
        return RowIds(*(part[chosen] for part in self))

    def run_starts(self) -> Integers:
        """Return the first place of each run of one write id and bucket: few, since files are sorted."""
        differs = np.ones(len(self.rows), np.bool_)
        differs[1:] = self.write_ids[1:] != self.write_ids[:-1]
        differs[1:] |= self.buckets[1:] != self.buckets[:-1]
        return np.flatnonzero(differs)


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The ranges of the parts of some row ids, and their number."""

    rows: int
    write_ids: tuple[int, int] = (0, 0)
    buckets: tuple[int, int] = (0, 0)
    row_numbers: tuple[int, int] = (0, 0)

    @classmethod
    def of(cls, tail: OrcTail) -> "KeyRange | None":
        """The range of one file; None if its tail does not contain it."""
        total = cls(0)
        for stripe in range(len(tail.stripes)):
            part = cls.of_stripe(tail, stripe)
            if part is None:
                return None
            total = total.joined(part)
        return total

    @classmethod
    def of_stripe(cls, tail: OrcTail, stripe: int) -> "KeyRange | None":
        """The range of one stripe; None if the tail of its file does not contain it."""
        parts = [tail.int_range(stripe, column) for column in _KEY_COLUMNS]
        if not tail.is_acid or None in parts:
            return None
        return cls(tail.stripes[stripe].rows, *filter(None, parts))

    @classmethod
    def of_ids(cls, ids: RowIds) -> "KeyRange":
        """The range of some row ids."""
        if not len(ids.rows):
            return cls(0)
        return cls(len(ids.rows), *((int(part.min()), int(part.max())) for part in ids))

    def joined(self, other: "KeyRange") -> "KeyRange":
        """The combined range of both."""
        if not self.rows or not other.rows:
            return self if self.rows else other
        return KeyRange(
            self.rows + other.rows,
            *[
                (min(mine[0], part[0]), max(mine[1], part[1]))
                for mine, part in zip(self._parts, other._parts, strict=True)
            ],
        )

    def may_share(self, other: "KeyRange") -> bool:
        """Whether both ranges can contain the same row id."""
        return bool(self.rows and other.rows) and all(
            mine[0] <= part[1] and part[0] <= mine[1]
            for mine, part in zip(self._parts, other._parts, strict=True)
        )

    @property
    def _parts(self) -> tuple[tuple[int, int], ...]:
        return self.write_ids, self.buckets, self.row_numbers


class RowIdSet:
    """A set of row ids, sorted, and found by binary search.

    It takes eight bytes for each of them. The merge of delete events that do not fit into memory is
    in ``key_stream``. The proof of a compaction must not share an error with the compaction, so that
    it looks up deleted rows by hashes: see ``census``.
    """

    def __init__(self, parts: Iterable[RowIds]) -> None:
        """Collect row ids in any order and with repetitions."""
        nothing = np.empty((3, 0), np.int64)
        rows: list[Integers] = []
        runs: list[Integers] = [nothing]
        for ids in parts:
            starts = ids.run_starts()
            lengths = np.diff(starts, append=len(ids.rows))
            runs.append(np.stack([ids.write_ids[starts], ids.buckets[starts], lengths]))
            rows.append(ids.rows)
        self._rows = rows[0] if len(rows) == 1 else np.concatenate([nothing[0], *rows])
        del rows
        self._write_ids, self._buckets, lengths = np.concatenate(runs, axis=1)
        ends = np.cumsum(lengths)
        descends = self._rows[1:] <= self._rows[:-1]
        descends[ends[:-1] - 1] = False
        if first_disorder((self._write_ids, self._buckets)) is not None or descends.any():
            ends = self._sort(lengths)
        self._ends = np.append(0, ends)

    def _sort(self, lengths: Integers) -> Integers:
        """Sort the row ids, unite the runs of one write id and bucket, and return their ends."""
        order = np.lexsort((self._buckets, self._write_ids))
        ordered = RowIds(self._write_ids[order], self._buckets[order], order)
        starts = ordered.run_starts()
        number_of_run = np.empty(len(order), np.int32)
        number_of_run[order] = np.searchsorted(starts, np.arange(len(order)), "right") - 1
        number_of_row = np.repeat(number_of_run, lengths)
        self._rows = self._rows[np.lexsort((self._rows, number_of_row))]
        self._write_ids, self._buckets, _ = ordered.only(starts)
        return np.cumsum(np.bincount(number_of_row))

    def __len__(self) -> int:
        return len(self._rows)

    def contains(self, ids: RowIds) -> Mask:
        """Return for each of some row ids, in any order, whether it is in the set."""
        return contained(ids, [self])

    def stripes(self, tail: OrcTail) -> list[bool]:
        """Return for each stripe of a file whether it may contain a row id of the set."""
        return [self.may_be_in(tail, stripe) for stripe in range(len(tail.stripes))]

    def may_be_in(self, tail: OrcTail, stripe: int) -> bool:
        """Return whether a stripe may contain a row id of the set."""
        range_ = KeyRange.of_stripe(tail, stripe)
        return len(self) > 0 and (range_ is None or self.may_share(range_))

    def may_share(self, range_: KeyRange) -> bool:
        """Return whether a row id of a range may be in the set."""
        first = np.searchsorted(self._write_ids, range_.write_ids[0])
        last = np.searchsorted(self._write_ids, range_.write_ids[1], "right")
        buckets = self._buckets[first:last]
        lowest, highest = range_.buckets
        runs = np.flatnonzero((buckets >= lowest) & (buckets <= highest)) + first
        starts, ends = self._ends[runs], self._ends[runs + 1]
        low, high = (np.full(len(runs), bound) for bound in range_.row_numbers)
        places = _bisected(self._rows, low, starts, ends)
        is_within = places < ends
        return bool((self._rows[places[is_within]] <= high[is_within]).any())

    def mark(self, heads: RowIds, ends: Integers, rows: Integers, mask: Mask) -> None:
        """Mark the row ids that are in the set.

        Args:
            heads: The write id, the bucket, and the start of each run of one write id and bucket.
            ends: The ends of these runs.
            rows: The row numbers of all runs.
            mask: Receives the marks.
        """
        first = np.searchsorted(self._write_ids, heads.write_ids)
        last = np.searchsorted(self._write_ids, heads.write_ids, "right")
        numbers = _bisected(self._buckets, heads.buckets, first, last)
        shared = np.flatnonzero(numbers < last)
        shared = shared[self._buckets[numbers[shared]] == heads.buckets[shared]]
        numbers = numbers[shared]
        starts, ends = heads.rows[shared], ends[shared]
        lows, highs = self._ends[numbers], self._ends[numbers + 1]
        lengths = ends - starts
        if lengths.sum() >= len(shared) * _ROWS_OF_A_RUN:
            for start, end, low, high in np.stack([starts, ends, lows, highs]).T.tolist():
                mask[start:end] |= are_among(rows[start:end], self._rows[low:high])
            return
        places = np.repeat(starts - np.cumsum(lengths) + lengths, lengths)
        places += np.arange(len(places))
        wanted, highs = rows[places], np.repeat(highs, lengths)
        positions = _bisected(self._rows, wanted, np.repeat(lows, lengths), highs)
        is_member = positions < highs
        is_member[is_member] = self._rows[positions[is_member]] == wanted[is_member]
        mask[places] |= is_member


def contained(ids: RowIds, sets: Sequence[RowIdSet]) -> Mask:
    """Return for each of some row ids, in any order, whether it is in one of several sets."""
    mask = np.zeros(len(ids.rows), np.bool_)
    if any(map(len, sets)):
        starts = ids.run_starts()
        heads = RowIds(ids.write_ids[starts], ids.buckets[starts], starts)
        for row_id_set in sets:
            row_id_set.mark(heads, np.append(starts[1:], len(mask)), ids.rows, mask)
    return mask


def first_disorder(columns: Sequence[Integers]) -> int | None:
    """The first row that is not greater than the row before it, comparing column by column."""
    ascends = np.zeros(max(len(columns[0]) - 1, 0), dtype=np.bool_)
    for column in reversed(columns):
        ascends = (column[1:] > column[:-1]) | ((column[1:] == column[:-1]) & ascends)
    return None if ascends.all() else int(np.argmin(ascends)) + 1


def are_among(rows: Integers, members: Integers) -> Mask:
    """Return for each number whether it is one of some sorted ones, at least one."""
    if (rows[1:] > rows[:-1]).all():
        first, last = np.searchsorted(members, rows[0]), np.searchsorted(members, rows[-1], "right")
        members = members[first:last]
        if len(members) < len(rows):
            mask = np.zeros(len(rows), np.bool_)
            places = np.searchsorted(rows, members)
            mask[places[rows[places] == members]] = True
            return mask
    places = np.minimum(np.searchsorted(members, rows), len(members) - 1)
    return np.asarray(members[places] == rows)


def _bisected(rows: Integers, wanted: Integers, first: Integers, last: Integers) -> Integers:
    """Return for each wanted number its place within a sorted part of some numbers."""
    while (is_open := first < last).any():
        middle = np.where(is_open, (first + last) // 2, 0)
        is_below = is_open & (rows[middle] < wanted)
        first = np.where(is_below, middle + 1, first)
        last = np.where(is_open & ~is_below, middle, last)
    return first
