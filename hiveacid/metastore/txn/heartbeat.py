"""The heartbeats that keep transactions alive while the process lives that works in them.

One thread with one connection does it for all transactions of a process at a metastore, however
many they are, and does nothing else. A second one ends reads that the garbage collector has found
to be without use: the collector may run at any line of any thread, where neither a call nor a lock
is safe.
"""

import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from time import monotonic

from hiveacid.errors import JobFailed, MetastoreCallFailed, TransactionAborted
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift.answers import TxnLiveness

HEARTBEATS_PER_TIMEOUT = 3

_DEFAULT_TIMEOUT = "300s"
_TIME = re.compile(r"([0-9]{1,18})\s*(ns|us|ms|s|m|h|d|)[a-z]*")
_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
# Regardless of the server's answer, two heartbeats are separated by a pause that a thread can wait.
_SHORTEST, _LONGEST = 0.1, 30 * 86400.0
_RETRY_SECONDS = 1.0


def txn_timeout_seconds(client: MetastoreClient) -> float:
    """Return the time without a heartbeat after which the metastore aborts a transaction.

    Args:
        client: The client of the server with this setting.
    """
    try:
        text = client.config_value("hive.txn.timeout", _DEFAULT_TIMEOUT)
    except MetastoreCallFailed:
        text = _DEFAULT_TIMEOUT  # Some services keep their settings to themselves.
    match = _TIME.fullmatch(text.strip().lower()) or _TIME.fullmatch(_DEFAULT_TIMEOUT)
    assert match is not None
    return min(max(int(match[1]) * _UNITS[match[2]], _SHORTEST), _LONGEST)


def is_of_this_process(client: MetastoreClient, txn_id: int | None) -> bool:
    """Return whether this process keeps a transaction alive."""
    process_key = os.getpid(), client.options.uris
    return any(
        (process, options.uris) == process_key and txn_id in keep_alive.txn_ids
        for (process, options), keep_alive in list(_KEEP_ALIVES.items())
    )


class Heartbeat:
    """The heartbeats of one transaction, between start() and stop()."""

    def __init__(self, options: MetastoreOptions, txn_id: int, every_seconds: float) -> None:
        """Describe them.

        Args:
            options: The connection options of the metastore.
            txn_id: The transaction to keep alive.
            every_seconds: The time between two heartbeats.
        """
        self.txn_id = txn_id
        self.every_seconds = every_seconds
        # The time of the next one, and whether the last one failed; for the thread.
        self.due = 0.0
        self.failed = False
        self._keep_alive = keep_alive(options)
        self._lost: str | None = None
        self._answered = time.monotonic()
        self._ended_at: float | None = None

    def start(self) -> None:
        """Begin."""
        self.due = monotonic() + self.every_seconds
        self._keep_alive.add(self)

    def stop(self) -> None:
        """End. A heartbeat that is under way is not waited for; it does no harm."""
        self._keep_alive.remove(self)

    def check(self) -> None:
        """Raise an error unless the transaction is alive.

        Raises:
            TransactionAborted: The answer to a heartbeat reports its end.
        """
        if self._lost is not None:
            raise TransactionAborted(self._lost)

    @property
    def is_lost(self) -> bool:
        """Whether the answer to a heartbeat reports the transaction's end."""
        return self._lost is not None

    @property
    def silence(self) -> float:
        """Seconds since the last successful heartbeat, up to the report of the transaction's end."""
        return (self._ended_at or time.monotonic()) - self._answered

    def note_alive(self) -> None:
        """Remember that the metastore has just called it alive."""
        self._answered = time.monotonic()

    def send(self, client: MetastoreClient) -> None:
        """Send one heartbeat. Only the metastore's own word ends a transaction, never silence."""
        liveness = client.heartbeat(self.txn_id)
        if liveness is TxnLiveness.OPEN:
            self.note_alive()
            return
        self._ended_at = time.monotonic()
        if liveness is TxnLiveness.ABORTED:
            self._lost = f"Transaction {self.txn_id} was aborted by the metastore."
        else:
            self._lost = f"The metastore no longer knows transaction {self.txn_id}."


