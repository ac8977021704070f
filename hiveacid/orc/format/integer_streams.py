"""Encode many integers of any order at a time: runs of 512 values, all of them calculated together.

Runs of equal steps, which keys and constants have, and runs that never decrease are encoded one by
one; all other runs are packed with widths of whole bytes, or of 1, 2 or 4 bits, like Java's writer
does by default, because readers decode these faster.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hiveacid.orc.format.protobuf import varint, zigzag
from hiveacid.orc.format.streams import WIDTHS, Integers, arithmetic_runs

_RUN = 512
_DIRECT = 0x40
_DELTA = 0xC0
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
    least, most = table.min(axis=1), table.max(axis=1)
    smallest, largest = int(least.min()), int(most.max())
    ranges = zip(least.tolist(), most.tolist(), strict=True)
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
    full, rest = divmod(count, _RUN)
    encoded = _arithmetic_run(value, 0, _RUN, signed) * full
    if rest == 1:
        return encoded + _direct_runs(np.array([[value]], np.uint64), _WIDTH_OF[64], 1)
    return encoded + (_arithmetic_run(value, 0, rest, signed) if rest else b"")


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
    rest = np.zeros(-(-(length - 2) // 8) * 8, np.uint64)
    rest[: length - 2] = steps[1:]
    packed = _packed(rest, width)[: -(-(length - 2) * width // 8)]
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
    encoded = full.tobytes()
    return encoded[: len(encoded) - (full.shape[1] - 2 - -(-last * width // 8))]


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
