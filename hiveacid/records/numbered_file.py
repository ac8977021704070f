"""Small file that several processes write, each version under a number of its own."""

import re

from hiveacid.errors import NotAFile, StorageError
from hiveacid.rules.names import LARGEST_NOTE, UNFINISHED_PREFIX
from hiveacid.storage.folder import Storage

_NAME = re.compile(rf"({UNFINISHED_PREFIX}.*)?([0-9]{{1,18}})\.json")


class NumberedFile:
    """File with a numbered name for each version; the highest number counts.

    No version replaces another one in place. So a process that was paused between its read and its
    write cannot undo a later write of another process, and a kill leaves the previous version.

    Args:
        storage: A folder.
        folder: The folder of the versions, below it.
        limit: The maximum number of bytes of a version.
    """

    def __init__(self, storage: Storage, folder: str, limit: int = LARGEST_NOTE) -> None:
        self._storage = storage
        self._folder = folder
        self._limit = limit

    def read(self) -> tuple[int, bytes | None] | None:
        """Read the number and the content of the newest version; None without a version.

        The content is None if it is too large, or not a file.
        """
        while (number := self.newest()) is not None:
            try:
                content = self._storage.read_small(self.path(number), self._limit)
            except NotAFile:
                content = None
            # Another process may just have replaced this version by its own.
            if content is not None or self.newest() == number:
                return number, content
        return None

    def write(self, number: int, content: bytes, *, follows: bool = False) -> bool:
        """Write a version, and remove those before it.

        Args:
            number: Its number, which follows the number of the version that was read.
            content: Its content.
            follows: Whether the version that was read must still be there. It is not in a folder that
                was removed and created again since.

        Returns:
            Whether this process has written it. If not, another process has written this number or
            more, or there is no version any more.
        """
        path = self.path(number)
        try:
            self._storage.write_file(path, content)
        except StorageError:
            # Another process also removes the unfinished files of this one.
            newest = self.newest()
            vanished = newest is None and follows
            if not vanished and (newest is None or newest < number):
                raise
            return False
        found = self._files()
        others = [other for _, other, unfinished in found if not unfinished and other != number]
        if any(other > number for other in others) or (follows and not others):
            self._storage.delete_file(path)
            return False
        for name, other, _ in found:
            if other < number:
                self._storage.delete_file(f"{self._folder}/{name}")
        return True

    def newest(self) -> int | None:
        """Find the highest number."""
        numbers = (number for _, number, unfinished in self._files() if not unfinished)
        return max(numbers, default=None)

    def path(self, number: int) -> str:
        """Build the path of a version, below the storage's folder."""
        return f"{self._folder}/{number}.json"

    def _files(self) -> list[tuple[str, int, bool]]:
        files = self._storage.list_files(self._folder, missing_ok=True)
        matches = (_NAME.fullmatch(file.path) for file in files)
        return [(match[0], int(match[2]), match[1] is not None) for match in matches if match]
