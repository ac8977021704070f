"""The lengths of texts and lists in a stripe, added up before a library makes room for them.

The library asks for as much memory as they say, and ends the process if they are made up. The
scales of decimals are such numbers too: it multiplies or divides as often as they say.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from airflow_hiveacid.errors import BeyondArrow, CorruptFile
from airflow_hiveacid.orc.protobuf import read_varint, unzigzag
from airflow_hiveacid.orc.streams import WIDTHS

# So many runs take a second; Spark reads stripes of more.
_MOST_RUNS = 500_000
_ONE = np.uint64(1)
_SHORT_REPEAT, _DIRECT, _PATCHED, _DELTA = range(4)


@dataclass(slots=True)
class Lengths:
    """What is known of many lengths.

    Attributes:
        count: How many there are.
        total: Their sum.
        largest: The largest.
        signed: Whether they are written as numbers that might be negative; none may be.
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
            CorruptFile: It does not decode, or a length is negative.
            BeyondArrow: There are too many runs to look at.
        """
        lengths = cls(signed=signed)
        add: Callable[[bytes, int], int] = (
            lengths._add_run if version == 2 else lengths._add_old_run
        )
        position = runs = 0
        try:
            while position < len(plain):
                position = add(plain, position)
                runs += 1
                if runs > _MOST_RUNS:
                    raise BeyondArrow("A stripe has more lengths than can be checked.")
        except IndexError:
            raise CorruptFile("A stripe of the ORC file has a list of lengths cut short.") from None
        if position > len(plain):
            raise CorruptFile("A stripe of the ORC file has a list of lengths cut short.")
        return lengths

    def _add(self, count: int, total: int, smallest: int, largest: int) -> None:
        if smallest < 0 or largest >= 1 << 63:
            raise CorruptFile("A stripe of the ORC file has a negative length or scale.")
        self.count += count
        self.total += total
        self.largest = max(self.largest, largest)

    def _number(self, encoded: int) -> int:
        return unzigzag(encoded) if self.signed else encoded

    def _add_run(self, plain: bytes, position: int) -> int:
        head = plain[position]
        kind = head >> 6
        if kind == _SHORT_REPEAT:
            count, size = (head & 7) + 3, (head >> 3 & 7) + 1
            value = self._number(int.from_bytes(plain[position + 1 : position + 1 + size], "big"))
            self._add(count, count * value, value, value)
            return position + 1 + size
        count = ((head & 1) << 8 | plain[position + 1]) + 1
        code = head >> 1 & 31
        if kind == _DELTA:
            return self._add_delta(plain, position + 2, count, WIDTHS[code] if code else 0)
        width = WIDTHS[code]
        if kind == _DIRECT:
            values, end = _unpacked(plain, position + 2, count, width)
            if self.signed:
                self._add(0, 0, -int((values & _ONE).max()), 0)
                values >>= _ONE
            self._add_values(values)
            return end
        return self._add_patched(plain, position + 2, count, width)

    def _add_values(self, values: NDArray[np.uint64]) -> None:
        largest = int(values.max())
        # Sums of 64-bit numbers do not fit 64 bits, but then the largest alone is too large.
        total = int(values.sum()) if largest < 1 << 50 else largest
        self._add(len(values), total, 0, largest)

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
                # The patches are what the values have above their packed bits.
                patch = (entry & (1 << patch_width) - 1) << width
                numbers[place] += patch
            if not patch:
                # It says that the next one is far away, and the library looks for that in memory.
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
        rest = [int(value) if step >= 0 else -int(value) for value in steps]
        value, values = base, [base]
        for difference in [step, *rest]:
            value += difference
            values.append(value)
        self._add(count, sum(values), min(values), max(values))
        return position

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
