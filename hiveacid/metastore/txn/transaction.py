"""A transaction of the metastore with locks, write ids, and a snapshot; reads share open ones."""

import atexit
import logging
import os
import threading
import time
import weakref
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Protocol, Self

from hiveacid.errors import (
    AnswerLost,
    HiveAcidError,
    MetastoreError,
    SnapshotMoved,
    TableReplaced,
    TransactionAborted,
)
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import (
    require_described,
    require_same_definition,
    require_same_table,
)
from hiveacid.metastore.thrift.answers import TxnType
from hiveacid.metastore.thrift.transport import Deadline
from hiveacid.metastore.txn.heartbeat import keep_alive
from hiveacid.metastore.txn.live_transaction import LiveTransaction, State
from hiveacid.metastore.txn.locks import LockRequest, WriterQueue, collides
from hiveacid.metastore.txn.owner import (
    Outcome,
    Owner,
    Snapshot,
    abort_open_transactions,
    committed_above,
    outcome,
)
from hiveacid.progress import Phase, PhaseClock, PhaseObserver
from hiveacid.rules.locks import (
    DataOperation,
    LockComponent,
    LockLevel,
    LockType,
    Target,
    exclusively_locked,
    joined_targets,
    transaction_components,
)
from hiveacid.rules.names import TableRef
from hiveacid.rules.write_ids import ValidTxnList, ValidWriteIdList

# Reads that outlive the call that began them: those of frames, which are computed later.
#
# Such a read ends with the last frame that needs it, when its owner is closed, when Spark is
# stopped, when this process ends, and before this process requests an exclusive lock on one of its
# tables: otherwise the process would wait for itself.


log = logging.getLogger(__name__)
_READ_AGAIN = "Do not use its result, and read again."
# Nobody waits long for a metastore that is away, which then ends the transaction itself.
_LONGEST_END_SECONDS = 5.0
_LONGEST_EXIT_SECONDS = 30.0


class OpenRead:
    """A transaction that only reads, and that is open until ``end`` is called.

    Attributes:
        tables: The tables that it reads.
    """

    def __init__(
        self, options: MetastoreOptions, txn: "Transaction", tables: Collection[TableRef]
    ) -> None:
        """Register a read.

        Args:
            options: The connection options of the metastore.
            txn: The transaction, which is open.
            tables: The tables that it reads.
        """
        self._options = options
        self._txn = txn
        self.tables = frozenset(tables)
        self._keep_alive = keep_alive(options)
        self._ending = threading.Lock()
        self._process = os.getpid()
        _OPEN.add(self)

    @property
    def is_open(self) -> bool:
        """Whether the transaction is open, and of this process."""
        return self in _OPEN and self._process == os.getpid()

    def end(self, client: MetastoreClient | None = None, *, verified: bool = False) -> None:
        """End the transaction, or wait until another thread has ended it.

        Args:
            client: Ends it; by default that of the heartbeats.
            verified: Whether to verify the read; see ``Transaction.end_read``.
        """
        if not self.is_open or not self._ending.acquire(timeout=2 * _LONGEST_END_SECONDS):
            return
        try:
            if self.is_open:
                client = client or self._keep_alive.client
                with client.within(_LONGEST_END_SECONDS):
                    try:
                        if verified:
                            self._txn.end_read()
                    finally:
                        self._txn.release(client)
                        _OPEN.discard(self)
        finally:
            self._ending.release()

    def end_soon(self) -> None:
        """Have the thread of the heartbeats end it; the garbage collector may call this."""
        if self.is_open:
            self._keep_alive.do_soon(self._end_unused)

    def _end_unused(self) -> None:
        if not self._ending.locked():
            self.end()

    def reads(self, options: MetastoreOptions, table: TableRef) -> bool:
        """Return whether it reads a table of a metastore."""
        own_uris, other_uris = self._options.uris, options.uris
        shared_uris = {uri.strip() for uri in own_uris.split(",")} & {
            uri.strip() for uri in other_uris.split(",")
        }
        return table in self.tables and bool(shared_uris)


class Lease:
    """A right to an open read, which ends when no object refers to the lease."""

    def __init__(self, read: OpenRead) -> None:
        """Let the only lease of a read.

        Args:
            read: The read.
        """
        weakref.finalize(self, read.end_soon).atexit = False


_OPEN: set[OpenRead] = set()


def end_reads(options: MetastoreOptions, tables: Collection[TableRef]) -> None:
    """End the reads of this process that an exclusive lock on some tables would wait for.

    Frames of these reads can still be computed until a cleaner removes the replaced files.

    Args:
        options: The metastore.
        tables: The tables.
    """
    for read in list(_OPEN):
        if any(read.reads(options, table) for table in tables):
            read.end()


