"""The rows of one ORC file as Arrow batches, with column selection and times of all eras."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hiveacid.dataclass import dataclass
from hiveacid.errors import CorruptFile, DataError, UnsupportedFile
from hiveacid.orc.format.batches import read_batches, with_stripes
from hiveacid.orc.format.column_view import only_columns
from hiveacid.orc.format.compression import Source
from hiveacid.orc.format.envelope import (
    EnvelopeColumn,
    RowOperation,
    TypeField,
    TypeKind,
    kind_of,
    with_column_names,
)
from hiveacid.orc.format.protobuf import Message
from hiveacid.orc.format.statistics import COUNT, integer_range
from hiveacid.orc.format.streams import UTC, Integers
from hiveacid.orc.format.tail import OrcTail
from hiveacid.orc.row_keys.key_stream import read_keys
from hiveacid.orc.row_keys.keys import key_names
from hiveacid.orc.row_keys.row_id_set import Mask, RowIds
from hiveacid.orc.values.timestamps import split_timestamps, timestamp_clock
from hiveacid.rules.schema import AS_STORED, MappedColumns
from hiveacid.rules.write_ids import Range, WriteIdList
from hiveacid.storage.filesystems import translated_os_errors
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.listing import DataFile, open_data, read_tail
from hiveacid.tables.scan.row_filter import StripeChoice
from hiveacid.tables.scan.times import of_orc

_MOST_ROWS = 65_536
# The share of a file that a thread reads: small enough that all its batches can wait.
_SHARE_BYTES = 16 << 20
# The parts of a row id, and the write id that wrote or deleted the row.
_KEY = (
    EnvelopeColumn.ORIGINAL_TRANSACTION,
    EnvelopeColumn.BUCKET,
    EnvelopeColumn.ROW_ID,
    EnvelopeColumn.CURRENT_TRANSACTION,
)


class KeyedRows(NamedTuple):
    """Some rows of a file that has row ids.

    Attributes:
        ids: The row ids.
        current: The write ids that wrote the rows.
        columns: The table's own columns.
    """

    ids: RowIds
    current: Integers
    columns: pa.RecordBatch


@dataclass(frozen=True)
class OrcFile:
    """A file of a transactional table.

    Attributes:
        storage: The folder of its partition.
        file: The file.
        columns: All columns stored in files of the table.
        choice: Chooses the stripes to read; by default all.
    """

    storage: ReadOnlyStorage
    file: DataFile
    columns: MappedColumns = AS_STORED
    choice: StripeChoice | None = None

    def keyed(self, columns: Collection[str] | None = None) -> Iterator[KeyedRows]:
        """Read the rows of a file with row ids.

        Args:
            columns: The table's columns to read, in any case; by default all.

        Raises:
            CorruptFile: The file cannot be read.
            UnsupportedFile: Its columns are not those of an ACID file.
        """
        tail = self._acid_tail()
        column_numbers = [*_KEY, *_columns_of(tail, EnvelopeColumn.ROW, columns)]
        with self._errors():
            key_names(tail.types)
        for batch in self._batches(tail, column_numbers):
            keys = batch.columns[: len(_KEY)]
            if any(key.null_count for key in keys):
                raise CorruptFile(f"{self._path}: There are rows whose row id is null.")
            row = batch.columns[len(_KEY) :]
            *ids, current = map(_int64s, keys)
            yield KeyedRows(RowIds(*ids), current, _fields_of(row, len(batch)))

    def events(self, write_ids: WriteIdList | None) -> Iterator[RowIds]:
        """Read the row ids in the delete events of a file.

        Args:
            write_ids: The write ids that the reader sees; by default all.

        Raises:
            CorruptFile: The file cannot be read, or holds other events.
            UnsupportedFile: Its columns are not those of an ACID file.
        """
        tail = self._acid_tail()
        with (
            self._errors(),
            open_data(self.storage, self.file) as source,
            closing(read_keys(source, tail, rows=_MOST_ROWS)) as batches,
        ):
            for keys in batches:
                other = keys.operations[keys.operations != RowOperation.DELETE]
                if len(other):
                    raise CorruptFile(
                        f"{self._path} holds events of operation {other[0]}, which do not belong "
                        "into its directory."
                    )
                ids = keys.row_ids()
                if write_ids is not None:
                    ids = ids.only(are_valid(keys.current_write_ids, write_ids))
                yield ids

    def without_ids(
        self, columns: Collection[str], write_ids: WriteIdList
    ) -> Iterator[pa.RecordBatch] | None:
        """Read the rows of a file with row ids without these.

        Args:
            columns: The table's columns to read, in any case.
            write_ids: The write ids that the reader sees.

        Returns:
            The rows, or nothing if the row ids are needed: to find visible rows, or as the only
                columns.
        """
        tail = self._acid_tail()
        column_numbers = _columns_of(tail, EnvelopeColumn.ROW, columns)
        if not column_numbers or not _shows_all(tail, write_ids):
            return None
        return (
            _fields_of(batch.columns, len(batch)) for batch in self._batches(tail, column_numbers)
        )

    def count(self, write_ids: WriteIdList) -> int | None:
        """Return the number of rows, by the footer; None if the row ids decide which are visible.

        Args:
            write_ids: The write ids that the reader sees.
        """
        tail = self._acid_tail()
        return tail.rows if _shows_all(tail, write_ids) else None

    def _acid_tail(self) -> OrcTail:
        tail = self._tail
        if not tail.is_acid:
            fields = Message.decode(tail.types[0]).all_data(TypeField.FIELD_NAMES)
            field_names = ", ".join(name.decode(errors="replace") for name in fields)
            raise UnsupportedFile(
                f"{self._path} has the columns {field_names} instead of those of an ACID file.",
                remedy="Check its writer: by its name it has row ids.",
            )
        return tail

    def flat(self, columns: Collection[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Read the rows of a file without row ids; see ``keyed``.

        At least one column is read, since batches without columns have no length.
        """
        tail = self._tail
        column_numbers = _columns_of(tail, EnvelopeColumn.ROOT, columns)
        yield from self._batches(tail, column_numbers or [1])

    @cached_property
    def _tail(self) -> OrcTail:
        tail = read_tail(self.storage, self.file.path, self.file.size)
        return replace(tail, types=with_column_names(tail.types, self.columns))

    def _batches(self, tail: OrcTail, columns: Sequence[int]) -> Iterator[pa.RecordBatch]:
        choices = [True] * len(tail.stripes) if self.choice is None else self.choice.stripes(tail)
        stripe_numbers = [number for number, is_read in enumerate(choices) if is_read]
        if not stripe_numbers:
            return
        with self._errors(), open_data(self.storage, self.file) as stream:
            source, tail = only_columns(stream, with_stripes(tail, stripe_numbers), columns)
            clocks = _clocks(source, tail)
            for clock, stripes in groupby(range(len(tail.stripes)), key=clocks.__getitem__):
                view, split = split_timestamps(source, tail, list(stripes))
                with closing(read_batches(view, split, rows=_MOST_ROWS)) as batches:
                    for batch in batches:
                        yield pa.RecordBatch.from_arrays(
                            [
                                of_orc(column, julian=tail.is_julian, clock=clock)
                                for column in batch.columns
                            ],
                            names=batch.schema.names,
                        )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Add the name of the file to errors."""
        try:
            with translated_os_errors(self._path):
                yield
        except DataError as error:
            if error.what.startswith(self._path):
                raise
            raise type(error)(f"{self._path}: {error.what}", remedy=error.remedy) from error

    @property
    def _path(self) -> str:
        return f"{self.storage.location.rstrip('/')}/{self.file.path}"


@dataclass(frozen=True)
class _StripeShare:
    """One of several successive shares of the stripes of a file."""

    number: int
    count: int
    choice: StripeChoice | None

    def stripes(self, tail: OrcTail) -> list[bool]:
        """Return for each stripe whether it is read."""
        all_of_them = len(tail.stripes)
        choices = [True] * all_of_them if self.choice is None else self.choice.stripes(tail)
        first, end = (
            all_of_them * number // self.count for number in (self.number, self.number + 1)
        )
        return [is_read and first <= index < end for index, is_read in enumerate(choices)]


def shares_of(file: DataFile, choice: StripeChoice | None) -> list[StripeChoice | None]:
    """Return choices of stripes that divide a large file, in the order of the rows.

    Args:
        file: The file.
        choice: The choice among all its stripes; by default all.
    """
    count = file.size // _SHARE_BYTES
    return (
        [_StripeShare(number, count, choice) for number in range(count)] if count > 1 else [choice]
    )


def _clocks(source: Source, tail: OrcTail) -> list[str | None]:
    """Return the time zone of the timestamps of each stripe."""
    clocks = [timestamp_clock(source, tail, number) for number in range(len(tail.stripes))]
    if {*clocks} - {None, "", UTC} and TypeKind.TIMESTAMP_INSTANT in map(kind_of, tail.types):
        raise UnsupportedFile(
            "There are timestamps by the clock of their writer beside others with a time zone.",
            remedy="Read the table with Spark.",
        )
    return clocks


def _shows_all(tail: OrcTail, write_ids: WriteIdList) -> bool:
    """Return whether all rows of a file with row ids are visible, as its statistics prove."""
    write_id_statistics = tail.file_statistics[EnvelopeColumn.CURRENT_TRANSACTION :][:1]
    if not write_id_statistics or Message.decode(write_id_statistics[0]).number(COUNT) != tail.rows:
        return False
    bounds = integer_range(write_id_statistics[0])
    return bounds is not None and write_ids.range_valid(*bounds) is Range.ALL


def _columns_of(tail: OrcTail, root: int, names: Collection[str] | None) -> list[int]:
    """Return the numbers of the named columns; of names that differ only by case, the first."""
    if names is None:
        return [root]
    numbers = Message.decode(tail.types[root]).all_numbers(TypeField.SUBTYPES)
    field_names = [name.decode(errors="replace").lower() for name in _field_names(tail, root)]
    places = dict(reversed(list(zip(field_names, numbers, strict=False))))
    return [places[name] for name in {name.lower() for name in names} if name in places]


def _field_names(tail: OrcTail, column: int) -> list[bytes]:
    return Message.decode(tail.types[column]).all_data(TypeField.FIELD_NAMES)


def _fields_of(row: Sequence[pa.Array], rows: int) -> pa.RecordBatch:
    """Return the columns of the table, which are fields of one column of the file."""
    if row:
        names = [field.name for field in row[0].type]
        return pa.RecordBatch.from_arrays(row[0].flatten(), names=names)
    # Without a column the number of rows would be unknown.
    return pa.RecordBatch.from_arrays([pa.nulls(rows)], names=[""])


def are_valid(current: Integers, write_ids: WriteIdList) -> Mask:
    """Return for each row whether its write id is visible; most files have a single write id."""
    if len(current) and (current == current[0]).all():
        return np.full(len(current), write_ids.is_valid(int(current[0])))
    distinct, inverse = np.unique(current, return_inverse=True)
    visible = np.array([write_ids.is_valid(int(w)) for w in distinct], dtype=np.bool_)
    return visible[inverse]


def _int64s(column: pa.Array) -> Integers:
    result: Integers = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return result
