"""An exclusive lock on a table, held while its definition is changed."""

import time
from collections.abc import Sequence
from typing import Any, Self

from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift.answers import TxnType
from hiveacid.metastore.txn.live_transaction import LiveTransaction
from hiveacid.metastore.txn.lock_request import LockRequest
from hiveacid.metastore.txn.open_reads import end_reads
from hiveacid.metastore.txn.owner import Owner, abort_open_transactions
from hiveacid.progress import Phase, PhaseClock
from hiveacid.rules.locks import (
    DataOperation,
    LockComponent,
    LockLevel,
    LockType,
    exclusively_locked,
)
from hiveacid.rules.names import TableRef

# The metastore needs seconds for a lock with many more components.
_MOST_PARTITIONS = 100


def definition_components(
    ref: TableRef,
    type_: LockType,
    partitions: Sequence[str] = (),
    others: Sequence[TableRef] = (),
) -> list[LockComponent]:
    """Return the locks of a change of definitions.

    Args:
        ref: The table.
        type_: The kind of lock.
        partitions: The names of the partitions to lock; empty, or very many, lock the whole table.
        others: More tables, which are locked at the same time.
    """
    names = partitions if 0 < len(partitions) <= _MOST_PARTITIONS else (None,)
    places = [*((ref, name) for name in names), *((other, None) for other in others)]
    return [
        LockComponent(
            type=type_,
            level=LockLevel.PARTITION if partition else LockLevel.TABLE,
            database=table.database,
            table=table.name,
            partition=partition,
            operation=DataOperation.NO_TXN,
            is_transactional=False,
            is_dynamic_partition_write=False,
        )
        for table, partition in places
    ]


class ExclusiveTable(LiveTransaction):
    """An exclusive lock on a table, transactional or not, while its definition is changed."""

    def __init__(
        self,
        client: MetastoreClient,
        ref: TableRef,
        run_token: str | None,
        lock_wait_seconds: float,
        *,
        others: Sequence[TableRef] = (),
        partitions: Sequence[str] = (),
        type_: LockType = LockType.EXCLUSIVE,
    ) -> None:
        """Describe a lock; it is requested on entry.

        Args:
            client: The metastore.
            ref: The table.
            run_token: The run that wants it.
            lock_wait_seconds: The longest wait for other owners.
            others: More tables, which are locked at the same time.
            partitions: The names of the partitions to lock; empty locks the whole table.
            type_: Another kind of lock: a read lock is sufficient for unchanged rows, to block
                requests for an exclusive lock.
        """
        super().__init__(client, Owner.of(run_token, client.user), PhaseClock())
        self._components = definition_components(ref, type_, partitions, others)
        self._lock_wait = lock_wait_seconds

    def __enter__(self) -> Self:
        try:
            self._open(TxnType.DEFAULT)
            # Or it would wait for the lock of a try that was killed until that times out.
            abort_open_transactions(self._client, self._owner.agent_info, before=self.txn_id)
            end_reads(self._client.options, exclusively_locked(self._components))
            request = LockRequest(self._client, self._components, self.txn_id, self._owner)
            with self._phases(Phase.LOCK):
                request.send()
                request.wait(time.monotonic(), self._lock_wait, self._lost, self._phases)
        except BaseException as error:
            self.abort(type(error).__name__)
            raise
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if kind is None:
            self.release()
        super().__exit__(kind, error, traceback)

    @property
    def _holds_only_locks(self) -> bool:
        return True

    def _lost(self) -> None:
        self.check_alive()
