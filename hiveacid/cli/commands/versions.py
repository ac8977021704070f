"""Commands about the versions of a table, the runs that wrote them, and their consumers."""

import argparse
import json
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import TYPE_CHECKING

from hiveacid.cli import local_spark, target
from hiveacid.cli.command import Command
from hiveacid.cli.output import print_table
from hiveacid.cli.selection import print_answer, selected
from hiveacid.errors import InvalidJob
from hiveacid.jobs import codec
from hiveacid.jobs.job import Access
from hiveacid.jobs.report import PartitionDifference
from hiveacid.jobs.sources import ChangesSource, QuerySource
from hiveacid.metastore.authorizer import require_access, system_user
from hiveacid.records.history_entries import History
from hiveacid.rules.directory import FileStatus
from hiveacid.rules.locks import Operation
from hiveacid.rules.names import TableRef
from hiveacid.rules.texts import plural, print_lines, printable
from hiveacid.rules.write_ids import AsOf

if TYPE_CHECKING:
    from hiveacid.metastore.client import MetastoreClient


def _configure_history(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", metavar="DB.TABLE", help="the table's name")
    target.add_metastore(parser)
    target.add_limit(parser, "the newest N entries")
    parser.add_argument(
        "--directories",
        action="store_true",
        help="show the directories of each, with the rows in them",
    )
    parser.add_argument(
        "--apply-again",
        metavar="RUN",
        help="instead, let the next attempt of this applied run apply it once more, for example after its"
        " task is cleared. Only the notes that prove the run are removed: no row changes now",
    )
    parser.add_argument(
        "--yes",
        action="store_true",
        help="with --apply-again: do it; otherwise it is only described",
    )
    target.add_json(parser)


def run_history(arguments: argparse.Namespace) -> int:
    """Print the known history of a table, newest first, or let a run of it be applied again."""
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.records.table_history import table_history

    ref, directories = TableRef.parse(arguments.table), arguments.directories
    with closing(MetastoreClient(target.metastore(arguments))) as client:
        if arguments.apply_again is not None:
            return _apply_again(client, ref, arguments)
        entries = table_history(client, ref, limit=arguments.limit, directories=directories)
    if arguments.json:
        if not directories:
            entries = [replace(entry, directories=()) for entry in entries]
        descriptions = [codec.encode(entry) for entry in entries]
        print(json.dumps({"table": ref.full_name, "history": descriptions}, ensure_ascii=False))
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
    print_table(head, rows, right, one_line=True)


HISTORY = Command(
    name="history",
    help="show the writes and compactions of a table, or let a run be applied again",
    description="Show the writes and the compactions of a table, the newest first, with "
    "their users and their present state. For writes whose directories were removed, it shows the "
    "facts that the notes of runs and compactions contain.",
    configure=_configure_history,
    run=run_history,
    changes=True,
)


def _apply_again(client: "MetastoreClient", ref: TableRef, arguments: argparse.Namespace) -> int:
    """Let a run be applied again, or describe what that means."""
    from hiveacid.records.table_history import forget_run
    from hiveacid.tables.locations import require_job_access

    user, access = system_user(), Access(ref.full_name, None, "apply_again")
    require_job_access(client, user, (), [access])
    dry_run = not arguments.yes
    reports = forget_run(client, ref, arguments.apply_again, dry_run=dry_run)
    if arguments.json:
        described = [report.to_dict() for report in reports]
        print(json.dumps({"table": ref.full_name, "dry_run": dry_run, "runs": described}))
        return 0
    for report in reports:
        counts = (
            f"{report.rows_inserted} rows inserted, {report.rows_updated} updated,"
            f" {report.rows_deleted} deleted"
        )
        print(
            f"{', '.join(report.write_ids)}: {report.job}, {counts} (transaction {report.txn_id})"
        )
    print(
        f"{'With --yes, the' if dry_run else 'The'} next attempt of the run applies it again, to the"
        " table as it is then: rows that it has inserted are inserted a second time."
    )
    return 0


_VERSION = "a write id, or a time: 2026-03-01T12:00:00+00:00, in UTC if there is no zone"


def _configure_changes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", metavar="DB.TABLE", help="the table's name")
    parser.add_argument(
        "after",
        metavar="VERSION",
        help=f"the version before the changes: {_VERSION}; oldest: the oldest that can be read",
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
    parser.add_argument(
        "--count",
        action="store_true",
        help="only count the rows that one of both versions has and the other one has not, partition by"
        " partition; only files of text are read with a Spark",
    )
    target.add_limit(parser, "print N rows")
    target.add_metastore(parser)
    local_spark.add_master(parser)
    target.add_json(parser)


def run_changes(arguments: argparse.Namespace) -> int:
    """Print the changes, the oldest first, or their numbers."""
    if arguments.count:
        return _print_counts(arguments)
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.metastore.table_rules import check_kind, existing_table
    from hiveacid.parser.questions import Select

    ref = TableRef.parse(arguments.table)
    source = ChangesSource(
        ref.full_name, arguments.after, arguments.up_to, arguments.net, tuple(arguments.key)
    )
    source.validate()
    with MetastoreClient(target.metastore(arguments)) as client:
        # Reported before Spark starts.
        check_kind(existing_table(client, ref), Operation.SELECT)
    query = "SELECT * FROM changes ORDER BY _write_id, _row_id, _change_type"
    answer = selected(Select(QuerySource(query, {"changes": source})), arguments)
    if arguments.json:
        print(json.dumps(answer.to_dict(), ensure_ascii=False))
    else:
        print_answer(answer)
    return 0


CHANGES = Command(
    name="changes",
    help="print or count the rows that changed between two versions",
    description="Print the rows that were inserted, updated, and deleted from one version of a table to"
    " another, each with the kind of change, the write id, and the row id, with a Spark of this process.",
    configure=_configure_changes,
    run=run_changes,
)


def _print_counts(arguments: argparse.Namespace) -> int:
    """Print how many rows differ, partition by partition."""
    if arguments.key or arguments.net:
        raise InvalidJob("--count counts the net difference, without --net and --key.")
    table, found = TableRef.parse(arguments.table).full_name, _differences(arguments)
    if arguments.json:
        described = {"table": table, "partitions": [codec.encode(one) for one in found]}
        print(json.dumps(described, ensure_ascii=False))
        return 0
    inserted, deleted = sum(one.inserted for one in found), sum(one.deleted for one in found)
    print(f"{table}: {plural(inserted, 'row')} inserted, {deleted} deleted")
    named = [one for one in found if one.partition is not None]
    rows = [(one.partition or "", f"+{one.inserted}", f"-{one.deleted}") for one in named]
    if rows:
        print_table(("partition", "inserted", "deleted"), rows, right=[1, 2])
    return 0


def _differences(arguments: argparse.Namespace) -> Sequence[PartitionDifference]:
    # Reading files takes Arrow, which the other commands do not need.
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.metastore.table_rules import check_kind, existing_table
    from hiveacid.metastore.txn.transaction import Transaction
    from hiveacid.tables.scan.differences import count_differences
    from hiveacid.tables.scan.visible_table import PartitionDirectory

    ref = TableRef.parse(arguments.table)
    first = AsOf.parse(arguments.after)
    later = None if arguments.up_to is None else AsOf.parse(arguments.up_to)
    with ExitStack() as stack:
        client = stack.enter_context(MetastoreClient(target.metastore(arguments)))
        table = existing_table(client, ref)
        check_kind(table, Operation.SELECT)

        def count_text(partition: PartitionDirectory, files: Sequence[FileStatus]) -> int:
            from hiveacid.spark.read.flat_snapshot import text_counter

            spark = local_spark.a_spark(arguments.master, "hiveacid changes")
            return text_counter(client, table, lambda: stack.enter_context(spark))(partition, files)

        txn = stack.enter_context(Transaction(client, reads=[ref]))
        return count_differences(client, txn, table, (first, later), count_text)


def _configure_consumers(parser: argparse.ArgumentParser) -> None:
    actions = target.add_actions(parser)
    listing = actions.add_parser(
        "list",
        help="show their positions",
        description="Show the consumers that have a cursor in the folder of the table, the last copied "
        "version of each, and the number of remaining versions.",
    )
    forget = actions.add_parser(
        "forget",
        help="forget a consumer, so that nothing is kept for it",
        description="Remove the cursor of a consumer from the folder of the table, so that cleanings "
        "keep nothing for it. If it runs again, it begins like a new one.",
    )
    for action in (listing, forget):
        action.add_argument("table", metavar="DB.TABLE", help="the table's name")
        target.add_metastore(action)
        target.add_json(action)
    forget.add_argument("consumer", metavar="NAME", help="the consumer")


def run_consumers(arguments: argparse.Namespace) -> int:
    """List the consumers of a table, or forget one."""
    from hiveacid.metastore.client import MetastoreClient

    ref = TableRef.parse(arguments.table)
    with closing(MetastoreClient(target.metastore(arguments))) as client:
        if arguments.action == "forget":
            return _forget(client, ref, arguments)
        return _list(client, ref, arguments)


CONSUMERS = Command(
    name="consumers",
    help="show the consumers of a table's changes, or forget one",
    description="Show the consumers of a table's changes, also without an action, or forget one of "
    "them.",
    configure=_configure_consumers,
    run=run_consumers,
    changes=True,
)


def _list(client: "MetastoreClient", ref: TableRef, arguments: argparse.Namespace) -> int:
    from hiveacid.jobs import codec
    from hiveacid.metastore.table_rules import existing_table
    from hiveacid.metastore.txn.owner import Snapshot
    from hiveacid.records.consumers import known_consumers
    from hiveacid.records.signatures import SigningKey

    table = existing_table(client, ref)
    now = Snapshot.take(client, [ref]).write_ids[ref.full_name]
    consumers = known_consumers(table, now, SigningKey.readable())
    if arguments.json:
        descriptions = [codec.encode(consumer) for consumer in consumers]
        print(json.dumps({"table": ref.full_name, "consumers": descriptions}, ensure_ascii=False))
        return 0
    print(f"{ref}: {plural(len(consumers), 'consumer')}")
    if consumers:
        head = ("consumer", "version", "behind")
        rows = [
            (consumer.name, str(consumer.version), str(consumer.behind)) for consumer in consumers
        ]
        print_table(head, rows, right=[1, 2])
    print_lines(printable(str(consumer)) for consumer in consumers if consumer.problem)
    return 0


def _forget(client: "MetastoreClient", ref: TableRef, arguments: argparse.Namespace) -> int:
    from hiveacid.records.consumers import forget_consumer

    require_access(system_user(), [Access(ref.full_name, None, "forget_consumer")])
    if not forget_consumer(client, ref, arguments.consumer):
        raise InvalidJob(f"{ref} has no consumer {arguments.consumer!r}.")
    if arguments.json:
        confirmation = {"table": ref.full_name, "consumer": arguments.consumer, "forgotten": True}
        print(json.dumps(confirmation, ensure_ascii=False))
    else:
        print(f"{ref}: {arguments.consumer} is forgotten.")
    return 0
