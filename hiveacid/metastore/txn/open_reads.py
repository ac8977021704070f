"""Reads that outlive the call that began them: those of frames, which are computed later.

Such a read ends with the last frame that needs it, when its owner is closed, when Spark is stopped,
when this process ends, and before this process requests an exclusive lock on one of its tables: otherwise the process would
wait for itself.
"""

import atexit
import os
import threading
import weakref
from collections.abc import Collection

from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift.transport import Deadline
from hiveacid.metastore.txn.heartbeat import keep_alive
from hiveacid.metastore.txn.live_transaction import LiveTransaction
from hiveacid.rules.names import TableRef

# Nobody waits long for a metastore that is away, which then ends the transaction itself.
_LONGEST_END_SECONDS = 5.0
_LONGEST_EXIT_SECONDS = 30.0


class OpenRead:
    """A transaction that only reads, and that is open until ``end`` is called.

    Attributes:
        tables: The tables that it reads.
    """

    def __init__(
        self, options: MetastoreOptions, txn: LiveTransaction, tables: Collection[TableRef]
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

    def end(self, client: MetastoreClient | None = None) -> None:
        """End the transaction, or wait until another thread has ended it.

        Args:
            client: Ends it; by default that of the heartbeats.
        """
        if not self.is_open or not self._ending.acquire(timeout=2 * _LONGEST_END_SECONDS):
            return
        try:
            if self.is_open:
                client = client or self._keep_alive.client
                with client.within(_LONGEST_END_SECONDS):
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
        own, others = self._options.uris, options.uris
        same = {uri.strip() for uri in own.split(",")} & {uri.strip() for uri in others.split(",")}
        return table in self.tables and bool(same)


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
        if deadline.left > 0:
            read.end()
