"""Decimals as ORC stores them: a number without its point, in a variable number of bytes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hiveacid.orc.format.streams import Integers

_WORD = 64
_DIGIT_BITS, _DIGIT = 7, 0x7F
_HALF_BITS = 32
_HALF = np.int64((1 << _HALF_BITS) - 1)


class Numbers:
    """The numbers of decimals without their points, each of 128 bits."""

    def __init__(self, low: Integers, high: Integers) -> None:
        """Take the two words of each number; there is at least one."""
        self._low = low
        self._high: Integers | None = high
        if (high == low >> 63).all():
            # Nearly all decimals fit into one word.
            self._high = None

    @classmethod
    def of(cls, values: Any) -> "Numbers":
        """Take the numbers of an Arrow array of decimals without nulls."""
        words = np.frombuffer(values.buffers()[1], np.int64).reshape(-1, 2)
        words = words[values.offset : values.offset + len(values)]
        return cls(np.ascontiguousarray(words[:, 0]), words[:, 1])

    def encode(self) -> bytes:
        """Encode the numbers one by one, seven bits in a byte."""
        if self._high is None:
            return varints(self._low)
        sign = self._high >> 63
        low = ((self._low << 1) ^ sign).view(np.uint64)
        carried = (self._low.view(np.uint64) >> np.uint64(63)).view(np.int64)
        high = ((self._high << 1 | carried) ^ sign).view(np.uint64)
        return _digits(low, high)

    def bounds(self) -> tuple[int, int]:
        """Return the smallest and the largest number."""
        if self._high is None:
            return int(self._low.min()), int(self._low.max())
        smallest, largest = int(self._high.min()), int(self._high.max())
        unsigned = self._low.view(np.uint64)
        return (
            (smallest << _WORD) + int(unsigned[self._high == smallest].min()),
            (largest << _WORD) + int(unsigned[self._high == largest].max()),
        )

    def total(self) -> int:
        """Return the sum of the numbers."""
        low = int((self._low & _HALF).sum())
        if self._high is None:
            return low + (int((self._low >> _HALF_BITS).sum()) << _HALF_BITS)
        # The lower word has no sign if there is another one.
        low += int((self._low >> _HALF_BITS & _HALF).sum()) << _HALF_BITS
        high = int((self._high & _HALF).sum())
        high += int((self._high >> _HALF_BITS).sum()) << _HALF_BITS
        return low + (high << _WORD)


def varints(values: Integers) -> bytes:
    """Encode integers one by one, seven bits in a byte."""
    rest: NDArray[Any] = ((values << 1) ^ (values >> 63)).view(np.uint64)
    if len(rest) and int(rest.max()) < 1 << 32:
        rest = rest.astype(np.uint32)
    return _digits(rest, None)


def _digits(rest: NDArray[Any], high: NDArray[np.uint64] | None) -> bytes:
    """Encode unsigned numbers of one word or two."""
    bits = int(rest.max()).bit_length() if len(rest) else 0
    if high is not None:
        bits = _WORD + int(high.max()).bit_length()
    widest = max(-(-bits // _DIGIT_BITS), 1)
    octets = np.empty((len(rest), widest), np.uint8)
    held = np.ones((len(rest), widest), np.bool_)
    shift = rest.dtype.type(_DIGIT_BITS)
    for place in range(widest):
        octets[:, place] = rest & rest.dtype.type(_DIGIT)
        rest = rest >> shift
        if high is not None:
            rest |= high << np.uint64(_WORD - _DIGIT_BITS)
            high = high >> np.uint64(_DIGIT_BITS)
        if place + 1 < widest:
            follows = rest != 0 if high is None else (rest | high) != 0
            octets[:, place] |= follows.view(np.uint8) << 7
            held[:, place + 1] = follows
    return octets[held].tobytes()
