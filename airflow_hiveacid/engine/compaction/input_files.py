"""The files that a compaction puts together: opened, checked, copied or given row ids first."""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from airflow_hiveacid.acid.column_mapping import MappedColumns
from airflow_hiveacid.acid.names import Base, Delta
from airflow_hiveacid.acid.originals import SyntheticIds
from airflow_hiveacid.engine.write.staged_files import Folder
from airflow_hiveacid.errors import (
    CorruptFile,
    DataError,
)
from airflow_hiveacid.layout.listing import read_tail
from airflow_hiveacid.orc.copying.spark_files import copy_readable
from airflow_hiveacid.orc.copying.transplant import transplant
from airflow_hiveacid.orc.format.source_and_sink import Source
from airflow_hiveacid.orc.format.tail import OrcTail
from airflow_hiveacid.storage.filesystems import os_errors_as_ours
from airflow_hiveacid.storage.folder import Storage


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that is compacted.

    Attributes:
        path: Where it is, below the partition's folder.
        size: How many bytes of it count.
        directory: The base or delta that its content comes from.
        exact: Whether no row in it can be of an aborted write id.
        cut_off: Whether there is more in it than counts.
        rows: How many rows its writer noted; None when nobody did.
    """

    path: str
    size: int
    directory: Base | Delta
    exact: bool
    cut_off: bool = False
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class RowIdTask:
    """A file without row ids, and those that its rows get.

    Attributes:
        root: The partition's folder.
        ids: The row ids; the path is below the partition's folder.
        directory: The base or delta that the file belongs to.
        columns: The columns of the table.
        folder: Where the file with row ids goes.
    """

    root: str
    ids: SyntheticIds
    directory: Base | Delta
    columns: MappedColumns
    folder: Folder


def count_rows(root: str, path: str) -> int:
    """The rows of a file."""
    return read_tail(Storage.of(root), path).rows


def give_row_ids(task: RowIdTask) -> InputFile:
    """Make a full ACID file of one without row ids, without decoding its columns."""
    ids = task.ids
    assert ids.bucket is not None, ids.path
    path = f"{task.folder.path}/{uuid.uuid4().hex}"
    with (
        Storage.of(task.root).open_input(ids.path) as source,
        new_file(task.folder, path) as sink,
        naming(task.root, ids.path),
    ):
        written = transplant(
            [source],
            sink,
            write_id=ids.write_id,
            bucket=ids.bucket,
            first_row=ids.first_row,
            columns=task.columns,
        )
    return InputFile(path, written.bytes, task.directory, exact=True)


def copy_file(root: str, folder: Folder, file: InputFile) -> InputFile:
    """Copy what counts of a file, so that Spark can read it."""
    path, storage = f"{folder.path}/{uuid.uuid4().hex}", Storage.of(root)
    tail = read_tail(storage, file.path, file.size)
    with storage.open_input(file.path) as source, new_file(folder, path) as sink:
        size = copy_readable(source, tail, sink)
    return replace(file, path=path, size=size, cut_off=False)


def open_files(
    stack: ExitStack, root: str, files: Sequence[InputFile]
) -> list[tuple[Source, OrcTail]]:
    """Open files, for as long as a stack of contexts lasts.

    Raises:
        CorruptFile: One is no ORC file, or not what its writer noted.
    """
    storage = Storage.of(root)
    opened: list[tuple[Source, OrcTail]] = []
    for file in files:
        with naming(root, file.path):
            source = stack.enter_context(storage.open_input(file.path))
            tail = OrcTail.read(source, file.size)
            check_rows(tail, file.path, file.rows)
            opened.append((source, tail))
    return opened


def check_rows(tail: OrcTail, path: str, noted: int | None) -> None:
    """Refuse a file that has not as many rows as its writer noted.

    Raises:
        CorruptFile: It has more or less.
    """
    if noted is not None and tail.rows != noted:
        raise CorruptFile(
            f"{path} has {tail.rows} rows, and was written with {noted}.",
            remedy="Bring it back from a copy.",
        )


@contextmanager
def naming(root: str, *paths: str) -> Iterator[None]:
    """Say of an error of the ORC layer, which sees bytes only, which files it is about."""
    try:
        yield
    except DataError as error:
        names = ", ".join(f"{root}/{path}" for path in paths)
        if any(path in error.what for path in paths):
            raise
        raise type(error)(f"{names}: {error.what}", remedy=error.remedy) from error


@contextmanager
def new_file(folder: Folder, path: str) -> Iterator[Any]:
    """A file to write, whose errors name it."""
    storage = Storage.of(folder.root)
    with os_errors_as_ours(f"{folder.root}/{path}"), storage.create(path) as sink:
        yield sink
