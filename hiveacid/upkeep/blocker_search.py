"""Search for blockers of a table's compactions and cleanings: open transactions and locks."""

from datetime import UTC, datetime

from hiveacid.jobs.options.run_token import unmarked_token
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift.answers import HeldLock, TxnInfo, TxnState
from hiveacid.rules.blockers import Blocker
from hiveacid.rules.names import TableRef

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def blockers_of(
    client: MetastoreClient,
    ref: TableRef,
    *,
    everywhere: bool = False,
    besides: int | None = None,
) -> list[Blocker]:
    """Return the transactions that use a table, oldest first.

    Args:
        client: The metastore.
        ref: The table.
        everywhere: Count transactions, too, that hold no lock on the table: one that began before
            something was replaced may still read it without a lock.
        besides: A transaction that does not count: one's own.
    """
    locks = [lock for lock in client.show_locks(ref) if not besides or lock.txn_id != besides]
    by_txn = {lock.txn_id: lock for lock in locks if lock.txn_id is not None}
    # HMS 4 leaves readers out of the list of open transactions, but not out of the smallest one.
    anybody = bool(by_txn) or (everywhere and client.get_open_txns().min_open is not None)
    infos = [
        txn
        for txn in (client.get_open_txns_info() if anybody else ())
        if txn.state is TxnState.OPEN
        and txn.txn_id != besides
        and (everywhere or txn.txn_id in by_txn)
    ]
    listed = {txn.txn_id for txn in infos}
    blockers = [_of_txn(txn, by_txn.get(txn.txn_id)) for txn in infos]
    blockers += [_of_lock(lock) for lock in locks if lock.txn_id not in listed]
    return sorted(blockers, key=_age)


def blockers_by_table(client: MetastoreClient) -> dict[TableRef, list[Blocker]]:
    """Return the holders of and waiters for locks of all tables, oldest first.

    Args:
        client: The metastore: one request, and a second one if any lock exists.
    """
    by_table: dict[TableRef, dict[int, HeldLock]] = {}
    for lock in client.show_locks():
        if lock.table is not None:
            by_table.setdefault(lock.table, {})[lock.txn_id or -lock.lock_id] = lock
    infos = client.get_open_txns_info() if by_table else ()
    txns = {txn.txn_id: txn for txn in infos if txn.state is TxnState.OPEN}
    return {
        table: sorted(
            (
                _of_txn(txn, lock) if (txn := txns.get(holder)) else _of_lock(lock)
                for holder, lock in locks.items()
            ),
            key=_age,
        )
        for table, locks in by_table.items()
    }


def _age(blocker: Blocker) -> datetime:
    return blocker.since or _LONG_AGO


def _of_txn(txn: TxnInfo, lock: HeldLock | None) -> Blocker:
    return Blocker(
        txn_id=txn.txn_id,
        lock_id=None if lock is None else lock.lock_id,
        user=txn.user,
        host=txn.machine,
        run=unmarked_token(txn.token) or None,
        since=txn.started_at,
    )


def _of_lock(lock: HeldLock) -> Blocker:
    since = lock.acquired_at or lock.last_heartbeat
    return Blocker(
        txn_id=lock.txn_id, lock_id=lock.lock_id, user=lock.user, host=lock.host, since=since
    )
