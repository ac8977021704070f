"""A transaction from beginning to end: the one protocol of every read and every write."""

import time
from collections.abc import Sequence
from functools import partial
from types import TracebackType
from typing import Self

from airflow_hiveacid.acid.errors import AnswerLost, SnapshotMoved
from airflow_hiveacid.acid.locks import (
    DataOperation,
    LockComponent,
    MetastoreVersion,
    Operation,
    TableRef,
    lock_components,
    read_lock_components,
)
from airflow_hiveacid.jobs.phases import Phase, PhaseClock
from airflow_hiveacid.metastore.answers import TxnType
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.live_transaction import LiveTransaction, State
from airflow_hiveacid.metastore.lock_request import LockRequest
from airflow_hiveacid.metastore.rivals import Rivals
from airflow_hiveacid.metastore.settle import Outcome, Owner, abort_open_transactions, outcome
from airflow_hiveacid.metastore.snapshot import Snapshot, committed_above


class Transaction(LiveTransaction):
    """A transaction that is begun by entering it, and aborted by leaving it uncommitted.

    Entering opens the transaction, gives it a write id, locks and takes the snapshot. Where a
    writer got in between, so that the work would be refused in the end, all of this is done anew
    with a fresh transaction, before anything is spent on the work.

    Attributes:
        write_id: Its write id for the target; 0 when it only reads.
        snapshot: What it sees, its own writes included.
        restarts: How often it had to begin anew.
    """

    def __init__(
        self,
        client: MetastoreClient,
        *,
        operation: Operation,
        target: TableRef | None = None,
        partitioned: bool = False,
        partitions: Sequence[str] | None = None,
        reads: Sequence[TableRef] = (),
        run_token: str | None = None,
        user: str | None = None,
        lock_wait_seconds: float = 300,
        max_restarts: int = 5,
        phases: PhaseClock | None = None,
    ) -> None:
        """Describe a transaction; nothing happens before it is entered.

        Args:
            client: The metastore.
            operation: What will be done to the target; SELECT without one.
            target: The table to write.
            partitioned: Whether the target has partition keys.
            partitions: The names of all partitions that can be touched, if known.
            reads: Transactional tables that are read.
            run_token: Under which this run's transactions can be found later on.
            user: Whom the metastore shows as the owner.
            lock_wait_seconds: How long to wait for the locks, restarts included.
            max_restarts: How often to begin anew, not counting what follows upon a wait.
            phases: Is told about the phases.
        """
        owner = Owner.of(run_token, user or client.options.user)
        super().__init__(client, owner, phases or PhaseClock())
        self.restarts = 0
        self.write_id = 0
        self._operation = operation
        self._target = target
        self._partitioned = partitioned
        self._partitions = partitions
        self._reads = tuple(read for read in reads if read != target)
        self._lock_wait = lock_wait_seconds
        self._max_restarts = max_restarts
        self._waited = False

    def __enter__(self) -> Self:
        if self._state is not State.NEW:
            raise RuntimeError("A transaction can be entered only once; describe a new one.")
        started, overtaken = time.monotonic(), 0
        try:
            while (moved := self._begin(started)) is not None:
                self._discard()
                # Who waits in a queue is overtaken by everybody ahead: there the time is the limit.
                overtaken += not self._waited
                if overtaken > self._max_restarts:
                    raise SnapshotMoved(
                        f"The work on {self._target or 'the sources'} could not begin in"
                        f" {overtaken} attempts; in the last one {moved}."
                    )
                self.restarts += 1
                self._phases.note(f"Beginning anew: {moved}")
        except BaseException as error:
            self.abort(f"{type(error).__name__} while it began")
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._state is State.OPEN and kind is None and self._target is None:
            self._release()
        super().__exit__(kind, error, traceback)

    def register_partitions(
        self, names: Sequence[str], operation: DataOperation | None = None
    ) -> None:
        """Tell the metastore which partitions were written, so that it sees conflicts there.

        Args:
            names: The partitions' names, as the metastore has them.
            operation: INSERT or UPDATE; what the transaction's operation amounts to by default.
        """
        assert self._target is not None
        if operation is None:
            insert = self._operation is Operation.INSERT
            operation = DataOperation.INSERT if insert else DataOperation.UPDATE
        if names:
            self._client.add_dynamic_partitions(
                self.txn_id, self.write_id, self._target, names, operation
            )

    def _begin(self, started: float) -> str | None:
        """Open, lock and look.

        Returns:
            None when the work can start, else why it has to begin anew.
        """
        components, rivals = self._components(), None
        self._waited = False
        try:
            with self._phases(Phase.OPEN):
                if self._changes_rows and self.version is MetastoreVersion.HMS3:
                    assert self._target is not None
                    rivals = Rivals(self._client, self._target, components)
                self._open(TxnType.READ_ONLY if self._target is None else TxnType.DEFAULT)
                if self._target is not None:
                    # Before the lock, or the lock's rows in the metastore stay without a write id
                    # and are never cleaned.
                    self.write_id = self._client.allocate_write_id(self.txn_id, self._target)
                    self._phases.opened(self.txn_id, {self._target.full_name: self.write_id})
            with self._phases(Phase.LOCK):
                if components:
                    lock = LockRequest(self._client, components, self.txn_id, self._owner)
                    lock.send()
                    self._waited = not lock.granted
                    if rivals is not None and (moved := rivals.came_before(lock)):
                        return moved
                    in_vain = partial(self._overtaken, rivals)
                    if moved := lock.wait(started, self._lock_wait, in_vain):
                        return moved
            with self._phases(Phase.SNAPSHOT):
                tables = self._reads if self._target is None else (*self._reads, self._target)
                self.snapshot = Snapshot.take(self._client, tables, self.txn_id)
                return self._moved(rivals)
        except AnswerLost as lost:
            # A transaction may be open, or a lock be queued, that we do not know of.
            abort_open_transactions(self._client, self._owner.agent_info)
            return f"an answer got lost: {lost.what}"

    def _discard(self) -> None:
        """Give up a transaction that nothing has been done in."""
        if self._state is State.OPEN:
            self._client.abort_txn(self.txn_id)
            self._end()

    @property
    def _changes_rows(self) -> bool:
        return self._operation not in (Operation.SELECT, Operation.INSERT)

    def _components(self) -> tuple[LockComponent, ...]:
        components = [each for read in self._reads for each in read_lock_components(read, True)]
        if self._target is not None:
            components += lock_components(
                self.version, self._operation, self._target, self._partitioned, self._partitions
            )
        return tuple(components)

    def _moved(self, rivals: Rivals | None) -> str | None:
        """Why the work would be in vain although everything is locked, or None."""
        if self._target is None:
            return None
        seen = self.snapshot
        if self._operation is Operation.INSERT:
            # Even what a younger transaction has overwritten hides the rows of a smaller write id.
            seen = Snapshot.take(self._client, [self._target])
        above = committed_above(seen.write_ids[self._target.full_name], self.write_id)
        if above is not None:
            return f"write id {above} was committed before {self.write_id}, which is smaller"
        return self._overtaken(rivals)

    def _overtaken(self, rivals: Rivals | None) -> str | None:
        """Who has changed what is locked, or waited for, since the transaction was opened."""
        self.check_alive()
        if rivals is not None:
            return rivals.went_ahead()
        if self._changes_rows:
            other = self._client.latest_conflicting_txn(self.txn_id)
            if other > 0:
                return f"transaction {other} committed a change after this one was opened"
        return None

    def _outcome(self) -> Outcome:
        return outcome(self._client, self.txn_id, self._target, self.write_id)
