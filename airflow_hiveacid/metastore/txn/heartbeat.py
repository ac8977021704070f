"""The heartbeats that keep a transaction alive while the process lives that works in it."""

import os
import re
import threading
import time
from dataclasses import replace

from airflow_hiveacid.errors import MetastoreCallFailed, MetastoreError, TransactionAborted
from airflow_hiveacid.jobs.options.metastore_options import MetastoreOptions
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.thrift.answers import TxnLiveness

HEARTBEATS_PER_TIMEOUT = 3

_DEFAULT_TIMEOUT = "300s"
_TIME = re.compile(r"([0-9]{1,18})\s*(ns|us|ms|s|m|h|d|)[a-z]*")
_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
# Regardless of the server's answer, two heartbeats are separated by a pause that a thread can wait.
_SHORTEST, _LONGEST = 0.1, 30 * 86400.0
_RETRY_SECONDS = 1.0
# The process, the metastore's uris and the id of each transaction that is kept alive. A forked
# process has the entries of its parent, but not the threads.
_KEPT_ALIVE: set[tuple[int, str, int]] = set()


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
    return txn_id is not None and (os.getpid(), client.options.uris, txn_id) in _KEPT_ALIVE


class Heartbeat:
    """A thread that keeps a transaction alive on a connection of its own."""

    def __init__(self, options: MetastoreOptions, txn_id: int, every_seconds: float) -> None:
        """Describe the thread; it runs between start() and stop().

        Args:
            options: The connection options of the metastore.
            txn_id: The transaction to keep alive.
            every_seconds: The time between two heartbeats.
        """
        # Do not wait for an answer longer than the interval between heartbeats: after a network
        # failure, time for a retry must remain.
        self._client = MetastoreClient(
            replace(
                options,
                connect_timeout_seconds=min(options.connect_timeout_seconds, every_seconds),
                read_timeout_seconds=min(options.read_timeout_seconds, every_seconds),
            )
        )
        self._txn_id = txn_id
        self._kept = os.getpid(), options.uris, txn_id
        self._every = every_seconds
        self._stopped = threading.Event()
        self._lost: str | None = None
        self._answered = time.monotonic()
        self._ended_at: float | None = None
        # A daemon: it must not keep a process alive after its work.
        self._thread = threading.Thread(
            target=self._run, name=f"heartbeat of transaction {txn_id}", daemon=True
        )

    def start(self) -> None:
        """Begin."""
        self._thread.start()
        _KEPT_ALIVE.add(self._kept)

    def stop(self) -> None:
        """End. A heartbeat that is under way is not waited for long; it does no harm."""
        _KEPT_ALIVE.discard(self._kept)
        self._stopped.set()
        self._thread.join(_RETRY_SECONDS)

    def check(self) -> None:
        """Raise an error unless the transaction is alive.

        Raises:
            TransactionAborted: The answer to a heartbeat reports its end.
        """
        if self._lost is not None:
            raise TransactionAborted(self._lost)

    @property
    def silence(self) -> float:
        """Seconds since the last successful heartbeat, up to the report of the transaction's end."""
        return (self._ended_at or time.monotonic()) - self._answered

    def note_alive(self) -> None:
        """Remember that the metastore has just called it alive."""
        self._answered = time.monotonic()

    def _run(self) -> None:
        with self._client:
            self._send_heartbeats()

    def _send_heartbeats(self) -> None:
        pause = self._every
        while not self._stopped.wait(pause):
            try:
                liveness = self._client.heartbeat(self._txn_id)
            except MetastoreError:
                # It may be starting again. Only its own word ends a transaction, never silence.
                pause = min(self._every, _RETRY_SECONDS)
                continue
            pause = self._every
            if liveness is TxnLiveness.OPEN:
                self.note_alive()
                continue
            self._ended_at = time.monotonic()
            if liveness is TxnLiveness.ABORTED:
                self._lost = f"Transaction {self._txn_id} was aborted by the metastore."
            else:
                self._lost = f"The metastore no longer knows transaction {self._txn_id}."
            return
