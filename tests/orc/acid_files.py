"""Files of full ACID tables as other engines leave them, whose rows may be of several write ids."""

import io
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from hiveacid.orc.format.envelope import RowOperation, acid_metadata
from hiveacid.orc.format.tail import OrcTail
from hiveacid.rules.row_id import RowId
from tests.orc.orc_tables import read, with_tail


def enveloped(flat: io.BytesIO, row_ids: Sequence[tuple[int, int, int]]) -> pa.Table:
    """The rows of a flat file with Hive's columns around them; all are inserts."""
    write_ids, buckets, numbers = zip(*row_ids, strict=True) if row_ids else ((), (), ())
    return pa.table(
        {
            "operation": pa.array([0] * len(row_ids), pa.int32()),
            "originalTransaction": pa.array(write_ids, pa.int64()),
            "bucket": pa.array(buckets, pa.int32()),
            "rowId": pa.array(numbers, pa.int64()),
            "currentTransaction": pa.array(write_ids, pa.int64()),
            "row": read(flat).to_struct_array(),
        }
    )


def with_acid_metadata(file: io.BytesIO, row_ids: Sequence[tuple[int, int, int]]) -> io.BytesIO:
    """Return a file of enveloped rows with Hive's metadata in its tail."""
    tail = OrcTail.read(file)
    ends, end = [], 0
    for stripe in tail.stripes:
        end += stripe.rows
        ends.append(RowId(*row_ids[end - 1]))
    metadata = acid_metadata(ends, RowOperation.INSERT, len(row_ids))
    return with_tail(file, replace(tail, user_metadata=metadata))
