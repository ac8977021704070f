"""Folders of a table that readers ignore and any cleaner recognizes."""

import uuid
from collections.abc import Callable
from typing import Protocol, Self

from hiveacid.errors import StorageError
from hiveacid.rules.names import STAGING_PREFIX, TableIdentity, removal_name
from hiveacid.storage.folder import Storage


class ReadingTransaction(Protocol):
    """The transaction of a read."""

    @property
    def txn_id(self) -> int:
        """Its id."""

    def own_temporarily(self, remove: Callable[[], None], what: str) -> None:
        """Register files to remove at the end of the transaction."""


class HiddenFolder:
    """A folder that is named after its transaction.

    Attributes:
        storage: The parent folder.
        name: Its name.
        path: Its full path.
    """

    def __init__(self, location: str, txn_id: int) -> None:
        """Choose a name; the folder is not created yet.

        Args:
            location: The parent folder.
            txn_id: The transaction that it belongs to.
        """
        self.storage = Storage.of(location)
        self.name = f"{STAGING_PREFIX}{txn_id}_{uuid.uuid4().hex[:8]}"
        self.path = f"{location.rstrip('/')}/{self.name}"

    @classmethod
    def until_the_end_of(cls, txn: ReadingTransaction, location: str) -> Self:
        """Return a folder that is removed when a transaction ends, whether it commits or aborts."""
        folder = cls(location, txn.txn_id)
        txn.own_temporarily(folder.remove, folder.path)
        return folder

    def remove(self) -> None:
        """Remove the folder with all its contents."""
        self.storage.delete_directory(self.name)


# Removal of files with public names, which may belong to another table by the time of the removal.
#
# A process can sleep between the last check of a name and its deletion. Meanwhile the table may be
# dropped and created again, and the name may be that of committed rows of the new table. So files
# are first renamed into a hidden folder, where nobody else changes them, then verified, then
# deleted or put back.


_UNIQUE = 8


class Removal:
    """Files of one folder that are hidden until their removal is verified.

    The hidden folder of a killed process remains. Its name contains the creation of the table that the
    files were judged for: a cleaning of this table deletes it, one of another table puts the files
    back.
    """

    def __init__(self, storage: Storage, identity: TableIdentity, folder: str = "") -> None:
        """Choose a name; nothing is hidden yet.

        Args:
            storage: The location, on a file system with renames.
            identity: The table that the files are judged for.
            folder: The folder of the files, below the location.
        """
        self._storage = storage
        self._folder = folder
        self._hidden = self._public(removal_name(identity, _unique()))
        self._names: list[str] = []

    def hide(self, name: str) -> bool:
        """Hide a file or a directory.

        Args:
            name: Its name in the folder.

        Returns:
            Whether it existed.
        """
        # Each time: a DROP may remove it, and a later cleaning may take it from a process that slept.
        self._storage.make_directory(self._hidden)
        if _rename(self._storage, self._public(name), self.path(name)):
            self._names.append(name)
            return True
        if not self._names:
            self._storage.delete_directory(self._hidden)
        return False

    def path(self, name: str) -> str:
        """Return the path of a hidden file or directory, below the location."""
        return f"{self._hidden}/{name}"

    def put_back(self) -> None:
        """Give all files their names again.

        Raises:
            StorageError: A name is used again.
        """
        if self._names:
            while self._names:
                _rename(self._storage, self.path(self._names[-1]), self._public(self._names[-1]))
                self._names.pop()
            self._storage.delete_directory(self._hidden)

    def delete(self, txn_id: int) -> None:
        """Delete all files, after their verification.

        Args:
            txn_id: The transaction of this process: if it is killed, any cleaning removes the rest.
        """
        if self._names:
            verified = self._public(f"{STAGING_PREFIX}{txn_id}_{_unique()}")
            if _rename(self._storage, self._hidden, verified):
                self._storage.delete_directory(verified)

    def _public(self, name: str) -> str:
        return f"{self._folder}/{name}".lstrip("/")


def put_back(storage: Storage, hidden: str) -> None:
    """Give the files that a process has hidden for an earlier table their names again.

    Args:
        storage: The folder of the files.
        hidden: The name of the hidden folder.
    """
    # Nobody else changes the folder under its new name, which still contains the earlier table.
    own = f"{hidden[:-_UNIQUE]}{_unique()}"
    if not _rename(storage, hidden, own):
        return
    names = storage.list_directories(own)
    names += [file.path for file in storage.list_files(own)]
    for name in names:
        storage.rename(f"{own}/{name}", name)
    storage.delete_directory(own)


def _rename(storage: Storage, source: str, target: str) -> bool:
    """Rename a file or a directory; return False if it is missing.

    A DROP may have removed it, or a later cleaning may have taken it from a process that slept.
    """
    try:
        storage.rename(source, target)
    except StorageError:
        if storage.exists(source):
            raise
        return False
    return True


def _unique() -> str:
    return uuid.uuid4().hex[:_UNIQUE]
