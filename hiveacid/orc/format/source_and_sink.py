"""The two ends of a copy: the source of the bytes and their destination."""

import io
import os
from dataclasses import dataclass
from typing import Any, Protocol

from hiveacid.errors import CorruptFile
from hiveacid.rules.row_id import RowId

_COPY_BLOCK = 8 << 20
_LOCAL_BLOCK = 1 << 20


class Source(Protocol):
    """A seekable binary file, open for reading."""

    def read(self, size: int = ..., /) -> bytes:
        """Read up to `size` bytes."""

    def seek(self, position: int, whence: int = ..., /) -> int:
        """Move to a position."""

    def tell(self) -> int:
        """The current position."""


class Sink(Protocol):
    """Anything that takes bytes."""

    def write(self, data: bytes, /) -> Any:
        """Write all of `data`, or, like a raw file, return the number of bytes written."""


def read_exactly(source: Source, offset: int, length: int) -> bytes:
    """Read a range that must exist."""
    source.seek(offset)
    data = source.read(length)
    while len(data) < length:
        more = source.read(length - len(data))
        if not more:
            raise CorruptFile(f"The file ends before byte {offset + length}, which it refers to.")
        data += more
    return data


@dataclass(frozen=True, slots=True)
class Written:
    """The contents of a new file.

    Attributes:
        rows: Its rows.
        bytes: Its length.
        key_index: For each stripe the row id of its last row.
    """

    rows: int
    bytes: int
    key_index: tuple[RowId, ...]


class Output:
    """Counts the bytes written to a sink, and copies ranges into it without decoding."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.position = 0

    def write(self, data: bytes) -> None:
        """Append bytes."""
        self.position += len(data)
        while data:
            taken = self._sink.write(data)
            if not isinstance(taken, int) or taken >= len(data):
                return
            data = data[taken:]

    def copy(self, source: Source, offset: int, length: int) -> None:
        """Append a range of another file."""
        copied = self._copy_locally(source, offset, length)
        while copied < length:
            block = read_exactly(source, offset + copied, min(length - copied, _COPY_BLOCK))
            self.write(block)
            copied += len(block)

    def _copy_locally(self, source: Source, offset: int, length: int) -> int:
        """Copy between plain local files through one buffer, and return the number of bytes.

        ``os.copy_file_range`` takes a third more processor time: the kernel moves single pages, and
        ranges of stripes do not begin at pages, so that it cannot share them either.
        """
        source_file, sink_file = _local_file(source), _local_file(self._sink)
        if source_file is None or sink_file is None or not hasattr(os, "preadv"):
            return 0
        sink: Any = self._sink
        sink.flush()
        buffer = memoryview(bytearray(min(length, _LOCAL_BLOCK)))
        copied = 0
        while copied < length:
            # The position of the source remains, as its other readers expect.
            wanted = buffer[: length - copied]
            step = os.preadv(source_file.fileno(), [wanted], offset + copied)
            if step == 0:
                break
            written = 0
            while written < step:
                written += os.write(sink_file.fileno(), buffer[written:step])
            copied += step
        self.position += copied
        return copied


def _local_file(file: object) -> io.FileIO | None:
    # Some file objects (for example gzip) have a fileno() whose bytes differ from those that they
    # read.
    raw = getattr(file, "raw", file)
    return raw if isinstance(raw, io.FileIO) else None