class KeepAlive:
    """The thread and the connection of all heartbeats of this process at one metastore.

    The thread lives while there are heartbeats, and survives every exception. It does nothing but
    send them: work of others may take any time, so it has a thread of its own while there is some.
    ``remove`` and ``do_soon`` take no lock: the garbage collector may call them from a thread that
    holds it.

    Attributes:
        client: A client whose connections are closed when no transaction is left.
    """

    def __init__(self, options: MetastoreOptions) -> None:
        """Describe the thread, which the first heartbeat starts.

        Args:
            options: The connection options of the metastore.
        """
        self.client = MetastoreClient(options)
        self._heartbeats: set[Heartbeat] = set()
        self._work: deque[Callable[[], None]] = deque()
        # Whether a thread does the work, or is about to.
        self._is_working = False
        self._wakes: SimpleQueue[None] = SimpleQueue()
        # Between the decision of the thread to end and that of others that it need not start.
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def txn_ids(self) -> set[int]:
        """The transactions."""
        return {heartbeat.txn_id for heartbeat in tuple(self._heartbeats)}

    def add(self, heartbeat: Heartbeat) -> None:
        """Begin to send heartbeats of a transaction.

        Raises:
            JobFailed: The system permits no more threads.
        """
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                try:
                    self._thread = self._start("heartbeats", self._run)
                except RuntimeError as error:
                    raise JobFailed(
                        f"No heartbeats of transaction {heartbeat.txn_id} can be sent: {error}.",
                        remedy="Raise the limit of threads and processes of the user or the"
                        " container, or run fewer tasks at once.",
                    ) from error
            self._heartbeats.add(heartbeat)
        self._wakes.put(None)

    def remove(self, heartbeat: Heartbeat) -> None:
        """Send no more heartbeats of a transaction; the garbage collector may call this."""
        self._heartbeats.discard(heartbeat)
        self._wakes.put(None)

    def do_soon(self, work: Callable[[], None]) -> None:
        """Do something in a thread of its own; the garbage collector may call this.

        Args:
            work: Is done while there are heartbeats, after the work that was given before.
        """
        self._work.append(work)
        self._wakes.put(None)

    def _start(self, purpose: str, target: Callable[[], None]) -> threading.Thread:
        # A daemon: it must not keep a process alive after its work.
        name = f"{purpose} at {self.client.options.uris}"
        thread = threading.Thread(target=target, name=name, daemon=True)
        thread.start()
        return thread

    def _run(self) -> None:
        pause = 0.0
        while True:
            try:
                with suppress(Empty):
                    self._wakes.get(timeout=pause)
                pause = (
                    _SHORTEST  # In case of a failure: no lack of memory or threads lasts forever.
                )
                if self._ends():
                    return
                pause = self._send_most_urgent()
                if pause and self._work and not self._is_working:
                    self._start_work()
            except BaseException:  # noqa: BLE001
                continue

    def _ends(self) -> bool:
        """Close the connection, and return True, if no transaction is left."""
        with self._lock:
            if self._heartbeats or self._is_working:
                return False
            self._thread = None
            with suppress(BaseException):
                self.client.close()
            return True

    def _start_work(self) -> None:
        self._is_working = True
        try:
            self._start("work", self._do_work)
        except BaseException:
            self._is_working = False
            raise

    def _do_work(self) -> None:
        try:
            while self._work:
                with suppress(BaseException):
                    self._work.popleft()()
        finally:
            self._is_working = False
            # For work that was given after the last look.
            self._wakes.put(None)

    def _send_most_urgent(self) -> float:
        """Send at most one heartbeat; return the seconds until the next one."""
        alive = [heartbeat for heartbeat in tuple(self._heartbeats) if not heartbeat.is_lost]
        if not alive:
            return _LONGEST
        now, shortest = monotonic(), min(heartbeat.every_seconds for heartbeat in alive)
        if due := [heartbeat for heartbeat in alive if heartbeat.due <= now]:
            # The metastore may be silent about some transactions for long, for example while they
            # commit: the others go first, and all that are due are sent within the shortest
            # interval, so that time for a retry remains.
            heartbeat = min(due, key=lambda heartbeat: (heartbeat.failed, heartbeat.due))
            pause = min(shortest, _RETRY_SECONDS)
            try:
                with self.client.within(max(shortest / len(due), pause)):
                    heartbeat.send(self.client)
            except BaseException:  # noqa: BLE001
                heartbeat.failed = True
                # It may be starting again.
                for due_heartbeat in due:
                    due_heartbeat.due = monotonic() + pause
            else:
                heartbeat.failed = False
                heartbeat.due = monotonic() + heartbeat.every_seconds
        return min(max(min(heartbeat.due for heartbeat in alive) - monotonic(), 0), _LONGEST)


# By process, because a forked one has the objects of its parent, but not the threads, and possibly
# locks that nobody will release.
_KEEP_ALIVES: dict[tuple[int, MetastoreOptions], KeepAlive] = {}


def keep_alive(options: MetastoreOptions) -> KeepAlive:
    """Return the thread of this process for a metastore.

    Args:
        options: The connection options of the metastore.
    """
    key = os.getpid(), options
    return _KEEP_ALIVES.get(key) or _KEEP_ALIVES.setdefault(key, KeepAlive(options))
