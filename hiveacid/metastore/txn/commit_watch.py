"""Detection, on HMS 3, of commits between the opening of a transaction and its locks.

The metastore rejects such a transaction, but only at its commit, after all its work. HMS 4 can be
queried beforehand. On HMS 3 the answer is derived from locks and write ids.
"""

from collections.abc import Sequence

from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.lock_request import LockRequest, collides
from hiveacid.metastore.txn.snapshot import Snapshot
from hiveacid.rules.locks import LockComponent, LockType
from hiveacid.rules.names import TableRef
from hiveacid.rules.write_ids import ValidTxnList, ValidWriteIdList


class CommitWatch:
    """Watches one table from the time before a transaction is opened until its locks are granted."""

    def __init__(
        self, client: MetastoreClient, target: TableRef, components: Sequence[LockComponent]
    ) -> None:
        """Record the initial state, which must happen before the transaction is opened.

        Args:
            client: The metastore.
            target: The table to be changed.
            components: The locks that the transaction will request.
        """
        self._client = client
        self._target = target
        locks = [lock for lock in client.show_locks(target) if lock.txn_id is not None]
        colliding = {lock.txn_id for lock in locks if collides(client.version, lock, components)}
        # These transactions write outside the requested locks. Their commits are irrelevant here;
        # otherwise backfills of different partitions would restart each other.
        self._bystanders = {lock.txn_id for lock in locks if lock.txn_id} - colliding
        self._before = self._committed()
        self._ahead: list[int] = []

    def committed_before(self, lock: LockRequest) -> str | None:
        """Check again immediately after the lock request.

        From now on no writer can overtake: conflicting writers wait behind this request.

        Args:
            lock: The request.

        Returns:
            The change between opening and locking, if any.
        """
        if not lock.granted:
            self._ahead = [
                held.txn_id
                for held in lock.blockers()
                if held.txn_id is not None
                and held.type is not LockType.SHARED_READ
                and held.table in (None, self._target)
            ]
        after = self._committed()
        unknown = range(self._before.high_watermark + 1, after.high_watermark + 1)
        new = {write_id for write_id in (*self._before.open, *unknown) if after.is_valid(write_id)}
        if new and (new := new - self._written_by_bystanders(after)):
            return f"write id {min(new)} was committed between opening and locking"
        return None

    def committed_while_waiting(self) -> str | None:
        """Check while waiting, and a last time after the locks are granted.

        Returns:
            The transaction ahead of this one that committed a change, if any.
        """
        txns = Snapshot.take(self._client, []).txns if self._ahead else None
        for txn_id in self._ahead:
            if txns is not None and txns.is_valid(txn_id):
                return f"transaction {txn_id}, which was waited for, committed"
        return None

    def _committed(self) -> ValidWriteIdList:
        return Snapshot.take(self._client, [self._target]).write_ids[self._target.full_name]

    def _written_by_bystanders(self, after: ValidWriteIdList) -> set[int]:
        # Queried as if they were still open, the metastore returns their write ids.
        txns = ValidTxnList(
            high_watermark=self._client.get_open_txns().high_watermark,
            min_open=min(self._bystanders, default=1),
            open=tuple(sorted(self._bystanders)),
        )
        theirs = self._client.get_valid_write_ids([self._target], txns)[self._target.full_name]
        return set(theirs.open)
