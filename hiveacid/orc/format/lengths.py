"""The lengths of texts and lists in a stripe, added up before a library allocates memory for them.

The library allocates the memory that they declare, and ends the process if they are forged. The
scales of decimals are a similar risk: the library repeats a multiplication or division as often as
they declare.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hiveacid.errors import BeyondArrow, CorruptFile
from hiveacid.orc.format.protobuf import read_varint, unzigzag
from hiveacid.orc.format.streams import WIDTHS

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

    def _number(self, encoded: int) -> int:
        return unzigzag(encoded) if self.signed else encoded

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
            others = ~whole
            places, counts, widths = places[others], counts[others], widths[others]
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
        rest = [int(value) if step >= 0 else -int(value) for value in steps]
        value, values = base, [base]
        for difference in [step, *rest]:
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
