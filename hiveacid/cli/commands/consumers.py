"""`hiveacid consumers`: list the consumers of a table's changes, or remove one."""

import argparse
import json
from contextlib import closing
from typing import TYPE_CHECKING

from hiveacid.cli import target
from hiveacid.cli.command import Command
from hiveacid.cli.terminal import print_table
from hiveacid.errors import InvalidJob
from hiveacid.jobs.job import Access
from hiveacid.metastore.authorizer import require_access, system_user
from hiveacid.rules.names import TableRef

if TYPE_CHECKING:
    from hiveacid.metastore.client import MetastoreClient


def _configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
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


def run(arguments: argparse.Namespace) -> int:
    """List the consumers of a table, or forget one."""
    from hiveacid.metastore.client import MetastoreClient

    ref = TableRef.parse(arguments.table)
    with closing(MetastoreClient(target.metastore(arguments))) as client:
        if arguments.action == "forget":
            return _forget(client, ref, arguments)
        return _list(client, ref, arguments)


COMMAND = Command(
    name="consumers",
    help="show the consumers of a table's changes, or forget one",
    description="Show the consumers of a table's changes, or forget one of them.",
    configure=_configure,
    run=run,
    changes=True,
)


def _list(client: "MetastoreClient", ref: TableRef, arguments: argparse.Namespace) -> int:
    from hiveacid.jobs import codec
    from hiveacid.metastore.table_rules import existing_table
    from hiveacid.metastore.txn.snapshot import Snapshot
    from hiveacid.records.consumers import known_consumers

    table = existing_table(client, ref)
    now = Snapshot.take(client, [ref]).write_ids[ref.full_name]
    consumers = known_consumers(table, now)
    if arguments.json:
        described = [codec.encode(consumer) for consumer in consumers]
        print(json.dumps({"table": ref.full_name, "consumers": described}, ensure_ascii=False))
        return 0
    print(f"{ref}: {len(consumers)} consumers")
    if consumers:
        head = ("consumer", "version", "behind")
        rows = [(one.name, str(one.version), str(one.behind)) for one in consumers]
        print_table(head, rows, right=[1, 2])
    return 0


def _forget(client: "MetastoreClient", ref: TableRef, arguments: argparse.Namespace) -> int:
    from hiveacid.records.consumers import forget_consumer

    require_access(system_user(), [Access(ref.full_name, None, "forget_consumer")])
    if not forget_consumer(client, ref, arguments.consumer):
        raise InvalidJob(f"{ref} has no consumer {arguments.consumer!r}.")
    if arguments.json:
        forgotten = {"table": ref.full_name, "consumer": arguments.consumer, "forgotten": True}
        print(json.dumps(forgotten, ensure_ascii=False))
    else:
        print(f"{ref}: {arguments.consumer} is forgotten.")
    return 0
