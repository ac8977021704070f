"""Small ACID directories, written with pyarrow, for cases without a golden directory."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from pyarrow import orc

BUCKET_0 = 1 << 29
ACID_NAMES = ("operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row")

Event = tuple[int, int, int]  # original write id, row number, current write id


def write_events(
    path: Path,
    events: Sequence[Event],
    rows: pa.StructArray | None = None,
    names: Sequence[str] = ACID_NAMES,
) -> None:
    """Write inserted rows, or delete events when there are no rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    deletes = rows is None
    if rows is None:
        rows = pa.array([None] * len(events), type=pa.struct([("id", pa.int32())]))
    original, number, current = zip(*events, strict=True)
    columns = [
        pa.array([2 if deletes else 0] * len(events), pa.int32()),
        pa.array(original, pa.int64()),
        pa.array([BUCKET_0] * len(events), pa.int32()),
        pa.array(number, pa.int64()),
        pa.array(current, pa.int64()),
        rows,
    ]
    with path.open("wb") as sink:
        orc.write_table(pa.table(columns, names=list(names)), sink)


def ids(*values: int) -> pa.StructArray:
    """Rows of a table with the single column id."""
    return pa.array([{"id": value} for value in values], pa.struct([("id", pa.int32())]))
