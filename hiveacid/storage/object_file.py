"""An object of a store as a file: read from any place, by few requests."""

import io
from typing import Any

# Most files are read from front to back, in pieces that would be a request each. A task may have
# hundreds of them open, so this is the memory that each of them needs.
_READ_AT_ONCE = 1 << 18


class ObjectFile(io.RawIOBase):
    """Reads ranges of an object. Only reading calls the store; seeking does not."""

    def __init__(self, source: Any) -> None:
        """Use ``buffered``.

        Args:
            source: The object as Arrow opens it.
        """
        super().__init__()
        self._source = source
        self._size = source.size()
        self._at = 0

    @classmethod
    def buffered(cls, source: Any) -> io.BufferedReader:
        """Return the object with a read-ahead buffer."""
        return io.BufferedReader(cls(source), _READ_AT_ONCE)

    def readable(self) -> bool:
        """Report that the object is readable."""
        return True

    def seekable(self) -> bool:
        """Report that the object is seekable."""
        return True

    def tell(self) -> int:
        """Return the position of the next read."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the position of the next read; reads beyond the end return no data."""
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(begin + offset, 0)
        return self._at

    def readinto(self, target: Any) -> int:
        """Read up to the size of the buffer or the end."""
        wanted = min(len(target), self._size - self._at)
        if wanted <= 0:
            return 0
        content = self._source.read_at(wanted, self._at)
        target[: len(content)] = content
        self._at += len(content)
        return len(content)

    def close(self) -> None:
        """Release the store's connection."""
        self._source.close()
        super().close()
