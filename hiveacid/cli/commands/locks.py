"""`hiveacid locks`: holders of locks, and transactions that wait for them."""

import argparse
import json
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hiveacid.cli import target
from hiveacid.cli.command import Command
from hiveacid.cli.output import age_in_words, iso_time
from hiveacid.cli.terminal import print_table
from hiveacid.jobs.options.run_token import unmarked_token
from hiveacid.rules.names import TableRef

if TYPE_CHECKING:
    from hiveacid.metastore.thrift.answers import HeldLock


_HEAD = ("lock", "txn", "type", "state", "age", "on", "by", "run")


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", nargs="?", metavar="DB.TABLE", help="only the locks on this table")
    target.add_metastore(parser)
    target.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the locks, those that are held the longest first."""
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.metastore.table_rules import existing_table
    from hiveacid.metastore.txn.writer_queue import queue_of

    ref = TableRef.parse(arguments.table) if arguments.table else None
    with closing(MetastoreClient(target.metastore(arguments))) as client:
        locks = client.show_locks(ref)
        if ref is not None:
            locks += client.show_locks(queue_of(ref))
            if not locks:
                existing_table(client, ref)  # A missing table has no locks either.
    locks.sort(key=lambda lock: lock.lock_id)
    if arguments.json:
        print(json.dumps({"locks": [_as_json(lock) for lock in locks]}, ensure_ascii=False))
    elif locks:
        now = datetime.now(UTC)
        print_table(_HEAD, [_row(lock, now) for lock in locks], right=[0, 1, 4])
    else:
        print("No locks.")
    return 0


COMMAND = Command(
    name="locks",
    help="show locks with their holders and waiting requests",
    description="Show the locks of the metastore, the oldest first, with object, kind, "
    "state (acquired or waiting), and owner.",
    configure=_configure,
    run=run,
)


def _as_json(lock: "HeldLock") -> dict[str, Any]:
    return {
        "lock_id": lock.lock_id,
        "txn_id": lock.txn_id,
        "database": lock.database,
        "table": None if lock.table is None else lock.table.name,
        "partition": lock.partition,
        "type": lock.type.name.lower(),
        "state": lock.state.name.lower(),
        "user": lock.user,
        "host": lock.host,
        "agent_info": lock.agent_info,
        "acquired_at": iso_time(lock.acquired_at),
        "last_heartbeat": iso_time(lock.last_heartbeat),
    }


def _row(lock: "HeldLock", now: datetime) -> tuple[str, ...]:
    place = lock.table.full_name if lock.table else lock.database
    return (
        str(lock.lock_id),
        "" if lock.txn_id is None else str(lock.txn_id),
        lock.type.name.lower(),
        lock.state.name.lower(),
        age_in_words(now, lock.acquired_at),
        "/".join(filter(None, [place, lock.partition])),
        f"{lock.user}@{lock.host}",
        unmarked_token(lock.agent_info or ""),
    )
