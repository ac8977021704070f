"""The queue of writers that change rows: they wait in it before they open a transaction.

The metastore rejects a transaction that is older than a change for which it has waited. A writer
that waited inside a transaction would have to open another one afterwards, at the end of the queue,
while all others do the same: every commit would restart all waiting writers, and chance would
determine the next one.

So a writer queues first, with a ticket: a lock without a transaction, on a name beside the table
that no engine locks. The metastore's own queue of locks defines the order, for a partition or for
the whole table, and for several tables at once. The writer whose turn it is waits until the holders
of locks on the table itself are done, and only then opens its transaction. As soon as that
transaction has its locks, the ticket is released and the next writer's turn begins. Writers that
only append or read need no ticket. A writer whose ticket is lost must queue again; this has no
other effect.
"""

import os
import time
from collections.abc import Sequence
from dataclasses import replace

from hiveacid.errors import LockTimeout, MetastoreError, TransactionAborted
from hiveacid.jobs.options.run_token import agent_info
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift.answers import HeldLock
from hiveacid.metastore.txn.heartbeat import HEARTBEATS_PER_TIMEOUT, txn_timeout_seconds
from hiveacid.metastore.txn.lock_request import (
    LONGEST_PAUSE_SECONDS,
    LockRequest,
    Pauses,
    collides,
    describe_all,
)
from hiveacid.metastore.txn.owner import Owner
from hiveacid.progress import Phase, PhaseClock
from hiveacid.rules.locks import DataOperation, LockComponent, LockType
from hiveacid.rules.names import TableRef

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
    wanted = {agent_info(token) for token in tokens}
    left = {
        lock.lock_id
        for lock in client.show_locks()
        if lock.table and lock.table.name.endswith(_QUEUE) and lock.agent_info in wanted
    }
    for lock_id in sorted(left):
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

    def wait(self, since: float, limit_seconds: float) -> None:
        """Wait until all earlier writers are done.

        Args:
            since: The start of the wait, by time.monotonic().
            limit_seconds: The longest wait.

        Raises:
            LockTimeout: An earlier writer remained.
        """
        self._before = None
        if self._changes and (ahead := self._ahead()):
            with self._phases(Phase.LOCK, "the queue of writers"):
                self._wait(ahead, Pauses(since, limit_seconds, self._phases))

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
            self._client.unlock(self._ticket.lock_id)
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
        ticket.send()
        self._ticket, self._last_heartbeat = ticket, time.monotonic()
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
        earlier, own = ticket.blockers(), ticket.own()
        living = []
        for lock in earlier:
            silent = 0.0
            if own and own[0].last_heartbeat and lock.last_heartbeat:
                silent = (own[0].last_heartbeat - lock.last_heartbeat).total_seconds()
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
            and collides(self._client.version, lock, self._changes)
        ]

    def _is_of_this_run(self, lock: HeldLock) -> bool:
        """Return whether the lock belongs to an earlier attempt of this run, which is not awaited."""
        return lock.agent_info == self._owner.agent_info
