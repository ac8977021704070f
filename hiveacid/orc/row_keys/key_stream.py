"""Row ids of more rows than fit into memory: read, merged and looked up batch by batch."""

import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import lru_cache
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from hiveacid.dataclass import dataclass
from hiveacid.errors import CorruptFile
from hiveacid.orc.format.batches import read_batches
from hiveacid.orc.format.compression import Source, read_exactly
from hiveacid.orc.format.envelope import EnvelopeColumn, RowOperation, TypeKind, kind_of
from hiveacid.orc.format.layout import writer_of
from hiveacid.orc.format.protobuf import read_varint, unzigzag
from hiveacid.orc.format.streams import (
    WIDTHS,
    Encoding,
    Integers,
    PlacedStream,
    StreamKind,
    StripeFooter,
    encoding_of,
)
from hiveacid.orc.format.tail import WRITER_JAVA, OrcTail, Stripe
from hiveacid.orc.row_keys.keys import (
    KEY_COLUMNS,
    Keys,
    check_ascending,
    key_names,
)
from hiveacid.orc.row_keys.row_id_set import Mask, RowIdSet, are_among
from hiveacid.rules.row_id import RowId

# Key columns whose values have equal steps, recognized by their encoding instead of decoded.
#
# The rows of an insert have one write id, one bucket, and consecutive row numbers. Writers encode
# such a column as one run for some hundred values. Reading only the headers of these runs takes a
# fraction of the time that decoding takes.


# The kinds of runs with equal steps, in the two highest bits of their first byte.
_SHORT_REPEAT, _DIRECT, _DELTA = 0, 1, 3
# Writers store up to two numbers one by one, also equal ones: files of one or two rows are frequent.
_FEW = 2
# Such runs with one number for all steps: their head, first number and step.
_LONG_RUN = re.compile(
    rb"([\xc0\xc1].)([\x80-\xff]*[\x00-\x7f])([\x80-\xff]*[\x00-\x7f])", re.DOTALL
)
_COUNT = 0x1FF
_MANY_RUNS = 16
# The bits of that byte with the width of further steps, which are absent if they equal the first.
_WIDTH = 0b111110
# Longer streams are left to the library, which reads them in parts.
LONGEST_STREAM = 1 << 20
_BITS: dict[int, int] = {TypeKind.INT: 32, TypeKind.LONG: 64}


@dataclass(frozen=True, slots=True)
class Progression:
    """Integers with equal steps."""

    first: int
    step: int
    count: int

    @property
    def last(self) -> int:
        """The last integer."""
        return self.first + self.step * (self.count - 1)

    def __getitem__(self, rows: slice) -> Integers:
        start, end, _ = rows.indices(self.count)
        if not self.step:
            return np.broadcast_to(np.int64(self.first), end - start)
        values: Integers = np.arange(start, end, dtype=np.int64)
        values *= self.step
        values += self.first
        return values


@dataclass(frozen=True, slots=True)
class KeyProgressions:
    """The five key columns of a stripe, each with equal steps."""

    columns: tuple[Progression, ...]

    @property
    def is_consecutive(self) -> bool:
        """Whether the rows differ only in their numbers, which follow each other."""
        keys = dict(zip(KEY_COLUMNS, self.columns, strict=True))
        rows = keys.pop(EnvelopeColumn.ROW_ID)
        return rows.step == (rows.count > 1) and not any(column.step for column in keys.values())

    def rows(self, start: int, end: int) -> Keys:
        """The keys of some rows."""
        return Keys(*(column[start:end] for column in self.columns))

    def ends(self, start: int, end: int) -> Keys:
        """The keys of the first and of the last of some rows."""
        places = (slice(start, start + 1), slice(end - 1, end))
        return Keys.joined([self.rows(place.start, place.stop) for place in places])

    def batches(self, rows: int) -> Iterator[Keys]:
        """Yield the keys, at most `rows` at a time."""
        count = self.columns[0].count
        for start in range(0, count, rows):
            yield self.rows(start, min(start + rows, count))


