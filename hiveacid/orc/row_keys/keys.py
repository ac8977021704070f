"""The decoded key columns of some rows: the origin and the row id of each row."""

from collections.abc import Sequence
from dataclasses import field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hiveacid.dataclass import dataclass
from hiveacid.errors import CorruptFile, OutOfOrder
from hiveacid.orc.format.compression import Compression
from hiveacid.orc.format.envelope import (
    EnvelopeColumn,
    RowOperation,
    TypeKind,
    field_names,
    kind_of,
)
from hiveacid.orc.format.statistics import BYTES_ON_DISK, count_statistics, integer_statistics
from hiveacid.orc.format.streams import (
    Integers,
    Stream,
    StreamKind,
    arithmetic_runs,
    integer_runs,
    row_index,
)
from hiveacid.orc.row_keys.row_id_set import RowIds, first_disorder
from hiveacid.rules.row_id import RowId


@dataclass(frozen=True, slots=True)
class Keys:
    """The key columns of some rows, in the order of their file."""

    operations: Integers
    original_write_ids: Integers
    buckets: Integers
    rows: Integers
    current_write_ids: Integers

    @classmethod
    def of(cls, batch: Any, names: Sequence[str]) -> "Keys":
        """Extract the key columns from an Arrow batch, by their names in the file.

        Raises:
            CorruptFile: Some values are null.
        """
        columns = [batch.column(name) for name in names]
        if any(column.null_count for column in columns):
            raise CorruptFile("There are rows whose row id is null.")
        return cls(*(column.to_numpy().astype(np.int64, copy=False) for column in columns))

    @classmethod
    def deletes(
        cls,
        original_write_ids: NDArray[Any],
        buckets: NDArray[Any],
        rows: NDArray[Any],
        *,
        write_id: int,
    ) -> "Keys":
        """Describe the deletes of one write id.

        Args:
            original_write_ids: Write ids that inserted the deleted rows.
            buckets: Their bucket properties.
            rows: Their row ids.
            write_id: The write id of the delete.

        Raises:
            ValueError: The three parts of the row ids differ in length.
        """
        write_ids, buckets, rows = (
            np.asarray(part, dtype=np.int64) for part in (original_write_ids, buckets, rows)
        )
        if not write_ids.shape == buckets.shape == rows.shape or rows.ndim != 1:
            raise ValueError("The three parts of the row ids differ in length.")
        return cls(
            operations=np.broadcast_to(np.int64(RowOperation.DELETE), rows.shape),
            original_write_ids=write_ids,
            buckets=buckets,
            rows=rows,
            current_write_ids=np.broadcast_to(np.int64(write_id), rows.shape),
        )

    @classmethod
    def joined(cls, parts: Sequence["Keys"]) -> "Keys":
        """Concatenate key columns."""
        if len(parts) == 1:
            return parts[0]
        names = [field.name for field in fields(cls)]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, selector: slice | NDArray[Any]) -> "Keys":
        return Keys(*(getattr(self, field.name)[selector] for field in fields(self)))

    def columns(self) -> dict[EnvelopeColumn, Integers]:
        """The columns by their numbers."""
        return dict(
            zip(KEY_COLUMNS, (getattr(self, field.name) for field in fields(self)), strict=True)
        )

    def row_ids(self) -> RowIds:
        """The row ids."""
        return RowIds(self.original_write_ids, self.buckets, self.rows)

    def row_id(self, position: int) -> RowId:
        """The row id of one row."""
        return RowId(*(int(part[position]) for part in self.row_ids()))

    def first_disorder(self) -> int | None:
        """Return the first row whose row id does not come after that of the preceding row."""
        return first_disorder(self.row_ids())


def key_names(types: Sequence[bytes]) -> list[str]:
    """Return the names of the key columns in a file; some writers use their own spelling."""
    kinds = {kind_of(types[column]) for column in KEY_COLUMNS}
    if not kinds <= {TypeKind.INT, TypeKind.LONG}:
        raise CorruptFile("The columns of the row ids are no integers.")
    return [name.decode() for name in field_names(types[0])[: len(KEY_COLUMNS)]]


def sorted_distinct(values: NDArray[Any]) -> NDArray[Any]:
    """Return the distinct values, sorted, like ``np.unique``.

    That function puts integers into a set of C++ first, which takes ten times as long and several
    times the memory where most values are distinct.
    """
    ordered = np.sort(values)
    keep = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=keep[1:])
    return ordered if keep.all() else ordered[keep]


def check_ascending(keys: Keys, last: RowId | None) -> RowId:
    """Verify that rows ascend and come after the previous row; return the last row id.

    Raises:
        OutOfOrder: The rows are not in that order.
    """
    if last is not None and keys.row_id(0) <= last:
        raise OutOfOrder(f"{keys.row_id(0)} does not come after {last}.")
    position = keys.first_disorder()
    if position is not None:
        raise OutOfOrder(
            f"{keys.row_id(position)} does not come after {keys.row_id(position - 1)}."
        )
    return keys.row_id(-1)


