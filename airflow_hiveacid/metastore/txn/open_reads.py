"""Reads that outlive the call that began them: those of frames, which are computed later.

Such a read ends with the last frame that needs it, when its owner is closed, when Spark is stopped,
when this process ends, and before this process requests an exclusive lock on one of its tables: otherwise the process would
wait for itself.
"""

import atexit
import os
import weakref
from collections.abc import Collection
from contextlib import suppress

from airflow_hiveacid.acid.names import TableRef
from airflow_hiveacid.errors import HiveAcidError
from airflow_hiveacid.jobs.options.metastore_options import MetastoreOptions
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.txn.live_transaction import LiveTransaction

# The garbage collector must not wait long for a metastore that is away, which then ends the
# transaction itself.
_LONGEST_END_SECONDS = 5.0


class Lease:
    """A right to an open read, which ends when no object refers to its lease."""


class OpenRead:
    """A transaction that only reads, and that is open until ``end`` is called.

    The client must belong to the read alone: the garbage collector may end the read during a call
    of any other client.
    """

    def __init__(
        self, client: MetastoreClient, txn: LiveTransaction, tables: Collection[TableRef]
    ) -> None:
        """Register a read.

        Args:
            client: The client of the transaction, which is closed with it.
            txn: The transaction, which is open.
            tables: The tables that it reads.
        """
        self._client = client
        self._txn = txn
        self._tables = frozenset(tables)
        self._process = os.getpid()
        _OPEN[id(self)] = self

    @property
    def is_open(self) -> bool:
        """Whether the transaction is open."""
        return id(self) in _OPEN

    def lease(self) -> Lease:
        """Return an object whose last reference keeps the read open."""
        lease = Lease()
        weakref.finalize(lease, self.end).atexit = False
        return lease

    def end(self) -> None:
        """End the transaction; a second call does nothing."""
        # The garbage collector may call this within a call of it: no lock can be used.
        if _OPEN.pop(id(self), None) is None or self._process != os.getpid():
            return
        with self._client, self._client.within(_LONGEST_END_SECONDS):
            self._txn.__exit__(None, None, None)

    def reads(self, options: MetastoreOptions, table: TableRef) -> bool:
        """Return whether it reads a table of a metastore."""
        own, others = self._client.options.uris, options.uris
        same = {uri.strip() for uri in own.split(",")} & {uri.strip() for uri in others.split(",")}
        return table in self._tables and bool(same)


_OPEN: dict[int, OpenRead] = {}


def end_reads(options: MetastoreOptions, tables: Collection[TableRef]) -> None:
    """End the reads of this process that an exclusive lock on some tables would wait for.

    Frames of these reads can still be computed until a cleaner removes the replaced files.

    Args:
        options: The metastore.
        tables: The tables.
    """
    for read in list(_OPEN.values()):
        if any(read.reads(options, table) for table in tables):
            read.end()


@atexit.register
def end_all_reads() -> None:
    """End all reads of this process, whose frames cannot be computed any more."""
    for read in list(_OPEN.values()):
        # The metastore ends the others after their last heartbeat.
        with suppress(HiveAcidError):
            read.end()
