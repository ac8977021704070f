"""`hiveacid txns` and `locks`: open transactions, and the holders of locks."""

import argparse
import getpass
import json
import sys
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hiveacid.cli import target
from hiveacid.cli.command import Command
from hiveacid.cli.output import age_in_words, iso_time, print_table
from hiveacid.errors import InvalidJob
from hiveacid.jobs.job import EVERYTHING, SHOW, Access
from hiveacid.metastore.authorizer import require_access, system_user
from hiveacid.rules.names import TableRef
from hiveacid.rules.run_tokens import task_and_run, unmarked_token

if TYPE_CHECKING:
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.metastore.thrift.answers import HeldLock, TxnInfo


_HEAD_locks = ("lock", "txn", "type", "state", "age", "on", "by", "task", "run")


def _configure_locks(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", nargs="?", metavar="DB.TABLE", help="only the locks on this table")
    target.add_metastore(parser)
    target.add_json(parser)


def run_locks(arguments: argparse.Namespace) -> int:
    """Print the locks, those that are held the longest first."""
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.metastore.table_rules import existing_table
    from hiveacid.metastore.txn.locks import queue_of

    ref = TableRef.parse(arguments.table) if arguments.table else None
    with closing(MetastoreClient(target.metastore(arguments))) as client:
        locks = client.show_locks(ref)
        if ref is not None:
            locks += client.show_locks(queue_of(ref))
            if not locks:
                existing_table(client, ref)  # A missing table has no locks either.
    locks.sort(key=lambda lock: lock.lock_id)
    if arguments.json:
        print(json.dumps({"locks": [_as_json_locks(lock) for lock in locks]}, ensure_ascii=False))
    elif locks:
        now = datetime.now(UTC)
        print_table(_HEAD_locks, [_row_locks(lock, now) for lock in locks], right=[0, 1, 4])
    else:
        print("No locks.")
    return 0


LOCKS = Command(
    name="locks",
    help="show locks with their holders and waiting requests",
    description="Show the locks of the metastore, the oldest first, with object, kind, "
    "state (acquired or waiting), and owner.",
    configure=_configure_locks,
    run=run_locks,
)


def _as_json_locks(lock: "HeldLock") -> dict[str, Any]:
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


def _row_locks(lock: "HeldLock", now: datetime) -> tuple[str, ...]:
    place = lock.table.full_name if lock.table else lock.database
    return (
        str(lock.lock_id),
        "" if lock.txn_id is None else str(lock.txn_id),
        lock.type.name.lower(),
        lock.state.name.lower(),
        age_in_words(now, lock.acquired_at),
        "/".join(filter(None, [place, lock.partition])),
        f"{lock.user}@{lock.host}",
        *task_and_run(lock.agent_info or ""),
    )


_HEAD_txns = ("txn", "open for", "heartbeat", "by", "task", "run")


def _configure_txns(parser: argparse.ArgumentParser) -> None:
    actions = target.add_actions(parser)
    listing = actions.add_parser(
        "list",
        help="show the open transactions",
        description="Show the open transactions, the oldest first, and how many are aborted. "
        "Version 4 of the metastore shows no transactions that only read.",
    )
    target.add_metastore(listing)
    target.add_json(listing)
    abort = actions.add_parser(
        "abort",
        help="abort an open transaction; its writes never become visible",
        description="Abort an open transaction: its locks are released, its writes never become "
        "visible, and its owner fails at the next heartbeat. A task of this package starts again "
        "with its next attempt.",
    )
    abort.add_argument("txn_id", type=int, metavar="ID", help="the transaction")
    abort.add_argument(
        "--reason",
        required=True,
        metavar="TEXT",
        help="the reason, which is printed with your name and the time. The metastore does not "
        "store it; `airflow hiveacid` records it in Airflow's audit log",
    )
    target.add_metastore(abort)
    target.add_json(abort)


def run(arguments: argparse.Namespace) -> int:
    """List transactions, or abort one."""
    from hiveacid.metastore.client import MetastoreClient

    with closing(MetastoreClient(target.metastore(arguments))) as client:
        if arguments.action == "abort":
            return _abort(client, arguments)
        return _list(client, arguments)


TXNS = Command(
    name="txns",
    help="show open transactions, or abort one",
    description="Show the open transactions, also without an action, or abort one of them.",
    configure=_configure_txns,
    run=run,
    changes=True,
    action=SHOW,
)


def _list(client: "MetastoreClient", arguments: argparse.Namespace) -> int:
    from hiveacid.metastore.thrift.answers import TxnState

    txns = client.get_open_txns_info()
    open_ = sorted((txn for txn in txns if txn.state is TxnState.OPEN), key=lambda txn: txn.txn_id)
    aborted_count = len(txns) - len(open_)
    if arguments.json:
        description = {"open": [_as_json_txns(txn) for txn in open_], "aborted": aborted_count}
        print(json.dumps(description, ensure_ascii=False))
    else:
        print(f"{len(open_)} open, {aborted_count} aborted")
        if open_:
            now = datetime.now(UTC)
            print_table(_HEAD_txns, [_row_txns(txn, now) for txn in open_], right=[0, 1, 2])
    return 0


def _abort(client: "MetastoreClient", arguments: argparse.Namespace) -> int:
    from hiveacid.metastore.thrift.answers import TxnLiveness

    require_access(system_user(), [Access(EVERYTHING, None, "abort_txn")])
    txn_id, reason = arguments.txn_id, arguments.reason.strip()
    if not reason:
        raise InvalidJob("The reason is empty.")
    # Only this request also returns transactions that read.
    liveness = client.heartbeat(txn_id)
    if liveness is TxnLiveness.UNKNOWN:
        raise InvalidJob(
            f"Transaction {txn_id} is not open: it is committed, or there never was one."
        )
    owner_txn = next((txn for txn in client.get_open_txns_info() if txn.txn_id == txn_id), None)
    if liveness is TxnLiveness.OPEN:
        client.abort_txn(txn_id)
    abort_record = {
        "txn_id": txn_id,
        "aborted": liveness is TxnLiveness.OPEN,
        "owner": None if owner_txn is None else _as_json_txns(owner_txn),
        "by": getpass.getuser(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "reason": reason,
    }
    if arguments.json:
        print(json.dumps(abort_record, ensure_ascii=False))
    elif liveness is TxnLiveness.ABORTED:
        print(f"Transaction {txn_id} was aborted already.")
    else:
        of = ""
        if owner_txn is not None:
            run = f"/{unmarked_token(owner_txn.token)}" if owner_txn.token else ""
            of = f" of {owner_txn.user}@{owner_txn.machine}{run}"
        print(f"Transaction {txn_id}{of} is aborted.")
    print(f"hiveacid: {abort_record['at']} {abort_record['by']}: {reason}", file=sys.stderr)
    return 0


def _as_json_txns(txn: "TxnInfo") -> dict[str, Any]:
    return {
        "txn_id": txn.txn_id,
        "user": txn.user,
        "host": txn.machine,
        "run_token": unmarked_token(txn.token) or None,
        "started_at": iso_time(txn.started_at),
        "last_heartbeat": iso_time(txn.last_heartbeat),
    }


def _row_txns(txn: "TxnInfo", now: datetime) -> tuple[str, ...]:
    silent = age_in_words(now, txn.last_heartbeat)
    return (
        str(txn.txn_id),
        age_in_words(now, txn.started_at),
        silent and f"{silent} ago",
        f"{txn.user}@{txn.machine}",
        *task_and_run(txn.token),
    )
