"""One request for all the locks of a transaction: send it, wait for it, name who is in its way."""

import time
from collections.abc import Callable, Sequence

from airflow_hiveacid.acid.errors import AnswerLost, LockTimeout, TransactionAborted
from airflow_hiveacid.acid.locks import LockComponent, MetastoreVersion, TableRef, blocks
from airflow_hiveacid.jobs.run_token import unmarked_token
from airflow_hiveacid.metastore.answers import HeldLock, LockAnswer, LockState
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.settle import Owner

_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 2.0
_MOST_NAMED = 5


class LockRequest:
    """A request for locks. It is granted as a whole or waits as a whole."""

    def __init__(
        self,
        client: MetastoreClient,
        components: Sequence[LockComponent],
        txn_id: int,
        owner: Owner,
    ) -> None:
        """Describe the request.

        Args:
            client: Whom to ask.
            components: What to lock.
            txn_id: The transaction that will hold the locks.
            owner: Whom others are told to ask about them.
        """
        self._client = client
        self._components = components
        self._txn_id = txn_id
        self._owner = owner
        self._answer: LockAnswer | None = None

    @property
    def granted(self) -> bool:
        """Whether the locks are held."""
        return self._answer is not None and self._answer.state is LockState.ACQUIRED

    def send(self) -> None:
        """Send the request, once.

        Raises:
            AnswerLost: Nobody knows whether it arrived; the transaction must be given up.
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
            lock_id = self._find_own()
            if lock_id is None:
                raise
            self._receive(self._client.check_lock(lock_id, self._txn_id))

    def wait(
        self, since: float, limit_seconds: float, in_vain: Callable[[], str | None]
    ) -> str | None:
        """Wait until the locks are granted.

        Args:
            since: The time, by time.monotonic(), from which on the waiting counts.
            limit_seconds: How long to wait.
            in_vain: Tells why waiting has become pointless, if it has.

        Returns:
            None when the locks are held, else what in_vain has told.

        Raises:
            LockTimeout: They were not granted in time.
        """
        assert self._answer is not None
        pause = _FIRST_PAUSE_SECONDS
        while not self.granted:
            waited = time.monotonic() - since
            left = limit_seconds - waited
            if left <= 0:
                raise self._timeout(waited)
            time.sleep(min(pause, left))
            pause = min(pause * 1.5, _LONGEST_PAUSE_SECONDS)
            if reason := in_vain():
                return reason
            # Only a request that can be granted asks: HMS 4 on Derby stands still for minutes when
            # a lock is checked at the moment in which another transaction commits.
            if not self.blockers():
                self._receive(self._client.check_lock(self._answer.lock_id, self._txn_id))
        return None

    def blockers(self) -> list[HeldLock]:
        """The locks of others, held or asked for earlier, that this request waits for."""
        tables = {TableRef(component.database, component.table) for component in self._components}
        return self._in_the_way(
            [lock for table in sorted(tables) for lock in self._client.show_locks(table)]
        )

    def _in_the_way(self, locks: Sequence[HeldLock]) -> list[HeldLock]:
        assert self._answer is not None
        own, version = self._answer.lock_id, self._client.version
        return [
            lock
            for lock in locks
            if lock.lock_id < own
            and lock.txn_id != self._txn_id
            and collides(version, lock, self._components)
        ]

    def _receive(self, answer: LockAnswer) -> None:
        if answer.state not in (LockState.ACQUIRED, LockState.WAITING):
            raise TransactionAborted(
                f"The locks of transaction {self._txn_id} were refused: {answer.state.name}."
            )
        self._answer = answer

    def _find_own(self) -> int | None:
        locks = self._client.show_locks()
        return next((lock.lock_id for lock in locks if lock.txn_id == self._txn_id), None)

    def _timeout(self, waited: float) -> LockTimeout:
        wanted = ", ".join(
            f"{component.type.name} on {_place(component)}" for component in self._components
        )
        # Of all locks, for one on the whole database is not among those of its tables.
        blockers = self._in_the_way(self._client.show_locks())
        named = "; ".join(describe(lock) for lock in blockers[:_MOST_NAMED])
        more = f"; and {len(blockers) - _MOST_NAMED} more" if len(blockers) > _MOST_NAMED else ""
        return LockTimeout(
            f"Transaction {self._txn_id} waited {waited:.1f} s for {wanted}."
            f" In its way: {named or 'nobody any more'}{more}.",
            remedy="Run the job again when they are done, or raise lock_wait_seconds.",
        )


def collides(
    version: MetastoreVersion, lock: HeldLock, components: Sequence[LockComponent]
) -> bool:
    """Whether a lock that came first makes a request for some components wait."""
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
    if version is MetastoreVersion.HMS3:  # Which locks partitions by their names in lower case.
        return lock.partition == component.partition.lower()
    return lock.partition == component.partition


def _place(of: HeldLock | LockComponent) -> str:
    if isinstance(of, LockComponent):
        table: TableRef | None = TableRef(of.database, of.table)
    else:
        table = of.table
    name = of.database if table is None else table.full_name
    return name if of.partition is None else f"{name}/{of.partition}"


def describe(lock: HeldLock) -> str:
    """Say what is locked, since when and by whom."""
    who = f"user {lock.user}, host {lock.host}"
    if lock.agent_info:
        who += f", run {unmarked_token(lock.agent_info)}"
    state = (
        "wanted earlier" if lock.acquired_at is None else f"held since {lock.acquired_at:%F %T} UTC"
    )
    by = f"transaction {lock.txn_id}" if lock.txn_id else f"lock {lock.lock_id}"
    return f"{lock.type.name} on {_place(lock)} {state} by {by} ({who})"