def read_progressions(source: Source, tail: OrcTail, number: int) -> KeyProgressions | None:
    """Return the key columns of a stripe; None if the library must decode them.

    Raises:
        CorruptFile: The footer contradicts its stripe, or a stream cannot be decompressed.
    """
    stripe = tail.stripes[number]
    footer = StripeFooter.read(source, tail, stripe)
    streams = [
        (stream, read_exactly(source, stream.offset, stream.length))
        for stream in key_streams(footer)
        if stream.length <= LONGEST_STREAM
    ]
    return progressions_of(tail, stripe, footer, streams)


def key_streams(footer: StripeFooter) -> list[PlacedStream]:
    """Return the streams of a stripe that its row ids are decoded from."""
    return [stream for stream in footer.data if stream.column <= EnvelopeColumn.CURRENT_TRANSACTION]


def progressions_of(
    tail: OrcTail,
    stripe: Stripe,
    footer: StripeFooter,
    streams: Sequence[tuple[PlacedStream, bytes]],
) -> KeyProgressions | None:
    """Return the key columns of a stripe from its streams; None if the library must decode them.

    Args:
        tail: The tail of the file.
        stripe: The stripe.
        footer: Its footer.
        streams: The streams of the key columns, as stored; without longer ones than
            ``LONGEST_STREAM``.

    Raises:
        CorruptFile: A stream cannot be decompressed.
    """
    streams_by_column = {stream.column: encoded_stream for stream, encoded_stream in streams}
    if (
        len(streams_by_column) < len(streams)
        or set(streams_by_column) != set(KEY_COLUMNS)
        or any(stream.kind != StreamKind.DATA for stream in key_streams(footer))
    ):
        return None
    columns: list[Progression] = []
    for column, encoded_stream in sorted(streams_by_column.items()):
        if encoding_of(footer.encodings[column]) != Encoding.DIRECT_V2:
            return None
        if tail.compression.plain_limit(encoded_stream) > LONGEST_STREAM:
            return None
        progression = recognized(tail.compression.decompress(encoded_stream))
        if progression is None or progression.count != stripe.rows:
            return None
        bits = _BITS.get(kind_of(tail.types[column]))
        if bits is None:
            return None
        limit = 1 << bits - 1
        if not all(-limit <= value < limit for value in (progression.first, progression.last)):
            return None
        columns.append(progression)
    return KeyProgressions(tuple(columns))


# The same write id, bucket, and operation fill the stripes of a file.
@lru_cache(maxsize=16)
def recognized(plain: bytes) -> Progression | None:
    """Read a stream of signed integers in the second version of the encoding."""
    try:
        return _of_long_runs(plain) or _joined(list(_runs(plain)))
    except (IndexError, CorruptFile):
        # The library reports the error.
        return None


def _of_long_runs(plain: bytes) -> Progression | None:
    """Read hundreds of runs with a step at once; return None for other runs."""
    runs = _LONG_RUN.findall(plain)
    if len(runs) < _MANY_RUNS or sum(map(len, chain(*runs))) != len(plain):
        return None
    heads, firsts, steps = (b"".join(parts) for parts in zip(*runs, strict=True))
    if steps != runs[0][2] * len(runs):
        return None
    counts = (np.frombuffer(heads, ">u2").astype(np.int64) & _COUNT) + 1
    lengths = np.fromiter((len(first) for _, first, _ in runs), np.int64, len(runs))
    starts = np.cumsum(lengths) - lengths
    digits = np.frombuffer(firsts, np.uint8).astype(np.uint64) & np.uint64(0x7F)
    shifts = 7 * (np.arange(len(digits)) - np.repeat(starts, lengths))
    step, count = unzigzag(read_varint(runs[0][2], 0)[0]), int(counts.sum())
    first = unzigzag(read_varint(runs[0][1], 0)[0])
    if shifts.max() >= 63 or abs(first) + abs(step) * count >= 1 << 62 or counts.min() < 2:
        return None
    encoded_values = np.add.reduceat(digits << shifts.astype(np.uint64), starts)
    # The numbers are encoded without their sign, which is in the last bit.
    values = (encoded_values >> np.uint64(1)).astype(np.int64) ^ -(
        encoded_values & np.uint64(1)
    ).astype(np.int64)
    if (values != first + step * (np.cumsum(counts) - counts)).any():
        return None
    return Progression(first, step, count)


