"""The visible rows of one directory of an ACID table, stripe by stripe.

Rows come out in the order of buckets, then of directories, then of the files themselves. In memory
are one stripe and the delete events of one bucket, never a whole table.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np  # noqa: TID253
import pyarrow as pa  # noqa: TID253
from pyarrow import orc  # noqa: TID253

from airflow_hiveacid.acid.deletes import delete_applies
from airflow_hiveacid.acid.directory import AcidDirectory, FileStatus, Rules
from airflow_hiveacid.acid.errors import CorruptFile, UnsupportedFile
from airflow_hiveacid.acid.names import Base, Delta
from airflow_hiveacid.acid.row_id import RowId
from airflow_hiveacid.acid.write_ids import WriteIdList
from airflow_hiveacid.listing import bucket_files
from airflow_hiveacid.storage import Storage, storage_error

# Hive's query-based compaction writes these names in lower case: compared without case, by position.
_ACID_COLUMNS = ("operation", "originaltransaction", "bucket", "rowid", "currenttransaction", "row")
_WRITE_ID, _BUCKET, _ROW_NUMBER, _CURRENT_WRITE_ID, _ROW = range(1, 6)

Int64s = np.ndarray[Any, np.dtype[np.int64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class RowBatch:
    """Some visible rows: the three parts of their row ids, and the table's own columns."""

    write_ids: Int64s
    buckets: Int64s
    rows: Int64s
    columns: pa.RecordBatch

    def __len__(self) -> int:
        return len(self.rows)

    def slice(self, start: int, length: int) -> "RowBatch":
        """Take some of the rows, without copying them."""
        part = slice(start, start + length)
        columns = self.columns.slice(start, length)
        return RowBatch(self.write_ids[part], self.buckets[part], self.rows[part], columns)

    def row_ids(self) -> list[RowId]:
        """Spell out the row ids."""
        parts = (self.write_ids.tolist(), self.buckets.tolist(), self.rows.tolist())
        return [RowId(*key) for key in zip(*parts, strict=True)]


class DeleteEvents:
    """The delete events of one file, found by the key of the row they delete."""

    def __init__(self, write_ids: Int64s, buckets: Int64s, rows: Int64s) -> None:
        order = np.lexsort((rows, buckets, write_ids))
        write_ids, buckets, rows = write_ids[order], buckets[order], rows[order]
        self._rows = {
            (int(write_ids[start]), int(buckets[start])): rows[start:end]
            for start, end in _runs(write_ids, buckets)
        }

    def hits(self, write_id: int, bucket: int, rows: Int64s) -> Bools:
        """Tell which of these rows of one write id and bucket property are deleted."""
        deleted = self._rows.get((write_id, bucket))
        if deleted is None:
            return np.zeros(len(rows), dtype=np.bool_)
        at = np.minimum(np.searchsorted(deleted, rows), len(deleted) - 1)
        hits: Bools = deleted[at] == rows
        return hits


def visible_rows(
    storage: Storage, directory: AcidDirectory, write_ids: WriteIdList, rules: Rules
) -> Iterator[RowBatch]:
    """Read every visible row of one table or partition directory.

    Args:
        storage: The directory that holds the base and the deltas.
        directory: What the snapshot makes of that directory.
        write_ids: The snapshot's write ids; single rows are checked against them as well, since
            a directory of several write ids can hold rows of aborted ones.
        rules: Whose rules say which delete delta applies to which file.

    Raises:
        CorruptFile: A file is not a readable ACID ORC file.
        UnsupportedFile: The directory holds files without row ids (original files).
    """
    data: dict[int, list[tuple[Base | Delta, FileStatus]]] = {}
    deletes: dict[int, list[tuple[Delta, FileStatus]]] = {}
    for parent, bucket, file in bucket_files(storage, directory):
        if isinstance(parent, Delta) and parent.is_delete:
            deletes.setdefault(bucket, []).append((parent, file))
        else:
            data.setdefault(bucket, []).append((parent, file))
    for bucket in sorted(data):
        loaded = [
            (delete, _load_events(storage, file, write_ids))
            for delete, file in deletes.get(bucket, ())
        ]
        for parent, file in data[bucket]:
            # Hive 3 tries every delete delta on every file.
            applied = [
                events
                for delete, events in loaded
                if rules is Rules.HIVE3 or delete_applies(parent, delete)
            ]
            yield from _read_file(storage, file, write_ids, applied)


