"""Folders of a table that readers ignore and any cleaner recognizes."""

import uuid
from collections.abc import Callable
from typing import Protocol, Self

from hiveacid.rules.names import STAGING_PREFIX
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