def _runs(plain: bytes) -> Iterator[Progression | None]:
    """Yield the runs; None, the last one, is a run of another kind."""
    position = 0
    while position < len(plain):
        head = plain[position]
        if head >> 6 == _DELTA and not head & _WIDTH:
            count = ((head & 1) << 8 | plain[position + 1]) + 1
            first, position = read_varint(plain, position + 2)
            step, position = read_varint(plain, position)
            if count < 2:
                yield None
                return
            yield Progression(unzigzag(first), unzigzag(step), count)
        elif head >> 6 == _SHORT_REPEAT:
            end = position + 2 + (head >> 3 & 7)
            if end > len(plain):
                raise IndexError(end)
            first = int.from_bytes(plain[position + 1 : end], "big")
            yield Progression(unzigzag(first), 0, (head & 7) + 3)
            position = end
        elif head >> 6 == _DIRECT:
            count = ((head & 1) << 8 | plain[position + 1]) + 1
            width = WIDTHS[head >> 1 & 31]
            end = position + 2 + (count * width + 7 >> 3)
            if count > _FEW:
                yield None
                return
            if end > len(plain):
                raise IndexError(end)
            bits = int.from_bytes(plain[position + 2 : end], "big") >> -count * width % 8
            mask = (1 << width) - 1
            first, last = unzigzag(bits >> (count - 1) * width & mask), unzigzag(bits & mask)
            if abs(last - first) >= 1 << 63:
                yield None
                return
            yield Progression(first, last - first, count)
            position = end
        else:
            yield None
            return


def _joined(runs: Sequence[Progression | None]) -> Progression | None:
    if not runs or runs[0] is None:
        return None
    first, step = runs[0].first, runs[0].step
    count = 0
    for run in runs:
        if run is None or run.step != step or run.first != first + step * count:
            return None
        count += run.count
    return Progression(first, step, count)


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
    stripe_numbers = range(len(tail.stripes)) if stripes is None else stripes
    for key_progressions, numbers in _by_reader(source, tail, stripe_numbers):
        if key_progressions is not None:
            yield from key_progressions.batches(rows)
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
    other_stripes: list[int] = []
    for number in stripes:
        key_progressions = read_progressions(source, tail, number)
        if key_progressions is None:
            other_stripes.append(number)
            continue
        if other_stripes:
            yield None, other_stripes
            other_stripes = []
        yield key_progressions, [number]
    if other_stripes:
        yield None, other_stripes


