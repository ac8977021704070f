"""Input files of a compaction: opened, checked, copied, or given row ids first."""

import io
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

from hiveacid.errors import (
    CorruptFile,
    DataError,
)
from hiveacid.orc.copying.spark_files import copy_readable
from hiveacid.orc.copying.transplant import transplant
from hiveacid.orc.format.source_and_sink import Source
from hiveacid.orc.format.tail import OrcTail
from hiveacid.rules.names import Base, Delta
from hiveacid.rules.originals import SyntheticIds
from hiveacid.rules.schema import MappedColumns
from hiveacid.storage.filesystems import translated_os_errors
from hiveacid.storage.folder import Storage
from hiveacid.storage.listing import read_tail
from hiveacid.storage.staged_files import Folder

# Smaller files are read with one request each and then closed: a bucket may have thousands of them,
# and a process may open one thousand.
_READ_AT_ONCE = 64 << 10
# The maximum number of their bytes in memory.
_MOST_HELD = 64 << 20
# The size of the rows that one task handles, so that many tasks share a bucket.
_TASK_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that is compacted.

    Attributes:
        path: The path below the partition's folder.
        size: The length of its valid part in bytes.
        directory: The base or delta that its content comes from.
        exact: Whether the file cannot contain rows of an aborted write id.
        cut_off: Whether the file is longer than its valid part.
        rows: The number of rows in the writer's note, if any.
    """

    path: str
    size: int
    directory: Base | Delta
    exact: bool
    cut_off: bool = False
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class RowIdTask:
    """A file without row ids, and the row ids for its rows.

    Attributes:
        root: The partition's folder.
        ids: The row ids; the path is below the partition's folder.
        directory: The base or delta that the file belongs to.
        columns: The columns of the table.
        folder: The folder of the new file.
    """

    root: str
    ids: SyntheticIds
    directory: Base | Delta
    columns: MappedColumns
    folder: Folder


def count_rows(root: str, path: str) -> int:
    """Number of rows of a file."""
    return read_tail(Storage.of(root), path).rows


def give_row_ids(task: RowIdTask) -> InputFile:
    """Make a full ACID file from a file without row ids, without decoding its columns."""
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
    """Copy the valid part of a file, so that Spark can read it."""
    path, storage = f"{folder.path}/{uuid.uuid4().hex}", Storage.of(root)
    tail = read_tail(storage, file.path, file.size)
    with storage.open_input(file.path) as source, new_file(folder, path) as sink:
        size = copy_readable(source, tail, sink)
    return replace(file, path=path, size=size, cut_off=False)


def open_files(
    stack: ExitStack, root: str, files: Sequence[InputFile]
) -> list[tuple[Source, OrcTail]]:
    """Open files until a stack of contexts is closed.

    Raises:
        CorruptFile: A file is not an ORC file, or differs from its writer's note.
    """
    storage = Storage.of(root)
    opened: list[tuple[Source, OrcTail]] = []
    left = _MOST_HELD
    for file in files:
        with naming(root, file.path):
            source: BinaryIO
            if file.size <= min(_READ_AT_ONCE, left):
                left -= file.size
                with storage.open_input(file.path) as stored:
                    source = io.BytesIO(stored.read(file.size))
            else:
                source = stack.enter_context(storage.open_input(file.path))
            tail = OrcTail.read(source, file.size)
            check_rows(tail, file.path, file.rows)
            opened.append((source, tail))
    return opened


def bytes_of_a_task(deletes: int) -> int:
    """Return the size of the rows that one task handles.

    Each task also opens all delete files of its rows, so that it takes more rows if these are many.

    Args:
        deletes: The number of delete files.
    """
    return max(_TASK_BYTES, deletes * _READ_AT_ONCE)


def check_rows(tail: OrcTail, path: str, noted: int | None) -> None:
    """Refuse a file whose number of rows differs from its writer's note.

    Raises:
        CorruptFile: The numbers differ.
    """
    if noted is not None and tail.rows != noted:
        raise CorruptFile(
            f"{path} has {tail.rows} rows, and was written with {noted}.",
            remedy="Bring it back from a copy.",
        )


@contextmanager
def naming(root: str, *paths: str) -> Iterator[None]:
    """Add the file names to errors of the ORC layer, which has access to bytes only."""
    try:
        yield
    except DataError as error:
        names = ", ".join(f"{root}/{path}" for path in paths)
        if any(path in error.what for path in paths):
            raise
        raise type(error)(f"{names}: {error.what}", remedy=error.remedy) from error


@contextmanager
def new_file(folder: Folder, path: str) -> Iterator[Any]:
    """Create a file; its errors include its path."""
    storage = Storage.of(folder.root)
    with translated_os_errors(f"{folder.root}/{path}"), storage.create(path) as sink:
        yield sink
