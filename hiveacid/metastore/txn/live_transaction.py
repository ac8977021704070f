"""Common base of all transactions: opening, heartbeats, commit with a lost answer, abort."""

import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import Enum, auto
from functools import partial
from types import TracebackType

from hiveacid.errors import (
    AnswerLost,
    CommitUncertain,
    ConflictError,
    HiveAcidError,
    MetastoreCallFailed,
    MetastoreError,
    TransactionAborted,
    UserError,
    WriteConflict,
)
from hiveacid.metastore.cancellation import require_not_cancelled
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import require_same_table
from hiveacid.metastore.thrift.answers import TxnLiveness, TxnType
from hiveacid.metastore.thrift.transport import (
    LONGEST_OUTCOME_PAUSE_SECONDS,
    MOST_COMMITS,
    OUTCOME_PAUSE_SECONDS,
    Deadline,
)
from hiveacid.metastore.txn.heartbeat import (
    HEARTBEATS_PER_TIMEOUT,
    Heartbeat,
    txn_timeout_seconds,
)
from hiveacid.metastore.txn.locks import LockRequest, insist
from hiveacid.metastore.txn.owner import Outcome, Owner, open_transaction, outcome
from hiveacid.progress import Phase, PhaseClock
from hiveacid.rules.features import Features
from hiveacid.rules.locks import DataOperation, LockComponent, LockLevel, LockType
from hiveacid.rules.names import TableRef

# Follows the name of a table in the name that writers lock while they compare and commit.
_COMMITS = "#commits"
# The time from the request for a confirmation for which it counts, if many acts follow each other.
CONFIRMED_SECONDS = 0.05
# Where possible a clock that does not stop while the machine is suspended.
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
# These errors already explain the end of the work.
_PLAIN = (UserError, ConflictError, MetastoreError)


class State(Enum):
    """The state of a transaction."""

    NEW = auto()
    OPEN = auto()
    COMMITTING = auto()  # Commit requested, result still unknown.
    ENDED = auto()