def _open(storage: Storage, file: FileStatus) -> orc.ORCFile:
    source = storage.open_input(file.path)
    opened = _guard(storage, file, partial(orc.ORCFile, source))
    found = tuple(name.lower() for name in opened.schema.names)
    if found != _ACID_COLUMNS:
        raise UnsupportedFile(
            f"{_full_path(storage, file)} has the columns {', '.join(opened.schema.names)} "
            "instead of those of an ACID file.",
            remedy="Reading plain files is not supported yet; major-compact the table first.",
        )
    return opened


def _read_stripes(
    storage: Storage, file: FileStatus, positions: Sequence[int]
) -> Iterator[list[pa.Array]]:
    opened = _open(storage, file)
    columns = [opened.schema.names[position] for position in positions]
    for stripe in range(opened.nstripes):
        batch = _guard(storage, file, partial(opened.read_stripe, stripe, columns=columns))
        yield batch.columns


def _guard(storage: Storage, file: FileStatus, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except (OSError, pa.ArrowException) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise storage_error(error, _full_path(storage, file)) from error
        if "out of range for nanosecond" in str(error):
            raise UnsupportedFile(
                f"{_full_path(storage, file)} holds a timestamp before 1677 or after 2262.",
                remedy="Read the table with Spark or Hive instead.",
            ) from error
        raise CorruptFile(f"{_full_path(storage, file)} cannot be read as ORC: {error}.") from error


def _full_path(storage: Storage, file: FileStatus) -> str:
    return f"{storage.location.rstrip('/')}/{file.path}"


def _load_events(storage: Storage, file: FileStatus, write_ids: WriteIdList) -> DeleteEvents:
    empty = np.empty(0, dtype=np.int64)
    parts = [(empty, empty, empty)]
    positions = (_WRITE_ID, _BUCKET, _ROW_NUMBER, _CURRENT_WRITE_ID)
    for stripe in _read_stripes(storage, file, positions):
        *key, current = (_int64s(column) for column in stripe)
        keep = _valid(current, write_ids)
        parts.append((key[0][keep], key[1][keep], key[2][keep]))
    return DeleteEvents(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _read_file(
    storage: Storage, file: FileStatus, write_ids: WriteIdList, deletes: Sequence[DeleteEvents]
) -> Iterator[RowBatch]:
    positions = (_WRITE_ID, _BUCKET, _ROW_NUMBER, _CURRENT_WRITE_ID, _ROW)
    for stripe in _read_stripes(storage, file, positions):
        *keys, row = stripe
        write_id, bucket, number, current = (_int64s(column) for column in keys)
        keep = _valid(current, write_ids)
        for start, end in _runs(write_id, bucket):
            for events in deletes:
                keep[start:end] &= ~events.hits(
                    int(write_id[start]), int(bucket[start]), number[start:end]
                )
        if not keep.any():
            continue
        columns = pa.RecordBatch.from_arrays(
            row.flatten(), names=[field.name for field in row.type]
        )
        if not keep.all():
            columns = columns.filter(pa.array(keep))
        yield RowBatch(write_id[keep], bucket[keep], number[keep], columns)


def _int64s(column: pa.Array) -> Int64s:
    result: Int64s = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return result


def _valid(current: Int64s, write_ids: WriteIdList) -> Bools:
    """Tell which rows were written by a visible write id; most files hold a single one."""
    distinct, which = np.unique(current, return_inverse=True)
    visible = np.array([write_ids.is_valid(int(w)) for w in distinct], dtype=np.bool_)
    return visible[which]


def _runs(write_ids: Int64s, buckets: Int64s) -> Iterator[tuple[int, int]]:
    """Cut rows into runs of equal write id and bucket property: few, since files are sorted."""
    if not len(write_ids):
        return
    cuts = np.flatnonzero((np.diff(write_ids) != 0) | (np.diff(buckets) != 0)) + 1
    edges = [0, *cuts.tolist(), len(write_ids)]
    yield from pairwise(edges)