# Write the columns 0 to 5 of a stripe: the root of the envelope and the five key columns


KEY_COLUMNS = (
    EnvelopeColumn.OPERATION,
    EnvelopeColumn.ORIGINAL_TRANSACTION,
    EnvelopeColumn.BUCKET,
    EnvelopeColumn.ROW_ID,
    EnvelopeColumn.CURRENT_TRANSACTION,
)
_HALF = 1 << 32


@dataclass(slots=True)
class NewColumns:
    """Encoded columns of one stripe.

    Attributes:
        index: Their row indexes, in column order; empty for a file without them.
        data: Their data streams.
        statistics: For each column its statistics over the stripe.
    """

    index: list[Stream] = field(default_factory=list)
    data: list[Stream] = field(default_factory=list)
    statistics: list[bytes] = field(default_factory=list)


@dataclass(slots=True)
class _Range:
    """Statistics of a row group, or of all of them."""

    count: int = 0
    smallest: int = 0
    largest: int = 0
    total: int = 0

    def add(self, count: int, smallest: int, largest: int, total: int) -> None:
        if self.count == 0:
            self.smallest, self.largest = smallest, largest
        else:
            self.smallest = min(self.smallest, smallest)
            self.largest = max(self.largest, largest)
        self.count += count
        self.total += total


class IntegerColumn:
    """An integer column of one stripe, built row group by row group.

    Every row group starts a new run, so that a row index never points into a run.
    """

    def __init__(self) -> None:
        self._plain = bytearray()
        self._groups: list[tuple[int, _Range]] = []

    def begin_group(self) -> None:
        """Start the next row group."""
        self._groups.append((len(self._plain), _Range()))

    def add_sequence(self, first: int, count: int, step: int) -> None:
        """Append `count` values that start at `first` and rise by `step`, 0 or more."""
        self._plain += arithmetic_runs(first, count, step)
        last = first + step * (count - 1)
        self._groups[-1][1].add(count, first, last, (first + last) * count // 2)

    def add_values(self, values: Integers) -> None:
        """Append any values."""
        smallest, largest = int(values.min()), int(values.max())
        if smallest == largest:
            self.add_sequence(smallest, len(values), 0)
            return
        self._plain += integer_runs(values)
        # Summed in halves, because the sum of 64-bit numbers need not fit 64 bits.
        high, low = values >> 32, values & (_HALF - 1)
        total = int(high.sum()) * _HALF + int(low.sum())
        self._groups[-1][1].add(len(values), smallest, largest, total)

    def finish(self, column: int, compression: Compression, new: NewColumns, stride: int) -> None:
        """Compress the column and append it to the new columns of its stripe."""
        chunks = compression.chunks(bytes(self._plain))
        new.data.append(Stream(StreamKind.DATA, column, chunks.data))
        if stride:
            index = row_index(
                ([*compression.position(chunks, start), 0], _encode(group))
                for start, group in self._groups
            )
            new.index.append(Stream(StreamKind.ROW_INDEX, column, compression.compress(index)))
        stripe = _Range()
        for _, group in self._groups:
            stripe.add(group.count, group.smallest, group.largest, group.total)
        message = integer_statistics(stripe.count, stripe.smallest, stripe.largest, stripe.total)
        message.add_number(BYTES_ON_DISK, len(chunks.data))
        new.statistics.append(message.encode())


def _encode(group: _Range) -> bytes:
    return integer_statistics(group.count, group.smallest, group.largest, group.total).encode()


class KeyColumns:
    """Builds the root and the five key columns of one stripe."""

    def __init__(self) -> None:
        self._columns = {column: IntegerColumn() for column in KEY_COLUMNS}
        self._group_rows: list[int] = []

    def begin_group(self, rows: int) -> None:
        """Start a row group of so many rows."""
        self._group_rows.append(rows)
        for column in self._columns.values():
            column.begin_group()

    def add_sequence(self, column: EnvelopeColumn, first: int, count: int, step: int = 0) -> None:
        """Append equal or evenly rising values to one column."""
        self._columns[column].add_sequence(first, count, step)

    def add_values(self, column: EnvelopeColumn, values: Integers) -> None:
        """Append any values to one column."""
        self._columns[column].add_values(values)

    def finish(self, compression: Compression, stride: int) -> NewColumns:
        """Compress everything."""
        new = NewColumns()
        new.statistics.append(count_statistics(sum(self._group_rows)).encode())
        if stride:
            index = row_index(((), count_statistics(rows).encode()) for rows in self._group_rows)
            new.index.append(
                Stream(StreamKind.ROW_INDEX, EnvelopeColumn.ROOT, compression.compress(index))
            )
        for number, column in self._columns.items():
            column.finish(number, compression, new, stride)
        return new


def row_groups(rows: int, stride: int) -> Sequence[int]:
    """The sizes of the row groups of a stripe."""
    if stride == 0:
        return [rows] if rows else []
    full, remainder = divmod(rows, stride)
    return [stride] * full + ([remainder] if remainder else [])
