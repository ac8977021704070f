"""Directories of a transaction, staged out of sight until each appears by one rename."""

from collections.abc import Mapping, Sequence
from functools import partial

from airflow_hiveacid.engine.hidden_folder import HiddenFolder
from airflow_hiveacid.engine.write.staged_files import Folder
from airflow_hiveacid.errors import StorageError
from airflow_hiveacid.metastore.txn.live_transaction import LiveTransaction


class StagedDirectories:
    """What a transaction is about to publish below one location.

    Attributes:
        storage: The location.
    """

    def __init__(self, location: str, txn: LiveTransaction) -> None:
        """Have everything go that is staged here, if the transaction is aborted.

        Args:
            location: A table's or a partition's folder.
            txn: The transaction, open.
        """
        self._hidden = HiddenFolder(location, txn.txn_id)
        self._location = location
        self._txn = txn
        self._published: set[str] = set()
        self.storage = self._hidden.storage
        txn.own(self._hidden.remove, self._hidden.path)

    def folder(self, name: str) -> Folder:
        """A folder for files on their way, which nobody looks into."""
        return Folder(self._location, f"{self._hidden.name}/{name}")

    def complete(
        self, final: str, files: Sequence[tuple[str, str]], notes: Mapping[str, bytes]
    ) -> None:
        """Bring all files of a directory together.

        Args:
            final: Where the directory will appear, below the location.
            files: Names in the directory, each with the path where the file was staged.
            notes: Names of small files to their content.

        Raises:
            StorageError: There is such a directory.
        """
        ready = self._ready(final)
        self.storage.make_directory(ready)
        for name, staged in files:
            self.storage.rename(staged, f"{ready}/{name}")
        for name, content in notes.items():
            self.storage.write_file(f"{ready}/{name}", content)
        if self.storage.exists(final):
            # Not of this transaction, whose ids are new: an abort must leave it alone.
            raise StorageError(
                f"{self.storage.location}/{final} exists already, from somebody else.",
                remedy="Look whose rows these are, and move the directory away.",
            )

    def publish(self, final: str, *, for_good: bool = False) -> None:
        """Let a directory appear that is complete.

        Args:
            final: Where.
            for_good: Whether somebody may need it from now on, whatever becomes of the transaction.
        """
        if not for_good:
            where = f"{self.storage.location}/{final}"
            self._txn.own(partial(self.storage.delete_directory, final), where)
            self._txn.show(partial(self.storage.exists, final))
        parent, _, _ = final.rpartition("/")
        if parent:
            self.storage.make_directory(parent)
        # Whoever was stopped for longer than a transaction lives must not show rows of an aborted
        # one: its write id may be forgotten, and look committed, as soon as a cleaner was there.
        self._txn.confirm_alive()
        self._published.add(final)
        self.storage.rename(self._ready(final), final)

    def withdraw(self, final: str) -> str:
        """Hide a directory again, if it was published. Its transaction must be aborted for sure.

        Returns:
            Where its files are, if it was complete.
        """
        ready = self._ready(final)
        if final in self._published and not self.storage.exists(ready):
            self.storage.rename(final, ready)
        return ready

    def remove(self) -> None:
        """Remove what is left, once everything is published."""
        self._hidden.remove()

    def _ready(self, final: str) -> str:
        return f"{self._hidden.name}/ready/{final}"
