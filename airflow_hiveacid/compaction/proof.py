"""Proof of a compaction of full ACID files: the output contains every input row that must be kept.

The proof uses separate code. The input is counted from the files that the plan names, the output
from the new files as stored, and deleted rows are found by lookup in a set. Of the new files, only
stripes without an earlier count are decoded: a copied stripe has the same bytes as the counted one.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np

from airflow_hiveacid.acid.proof import Balance, Tally
from airflow_hiveacid.compaction.input_files import InputFile, naming, open_files
from airflow_hiveacid.errors import ProofFailed
from airflow_hiveacid.orc.format.envelope import EnvelopeColumn
from airflow_hiveacid.orc.format.tail import OrcTail
from airflow_hiveacid.orc.row_keys.census import (
    RowConstraints,
    StripeCensus,
    hashes_of,
    take_census,
)
from airflow_hiveacid.orc.row_keys.digests import Hashes, HashSet, hash_row_ids, tally
from airflow_hiveacid.orc.row_keys.key_stream import read_keys
from airflow_hiveacid.orc.row_keys.keys import Keys
from airflow_hiveacid.staging.staged_files import StagedFile
from airflow_hiveacid.storage.folder import Storage

_EVERY_WRITE_ID = range(2**63 - 1)


@dataclass(frozen=True, slots=True)
class CountedFile:
    """A file, the number of its bucket, and the declared properties of its rows."""

    bucket: int
    file: InputFile
    constraints: RowConstraints


@dataclass(frozen=True, slots=True)
class CensusTask:
    """A file that is counted.

    Attributes:
        root: The partition's folder.
        counted: The file.
        deletes: The files with the delete events that apply to its rows.
        aborted: The aborted write ids, whose rows and events are excluded.
    """

    root: str
    counted: CountedFile
    deletes: tuple[CountedFile, ...]
    aborted: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RecountTask:
    """A new file.

    Attributes:
        root: The folder that its path is relative to.
        file: The file.
        constraints: The declared properties of its rows in the new directory.
        known: The stripes that were written into the file, by their fingerprints.
    """

    root: str
    file: StagedFile
    constraints: RowConstraints
    known: dict[bytes, StripeCensus]


@dataclass(frozen=True, slots=True)
class RepetitionTask:
    """Files with delete events of a bucket, with some repeated events."""

    root: str
    files: tuple[InputFile, ...]
    aborted: tuple[int, ...]


def count_file(task: CensusTask) -> tuple[StripeCensus, ...]:
    """Count the rows or events of a file."""
    file = task.counted.file
    with ExitStack() as stack:
        ((source, tail),) = open_files(stack, task.root, [file])
        deleted = None
        if task.deletes:
            hashes = list(_deleted(task, _write_ids(tail)))
            deleted = HashSet(np.concatenate(hashes)) if hashes else None
        with naming(task.root, file.path):
            constraints, aborted = task.counted.constraints, task.aborted
            return tuple(
                take_census(source, tail, constraints=constraints, deleted=deleted, aborted=aborted)
            )


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
    return tally(keys[repeats], hashes[repeats])


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


def _deleted(task: CensusTask, write_ids: range) -> Iterator[Hashes]:
    """The row ids in the delete events."""
    for delete in task.deletes:
        with ExitStack() as stack:
            ((source, tail),) = open_files(stack, task.root, [delete.file])
            with naming(task.root, delete.file.path):
                yield from hashes_of(source, tail, delete.constraints, task.aborted, write_ids)


def _write_ids(tail: OrcTail) -> range:
    """The write ids that rows of a file may have, from its statistics."""
    ranges = [
        tail.int_range(stripe, EnvelopeColumn.ORIGINAL_TRANSACTION)
        for stripe in range(len(tail.stripes))
    ]
    known = [ids for ids in ranges if ids is not None]
    if len(known) < len(ranges) or not known:
        return _EVERY_WRITE_ID
    return range(min(chain(*known)), max(chain(*known)) + 1)
