"""Folders of a table that nobody looks into, and that any cleaner knows for what they are."""

import uuid
from collections.abc import Callable
from typing import Protocol, Self

from airflow_hiveacid.acid.names import STAGING_PREFIX
from airflow_hiveacid.storage.folder import Storage


class ReadingTransaction(Protocol):
    """The transaction that something is read under."""

    @property
    def txn_id(self) -> int:
        """Its id."""

    def own_temporarily(self, remove: Callable[[], None], what: str) -> None:
        """Register what must go when it ends."""


class HiddenFolder:
    """A folder that is named after its transaction.

    Attributes:
        storage: The folder that it lies in.
        name: Its name.
        path: Its full path.
    """

    def __init__(self, location: str, txn_id: int) -> None:
        """Choose a name; nothing is made yet.

        Args:
            location: The folder that it will lie in.
            txn_id: The transaction that it belongs to.
        """
        self.storage = Storage.of(location)
        self.name = f"{STAGING_PREFIX}{txn_id}_{uuid.uuid4().hex[:8]}"
        self.path = f"{location.rstrip('/')}/{self.name}"

    @classmethod
    def until_the_end_of(cls, txn: ReadingTransaction, location: str) -> Self:
        """One that goes when a transaction ends, in whatever way."""
        folder = cls(location, txn.txn_id)
        txn.own_temporarily(folder.remove, folder.path)
        return folder

    def remove(self) -> None:
        """Remove it with all that is in it."""
        self.storage.delete_directory(self.name)
