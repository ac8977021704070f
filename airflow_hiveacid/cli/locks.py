"""`hiveacid locks`: who holds locks, and who waits for them."""

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.acid.text_table import aligned
from airflow_hiveacid.cli import target
from airflow_hiveacid.cli.command import Command
from airflow_hiveacid.cli.output import age_in_words, iso_time

if TYPE_CHECKING:
    from airflow_hiveacid.metastore.thrift.answers import HeldLock


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", nargs="?", metavar="DB.TABLE", help="only the locks on this table")
    target.add_metastore(parser)
    target.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the locks, those that are held the longest first."""
    from airflow_hiveacid.metastore.client import MetastoreClient
    from airflow_hiveacid.metastore.txn.writer_queue import queue_of

    ref = TableRef.parse(arguments.table) if arguments.table else None
    with closing(MetastoreClient(target.metastore(arguments))) as client:
        locks = client.show_locks(ref)
        if ref is not None:
            locks += client.show_locks(queue_of(ref))
    locks.sort(key=lambda lock: lock.lock_id)
    if arguments.json:
        print(json.dumps([_as_json(lock) for lock in locks], ensure_ascii=False))
    else:
        print("\n".join(_as_text(locks)))
    return 0


COMMAND = Command(
    name="locks",
    help="show who holds locks, and who waits",
    description="Show the locks of the metastore, the oldest first: on what, of which kind, "
    "whether they are acquired or waited for, and whose they are.",
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


def _as_text(locks: "Sequence[HeldLock]") -> Iterator[str]:
    if not locks:
        yield "No locks."
        return
    now = datetime.now(UTC)
    yield from aligned(
        [
            (
                f"lock {lock.lock_id}",
                "" if lock.txn_id is None else f"txn {lock.txn_id}",
                lock.type.name.lower(),
                lock.state.name.lower(),
                age_in_words(now, lock.acquired_at),
                "/".join(
                    filter(
                        None,
                        [lock.table.full_name if lock.table else lock.database, lock.partition],
                    )
                ),
                f"{lock.user}@{lock.host}",
                lock.agent_info or "",
            )
            for lock in locks
        ],
        right=[4],
    )
