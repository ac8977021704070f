"""The decoded key columns of some rows: the origin and the row id of each row."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hiveacid.errors import CorruptFile, OutOfOrder
from hiveacid.orc.format.envelope import (
    EnvelopeColumn,
    RowOperation,
    TypeKind,
    field_names,
    kind_of,
)
from hiveacid.orc.format.streams import Integers
from hiveacid.orc.row_keys.key_columns import KEY_COLUMNS
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

    def __getitem__(self, which: slice | NDArray[Any]) -> "Keys":
        return Keys(*(getattr(self, field.name)[which] for field in fields(self)))

    def columns(self) -> dict[EnvelopeColumn, Integers]:
        """The columns by their numbers."""
        return dict(
            zip(KEY_COLUMNS, (getattr(self, field.name) for field in fields(self)), strict=True)
        )

    def row_ids(self) -> tuple[Integers, Integers, Integers]:
        """The three parts of the row ids."""
        return self.original_write_ids, self.buckets, self.rows

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


def first_disorder(columns: Sequence[Integers]) -> int | None:
    """The first row that is not greater than the row before it, comparing column by column."""
    ascends = np.zeros(max(len(columns[0]) - 1, 0), dtype=np.bool_)
    for column in reversed(columns):
        ascends = (column[1:] > column[:-1]) | ((column[1:] == column[:-1]) & ascends)
    return None if ascends.all() else int(np.argmin(ascends)) + 1


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
    at = keys.first_disorder()
    if at is not None:
        raise OutOfOrder(f"{keys.row_id(at)} does not come after {keys.row_id(at - 1)}.")
    return keys.row_id(-1)
