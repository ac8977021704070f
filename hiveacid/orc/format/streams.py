"""Encode the streams of new stripes: integers, null flags, row indexes."""

from collections.abc import Iterable, Sequence
from enum import IntEnum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hiveacid.dataclass import dataclass
from hiveacid.errors import CorruptFile, UnsupportedFile
from hiveacid.orc.format.compression import Source
from hiveacid.orc.format.envelope import TypeKind, kind_of
from hiveacid.orc.format.protobuf import Message, pack, varint, zigzag
from hiveacid.orc.format.tail import OrcTail, Stripe

# The footer of a stripe: its streams, their encodings, and the time zone


UTC = "UTC"
# The encodings of a column with a dictionary, and the highest valid encoding.
DICTIONARIES = (1, 3)
_LAST_ENCODING = 3
_NAMES_OF_UTC = frozenset({"UTC", "Etc/UTC", "GMT", "Etc/GMT", "Z"})


class StripeField:
    """Field numbers of a stripe's footer, and of the streams that it lists."""

    STREAMS = 1
    ENCODINGS = 2
    TIME_ZONE = 3
    ENCRYPTION = 4
    STREAM_KIND = 1
    STREAM_COLUMN = 2
    STREAM_LENGTH = 3


@dataclass(frozen=True, slots=True)
class PlacedStream:
    """A stream and its position in its file."""

    kind: int
    column: int
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class StripeFooter:
    """The contents of the footer of a stripe.

    Attributes:
        index: The first streams: row indexes and bloom filters.
        data: All others.
        encodings: The serialized encoding of each column.
        clock: The time zone of the writer, by a normalized name; empty if unknown.
        message: The whole footer, as in the file.
    """

    index: tuple[PlacedStream, ...]
    data: tuple[PlacedStream, ...]
    encodings: tuple[bytes, ...]
    clock: str
    message: Message

    @classmethod
    def read(cls, source: Source, tail: OrcTail, stripe: Stripe) -> "StripeFooter":
        """Read the footer of a stripe.

        Raises:
            CorruptFile: The footer contradicts its stripe or its file.
            UnsupportedFile: The file has encrypted columns.
        """
        footer = tail.stripe_footer(source, stripe)
        if footer.has(StripeField.ENCRYPTION):
            raise UnsupportedFile("The ORC file has encrypted columns.")
        placed: list[PlacedStream] = []
        offset = stripe.offset
        for stream in footer.all_data(StripeField.STREAMS):
            kind, column, length = _stream(stream)
            placed.append(PlacedStream(kind, column, offset, length))
            offset += length
        index = tuple(stream for stream in placed if StreamKind.is_index(stream.kind))
        data = tuple(placed[len(index) :])
        encodings = tuple(footer.all_data(StripeField.ENCODINGS))
        if (
            any(StreamKind.is_index(stream.kind) for stream in data)
            or sum(stream.length for stream in index) != stripe.index_length
            or sum(stream.length for stream in data) != stripe.data_length
        ):
            raise CorruptFile("The streams of a stripe do not add up to its length.")
        if len(encodings) != len(tail.types) or any(
            stream.column >= len(encodings) for stream in placed
        ):
            raise CorruptFile("A stripe has other columns than its file.")
        for type_, encoding in zip(tail.types, encodings, strict=True):
            kind = encoding_of(encoding)
            if kind > _LAST_ENCODING or (kind in DICTIONARIES and not _is_text(type_)):
                raise CorruptFile(f"A stripe has a column of the unknown encoding {kind}.")
        return cls(index, data, encodings, clock_of(footer), footer)


# A footer is read several times in a row.
@lru_cache(maxsize=4096)
def _stream(entry: bytes) -> tuple[int, int, int]:
    """Return the kind, the column, and the length of a stream."""
    stream = Message.decode(entry)
    return (
        stream.number(StripeField.STREAM_KIND),
        stream.number(StripeField.STREAM_COLUMN),
        stream.number(StripeField.STREAM_LENGTH),
    )


@lru_cache(maxsize=1024)
def encoding_of(column: bytes) -> int:
    """Return the encoding of a column, from its entry in a footer."""
    return Message.decode(column).number(1)


@lru_cache(maxsize=1024)
def _is_text(type_: bytes) -> bool:
    kind = kind_of(type_)
    return kind in (TypeKind.STRING, TypeKind.CHAR, TypeKind.VARCHAR)


