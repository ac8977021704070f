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
from airflow_hiveacid.acid.directory import AcidDirectory, Rules
from airflow_hiveacid.acid.errors import CorruptFile, UnsupportedFile
from airflow_hiveacid.acid.names import Base, Delta
from airflow_hiveacid.acid.originals import SyntheticIds, synthetic_ids, written_by
from airflow_hiveacid.acid.row_id import RowId
from airflow_hiveacid.acid.write_ids import WriteIdList
from airflow_hiveacid.listing import DataFile, data_files, open_data, read_tail
from airflow_hiveacid.storage import Storage, storage_error

# Hive's query-based compaction writes these names in lower case: compared without case, by position.
_ACID_COLUMNS = ("operation", "originaltransaction", "bucket", "rowid", "currenttransaction", "row")
_WRITE_ID, _BUCKET, _ROW_NUMBER, _CURRENT_WRITE_ID, _ROW = range(1, 6)
# Rows of a file without a bucket number in its name have no row ids; nothing can delete them.
_NO_BUCKET = -1

Int64s = np.ndarray[Any, np.dtype[np.int64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class RowBatch:
    """Some visible rows: the three parts of their row ids, and the table's own columns.

    Days before October 1582 are counted by the calendar of that time if `julian` is true.
    """

    write_ids: Int64s
    buckets: Int64s
    rows: Int64s
    columns: pa.RecordBatch
    julian: bool

    def __len__(self) -> int:
        return len(self.rows)

    def slice(self, start: int, length: int) -> "RowBatch":
        """Take some of the rows, without copying them."""
        part = slice(start, start + length)
        columns = self.columns.slice(start, length)
        return RowBatch(
            self.write_ids[part], self.buckets[part], self.rows[part], columns, self.julian
        )

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
        CorruptFile: A file is not a readable ORC file.
        UnsupportedFile: A file holds what Arrow cannot read.
    """
    data: dict[int, list[DataFile]] = {}
    deletes: dict[int, list[tuple[Delta, DataFile]]] = {}
    for file in data_files(storage, directory):
        bucket = _NO_BUCKET if file.bucket is None else file.bucket
        if isinstance(file.directory, Delta) and file.directory.is_delete:
            deletes.setdefault(bucket, []).append((file.directory, file))
        else:
            data.setdefault(bucket, []).append(file)
    ids = _synthetic_ids(storage, [file for group in data.values() for file in group if file.raw])
    for bucket in sorted(data):
        loaded = [
            (delete, _load_events(storage, file, write_ids))
            for delete, file in deletes.get(bucket, ())
        ]
        for file in data[bucket]:
            # Hive 3 tries every delete delta on every file.
            applied = [
                events
                for delete, events in loaded
                if rules is Rules.HIVE3 or delete_applies(file.directory, delete)
            ]
            stripes = (
                _numbered_stripes(storage, file, ids[file.path])
                if file.raw
                else _acid_stripes(storage, file, write_ids)
            )
            for batch, keep in stripes:
                yield from _visible(batch, keep, applied)


def _synthetic_ids(storage: Storage, raw: Sequence[DataFile]) -> dict[str, SyntheticIds]:
    """The row ids of files that have none in them, by their paths."""
    rows: dict[Base | Delta | None, dict[str, int]] = {}
    for file in raw:
        rows.setdefault(file.directory, {})[file.path] = _open(storage, file).nrows
    counted = (synthetic_ids(group, *written_by(parent)) for parent, group in rows.items())
    return {ids.path: ids for group in counted for ids in group}


def _open(storage: Storage, file: DataFile) -> orc.ORCFile:
    return _guard(storage, file, lambda: orc.ORCFile(open_data(storage, file)))


def _read_stripes(
    storage: Storage, file: DataFile, positions: Sequence[int]
) -> Iterator[list[pa.Array]]:
    opened = _open(storage, file)
    found = tuple(name.lower() for name in opened.schema.names)
    if found != _ACID_COLUMNS:
        raise UnsupportedFile(
            f"{_full_path(storage, file)} has the columns {', '.join(opened.schema.names)} "
            "instead of those of an ACID file.",
            remedy="Look who wrote it: its name says that it has row ids.",
        )
    columns = [opened.schema.names[position] for position in positions]
    for stripe in range(opened.nstripes):
        batch = _guard(storage, file, partial(opened.read_stripe, stripe, columns=columns))
        yield batch.columns


def _guard(storage: Storage, file: DataFile, read: Callable[[], Any]) -> Any:
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


def _full_path(storage: Storage, file: DataFile) -> str:
    return f"{storage.location.rstrip('/')}/{file.path}"


def _load_events(storage: Storage, file: DataFile, write_ids: WriteIdList) -> DeleteEvents:
    empty = np.empty(0, dtype=np.int64)
    parts = [(empty, empty, empty)]
    positions = (_WRITE_ID, _BUCKET, _ROW_NUMBER, _CURRENT_WRITE_ID)
    for stripe in _read_stripes(storage, file, positions):
        *key, current = (_int64s(column) for column in stripe)
        keep = _valid(current, write_ids)
        parts.append((key[0][keep], key[1][keep], key[2][keep]))
    return DeleteEvents(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _acid_stripes(
    storage: Storage, file: DataFile, write_ids: WriteIdList
) -> Iterator[tuple[RowBatch, Bools]]:
    """The rows of a file that has row ids, and which of them were written visibly."""
    positions = (_WRITE_ID, _BUCKET, _ROW_NUMBER, _CURRENT_WRITE_ID, _ROW)
    julian = read_tail(storage, file.path, file.size).is_julian
    for stripe in _read_stripes(storage, file, positions):
        *keys, row = stripe
        write_id, bucket, number, current = (_int64s(column) for column in keys)
        columns = pa.RecordBatch.from_arrays(
            row.flatten(), names=[field.name for field in row.type]
        )
        yield RowBatch(write_id, bucket, number, columns, julian), _valid(current, write_ids)


def _numbered_stripes(
    storage: Storage, file: DataFile, ids: SyntheticIds
) -> Iterator[tuple[RowBatch, Bools]]:
    """The rows of a file without row ids, which all are visible, with the ids that Hive counts."""
    opened = _open(storage, file)
    julian = read_tail(storage, file.path, file.size).is_julian
    first = ids.first_row
    for stripe in range(opened.nstripes):
        columns = _guard(storage, file, partial(opened.read_stripe, stripe))
        rows = len(columns)
        write_id = np.full(rows, ids.write_id, dtype=np.int64)
        bucket = np.full(rows, _NO_BUCKET if ids.bucket is None else ids.bucket, dtype=np.int64)
        number = np.arange(first, first + rows, dtype=np.int64)
        first += rows
        yield RowBatch(write_id, bucket, number, columns, julian), np.ones(rows, dtype=np.bool_)


def _visible(batch: RowBatch, keep: Bools, deletes: Sequence[DeleteEvents]) -> Iterator[RowBatch]:
    """What is left of some rows."""
    for start, end in _runs(batch.write_ids, batch.buckets):
        for events in deletes:
            keep[start:end] &= ~events.hits(
                int(batch.write_ids[start]), int(batch.buckets[start]), batch.rows[start:end]
            )
    if not keep.any():
        return
    columns = batch.columns if keep.all() else batch.columns.filter(pa.array(keep))
    keys = (batch.write_ids[keep], batch.buckets[keep], batch.rows[keep])
    yield RowBatch(*keys, columns, batch.julian)


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
