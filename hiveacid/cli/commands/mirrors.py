"""`hiveacid mirrors`: list the mirrors of a table in Iceberg with their lag, or forget one."""

import argparse
import json
import time
from contextlib import closing
from typing import TYPE_CHECKING

from hiveacid.cli import target
from hiveacid.cli.command import Command
from hiveacid.cli.terminal import print_table
from hiveacid.errors import InvalidJob
from hiveacid.jobs.job import Access
from hiveacid.metastore.authorizer import require_access, system_user
from hiveacid.rules.names import TableRef
from hiveacid.rules.quantities import duration_in_words

if TYPE_CHECKING:
    from hiveacid.metastore.client import MetastoreClient


def _configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser(
        "list",
        help="show their lag",
        description="Show the mirrors whose last runs left a note in the folder of the table: the newest "
        "version of each, the number of versions that it does not have, and the maximum age of the "
        "oldest of them.",
    )
    forget = actions.add_parser(
        "forget",
        help="forget a mirror that will not run again",
        description="Remove the notes on a mirror from the folder of the Hive table. The Iceberg table "
        "remains; if the mirror runs again, it is listed again.",
    )
    for action in (listing, forget):
        action.add_argument("table", metavar="DB.TABLE", help="the Hive table")
        target.add_metastore(action)
        target.add_json(action)
    forget.add_argument("iceberg", metavar="NAMESPACE.TABLE", help="the Iceberg table")
    forget.add_argument(
        "--catalog", metavar="NAME", help="only a mirror in the catalog of this name (default: any)"
    )


def run(arguments: argparse.Namespace) -> int:
    """List the mirrors of a table, or forget one."""
    from hiveacid.metastore.client import MetastoreClient

    ref = TableRef.parse(arguments.table)
    with closing(MetastoreClient(target.metastore(arguments))) as client:
        if arguments.action == "forget":
            return _forget(client, ref, arguments)
        return _list(client, ref, arguments)


COMMAND = Command(
    name="mirrors",
    help="show the lag of a table's mirrors in Iceberg, or forget one",
    description="Show the lag of a table's mirrors in Iceberg, or forget one of them.",
    configure=_configure,
    run=run,
    changes=True,
)


def _list(client: "MetastoreClient", ref: TableRef, arguments: argparse.Namespace) -> int:
    from hiveacid.jobs import codec
    from hiveacid.metastore.table_rules import existing_table
    from hiveacid.metastore.txn.snapshot import Snapshot
    from hiveacid.records.mirror_notes import known_mirrors

    table = existing_table(client, ref)
    now = Snapshot.take(client, [ref]).write_ids[ref.full_name]
    mirrors = known_mirrors(table, now, time.time())
    if arguments.json:
        described = [codec.encode(mirror) for mirror in mirrors]
        print(json.dumps({"table": ref.full_name, "mirrors": described}, ensure_ascii=False))
        return 0
    print(f"{ref}: {len(mirrors)} mirrors")
    if mirrors:
        head = ("mirror", "catalog", "version", "behind", "at most for")
        rows = [
            (
                one.name,
                one.catalog,
                str(one.lag.version),
                str(one.lag.versions),
                duration_in_words(one.lag.seconds) if one.lag.versions else "",
            )
            for one in mirrors
        ]
        print_table(head, rows, right=[2, 3])
    return 0


def _forget(client: "MetastoreClient", ref: TableRef, arguments: argparse.Namespace) -> int:
    from hiveacid.records.mirror_notes import forget_mirror

    require_access(system_user(), [Access(ref.full_name, None, "forget_mirror")])
    if not forget_mirror(client, ref, arguments.iceberg, arguments.catalog):
        raise InvalidJob(f"{ref} has no mirror {arguments.iceberg!r}.")
    if arguments.json:
        forgotten = {"table": ref.full_name, "mirror": arguments.iceberg, "forgotten": True}
        print(json.dumps(forgotten, ensure_ascii=False))
    else:
        print(f"{ref}: {arguments.iceberg} is forgotten.")
    return 0