@atexit.register
def end_all_reads() -> None:
    """End all reads of this process, whose frames cannot be computed any more."""
    deadline = Deadline(_LONGEST_EXIT_SECONDS)
    for read in list(_OPEN):
        # The metastore ends the others after their last heartbeat.
        if deadline.remaining > 0:
            read.end()


# The definitions of tables that a transaction reads by


class Definitions:
    """The definitions that a transaction reads tables by: each was seen under its locks.

    Work is prepared by definitions from before the transaction. Until it has its locks, others may
    replace a table, whose files and write ids the older definition does not describe. A table that
    was replaced is an error, also if nothing depends on its columns yet: the snapshot does not see
    transactions that were opened later, so that the new table would look empty.
    """

    def __init__(self, client: MetastoreClient, *, adopts: bool = False) -> None:
        """Begin without definitions.

        Args:
            client: The metastore.
            adopts: Whether a prepared definition counts as seen: the locks were granted at once, and
                the definition is compared after the last read, which is too late only for a write.
        """
        self._client = client
        self._adopts = adopts
        self._seen: dict[TableRef, HiveTable] = {}

    @property
    def seen(self) -> tuple[HiveTable, ...]:
        """The definitions."""
        return tuple(self._seen.values())

    def add(self, tables: Iterable[HiveTable]) -> None:
        """Add definitions that were read under the locks and compared with the prepared ones."""
        self._seen.update((table.ref, table) for table in tables)

    def include(self, table: HiveTable) -> bool:
        """Return whether a definition is the one that the transaction reads the table by."""
        definition = self._seen.get(table.ref)
        return definition == table and definition.identity.is_same(table.identity)

    def current(self, table: HiveTable) -> HiveTable:
        """Return the current definition of a table, for work that does not depend on its columns.

        Args:
            table: The table as it was before the transaction.

        Raises:
            TableReplaced: The table was dropped, moved or replaced.
        """
        if not self._adopts:
            table = require_same_table(self._client, table)
        self._seen[table.ref] = table
        return table

    def confirmed(self, table: HiveTable) -> HiveTable:
        """Return the current definition of a table with the columns that work is prepared for.

        Only the first call for a table costs a call of the metastore.

        Args:
            table: The table, or the view, as it was before the transaction.

        Raises:
            TableReplaced: The table was dropped, moved or replaced, or has other columns or another
                storage. It may have more columns.
        """
        definition = self._seen.get(table.ref)
        if definition is None:
            definition = table
            if not self._adopts:
                definition = require_same_definition(self._client, table, may_grow=True)
            self._seen[table.ref] = definition
        else:
            require_described(definition, table, may_grow=True)
        if len(definition.columns) == len(table.columns):
            return definition
        return replace(definition, columns=definition.columns[: len(table.columns)])

    def require_unchanged(self, except_for: Collection[TableRef] = ()) -> None:
        """Verify, after a read, that no table was replaced while it was read.

        Locks do not exclude clients that request none. Such a client may have replaced a table
        before its partitions and files were listed.

        Args:
            except_for: Tables that are verified elsewhere.

        Raises:
            TableReplaced: A table is another one than before, or has another definition.
        """
        for ref, table in self._seen.items():
            if ref not in except_for:
                require_same_definition(self._client, table, may_grow=True)


# Detection, on HMS 3, of commits between the opening of a transaction and its locks.
#
# The metastore rejects such a transaction, but only at its commit, after all its work. HMS 4 can
# be queried beforehand. On HMS 3 the answer is derived from locks and write ids.


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
        colliding = {lock.txn_id for lock in locks if collides(client.features, lock, components)}
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
                blocker.txn_id
                for blocker in lock.blockers()
                if blocker.txn_id is not None
                and blocker.type is not LockType.SHARED_READ
                and blocker.table in (None, self._target)
            ]
        current_write_ids = self._committed()
        later_ids = range(self._before.high_watermark + 1, current_write_ids.high_watermark + 1)
        new = {
            write_id
            for write_id in (*self._before.open, *later_ids)
            if current_write_ids.is_valid(write_id)
        }
        if new and (new := new - self._written_by_bystanders(current_write_ids)):
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

    def _written_by_bystanders(self, current_write_ids: ValidWriteIdList) -> set[int]:
        # Queried as if they were still open, the metastore returns their write ids.
        txns = ValidTxnList(
            high_watermark=self._client.get_open_txns().high_watermark,
            min_open=min(self._bystanders, default=1),
            open=tuple(sorted(self._bystanders)),
        )
        theirs = self._client.get_valid_write_ids([self._target], txns)[self._target.full_name]
        return set(theirs.open)


