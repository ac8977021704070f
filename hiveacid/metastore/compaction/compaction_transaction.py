"""The transaction of one compaction of one partition, from the claim to the commit.

On HMS 4 the compaction queue excludes concurrent compactors. HMS 3 has no queue for external
workers; an advisory lock on a name that no engine locks replaces it.
"""

import time
from dataclasses import replace
from functools import partial
from typing import Self

from hiveacid.errors import (
    AlreadyCompacting,
    AnswerLost,
    SnapshotMoved,
)
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compaction.queue import (
    INITIATED,
    READY_FOR_CLEANING,
    CompactionQueue,
    QueuedCompaction,
    own_pool,
    own_worker,
)
from hiveacid.metastore.thrift.answers import TxnType
from hiveacid.metastore.txn.live_transaction import LiveTransaction, State
from hiveacid.metastore.txn.lock_request import LockRequest, describe
from hiveacid.metastore.txn.owner import Owner
from hiveacid.metastore.txn.snapshot import Snapshot
from hiveacid.progress import Phase, PhaseClock
from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.locks import (
    DataOperation,
    LockComponent,
    LockType,
    Operation,
    lock_components,
    read_lock_components,
)
from hiveacid.rules.metastore_version import MetastoreVersion
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.rules.write_ids import CompactorWriteIdList, ValidTxnList

_SERVE_FIRST = 'Run the job again when that is done, or with mode="worker" if no worker serves it.'
_CLEAN_FIRST = (
    "Clean the table first: the metastore takes no new request until then, or until something is"
    " written."
)


def renumbers_rows(type_: CompactionType | None, kind: TableKind) -> bool:
    """Return whether a compaction gives rows other row ids."""
    return type_ is CompactionType.REBALANCE and kind is not TableKind.INSERT_ONLY


def compaction_components(
    version: MetastoreVersion, ref: TableRef, partition: str | None, *, renumbers: bool
) -> tuple[LockComponent, ...]:
    """Return the locks of a compaction of a partition, or of a table without partitions."""
    partitions = None if partition is None else [partition]
    if renumbers:
        # Writers that change rows identify them by row id: the same lock, and the same entry
        # for the check at commit, exclude all of them from beginning to commit.
        return lock_components(version, Operation.UPDATE, ref, partition is not None, partitions)
    (read,) = read_lock_components(ref, True, partitions)
    if version.has_queue:
        return (read,)
    advisory = replace(
        read,
        type=LockType.EXCLUSIVE,
        table=advisory_table(ref).name,
        operation=DataOperation.NO_TXN,
        is_transactional=False,
    )
    return (read, advisory)


def advisory_table(ref: TableRef) -> TableRef:
    """Return the name that compactions of a table lock in place of a queue."""
    return TableRef(ref.database, f"{ref.name}#compaction")


