"""What runs inside of Spark's tasks to make ACID files, each under a name of its own.

A task may be tried twice, or run twice at a time. So every attempt writes a file that only it
knows, and the driver publishes the files that the successful attempts reported.
"""

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_hiveacid.acid.names import BucketFile
from airflow_hiveacid.acid.row_id import encode_bucket
from airflow_hiveacid.orc.delete_file import write_delete_file
from airflow_hiveacid.orc.transplant import transplant
from airflow_hiveacid.storage import Storage

# What a delete task reports of each file.
DELETE_REPORT = "partition int, bucket int, path string, rows bigint, bytes bigint"


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder below a location that a storage may be opened at."""

    root: str
    path: str


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A finished ACID file that nobody can see yet.

    Attributes:
        path: Where it is, below the root of the folder it was written to.
        bucket: The number that its published name gets.
        rows: How many rows or delete events it holds.
        bytes: Its size.
    """

    path: str
    bucket: int
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class FlatFile:
    """A file that Spark wrote, on its way into a delta or base.

    Attributes:
        root: The location its path is relative to.
        path: Where Spark wrote it.
        bytes: Its size.
        partition: The name of the partition that its rows belong to; None is a table without any.
        bucket: The bucket of its rows; None in a table without buckets.
        fate: What was known of its rows when they were written; see ``engine.write.flat_rows``.
    """

    root: str
    path: str
    bytes: int
    partition: str | None = None
    bucket: int | None = None
    fate: str | None = None

    @property
    def full_path(self) -> str:
        """Its path as Spark takes it."""
        return f"{self.root.rstrip('/')}/{self.path}"


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file that is yet to be made out of those that Spark wrote.

    Attributes:
        parts: Files whose rows it gets, one after the other.
        folder: Where it goes.
        bucket: The bucket or writer number of its rows.
    """

    parts: tuple[FlatFile, ...]
    folder: Folder
    bucket: int

    @property
    def bytes(self) -> int:
        """How large its parts are."""
        return sum(part.bytes for part in self.parts)


def row_stager(
    write_id: int, statement: int, row_types: Sequence[bytes], width: int | None = None
) -> Callable[[NewFile], StagedFile]:
    """A function that gives the rows of flat ORC files their row ids.

    Args:
        write_id: The transaction's write id.
        statement: The number of the statement within the transaction.
        row_types: The types of the table's row.
        width: How many columns go along, from the first on; None is all.
    """

    def stage(new: NewFile) -> StagedFile:
        bucket = encode_bucket(new.bucket, statement)
        with ExitStack() as stack:
            sources = [
                stack.enter_context(Storage.of(part.root).open_input(part.path))
                for part in new.parts
            ]
            with _created(new.folder, new.bucket) as (path, sink):
                written = transplant(
                    sources, sink, write_id=write_id, bucket=bucket, types=row_types, width=width
                )
        return StagedFile(path, new.bucket, written.rows, written.bytes)

    return stage


def delete_stager(
    folders: Sequence[Folder], write_id: int, row_types: Sequence[bytes], codec: str
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for ``mapInArrow`` that writes delete events, one file per partition and bucket.

    Its input holds a partition's number, a bucket number and the three parts of the row id, sorted
    by all five, and all rows of one bucket of a partition.

    Args:
        folders: Where the files of each partition go.
        write_id: The transaction's write id.
        row_types: The types of the table's row.
        codec: The compression.
    """

    def stage(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for partition, bucket, keys in _by_file(batches):
            with _created(folders[partition], bucket) as (path, sink):
                written = write_delete_file(
                    sink, *keys, write_id=write_id, row_types=row_types, codec=codec
                )
            report = {
                "partition": pa.array([partition], pa.int32()),
                "bucket": pa.array([bucket], pa.int32()),
                "path": pa.array([path], pa.string()),
                "rows": pa.array([written.rows], pa.int64()),
                "bytes": pa.array([written.bytes], pa.int64()),
            }
            yield pa.RecordBatch.from_pydict(report)

    return stage


def by_delete_file(keys: pa.Table) -> list[pa.Table]:
    """Cut all that a stager of deletes may be given into what makes one file each.

    Args:
        keys: At least one row; see ``delete_stager``.
    """
    columns = [np.asarray(keys.column(number)) for number in range(2)]
    return [keys.slice(start, end - start) for start, end in _parts_of_files(columns)]


@contextmanager
def _created(folder: Folder, bucket: int) -> Iterator[tuple[str, Any]]:
    """A file that only this attempt of a task knows, and that goes if the attempt fails."""
    storage = Storage.of(folder.root)
    path = f"{folder.path}/{BucketFile(bucket).name}.{uuid.uuid4().hex}"
    try:
        with storage.create(path) as sink:
            yield path, sink
    except BaseException:
        storage.delete_file(path)
        raise


def _by_file(
    batches: Iterable[pa.RecordBatch],
) -> Iterator[tuple[int, int, tuple[np.ndarray[Any, Any], ...]]]:
    """Cut sorted rows where the partition or the bucket changes."""
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
    """Where the rows of each partition and bucket begin and end among sorted ones."""
    file_of = np.stack(columns[:2])
    changes = np.flatnonzero((file_of[:, 1:] != file_of[:, :-1]).any(axis=0)) + 1
    return pairwise([0, *changes.tolist(), file_of.shape[1]])


def _joined(pieces: Sequence[tuple[np.ndarray[Any, Any], ...]]) -> tuple[np.ndarray[Any, Any], ...]:
    return tuple(np.concatenate(parts) for parts in zip(*pieces, strict=True))