def clock_of(footer: Message) -> str:
    """Return the time zone in a stripe's footer, by a normalized name.

    Raises:
        CorruptFile: The name is the path of another file, which Arrow would open.
    """
    zone = (footer.data(StripeField.TIME_ZONE) or b"").decode(errors="surrogateescape")
    if "." in zone:
        raise CorruptFile(f"A stripe of the ORC file names {zone!r} as its time zone.")
    return UTC if zone in _NAMES_OF_UTC else zone


def new_footer(streams: Sequence[bytes], encodings: Sequence[bytes], clock: str) -> bytes:
    """Serialize a footer.

    Args:
        streams: The entries of the streams.
        encodings: The entries of the columns.
        clock: The time zone; omitted if it is empty.
    """
    footer = Message()
    for stream in streams:
        footer.add_data(StripeField.STREAMS, stream)
    for encoding in encodings:
        footer.add_data(StripeField.ENCODINGS, encoding)
    if clock:
        footer.add_data(StripeField.TIME_ZONE, clock.encode(errors="surrogateescape"))
    return footer.encode()


Integers = NDArray[np.int64]

_RUN = 512
_DIRECT = 0x40
_DELTA = 0xC0
# The valid bit widths of a run; the file stores their index in the list.
WIDTHS: tuple[int, ...] = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
_NULLS_PER_RUN = 130  # bytes that one byte run can hold
_LITERALS = 256


class StreamKind(IntEnum):
    """ORC's kinds of streams, as far as this package writes or distinguishes them."""

    PRESENT = 0
    DATA = 1
    LENGTH = 2
    DICTIONARY_DATA = 3
    SECONDARY = 5
    ROW_INDEX = 6
    BLOOM_FILTER = 7
    BLOOM_FILTER_UTF8 = 8

    @staticmethod
    def is_index(kind: int) -> bool:
        """Return whether a stream belongs to the index part at the beginning of its stripe."""
        return kind in (StreamKind.ROW_INDEX, StreamKind.BLOOM_FILTER, StreamKind.BLOOM_FILTER_UTF8)


class Encoding(IntEnum):
    """ORC's encodings of columns, limited to those that this package writes."""

    DIRECT = 0
    DIRECT_V2 = 2
    DICTIONARY_V2 = 3


@dataclass(frozen=True, slots=True)
class Stream:
    """One compressed stream as stored in the stripe."""

    kind: StreamKind
    column: int
    data: bytes

    def describe(self) -> bytes:
        """The entry of the stripe's footer."""
        return describe_stream(self.kind, self.column, len(self.data))


def describe_stream(kind: int, column: int, length: int) -> bytes:
    """Return the entry of a stripe's footer for one stream."""
    message = Message().add_number(1, kind).add_number(2, column).add_number(3, length)
    return message.encode()


def describe_encoding(encoding: Encoding) -> bytes:
    """Return the entry of a stripe's footer for the encoding of one column."""
    return Message().add_number(1, encoding).encode()


def arithmetic_runs(first: int, count: int, step: int) -> bytes:
    """Encode `first, first + step, …` as runs of the integer encoding (RLE version 2)."""
    if step == 0:
        return _constant_runs(first, count)
    octets = bytearray()
    encoded_step = varint(zigzag(step))
    while count > 0:
        length = min(count, _RUN)
        octets += _run(first, length, encoded_step)
        first += step * length
        count -= length
    return bytes(octets)


@lru_cache(maxsize=256)
def _constant_runs(value: int, count: int) -> bytes:
    # Most row groups of a file repeat the same write id and bucket the same number of times.
    full, remainder = divmod(count, _RUN)
    return _run(value, _RUN, b"\0") * full + (_run(value, remainder, b"\0") if remainder else b"")


def _run(first: int, length: int, encoded_step: bytes) -> bytes:
    if length == 1:
        # A delta run has at least two values.
        return _header(_DIRECT, 64, 1) + (zigzag(first) % (1 << 64)).to_bytes(8, "big")
    header = bytes((_DELTA | (length - 1) >> 8, (length - 1) & 0xFF))
    return header + varint(zigzag(first)) + encoded_step


