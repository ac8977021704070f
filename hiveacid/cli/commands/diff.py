"""`hiveacid diff`: count the rows that differ between two versions of a table."""

import argparse
import json
from collections.abc import Sequence
from contextlib import ExitStack

from hiveacid.cli import local_spark, target
from hiveacid.cli.command import Command
from hiveacid.cli.terminal import print_table
from hiveacid.jobs import codec
from hiveacid.jobs.reports.report import PartitionDifference
from hiveacid.rules.as_of import AsOf
from hiveacid.rules.directory import FileStatus
from hiveacid.rules.locks import Operation
from hiveacid.rules.names import TableRef

_VERSION = "a write id, or a time: 2026-03-01T12:00:00+00:00, in UTC if there is no zone"


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", metavar="DB.TABLE", help="the table's name")
    parser.add_argument("before", metavar="VERSION", help=f"the first version: {_VERSION}")
    parser.add_argument(
        "after", nargs="?", metavar="VERSION", help="the second one (default: the newest)"
    )
    target.add_metastore(parser)
    local_spark.add_master(parser)
    target.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print how many rows differ, partition by partition."""
    table, found = TableRef.parse(arguments.table).full_name, _differences(arguments)
    if arguments.json:
        described = {"table": table, "partitions": [codec.encode(one) for one in found]}
        print(json.dumps(described, ensure_ascii=False))
        return 0
    inserted, deleted = sum(one.inserted for one in found), sum(one.deleted for one in found)
    print(f"{table}: {inserted} rows inserted, {deleted} deleted")
    named = [one for one in found if one.partition is not None]
    rows = [(one.partition or "", f"+{one.inserted}", f"-{one.deleted}") for one in named]
    if rows:
        print_table(("partition", "inserted", "deleted"), rows, right=[1, 2])
    return 0


COMMAND = Command(
    name="diff",
    help="count the rows that differ between two versions",
    description="Count the rows that were inserted and deleted from one version of a table to another,"
    " partition by partition. Only files of text are read with a Spark of this process.",
    configure=_configure,
    run=run,
)


def _differences(arguments: argparse.Namespace) -> Sequence[PartitionDifference]:
    # Reading files takes Arrow, which the other commands do not need.
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.metastore.table_rules import check_kind, existing_table
    from hiveacid.metastore.txn.transaction import Transaction
    from hiveacid.tables.scan.differences import count_differences
    from hiveacid.tables.scan.visible_table import PartitionDirectory

    ref = TableRef.parse(arguments.table)
    before = AsOf.parse(arguments.before)
    after = None if arguments.after is None else AsOf.parse(arguments.after)
    with ExitStack() as stack:
        client = stack.enter_context(MetastoreClient(target.metastore(arguments)))
        table = existing_table(client, ref)
        check_kind(table, Operation.SELECT)

        def count_text(partition: PartitionDirectory, files: Sequence[FileStatus]) -> int:
            from hiveacid.spark.read.flat_snapshot import text_counter

            spark = local_spark.a_spark(arguments.master, "hiveacid diff")
            return text_counter(client, table, lambda: stack.enter_context(spark))(partition, files)

        txn = stack.enter_context(Transaction(client, reads=[ref]))
        return count_differences(client, txn, table, (before, after), count_text)
