"""A transaction from beginning to end: the common protocol of every read and every write."""

import time
from collections.abc import Sequence
from functools import partial
from types import TracebackType
from typing import Protocol, Self

from hiveacid.errors import AnswerLost, SnapshotMoved
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift.answers import TxnType
from hiveacid.metastore.txn.commit_watch import CommitWatch
from hiveacid.metastore.txn.definitions import Definitions
from hiveacid.metastore.txn.live_transaction import LiveTransaction, State
from hiveacid.metastore.txn.lock_request import LockRequest
from hiveacid.metastore.txn.open_reads import end_reads
from hiveacid.metastore.txn.owner import Outcome, Owner, outcome
from hiveacid.metastore.txn.snapshot import Snapshot, committed_above
from hiveacid.metastore.txn.writer_queue import WriterQueue
from hiveacid.progress import Phase, PhaseClock
from hiveacid.rules.locks import (
    DataOperation,
    LockComponent,
    Target,
    exclusively_locked,
    joined_targets,
    transaction_components,
)
from hiveacid.rules.names import TableRef


class EndsEarlierAttempts(Protocol):
    """Earlier attempts of the same run."""

    def end(self, before: int | None = None) -> None:
        """Abort their open transactions; raise if one of them has committed.

        Args:
            before: Keep this transaction and younger ones.
        """


