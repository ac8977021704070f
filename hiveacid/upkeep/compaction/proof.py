"""Proof of a compaction of full ACID files: the output contains every input row that must be kept.

The proof uses separate code. The input is counted from the files that the plan names, the output
from the new files as stored, and deleted rows are found by lookup in a set. Of the new files, only
stripes without an earlier count are decoded: a copied stripe has the same bytes as the counted one.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from itertools import chain, pairwise

import numpy as np

from hiveacid.dataclass import dataclass
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
    for (path, _), field_names in zip(files, names, strict=True):
        check_names(columns, field_names, f"{storage.location.rstrip('/')}/{path}")


def check_names(columns: MappedColumns, names_in_file: Sequence[str], path: str) -> None:
    """Refuse a file if a compaction would drop values of it.

    Args:
        columns: The columns of the table.
        names_in_file: The names of the columns of the file.
        path: The file.

    Raises:
        UnsupportedFile: A compaction would drop values of the file.
    """
    columns.fields(names_in_file)
    if not columns.is_ambiguous(names_in_file):
        return
    by_position = columns.mapping is ColumnMapping.POSITION
    if by_position and len(names_in_file) <= len(columns.names):
        return
    raise UnsupportedFile(
        f"{path} has the columns {', '.join(names_in_file)}, and the table has {', '.join(columns.names)}:"
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
    aborted_ids: tuple[int, ...],
    columns: MappedColumns,
) -> Iterator[CensusTask]:
    """Yield tasks that count files; small files share a task, which opens the delete files once."""
    limit, size, first = bytes_of_a_task(len(deletes)), 0, True
    files_of_task: list[CountedFile] = []
    for file in files:
        if files_of_task and size + file.file.size > limit:
            yield CensusTask(root, tuple(files_of_task), deletes, aborted_ids, columns, first)
            files_of_task, size, first = [], 0, False
        files_of_task.append(file)
        size += file.file.size
    if files_of_task:
        yield CensusTask(root, tuple(files_of_task), deletes, aborted_ids, columns, first)


def count_files(task: CensusTask) -> list[tuple[StripeCensus, ...]]:
    """Count the rows or events of each of some files.

    Raises:
        UnsupportedFile: A compaction would drop values of a file.
    """
    with ExitStack() as stack:
        stack.callback(return_memory)
        sources = open_files(stack, task.root, [counted_file.file for counted_file in task.counted])
        for counted_file, (_, tail) in zip(task.counted, sources, strict=True):
            if not counted_file.constraints.is_delete:
                path = f"{task.root.rstrip('/')}/{counted_file.file.path}"
                check_names(task.columns, tail.column_names, path)
        if not task.deletes:
            return _census(task, sources, None)
        write_ids = _write_ids([tail for _, tail in sources])
        events = _events(task, write_ids, every_stripe=task.first)
        deleted = DeletedRows(events, limit=_MOST_EVENTS)
        shares = deleted.shares
        total = _census(task, sources, deleted)
        for number in range(1, shares):
            events = _events(task, write_ids, every_stripe=False)
            deleted = DeletedRows(events, number=number, shares=shares)
            censuses = _census(task, sources, deleted)
            total = [
                tuple(
                    replace(stripe, deleted=stripe.deleted + stripe_with_deletes.deleted)
                    for stripe, stripe_with_deletes in zip(
                        stripes, stripes_with_deletes, strict=True
                    )
                )
                for stripes, stripes_with_deletes in zip(total, censuses, strict=True)
            ]
        return total


def _census(
    task: CensusTask, sources: Sequence[tuple[Source, OrcTail]], deleted: DeletedRows | None
) -> list[tuple[StripeCensus, ...]]:
    lost_rows = LostRows(deleted, task.aborted)
    censuses = []
    for counted_file, (source, tail) in zip(task.counted, sources, strict=True):
        with naming(task.root, counted_file.file.path):
            census = take_census(
                source, tail, constraints=counted_file.constraints, lost_rows=lost_rows
            )
            censuses.append(tuple(census))
    return censuses


def recount_file(task: RecountTask) -> tuple[StripeCensus, ...]:
    """Count the rows or events of a new file."""
    with Storage.of(task.root).open_input(task.file.path) as source:
        tail = OrcTail.read(source)
        with naming(task.root, task.file.path):
            return tuple(
                take_census(source, tail, constraints=task.constraints, earlier_censuses=task.known)
            )


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
    read: Iterable[StripeCensus],
    written_stripes: Sequence[StripeCensus],
    repeated: Tally,
    subject: str,
) -> Balance:
    """Return the balance of a file's input and output, which may be unequal.

    Raises:
        ProofFailed: The rows of the output do not ascend.
    """
    for predecessor, successor in pairwise(written_stripes):
        if successor.first <= predecessor.last:
            raise ProofFailed(f"{subject}: {successor.first} was written after {predecessor.last}.")
    if any(not stripe.ascends for stripe in written_stripes):
        raise ProofFailed(f"{subject}: the written row ids do not ascend, or repeat.")
    stripes = list(read)
    return Balance(
        read=sum((stripe.rows for stripe in stripes), Tally()),
        deleted=sum((stripe.deleted for stripe in stripes), Tally()),
        aborted=sum((stripe.aborted for stripe in stripes), Tally()),
        repeated=repeated,
        written=sum((stripe.rows for stripe in written_stripes), Tally()),
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
    bounds = [ids for ids in ranges if ids is not None]
    if len(bounds) < len(ranges) or not bounds:
        return _EVERY_WRITE_ID
    return range(min(chain(*bounds)), max(chain(*bounds)) + 1)