def integer_runs(values: Integers) -> bytes:
    """Encode any integers; values that never decrease, as sorted keys do, take little room."""
    octets = bytearray()
    for start in range(0, len(values), _RUN):
        run = values[start : start + _RUN]
        steps = np.diff(run)
        if len(run) < 3 or int(steps.min()) < 0:
            octets += _direct_run(run)
        elif steps[0] == steps.min() == steps.max():
            octets += _run(int(run[0]), len(run), varint(zigzag(int(steps[0]))))
        else:
            # The first step is stored apart. Width 1 is not allowed here: its code means that
            # all steps are equal.
            width = _width(max(int(steps[1:].max()), 2))
            octets += _header(_DELTA, width, len(run))
            octets += varint(zigzag(int(run[0]))) + varint(zigzag(int(steps[0])))
            octets += _pack_bits(steps[1:].astype(np.uint64), width)
    return bytes(octets)


def _direct_run(run: Integers) -> bytes:
    unsigned = ((run << 1) ^ (run >> 63)).view(np.uint64)
    width = _width(int(unsigned.max()))
    return _header(_DIRECT, width, len(run)) + _pack_bits(unsigned, width)


def _width(largest: int) -> int:
    bit_count = max(1, largest.bit_length())
    return next(width for width in WIDTHS if width >= bit_count)


def _header(encoding: int, width: int, length: int) -> bytes:
    return bytes((encoding | WIDTHS.index(width) << 1 | (length - 1) >> 8, (length - 1) & 0xFF))


def _pack_bits(unsigned: NDArray[np.uint64], width: int) -> bytes:
    octets = unsigned.astype(">u8").view(np.uint8).reshape(len(unsigned), 8)
    return np.packbits(np.unpackbits(octets, axis=1)[:, 64 - width :].reshape(-1)).tobytes()


