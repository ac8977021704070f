"""Task code that writes ACID files, each under a unique name.

A task may be retried, or run twice at a time. So every attempt writes a file under a name of its
own, and the driver publishes the files that the successful attempts reported.
"""

import io
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict
from functools import partial
from itertools import pairwise
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from hiveacid.dataclass import dataclass
from hiveacid.errors import StorageError
from hiveacid.metastore.txn.live_transaction import LiveTransaction
from hiveacid.orc.copying.transplant import transplant
from hiveacid.orc.row_keys.delete_file import write_delete_file
from hiveacid.orc.row_keys.keys import Keys
from hiveacid.rules.location import Location, below
from hiveacid.rules.names import SIDECAR_FILE, BucketFile, TableIdentity
from hiveacid.rules.notes import parse_note
from hiveacid.rules.row_id import encode_bucket
from hiveacid.rules.schema import BucketLayout
from hiveacid.storage.filesystems import in_threads, translated_os_errors
from hiveacid.storage.folder import Storage
from hiveacid.storage.hidden_folder import HiddenFolder, Removal
from hiveacid.storage.uploads import Upload, UploadedFile, Uploads

# The report of a delete task on each file.
DELETE_REPORT = (
    "partition int, bucket int, path string, rows bigint, bytes bigint,"
    " upload struct<path: string, id: string, parts: array<string>>"
)
_UPLOAD = pa.struct([("path", pa.string()), ("id", pa.string()), ("parts", pa.list_(pa.string()))])


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder below a location that a storage may be opened at.

    Attributes:
        root: The location.
        path: The folder, which no reader lists.
        final: The directory that the files will be published in, if the store allows uploads to it
            in advance; None if the files are renamed.
        is_read: Whether the files are read before they are published: a file that is only uploaded
            cannot be read.
    """

    root: Location
    path: str
    final: str | None = None
    is_read: bool = False


@dataclass(frozen=True, slots=True)
class HiddenFolders:
    """The hidden folders of a transaction below a location.

    Attributes:
        location: The location.
        name: The hidden folder that they are in.
        has_uploads: Whether files are uploaded to their final paths.
    """

    location: Location
    name: str
    has_uploads: bool

    def folder(self, name: str, final: str | None = None, *, is_read: bool = False) -> Folder:
        """A folder for staged files, which no reader lists.

        Args:
            name: Its name.
            final: The directory that the files will be published in, below the location.
            is_read: Whether the files are read before they are published.
        """
        path = f"{self.name}/{name}"
        return Folder(self.location, path, final if self.has_uploads else None, is_read)


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A finished ACID file that is not visible yet.

    Attributes:
        path: The readable path, below the root of the folder it was written to; for a file that is
            only uploaded, the future path.
        bucket: The number in its published name.
        rows: The number of rows or delete events.
        bytes: Its size.
        upload: The upload that publishes the file, if it is uploaded to its final path.
    """

    path: str
    bucket: int
    rows: int
    bytes: int
    upload: Upload | None = None

    @property
    def is_readable(self) -> bool:
        """Whether the file can be read before it is published."""
        return self.upload is None or self.upload.path != self.path


