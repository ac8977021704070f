"""Row ids of more rows than fit into memory: read, merged and looked up batch by batch."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hiveacid.errors import CorruptFile
from hiveacid.orc.format.batches import read_batches
from hiveacid.orc.format.envelope import EnvelopeColumn, RowOperation
from hiveacid.orc.format.layout import writer_of
from hiveacid.orc.format.source_and_sink import Source
from hiveacid.orc.format.streams import Integers
from hiveacid.orc.format.tail import WRITER_JAVA, OrcTail
from hiveacid.orc.row_keys.keys import Keys, check_ascending, key_names, sorted_distinct
from hiveacid.orc.row_keys.progressions import KeyProgressions, read_progressions
from hiveacid.rules.row_id import RowId

_Mask = NDArray[np.bool_]
_BATCH_ROWS = 16_384
# So many files may be read with batches of that size, some 20 MB each.
_WIDE_FILES = 8
_FEWEST_ROWS = 1024
# The maximum number of delete events of one bucket that are sorted in memory, where each takes 40
# bytes twice.
MOST_SORTED = 4_000_000


def read_keys(
    source: Source,
    tail: OrcTail,
    stripes: Sequence[int] | None = None,
    *,
    rows: int = _BATCH_ROWS,
) -> Generator[Keys, None, None]:
    """Read the row ids of an ACID file, at most `rows` at a time, even for large stripes.

    Args:
        source: The file; see `read_batches` for concurrent readers.
        tail: Its tail.
        stripes: The stripes to read; by default all.
        rows: The maximum number of rows to read at a time.

    Raises:
        CorruptFile: The row ids do not decode, or some are null.
    """
    chosen = range(len(tail.stripes)) if stripes is None else stripes
    for known, numbers in _by_reader(source, tail, chosen):
        if known is not None:
            yield from known.batches(rows)
        else:
            yield from decode_keys(source, tail, numbers, rows)


def decode_keys(
    source: Source, tail: OrcTail, stripes: Sequence[int], rows: int
) -> Generator[Keys, None, None]:
    """Read the row ids of stripes with Arrow, regardless of their runs; see ``read_keys``."""
    names = key_names(tail.types)
    with closing(read_batches(source, tail, stripes, names, rows)) as batches:
        for batch in batches:
            yield Keys.of(batch, names)


def _by_reader(
    source: Source, tail: OrcTail, stripes: Sequence[int]
) -> Iterator[tuple[KeyProgressions | None, list[int]]]:
    """Yield stripes one by one whose runs are sufficient, and others together."""
    others: list[int] = []
    for number in stripes:
        known = read_progressions(source, tail, number)
        if known is None:
            others.append(number)
            continue
        if others:
            yield None, others
            others = []
        yield known, [number]
    if others:
        yield None, others


def read_deletes(
    files: Sequence[tuple[Source, OrcTail]], aborted: Sequence[int] = ()
) -> Generator[Keys, None, None]:
    """Read the files of deletes of one bucket as one stream; see `merge_keys`.

    The files must stay open until the stream ends or is closed. Hive sorts the events of a file;
    Trino does not sort them by their bucket property. Events of writers other than Hive are sorted
    in memory.

    Raises:
        CorruptFile: A file does not decode, contains rows other than deletes, or is out of order
            and written by Hive or too large for sorting.
    """
    # Many open files share the memory.
    rows = max(int(_BATCH_ROWS * min(_WIDE_FILES / max(len(files), 1), 1)), _FEWEST_ROWS)
    streams: list[Iterator[Keys]] = []
    together: list[Generator[Keys, None, None]] = []
    sorted_rows = 0
    for source, tail in files:
        stream = read_keys(source, tail, rows=rows)
        if writer_of(tail)[0] != WRITER_JAVA and sorted_rows + tail.rows <= MOST_SORTED:
            sorted_rows += tail.rows
            together.append(stream)
        elif tail.rows <= _FEWEST_ROWS:
            # A merge would hold all its events, too, and is slow for thousands of streams.
            together.append(_distinct(stream, aborted))
        else:
            streams.append(stream)
    return merge_keys([_in_order(together, rows), *streams], aborted)


def merge_keys(
    streams: Sequence[Iterator[Keys]], aborted: Sequence[int] = ()
) -> Generator[Keys, None, None]:
    """Merge ascending delete events into one stream that ascends without repetition.

    Engines that delete a row twice, or copy a delete event into a second directory, make Hive's
    readers lose other deletes. Of such events the one with the smallest write id remains: it
    deleted the row.

    Args:
        streams: The events of one file each.
        aborted: Write ids whose events are ignored.

    Raises:
        CorruptFile: A stream does not ascend, or contains rows other than deletes.
    """
    waiting = [_distinct(stream, aborted) for stream in streams]
    heads: list[tuple[Keys, Iterator[Keys]]] = [
        (keys, stream) for stream in waiting if (keys := next(stream, None)) is not None
    ]
    while heads:
        # All further events come after the smallest of the last row ids.
        limit = min(keys.row_id(-1) for keys, _ in heads)
        ready: list[Keys] = []
        rest: list[tuple[Keys, Iterator[Keys]]] = []
        for keys, stream in heads:
            end = _position_behind(keys, limit)
            if end:
                ready.append(keys[:end])
            following = keys[end:] if end < len(keys) else next(stream, None)
            if following is not None:
                rest.append((following, stream))
        heads = rest
        yield ready[0] if len(ready) == 1 else _first_of_each(_sorted(Keys.joined(ready)))


@dataclass(frozen=True, slots=True)
class RowIdRange:
    """The row ids of a stripe, which ascend.

    Attributes:
        first: The first of them.
        last: The last of them.
        operations: The smallest and the largest operation.
    """

    first: RowId
    last: RowId
    operations: tuple[int, int]

    def is_dense(self, rows: int) -> bool:
        """Return whether this number of rows uses all row ids of the range."""
        same = self.first[:2] == self.last[:2]
        return same and self.last.row - self.first.row + 1 == rows


def read_row_id_range(source: Source, tail: OrcTail, stripe: int) -> RowIdRange:
    """Determine the range of a stripe, from its statistics if possible, otherwise from its rows.

    The key index of the file is not used: some engines write wrong ones.

    Raises:
        CorruptFile: The rows do not decode.
        OutOfOrder: The row ids do not ascend.
    """
    return _range_from_statistics(tail, stripe) or _range_from_rows(source, tail, stripe)


class KeySet:
    """A set of row ids, in any order, for lookups."""

    def __init__(self, keys: Keys) -> None:
        # Numbering the distinct values of one part after the other keeps every step a search
        # in plain integers, which works for a single write id as well as for thousands.
        codes = np.zeros(len(keys), dtype=np.int64)
        self._levels: list[tuple[Integers, Integers]] = []
        for part in keys.row_ids():
            values = sorted_distinct(part)
            codes = codes * len(values) + np.searchsorted(values, part)
            distinct = sorted_distinct(codes)
            codes = np.searchsorted(distinct, codes)
            self._levels.append((values, distinct))

    def contains(self, keys: Keys) -> _Mask:
        """Return for each row id whether it is in the set."""
        codes = np.zeros(len(keys), dtype=np.int64)
        held = np.ones(len(keys), dtype=np.bool_)
        for part, (values, distinct) in zip(keys.row_ids(), self._levels, strict=True):
            if len(values) == 0:
                return np.zeros(len(keys), dtype=np.bool_)
            place = _search(values, part, held)
            codes = _search(distinct, codes * len(values) + place, held)
        return held


class DeleteCursor:
    """Detects deleted rows. Its calls must be in the order of the row ids.

    Memory holds at most one batch of events.
    """

    def __init__(self, deletes: Iterable[Keys]) -> None:
        self._batches = (keys for keys in deletes if len(keys))
        self._events = next(self._batches, None)

    def reaches(self, first: RowId, last: RowId) -> bool:
        """Return whether an event refers to a row id within a range, whether the row exists or not."""
        before_first = first._replace(row=first.row - 1)
        while self._events is not None:
            passed = _position_behind(self._events, before_first)
            if passed < len(self._events):
                self._events = self._events[passed:]
                return self._events.row_id(0) <= last
            self._events = next(self._batches, None)
        return False

    def count(self, first: RowId, last: RowId) -> int:
        """Return the number of events that refer to row ids within a range, and pass them."""
        count = 0
        while self._events is not None and self.reaches(first, last):
            upto = _position_behind(self._events, last)
            count += upto
            if upto < len(self._events):
                self._events = self._events[upto:]
                break
            self._events = next(self._batches, None)
        return count

    def hits(self, keys: Keys) -> NDArray[np.bool_]:
        """Return for each of some ascending rows whether an event refers to it."""
        first, last = keys.row_id(0), keys.row_id(-1)
        hit = np.zeros(len(keys), dtype=np.bool_)
        while self._events is not None and self.reaches(first, last):
            upto = _position_behind(self._events, last)
            if first[:2] == last[:2]:
                # They all differ only in the last part, and the events are fewer than the rows.
                events = self._events.rows[:upto]
                places = np.searchsorted(keys.rows, events)
                hit[places[keys.rows[places] == events]] = True
            else:
                hit |= KeySet(self._events[:upto]).contains(keys)
            if upto < len(self._events):
                break
            self._events = next(self._batches, None)
        return hit


def names_rows(source: Source, tail: OrcTail, deletes: Iterable[Keys]) -> bool:
    """Return whether any of some delete events refers to a row of a file.

    Args:
        source: The file.
        tail: Its tail, with the stripes to search.
        deletes: The delete events in the order of the row ids.
    """
    cursor = DeleteCursor(deletes)
    for number, stripe in enumerate(tail.stripes):
        row_ids = read_row_id_range(source, tail, number)
        if not cursor.reaches(row_ids.first, row_ids.last):
            continue
        if row_ids.is_dense(stripe.rows):
            return True
        with closing(read_keys(source, tail, [number])) as batches:
            if any(cursor.hits(keys).any() for keys in batches):
                return True
    return False


def deleted_rows(
    source: Source, tail: OrcTail, deletes: Iterable[Keys]
) -> Iterator[NDArray[np.int64]]:
    """Yield the ascending numbers of the rows of a file that delete events name.

    Args:
        source: The file.
        tail: Its tail, with the stripes to search, whose rows are counted from zero.
        deletes: The delete events in the order of the row ids.

    Raises:
        OutOfOrder: The row ids do not ascend.
    """
    cursor = DeleteCursor(deletes)
    before = 0
    for number, stripe in enumerate(tail.stripes):
        row_ids = read_row_id_range(source, tail, number)
        if cursor.reaches(row_ids.first, row_ids.last):
            place, last = before, None
            with closing(read_keys(source, tail, [number])) as batches:
                for keys in batches:
                    last = check_ascending(keys, last)
                    yield np.flatnonzero(cursor.hits(keys)) + place
                    place += len(keys)
        before += stripe.rows


def _search(sorted_values: Integers, wanted: Integers, held: _Mask) -> Integers:
    """Return the positions of the values; clear the mark in `held` of missing ones."""
    place = np.minimum(np.searchsorted(sorted_values, wanted), len(sorted_values) - 1)
    held &= sorted_values[place] == wanted
    return place


def _in_order(
    streams: Sequence[Generator[Keys, None, None]], rows: int
) -> Generator[Keys, None, None]:
    """Sort the events of some streams in memory."""
    batches: list[Keys] = []
    for stream in streams:
        with closing(stream):
            batches += stream
    if batches:
        keys = _sorted(Keys.joined(batches))
        for start in range(0, len(keys), rows):
            yield keys[start : start + rows]


def _distinct(stream: Iterator[Keys], aborted: Sequence[int]) -> Generator[Keys, None, None]:
    """Drop repetitions and aborted events; no row id is in two of the batches that come out."""
    held: Keys | None = None
    for batch in stream:
        if (batch.operations != RowOperation.DELETE).any():
            raise CorruptFile("There are other rows than deletes.")
        keys = batch[~np.isin(batch.current_write_ids, aborted)] if aborted else batch
        if held is not None:
            keys = Keys.joined([held, keys])
        if len(keys) == 0:
            continue
        _check_ascending(keys)
        keys = _first_of_each(keys)
        # The next batch may begin with the same row id.
        held = keys[-1:]
        if len(keys) > 1:
            yield keys[:-1]
    if held is not None:
        yield held


def _check_ascending(keys: Keys) -> None:
    descends = np.zeros(len(keys) - 1, dtype=np.bool_)
    for part in reversed(keys.row_ids()):
        descends = (part[1:] < part[:-1]) | ((part[1:] == part[:-1]) & descends)
    if descends.any():
        at = int(np.argmax(descends)) + 1
        raise CorruptFile(
            f"{keys.row_id(at)} comes after {keys.row_id(at - 1)}.",
            remedy=f"Up to {MOST_SORTED:,} delete events of other engines than Hive are sorted for a bucket."
            " Where there are more, overwrite the partition with its rows.",
        )


def _first_of_each(keys: Keys) -> Keys:
    """Of adjacent events for the same row, keep the event with the smallest write id."""
    differs = np.ones(len(keys), dtype=np.bool_)
    differs[1:] = False
    for part in keys.row_ids():
        differs[1:] |= part[1:] != part[:-1]
    if differs.all():
        return keys
    starts = np.flatnonzero(differs)
    return replace(
        keys[starts], current_write_ids=np.minimum.reduceat(keys.current_write_ids, starts)
    )


def _sorted(keys: Keys) -> Keys:
    return keys[np.lexsort(tuple(reversed(keys.row_ids())))]


def _position_behind(keys: Keys, limit: RowId) -> int:
    """Return the number of ascending row ids up to and including `limit`."""
    start, end = 0, len(keys)
    for part, value in zip(keys.row_ids(), limit, strict=True):
        place = part[start:end]
        below, upto = np.searchsorted(place, value), np.searchsorted(place, value, "right")
        start, end = start + int(below), start + int(upto)
    return end


def _range_from_statistics(tail: OrcTail, stripe: int) -> RowIdRange | None:
    operations, write_ids, buckets, rows = (
        tail.int_range(stripe, column)
        for column in (
            EnvelopeColumn.OPERATION,
            EnvelopeColumn.ORIGINAL_TRANSACTION,
            EnvelopeColumn.BUCKET,
            EnvelopeColumn.ROW_ID,
        )
    )
    if not (operations and write_ids and buckets and rows):
        return None
    if write_ids[0] != write_ids[1] or buckets[0] != buckets[1]:
        # The smallest row id of one write id may come after the largest of another.
        return None
    first, last = (RowId(write_ids[0], buckets[0], row) for row in rows)
    return RowIdRange(first, last, operations)


def _range_from_rows(source: Source, tail: OrcTail, stripe: int) -> RowIdRange:
    first: RowId | None = None
    last: RowId | None = None
    operations: set[int] = set()
    with closing(read_keys(source, tail, [stripe])) as batches:
        for keys in batches:
            last = check_ascending(keys, last)
            first = first or keys.row_id(0)
            operations.update(np.unique(keys.operations).tolist())
    if first is None or last is None:
        raise CorruptFile("The ORC file has a stripe without rows.")
    return RowIdRange(first, last, (min(operations), max(operations)))
