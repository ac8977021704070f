"""`hiveacid tables` and `cat`: the health of all tables, and the directories and rows of one."""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from typing import TYPE_CHECKING, Any

from hiveacid.cli import target
from hiveacid.cli.command import Command
from hiveacid.cli.output import Bar, print_table
from hiveacid.errors import DataError, UserError
from hiveacid.jobs import codec
from hiveacid.metastore.authorizer import system_user
from hiveacid.rules import names
from hiveacid.rules.directory import AcidDirectory, FileStatus
from hiveacid.rules.texts import bytes_in_words
from hiveacid.upkeep.health_score import TableHealth

if TYPE_CHECKING:
    from pyarrow import RecordBatch

    from hiveacid.tables.scan.table_part import RowBatch
    from hiveacid.tables.scan.visible_table import VisibleTable
    from hiveacid.upkeep.health import HealthMeter


_HEAD_tables = ("score", "table", "deltas", "size", "reason")


def _configure_tables(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="DB.TABLE for a table, DB for all transactional tables of a database (default: those "
        "of all databases)",
    )
    target.add_metastore(parser)
    target.add_json(parser)


def run_tables(arguments: argparse.Namespace) -> int:
    """Print the health of every table, the worst first.

    Returns:
        0, or the exit code of unreadable data when a table or a partition cannot be read.
    """
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.upkeep.health import HealthMeter

    bar = Bar("measuring") if Bar.fits() else None
    measured: list[TableHealth] = []
    worst: TableHealth | None = None
    with bar or nullcontext(), closing(MetastoreClient(target.metastore(arguments))) as client:
        if bar is None:
            print("hiveacid: measuring ...", file=sys.stderr, flush=True)
        for health in _measure(HealthMeter(client), arguments.names):
            if health.is_shown_to(system_user()):
                measured.append(health)
                worst = health if worst is None else min(worst, health, key=_rank)
            if bar is not None:
                # All tables take minutes in a large installation, and the list begins with the worst.
                so_far = "" if worst is None else f"; worst so far: {worst.table}, {worst.score}"
                bar.step(f"measured {health.table}{so_far}")
                bar.one_more()
    healths = sorted({health.table: health for health in measured}.values(), key=_rank)
    if arguments.json:
        descriptions = [codec.encode(health) for health in healths]
        print(json.dumps({"tables": descriptions}, ensure_ascii=False))
    elif healths:
        rows = [_row_tables(health) for health in healths]
        print_table(_HEAD_tables, rows, right=[0, 2, 3], one_line=True)
    else:
        print("No transactional table.")
    unreadable = any(health.error or health.unreadable_partitions for health in healths)
    return DataError.exit_code if unreadable else 0


TABLES = Command(
    name="tables",
    help="show the health of all tables, the worst first",
    description="Show for every transactional table its score, its deltas, its size, and the main "
    "reason: what costs the most points, or a compaction that is worth it. The score begins at 100; "
    "--json has all reasons, figures, active readers and writers.",
    configure=_configure_tables,
    run=run_tables,
    asks=True,
)


def _measure(meter: "HealthMeter", names: Sequence[str]) -> Iterator[TableHealth]:
    """The health of the tables and databases that are named, or of all."""
    if table_names := [name for name in names if "." in name]:
        yield from meter.measure(tables=table_names)
    for database in [name for name in names if "." not in name]:
        yield from meter.measure(database)
    if not names:
        yield from meter.measure()


def _rank(health: TableHealth) -> tuple[int, str]:
    return health.score, health.table


def _row_tables(health: TableHealth) -> tuple[str, ...]:
    return (
        str(health.score),
        health.table,
        str(health.deltas),
        bytes_in_words(health.base_bytes + health.delta_bytes),
        _reason(health),
    )


def _reason(health: TableHealth) -> str:
    """Return what costs the most points, else a compaction that costs none, in a short sentence."""
    if health.penalties:
        return health.penalties[0].reason
    return health.verdict if health.needs else "Nothing to do."


_HEAD_directories = ("state", "directory", "size", "files", "holds")
# Number of partitions per line of progress, if all results are printed at the end.
_LINE_EVERY = 100


def _print_directories(arguments: argparse.Namespace) -> int:
    """Print the state of every directory.

    Returns:
        The exit status: that of the first directory that no snapshot can be made of, if any.
    """
    from hiveacid.cli.snapshot import open_snapshot

    status = 0
    described: list[dict[str, Any]] = []
    with open_snapshot(arguments) as snapshot:
        if not arguments.json:
            print(
                f"{snapshot.title} as of {snapshot.write_ids.format()}, rules of {snapshot.rules}"
            )
        for number, partition in enumerate(snapshot.partitions):
            if arguments.json and number and number % _LINE_EVERY == 0:
                print(f"hiveacid: {number} of {len(snapshot.partitions)} listed", file=sys.stderr)
            files = snapshot.files(partition)
            try:
                state: AcidDirectory | DataError = snapshot.state(partition, files)
            except DataError as error:
                status = status or error.exit_code
                state = error
            described.append({"partition": partition.name, **_directories_as_json(state)})
            if not arguments.json:
                if partition.name is not None:
                    print(partition.name)
                _print_state(state, files)
    if arguments.json:
        print(json.dumps({"partitions": described}, ensure_ascii=False))
    return status


