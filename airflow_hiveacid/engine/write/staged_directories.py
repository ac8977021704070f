"""Directories of a transaction, out of sight until each appears.

By one rename, or, on a store that has none, by completing the uploads of its files: these lie where
they belong from the beginning. Either is refused once a cleaner was there after an abort.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from airflow_hiveacid.acid.names import SIDECAR_FILE
from airflow_hiveacid.acid.sidecar import parse_note
from airflow_hiveacid.engine.hidden_folder import HiddenFolder
from airflow_hiveacid.engine.parallel import in_threads
from airflow_hiveacid.engine.write.staged_files import Folder, StagedFile
from airflow_hiveacid.errors import StorageError
from airflow_hiveacid.metastore.txn.live_transaction import LiveTransaction
from airflow_hiveacid.storage.uploads import Upload, Uploads


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
        self._uploads = Uploads.of(location)
        # Those that nobody has completed yet, and, by directory, those that it is made of.
        self._pending: set[Upload] = set()
        self._complete: dict[str, list[Upload]] = {}
        self.storage = self._hidden.storage
        txn.own(self.remove, self._hidden.path)

    def folder(self, name: str, final: str | None = None, *, is_read: bool = False) -> Folder:
        """A folder for files on their way, which nobody looks into.

        Args:
            name: Its name.
            final: The directory that they will be published in, below the location.
            is_read: Whether they are read before.
        """
        path = f"{self._hidden.name}/{name}"
        return Folder(self._location, path, final if self._uploads else None, is_read)

    def keep(self, file: StagedFile) -> None:
        """Take note of a file that a task has staged, so that it goes if it is not published."""
        if file.upload is not None:
            self._pending.add(file.upload)

    def complete(
        self, final: str, files: Sequence[tuple[str, StagedFile]], notes: Mapping[str, bytes]
    ) -> None:
        """Bring all files of a directory together.

        Args:
            final: Where the directory will appear, below the location.
            files: Names in the directory, each with what was staged.
            notes: Names of small files to their content.

        Raises:
            StorageError: There is such a directory.
        """
        if self._uploads is None:
            ready = self._ready(final)
            self.storage.make_directory(ready)
            for name, file in files:
                self.storage.rename(file.path, f"{ready}/{name}")
            for name, content in notes.items():
                self.storage.write_file(f"{ready}/{name}", content)
        else:
            self._complete[final] = [file.upload for _, file in files if file.upload is not None]
            for name, content in notes.items():
                with self._uploads.begin(f"{final}/{name}") as sink:
                    self._pending.add(sink.upload)
                    sink.write(content)
                self._complete[final].append(sink.upload)
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
            self._txn.own(partial(self._unpublish, final), where)
            self._txn.show(partial(self._is_own, final))
        parent, _, _ = final.rpartition("/")
        if parent and self._uploads is None:
            self.storage.make_directory(parent)
        # Whoever was stopped for longer than a transaction lives must not show rows of an aborted
        # one: its write id may be forgotten, and look committed, as soon as a cleaner was there.
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
        """Hide a directory again, if it was published. Its transaction must be aborted for sure.

        Returns:
            Where its files are, if it was complete. What was uploaded stays where it was read.
        """
        ready = self._ready(final)
        hidden = self._uploads is not None or self.storage.exists(ready)
        if final in self._published and not hidden and self._is_own(final):
            self.storage.rename(final, ready)
        return ready

    def remove(self) -> None:
        """Remove what is left, once everything is published."""
        if self._uploads is not None:
            pending, self._pending = self._pending, set()
            in_threads(self._take_back, pending)
        self._hidden.remove()

    def _unpublish(self, final: str) -> None:
        """Remove a directory that was published.

        Once the transaction is lost, its table may be created again, with the same write ids.
        """
        if not self._is_own(final):
            if self._uploads is None or not self.storage.exists(final):
                return
            # The note may be among what was not uploaded to its end. What is there is ours while we hold
            # the lock, and else left to a cleaner.
            self._txn.confirm_alive()
        self.storage.delete_directory(final)

    def _is_own(self, final: str) -> bool:
        """Whether a directory is there, and of this transaction."""
        content = self.storage.read_small(f"{final}/{SIDECAR_FILE}")
        note = None if content is None else parse_note(content)
        return note is not None and note.get("txn_id") == self._txn.txn_id

    def _take_back(self, upload: Upload) -> None:
        assert self._uploads is not None
        self._uploads.take_back(upload.path, upload.id)

    def _ready(self, final: str) -> str:
        return f"{self._hidden.name}/ready/{final}"
