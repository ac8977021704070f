"""Reads of frames, which frames share as long as their tables are unchanged."""

import time
import weakref
from collections.abc import Callable, Collection
from contextlib import ExitStack, suppress
from typing import TypeVar

from pyspark.sql import DataFrame, SparkSession

from hiveacid.errors import TransactionAborted
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.open_reads import Lease, OpenRead
from hiveacid.metastore.txn.snapshot import Snapshot
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.names import TableRef
from hiveacid.spark.read.table_reader import TableReader
from hiveacid.spark.session import end_reads_on_stop, reading_session

# A transaction that is open delays cleanings and exclusive locks, and does not see the files of later
# compactions: a program that makes one frame after the other must not prolong it for ever.
_LONGEST_SHARED_SECONDS = 60.0

_Frames = TypeVar("_Frames")
_Work = Callable[[TableReader, SparkSession], _Frames]


class FrameRead(OpenRead):
    """A transaction that frames are read in.

    Attributes:
        txn: The transaction.
    """

    def __init__(
        self, client: MetastoreClient, txn: Transaction, tables: Collection[TableRef]
    ) -> None:
        """Register a read.

        Args:
            client: The client that opened the transaction.
            txn: The transaction.
            tables: The tables that it reads.
        """
        super().__init__(client.options, txn, tables)
        self.txn = txn
        self._opened_at = time.monotonic()

    def shows_newest(self, client: MetastoreClient, tables: Collection[HiveTable]) -> bool:
        """Return whether a new transaction would show the same rows of some tables.

        This takes three calls; to open, lock, and end a transaction takes seven.

        Args:
            client: The metastore.
            tables: The tables by their current definitions.
        """
        refs = {table.ref for table in tables}
        if time.monotonic() - self._opened_at > _LONGEST_SHARED_SECONDS:
            return False
        if not self.is_open or refs != self.tables:
            return False
        if not all(map(self.txn.definitions.include, tables)):
            return False
        if Snapshot.take(client, sorted(refs)).write_ids != self.txn.snapshot.write_ids:
            return False
        with suppress(TransactionAborted):
            self.txn.confirm_alive()
            return True
        return False


def read_frames(
    client: MetastoreClient,
    spark: SparkSession,
    tables: Collection[HiveTable],
    latest: FrameRead | None,
    work: _Work[_Frames],
) -> tuple[_Frames, FrameRead]:
    """Make frames of tables, which show all that was committed before.

    Args:
        client: The metastore.
        spark: The session of the user.
        tables: The tables by their current definitions.
        latest: An earlier read of the tables, which is used again if it shows the same.
        work: Makes the frames.

    Returns:
        The frames, and the read, which is open as long as somebody needs it.
    """
    session = reading_session(spark)
    end_reads_on_stop(spark)
    if latest is not None and latest.shows_newest(client, tables):
        return work(TableReader(client, latest.txn), session), latest
    with ExitStack() as failed:
        reads = sorted({table.ref for table in tables})
        txn = failed.enter_context(Transaction(client, reads=reads))
        frames = work(TableReader(client, txn), session)
        read = FrameRead(client, txn, reads)
        failed.pop_all()
    return frames, read


class FrameReads:
    """The reads of the frames of one table.

    Attributes:
        keeps_all: Whether a read lasts until ``end``, and not only until its last frame is
            collected.
    """

    def __init__(self, client: MetastoreClient) -> None:
        """Begin without reads.

        Args:
            client: The client of the table.
        """
        self.keeps_all = False
        self._client = client
        self._reads: set[FrameRead] = set()
        self._kept: set[Lease] = set()
        self._latest: tuple[weakref.ref[Lease], FrameRead] | None = None

    def frame(
        self, spark: SparkSession, table: HiveTable, work: _Work[DataFrame]
    ) -> tuple[DataFrame, Lease]:
        """Make a frame, and return it with the object that it must refer to; see ``read_frames``."""
        latest = self._latest
        # From here on the latest read cannot end because of the frames that are collected.
        lease = None if latest is None else latest[0]()
        known = None if latest is None or lease is None else latest[1]
        frame, read = read_frames(self._client, spark, [table], known, work)
        if lease is None or read is not known:
            lease = Lease(read)
            self._latest = weakref.ref(lease), read
            self._reads.add(read)
            # Threads that share the owner may be here at the same time.
            self._reads -= {each for each in tuple(self._reads) if not each.is_open}
        if self.keeps_all:
            self._kept.add(lease)
        return frame, lease

    def renew(self) -> None:
        """Let the next frame read in a new transaction, which sees the files of a compaction."""
        self._latest = None

    def end(self) -> None:
        """End all reads."""
        for read in tuple(self._reads):
            read.end(self._client)
        self._reads.clear()
        self._kept.clear()