def _directories_as_json(state: AcidDirectory | DataError) -> dict[str, Any]:
    if isinstance(state, DataError):
        return {"error": state.id}
    return {
        "base": state.base,
        "deltas": list(state.deltas),
        "originals": list(state.originals),
        "obsolete": sorted(state.obsolete),
        "aborted": sorted(state.aborted),
    }


def _print_state(state: AcidDirectory | DataError, files: Sequence[FileStatus]) -> None:
    if isinstance(state, DataError):
        print(f"  {state}")
    elif rows := list(_describe(state, files)):
        print_table(_HEAD_directories, rows, right=[2, 3])
    else:
        print("  empty")
    sys.stdout.flush()


def _describe(
    state: AcidDirectory, files: Sequence[FileStatus]
) -> Iterator[tuple[str, str, str, str, str]]:
    base = [] if state.base is None else [state.base]
    roles: list[tuple[str, Iterable[str]]] = [
        ("read", [*base, *state.originals, *state.deltas]),
        ("obsolete", sorted(state.obsolete)),
        ("aborted", sorted(state.aborted)),
    ]
    classified = {name for _, directory_names in roles for name in directory_names}
    top = {file.path.partition("/")[0] for file in files}
    unseen = [name for name in sorted(top - classified) if names.parse_directory(name)]
    for role, directory_names in [*roles, ("not visible", unseen)]:
        for name in directory_names:
            directory_files = [f for f in files if f.path == name or f.path.startswith(f"{name}/")]
            size = bytes_in_words(sum(f.size for f in directory_files))
            yield role, name, size, str(len(directory_files)), _meaning(name)


def _meaning(name: str) -> str:
    """Describe the numbers of a directory name in words."""
    directory = names.parse_directory(name)
    if directory is None:
        return "rows from before the table was transactional"
    compacted = (
        f", compacted by transaction {directory.visibility_txn}" if directory.visibility_txn else ""
    )
    if isinstance(directory, names.Base):
        return f"everything up to write id {directory.write_id}{compacted}"
    content = "deletes" if directory.is_delete else "inserts"
    if directory.min_write_id != directory.max_write_id:
        return f"{content} of write ids {directory.min_write_id} to {directory.max_write_id}{compacted}"
    statement = "" if directory.statement_id is None else f", statement {directory.statement_id}"
    return f"{content} of write id {directory.min_write_id}{statement}{compacted}"


_ROW_ID = "row_id"
# Rows become Python objects in slices of this size: a stripe can hold millions.
_SLICE = 4096

Row = dict[str, Any]


def _configure_cat(parser: argparse.ArgumentParser) -> None:
    target.add_snapshot(parser)
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object a line; with --directories, one for all partitions",
    )
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--row-ids", action="store_true", help="print each row's id as well")
    shown.add_argument(
        "--directories",
        action="store_true",
        help="instead of the rows, print the directories and files that make up the snapshot, in the"
        " order in which they are read, and those that are obsolete, aborted or not visible",
    )
    target.add_limit(parser, "stop after N rows", default=None)


def run_cat(arguments: argparse.Namespace) -> int:
    """Print the rows as they are read, or the directories that hold them."""
    if arguments.directories:
        return _print_directories(arguments)
    from hiveacid.cli.snapshot import open_snapshot
    from hiveacid.cli.values import text_value

    row_budget = sys.maxsize if arguments.limit is None else arguments.limit
    header: list[str] = []
    with open_snapshot(arguments) as snapshot:
        for rows in _slices(snapshot, row_ids=arguments.row_ids):
            for row in rows[:row_budget]:
                if arguments.json:
                    print(json.dumps(row, ensure_ascii=False))
                    continue
                if header != list(row):
                    header = list(row)
                    print("\t".join(map(text_value, header)))
                print("\t".join(text_value(_flat(*item)) for item in row.items()))
            row_budget -= len(rows)
            if row_budget <= 0:
                break
    return 0


CAT = Command(
    name="cat",
    help="print the visible rows, or the directories that hold them",
    description="Print the rows of a table that a snapshot makes visible, as tab-separated "
    "text or as one JSON object a line. Decimals, dates and timestamps are JSON strings. With"
    " --directories, show which directories and files make up the snapshot.",
    configure=_configure_cat,
    run=run_cat,
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
        batch_row_ids = ids.row_ids() if row_ids and ids is not None else None
        for start in range(0, len(columns), _SLICE):
            rows = _rows(columns.slice(start, _SLICE))
            if batch_row_ids is not None:
                id_row_pairs = zip(batch_row_ids[start : start + _SLICE], rows, strict=True)
                rows = [{_ROW_ID: row_id._asdict(), **row} for row_id, row in id_row_pairs]
            yield rows


def _batches(snapshot: "VisibleTable") -> "Iterator[tuple[RowBatch | None, RecordBatch]]":
    """The rows with the columns of the table, or else with those of each file."""
    import pyarrow as pa

    from hiveacid.tables.scan.columns import TableColumns
    from hiveacid.tables.scan.table_part import visible_rows

    if (table := snapshot.table) is not None:
        # Timestamps with all their digits.
        table_columns = TableColumns(table.columns, table.partition_keys, unit=None)
        parts = [snapshot.part(partition) for partition in snapshot.partitions]
        # Before the first row is printed.
        snapshot.verify()
        for part in parts:
            yield from part.rows(table_columns)
        return
    for partition in snapshot.partitions:
        state = snapshot.state(partition, snapshot.files(partition))
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