class Transaction(LiveTransaction):
    """A transaction that begins on entry and is aborted on exit unless it is committed.

    Entering opens the transaction, gives it a write id for each table it writes, locks and takes
    the snapshot. If another writer intervenes, so that the commit would be rejected, all of this is
    repeated with a new transaction before the work starts.

    Attributes:
        write_ids: Its write id for each target, by the full name of the table.
        snapshot: The snapshot, including its own writes.
        definitions: The definitions of the tables that it reads.
        restarts: The number of restarts.
    """

    def __init__(
        self,
        client: MetastoreClient,
        *,
        targets: Sequence[Target] = (),
        reads: Sequence[TableRef] = (),
        keeps_files: bool = False,
        queues: bool = True,
        run_token: str | None = None,
        user: str | None = None,
        lock_wait_seconds: float = 300,
        max_restarts: int = 5,
        phases: PhaseClock | None = None,
        earlier_attempts: EndsEarlierAttempts | None = None,
    ) -> None:
        """Describe a transaction; it begins on entry.

        Args:
            client: The metastore.
            targets: The tables to write, with the operations; without any, the transaction only
                reads. Of several operations for one table, the strongest counts.
            reads: Transactional tables that are read.
            keeps_files: Whether it has files of its own although it writes no table. HMS 4 hides
                read-only transactions, and their files would be treated as left-overs.
            queues: Whether to wait for earlier writers that want to change the same rows. A writer
                that has already had its turn does not wait.
            run_token: Identifies this run's transactions later.
            user: The owner that the metastore displays.
            lock_wait_seconds: The longest wait for the locks, restarts included.
            max_restarts: The maximum number of restarts, not counting those after a wait.
            phases: Receives the phases of the run.
            earlier_attempts: Earlier attempts, which must end before the transaction requests locks.
        """
        owner = Owner.of(run_token, user or client.user)
        super().__init__(client, owner, phases or PhaseClock())
        self.restarts = 0
        self.write_ids: dict[str, int] = {}
        self._targets = joined_targets(targets)
        self._reads = tuple(read for read in reads if read not in self._targets)
        self._kind = TxnType.DEFAULT if targets or keeps_files else TxnType.READ_ONLY
        self._queues = queues
        self._lock_wait = lock_wait_seconds
        self._max_restarts = max_restarts
        self._earlier_attempts = earlier_attempts
        self._waited = False

    def __enter__(self) -> Self:
        if self._state is not State.NEW:
            raise RuntimeError("A transaction can be entered only once; describe a new one.")
        started, overtaken = time.monotonic(), 0
        components = transaction_components(self.version, self._targets.values(), self._reads)
        end_reads(self._client.options, exclusively_locked(components))
        queued = components if self._queues else ()
        self._writer_queue = WriterQueue(self._client, queued, self._owner, self._phases)
        try:
            while (moved := self._begin(started, components)) is not None:
                self._discard()
                # Waiting for all earlier requests in a queue does not count as a restart: the time
                # limit applies.
                overtaken += not self._waited
                if overtaken > self._max_restarts:
                    raise SnapshotMoved(
                        f"The work on {self._names} could not begin in {overtaken} attempts;"
                        f" in the last one {moved}."
                    )
                self.restarts += 1
                self._phases.note(f"Restarting: {moved}")
        except BaseException as error:
            self.abort(f"{type(error).__name__} while it began")
            raise
        finally:
            self._writer_queue.end()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._state is State.OPEN and kind is None and not self._targets:
            self.release()
        super().__exit__(kind, error, traceback)
        # Release a ticket that could not be released initially and would otherwise stay until it
        # expires.
        self._writer_queue.end()

    def register_partitions(self, table: TableRef, names: Sequence[str]) -> None:
        """Register the written partitions, so that the metastore detects conflicts there.

        Args:
            table: One of the targets.
            names: The partitions' names, as in the metastore.
        """
        self._require_own_process()
        changes = self._targets[table].changes_rows
        operation = DataOperation.UPDATE if changes else DataOperation.INSERT
        if names:
            write_id = self.write_ids[table.full_name]
            self._client.add_dynamic_partitions(self.txn_id, write_id, table, names, operation)

    def _begin(self, started: float, components: Sequence[LockComponent]) -> str | None:
        """Wait in the queue of writers, open, lock and take the snapshot.

        Returns:
            None if the work can start, otherwise the reason for a restart.
        """
        watches = []
        self._waited = False
        try:
            with self._phases(Phase.OPEN, "a transaction"):
                self._writer_queue.wait(started, self._lock_wait)
                if not self.version.names_conflicts:
                    watches = [
                        CommitWatch(self._client, target.ref, components)
                        for target in self._targets.values()
                        if target.changes_rows
                    ]
                self._open(self._kind)
                # Before the lock, or the lock's rows in the metastore stay without a write id and
                # are never cleaned.
                self.write_ids = {
                    ref.full_name: self._client.allocate_write_id(self.txn_id, ref)
                    for ref in self._targets
                }
                if self._targets:
                    self._phases.opened(self.txn_id, self.write_ids)
                if self._earlier_attempts is not None:
                    self._earlier_attempts.end(before=self.txn_id)
            with self._phases(Phase.LOCK, self._names):
                if components:
                    lock = LockRequest(self._client, components, self.txn_id, self._owner)
                    lock.send()
                    self._waited = not lock.granted
                    for watch in watches:
                        if moved := watch.committed_before(lock):
                            return moved
                    reason_to_stop = partial(self._overtaken, watches)
                    if moved := lock.wait(started, self._lock_wait, reason_to_stop, self._phases):
                        return moved
            with self._phases(Phase.SNAPSHOT, "of what is committed"):
                tables = (*self._reads, *self._targets)
                self.snapshot = Snapshot.take(self._client, tables, self.txn_id)
                self.definitions = Definitions(self._client)
                return self._moved(watches)
        except AnswerLost as lost:
            # An unknown lock may be queued for the transaction, which ends with it.
            return f"an answer was lost: {lost.what}"

    @property
    def _holds_only_locks(self) -> bool:
        return self._kind is TxnType.READ_ONLY

    def _discard(self) -> None:
        """Give up a transaction that nothing has been done in."""
        if self._state is State.OPEN:
            self._abort_txn()
            self._end()

    @property
    def _names(self) -> str:
        return ", ".join(str(ref) for ref in self._targets) or "the sources"

    def _moved(self, watches: Sequence[CommitWatch]) -> str | None:
        """Return the reason why the commit would fail despite all locks, if any."""
        if not self._targets:
            return None
        appended = [target.ref for target in self._targets.values() if not target.changes_rows]
        # Even overwritten data of a younger transaction hides the rows of a smaller write id.
        newest = Snapshot.take(self._client, appended).write_ids if appended else {}
        for name, own in self.write_ids.items():
            seen = newest.get(name) or self.snapshot.write_ids[name]
            above = committed_above(seen, own)
            if above is not None:
                return f"write id {above} of {name} was committed before {own}, which is smaller"
        return self._overtaken(watches)

    def _overtaken(self, watches: Sequence[CommitWatch]) -> str | None:
        """Return the transaction that changed a locked or awaited object since this one was opened."""
        self.check_alive()
        self._writer_queue.keep()
        if not self.version.names_conflicts:
            return next(filter(None, (watch.committed_while_waiting() for watch in watches)), None)
        if any(target.changes_rows for target in self._targets.values()):
            other = self._client.latest_conflicting_txn(self.txn_id)
            if other > 0:
                return f"transaction {other} committed a change after this one was opened"
        return None

    def _outcome(self) -> Outcome:
        written = {ref: self.write_ids[ref.full_name] for ref in self._targets}
        return outcome(self._client, self.txn_id, written)
