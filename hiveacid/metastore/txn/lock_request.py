"""One request for several locks: send it, wait until it is granted, name the blocking owners."""

import time
from collections.abc import Callable, Sequence

from hiveacid.errors import AnswerLost, LockTimeout, TransactionAborted
from hiveacid.jobs.options.run_token import unmarked_token
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift.answers import HeldLock, LockAnswer, LockState
from hiveacid.metastore.txn.heartbeat import is_of_this_process
from hiveacid.metastore.txn.owner import Owner
from hiveacid.progress import REPORT_SECONDS, PhaseClock
from hiveacid.rules.blockers import task_of_run
from hiveacid.rules.locks import LockComponent, blocks
from hiveacid.rules.metastore_version import MetastoreVersion
from hiveacid.rules.name_list import first_names
from hiveacid.rules.names import TableRef
from hiveacid.rules.printable import printable

LONGEST_PAUSE_SECONDS = 2.0

_FIRST_PAUSE_SECONDS = 0.05
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

        Raises:
            AnswerLost: The arrival of the request is unknown; the transaction must be abandoned.
        """
        owner = self._owner
        try:
            self._receive(
                self._client.lock(
                    self._components, self._txn_id, owner.user, owner.host, owner.agent_info
                )
            )
        except AnswerLost:
            # To send it again could queue it behind itself.
            own = [lock for lock in self._client.show_locks() if self._is_own(lock)]
            if not own:
                raise
            self._receive(self._client.check_lock(own[0].lock_id, self._txn_id))

    def wait(
        self,
        since: float,
        limit_seconds: float,
        reason_to_stop: Callable[[], str | None],
        phases: PhaseClock,
    ) -> str | None:
        """Wait until the locks are granted.

        Args:
            since: The start of the wait, by time.monotonic().
            limit_seconds: The longest wait.
            reason_to_stop: Returns the reason why waiting has become pointless, if any.
            phases: Periodically receives the owners of the blocking locks.

        Returns:
            None after the locks are granted, otherwise the reason from reason_to_stop.

        Raises:
            LockTimeout: They were not granted in time.
        """
        pauses = Pauses(since, limit_seconds, phases)
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
        own, version = self.lock_id, self._client.version
        return [
            lock
            for lock in locks
            if lock.lock_id < own
            and (lock.txn_id is None or lock.txn_id != self._txn_id)
            and collides(version, lock, self._components)
        ]

    def _receive(self, answer: LockAnswer) -> None:
        if answer.state not in (LockState.ACQUIRED, LockState.WAITING):
            raise TransactionAborted(
                f"The locks of transaction {self._txn_id} were refused: {answer.state.name}."
            )
        self._answer = answer

    def _timeout(self, waited: float) -> LockTimeout:
        wanted = ", ".join(
            f"{component.type.name} on {_place(component)}" for component in self._components
        )
        # From all locks, because a lock on the whole database is not listed with those of its
        # tables.
        blockers = self._blocking(self._client.show_locks())
        own = [lock.txn_id for lock in blockers if is_of_this_process(self._client, lock.txn_id)]
        what = (
            f"Transaction {self._txn_id} waited {waited:.1f} s for {wanted}."
            f" In its way: {describe_all(blockers)}."
        )
        if not own:
            return LockTimeout(
                what, remedy="Run the job again when they are done, or raise lock_wait_seconds."
            )
        return LockTimeout(
            f"{what} Transaction {own[0]} belongs to this process, which waits for itself.",
            remedy="End the with statement of the read before the write, or close its table.",
        )


class Pauses:
    """Pauses of a client that waits in a queue: long ones, and short ones while the queue moves.

    Every ten seconds a log line names the owners that block it.
    """

    def __init__(self, since: float, limit_seconds: float, phases: PhaseClock) -> None:
        """Begin to wait.

        Args:
            since: The start of the wait, by time.monotonic().
            limit_seconds: The longest wait.
            phases: Receives the log lines.
        """
        self._phases = phases
        self._logged_at = time.monotonic()
        self._since = since
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


def collides(
    version: MetastoreVersion, lock: HeldLock, components: Sequence[LockComponent]
) -> bool:
    """Return whether an earlier lock makes a request for some components wait."""
    return any(
        _overlap(version, lock, component) and blocks(version, lock.type, component.type)
        for component in components
    )


def _overlap(version: MetastoreVersion, lock: HeldLock, component: LockComponent) -> bool:
    if lock.database != component.database:
        return False
    if lock.table is None:
        return True
    if lock.table.name != component.table:
        return False
    if lock.partition is None or component.partition is None:
        return True
    if not version.keeps_case_of_partitions:
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
    named = list(dict.fromkeys(map(_holder, locks)))
    return first_names(named, _FEW) or "the metastore"


def _holder(lock: HeldLock) -> str:
    by = f"transaction {lock.txn_id}" if lock.txn_id else f"lock {lock.lock_id}"
    whose = lock.agent_info and task_of_run(unmarked_token(lock.agent_info))
    return printable(f"{by} of {whose or lock.user}")


def describe_all(locks: Sequence[HeldLock]) -> str:
    """Describe some locks, and the number of further ones."""
    named = "; ".join(describe(lock) for lock in locks[:_MOST_NAMED])
    more = f"; and {len(locks) - _MOST_NAMED} more" if len(locks) > _MOST_NAMED else ""
    return f"{named or 'a lock that was released meanwhile'}{more}"


def describe(lock: HeldLock) -> str:
    """Describe the locked object, the time of the lock and its owner."""
    who = f"user {lock.user}, host {lock.host}"
    if lock.agent_info:
        who += f", run {unmarked_token(lock.agent_info)}"
    state = (
        "wanted earlier" if lock.acquired_at is None else f"held since {lock.acquired_at:%F %T} UTC"
    )
    by = f"transaction {lock.txn_id}" if lock.txn_id else f"lock {lock.lock_id}"
    return printable(f"{lock.type.name} on {_place(lock)} {state} by {by} ({who})")
