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

    def take(self, hidden: str) -> None:
        """Take over the files that another process has hidden.

        Args:
            hidden: The name of its hidden folder.
        """
        if self._storage.exists(self._public(hidden)):
            self._storage.rename(self._public(hidden), self._hidden)
            self._names = self._storage.list_directories(self._hidden)
            self._names += [file.path for file in self._storage.list_files(self._hidden)]

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


def _unique() -> str:
    return uuid.uuid4().hex[:8]
