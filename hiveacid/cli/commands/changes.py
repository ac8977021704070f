"""`hiveacid changes`: print the rows that changed between two versions of a table."""

import argparse
import json

from hiveacid.cli import local_spark, target
from hiveacid.cli.command import Command
from hiveacid.cli.selection import print_answer, selected
from hiveacid.jobs.sources import ChangesSource, QuerySource
from hiveacid.rules.locks import Operation
from hiveacid.rules.names import TableRef

_VERSION = "a write id, or a time: 2026-03-01T12:00:00+00:00, in UTC if there is no zone"


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", metavar="DB.TABLE", help="the table's name")
    parser.add_argument(
        "after", metavar="VERSION", help=f"the version before the changes: {_VERSION}"
    )
    parser.add_argument(
        "up_to",
        nargs="?",
        metavar="VERSION",
        help="the version with the last changes (default: the newest)",
    )
    parser.add_argument(
        "--net",
        action="store_true",
        help="only the difference of both versions, without rows that existed only in between",
    )
    parser.add_argument(
        "--key",
        action="append",
        default=[],
        metavar="COLUMN",
        help="a column that an update does not change; shows updates instead of deletes and inserts"
        " (may be repeated)",
    )
    target.add_limit(parser, "print N rows")
    target.add_metastore(parser)
    local_spark.add_master(parser)
    target.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the changes, the oldest first."""
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.metastore.table_rules import check_kind, existing_table
    from hiveacid.sql.questions import Select

    ref = TableRef.parse(arguments.table)
    source = ChangesSource(
        ref.full_name, arguments.after, arguments.up_to, arguments.net, tuple(arguments.key)
    )
    source.validate()
    with MetastoreClient(target.metastore(arguments)) as client:
        # Reported before Spark starts.
        check_kind(existing_table(client, ref), Operation.SELECT)
    query = "SELECT * FROM changes ORDER BY _write_id, _row_id, _change_type"
    found = selected(Select(QuerySource(query, {"changes": source})), arguments)
    if arguments.json:
        print(json.dumps(found.to_dict(), ensure_ascii=False))
    else:
        print_answer(found)
    return 0


COMMAND = Command(
    name="changes",
    help="print the rows that changed between two versions",
    description="Print the rows that were inserted, updated, and deleted from one version of a table to"
    " another, each with the kind of change, the write id, and the row id, with a Spark of this process.",
    configure=_configure,
    run=run,
)
