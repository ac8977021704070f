"""A file that seems to have only some of its stripes."""

import io
import os
from collections.abc import Sequence
from dataclasses import replace

from airflow_hiveacid.orc.output import Source, read_exactly
from airflow_hiveacid.orc.tail import OrcTail


class StripeView(io.RawIOBase):
    """Shows some stripes of an ORC file to a library that reads whole files only.

    The stripes stay where they are; behind the last of them stands a tail that lists no others.
    Closing the view leaves the file open.
    """

    def __init__(self, source: Source, tail: OrcTail, stripes: Sequence[int]) -> None:
        shown = [tail.stripes[number] for number in stripes]
        self._source = source
        self._content = max((stripe.offset + stripe.length for stripe in shown), default=0)
        self._tail = replace(
            tail,
            stripes=tuple(shown),
            stripe_statistics=tuple(tail.stripe_statistics[number] for number in stripes),
        ).encode(self._content)
        self._size = self._content + len(self._tail)
        self._position = 0

    def read(self, size: int = -1, /) -> bytes:
        """Read up to `size` bytes, or all that follow; less only at the end."""
        if self.closed:
            raise ValueError("The view is closed.")
        end = self._size if size < 0 else min(self._position + size, self._size)
        start, self._position = self._position, max(end, self._position)
        if start >= end:
            return b""
        data = b""
        if start < self._content:
            data = read_exactly(self._source, start, min(end, self._content) - start)
        if end > self._content:
            data += self._tail[max(start - self._content, 0) : end - self._content]
        return data

    def seek(self, position: int, whence: int = os.SEEK_SET, /) -> int:
        """Move to a position."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
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
