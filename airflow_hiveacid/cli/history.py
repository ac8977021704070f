"""`hiveacid history`: what was written to a table, and compacted."""

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import closing

from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.acid.quantities import bytes_in_words, timestamp_in_words
from airflow_hiveacid.cli import target
from airflow_hiveacid.cli.command import Command
from airflow_hiveacid.cli.output import aligned
from airflow_hiveacid.jobs import codec
from airflow_hiveacid.maintenance.history_entries import HistoryEntry


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", metavar="DB.TABLE", help="the table's name")
    target.add_metastore(parser)
    parser.add_argument(
        "--limit",
        type=int,
        default=100,
        metavar="N",
        help="the newest N entries (default: %(default)s)",
    )
    target.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print what is known of a table's past, the newest first."""
    from airflow_hiveacid.maintenance.table_history import table_history
    from airflow_hiveacid.metastore.client import MetastoreClient

    ref = TableRef.parse(arguments.table)
    with closing(MetastoreClient(target.metastore(arguments))) as client:
        entries = table_history(client, ref, limit=arguments.limit)
    if arguments.json:
        described = [codec.encode(entry) for entry in entries]
        print(json.dumps({"table": ref.full_name, "history": described}, ensure_ascii=False))
    else:
        print("\n".join(_as_text(ref, entries)))
    return 0


COMMAND = Command(
    name="history",
    help="show what was written to a table, and compacted",
    description="Show the directories of a table, the newest first, with who wrote them and "
    "whether they still count; and the runs whose directories are gone, as long as their notes "
    "are kept.",
    configure=_configure,
    run=run,
)


def _as_text(ref: TableRef, entries: Sequence[HistoryEntry]) -> Iterator[str]:
    yield f"{ref}: {len(entries)} {'entry' if len(entries) == 1 else 'entries'}"
    rows = [
        (
            "?" if entry.time is None else timestamp_in_words(entry.time),
            _write_ids(entry),
            entry.operation or entry.kind,
            entry.state.value,
            bytes_in_words(entry.bytes),
            "" if entry.rows is None else f"{entry.rows} rows",
            "/".join(filter(None, [entry.partition, entry.directory])) or "-",
            entry.run_token or entry.proof or "",
        )
        for entry in entries
    ]
    if rows:
        yield from aligned(rows, right=[1, 4, 5])


def _write_ids(entry: HistoryEntry) -> str:
    first, last = entry.min_write_id, entry.max_write_id
    return str(last) if first == last else f"{first}-{last}"
