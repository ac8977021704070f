"""Removal of files with public names, which may belong to another table by the time of the removal.

A process can sleep between the last check of a name and its deletion. Meanwhile the table may be
dropped and created again, and the name may be that of committed rows of the new table. So files are
first renamed into a hidden folder, where nobody else changes them, then verified, then deleted or
put back.
"""

import uuid

from airflow_hiveacid.acid.names import STAGING_PREFIX, removal_name
from airflow_hiveacid.acid.table_identity import TableIdentity
from airflow_hiveacid.storage.folder import Storage

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
        if not self._storage.exists(self._public(name)):
            return False
        # Each time: a DROP may remove it, and a later cleaning may take it from a process that slept.
        self._storage.make_directory(self._hidden)
        self._storage.rename(self._public(name), self.path(name))
        self._names.append(name)
        return True

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
                if self._storage.exists(self.path(self._names[-1])):
                    self._storage.rename(self.path(self._names[-1]), self._public(self._names[-1]))
                self._names.pop()
            self._storage.delete_directory(self._hidden)

    def delete(self, txn_id: int) -> None:
        """Delete all files, after their verification.

        Args:
            txn_id: The transaction of this process: if it is killed, any cleaning removes the rest.
        """
        # After a DROP, or a later cleaning that took it, the folder is missing.
        if self._names and self._storage.exists(self._hidden):
            verified = self._public(f"{STAGING_PREFIX}{txn_id}_{_unique()}")
            self._storage.rename(self._hidden, verified)
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
    storage.rename(hidden, own)
    names = storage.list_directories(own)
    names += [file.path for file in storage.list_files(own)]
    for name in names:
        storage.rename(f"{own}/{name}", name)
    storage.delete_directory(own)


def _unique() -> str:
    return uuid.uuid4().hex[:_UNIQUE]