def null_flags(count: int) -> bytes:
    """Encode the flags of `count` nulls: one zero bit each, as runs of equal bytes."""
    full, remainder = divmod((count + 7) // 8, _NULLS_PER_RUN)
    octets = bytes((_NULLS_PER_RUN - 3, 0)) * full
    if remainder >= 3:
        octets += bytes((remainder - 3, 0))
    elif remainder:
        octets += bytes((_LITERALS - remainder,)) + bytes(remainder)
    return octets


def null_flag_position(row: int) -> tuple[int, int, int]:
    """The position of the flag of a row in `null_flags`: start of run, byte in run, bit in byte."""
    byte, bit = divmod(row, 8)
    run, byte_in_run = divmod(byte, _NULLS_PER_RUN)
    return run * 2, byte_in_run, bit


def row_index(groups: Iterable[tuple[Sequence[int], bytes]]) -> bytes:
    """Encode a row index from the positions and the statistics of each row group."""
    index = Message()
    for positions, statistics in groups:
        entry = Message()
        if positions:
            entry.add_data(1, pack(positions))
        index.add_data(1, entry.add_data(2, statistics).encode())
    return index.encode()


# Encode many integers of any order at a time: runs of 512 values, all of them calculated together.
#
# Runs of equal steps, which keys and constants have, and runs that never decrease are encoded one
# by one; all other runs are packed with widths of whole bytes, or of 1, 2 or 4 bits, like Java's
# writer does by default, because readers decode these faster.


_ALIGNED = (1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64)
# The aligned width for each number of bits.
_WIDTH_OF = tuple(next(width for width in _ALIGNED if width >= bits) for bits in range(65))
_HALF = 1 << 32
# Steps between values in such a range do not overflow.
_SAFE = 1 << 62
# The sum of a run of smaller values does not overflow, whatever the number of rows.
_SUMMABLE = 1 << 31
# The distance of the values of a run that are compared first.
_SAMPLED = 64
_FEWEST_STEPS = 3


@dataclass(frozen=True, slots=True)
class EncodedIntegers:
    """Integers as runs of the encoding (RLE version 2), and what statistics say about them.

    Attributes:
        runs: The runs.
        smallest: The smallest value.
        largest: The largest value.
    """

    runs: bytes
    smallest: int
    largest: int


def encode_integers(values: Integers, *, signed: bool) -> EncodedIntegers:
    """Encode at least one integer.

    Args:
        values: The integers, none of them negative if the stream is unsigned.
        signed: Whether the stream is one of signed integers.
    """
    count = len(values)
    if values[0] == values[-1] and (values == values[0]).all():
        value = int(values[0])
        return EncodedIntegers(_constants(value, count, signed), value, value)
    blocks = -(-count // _RUN)
    padded = values
    if count % _RUN:
        padded = np.empty(blocks * _RUN, np.int64)
        padded[:count] = values
        padded[count:] = values[-1]
    table = padded.reshape(blocks, _RUN)
    least, maxima = table.min(axis=1), table.max(axis=1)
    smallest, largest = int(least.min()), int(maxima.max())
    ranges = zip(least.tolist(), maxima.tolist(), strict=True)
    widths = [_width_of_range(*range_, signed) for range_ in ranges]
    special = _special_runs(table, count, widths, signed) if largest - smallest < _SAFE else {}
    unsigned = _zigzag(table, smallest, signed)
    parts: list[bytes] = []
    start = 0
    for block in range(1, blocks + 1):
        if (
            block < blocks
            and widths[block] == widths[start]
            and start not in special
            and block not in special
        ):
            continue
        if start in special:
            parts.append(special[start])
        else:
            length = min(count - (block - 1) * _RUN, _RUN)
            parts.append(_direct_runs(unsigned[start:block], widths[start], length))
        start = block
    return EncodedIntegers(b"".join(parts), smallest, largest)


def exact_sum(values: Integers, smallest: int, largest: int) -> int:
    """Add up integers between two bounds, also if the sum has more than 64 bits."""
    if smallest >= -_SUMMABLE and largest < _SUMMABLE:
        return int(values.sum())
    # In halves, because the sum of 64-bit numbers need not fit 64 bits.
    return int((values >> 32).sum()) * _HALF + int((values & (_HALF - 1)).sum())


def _constants(value: int, count: int, signed: bool) -> bytes:
    if signed:
        return arithmetic_runs(value, count, 0)
    full, remainder = divmod(count, _RUN)
    octets = _arithmetic_run(value, 0, _RUN, signed) * full
    if remainder == 1:
        return octets + _direct_runs(np.array([[value]], np.uint64), _WIDTH_OF[64], 1)
    return octets + (_arithmetic_run(value, 0, remainder, signed) if remainder else b"")


def _width_of_range(smallest: int, largest: int, signed: bool) -> int:
    bits = max(zigzag(smallest), zigzag(largest)) if signed else largest
    return _WIDTH_OF[bits.bit_length()]


def _zigzag(table: Integers, smallest: int, signed: bool) -> NDArray[np.uint64]:
    if not signed:
        return table.view(np.uint64)
    doubled = table << 1
    return (doubled if smallest >= 0 else doubled ^ (table >> 63)).view(np.uint64)


def _special_runs(table: Integers, count: int, widths: list[int], signed: bool) -> dict[int, bytes]:
    """Return the encoded blocks whose steps take less room than their values."""
    special: dict[int, bytes] = {}
    # Few steps exclude most of the others.
    sampled = table[:, ::_SAMPLED]
    rises = (sampled[:, 1:] >= sampled[:, :-1]).all(axis=1)
    falls = (sampled[:, 1:] <= sampled[:, :-1]).all(axis=1)
    for block in np.flatnonzero(rises | falls).tolist():
        values = table[block, : count - block * _RUN]
        if len(values) < _FEWEST_STEPS:
            continue
        steps = np.diff(values)
        first, step, least = int(values[0]), int(steps[0]), int(steps.min())
        if least == step == int(steps.max()):
            special[block] = _arithmetic_run(first, step, len(values), signed)
        elif least >= 0:
            # Width 1 is not allowed here: its code means that all steps are equal.
            width = max(_WIDTH_OF[int(steps[1:].max()).bit_length()], 2)
            if width < widths[block]:
                special[block] = _delta_run(first, steps, width, signed)
    return special


def _arithmetic_run(first: int, step: int, length: int, signed: bool) -> bytes:
    header = bytes((_DELTA | (length - 1) >> 8, (length - 1) & 0xFF))
    return header + _base(first, signed) + varint(zigzag(step))


def _delta_run(first: int, steps: Integers, width: int, signed: bool) -> bytes:
    length = len(steps) + 1
    head = _DELTA | WIDTHS.index(width) << 1 | (length - 1) >> 8
    later_steps = np.zeros(-(-(length - 2) // 8) * 8, np.uint64)
    later_steps[: length - 2] = steps[1:]
    packed = _packed(later_steps, width)[: -(-(length - 2) * width // 8)]
    return (
        bytes((head, (length - 1) & 0xFF))
        + _base(first, signed)
        + varint(zigzag(int(steps[0])))
        + packed.tobytes()
    )


def _base(first: int, signed: bool) -> bytes:
    return varint(zigzag(first) if signed else first)


def _direct_runs(blocks: NDArray[np.uint64], width: int, last: int) -> bytes:
    """Encode blocks of values with one width; the last one may be shorter than it is."""
    code = _DIRECT | WIDTHS.index(width) << 1
    full = np.empty((len(blocks), 2 + blocks.shape[1] * width // 8), np.uint8)
    full[:, 0] = code | 1
    full[:, 1] = 0xFF
    full[:, 2:] = _packed(blocks, width).reshape(len(blocks), -1)
    full[-1, 0] = code | (last - 1) >> 8
    full[-1, 1] = (last - 1) & 0xFF
    octets = full.tobytes()
    return octets[: len(octets) - (full.shape[1] - 2 - -(-last * width // 8))]


def _packed(values: NDArray[np.uint64], width: int) -> NDArray[np.uint8]:
    """Pack values of an aligned width, eight or more at a time."""
    if width >= 8:
        size = width // 8
        room = 1 if size == 1 else 2 if size == 2 else 4 if size <= 4 else 8
        octets = values.astype(f">u{room}").view(np.uint8)
        return octets.reshape(-1, room)[:, room - size :].reshape(-1)
    small: NDArray[np.uint8] = values.astype(np.uint8).reshape(-1)
    while width < 8:
        small = (small[0::2] << width | small[1::2]).astype(np.uint8, copy=False)
        width *= 2
    return small


# Encode bytes and flags: runs of equal bytes, and literal bytes in between


_SHORTEST_RUN, _LONGEST_RUN, _MOST_LITERALS = 3, 130, 128


@dataclass(frozen=True, slots=True)
class EncodedFlags:
    """The flags of a stripe.

    Attributes:
        stream: The stream.
        positions: For each row group the start of its run, the byte in it, and the bit in that.
    """

    stream: bytes
    positions: tuple[tuple[int, int, int], ...]


def encode_bytes(values: NDArray[np.uint8]) -> bytes:
    """Encode bytes (RLE version 1)."""
    return _encode(values)[0]


def encode_flags(groups: Sequence[NDArray[np.bool_]]) -> EncodedFlags:
    """Encode the flags of all row groups of a stripe, eight in a byte."""
    octets = np.packbits(np.concatenate(groups) if groups else np.zeros(0, np.bool_))
    stream, starts, places = _encode(octets)
    positions: list[tuple[int, int, int]] = []
    flag = 0
    for group in groups:
        octet, bit = divmod(flag, 8)
        run = int(np.searchsorted(starts, octet, "right")) - 1
        if octet < len(octets):
            positions.append((places[run], octet - starts[run], bit))
        else:
            positions.append((len(stream), 0, bit))
        flag += len(group)
    return EncodedFlags(stream, tuple(positions))


def _encode(octets: NDArray[np.uint8]) -> tuple[bytes, list[int], list[int]]:
    """Return the stream, and the first byte and the position of each of its runs."""
    edges = np.flatnonzero(octets[1:] != octets[:-1]) + 1
    starts = np.concatenate([[0], edges]) if len(octets) else np.zeros(0, np.int64)
    lengths = np.diff(np.append(starts, len(octets)))
    stream = bytearray()
    firsts: list[int] = []
    places: list[int] = []
    plain = octets.tobytes()

    def literals(start: int, end: int) -> None:
        for first in range(start, end, _MOST_LITERALS):
            part = plain[first : min(first + _MOST_LITERALS, end)]
            firsts.append(first)
            places.append(len(stream))
            stream.append(256 - len(part))
            stream.extend(part)

    position = 0
    long = lengths >= _SHORTEST_RUN
    for start, length in zip(starts[long].tolist(), lengths[long].tolist(), strict=True):
        literals(position, start)
        position, end = start, start + length
        while end - position >= _SHORTEST_RUN:
            size = min(end - position, _LONGEST_RUN)
            firsts.append(position)
            places.append(len(stream))
            stream += bytes((size - _SHORTEST_RUN, plain[position]))
            position += size
    literals(position, len(plain))
    return bytes(stream), firsts, places
