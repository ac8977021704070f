"""One request for several locks: send it, wait until it is granted, name the blocking owners."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from hiveacid.errors import (
    AnswerLost,
    LockTimeout,
    MetastoreCallFailed,
    MetastoreError,
    TransactionAborted,
)
from hiveacid.metastore.cancellation import require_not_cancelled
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift.answers import HeldLock, LockAnswer, LockState
from hiveacid.metastore.thrift.transport import (
    LONGEST_OUTCOME_PAUSE_SECONDS,
    OUTCOME_PAUSE_SECONDS,
)
from hiveacid.metastore.txn.heartbeat import (
    HEARTBEATS_PER_TIMEOUT,
    is_of_this_process,
    txn_timeout_seconds,
)
from hiveacid.metastore.txn.owner import Owner
from hiveacid.progress import REPORT_SECONDS, Phase, PhaseClock
from hiveacid.rules.cleaning import task_of_run
from hiveacid.rules.features import Features
from hiveacid.rules.locks import DataOperation, LockComponent, LockType, blocks
from hiveacid.rules.names import TableRef, first_names
from hiveacid.rules.run_tokens import agent_info, unmarked_token
from hiveacid.rules.texts import printable

LONGEST_PAUSE_SECONDS = 2.0

_FIRST_PAUSE_SECONDS = 0.05
_TRIES = 4
_MOST_NAMED = 5
_FEW = 2


class LockRequest:
    """A request for locks. It is granted as a whole or waits as a whole."""

    def __init__(
        self,
        client: MetastoreClient,
        components: Sequence[LockComponent],
        txn_id: int | None,
        owner: Owner,
    ) -> None:
        """Describe the request.

        Args:
            client: The metastore.
            components: The components to lock.
            txn_id: The transaction that will hold the locks, if any.
            owner: The owner that other clients see.
        """
        self._client = client
        self._components = components
        self._txn_id = txn_id
        self._owner = owner
        self._answer: LockAnswer | None = None

    @property
    def granted(self) -> bool:
        """Return whether the locks are held."""
        return self._answer is not None and self._answer.state is LockState.ACQUIRED

    @property
    def lock_id(self) -> int:
        """The number of the request, once it has been sent."""
        assert self._answer is not None
        return self._answer.lock_id

    def send(self) -> None:
        """Send the request, once.

        The metastore stores a request before it checks it: one whose answer is lost or an error may be
        in the queue, and is continued.

        Raises:
            AnswerLost: The arrival of the request is unknown; the transaction must be abandoned.
            MetastoreCallFailed: The metastore refused it.
        """
        owner = self._owner
        try:
            self._receive(
                self._client.lock(
                    self._components, self._txn_id, owner.user, owner.host, owner.agent_info
                )
            )
        except (AnswerLost, MetastoreCallFailed):
            # To send it again could queue it behind itself.
            if not self._find():
                raise
            self.check()

    def give_back(self) -> None:
        """Release locks without a transaction, also those of a request without a known answer."""
        if self._answer is not None or self._find():
            self._client.unlock(self.lock_id)

    def _find(self) -> bool:
        """Look for the request in the metastore."""
        own_ids = [lock.lock_id for lock in self._client.show_locks() if self._is_own(lock)]
        if own_ids:
            self._answer = LockAnswer(max(own_ids), LockState.WAITING)
        return bool(own_ids)

    def wait(
        self,
        start: float,
        limit_seconds: float,
        reason_to_stop: Callable[[], str | None],
        phases: PhaseClock,
    ) -> str | None:
        """Wait until the locks are granted.

        Args:
            start: The start of the wait, by time.monotonic().
            limit_seconds: The longest wait.
            reason_to_stop: Returns the reason why waiting has become pointless, if any.
            phases: Periodically receives the owners of the blocking locks.

        Returns:
            None after the locks are granted, otherwise the reason from reason_to_stop.

        Raises:
            LockTimeout: They were not granted in time.
        """
        pauses = Pauses(start, limit_seconds, phases)
        ahead: Sequence[HeldLock] = ()
        while not self.granted:
            if pauses.over:
                raise self._timeout(pauses.waited)
            pauses.rest(ahead)
            if reason := reason_to_stop():
                return reason
            # Check only a request that can be granted: HMS 4 on Derby hangs for minutes if a lock
            # is checked while another transaction commits.
            ahead = self.blockers()
            if not ahead:
                self.check()
        return None

    def check(self) -> None:
        """Ask whether the locks are granted by now."""
        self._receive(self._client.check_lock(self.lock_id, self._txn_id))

    def own(self) -> list[HeldLock]:
        """Return the request as listed by the metastore, one lock for each component."""
        return [lock for lock in self._shown() if lock.lock_id == self.lock_id]

    def blockers(self) -> list[HeldLock]:
        """Return the locks of other owners, held or requested earlier, that block this request."""
        return self._blocking(self._shown())

    def _shown(self) -> list[HeldLock]:
        return [lock for table in self._tables for lock in self._client.show_locks(table)]

    @property
    def _tables(self) -> list[TableRef]:
        return sorted(
            {TableRef(component.database, component.table) for component in self._components}
        )

    def _is_own(self, lock: HeldLock) -> bool:
        """Return whether an earlier request of the same kind acquired a lock."""
        if lock.table not in self._tables:
            return False
        if self._txn_id is not None:
            return lock.txn_id == self._txn_id
        asked_by = (self._owner.user, self._owner.host, self._owner.agent_info)
        mine = (lock.user, lock.host, lock.agent_info) == asked_by
        return mine and lock.txn_id is None

    def _blocking(self, locks: Sequence[HeldLock]) -> list[HeldLock]:
        own_id, features = self.lock_id, self._client.features
        return [
            lock
            for lock in locks
            if lock.lock_id < own_id
            and (lock.txn_id is None or lock.txn_id != self._txn_id)
            and collides(features, lock, self._components)
        ]

    def _receive(self, answer: LockAnswer) -> None:
        if answer.state not in (LockState.ACQUIRED, LockState.WAITING):
            raise TransactionAborted(
                f"The locks of transaction {self._txn_id} were refused: {answer.state.name}."
            )
        self._answer = answer

    def _timeout(self, waited: float) -> LockTimeout:
        requested_locks = ", ".join(
            f"{component.type.name} on {_place(component)}" for component in self._components
        )
        # From all locks, because a lock on the whole database is not listed with those of its
        # tables.
        blockers = self._blocking(self._client.show_locks())
        own_txn_ids = [
            lock.txn_id for lock in blockers if is_of_this_process(self._client, lock.txn_id)
        ]
        message = (
            f"Transaction {self._txn_id} waited {waited:.1f} s for {requested_locks}."
            f" In its way: {describe_all(blockers)}."
        )
        if not own_txn_ids:
            return LockTimeout(
                message, remedy="Run the job again when they are done, or raise lock_wait_seconds."
            )
        return LockTimeout(
            f"{message} Transaction {own_txn_ids[0]} belongs to this process, which waits for itself.",
            remedy="End the with statement of the read before the write, or close its table.",
        )


class Pauses:
    """Pauses of a client that waits in a queue: long ones, and short ones while the queue moves.

    Every ten seconds a log line names the owners that block it.
    """

    def __init__(self, start: float, limit_seconds: float, phases: PhaseClock) -> None:
        """Begin to wait.

        Args:
            start: The start of the wait, by time.monotonic().
            limit_seconds: The longest wait.
            phases: Receives the log lines.
        """
        self._phases = phases
        self._logged_at = time.monotonic()
        self._since = start
        self._limit = limit_seconds
        self._pause = _FIRST_PAUSE_SECONDS
        self._ahead: set[int] = set()

    @property
    def waited(self) -> float:
        """The seconds so far."""
        return time.monotonic() - self._since

    @property
    def over(self) -> bool:
        """Return whether the time limit has expired."""
        return self.waited >= self._limit

    def rest(self, ahead: Sequence[HeldLock]) -> None:
        """Pause once.

        Args:
            ahead: The blocking locks. If they have changed and few are left, the next change may
                come soon.

        Raises:
            JobFailed: The client has cancelled the statement.
        """
        locks = {lock.lock_id for lock in ahead}
        if locks != self._ahead and len(locks) <= _FEW:
            self._pause = _FIRST_PAUSE_SECONDS
        self._ahead = locks
        if time.monotonic() - self._logged_at >= REPORT_SECONDS:
            self._logged_at = time.monotonic()
            self._phases.note(f"waiting for {holders(ahead)}, {self.waited:.0f} s")
        time.sleep(max(0.0, min(self._pause, self._limit - self.waited)))
        self._pause = min(self._pause * 1.5, LONGEST_PAUSE_SECONDS)
        require_not_cancelled()


def insist(client: MetastoreClient, give_back: Callable[[], None]) -> None:
    """Give something back that others wait for; repeat it for some seconds if the metastore fails.

    Args:
        client: The metastore.
        give_back: May be repeated.

    Raises:
        MetastoreError: The metastore has failed each time.
    """
    with client.within(LONGEST_OUTCOME_PAUSE_SECONDS):
        for _ in range(_TRIES - 1):
            try:
                return give_back()
            except MetastoreError:
                time.sleep(OUTCOME_PAUSE_SECONDS)
        return give_back()


def collides(features: Features, lock: HeldLock, components: Sequence[LockComponent]) -> bool:
    """Return whether an earlier lock makes a request for some components wait."""
    return any(
        _overlap(features, lock, component)
        and blocks(features.has_excl_write, lock.type, component.type)
        for component in components
    )


def _overlap(features: Features, lock: HeldLock, component: LockComponent) -> bool:
    if lock.database != component.database:
        return False
    if lock.table is None:
        return True
    if lock.table.name != component.table:
        return False
    if lock.partition is None or component.partition is None:
        return True
    if not features.keeps_case_of_partitions:
        return lock.partition == component.partition.lower()
    return lock.partition == component.partition


def _place(of: HeldLock | LockComponent) -> str:
    if isinstance(of, LockComponent):
        table: TableRef | None = TableRef(of.database, of.table)
    else:
        table = of.table
    name = of.database if table is None else table.full_name
    return name if of.partition is None else f"{name}/{of.partition}"


def holders(locks: Sequence[HeldLock]) -> str:
    """Describe the owners of some locks briefly: "transaction 25 of orders_hourly.merge"."""
    owner_names = list(dict.fromkeys(map(_holder, locks)))
    return first_names(owner_names, _FEW) or "the metastore"


def _holder(lock: HeldLock) -> str:
    by = f"transaction {lock.txn_id}" if lock.txn_id else f"lock {lock.lock_id}"
    task_name = lock.agent_info and task_of_run(unmarked_token(lock.agent_info))
    return printable(f"{by} of {task_name or lock.user}")


def describe_all(locks: Sequence[HeldLock]) -> str:
    """Describe some locks, and the number of further ones."""
    descriptions = "; ".join(describe(lock) for lock in locks[:_MOST_NAMED])
    count_text = f"; and {len(locks) - _MOST_NAMED} more" if len(locks) > _MOST_NAMED else ""
    return f"{descriptions or 'a lock that was released meanwhile'}{count_text}"


def describe(lock: HeldLock) -> str:
    """Describe the locked object, the time of the lock and its owner."""
    owner = f"user {lock.user}, host {lock.host}"
    if lock.agent_info:
        owner += f", run {unmarked_token(lock.agent_info)}"
    state = (
        "wanted earlier" if lock.acquired_at is None else f"held since {lock.acquired_at:%F %T} UTC"
    )
    by = f"transaction {lock.txn_id}" if lock.txn_id else f"lock {lock.lock_id}"
    return printable(f"{lock.type.name} on {_place(lock)} {state} by {by} ({owner})")


# The queue of writers that change rows: they wait in it before they open a transaction.
#
# The metastore rejects a transaction that is older than a change for which it has waited. A writer
# that waited inside a transaction would have to open another one afterwards, at the end of the
# queue, while all others do the same: every commit would restart all waiting writers, and chance
# would determine the next one.
#
# So a writer queues first, with a ticket: a lock without a transaction, on a name beside the table
# that no engine locks. The metastore's own queue of locks defines the order, for a partition or
# for the whole table, and for several tables at once. The writer whose turn it is waits until the
# holders of locks on the table itself are done, and only then opens its transaction. As soon as
# that transaction has its locks, the ticket is released and the next writer's turn begins. Writers
# that only append or read need no ticket. A writer whose ticket is lost must queue again; this has
# no other effect.


_SOON_SECONDS = 1


# Follows the name of a table in the name that its writers lock to queue; no table has such a name.
_QUEUE = "#writers"


def queue_of(table: TableRef) -> TableRef:
    """The name that writers of a table lock while they queue for it.

    Args:
        table: The table.
    """
    return TableRef(table.database, f"{table.name}{_QUEUE}")


def ticket_components(components: Sequence[LockComponent]) -> list[LockComponent]:
    """Return the components of the ticket of a writer; none if it changes no rows.

    Args:
        components: The locks that its transaction will request.
    """
    return [
        replace(
            component,
            type=LockType.EXCLUSIVE,
            table=queue_of(TableRef(component.database, component.table)).name,
            operation=DataOperation.NO_TXN,
            is_transactional=False,
            is_dynamic_partition_write=False,
        )
        for component in components
        if component.type is not LockType.SHARED_READ
    ]


def leave_queues(client: MetastoreClient, *tokens: str) -> None:
    """Remove a killed run from its queues, where other writers would wait for it.

    Args:
        client: The metastore.
        tokens: The names of the run's transactions, in full.
    """
    agent_infos = {agent_info(token) for token in tokens}
    lock_ids = {
        lock.lock_id
        for lock in client.show_locks()
        if lock.table and lock.table.name.endswith(_QUEUE) and lock.agent_info in agent_infos
    }
    for lock_id in sorted(lock_ids):
        client.unlock(lock_id)


class WriterQueue:
    """The queue for the changes of one writer, from that writer's view."""

    def __init__(
        self,
        client: MetastoreClient,
        components: Sequence[LockComponent],
        owner: Owner,
        phases: PhaseClock,
    ) -> None:
        """Describe a wait; `wait` starts it.

        Args:
            client: The metastore.
            components: The locks that the transaction will request. Without changes of rows,
                waiting is unnecessary.
            owner: The owner that other clients see.
            phases: Receives a note about each wait.
        """
        self._client = client
        self._owner = owner
        self._phases = phases
        self._changes = [
            component for component in components if component.type is not LockType.SHARED_READ
        ]
        self._process = os.getpid()
        self._ticket: LockRequest | None = None
        # The number of the first ticket: tickets of this run with a higher number belong to later
        # attempts.
        self._first: int | None = None
        self._last_heartbeat = 0.0
        self._timeout = 0.0
        # The holders of the table at the beginning of this writer's turn; later ones are not
        # awaited.
        self._before: set[int] | None = None

    def wait(self, start: float, limit_seconds: float) -> None:
        """Wait until all earlier writers are done.

        Args:
            start: The start of the wait, by time.monotonic().
            limit_seconds: The longest wait.

        Raises:
            LockTimeout: An earlier writer remained.
        """
        self._before = None
        if self._changes and (ahead := self._ahead()):
            with self._phases(Phase.LOCK, "the queue of writers"):
                self._wait(ahead, Pauses(start, limit_seconds, self._phases))

    def keep(self) -> None:
        """Keep the ticket alive during another wait."""
        if self._ticket is None or time.monotonic() - self._last_heartbeat < _SOON_SECONDS:
            return
        self._timeout = self._timeout or txn_timeout_seconds(self._client)
        due = self._timeout / HEARTBEATS_PER_TIMEOUT - LONGEST_PAUSE_SECONDS
        if time.monotonic() - self._last_heartbeat > due:
            try:
                self._client.heartbeat_lock(self._ticket.lock_id)
            except TransactionAborted:
                self._ticket = None
            self._last_heartbeat = time.monotonic()

    def end(self) -> None:
        """Leave the queue, so that the next writer's turn comes; once more where that has failed."""
        if self._ticket is None or self._process != os.getpid():
            return
        try:
            insist(self._client, self._ticket.give_back)
            self._ticket = None
        except MetastoreError as error:
            # The ticket eventually expires by itself, because its heartbeats have stopped.
            self._phases.note(f"Could not leave the queue of writers: {error}")

    def _wait(self, ahead: list[HeldLock], pauses: Pauses) -> None:
        self._phases.note(f"Waiting for {describe_all(ahead)}")
        while ahead:
            if pauses.over:
                raise LockTimeout(
                    f"The work could not begin for {pauses.waited:.1f} s."
                    f" In its way: {describe_all(self._holders() + ahead)}.",
                    remedy="Run the job again when they are done, or raise lock_wait_seconds.",
                )
            pauses.rest(ahead)
            self.keep()
            ahead = self._ahead()

    def _ahead(self) -> list[HeldLock]:
        """Return the locks of earlier writers that remain."""
        if self._ticket is None:
            self._take_ticket()
        ticket = self._ticket
        assert ticket is not None
        if not ticket.granted:
            if earlier := self._living(ticket):
                return earlier
            try:
                ticket.check()
            except (
                TransactionAborted
            ):  # It has expired, or a later attempt of the run has removed it.
                self._ticket = None
                return self._ahead()
            if not ticket.granted:
                return ticket.own()
        holders = self._holders()
        if self._before is None:
            self._before = {lock.lock_id for lock in holders}
        return [lock for lock in holders if lock.lock_id in self._before]

    def _take_ticket(self) -> None:
        components = ticket_components(self._changes)
        ticket = LockRequest(self._client, components, None, self._owner)
        self._ticket = ticket
        try:
            ticket.send()
        except BaseException:
            # It may be in the queue, where it would block all other writers until it expires.
            self.end()
            self._ticket = None
            raise
        self._last_heartbeat = time.monotonic()
        if self._first is None:
            self._first = ticket.lock_id

    def _living(self, ticket: LockRequest) -> list[HeldLock]:
        """Return the earlier tickets that are still in use; remove those of dead writers.

        The metastore also removes them, but only if its housekeeping runs, and not at once for an
        earlier attempt of the same run. An attempt whose ticket was removed by a later attempt of
        its run waits for the later one, because two live attempts would otherwise remove each
        other's tickets forever.
        """
        assert self._first is not None
        earlier, own_tickets = ticket.blockers(), ticket.own()
        living = []
        for lock in earlier:
            silent = 0.0
            if own_tickets and own_tickets[0].last_heartbeat and lock.last_heartbeat:
                silent = (own_tickets[0].last_heartbeat - lock.last_heartbeat).total_seconds()
            earlier_try = self._is_of_this_run(lock) and lock.lock_id < self._first
            if earlier_try or 0 < self._timeout < silent:
                self._client.unlock(lock.lock_id)
            else:
                living.append(lock)
        return living

    def _holders(self) -> list[HeldLock]:
        """Return the locks, held or requested, that permit changes of the same rows."""
        tables = {TableRef(component.database, component.table) for component in self._changes}
        return [
            lock
            for table in sorted(tables)
            for lock in self._client.show_locks(table)
            if lock.type is not LockType.SHARED_READ
            and not self._is_of_this_run(lock)
            and collides(self._client.features, lock, self._changes)
        ]

    def _is_of_this_run(self, lock: HeldLock) -> bool:
        """Return whether the lock belongs to an earlier attempt of this run, which is not awaited."""
        return lock.agent_info == self._owner.agent_info
