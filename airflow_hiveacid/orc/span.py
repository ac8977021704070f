"""How far the row ids of a stripe reach."""

from contextlib import closing
from dataclasses import dataclass

import numpy as np

from airflow_hiveacid.acid.row_id import RowId
from airflow_hiveacid.errors import CorruptFile, OutOfOrder
from airflow_hiveacid.orc.envelope import EnvelopeColumn
from airflow_hiveacid.orc.key_stream import read_keys
from airflow_hiveacid.orc.keys import Keys
from airflow_hiveacid.orc.source_and_sink import Source
from airflow_hiveacid.orc.tail import OrcTail


@dataclass(frozen=True, slots=True)
class RowIdRange:
    """The row ids of a stripe, which ascend.

    Attributes:
        first: The first of them.
        last: The last of them.
        operations: The smallest and the largest operation.
    """

    first: RowId
    last: RowId
    operations: tuple[int, int]

    def is_dense(self, rows: int) -> bool:
        """Whether so many rows take up all row ids in between."""
        same = self.first[:2] == self.last[:2]
        return same and self.last.row - self.first.row + 1 == rows


def read_row_id_range(source: Source, tail: OrcTail, stripe: int) -> RowIdRange:
    """Find the span of a stripe, from its statistics if they tell, else from its rows.

    The key index of the file is not asked: some engines write wrong ones.

    Raises:
        CorruptFile: The rows do not decode.
        OutOfOrder: The row ids do not ascend.
    """
    return _from_statistics(tail, stripe) or _from_rows(source, tail, stripe)


def check_ascending(keys: Keys, last: RowId | None) -> RowId:
    """Make sure that rows ascend, and come after the last row before them; tell their last one.

    Raises:
        OutOfOrder: They do not.
    """
    if last is not None and keys.row_id(0) <= last:
        raise OutOfOrder(f"{keys.row_id(0)} does not come after {last}.")
    at = keys.first_disorder()
    if at is not None:
        raise OutOfOrder(f"{keys.row_id(at)} does not come after {keys.row_id(at - 1)}.")
    return keys.row_id(-1)


def _from_statistics(tail: OrcTail, stripe: int) -> RowIdRange | None:
    operations, write_ids, buckets, rows = (
        tail.int_range(stripe, column)
        for column in (
            EnvelopeColumn.OPERATION,
            EnvelopeColumn.ORIGINAL_TRANSACTION,
            EnvelopeColumn.BUCKET,
            EnvelopeColumn.ROW_ID,
        )
    )
    if not (operations and write_ids and buckets and rows):
        return None
    if write_ids[0] != write_ids[1] or buckets[0] != buckets[1]:
        # The smallest row id of one write id may stand behind the largest of another.
        return None
    first, last = (RowId(write_ids[0], buckets[0], row) for row in rows)
    return RowIdRange(first, last, operations)


def _from_rows(source: Source, tail: OrcTail, stripe: int) -> RowIdRange:
    first: RowId | None = None
    last: RowId | None = None
    operations: set[int] = set()
    with closing(read_keys(source, tail, [stripe])) as batches:
        for keys in batches:
            last = check_ascending(keys, last)
            first = first or keys.row_id(0)
            operations.update(np.unique(keys.operations).tolist())
    if first is None or last is None:
        raise CorruptFile("The ORC file has a stripe without rows.")
    return RowIdRange(first, last, (min(operations), max(operations)))
