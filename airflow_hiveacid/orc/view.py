"""Files that are made of parts of another one, for a library that reads whole files only."""

import io
import os
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from airflow_hiveacid.orc.source_and_sink import Source, read_exactly
from airflow_hiveacid.orc.tail import OrcTail

# A range of the other file, by offset and length, or bytes of our own.
Piece = tuple[int, int] | bytes


class FileOfPieces(io.RawIOBase):
    """Shows pieces of a file, and bytes in between, as one file.

    The pieces stay where they are. Closing the view leaves the file open.
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
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True


class FileOfStripes(FileOfPieces):
    """An ORC file that seems to have only some of its stripes.

    The stripes stay where they are; behind the last of them stands a tail that lists no others.
    """

    def __init__(self, source: Source, tail: OrcTail, stripes: Sequence[int]) -> None:
        shown = with_stripes(tail, stripes)
        content = max((stripe.offset + stripe.length for stripe in shown.stripes), default=0)
        super().__init__(source, [(0, content), shown.encode(content)])


def with_stripes(tail: OrcTail, stripes: Sequence[int]) -> OrcTail:
    """A tail that lists only some of the stripes."""
    return replace(
        tail,
        stripes=tuple(tail.stripes[number] for number in stripes),
        stripe_statistics=tuple(tail.stripe_statistics[number] for number in stripes),
    )


def length_of(piece: Piece) -> int:
    """How many bytes a piece has."""
    return len(piece) if isinstance(piece, bytes) else piece[1]
