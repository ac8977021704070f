"""Folders of a table that readers ignore and any cleaner recognizes."""

import uuid
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol, Self

from hiveacid.dataclass import dataclass
from hiveacid.errors import HiddenFiles, StorageError
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.txn.live_transaction import LiveTransaction
from hiveacid.rules.location import Location, below
from hiveacid.rules.names import (
    STAGING_PREFIX,
    TableIdentity,
    foreign_removals,
    removal_name,
)
from hiveacid.storage.folder import ReadOnlyStorage, Storage


class ReadingTransaction(Protocol):
    """The transaction of a read."""

    @property
    def txn_id(self) -> int:
        """Its id."""

    def own_temporarily(self, remove: Callable[[], None], subject: str) -> None:
        """Register files to remove at the end of the transaction."""


class HiddenFolder:
    """A folder that is named after its transaction.

    Attributes:
        storage: The parent folder.
        name: Its name.
        path: Its full path.
    """

    def __init__(self, location: Location, txn_id: int) -> None:
        """Choose a name; the folder is not created yet.

        Args:
            location: The parent folder.
            txn_id: The transaction that it belongs to.
        """
        self.storage = Storage.of(location)
        self.name = f"{STAGING_PREFIX}{txn_id}_{uuid.uuid4().hex[:8]}"
        self.path = below(location, self.name)

    @classmethod
    def until_the_end_of(cls, txn: ReadingTransaction, location: Location) -> Self:
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
#
# The process may be killed in between. So the hidden folder of a removal for another table is a part
# of the table: each listing of its files puts them back, or is refused. Otherwise a reader would miss
# rows, and a compaction would make a base without them, in which they are lost when they come back.


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
                _put_back(self._storage, self.path(self._names[-1]), self._public(self._names[-1]))
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


@dataclass(frozen=True, slots=True)
class TableOfFolder:
    """The table that a folder belongs to.

    Attributes:
        identity: The creation of the table.
        confirm: Confirms this creation and the locks on it, or raises an error; null for a process
            without locks, which changes nothing.
    """

    identity: TableIdentity
    confirm: Callable[[], None] | None = None

    @classmethod
    def of(cls, table: HiveTable, txn: LiveTransaction | None = None) -> Self:
        """Describe the table of the folders that a transaction, if any, reads or writes."""
        confirm = None if txn is None else partial(txn.confirm_table, table)
        return cls(table.identity, confirm)

    def hidden_in(self, storage: ReadOnlyStorage, paths: Iterable[str]) -> list[str]:
        """Return the folders in which removals for other tables have hidden files.

        Args:
            storage: A folder of the table.
            paths: The files and directories in it.
        """
        folders = foreign_removals(paths, self.identity)
        return [folder for folder in folders if not storage.is_link(folder)]

    def directories(self, storage: ReadOnlyStorage) -> list[str]:
        """List the names of the directories in a folder, which may be missing.

        Raises:
            HiddenFiles: Files of the table are hidden.
        """
        while self.put_back_hidden(storage, names := storage.list_directories(missing_ok=True)):
            pass
        return names

    def put_back_hidden(self, storage: ReadOnlyStorage, paths: Iterable[str]) -> bool:
        """Put back the files of this table that removals for other tables have hidden.

        Args:
            storage: A folder of the table.
            paths: All files and directories in it.

        Returns:
            Whether there were any, so that the folder must be listed again.

        Raises:
            HiddenFiles: There are some, and this process has no lock.
            StorageError: A name is used again, or the folder cannot be changed.
        """
        if not (hidden_folders := self.hidden_in(storage, paths)):
            return False
        if self.confirm is None:
            raise HiddenFiles(
                f"{storage.location.rstrip('/')}/{hidden_folders[0]} hides files that may be of this table:"
                " it is of a removal for an earlier table of this name."
            )
        # After the listing: a removal for an even later table is not in it.
        self.confirm()
        for hidden_folder in hidden_folders:
            put_back(Storage.of(storage.location), hidden_folder)
        return True


def put_back(storage: Storage, hidden_path: str) -> None:
    """Give the files that a process has hidden for an earlier table their names again.

    Several processes may do this at once, and any of them may be killed.

    Args:
        storage: The folder of the table.
        hidden_path: The path of the hidden folder.

    Raises:
        StorageError: A name is used again.
    """
    # Nobody else changes the folder under its new name, which still contains the earlier table.
    claimed_path = f"{hidden_path[:-_UNIQUE]}{_unique()}"
    if not _rename(storage, hidden_path, claimed_path):
        return
    parent = hidden_path.rpartition("/")[0]
    names = storage.list_directories(claimed_path, missing_ok=True)
    names += [file.path for file in storage.list_files(claimed_path, missing_ok=True)]
    for name in names:
        _put_back(storage, f"{claimed_path}/{name}", f"{parent}/{name}".lstrip("/"))
    storage.delete_directory(claimed_path)


def _put_back(storage: Storage, hidden_path: str, public: str) -> None:
    """Give a file or a directory its name again, unless another process does so.

    Raises:
        StorageError: The name is used again.
    """
    try:
        _rename(storage, hidden_path, public)
    except StorageError as error:
        if not storage.exists(public):
            raise
        raise StorageError(
            f"{storage.location.rstrip('/')}/{hidden_path} cannot be put back: {public} exists again.",
            remedy="Compare the two by their rows and notes, and move the one away that is not of"
            " this table.",
        ) from error


def _rename(storage: Storage, source: str, target: str) -> bool:
    """Rename a file or a directory; return False if another process has removed it.

    A DROP may have removed it, or a later cleaning may have taken it from a process that slept.
    """
    try:
        storage.rename(source, target)
    except StorageError:
        if storage.exists(source):
            raise
        # The answer to the rename may be lost.
        return storage.exists(target)
    return True


def _unique() -> str:
    return uuid.uuid4().hex[:_UNIQUE]
