"""Rows of an ORC file as Arrow batches, independent of the size of the stripes.

Arrow reads whole files only: `FileOfPieces` and `FileOfStripes` present a part of a file as a file.

Reading a stripe at a time takes as much memory as the stripe has when it is decoded, which may be a
hundred times its size in the file. Arrow's data sets decode batch by batch instead: a thread of
theirs runs up to 32 batches ahead, so that only the size of a batch limits memory. They must run
without further threads, which would read ahead by a gigabyte.

Measured with stripes of 67 MB that hold 1.8 GB: 3.5 GB stripe by stripe, 0.25 GB this way.
"""

import io
import os
from bisect import bisect_right
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate
from time import monotonic, sleep
from typing import Any
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from hiveacid.dataclass import dataclass
from hiveacid.errors import BeyondArrow, CorruptFile
from hiveacid.orc.format.compression import Codec, Compression, Source, read_exactly
from hiveacid.orc.format.envelope import TypeField, TypeKind, kind_of
from hiveacid.orc.format.protobuf import Message, read_varint, unzigzag
from hiveacid.orc.format.statistics import BINARIES, COUNT, STRINGS, count_statistics
from hiveacid.orc.format.streams import DICTIONARIES, WIDTHS, StreamKind, StripeFooter
from hiveacid.orc.format.tail import MAGIC, MOST_DIGITS, OrcTail, Stripe, most_rows

# The lengths of texts and lists in a stripe, added up before a library allocates memory for them.
#
# The library allocates the memory that they declare, and ends the process if they are forged. The
# scales of decimals are a similar risk: the library repeats a multiplication or division as often
# as they declare.


# So many runs of the rare kinds take a second; Spark reads stripes of more.
_MOST_RUNS = 500_000
_ONE = np.uint64(1)
_SHORT_REPEAT, _DIRECT, _PATCHED, _DELTA = range(4)
# Java's writer makes a run of every few values. So many runs are processed at a time: those that
# begin within this number of bytes, with at most half a million values.
_SECTION = 64 << 10
_WIDTHS = np.array(WIDTHS)
_BYTE = 8
_FIRST_DIRECT = _DIRECT << 6
# For each first byte of a run the bits of its values, if all of them follow the header.
_BITS_OF_HEAD = [WIDTHS[head >> 1 & 31] if head >> 6 == _DIRECT else 0 for head in range(256)]
# Half a million values below this limit have a sum that fits into 64 bits.
_SUMMABLE = 1 << 40


