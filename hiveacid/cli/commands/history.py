"""`hiveacid history`: writes and compactions of a table."""

import argparse
import json
from contextlib import closing
from dataclasses import replace

from hiveacid.cli import target
from hiveacid.cli.command import Command
from hiveacid.cli.terminal import print_table
from hiveacid.jobs import codec
from hiveacid.records.view import History
from hiveacid.rules.names import TableRef
from hiveacid.rules.printable import print_lines


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", metavar="DB.TABLE", help="the table's name")
    target.add_metastore(parser)
    target.add_limit(parser, "the newest N entries")
    parser.add_argument(
        "--directories",
        action="store_true",
        help="show the directories of each, with the rows in them",
    )
    target.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the known history of a table, newest first."""
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.records.table_history import table_history

    ref, directories = TableRef.parse(arguments.table), arguments.directories
    with closing(MetastoreClient(target.metastore(arguments))) as client:
        entries = table_history(client, ref, limit=arguments.limit, directories=directories)
    if arguments.json:
        if not directories:
            entries = [replace(entry, directories=()) for entry in entries]
        described = [codec.encode(entry) for entry in entries]
        print(json.dumps({"table": ref.full_name, "history": described}, ensure_ascii=False))
    else:
        show_history(History(ref.full_name, entries), directories=directories)
    return 0


def show_history(history: History, *, directories: bool = False) -> None:
    """Print a history for people.

    Args:
        history: The known history of a table.
        directories: Whether the directories of each entry follow it.
    """
    if directories or not history:
        print_lines(history.lines(directories=directories))
        return
    print(history.title)
    head, rows, right = history.table()
    print_table(head, rows, right)


COMMAND = Command(
    name="history",
    help="show the writes and compactions of a table",
    description="Show the writes and the compactions of a table, the newest first, with "
    "their users and their present state. For writes whose directories were removed, it shows the "
    "facts that the notes of runs and compactions contain.",
    configure=_configure,
    run=run,
)
