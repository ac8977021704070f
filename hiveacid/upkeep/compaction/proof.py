"""Proof of a compaction of full ACID files: the output contains every input row that must be kept.

The proof uses separate code. The input is counted from the files that the plan names, the output
from the new files as stored, and deleted rows are found by lookup in a set. Of the new files, only
stripes without an earlier count are decoded: a copied stripe has the same bytes as the counted one.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, pairwise

import numpy as np

from hiveacid.errors import ProofFailed, UnsupportedFile
from hiveacid.jobs.table_properties import COLUMN_MAPPING
from hiveacid.metastore.catalog import StorageFormat
from hiveacid.orc.format.compression import Source
from hiveacid.orc.format.envelope import EnvelopeColumn
from hiveacid.orc.format.process_memory import return_memory
from hiveacid.orc.format.tail import OrcTail
from hiveacid.orc.row_keys.census import (
    DeletedRows,
    LostRows,
    RowConstraints,
    StripeCensus,
    read_events,
    take_census,
)
from hiveacid.orc.row_keys.digests import hash_row_ids, tally
from hiveacid.orc.row_keys.key_stream import read_keys
from hiveacid.orc.row_keys.keys import Keys
from hiveacid.rules.compaction import Balance, Tally
from hiveacid.rules.location import Location
from hiveacid.rules.schema import ColumnMapping, MappedColumns
from hiveacid.storage.file_columns import stored_names
from hiveacid.storage.filesystems import in_threads
from hiveacid.storage.folder import ReadOnlyStorage, Storage
from hiveacid.storage.staging import StagedFile
from hiveacid.upkeep.compaction.tasks import InputFile, bytes_of_a_task, naming, open_files

# Refusal of compactions that would change values which depend on the mapping of columns.
#
# Engines that map columns by position and engines that map them by name read different values from
# a file whose columns were renamed later. A compaction writes all rows with the current columns,
# so it must choose. By position, every stored value is kept under its new name. By name, the
# values of renamed columns would be lost for the engines that still show them.


def check_columns(
    storage: ReadOnlyStorage,
    columns: MappedColumns,
    format: StorageFormat,
    files: Sequence[tuple[str, int]],
) -> None:
    """Refuse files if a compaction would drop values of them.

    Args:
        storage: The folder of the partition.
        columns: The columns of the table.
        format: The format of the files.
        files: The path of each file below the folder, and the length of its valid part in bytes.

    Raises:
        UnsupportedFile: A compaction would drop values of a file.
    """
    names = in_threads(partial(_names, storage, format), files)
    for (path, _), stored in zip(files, names, strict=True):
        check_names(columns, stored, f"{storage.location.rstrip('/')}/{path}")


def check_names(columns: MappedColumns, stored: Sequence[str], path: str) -> None:
    """Refuse a file if a compaction would drop values of it.

    Args:
        columns: The columns of the table.
        stored: The names of the columns of the file.
        path: The file.

    Raises:
        UnsupportedFile: A compaction would drop values of the file.
    """
    columns.fields(stored)
    if not columns.is_ambiguous(stored):
        return
    by_position = columns.mapping is ColumnMapping.POSITION
    if by_position and len(stored) <= len(columns.names):
        return
    raise UnsupportedFile(
        f"{path} has the columns {', '.join(stored)}, and the table has {', '.join(columns.names)}:"
        f" mapped by {columns.mapping}, a compaction would drop values that other engines still"
        " show.",
        remedy=(
            "Give the columns that the table lacks back to it."
            if by_position
            else f"Set the table property '{COLUMN_MAPPING}'='{ColumnMapping.POSITION}' if all"
            " engines map columns by position, or give the columns their old names back."
        ),
    )


def _names(storage: ReadOnlyStorage, format: StorageFormat, file: tuple[str, int]) -> Sequence[str]:
    path, size = file
    return stored_names(storage, path, format, size)


_EVERY_WRITE_ID = range(2**63 - 1)
# The number of delete events that a task holds at a time, 24 bytes each while they are sorted.
_MOST_EVENTS = 2_000_000


@dataclass(frozen=True, slots=True)
class CountedFile:
    """A file, the number of its bucket, and the declared properties of its rows."""

    bucket: int
    file: InputFile
    constraints: RowConstraints


@dataclass(frozen=True, slots=True)
class CensusTask:
    """Files that are counted.

    Attributes:
        root: The partition's folder.
        counted: The files.
        deletes: The files with the delete events that apply to their rows.
        aborted: The aborted write ids, whose rows and events are excluded.
        columns: The columns of the table.
        first: Whether the task also checks the delete events that are irrelevant to its rows.
    """

    root: Location
    counted: tuple[CountedFile, ...]
    deletes: tuple[CountedFile, ...]
    aborted: tuple[int, ...]
    columns: MappedColumns
    first: bool


@dataclass(frozen=True, slots=True)
class RecountTask:
    """A new file.

    Attributes:
        root: The folder that its path is relative to.
        file: The file.
        constraints: The declared properties of its rows in the new directory.
        known: The stripes that were written into the file, by their fingerprints.
    """

    root: Location
    file: StagedFile
    constraints: RowConstraints
    known: dict[bytes, StripeCensus]


@dataclass(frozen=True, slots=True)
class RepetitionTask:
    """Files with delete events of a bucket, with some repeated events."""

    root: Location
    files: tuple[InputFile, ...]
    aborted: tuple[int, ...]


def census_tasks(
    root: Location,
    files: Iterable[CountedFile],
    deletes: tuple[CountedFile, ...],
    aborted: tuple[int, ...],
    columns: MappedColumns,
) -> Iterator[CensusTask]:
    """Yield tasks that count files; small files share a task, which opens the delete files once."""
    most, size, first = bytes_of_a_task(len(deletes)), 0, True
    together: list[CountedFile] = []
    for counted in files:
        if together and size + counted.file.size > most:
            yield CensusTask(root, tuple(together), deletes, aborted, columns, first)
            together, size, first = [], 0, False
        together.append(counted)
        size += counted.file.size
    if together:
        yield CensusTask(root, tuple(together), deletes, aborted, columns, first)


def count_files(task: CensusTask) -> list[tuple[StripeCensus, ...]]:
    """Count the rows or events of each of some files.

    Raises:
        UnsupportedFile: A compaction would drop values of a file.
    """
    with ExitStack() as stack:
        stack.callback(return_memory)
        opened = open_files(stack, task.root, [counted.file for counted in task.counted])
        for counted, (_, tail) in zip(task.counted, opened, strict=True):
            if not counted.constraints.is_delete:
                path = f"{task.root.rstrip('/')}/{counted.file.path}"
                check_names(task.columns, tail.column_names, path)
        if not task.deletes:
            return _census(task, opened, None)
        write_ids = _write_ids([tail for _, tail in opened])
        events = _events(task, write_ids, every_stripe=task.first)
        deleted = DeletedRows(events, most=_MOST_EVENTS)
        shares = deleted.shares
        total = _census(task, opened, deleted)
        for number in range(1, shares):
            events = _events(task, write_ids, every_stripe=False)
            deleted = DeletedRows(events, number=number, shares=shares)
            other = _census(task, opened, deleted)
            total = [
                tuple(
                    replace(stripe, deleted=stripe.deleted + more.deleted)
                    for stripe, more in zip(stripes, others, strict=True)
                )
                for stripes, others in zip(total, other, strict=True)
            ]
        return total


def _census(
    task: CensusTask, opened: Sequence[tuple[Source, OrcTail]], deleted: DeletedRows | None
) -> list[tuple[StripeCensus, ...]]:
    lost = LostRows(deleted, task.aborted)
    censuses = []
    for counted, (source, tail) in zip(task.counted, opened, strict=True):
        with naming(task.root, counted.file.path):
            census = take_census(source, tail, constraints=counted.constraints, lost=lost)
            censuses.append(tuple(census))
    return censuses


def recount_file(task: RecountTask) -> tuple[StripeCensus, ...]:
    """Count the rows or events of a new file."""
    with Storage.of(task.root).open_input(task.file.path) as source:
        tail = OrcTail.read(source)
        with naming(task.root, task.file.path):
            return tuple(take_census(source, tail, constraints=task.constraints, known=task.known))


def count_repeated(task: RepetitionTask) -> Tally:
    """Count repeated delete events of a row, all but the one with the smallest write id."""
    parts: list[Keys] = []
    with ExitStack() as stack:
        for source, tail in open_files(stack, task.root, task.files):
            with closing(read_keys(source, tail)) as batches:
                parts += [keys[~np.isin(keys.current_write_ids, task.aborted)] for keys in batches]
    keys = Keys.joined(parts)
    hashes = hash_row_ids(keys)
    order = np.lexsort((keys.current_write_ids, hashes))
    repeats = np.zeros(len(keys), dtype=np.bool_)
    repeats[order[1:]] = hashes[order[1:]] == hashes[order[:-1]]
    return tally(keys[repeats])


def balance(
    read: Iterable[StripeCensus], written: Sequence[StripeCensus], repeated: Tally, what: str
) -> Balance:
    """Return the balance of a file's input and output, which may be unequal.

    Raises:
        ProofFailed: The rows of the output do not ascend.
    """
    for before, after in pairwise(written):
        if after.first <= before.last:
            raise ProofFailed(f"{what}: {after.first} was written after {before.last}.")
    if any(not stripe.ascends for stripe in written):
        raise ProofFailed(f"{what}: the written row ids do not ascend, or repeat.")
    counted = list(read)
    return Balance(
        read=sum((stripe.rows for stripe in counted), Tally()),
        deleted=sum((stripe.deleted for stripe in counted), Tally()),
        aborted=sum((stripe.aborted for stripe in counted), Tally()),
        repeated=repeated,
        written=sum((stripe.rows for stripe in written), Tally()),
    )


def _events(task: CensusTask, write_ids: range, *, every_stripe: bool) -> Iterator[Keys]:
    """The delete events that apply to rows of some write ids."""
    for delete in task.deletes:
        with ExitStack() as stack:
            ((source, tail),) = open_files(stack, task.root, [delete.file])
            with naming(task.root, delete.file.path):
                for keys in read_events(source, tail, write_ids, every_stripe=every_stripe):
                    delete.constraints.check(keys)
                    relevant = keys.original_write_ids >= write_ids.start
                    relevant &= keys.original_write_ids < write_ids.stop
                    if task.aborted:
                        relevant &= ~np.isin(keys.current_write_ids, task.aborted)
                    if relevant.any():
                        yield keys[relevant]


def _write_ids(tails: Iterable[OrcTail]) -> range:
    """The write ids that rows of some files may have, from their statistics."""
    ranges = [
        tail.int_range(stripe, EnvelopeColumn.ORIGINAL_TRANSACTION)
        for tail in tails
        for stripe in range(len(tail.stripes))
    ]
    known = [ids for ids in ranges if ids is not None]
    if len(known) < len(ranges) or not known:
        return _EVERY_WRITE_ID
    return range(min(chain(*known)), max(chain(*known)) + 1)
