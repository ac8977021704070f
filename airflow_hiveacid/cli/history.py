"""`hiveacid history`: what was written to a table, and compacted."""

import argparse
import json
from contextlib import closing
from dataclasses import replace

from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.cli import target
from airflow_hiveacid.cli.command import Command
from airflow_hiveacid.jobs import codec
from airflow_hiveacid.maintenance.history_view import History


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
    parser.add_argument(
        "--directories",
        action="store_true",
        help="show the directories of each, with the rows in them",
    )
    target.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print what is known of a table's past, the newest first."""
    ref = TableRef.parse(arguments.table)
    return print_history(ref, arguments, arguments.limit, directories=arguments.directories)


def print_history(
    ref: TableRef, arguments: argparse.Namespace, limit: int, *, directories: bool = False
) -> int:
    """Print the history of a table.

    Args:
        ref: The table.
        arguments: Where the metastore is, and whether programs read it.
        limit: How many entries, at most.
        directories: Whether to print the directories of each, too.
    """
    from airflow_hiveacid.maintenance.table_history import table_history
    from airflow_hiveacid.metastore.client import MetastoreClient

    with closing(MetastoreClient(target.metastore(arguments))) as client:
        entries = table_history(client, ref, limit=limit, directories=directories)
    if arguments.json:
        if not directories:
            entries = [replace(entry, directories=()) for entry in entries]
        described = [codec.encode(entry) for entry in entries]
        print(json.dumps({"table": ref.full_name, "history": described}, ensure_ascii=False))
    else:
        history = History(ref.full_name, entries)
        print("\n".join(history.lines(directories=directories)))
    return 0


COMMAND = Command(
    name="history",
    help="show what was written to a table, and compacted",
    description="Show the writes and the compactions of a table, the newest first: who did what, "
    "and what has become of it. Of writes whose directories are gone it shows what the notes of "
    "runs and of compactions have kept.",
    configure=_configure,
    run=run,
)
