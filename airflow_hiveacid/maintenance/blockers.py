"""Finding out who keeps a table from being compacted or cleaned."""

from datetime import UTC, datetime

from airflow_hiveacid.acid.blockers import Blocker
from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.metastore.answers import HeldLock, TxnInfo
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.snapshot import Snapshot

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def blockers_of(
    client: MetastoreClient,
    ref: TableRef,
    *,
    everywhere: bool = False,
    besides: int | None = None,
) -> list[Blocker]:
    """Who is at work on a table, the oldest first.

    Args:
        client: Whom to ask.
        ref: The table.
        everywhere: Count transactions, too, that hold no lock on the table: one that began before
            something was replaced may still read it without a lock.
        besides: A transaction that does not count: one's own.
    """
    locks = [lock for lock in client.show_locks(ref) if not besides or lock.txn_id != besides]
    by_txn = {lock.txn_id: lock for lock in locks if lock.txn_id is not None}
    open_txns = set(Snapshot.take(client, []).txns.open) - {besides}
    if not everywhere:
        open_txns &= by_txn.keys()
    blockers = [_of_lock(lock) for lock in locks if lock.txn_id not in open_txns]
    if open_txns:
        blockers += [
            _of_txn(txn, by_txn.get(txn.txn_id))
            for txn in client.get_open_txns_info()
            if txn.txn_id in open_txns
        ]
    return sorted(blockers, key=lambda blocker: blocker.since or _LONG_AGO)


def _of_txn(txn: TxnInfo, lock: HeldLock | None) -> Blocker:
    return Blocker(
        txn_id=txn.txn_id,
        lock_id=None if lock is None else lock.lock_id,
        user=txn.user,
        # Transactions of ours have their run token behind the name of the host.
        run=txn.host.partition("/")[2] or None,
        since=txn.started_at,
    )


def _of_lock(lock: HeldLock) -> Blocker:
    since = lock.acquired_at or lock.last_heartbeat
    return Blocker(txn_id=lock.txn_id, lock_id=lock.lock_id, user=lock.user, since=since)
