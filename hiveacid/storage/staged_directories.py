"""Hidden directories of a transaction, until each is published.

A directory is published by one rename, or, on a store without renames, by completing the uploads of
its files, which have their final paths from the beginning. Both fail after a cleaner has run
following an abort.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from hiveacid.errors import StorageError
from hiveacid.metastore.txn.live_transaction import LiveTransaction
from hiveacid.rules.names import SIDECAR_FILE
from hiveacid.rules.sidecar import parse_note
from hiveacid.rules.table_identity import TableIdentity
from hiveacid.storage.hidden_folder import HiddenFolder
from hiveacid.storage.removal import Removal
from hiveacid.storage.staged_files import Folder, StagedFile
from hiveacid.storage.threads import in_threads
from hiveacid.storage.uploads import Upload, Uploads


class StagedDirectories:
    """The directories that a transaction is about to publish below one location.

    Attributes:
        storage: The location.
    """

    def __init__(self, location: str, txn: LiveTransaction, identity: TableIdentity) -> None:
        """Register the removal of staged files for the case that the transaction is aborted.

        Args:
            location: A table's or a partition's folder.
            txn: The transaction, open.
            identity: The table that is written.
        """
        self._hidden = HiddenFolder(location, txn.txn_id)
        self._location = location
        self._txn = txn
        self._identity = identity
        self._published: set[str] = set()
        self._uploads = Uploads.of(location)
        # The uploads that are not completed yet, and, by directory, the uploads of its files.
        self._pending: set[Upload] = set()
        self._complete: dict[str, list[Upload]] = {}
        self.storage = self._hidden.storage
        txn.own(self.remove, self._hidden.path)

    def folder(self, name: str, final: str | None = None, *, is_read: bool = False) -> Folder:
        """A folder for staged files, which no reader lists.

        Args:
            name: Its name.
            final: The directory that the files will be published in, below the location.
            is_read: Whether the files are read before they are published.
        """
        path = f"{self._hidden.name}/{name}"
        return Folder(self._location, path, final if self._uploads else None, is_read)

    def keep(self, file: StagedFile) -> None:
        """Record a file that a task has staged, so that it is removed if it is not published."""
        if file.upload is not None:
            self._pending.add(file.upload)

    def complete(
        self, final: str, files: Sequence[tuple[str, StagedFile]], notes: Mapping[str, bytes]
    ) -> None:
        """Collect all files of a directory.

        Args:
            final: The future path of the directory, below the location.
            files: Names in the directory, each with its staged file.
            notes: Names of small files to their content.

        Raises:
            StorageError: The directory already exists.
        """
        if self._uploads is None:
            ready = self._ready(final)
            self.storage.make_directory(ready)
            for name, file in files:
                self.storage.rename(file.path, f"{ready}/{name}")
            for name, content in notes.items():
                self.storage.write_part(f"{ready}/{name}", content)
        else:
            self._complete[final] = [file.upload for _, file in files if file.upload is not None]
            for name, content in notes.items():
                with self._uploads.begin(f"{final}/{name}") as sink:
                    self._pending.add(sink.upload)
                    sink.write(content)
                self._complete[final].append(sink.upload)
        if self.storage.exists(final):
            # The directory is not from this transaction, whose ids are new: an abort must not
            # remove it.
            raise StorageError(
                f"{self.storage.location}/{final} exists already, from another writer.",
                remedy="Identify the writer of these rows, and move the directory away.",
            )

    def publish(self, final: str, *, for_good: bool = False) -> None:
        """Publish a complete directory.

        Args:
            final: Its path.
            for_good: Whether other users may need the directory from now on, regardless of the
                outcome of the transaction.
        """
        if not for_good:
            where = f"{self.storage.location}/{final}"
            self._txn.own(partial(self._unpublish, final), where)
            self._txn.show(partial(self._is_own, final))
        parent, _, _ = final.rpartition("/")
        if parent and self._uploads is None:
            self.storage.make_directory(parent)
        # A job that was stopped for longer than a transaction lives must not publish rows of an
        # aborted transaction: after a cleaner has run, its write id may be forgotten and look
        # committed.
        self._txn.confirm_alive()
        self._published.add(final)
        if self._uploads is None:
            self.storage.rename(self._ready(final), final)
            return
        uploads = self._complete.pop(final)
        in_threads(self._uploads.complete, uploads)
        done = {upload.id for upload in uploads}
        self._pending = {upload for upload in self._pending if upload.id not in done}

    def withdraw(self, final: str) -> str:
        """Hide a published directory again. Its transaction must certainly be aborted.

        Returns:
            The path of its files, if the directory was complete. Uploaded files remain at the path
            that they were read from.
        """
        ready = self._ready(final)
        hidden = self._uploads is not None or self.storage.exists(ready)
        if final in self._published and not hidden and (removal := self._hide(final)) is not None:
            try:
                self.storage.rename(removal.path(_name(final)), ready)
            finally:
                # Also if a cleaner has removed the folder of staged files.
                removal.delete(self._txn.txn_id)
        return ready

    def remove(self) -> None:
        """Remove leftover files after everything is published."""
        if self._uploads is not None:
            pending, self._pending = self._pending, set()
            in_threads(self._take_back, pending)
        self._hidden.remove()

    def _unpublish(self, final: str) -> None:
        """Remove a published directory."""
        if self._uploads is None:
            if (removal := self._hide(final)) is not None:
                removal.delete(self._txn.txn_id)
        elif self.storage.exists(final):
            # No store can hide files, and the note may belong to an incomplete upload. The files are
            # ours while we hold the lock; otherwise they are left to a cleaner.
            self._txn.confirm_alive()
            self.storage.delete_directory(final)

    def _hide(self, final: str) -> Removal | None:
        """Hide a published directory; None if it does not belong to this transaction.

        After the transaction is lost, its table may be recreated with the same write ids.
        """
        if not self._is_own(final):
            return None
        removal = Removal(self.storage, self._identity, final.rpartition("/")[0])
        if not removal.hide(_name(final)):
            return None
        # Only now can no other writer publish a directory of this name.
        if self._is_own(removal.path(_name(final))):
            return removal
        removal.put_back()
        return None

    def _is_own(self, directory: str) -> bool:
        """Whether a directory exists and belongs to this transaction."""
        content = self.storage.read_small(f"{directory}/{SIDECAR_FILE}")
        note = None if content is None else parse_note(content)
        return note is not None and note.get("txn_id") == self._txn.txn_id

    def _take_back(self, upload: Upload) -> None:
        assert self._uploads is not None
        self._uploads.take_back(upload.path, upload.id)

    def _ready(self, final: str) -> str:
        return f"{self._hidden.name}/ready/{final}"


def _name(final: str) -> str:
    return final.rpartition("/")[2]
