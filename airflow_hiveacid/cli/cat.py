"""`hiveacid cat`: the visible rows, without a JVM."""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_hiveacid.acid.schema import TableKind
from airflow_hiveacid.cli import target
from airflow_hiveacid.cli.command import Command
from airflow_hiveacid.errors import UnsupportedTable, UserError

if TYPE_CHECKING:
    from airflow_hiveacid.cli.rows import RowBatch
    from airflow_hiveacid.cli.snapshot import PartitionValue, VisibleTable

_ROW_ID = "row_id"
# Rows become Python objects in slices of this size: a stripe can hold millions.
_SLICE = 4096

Row = dict[str, Any]


def _configure(parser: argparse.ArgumentParser) -> None:
    target.add_snapshot(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    parser.add_argument("--row-ids", action="store_true", help="print each row's id as well")
    parser.add_argument("--limit", type=_count, metavar="N", help="stop after N rows")


def run(arguments: argparse.Namespace) -> int:
    """Print the rows as they are read."""
    from airflow_hiveacid.cli.snapshot import open_snapshot
    from airflow_hiveacid.cli.values import text_value

    left = sys.maxsize if arguments.limit is None else arguments.limit
    header: list[str] = []
    with open_snapshot(arguments) as snapshot:
        if snapshot.kind is TableKind.INSERT_ONLY:
            raise UnsupportedTable(
                f"{snapshot.title} is insert-only, and its files may be of any format.",
                remedy="Read it with AcidTable(...).to_df(), or as a source of `hiveacid sql`.",
            )
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
    from airflow_hiveacid.cli.rows import visible_rows
    from airflow_hiveacid.listing import list_files

    for partition in snapshot.partitions:
        state = snapshot.state(partition, list_files(partition.storage))
        for batch in visible_rows(partition.storage, state, snapshot.write_ids, snapshot.rules):
            names = batch.columns.schema.names if snapshot.columns is None else snapshot.columns
            if row_ids and _ROW_ID in names:
                raise UserError(
                    f"The table has a column {_ROW_ID}, which would hide the row ids.",
                    remedy="Leave out --row-ids.",
                )
            for start in range(0, len(batch), _SLICE):
                part = batch.slice(start, _SLICE)
                yield _rows(part, names, partition.values, row_ids=row_ids)


def _rows(
    batch: "RowBatch",
    names: Sequence[str],
    partition: "Mapping[str, PartitionValue]",
    *,
    row_ids: bool,
) -> list[Row]:
    from airflow_hiveacid.cli.values import json_values

    # As Hive finds columns in a file: by name in any case, and what the file lacks is null.
    given = reversed(list(enumerate(batch.columns.schema.names)))
    places = {name.lower(): place for place, name in given}
    columns = [
        [None] * len(batch)
        if (place := places.get(name.lower())) is None
        else json_values(batch.columns.column(place), julian=batch.julian)
        for name in names
    ]
    rows = [
        {**dict(zip(names, values, strict=True)), **partition}
        for values in zip(*columns, strict=True)
    ]
    if not row_ids:
        return rows
    return [
        {_ROW_ID: row_id._asdict(), **row}
        for row_id, row in zip(batch.row_ids(), rows, strict=True)
    ]


def _flat(name: str, value: Any) -> Any:
    if name == _ROW_ID and isinstance(value, dict):
        return "/".join(str(part) for part in value.values())
    return value


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number
