"""The proof of a compaction of full ACID files: all that went in came out, but what had to go.

It goes its own way. What was read is counted from the files that the plan names, what was written
from the new files as they lie there, and which rows are deleted by looking them up in a set. Of
the new files only what has not been counted before is decoded: a stripe that was copied has the
bytes of one that was.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_hiveacid.acid.proof import Balance, Tally
from airflow_hiveacid.engine.compaction.input_files import InputFile, naming, open_files
from airflow_hiveacid.engine.rows.columns import quoted
from airflow_hiveacid.engine.write.staged_files import StagedFile
from airflow_hiveacid.errors import ProofFailed
from airflow_hiveacid.orc.census import Promise, StripeCensus, hashes_of, take_census
from airflow_hiveacid.orc.digests import Hashes, HashSet, hash_row_ids, tally
from airflow_hiveacid.orc.envelope import EnvelopeColumn
from airflow_hiveacid.orc.key_stream import read_keys
from airflow_hiveacid.orc.keys import Keys
from airflow_hiveacid.orc.tail import OrcTail
from airflow_hiveacid.storage import Storage

_HASHES = 1 << 64
_EVERY_WRITE_ID = range(2**63 - 1)


@dataclass(frozen=True, slots=True)
class CountedFile:
    """A file, the number of its bucket, and what its place says about its rows."""

    bucket: int
    file: InputFile
    promise: Promise


@dataclass(frozen=True, slots=True)
class CensusTask:
    """A file that is counted.

    Attributes:
        root: The partition's folder.
        counted: The file.
        deletes: The files with the delete events that apply to its rows.
        aborted: The write ids whose rows and events do not count.
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
        promise: What its directory will say about its rows.
        known: The stripes that went into it, by their fingerprints.
    """

    root: str
    file: StagedFile
    promise: Promise
    known: dict[bytes, StripeCensus]


@dataclass(frozen=True, slots=True)
class RepetitionTask:
    """The files with delete events of a bucket, of which some stand there more than once."""

    root: str
    files: tuple[InputFile, ...]
    aborted: tuple[int, ...]


def count_file(work: CensusTask) -> tuple[StripeCensus, ...]:
    """Count what a file holds."""
    file = work.counted.file
    with ExitStack() as stack:
        ((source, tail),) = open_files(stack, work.root, [file])
        deleted = None
        if work.deletes:
            hashes = list(_deleted(work, _write_ids(tail)))
            deleted = HashSet(np.concatenate(hashes)) if hashes else None
        with naming(work.root, file.path):
            promise, aborted = work.counted.promise, work.aborted
            return tuple(
                take_census(source, tail, promise=promise, deleted=deleted, aborted=aborted)
            )


def recount_file(work: RecountTask) -> tuple[StripeCensus, ...]:
    """Count what a new file holds."""
    with Storage.of(work.root).open_input(work.file.path) as source:
        tail = OrcTail.read(source)
        with naming(work.root, work.file.path):
            return tuple(take_census(source, tail, promise=work.promise, known=work.known))


def count_repeated(work: RepetitionTask) -> Tally:
    """Count the delete events that name a row once more; the one of the smallest write id counts."""
    parts: list[Keys] = []
    with ExitStack() as stack:
        for source, tail in open_files(stack, work.root, work.files):
            with closing(read_keys(source, tail)) as batches:
                parts += [keys[~np.isin(keys.current_write_ids, work.aborted)] for keys in batches]
    keys = Keys.joined(parts)
    hashes = hash_row_ids(keys)
    order = np.lexsort((keys.current_write_ids, hashes))
    repeats = np.zeros(len(keys), dtype=np.bool_)
    repeats[order[1:]] = hashes[order[1:]] == hashes[order[:-1]]
    return tally(keys[repeats], hashes[repeats])


def tally_values(frame: DataFrame) -> Tally:
    """Count rows by all their values.

    Args:
        frame: The rows, of a session made by ``scan_session`` for this.
    """
    # The entries of a map stand in the same order as long as nobody writes them again.
    frame.sparkSession.conf.set("spark.sql.legacy.allowHashOnMapType", "true")
    hashes = F.xxhash64(*[F.col(quoted(name)) for name in frame.columns])
    (row,) = frame.agg(F.count(F.lit(1)), F.sum(hashes.cast("decimal(20,0)"))).collect()
    return Tally(row[0], int(row[1] or 0) % _HASHES)


def balance(
    read: Iterable[StripeCensus], written: Sequence[StripeCensus], repeated: Tally, what: str
) -> Balance:
    """What went into a file and what came out; it may still be unequal.

    Raises:
        ProofFailed: The rows that came out do not ascend.
    """
    for before, after in pairwise(written):
        if after.first <= before.last:
            raise ProofFailed(f"{what}: {after.first} came out behind {before.last}.")
    if any(not each.ascends for each in written):
        raise ProofFailed(f"{what}: the row ids that came out do not ascend, or repeat.")
    counted = list(read)
    return Balance(
        read=sum((each.rows for each in counted), Tally()),
        deleted=sum((each.deleted for each in counted), Tally()),
        aborted=sum((each.aborted for each in counted), Tally()),
        repeated=repeated,
        written=sum((each.rows for each in written), Tally()),
    )


def _deleted(work: CensusTask, write_ids: range) -> Iterator[Hashes]:
    """The row ids that the delete events name."""
    for delete in work.deletes:
        with ExitStack() as stack:
            ((source, tail),) = open_files(stack, work.root, [delete.file])
            with naming(work.root, delete.file.path):
                yield from hashes_of(source, tail, delete.promise, work.aborted, write_ids)


def _write_ids(tail: OrcTail) -> range:
    """The write ids that rows of a file may have, by its statistics."""
    ranges = [
        tail.int_range(stripe, EnvelopeColumn.ORIGINAL_TRANSACTION)
        for stripe in range(len(tail.stripes))
    ]
    known = [each for each in ranges if each is not None]
    if len(known) < len(ranges) or not known:
        return _EVERY_WRITE_ID
    return range(min(chain(*known)), max(chain(*known)) + 1)
