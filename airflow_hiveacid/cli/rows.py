"""The visible rows of one directory of an ACID table, some at a time.

Rows come out in the order of buckets, then of directories, then of the files themselves. In memory
are some rows and the delete events of one bucket, never a whole table.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np  # noqa: TID253
import pyarrow as pa  # noqa: TID253

from airflow_hiveacid.acid.directory import AcidDirectory, Rules
from airflow_hiveacid.acid.names import Base, Delta, delete_applies
from airflow_hiveacid.acid.originals import SyntheticIds, synthetic_ids, written_by
from airflow_hiveacid.acid.row_id import RowId
from airflow_hiveacid.acid.write_ids import WriteIdList
from airflow_hiveacid.errors import CorruptFile, DataError, UnsupportedFile
from airflow_hiveacid.filesystems import storage_error
from airflow_hiveacid.listing import DataFile, data_files, open_data, read_tail
from airflow_hiveacid.orc.arrow_memory import rows_at_a_time
from airflow_hiveacid.orc.batches import read_batches
from airflow_hiveacid.orc.envelope import TypeField
from airflow_hiveacid.orc.keys import key_names
from airflow_hiveacid.orc.protobuf import Message
from airflow_hiveacid.orc.tail import OrcTail
from airflow_hiveacid.storage import Storage

_MOST_ROWS = 65_536
_ROW_ID_PARTS = 4
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
            batches = (
                _numbered_rows(storage, file, ids[file.path])
                if file.raw
                else _acid_rows(storage, file, write_ids)
            )
            for batch, keep in batches:
                yield from _visible(batch, keep, applied)


def _synthetic_ids(storage: Storage, raw: Sequence[DataFile]) -> dict[str, SyntheticIds]:
    """The row ids of files that have none in them, by their paths."""
    rows: dict[Base | Delta | None, dict[str, int]] = {}
    for file in raw:
        tail = read_tail(storage, file.path, file.size)
        rows.setdefault(file.directory, {})[file.path] = tail.rows
    counted = (synthetic_ids(group, *written_by(parent)) for parent, group in rows.items())
    return {ids.path: ids for group in counted for ids in group}


def _columns(storage: Storage, file: DataFile, tail: OrcTail) -> list[str]:
    """What a file of a full ACID table calls its six columns."""
    fields = Message.decode(tail.types[0]).all_data(TypeField.FIELD_NAMES)
    names = [name.decode() for name in fields]
    if not tail.is_acid:
        raise UnsupportedFile(
            f"{_full_path(storage, file)} has the columns {', '.join(names)} "
            "instead of those of an ACID file.",
            remedy="Look who wrote it: its name says that it has row ids.",
        )
    return names


def _read(
    storage: Storage, file: DataFile, tail: OrcTail, columns: Sequence[str] | None
) -> Iterator[pa.RecordBatch]:
    """Some columns of a file, or all of them."""
    try:
        if columns is not None:
            key_names(tail.types)
        with open_data(storage, file) as source:
            stripes = range(len(tail.stripes))
            rows = min((rows_at_a_time(source, tail, stripe) for stripe in stripes), default=1)
            with closing(
                read_batches(source, tail, columns=columns, rows=min(rows, _MOST_ROWS))
            ) as batches:
                for batch in batches:
                    if columns is not None and any(
                        batch.column(name).null_count for name in columns[:_ROW_ID_PARTS]
                    ):
                        raise CorruptFile("There are rows whose row id is null.")
                    yield batch
    except OSError as error:
        raise storage_error(error, _full_path(storage, file)) from error
    except DataError as error:
        path = _full_path(storage, file)
        if "nanosecond" in error.what:
            raise UnsupportedFile(
                f"{path} holds a timestamp before 1677 or after 2262.",
                remedy="Read the table with Spark or Hive instead.",
            ) from error
        raise type(error)(f"{path}: {error.what}", remedy=error.remedy) from error


def _full_path(storage: Storage, file: DataFile) -> str:
    return f"{storage.location.rstrip('/')}/{file.path}"


def _load_events(storage: Storage, file: DataFile, write_ids: WriteIdList) -> DeleteEvents:
    empty = np.empty(0, dtype=np.int64)
    parts = [(empty, empty, empty)]
    tail = read_tail(storage, file.path, file.size)
    names = _columns(storage, file, tail)
    positions = (_WRITE_ID, _BUCKET, _ROW_NUMBER, _CURRENT_WRITE_ID)
    for batch in _read(storage, file, tail, [names[position] for position in positions]):
        *key, current = (_int64s(column) for column in batch.columns)
        keep = _valid(current, write_ids)
        parts.append((key[0][keep], key[1][keep], key[2][keep]))
    return DeleteEvents(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _acid_rows(
    storage: Storage, file: DataFile, write_ids: WriteIdList
) -> Iterator[tuple[RowBatch, Bools]]:
    """The rows of a file that has row ids, and which of them were written visibly."""
    tail = read_tail(storage, file.path, file.size)
    names = _columns(storage, file, tail)
    positions = (_WRITE_ID, _BUCKET, _ROW_NUMBER, _CURRENT_WRITE_ID, _ROW)
    for batch in _read(storage, file, tail, [names[position] for position in positions]):
        *keys, row = batch.columns
        write_id, bucket, number, current = (_int64s(column) for column in keys)
        columns = pa.RecordBatch.from_arrays(
            row.flatten(), names=[field.name for field in row.type]
        )
        yield (
            RowBatch(write_id, bucket, number, columns, tail.is_julian),
            _valid(current, write_ids),
        )


def _numbered_rows(
    storage: Storage, file: DataFile, ids: SyntheticIds
) -> Iterator[tuple[RowBatch, Bools]]:
    """The rows of a file without row ids, which all are visible, with the ids that Hive counts."""
    tail = read_tail(storage, file.path, file.size)
    first = ids.first_row
    for columns in _read(storage, file, tail, None):
        rows = len(columns)
        write_id = np.full(rows, ids.write_id, dtype=np.int64)
        bucket = np.full(rows, _NO_BUCKET if ids.bucket is None else ids.bucket, dtype=np.int64)
        number = np.arange(first, first + rows, dtype=np.int64)
        first += rows
        yield RowBatch(write_id, bucket, number, columns, tail.is_julian), np.ones(rows, np.bool_)


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