class CompactionTransaction(LiveTransaction):
    """A compaction that begins on entry and is undone on exit unless it is committed.

    Attributes:
        ref: The table.
        partition: The partition's name; null for an unpartitioned table.
        type: The kind of compaction.
        snapshot: The snapshot of the transaction.
        write_ids: The write ids that may be merged.
    """

    def __init__(
        self,
        client: MetastoreClient,
        ref: TableRef,
        partition: str | None,
        type_: CompactionType,
        *,
        kind: TableKind = TableKind.FULL_ACID,
        run_token: str | None = None,
        run_as: str | None = None,
        lock_wait_seconds: float = 300,
        phases: PhaseClock | None = None,
    ) -> None:
        """Describe a compaction; it begins on entry.

        Args:
            client: The metastore.
            ref: The table.
            partition: The partition's name, for a table that has partitions.
            type_: The kind of compaction.
            kind: The kind of table. Without row ids a rebalance conflicts with no writer.
            run_token: Identifies this run's transactions later.
            run_as: The owner of the directory, as which Hive's cleaner removes the replaced files.
            lock_wait_seconds: The longest wait for the lock that keeps the table from being
                dropped.
            phases: Receives the phases of the run.
        """
        super().__init__(client, Owner.of(run_token, client.user), phases or PhaseClock())
        self.ref = ref
        self.partition = partition
        self.type = type_
        self._kind = kind
        self._run_as = run_as
        self._lock_wait = lock_wait_seconds
        self._queue = CompactionQueue(client)
        self._waiting: QueuedCompaction | None = None
        self._claimed: QueuedCompaction | None = None
        self._undone = ""

    @classmethod
    def serve(
        cls,
        client: MetastoreClient,
        *,
        pool: str | None = None,
        table: TableRef | None = None,
        run_token: str | None = None,
        lock_wait_seconds: float = 300,
        phases: PhaseClock | None = None,
    ) -> Self | None:
        """Describe the oldest waiting compaction in HMS 4's queue, if any.

        Entering it may claim a different compaction from the one described here: `ref`, `partition`
        and `type` then identify it.

        Args:
            client: The metastore.
            pool: The pool of the requests; by default the requests without a pool.
            table: Do nothing unless a request for this table waits. The oldest request of the pool
                is served first, regardless of its table.
            run_token: Identifies this run's transactions later.
            lock_wait_seconds: The longest wait for the lock that keeps the table from being
                dropped.
            phases: Receives the phases of the run.
        """
        waiting = CompactionQueue(client).waiting(pool, table)
        if waiting is None:
            return None
        if waiting.type not in list(CompactionType):
            if phases is not None:
                phases.note(f"Only Hive can serve the next request: {waiting}.")
            return None
        served = cls(
            client,
            waiting.table,
            waiting.partition,
            CompactionType(waiting.type),
            kind=client.get_table(waiting.table).kind,
            run_token=run_token,
            run_as=waiting.run_as,
            lock_wait_seconds=lock_wait_seconds,
            phases=phases,
        )
        served._waiting = waiting
        return served

    def __enter__(self) -> Self:
        if self._state is not State.NEW:
            raise RuntimeError("A compaction can be entered only once; describe a new one.")
        try:
            self._begin()
        except SnapshotMoved as moved:
            # Hive's initiator concludes from failed requests that the next one will fail, too.
            self.refuse(str(moved))
            raise
        except BaseException as error:
            self.abort(f"{type(error).__name__} while it began: {error}")
            raise
        return self

    @property
    def visibility_txn(self) -> int:
        """The transaction whose commit publishes the result; 0 if the rename publishes it."""
        return 0 if self._claimed is None else self.txn_id

    @property
    def asked(self) -> QueuedCompaction | None:
        """The served request; null for a request of this process, or on HMS 3."""
        return None if self._waiting is None else self._claimed

    @property
    def txns(self) -> ValidTxnList:
        """The transactions that can be seen."""
        return self.snapshot.txns

    def record(self, highest_write_id: int) -> None:
        """Record the read range in HMS 4 before publishing any part of the result.

        Args:
            highest_write_id: The highest write id that the compaction reads.
        """
        if self._claimed is not None:
            run_as = self._run_as or self._client.get_table(self.ref).owner or self._owner.user
            self._queue.record(self._claimed, self.txn_id, highest_write_id, run_as)

    def commit(self) -> None:
        """Publish the result, or on HMS 3, where it is already visible, release the locks.

        Raises:
            TransactionAborted: The metastore has aborted the transaction (HMS 4 only).
            CommitUncertain: The metastore became unreachable and did not recover in time for a
                check.
        """
        if self._claimed is None:
            self._require_own_process()
            with self._phases(Phase.COMMIT):
                self.release()
            return
        self.check_alive()
        # In this order, like Hive: the commit completes the entries that it finds in the queue.
        self._queue.compacted(self._claimed)
        super().commit()

    def abort(self, reason: str) -> None:
        """Undo everything and report the reason to the queue. Errors become warnings.

        Args:
            reason: The reason.
        """
        self._undone = reason
        super().abort(reason)

    def refuse(self, reason: str) -> None:
        """End the compaction because no work is necessary.

        Args:
            reason: The reason.
        """
        claimed, self._claimed = self._claimed, None
        if claimed is not None and self._state is State.OPEN:
            self.attempt("refuse the request", lambda: self._queue.refused(claimed, reason))
        self.abort(reason)

    @property
    def _holds_only_locks(self) -> bool:
        return not (self.version.has_queue or self._renumbers)

    def _begin(self) -> None:
        """Take all steps; restart from the first one after a lost answer.

        If the answer with the transaction's id is lost, that transaction stays open until it times
        out: it cannot be distinguished from transactions of the same run for other partitions.
        """
        try:
            self._take_steps()
        except AnswerLost as lost:
            if self._claimed is not None and self._waiting is not None:
                raise  # A request of another client can be claimed only once.
            self.abort(f"an answer was lost: {lost.what}")
            self._phases.note(f"Restarting: {lost.what}")
            self._state, self._claimed = State.NEW, None
            self._take_steps()

    def _take_steps(self) -> None:
        """Open a transaction, claim a request, lock, and take the snapshot."""
        started = time.monotonic()
        with self._phases(Phase.OPEN, "a transaction"):
            if self._waiting is None:
                self._check_others()
            queued = self.version.has_queue
            kind = TxnType.REBALANCE_COMPACTION if self._renumbers else TxnType.COMPACTION
            self._open(kind if queued else TxnType.DEFAULT)
            self._phases.opened(self.txn_id, {})
            if queued:
                self._claim()
        with self._phases(Phase.LOCK, str(self.ref)):
            lock = LockRequest(self._client, self._components(), self.txn_id, self._owner)
            lock.send()
            self._check_lock(lock)
            reason_to_stop = partial(self._check_lock, lock)
            lock.wait(started, self._lock_wait, reason_to_stop, self._phases)
        with self._phases(Phase.SNAPSHOT, "of what is committed"):
            if self._renumbers and (other := self._client.latest_conflicting_txn(self.txn_id)) > 0:
                raise SnapshotMoved(
                    f"Transaction {other} committed a change of {self.ref} after the rebalance began."
                )
            self.snapshot = Snapshot.take(self._client, [self.ref], self.txn_id)
            self.write_ids = CompactorWriteIdList.of(self.snapshot.write_ids[self.ref.full_name])

    def _check_others(self) -> None:
        for other in self._queue.live(self.ref, self.partition):
            serve = other.state == INITIATED and self.version.has_queue
            raise AlreadyCompacting(f"In the way: {other}.", remedy=_SERVE_FIRST if serve else None)

    def _claim(self) -> None:
        """Claim a request: the waiting one, or a new one of this process."""
        pool = self._request() if self._waiting is None else self._waiting.pool
        claimed = self._queue.claim(own_worker(self._owner.host, self.txn_id), pool)
        if claimed is None:
            raise AlreadyCompacting("Another worker took the request.")
        self._claimed = claimed
        self.own(self._give_up, f"request {claimed.id} from the queue")
        opened = self._renumbers
        if claimed.type in list(CompactionType):
            self.ref, self.partition = claimed.table, claimed.partition
            self.type = CompactionType(claimed.type)
            if self._waiting is not None and self._waiting.id != claimed.id:
                self._run_as = None  # Unknown for a request other than the one that was shown.
                self._kind = self._client.get_table(self.ref).kind
        # The type of a transaction is for good, and so is a claim.
        if claimed.type not in list(CompactionType) or self._renumbers != opened:
            raise AlreadyCompacting(
                f"Another worker has claimed it; the next request is {claimed}."
            )

    def _request(self) -> str:
        """Make a request in a pool that no other worker reads.

        Returns:
            The pool.
        """
        pool = own_pool(self.txn_id)
        ref, partition = self.ref, self.partition
        answer = self._queue.request(ref, partition, self.type, pool=pool, run_as=self._run_as)
        if not answer.accepted:
            entries = self._queue.show(ref, partition)
            # Its answer may have got lost the first time.
            if not any(entry.pool == pool for entry in entries):
                ready = [entry for entry in entries if entry.state == READY_FOR_CLEANING]
                raise AlreadyCompacting(
                    f"In the way: {ready[0]}." if ready else f"{answer.message}.",
                    remedy=_CLEAN_FIRST if ready else None,
                )
        return pool

    def _give_up(self) -> None:
        if self._claimed is not None:
            self._queue.failed(self._claimed, self._undone)

    def _components(self) -> tuple[LockComponent, ...]:
        return compaction_components(
            self.version, self.ref, self.partition, renumbers=self._renumbers
        )

    @property
    def _renumbers(self) -> bool:
        return renumbers_rows(self.type, self._kind)

    def _check_lock(self, lock: LockRequest) -> None:
        """Give up at once if another compactor of this package is working on HMS 3."""
        self.check_alive()
        if self.version.has_queue or lock.granted:
            return
        for held in lock.blockers():
            if held.table == advisory_table(self.ref):
                raise AlreadyCompacting(f"Another compactor is active: {describe(held)}.")