class LiveTransaction:
    """A transaction that is kept alive by heartbeats, and ended by one commit or one abort.

    It belongs to the process that opened it. A forked process can neither continue nor end it.

    `Transaction`, `CompactionTransaction` and `ExclusiveTable` inherit from it.

    Attributes:
        txn_id: The transaction's id.
        warnings: Failures that did not change the result.
    """

    txn_id: int

    def __init__(self, client: MetastoreClient, owner: Owner, phases: PhaseClock) -> None:
        """Describe a transaction; classes that inherit from this open it.

        Args:
            client: The metastore.
            owner: The owner that the metastore displays.
            phases: Receives the phases of the run.
        """
        self.warnings: list[str] = []
        self._client = client
        self._owner = owner
        self._phases = phases
        self._state = State.NEW
        self._timeout = 0.0
        self._confirmed_until = 0.0
        self._heartbeat: Heartbeat | None = None
        self._owned: list[tuple[Callable[[], None], str]] = []
        self._shown: list[Callable[[], bool]] = []
        self._temporary: list[tuple[Callable[[], None], str]] = []

    @property
    def _state(self) -> State:
        """The state; for a forked process, a transaction of its parent has ended."""
        is_own = self._process == os.getpid() or self._own_state is State.NEW
        return self._own_state if is_own else State.ENDED

    @_state.setter
    def _state(self, state: State) -> None:
        self._own_state, self._process = state, os.getpid()

    @property
    def features(self) -> Features:
        """The features of the metastore."""
        return self._client.features

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        cause = self.cause_of(error)
        if self._state is not State.ENDED:
            self.abort(_reason(error))
        if cause is not None:
            raise cause from error

    def own(self, remove: Callable[[], None], description: str) -> None:
        """Register an object to remove when the transaction is aborted.

        Args:
            remove: Removes it; the last one registered is called first.
            description: Its name, for the warning if the removal fails.
        """
        self._owned.append((remove, description))

    def show(self, is_there: Callable[[], bool]) -> None:
        """Register a directory that the commit makes visible.

        Args:
            is_there: Returns whether it still exists: a cleaner removes it if the transaction is
                aborted.
        """
        self._shown.append(is_there)

    def own_temporarily(self, remove: Callable[[], None], description: str) -> None:
        """Register an object to remove when the transaction ends; see ``own``."""
        self._temporary.append((remove, description))

    def check_alive(self) -> None:
        """Raise an error if the transaction is known to be aborted, or its statement cancelled.

        Raises:
            JobFailed: The client has cancelled the statement.
            TransactionAborted: The metastore has aborted it.
            UserError: Another process has opened it.
        """
        self._require_own_process()
        require_not_cancelled()
        if self._heartbeat is not None:
            self._heartbeat.check()

    def confirm_alive(self) -> None:
        """Verify with the metastore that the transaction can still be committed.

        Raises:
            TransactionAborted: The metastore has aborted it.
            MetastoreUnreachable: It did not recover within the transaction timeout and the patience.
            UserError: Another process has opened it.
        """
        self._require_own_process()
        deadline = self._deadline
        start = time.clock_gettime(CLOCK)
        while True:
            try:
                with self._client.within(max(deadline.remaining, OUTCOME_PAUSE_SECONDS)):
                    liveness = self._client.heartbeat(self.txn_id)
                break
            except MetastoreError as error:
                if deadline.remaining <= 0 or not error.retryable:
                    raise
            time.sleep(OUTCOME_PAUSE_SECONDS)
        if liveness is not TxnLiveness.OPEN:
            raise TransactionAborted(f"Transaction {self.txn_id} was aborted by the metastore.")
        self._confirmed_until = start + CONFIRMED_SECONDS
        if self._heartbeat is not None:
            self._heartbeat.note_alive()

    def confirm_lately(self) -> None:
        """Verify the same before one of many acts, unless a recent answer still counts."""
        self.check_alive()
        if time.clock_gettime(CLOCK) >= self._confirmed_until:
            self.confirm_alive()

    def confirm_table(self, table: HiveTable) -> None:
        """Verify that a table is the same one, and that the locks on it are held.

        Raises:
            TableReplaced: The table was dropped, moved or replaced.
            TransactionAborted: The metastore has aborted the transaction.
        """
        require_same_table(self._client, table)
        self.confirm_alive()

    def give_up(self, error: HiveAcidError) -> bool:
        """Abort the transaction after a failed commit whose content may be committed again.

        Args:
            error: The error of the commit.

        Returns:
            Whether it is certainly aborted, and not deliberately by another client: only a
                transaction without heartbeats for too long counts as aborted for that reason alone.
        """
        if self._state is State.ENDED:
            return False
        silence = 0.0 if self._heartbeat is None else self._heartbeat.silence
        awake = silence <= self._timeout
        if awake and isinstance(error, TransactionAborted):
            return False
        # One that is refused for a conflict is aborted by that.
        must_be_open = awake and not isinstance(error, WriteConflict)
        return self.attempt(
            "abort the transaction", partial(self._abort_surely, must_be_open=must_be_open)
        )

    def commit_alone(self, tables: Iterable[TableRef], limit_seconds: float) -> None:
        """Wait until no other writer that calls this is about to commit on some tables.

        The lock is on a name beside each table that no engine locks. It is released with the
        transaction, however that ends, so a dead writer blocks others no longer than its other
        locks do; and its holder waits for no other writer.

        Args:
            tables: The tables, locked individually and atomically.
            limit_seconds: The longest wait.

        Raises:
            LockTimeout: Other writers were about to commit all the time.
        """
        self.check_alive()
        components = [
            LockComponent(
                type=LockType.EXCLUSIVE,
                level=LockLevel.TABLE,
                database=ref.database,
                table=f"{ref.name}{_COMMITS}",
                partition=None,
                operation=DataOperation.NO_TXN,
                is_transactional=False,
                is_dynamic_partition_write=False,
            )
            for ref in sorted(set(tables))
        ]
        request = LockRequest(self._client, components, self.txn_id, self._owner)
        with self._phases(Phase.LOCK, "the commits of others out"):
            request.send()
            request.wait(time.monotonic(), limit_seconds, self.check_alive, self._phases)

    def commit(self) -> None:
        """Publish all changes atomically.

        Raises:
            WriteConflict: Another transaction changed the same partition and was first.
            TransactionAborted: The metastore has aborted it, usually because of missing heartbeats.
            CommitUncertain: The metastore became unreachable and did not recover in time for a
                check.
        """
        with self._phases(Phase.COMMIT):
            self.check_alive()
            self._state = State.COMMITTING
            try:
                self._client.commit_txn(self.txn_id)
            except TransactionAborted as refused:
                self._state = State.OPEN
                raise TransactionAborted(
                    f"{refused.what} A metastore does that after {self._timeout:g} s without a"
                    " heartbeat, or on request."
                ) from refused
            except WriteConflict:
                self._state = State.OPEN
                raise
            except MetastoreError as failure:
                # With any other error, the outcome of the commit is unknown.
                self._find_outcome(failure)
            self._end()
            self._completed()

    def _completed(self) -> None:
        """Report the commit to the metastore, if a request is to be ended."""

    def abort(self, reason: str) -> None:
        """Undo everything: remove owned objects, then end it. Errors become warnings.

        Args:
            reason: The reason, for the log.
        """
        state = self._state
        if state not in (State.COMMITTING, State.OPEN):
            return
        try:
            if state is State.OPEN:
                verb = "Ending" if self._holds_only_locks else "Aborting"
                self._phases.note(f"{verb} transaction {self.txn_id}: {reason}")
                try:
                    self._remove_owned()
                finally:
                    self.attempt(
                        "abort the transaction", partial(insist, self._client, self._abort_txn)
                    )
            # Committed or not: only when the metastore accepts the abort may files be removed.
            elif self.attempt("abort the transaction", self._abort_txn):
                self._remove_owned()
        finally:
            self._end()

    def _open(self, kind: TxnType) -> None:
        """Open the transaction and keep it alive from now on.

        Raises:
            AnswerLost: The opened transaction is unknown, and aborted if it exists already.
        """
        self._timeout = txn_timeout_seconds(self._client)
        self.txn_id = open_transaction(self._client, self._owner, kind)
        self._state = State.OPEN
        every = self._timeout / HEARTBEATS_PER_TIMEOUT
        self._heartbeat = Heartbeat(self._client.options, self.txn_id, every)
        self._heartbeat.start()

    @property
    def _deadline(self) -> Deadline:
        """Until when to wait for a metastore that is away: it ends no transaction meanwhile."""
        return Deadline(max(self._timeout, self._client.patience_left))

    def _require_own_process(self) -> None:
        """Refuse to work in the transaction of another process.

        Only that process keeps it alive, and knows whether it may be committed.
        """
        if self._own_state is not State.NEW and self._process != os.getpid():
            raise UserError(
                f"Transaction {self.txn_id} belongs to process {self._process}, from which process"
                f" {os.getpid()} was forked.",
                remedy="Begin a transaction in each process, or end it where it was begun.",
            )

    def _outcome(self) -> Outcome:
        """Query the outcome of the transaction."""
        return outcome(self._client, self.txn_id, {})

    def cause_of(self, error: BaseException | None) -> HiveAcidError | None:
        """Return the end of the transaction by others, if an error is only a consequence of it.

        The abort leads to removal of its directories, in the end also those that it reads, and of
        its request; the symptom depends on the operation that detects it.
        """
        if self._state is not State.OPEN or not self._is_unclear(error):
            return None
        try:
            # No commit was requested: a transaction that is not open is aborted, or even forgotten.
            # Lists of open transactions omit read-only ones.
            with self._client.within(LONGEST_OUTCOME_PAUSE_SECONDS):
                if self._client.heartbeat(self.txn_id) is TxnLiveness.OPEN:
                    return None
        except MetastoreError:
            return None
        return TransactionAborted(f"Transaction {self.txn_id} was aborted during its work.")

    def _is_unclear(self, error: BaseException | None) -> bool:
        """Whether an error does not explain the end of the work."""
        refused = isinstance(error, MetastoreCallFailed)
        return isinstance(error, Exception) and (refused or not isinstance(error, _PLAIN))

    def _find_outcome(self, failure: MetastoreError) -> None:
        """Find out whether the commit was executed, and if not, repeat it.

        Args:
            failure: The error of the commit.
        """
        deadline, pause, commits = self._deadline, OUTCOME_PAUSE_SECONDS, 1
        while True:
            try:
                with self._client.within(max(deadline.remaining, pause)):
                    outcome = self._outcome()
                    if outcome is Outcome.OPEN and commits < MOST_COMMITS:
                        commits += 1
                        outcome = self._commit_again()
            except MetastoreError as repeat_error:
                failure = repeat_error
            else:
                if outcome is not Outcome.OPEN or commits == MOST_COMMITS:
                    break
            if deadline.remaining <= 0:
                raise CommitUncertain(
                    f"Transaction {self.txn_id} was about to commit when the metastore"
                    f" became unreachable: {failure.what}"
                ) from failure
            time.sleep(min(pause, deadline.remaining))
            pause = min(pause * 1.5, LONGEST_OUTCOME_PAUSE_SECONDS)
        if outcome is Outcome.OPEN:
            raise failure  # The maximum number of commits was sent without success.
        if outcome is Outcome.ABORTED:
            raise TransactionAborted(
                f"The answer to the commit of transaction {self.txn_id} got lost, and it is aborted."
            )
        if self._shown and not any(is_there() for is_there in self._shown):
            # After a long enough suspension of this process, an abort is forgotten, together with
            # all of its traces.
            raise CommitUncertain(
                f"Transaction {self.txn_id} looks committed, but none of its directories is left:"
                " it may also have been aborted, cleaned and forgotten."
            )

    def _commit_again(self) -> Outcome:
        try:
            self._client.commit_txn(self.txn_id)
        except TransactionAborted:
            return self._outcome()  # The first request may have arrived in between.
        return Outcome.COMMITTED

    def release(self, client: MetastoreClient | None = None) -> None:
        """End a transaction that has nothing to make visible; failures become warnings.

        Args:
            client: Ends it; by default the client that opened it.
        """
        if self._state is State.ENDED:
            return
        self._client = client or self._client
        self.attempt("release the locks", self._commit_nothing)
        self._end()

    def _commit_nothing(self) -> None:
        """Commit a transaction without changes, or abort it if the answer gets lost.

        Both are equal to others, and unlike a commit, an abort may be sent again: locks that stay
        would block this process itself until the transaction times out.
        """
        try:
            self._client.commit_txn(self.txn_id)
        except (AnswerLost, MetastoreCallFailed):
            # The metastore has no record of a reader that it has committed.
            with suppress(TransactionAborted):
                self._client.abort_txn(self.txn_id)

    @property
    def _holds_only_locks(self) -> bool:
        """Whether a commit publishes nothing, not even a write id, as that of a reader."""
        return False

    def _abort_txn(self) -> None:
        if not self._holds_only_locks:
            self._client.abort_txn(self.txn_id)
            return
        # An aborted transaction would be part of every snapshot until Hive's initiator removes it,
        # which does not run in a bare metastore of version 3.
        with suppress(TransactionAborted):
            self._commit_nothing()

    def _abort_surely(self, *, must_be_open: bool) -> None:
        """Abort it, and wait for a metastore that is away."""
        deadline = self._deadline
        while True:
            try:
                with self._client.within(max(deadline.remaining, OUTCOME_PAUSE_SECONDS)):
                    if must_be_open and self._client.heartbeat(self.txn_id) is not TxnLiveness.OPEN:
                        raise TransactionAborted(
                            f"Another client has ended transaction {self.txn_id}."
                        )
                    must_be_open = False
                    return self._abort_forgotten_or_not()
            except MetastoreError as error:
                if deadline.remaining <= 0 or not error.retryable:
                    raise
            time.sleep(OUTCOME_PAUSE_SECONDS)

    def _abort_forgotten_or_not(self) -> None:
        try:
            self._abort_txn()
        except TransactionAborted:
            # It is forgotten: without a commit request, this means that it was aborted.
            if self._state is not State.OPEN:
                raise

    def _remove_owned(self) -> None:
        while self._owned:
            remove, description = self._owned.pop()
            self.attempt(f"remove {description}", remove)

    def attempt(self, action_text: str, action: Callable[[], None]) -> bool:
        """Run an action that must not affect the transaction's result; a failure becomes a warning.

        Args:
            action_text: The action, as worded after "could not ...".
            action: The action.

        Returns:
            Whether it succeeded.
        """
        try:
            action()
        except Exception as error:  # noqa: BLE001
            self.warnings.append(f"Could not {action_text}: {error}")
            self._phases.note(self.warnings[-1])
            return False
        return True

    def _end(self) -> None:
        # First: an interruption from now on leaves no heartbeat that keeps the locks.
        if self._heartbeat is not None:
            self._heartbeat.stop()
            self._heartbeat = None
        self._state = State.ENDED
        for remove, description in self._temporary:
            self.attempt(f"remove {description}", remove)


def _reason(error: BaseException | None) -> str:
    return "it was not committed" if error is None else f"{type(error).__name__}: {error}"