# A transaction from beginning to end: the common protocol of every read and every write


class EndsEarlierAttempts(Protocol):
    """Earlier attempts of the same run."""

    def end(self, limit_txn_id: int | None = None) -> None:
        """Abort their open transactions; raise if one of them has committed.

        Args:
            limit_txn_id: Keep this transaction and younger ones.
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
        self._is_verified = False

    def __enter__(self) -> Self:
        if self._state is not State.NEW:
            raise RuntimeError("A transaction can be entered only once; describe a new one.")
        started, overtaken = time.monotonic(), 0
        components = transaction_components(
            self.features.has_excl_write, self._targets.values(), self._reads
        )
        end_reads(self._client.options, exclusively_locked(components))
        queued = components if self._queues else ()
        self._writer_queue = WriterQueue(self._client, queued, self._owner, self._phases)
        try:
            while (reason := self._begin(started, components)) is not None:
                self._discard()
                # Waiting for all earlier requests in a queue does not count as a restart: the time
                # limit applies.
                overtaken += not self._waited
                if overtaken > self._max_restarts:
                    raise SnapshotMoved(
                        f"The work on {self._names} could not begin in {overtaken} attempts;"
                        f" in the last one {reason}."
                    )
                self.restarts += 1
                self._phases.note(f"Restarting: {reason}")
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
        try:
            if self._state is State.OPEN and kind is None:
                self._end_uncommitted()
        except BaseException as failed:
            kind, error, traceback = type(failed), failed, failed.__traceback__
            raise
        finally:
            super().__exit__(kind, error, traceback)
            # Release a ticket that could not be released initially and would otherwise stay until it
            # expires.
            self._writer_queue.end()

    def verify(self, *, last: bool = False) -> None:
        """Verify that the listings until now are complete, before their rows are used.

        A process may sleep between its snapshot and a listing. If the metastore has aborted the
        transaction meanwhile, cleaners have removed files that the snapshot needs, and a listing
        shows fewer or older rows. The end of the transaction verifies the reads as well.

        Args:
            last: Whether nothing is read afterwards, so that the end need not verify it again: what
                was done by the reads would stay.

        Raises:
            TransactionAborted: The metastore has aborted the transaction.
            TableReplaced: A table is another one than before, or has another definition.
        """
        self.confirm_alive()
        self.definitions.require_unchanged()
        self._is_verified = last

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
                if not self.features.names_conflicts:
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
                    self._earlier_attempts.end(limit_txn_id=self.txn_id)
            with self._phases(Phase.LOCK, self._names):
                if components:
                    lock = LockRequest(self._client, components, self.txn_id, self._owner)
                    lock.send()
                    self._waited = not lock.granted
                    for watch in watches:
                        if reason := watch.committed_before(lock):
                            return reason
                    reason_to_stop = partial(self._overtaken, watches)
                    if reason := lock.wait(started, self._lock_wait, reason_to_stop, self._phases):
                        return reason
            with self._phases(Phase.SNAPSHOT, "of what is committed"):
                tables = (*self._reads, *self._targets)
                self.snapshot = Snapshot.take(self._client, tables, self.txn_id)
                adopts = self._holds_only_locks and not self._waited
                self.definitions = Definitions(self._client, adopts=adopts)
                return self._moved(watches)
        except AnswerLost as lost_answer:
            # An unknown lock may be queued for the transaction, which ends with it.
            return f"an answer was lost: {lost_answer.what}"

    def _end_uncommitted(self) -> None:
        """Verify the reads of a transaction that commits no change, and end it if it has no targets."""
        has_read = bool(self._reads or self.definitions.seen) and not self._is_verified
        if self._targets:
            if has_read:
                self.verify()  # The result comes from its reads, as that of a dry run.
        elif has_read:
            self.end_read()
        else:
            self.release()

    def end_read(self) -> None:
        """End a transaction that only reads, and verify all that was read.

        The answer to its commit shows that it was open until then, so that this takes no more calls
        than an end without verification, apart from one for each table.

        Raises:
            TransactionAborted: The metastore has aborted it, or a lost answer leaves this unknown.
            TableReplaced: A table is another one than before, or has another definition.
        """
        self.definitions.require_unchanged()
        try:
            self._client.commit_txn(self.txn_id)
        except TransactionAborted as refused:
            raise TransactionAborted(
                f"{refused.what} It may have read fewer or older rows.", remedy=_READ_AGAIN
            ) from refused
        except MetastoreError as commit_error:
            self._confirm_open_after(commit_error)
            self.release()
        else:
            self._end()

    def _confirm_open_after(self, commit_error: MetastoreError) -> None:
        try:
            self.confirm_alive()
        except TransactionAborted as abort_error:
            # Whether by this commit or before, the metastore does not tell.
            raise TransactionAborted(
                f"{commit_error.what} So it is unknown whether transaction {self.txn_id} was open until then.",
                remedy=_READ_AGAIN,
            ) from abort_error

    @property
    def _holds_only_locks(self) -> bool:
        return self._kind is TxnType.READ_ONLY

    def cause_of(self, error: BaseException | None) -> HiveAcidError | None:
        """See the base class."""
        if (cause := super().cause_of(error)) is not None or self._state is not State.OPEN:
            return cause
        try:
            # By the definition of another table, files look damaged.
            if self._holds_only_locks and self._is_unclear(error):
                self.definitions.require_unchanged()
        except TableReplaced as replacement:
            return replacement
        except MetastoreError:
            return None
        return None

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
        for name, own_write_id in self.write_ids.items():
            visible_ids = newest.get(name) or self.snapshot.write_ids[name]
            later_write_id = committed_above(visible_ids, own_write_id)
            if later_write_id is not None:
                return f"write id {later_write_id} of {name} was committed before {own_write_id}, which is smaller"
        return self._overtaken(watches)

    def _overtaken(self, watches: Sequence[CommitWatch]) -> str | None:
        """Return the transaction that changed a locked or awaited object since this one was opened."""
        self.check_alive()
        self._writer_queue.keep()
        if not self.features.names_conflicts:
            return next(filter(None, (watch.committed_while_waiting() for watch in watches)), None)
        if any(target.changes_rows for target in self._targets.values()):
            conflicting_txn = self._client.latest_conflicting_txn(self.txn_id)
            if conflicting_txn > 0:
                return f"transaction {conflicting_txn} committed a change after this one was opened"
        return None

    def _outcome(self) -> Outcome:
        write_ids = {ref: self.write_ids[ref.full_name] for ref in self._targets}
        return outcome(self._client, self.txn_id, write_ids)


# The metastore needs seconds for a lock with many more components.
_MOST_PARTITIONS = 100


def definition_components(
    ref: TableRef,
    type_: LockType,
    partitions: Sequence[str] = (),
    other_refs: Sequence[TableRef] = (),
) -> list[LockComponent]:
    """Return the locks of a change of definitions.

    Args:
        ref: The table.
        type_: The kind of lock.
        partitions: The names of the partitions to lock; empty, or very many, lock the whole table.
        other_refs: More tables, which are locked at the same time.
    """
    names = partitions if 0 < len(partitions) <= _MOST_PARTITIONS else (None,)
    places = [*((ref, name) for name in names), *((other_ref, None) for other_ref in other_refs)]
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


class _WaitLog(PhaseObserver):
    """Logs whom a change of a definition waits for: it has no log of phases."""

    def __init__(self, ref: TableRef) -> None:
        self._ref = ref

    def note(self, text: str) -> None:
        """Log it."""
        log.warning("The lock of %s: %s.", self._ref.full_name, text)


class ExclusiveTable(LiveTransaction):
    """An exclusive lock on a table, transactional or not, while its definition is changed."""

    def __init__(
        self,
        client: MetastoreClient,
        ref: TableRef,
        run_token: str | None,
        lock_wait_seconds: float,
        *,
        other_refs: Sequence[TableRef] = (),
        partitions: Sequence[str] = (),
        type_: LockType = LockType.EXCLUSIVE,
    ) -> None:
        """Describe a lock; it is requested on entry.

        Args:
            client: The metastore.
            ref: The table.
            run_token: The run that wants it.
            lock_wait_seconds: The longest wait for other owners.
            other_refs: More tables, which are locked at the same time.
            partitions: The names of the partitions to lock; empty locks the whole table.
            type_: Another kind of lock: a read lock is sufficient for unchanged rows, to block
                requests for an exclusive lock.
        """
        super().__init__(client, Owner.of(run_token, client.user), PhaseClock())
        self._ref = ref
        self._components = definition_components(ref, type_, partitions, other_refs)
        self._lock_wait = lock_wait_seconds

    def __enter__(self) -> Self:
        try:
            self._open(TxnType.DEFAULT)
            # Or it would wait for the lock of a try that was killed until that times out.
            abort_open_transactions(self._client, self._owner.agent_info, limit_txn_id=self.txn_id)
            end_reads(self._client.options, exclusively_locked(self._components))
            request = LockRequest(self._client, self._components, self.txn_id, self._owner)
            with self._phases(Phase.LOCK):
                request.send()
                notes = PhaseClock([_WaitLog(self._ref)])
                request.wait(time.monotonic(), self._lock_wait, self._lost, notes)
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
