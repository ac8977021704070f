"""`hiveacid cat`: the visible rows, without a JVM."""

import argparse
import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hiveacid.cli import target
from hiveacid.cli.command import Command
from hiveacid.errors import UserError

if TYPE_CHECKING:
    from pyarrow import RecordBatch

    from hiveacid.tables.scan.visible_rows import RowBatch
    from hiveacid.tables.scan.visible_table import VisibleTable

_ROW_ID = "row_id"
# Rows become Python objects in slices of this size: a stripe can hold millions.
_SLICE = 4096

Row = dict[str, Any]


def _configure(parser: argparse.ArgumentParser) -> None:
    target.add_snapshot(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    parser.add_argument("--row-ids", action="store_true", help="print each row's id as well")
    target.add_limit(parser, "stop after N rows", default=None)


def run(arguments: argparse.Namespace) -> int:
    """Print the rows as they are read."""
    from hiveacid.cli.snapshot import open_snapshot
    from hiveacid.cli.values import text_value

    left = sys.maxsize if arguments.limit is None else arguments.limit
    header: list[str] = []
    with open_snapshot(arguments) as snapshot:
        for rows in _slices(snapshot, row_ids=arguments.row_ids):
            for row in rows[:left]:
                if arguments.json:
                    print(json.dumps(row, ensure_ascii=False))
                    continue
                if header != list(row):
                    header = list(row)
                    print("\t".join(map(text_value, header)))
                print("\t".join(text_value(_flat(*item)) for item in row.items()))
            left -= len(rows)
            if left <= 0:
                break
    return 0


COMMAND = Command(
    name="cat",
    help="print the visible rows",
    description="Print the rows of a table that a snapshot makes visible, as tab-separated "
    "text or as one JSON object a line. Decimals, dates and timestamps are JSON strings.",
    configure=_configure,
    run=run,
)


def _slices(snapshot: "VisibleTable", *, row_ids: bool) -> Iterator[list[Row]]:
    for ids, columns in _batches(snapshot):
        if row_ids and ids is None:
            raise UserError(f"{snapshot.title} is insert-only: its rows have no ids.")
        if row_ids and _ROW_ID in columns.schema.names:
            raise UserError(
                f"The table has a column {_ROW_ID}, which would hide the row ids.",
                remedy="Leave out --row-ids.",
            )
        known = ids.row_ids() if row_ids and ids is not None else None
        for start in range(0, len(columns), _SLICE):
            rows = _rows(columns.slice(start, _SLICE))
            if known is not None:
                named = zip(known[start : start + _SLICE], rows, strict=True)
                rows = [{_ROW_ID: row_id._asdict(), **row} for row_id, row in named]
            yield rows


def _batches(snapshot: "VisibleTable") -> "Iterator[tuple[RowBatch | None, RecordBatch]]":
    """The rows with the columns of the table, or else with those of each file."""
    import pyarrow as pa

    from hiveacid.storage.listing import list_files
    from hiveacid.tables.scan.columns import TableColumns
    from hiveacid.tables.scan.visible_rows import visible_rows

    for partition in snapshot.partitions:
        if (table := snapshot.table) is not None:
            # Timestamps with all their digits.
            wanted = TableColumns(table.columns, table.partition_keys, unit=None)
            yield from snapshot.part(partition).rows(wanted)
            continue
        state = snapshot.state(partition, list_files(partition.storage))
        for batch in visible_rows(partition.storage, state, snapshot.write_ids, snapshot.rules):
            columns = batch.columns
            for name, value in partition.values.items():
                columns = columns.append_column(
                    name, pa.repeat(pa.scalar(value, pa.string()), len(batch))
                )
            yield batch, columns


def _rows(batch: "RecordBatch") -> list[Row]:
    from hiveacid.cli.values import json_values

    columns = map(json_values, batch.columns)
    names = batch.schema.names
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def _flat(name: str, value: Any) -> Any:
    if name == _ROW_ID and isinstance(value, dict):
        return "/".join(str(part) for part in value.values())
    return value
