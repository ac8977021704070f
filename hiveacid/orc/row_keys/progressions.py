"""Key columns whose values have equal steps, recognized by their encoding instead of decoded.

The rows of an insert have one write id, one bucket, and consecutive row numbers. Writers encode
such a column as one run for some hundred values. Reading only the headers of these runs takes a
fraction of the time that decoding takes.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

import numpy as np

from hiveacid.errors import CorruptFile
from hiveacid.orc.format.envelope import EnvelopeColumn, TypeKind, kind_of
from hiveacid.orc.format.protobuf import read_varint, unzigzag
from hiveacid.orc.format.source_and_sink import Source, read_exactly
from hiveacid.orc.format.streams import WIDTHS, Encoding, Integers, StreamKind
from hiveacid.orc.format.stripe_footer import PlacedStream, StripeFooter, encoding_of
from hiveacid.orc.format.tail import OrcTail, Stripe
from hiveacid.orc.row_keys.key_columns import KEY_COLUMNS
from hiveacid.orc.row_keys.keys import Keys

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
    stored = {stream.column: encoded for stream, encoded in streams}
    if (
        len(stored) < len(streams)
        or set(stored) != set(KEY_COLUMNS)
        or any(stream.kind != StreamKind.DATA for stream in key_streams(footer))
    ):
        return None
    columns: list[Progression] = []
    for column, encoded in sorted(stored.items()):
        if encoding_of(footer.encodings[column]) != Encoding.DIRECT_V2:
            return None
        if tail.compression.plain_limit(encoded) > LONGEST_STREAM:
            return None
        progression = recognized(tail.compression.decompress(encoded))
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
    encoded = np.add.reduceat(digits << shifts.astype(np.uint64), starts)
    # The numbers are encoded without their sign, which is in the last bit.
    values = (encoded >> np.uint64(1)).astype(np.int64) ^ -(encoded & np.uint64(1)).astype(np.int64)
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
