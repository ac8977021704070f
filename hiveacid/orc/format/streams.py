"""Encode the streams of new stripes: integers, null flags, row indexes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hiveacid.orc.format.protobuf import Message, pack, varint, zigzag

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
    encoded = bytearray()
    encoded_step = varint(zigzag(step))
    while count > 0:
        length = min(count, _RUN)
        encoded += _run(first, length, encoded_step)
        first += step * length
        count -= length
    return bytes(encoded)


@lru_cache(maxsize=256)
def _constant_runs(value: int, count: int) -> bytes:
    # Most row groups of a file repeat the same write id and bucket the same number of times.
    full, rest = divmod(count, _RUN)
    return _run(value, _RUN, b"\0") * full + (_run(value, rest, b"\0") if rest else b"")


def _run(first: int, length: int, encoded_step: bytes) -> bytes:
    if length == 1:
        # A delta run has at least two values.
        return _header(_DIRECT, 64, 1) + (zigzag(first) % (1 << 64)).to_bytes(8, "big")
    header = bytes((_DELTA | (length - 1) >> 8, (length - 1) & 0xFF))
    return header + varint(zigzag(first)) + encoded_step


def integer_runs(values: Integers) -> bytes:
    """Encode any integers; values that never decrease, as sorted keys do, take little room."""
    encoded = bytearray()
    for start in range(0, len(values), _RUN):
        run = values[start : start + _RUN]
        steps = np.diff(run)
        if len(run) < 3 or int(steps.min()) < 0:
            encoded += _direct_run(run)
        elif steps[0] == steps.min() == steps.max():
            encoded += _run(int(run[0]), len(run), varint(zigzag(int(steps[0]))))
        else:
            # The first step is stored apart. Width 1 is not allowed here: its code means that
            # all steps are equal.
            width = _width(max(int(steps[1:].max()), 2))
            encoded += _header(_DELTA, width, len(run))
            encoded += varint(zigzag(int(run[0]))) + varint(zigzag(int(steps[0])))
            encoded += _pack_bits(steps[1:].astype(np.uint64), width)
    return bytes(encoded)


def _direct_run(run: Integers) -> bytes:
    unsigned = ((run << 1) ^ (run >> 63)).view(np.uint64)
    width = _width(int(unsigned.max()))
    return _header(_DIRECT, width, len(run)) + _pack_bits(unsigned, width)


def _width(largest: int) -> int:
    needed = max(1, largest.bit_length())
    return next(width for width in WIDTHS if width >= needed)


def _header(encoding: int, width: int, length: int) -> bytes:
    return bytes((encoding | WIDTHS.index(width) << 1 | (length - 1) >> 8, (length - 1) & 0xFF))


def _pack_bits(unsigned: NDArray[np.uint64], width: int) -> bytes:
    octets = unsigned.astype(">u8").view(np.uint8).reshape(len(unsigned), 8)
    return np.packbits(np.unpackbits(octets, axis=1)[:, 64 - width :].reshape(-1)).tobytes()


def null_flags(count: int) -> bytes:
    """Encode the flags of `count` nulls: one zero bit each, as runs of equal bytes."""
    full, rest = divmod((count + 7) // 8, _NULLS_PER_RUN)
    encoded = bytes((_NULLS_PER_RUN - 3, 0)) * full
    if rest >= 3:
        encoded += bytes((rest - 3, 0))
    elif rest:
        encoded += bytes((_LITERALS - rest,)) + bytes(rest)
    return encoded


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