@dataclass(slots=True)
class Lengths:
    """A summary of many lengths.

    Attributes:
        count: Their number.
        total: Their sum.
        largest: The largest.
        signed: Whether they are encoded as signed numbers; negative ones are invalid.
    """

    count: int = 0
    total: int = 0
    largest: int = 0
    signed: bool = False

    @classmethod
    def of(cls, plain: bytes, *, version: int, signed: bool = False) -> "Lengths":
        """Read a stream of lengths.

        Args:
            plain: The stream, decompressed.
            version: The version of the integer encoding, 1 or 2.
            signed: Whether the encoding is that of signed numbers.

        Raises:
            CorruptFile: The stream does not decode, or a length is negative.
            BeyondArrow: The stream has too many runs to check.
        """
        lengths = cls(signed=signed)
        try:
            if version == 2:
                lengths._add_runs(plain)
            else:
                lengths._add_old_runs(plain)
        except IndexError:
            raise CorruptFile("A stripe of the ORC file has a list of lengths cut short.") from None
        return lengths

    def _add(self, count: int, total: int, smallest: int, largest: int) -> None:
        if smallest < 0 or largest >= 1 << 63:
            raise CorruptFile("A stripe of the ORC file has a negative length or scale.")
        self.count += count
        self.total += total
        self.largest = max(self.largest, largest)

    def _number(self, encoded_value: int) -> int:
        return unzigzag(encoded_value) if self.signed else encoded_value

    def _add_runs(self, plain: bytes) -> None:
        padded = plain + bytes(8)
        octets = np.frombuffer(padded, np.uint8)
        # Eight bytes from each byte on.
        words = np.ndarray((len(plain),), ">u8", padded, strides=(1,))
        position = runs = 0
        while position < len(plain):
            starts, steady, rare, position = self._starts(plain, padded, position)
            runs += len(starts) + len(steady) + rare
            _check_number(runs)
            if position > len(plain):
                raise IndexError(position)
            places = np.array(starts, np.int64)
            heads = octets[places].astype(np.int64) << 8 | octets[places + 1]
            short = heads >> 14 == _SHORT_REPEAT
            self._add_short_repeats(words, places[short], heads[short])
            direct = heads >> 14 == _DIRECT
            self._add_direct(octets, words, places[direct], heads[direct])
            places = np.array(steady, np.int64)
            heads = octets[places].astype(np.int64) << 8 | octets[places + 1]
            self._add_steady(octets, places, heads)

    def _starts(
        self, plain: bytes, padded: bytes, position: int
    ) -> tuple[list[int], list[int], int, int]:
        """Find the runs of a section.

        Args:
            plain: The stream.
            padded: The stream, and some more bytes.
            position: The start of the section.

        Returns:
            The starts of runs, those of runs of equal steps, the number of runs that were decoded
                to determine their length and added up, and the next start.
        """
        starts: list[int] = []
        steady: list[int] = []
        rare = 0
        last = min(position + _SECTION, len(plain))
        while position < last:
            head = padded[position]
            bits = _BITS_OF_HEAD[head]
            if bits:
                starts.append(position)
                count = ((head & 1) << 8 | padded[position + 1]) + 1
                position += 2 + (count * bits + 7 >> 3)
            elif head < _FIRST_DIRECT:
                starts.append(position)
                position += 2 + (head >> 3)
            elif _is_steady(padded, position):
                steady.append(position)
                position += 4
            else:
                position = self._add_rare_run(plain, position)
                rare += 1
        return starts, steady, rare, position

    def _add_short_repeats(
        self, words: NDArray[np.uint64], places: NDArray[np.int64], heads: NDArray[np.int64]
    ) -> None:
        counts, bits = (heads >> 8 & 7) + 3, ((heads >> 11 & 7) + 1) * 8
        self._add_values(words[places + 1] >> (64 - bits).astype(np.uint64), counts)

    def _add_direct(
        self,
        octets: NDArray[np.uint8],
        words: NDArray[np.uint64],
        places: NDArray[np.int64],
        heads: NDArray[np.int64],
    ) -> None:
        counts, widths = (heads & 511) + 1, _WIDTHS[heads >> 9 & 31]
        whole = widths == _BYTE
        if not self.signed and whole.any():
            self._add_bytes(octets, places[whole] + 2, counts[whole])
            other_runs = ~whole
            places, counts, widths = places[other_runs], counts[other_runs], widths[other_runs]
        number_of_run = np.arange(counts.sum()) - np.repeat(counts.cumsum() - counts, counts)
        widths = np.repeat(widths, counts)
        bits = number_of_run * widths
        # A value never reaches into a ninth byte: the larger widths are whole bytes.
        values = words[np.repeat(places + 2, counts) + (bits >> 3)].astype(np.uint64)
        values <<= (bits & 7).astype(np.uint64)
        self._add_values(values >> (64 - widths).astype(np.uint64))

    def _add_bytes(
        self, octets: NDArray[np.uint8], starts: NDArray[np.int64], counts: NDArray[np.int64]
    ) -> None:
        """Add up values of a byte each."""
        ends = starts + counts
        first, last = int(starts[0]), int(ends[-1])
        part = octets[first : last + 1]
        # Every second range is that between two runs.
        edges = np.stack([starts, ends], axis=1).reshape(-1) - first
        sums = np.add.reduceat(part, edges, dtype=np.int64)[::2]
        largest = np.maximum.reduceat(part, edges)[::2]
        self._add(int(counts.sum()), int(sums.sum()), 0, int(largest.max()))

    def _add_steady(
        self, octets: NDArray[np.uint8], places: NDArray[np.int64], heads: NDArray[np.int64]
    ) -> None:
        """Add up runs of equal steps; see ``_is_steady``."""
        if not len(places):
            return
        counts = (heads & 511) + 1
        first, step = octets[places + 2].astype(np.int64), octets[places + 3].astype(np.int64)
        step = (step >> 1) ^ -(step & 1)
        if self.signed:
            first = (first >> 1) ^ -(first & 1)
        last = first + step * (counts - 1)
        total = int(((first + last) * counts).sum()) // 2
        smallest, largest = np.minimum(first, last), np.maximum(first, last)
        self._add(int(counts.sum()), total, int(smallest.min()), int(largest.max()))

    def _add_values(
        self, values: NDArray[np.uint64], counts: NDArray[np.int64] | None = None
    ) -> None:
        """Add up values, each of them once or so many times."""
        if not len(values):
            return
        if self.signed:
            self._add(0, 0, -int((values & _ONE).max()), 0)
            values = values >> _ONE
        largest = int(values.max())
        # Sums of 64-bit numbers do not fit 64 bits, but then the largest alone is too large.
        total = largest
        if largest < _SUMMABLE:
            total = int(values.sum() if counts is None else values.astype(np.int64) @ counts)
        self._add(len(values) if counts is None else int(counts.sum()), total, 0, largest)

    def _add_rare_run(self, plain: bytes, position: int) -> int:
        head = plain[position]
        count = ((head & 1) << 8 | plain[position + 1]) + 1
        code = head >> 1 & 31
        if head >> 6 == _DELTA:
            return self._add_delta(plain, position + 2, count, WIDTHS[code] if code else 0)
        return self._add_patched(plain, position + 2, count, WIDTHS[code])

    def _add_patched(self, plain: bytes, position: int, count: int, width: int) -> int:
        third, fourth = plain[position], plain[position + 1]
        size, patch_width = (third >> 5) + 1, WIDTHS[third & 31]
        gap_width, patches = (fourth >> 5) + 1, fourth & 31
        position += 2
        base = int.from_bytes(plain[position : position + size], "big")
        sign = 1 << 8 * size - 1
        base = sign - base if base & sign else base
        values, position = _unpacked(plain, position + size, count, width)
        entry_width = next((size for size in WIDTHS if size >= gap_width + patch_width), 64)
        numbers, place = [base + int(value) for value in values], 0
        if patches:
            packed, position = _unpacked(plain, position, patches, entry_width)
            patch = 0
            for entry in map(int, packed):
                place += entry >> patch_width
                # The patches are the high bits of the values, above their packed bits.
                patch = (entry & (1 << patch_width) - 1) << width
                numbers[place] += patch
            if not patch:
                # It declares that the next one is far away, and the library searches for that in
                # memory.
                raise CorruptFile("A stripe of the ORC file has a list of lengths cut short.")
        self._add(count, sum(numbers), min(numbers), max(numbers))
        return position

    def _add_delta(self, plain: bytes, position: int, count: int, width: int) -> int:
        base, position = read_varint(plain, position)
        base = self._number(base)
        step, position = read_varint(plain, position)
        step = unzigzag(step)
        if not width:
            last = base + step * (count - 1)
            self._add(count, (base + last) * count // 2, min(base, last), max(base, last))
            return position
        steps, position = _unpacked(plain, position, max(count - 2, 0), width)
        later_steps = [int(value) if step >= 0 else -int(value) for value in steps]
        value, values = base, [base]
        for difference in [step, *later_steps]:
            value += difference
            values.append(value)
        self._add(count, sum(values), min(values), max(values))
        return position

    def _add_old_runs(self, plain: bytes) -> None:
        position = runs = 0
        while position < len(plain):
            position = self._add_old_run(plain, position)
            runs += 1
            _check_number(runs)
        if position > len(plain):
            raise IndexError(position)

    def _add_old_run(self, plain: bytes, position: int) -> int:
        head = plain[position]
        position += 1
        if head >= 128:
            for _ in range(256 - head):
                value, position = read_varint(plain, position)
                value = self._number(value)
                self._add(1, value, value, value)
            return position
        count = head + 3
        step = plain[position] - 256 if plain[position] >= 128 else plain[position]
        base, position = read_varint(plain, position + 1)
        base = self._number(base)
        last = base + step * (count - 1)
        self._add(count, (base + last) * count // 2, min(base, last), max(base, last))
        return position


def _check_number(runs: int) -> None:
    if runs > _MOST_RUNS:
        raise BeyondArrow("A stripe has more lengths than can be checked.")


def _is_steady(plain: bytes, position: int) -> bool:
    """Return whether a run has equal steps, and four bytes."""
    head = plain[position]
    return (
        head >> 6 == _DELTA
        and not head >> 1 & 31
        and plain[position + 2] < 128
        and plain[position + 3] < 128
    )


def _unpacked(
    plain: bytes, position: int, count: int, width: int
) -> tuple[NDArray[np.uint64], int]:
    """Numbers of `width` bits each, and the position behind them."""
    end = position + (count * width + 7) // 8
    if end > len(plain):
        raise IndexError(end)
    packed = np.frombuffer(plain, np.uint8, end - position, position)
    if width in (8, 16, 32, 64):
        return packed.view(f">u{width // 8}").astype(np.uint64), end
    bits = np.unpackbits(packed)[: count * width].reshape(count, width)
    padded = np.zeros((count, 64), np.uint8)
    padded[:, 64 - width :] = bits
    return np.packbits(padded, axis=1).view(">u8").reshape(count).astype(np.uint64), end


# Limits on the rows of a stripe that Arrow's ORC library decodes at a time, to protect memory.
#
# The library allocates memory for all lengths declared in a stripe, and whole blocks even for
# short streams, without checking the available amount: forged lengths end the process, and genuine
# ones may exhaust memory. It multiplies decimals by ten as often as their scales require: decimals
# of a few bytes keep it busy for hours.


# Memory limit for a batch and the blocks of all streams, and the memory of a value besides its
# text.
_MEMORY = 512 << 20
_VALUE_MEMORY = 16
# It holds one of the stream as stored in the file, and one of its decompressed form.
_BLOCKS_OF_A_STREAM = 2
# Texts that claim at most this size do no harm, even if they are missing.
_HARMLESS = 64 << 20
_TEXTS = (TypeKind.STRING, TypeKind.CHAR, TypeKind.VARCHAR, TypeKind.BINARY)
_LISTS = (TypeKind.LIST, TypeKind.MAP)
_DIGITS_OF_64_BITS = 18
# The encodings of a column that have the first version of the integer encoding.
_OLD = (0, 1)


def rows_at_a_time(source: Source, tail: OrcTail, stripe: int) -> int:
    """Return the number of rows of a stripe that fit into memory with all columns read.

    Raises:
        CorruptFile: The stripe declares more data than it contains.
        BeyondArrow: A single row may take too much memory, or the blocks of the streams do, or the
            stripe has too much data to check.
    """
    return _Stripe(source, tail, tail.stripes[stripe]).rows_at_a_time()


@dataclass(slots=True)
class _Values:
    """The values of a column in a stripe.

    Attributes:
        all: The maximum number of values.
        of_row: The maximum number of values of one row.
    """

    all: int
    of_row: int


class _Stripe:
    def __init__(self, source: Source, tail: OrcTail, stripe: Stripe) -> None:
        self._source = source
        self._tail = tail
        self._stripe = stripe
        footer = StripeFooter.read(source, tail, stripe)
        self._encodings = [Message.decode(encoding) for encoding in footer.encodings]
        self._streams = {(stream.kind, stream.column): stream for stream in footer.data}

    def rows_at_a_time(self) -> int:
        memory = _MEMORY - self._blocks()
        if memory <= 0:
            raise BeyondArrow(
                f"The blocks of all columns take more than {_MEMORY >> 20} MB of memory."
            )
        rows = self._stripe.rows
        values = {0: _Values(rows, 1)}
        everything = row = 0
        for column, type_ in enumerate(self._tail.types):
            message = Message.decode(type_)
            kind = message.number(TypeField.KIND)
            mine = child_values = values.get(column, _Values(rows, 1))
            everything += mine.all * _VALUE_MEMORY
            row += mine.of_row * _VALUE_MEMORY
            if kind in _TEXTS:
                texts, longest = self._texts(column, mine)
                everything += texts
                row += min(mine.of_row * longest, texts)
            elif kind in _LISTS:
                child_values = self._elements(column, mine)
            elif kind == TypeKind.DECIMAL:
                self._check_scales(column, message.number(TypeField.PRECISION))
            values |= dict.fromkeys(message.all_numbers(TypeField.SUBTYPES), child_values)
        if everything <= memory:
            return max(rows, 1)
        if row > memory:
            raise BeyondArrow(f"A row may take more than {memory >> 20} MB of memory.")
        return memory // row

    def _blocks(self) -> int:
        if self._tail.codec is Codec.NONE:
            return 0
        return len(self._streams) * _BLOCKS_OF_A_STREAM * self._tail.block_size

    def _texts(self, column: int, values: _Values) -> tuple[int, int]:
        """The length of all texts of a column, and that of the longest."""
        lengths = self._lengths(column)
        encoding = self._encodings[column]
        is_dictionary = encoding.number(1) in DICTIONARIES
        if is_dictionary and encoding.number(2) > lengths.count:
            raise CorruptFile("A dictionary in the ORC file has fewer entries than declared.")
        contents = StreamKind.DICTIONARY_DATA if is_dictionary else StreamKind.DATA
        if lengths.total > _HARMLESS and lengths.total > self._room(contents, column):
            raise CorruptFile("Texts in a stripe of the ORC file are shorter than declared.")
        return values.all * lengths.largest if is_dictionary else lengths.total, lengths.largest

    def _elements(self, column: int, lists: _Values) -> _Values:
        """The elements of the lists of a column."""
        lengths = self._lengths(column)
        if lengths.total > most_rows(self._stripe.length):
            raise CorruptFile("Lists in a stripe of the ORC file are shorter than declared.")
        return _Values(lengths.total, min(lists.of_row * lengths.largest, lengths.total))

    def _check_scales(self, column: int, precision: int) -> None:
        # The library itself checks decimals that fit 64 bits. Decimals of Hive 0.11 have no
        # precision.
        if 0 < precision <= _DIGITS_OF_64_BITS:
            return
        largest = self._lengths(column, StreamKind.SECONDARY, signed=True).largest
        if largest > MOST_DIGITS:
            raise CorruptFile(f"A decimal in column {column} of the ORC file has scale {largest}.")

    def _lengths(
        self, column: int, kind: StreamKind = StreamKind.LENGTH, *, signed: bool = False
    ) -> Lengths:
        stream = self._streams.get((kind, column))
        if stream is None:
            return Lengths()
        encoded_stream = read_exactly(self._source, stream.offset, stream.length)
        plain = self._tail.compression.decompress(encoded_stream)
        version = 1 if self._encodings[column].number(1) in _OLD else 2
        return Lengths.of(plain, version=version, signed=signed)

    def _room(self, kind: StreamKind, column: int) -> int:
        """Return the maximum number of bytes of a decompressed stream."""
        stream = self._streams.get((kind, column))
        if stream is None or self._tail.codec is Codec.NONE:
            return 0 if stream is None else stream.length
        offset, end, room = stream.offset, stream.offset + stream.length, 0
        while offset < end:
            header = int.from_bytes(read_exactly(self._source, offset, 3), "little")
            room += header >> 1 if header & 1 else self._tail.block_size
            offset += 3 + (header >> 1)
        return room


_BATCH_BYTES = 2 << 20
# The threads of the library need microseconds. One that never releases a file is not worth hanging.
_POLL_SECONDS = 0.0002
_RELEASE_SECONDS = 10

# A range of the other file, by offset and length, or new bytes.
Piece = tuple[int, int] | bytes


@dataclass(frozen=True, slots=True)
class OtherStripe:
    """A stripe with other content.

    Attributes:
        stripe: The stripe that it replaces.
        index: Its row indexes.
        data: Its data.
        footer: Its footer, compressed.
    """

    stripe: Stripe
    index: Sequence[Piece]
    data: Sequence[Piece]
    footer: bytes


def read_batches(
    source: Source,
    tail: OrcTail,
    stripes: Sequence[int] | None = None,
    columns: Sequence[str] | None = None,
    rows: int = 65_536,
) -> Generator[Any, None, None]:
    """Read rows in the order of the file.

    Args:
        source: The file. No other reader may use it until the last batch is returned or the
            generator is closed.
        tail: Its tail. Types of the same form may replace the file's own.
        stripes: The stripes to read; by default all.
        columns: The names of the columns to read; by default all.
        rows: The maximum number of rows of a batch. Wide rows make it smaller.

    Raises:
        BeyondArrow: A value is not representable in Arrow.
        CorruptFile: The file does not decode.
    """
    from pyarrow import ArrowException, PythonFile
    from pyarrow.dataset import OrcFileFormat

    stripe_numbers = range(len(tail.stripes)) if stripes is None else stripes
    if not stripe_numbers:
        return
    if columns is None:
        _check_types(tail)
        rows = min(rows, _rows_of_a_batch(tail, stripe_numbers))
        for number in stripe_numbers:
            allowed = rows_at_a_time(source, tail, number)
            # A whole stripe is no limit: the last one is often small.
            if allowed < tail.stripes[number].rows:
                rows = min(rows, allowed)
    else:
        for number in stripe_numbers:
            StripeFooter.read(source, tail, tail.stripes[number])
    view = FileOfStripes(source, tail, stripe_numbers)
    lent = _LentFile(view)
    batches: Iterator[Any] = iter(())
    try:
        batches = (
            OrcFileFormat()
            .make_fragment(PythonFile(lent, "r"))
            .to_batches(columns=columns, batch_size=rows, batch_readahead=0, use_threads=False)
        )
        for batch in batches:
            if batch.num_rows:
                yield batch
    except (ArrowException, OSError, ValueError) as error:
        reason = str(error).rstrip(".")
        raise CorruptFile(f"The ORC library cannot read the file: {reason}.") from error
    finally:
        # The read-ahead thread must end before the caller closes the file.
        view.close()
        with suppress(ArrowException, OSError, ValueError):
            for _ in batches:
                pass
        del batches
        returned = ref(lent)
        del lent
        _wait_until_gone(returned)


def schema_of(types: tuple[bytes, ...]) -> Any:
    """Return the library's schema for ORC types."""
    from pyarrow.orc import ORCFile

    nothing = (count_statistics(0).encode(),) * len(types)
    tail = OrcTail.new(types, Compression(Codec.NONE, 64 << 10), 0)
    empty = MAGIC + replace(tail, file_statistics=nothing).encode(len(MAGIC))
    return ORCFile(io.BytesIO(empty)).schema


def _wait_until_gone(lent: "ref[_LentFile]") -> None:
    """Wait until the library's threads have released a file.

    A thread that releases an object of Python while the interpreter ends aborts the process.
    """
    deadline = monotonic() + _RELEASE_SECONDS
    while lent() is not None and monotonic() < deadline:
        sleep(_POLL_SECONDS)


def _check_types(tail: OrcTail) -> None:
    if any(kind_of(type_) == TypeKind.UNION for type_ in tail.types):
        raise BeyondArrow("There are columns of a union type, whose nulls Arrow does not keep.")


def _rows_of_a_batch(tail: OrcTail, stripes: Sequence[int]) -> int:
    """Return the number of rows whose decoded values take a few megabytes in the widest stripe."""
    return min(
        max(tail.stripes[number].rows * _BATCH_BYTES // _decoded_size(tail, number), 1)
        for number in stripes
    )


def _decoded_size(tail: OrcTail, stripe: int) -> int:
    """About how many bytes a stripe takes in memory, from the statistics of its columns."""
    size = 0
    for column in tail.stripe_statistics[stripe]:
        statistics = Message.decode(column)
        size += 8 * statistics.number(COUNT)
        texts, binaries = statistics.message(STRINGS), statistics.message(BINARIES)
        size += texts.signed(3) if texts else 0
        size += binaries.signed(1) if binaries else 0
    # Incomplete statistics must not lead to a single batch of all rows.
    return max(size, tail.stripes[stripe].length, 1)


class _LentFile:
    """The methods of a file that the library calls.

    Nothing but the library refers to it: frames of these methods, which the traceback of an error
    keeps, refer to the file itself.
    """

    def __init__(self, file: io.RawIOBase) -> None:
        self.read = file.read
        self.seek = file.seek
        self.tell = file.tell
        self.close = file.close
        self.closed = False


class FileOfPieces(io.RawIOBase):
    """Presents pieces of a file, and bytes in between, as one file.

    The pieces keep their positions. Closing the view leaves the file open.
    """

    def __init__(self, source: Source, pieces: Sequence[Piece]) -> None:
        self._source = source
        self._pieces = pieces
        self._starts = [0, *accumulate(map(length_of, pieces))]
        self._position = 0

    def read(self, size: int = -1, /) -> bytes:
        """Read up to `size` bytes, or all that follow; less only at the end."""
        if self.closed:
            raise ValueError("The view is closed.")
        last = self._starts[-1]
        end = last if size < 0 else min(self._position + size, last)
        start, self._position = self._position, max(end, self._position)
        if start >= end:
            return b""
        number = bisect_right(self._starts, start) - 1
        parts: list[bytes] = []
        while start < end:
            piece, begin = self._pieces[number], self._starts[number]
            stop = min(end, self._starts[number + 1])
            if isinstance(piece, bytes):
                parts.append(piece[start - begin : stop - begin])
            elif stop > start:
                parts.append(read_exactly(self._source, piece[0] + start - begin, stop - start))
            start, number = stop, number + 1
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def seek(self, position: int, whence: int = os.SEEK_SET, /) -> int:
        """Move to a position."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._starts[-1]}[whence]
        self._position = base + position
        return self._position

    def tell(self) -> int:
        """The current position."""
        return self._position

    def readable(self) -> bool:
        """Report that the file is readable."""
        return True

    def seekable(self) -> bool:
        """Report that the file is seekable."""
        return True


class FileOfStripes(FileOfPieces):
    """A view of an ORC file with only some of its stripes.

    The stripes keep their positions; a tail that lists only these stripes follows the last one.
    """

    def __init__(self, source: Source, tail: OrcTail, stripes: Sequence[int]) -> None:
        view_tail = with_stripes(tail, stripes)
        content = max((stripe.offset + stripe.length for stripe in view_tail.stripes), default=0)
        super().__init__(source, [(0, content), view_tail.encode(content)])


def with_stripes(tail: OrcTail, stripes: Sequence[int]) -> OrcTail:
    """A tail that lists only some of the stripes."""
    return replace(
        tail,
        stripes=tuple(tail.stripes[number] for number in stripes),
        stripe_statistics=tuple(tail.stripe_statistics[number] for number in stripes),
    )


def with_other_stripes(
    source: Source, tail: OrcTail, stripes: Iterable[OtherStripe]
) -> tuple[Source, OrcTail]:
    """Present a file whose stripes are made of its own ranges and of new bytes.

    Args:
        source: The file.
        tail: The tail of the result, except for its stripes.
        stripes: The new stripes, in order.

    Returns:
        The presented file, and its tail.
    """
    pieces: list[Piece] = [MAGIC]
    new_stripes: list[Stripe] = []
    position = len(MAGIC)
    for stripe in stripes:
        pieces += [*stripe.index, *stripe.data, stripe.footer]
        new = replace(
            stripe.stripe,
            offset=position,
            index_length=sum(map(length_of, stripe.index)),
            data_length=sum(map(length_of, stripe.data)),
            footer_length=len(stripe.footer),
        )
        position += new.length
        new_stripes.append(new)
    shown_tail = replace(tail, stripes=tuple(new_stripes))
    return FileOfPieces(source, [*pieces, shown_tail.encode(position)]), shown_tail


def length_of(piece: Piece) -> int:
    """Return the number of bytes of a piece."""
    return len(piece) if isinstance(piece, bytes) else piece[1]