def read_deletes(
    files: Sequence[tuple[Source, OrcTail]], aborted_ids: Sequence[int] = ()
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
    joint_streams: list[Generator[Keys, None, None]] = []
    sorted_rows = 0
    for source, tail in files:
        stream = read_keys(source, tail, rows=rows)
        if writer_of(tail)[0] != WRITER_JAVA and sorted_rows + tail.rows <= MOST_SORTED:
            sorted_rows += tail.rows
            joint_streams.append(stream)
        elif tail.rows <= _FEWEST_ROWS:
            # A merge would hold all its events, too, and is slow for thousands of streams.
            joint_streams.append(_distinct(stream, aborted_ids))
        else:
            streams.append(stream)
    return merge_keys([_in_order(joint_streams, rows), *streams], aborted_ids)


def merge_keys(
    streams: Sequence[Iterator[Keys]], aborted_ids: Sequence[int] = ()
) -> Generator[Keys, None, None]:
    """Merge ascending delete events into one stream that ascends without repetition.

    Engines that delete a row twice, or copy a delete event into a second directory, make Hive's
    readers lose other deletes. Of such events the one with the smallest write id remains: it
    deleted the row.

    Args:
        streams: The events of one file each.
        aborted_ids: Write ids whose events are ignored.

    Raises:
        CorruptFile: A stream does not ascend, or contains rows other than deletes.
    """
    waiting = [_distinct(stream, aborted_ids) for stream in streams]
    heads: list[tuple[Keys, Iterator[Keys]]] = [
        (keys, stream) for stream in waiting if (keys := next(stream, None)) is not None
    ]
    while heads:
        # All further events come after the smallest of the last row ids.
        limit = min(keys.row_id(-1) for keys, _ in heads)
        ready: list[Keys] = []
        next_heads: list[tuple[Keys, Iterator[Keys]]] = []
        for keys, stream in heads:
            end = _position_behind(keys, limit)
            if end:
                ready.append(keys[:end])
            following = keys[end:] if end < len(keys) else next(stream, None)
            if following is not None:
                next_heads.append((following, stream))
        heads = next_heads
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
        same_block = self.first[:2] == self.last[:2]
        return same_block and self.last.row - self.first.row + 1 == rows


def read_row_id_range(source: Source, tail: OrcTail, stripe: int) -> RowIdRange:
    """Determine the range of a stripe, from its statistics if possible, otherwise from its rows.

    The key index of the file is not used: some engines write wrong ones.

    Raises:
        CorruptFile: The rows do not decode.
        OutOfOrder: The row ids do not ascend.
    """
    return _range_from_statistics(tail, stripe) or _range_from_rows(source, tail, stripe)


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

    def hits(self, keys: Keys) -> Mask:
        """Return for each of some ascending rows whether an event refers to it."""
        first, last = keys.row_id(0), keys.row_id(-1)
        mask = np.zeros(len(keys), np.bool_)
        while self._events is not None and self.reaches(first, last):
            end = _position_behind(self._events, last)
            events = self._events[:end]
            # The rows ascend, so that they differ only in their numbers.
            if first[:2] == last[:2]:
                mask |= are_among(keys.rows, events.rows)
            else:
                mask |= RowIdSet([events.row_ids()]).contains(keys.row_ids())
            if end < len(self._events):
                break
            self._events = next(self._batches, None)
        return mask


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
    row_offset = 0
    for number, stripe in enumerate(tail.stripes):
        row_ids = read_row_id_range(source, tail, number)
        if cursor.reaches(row_ids.first, row_ids.last):
            place, last = row_offset, None
            with closing(read_keys(source, tail, [number])) as batches:
                for keys in batches:
                    last = check_ascending(keys, last)
                    yield np.flatnonzero(cursor.hits(keys)) + place
                    place += len(keys)
        row_offset += stripe.rows


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


def _distinct(stream: Iterator[Keys], aborted_ids: Sequence[int]) -> Generator[Keys, None, None]:
    """Drop repetitions and aborted events; no row id is in two of the batches that come out."""
    pending_keys: Keys | None = None
    for batch in stream:
        if (batch.operations != RowOperation.DELETE).any():
            raise CorruptFile("There are other rows than deletes.")
        keys = batch[~np.isin(batch.current_write_ids, aborted_ids)] if aborted_ids else batch
        if pending_keys is not None:
            keys = Keys.joined([pending_keys, keys])
        if len(keys) == 0:
            continue
        _check_ascending(keys)
        keys = _first_of_each(keys)
        # The next batch may begin with the same row id.
        pending_keys = keys[-1:]
        if len(keys) > 1:
            yield keys[:-1]
    if pending_keys is not None:
        yield pending_keys


def _check_ascending(keys: Keys) -> None:
    descends = np.zeros(len(keys) - 1, dtype=np.bool_)
    for part in reversed(keys.row_ids()):
        descends = (part[1:] < part[:-1]) | ((part[1:] == part[:-1]) & descends)
    if descends.any():
        position = int(np.argmax(descends)) + 1
        raise CorruptFile(
            f"{keys.row_id(position)} comes after {keys.row_id(position - 1)}.",
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
        lower_count, upto = np.searchsorted(place, value), np.searchsorted(place, value, "right")
        start, end = start + int(lower_count), start + int(upto)
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