@dataclass(frozen=True, slots=True)
class FlatFile:
    """A file that an engine wrote, to be moved into a delta or base.

    Attributes:
        root: The location its path is relative to.
        path: The path that the engine wrote it to.
        bytes: Its size.
        partition: The name of the partition that its rows belong to; None for a table without
            partitions.
        bucket: The bucket of its rows by `layout`; None without buckets.
        layout: The distribution of rows over files when it was written; None without buckets.
        fate: The classification of its rows when they were written; see ``spark.write.flat_rows``.
    """

    root: Location
    path: str
    bytes: int
    partition: str | None = None
    bucket: int | None = None
    layout: BucketLayout | None = None
    fate: str | None = None

    @property
    def full_path(self) -> Location:
        """Its full path, for Spark."""
        return below(self.root, self.path)


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file that is to be made from files that an engine wrote.

    Attributes:
        parts: The files whose rows it gets, in order.
        folder: The folder of the new file.
        bucket: The bucket or writer number of its rows.
    """

    parts: tuple[FlatFile, ...]
    folder: Folder
    bucket: int

    @property
    def bytes(self) -> int:
        """Total size of its parts."""
        return sum(part.bytes for part in self.parts)


def row_stager(
    write_id: int, statement: int, row_types: Sequence[bytes], width: int | None = None
) -> Callable[[NewFile], StagedFile]:
    """Return a function that assigns row ids to the rows of flat ORC files.

    Args:
        write_id: The transaction's write id.
        statement: The number of the statement within the transaction.
        row_types: The types of the table's row.
        width: The number of leading columns to copy; None means all.
    """

    def stage(new: NewFile) -> StagedFile:
        bucket = encode_bucket(new.bucket, statement)
        with ExitStack() as stack:
            sources = [
                stack.enter_context(Storage.of(part.root).open_input(part.path))
                for part in new.parts
            ]
            with staged_file(new.folder, BucketFile(new.bucket).name) as file:
                transplanted = transplant(
                    sources,
                    file.sink,
                    write_id=write_id,
                    bucket=bucket,
                    types=row_types,
                    width=width,
                )
        return file.result(new.bucket, transplanted.rows, transplanted.bytes)

    return stage


def delete_stager(
    folders: Sequence[Folder], write_id: int, row_types: Sequence[bytes], codec: str
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for ``mapInArrow`` that writes delete events by partition and bucket.

    Each partition and bucket gets one file. The input holds a partition's number, a bucket number
    and the three parts of the row id, sorted by all five, and all rows of one bucket of a
    partition.

    Args:
        folders: The folder for the files of each partition.
        write_id: The transaction's write id.
        row_types: The types of the table's row.
        codec: The compression.
    """

    def stage(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for partition, bucket, keys in _by_file(batches):
            with staged_file(folders[partition], BucketFile(bucket).name) as file:
                delete_file = write_delete_file(
                    file.sink,
                    [Keys.deletes(*keys, write_id=write_id)],
                    row_types=row_types,
                    codec=codec,
                )
            made = file.result(bucket, delete_file.rows, delete_file.bytes)
            upload = None if made.upload is None else asdict(made.upload)
            report = {
                "partition": pa.array([partition], pa.int32()),
                "bucket": pa.array([bucket], pa.int32()),
                "path": pa.array([made.path], pa.string()),
                "rows": pa.array([made.rows], pa.int64()),
                "bytes": pa.array([made.bytes], pa.int64()),
                "upload": pa.array([upload], _UPLOAD),
            }
            yield pa.RecordBatch.from_pydict(report)

    return stage


def reported_file(report: Mapping[str, Any]) -> StagedFile:
    """The file that a delete task reports; see ``DELETE_REPORT``."""
    upload_report = report["upload"]
    upload = (
        None
        if upload_report is None
        else Upload(upload_report["path"], upload_report["id"], tuple(upload_report["parts"]))
    )
    return StagedFile(report["path"], report["bucket"], report["rows"], report["bytes"], upload)


class FileToStage:
    """A file that one attempt of a task writes.

    Attributes:
        sink: The open file.
    """

    def __init__(self, folder: Folder, name: str) -> None:
        """Begin the file; ``staged_file`` also ends it.

        Args:
            folder: The staging folder.
            name: The name that it will be published under.
        """
        self.sink: Any
        self._storage = Storage.of(folder.root)
        self._upload: UploadedFile | None = None
        if folder.final is not None:
            uploads = Uploads.of(folder.root)
            if uploads is None:
                raise StorageError(
                    f"A task that writes to {folder.root} has no boto3, which the driver has.",
                    remedy="Install hiveacid[s3] for the Python of the executors, too.",
                )
            self._upload = uploads.begin(f"{folder.final}/{name}")
        self._path: str | None = None
        if self._upload is not None and not folder.is_read:
            self.sink = self._upload
            return
        self._path = f"{folder.path}/{name}.{uuid.uuid4().hex}"
        try:
            copy = self._storage.create(self._path)
        except BaseException:
            self.give_up()
            raise
        self.sink = copy if self._upload is None else _Both(self._upload, copy)

    def result(self, bucket: int, rows: int, size: int) -> StagedFile:
        """Return the staged file after it is closed."""
        if self._upload is None:
            assert self._path is not None
            return StagedFile(self._path, bucket, rows, size)
        upload = self._upload.upload
        return StagedFile(self._path or upload.path, bucket, rows, size, upload)

    def give_up(self) -> None:
        """Remove all traces of the file."""
        try:
            if self._upload is not None:
                self._upload.give_up()
        finally:
            if self._path is not None:
                self._storage.delete_file(self._path)


class _Both(io.RawIOBase):
    """Writes the same into two files."""

    def __init__(self, upload: UploadedFile, copy: BinaryIO) -> None:
        super().__init__()
        self._files = upload, copy

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._files[0].tell()

    def write(self, content: Any) -> int:
        for file in self._files:
            file.write(content)
        return len(memoryview(content).cast("B"))

    def close(self) -> None:
        # Otherwise Arrow's file would be closed by its finalizer, which blocks all other threads.
        with closing(self._files[1]):
            self._files[0].close()
        super().close()


@contextmanager
def staged_file(folder: Folder, name: str) -> Iterator[FileToStage]:
    """Stage a file that belongs to this attempt of a task only; remove it if the attempt fails.

    Args:
        folder: The staging folder.
        name: The name that it will be published under.
    """
    file = FileToStage(folder, name)
    try:
        with translated_os_errors(f"{folder.root.rstrip('/')}/{folder.path}/{name}"), file.sink:
            yield file
    except BaseException:
        file.give_up()
        raise


def by_delete_file(keys: pa.Table) -> list[pa.Table]:
    """Split all input of a stager of deletes into the parts that become one file each.

    Args:
        keys: At least one row; see ``delete_stager``.
    """
    columns = [np.asarray(keys.column(number)) for number in range(2)]
    return [keys.slice(start, end - start) for start, end in _parts_of_files(columns)]


def _by_file(
    batches: Iterable[pa.RecordBatch],
) -> Iterator[tuple[int, int, tuple[np.ndarray[Any, Any], ...]]]:
    """Split sorted rows where the partition or the bucket changes."""
    current: tuple[int, int] | None = None
    pieces: list[tuple[np.ndarray[Any, Any], ...]] = []
    for batch in batches:
        columns = [np.asarray(column).astype(np.int64) for column in batch.columns]
        if not len(batch):
            continue
        for start, end in _parts_of_files(columns):
            file = (int(columns[0][start]), int(columns[1][start]))
            if current is not None and file != current:
                yield (*current, _joined(pieces))
                pieces = []
            current = file
            pieces.append(tuple(column[start:end] for column in columns[2:]))
    if current is not None:
        yield (*current, _joined(pieces))


def _parts_of_files(columns: Sequence[np.ndarray[Any, Any]]) -> Iterable[tuple[int, int]]:
    """Ranges of rows of each partition and bucket among sorted rows."""
    file_of = np.stack(columns[:2])
    changes = np.flatnonzero((file_of[:, 1:] != file_of[:, :-1]).any(axis=0)) + 1
    return pairwise([0, *changes.tolist(), file_of.shape[1]])


def _joined(pieces: Sequence[tuple[np.ndarray[Any, Any], ...]]) -> tuple[np.ndarray[Any, Any], ...]:
    return tuple(np.concatenate(parts) for parts in zip(*pieces, strict=True))


# Hidden directories of a transaction, until each is published.
#
# A directory is published by one rename, or, on a store without renames, by completing the uploads
# of its files, which have their final paths from the beginning. Both fail after a cleaner has run
# following an abort.


class StagedDirectories:
    """The directories that a transaction is about to publish below one location.

    Attributes:
        storage: The location.
    """

    def __init__(self, location: Location, txn: LiveTransaction, identity: TableIdentity) -> None:
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
        # The uploads that are not completed yet, by their ids, and the uploads of each directory.
        # Several threads complete directories.
        self._pending: dict[str, Upload] = {}
        self._complete: dict[str, list[Upload]] = {}
        self.storage = self._hidden.storage
        txn.own(self.remove, self._hidden.path)

    @property
    def hidden(self) -> HiddenFolders:
        """The folders of the files until they are published."""
        return HiddenFolders(self._location, self._hidden.name, self._uploads is not None)

    def folder(self, name: str, final: str | None = None, *, is_read: bool = False) -> Folder:
        """See ``HiddenFolders``."""
        return self.hidden.folder(name, final, is_read=is_read)

    def keep(self, file: StagedFile) -> None:
        """Record a file that a task has staged, so that it is removed if it is not published."""
        if file.upload is not None:
            self._pending[file.upload.id] = file.upload

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
                    self._pending[sink.upload.id] = sink.upload
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
        self._txn.confirm_lately()
        self._published.add(final)
        if self._uploads is None:
            self.storage.rename(self._ready(final), final)
            return
        uploads = self._complete.pop(final)
        in_threads(self._uploads.complete, uploads)
        for upload in uploads:
            self._pending.pop(upload.id, None)

    def withdraw(self, final: str) -> str:
        """Hide a published directory again. Its transaction must certainly be aborted.

        Returns:
            The path of its files, if the directory was complete. Uploaded files remain at the path
            that they were read from.
        """
        ready = self._ready(final)
        is_hidden = self._uploads is not None or self.storage.exists(ready)
        if (
            final in self._published
            and not is_hidden
            and (removal := self._hide(final)) is not None
        ):
            try:
                self.storage.rename(removal.path(_name(final)), ready)
            finally:
                # Also if a cleaner has removed the folder of staged files.
                removal.delete(self._txn.txn_id)
        return ready

    def remove(self) -> None:
        """Remove leftover files after everything is published."""
        if self._uploads is not None:
            pending, self._pending = self._pending, {}
            in_threads(self._take_back, pending.values())
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
