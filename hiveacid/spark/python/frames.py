"""Frames of transactional tables, and the transactions that they are read in."""

import time
import weakref
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, suppress
from typing import TypeVar

from pyspark.sql import DataFrame, SparkSession

from hiveacid.errors import TransactionAborted
from hiveacid.jobs.fields import Parameters
from hiveacid.jobs.sources import ChangesSource
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import check_kind, existing_table
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.metastore.txn.transaction import Lease, OpenRead, Transaction
from hiveacid.rules.locks import Operation
from hiveacid.rules.names import TableRef
from hiveacid.rules.write_ids import AsOf
from hiveacid.spark.read.table_reader import RowQuery, TableReader
from hiveacid.spark.rows.columns import check_readable
from hiveacid.spark.session import end_reads_on_stop, in_session, reading_session, session_holding
from hiveacid.spark.statements.conditions import Expression, Expressions

# Reads of frames, which frames share as long as their tables are unchanged


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

        This takes two calls; to open, lock, and end a transaction takes seven.

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
        newest = Snapshot.take(client, sorted(refs)).write_ids
        return bool(newest == self.txn.snapshot.write_ids)


def read_frames(
    client: MetastoreClient,
    spark: SparkSession,
    tables: Collection[HiveTable],
    latest: FrameRead | None,
    work: _Work[_Frames],
) -> tuple[_Frames, FrameRead]:
    """Make frames of tables, which show all that was committed before.

    The listings are verified here; the end of the read verifies the files that they name.

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
        with suppress(TransactionAborted):
            frames = work(TableReader(client, latest.txn), session)
            latest.txn.verify()
            return frames, latest
    with ExitStack() as failed:
        reads = sorted({table.ref for table in tables})
        txn = failed.enter_context(Transaction(client, reads=reads))
        frames = work(TableReader(client, txn), session)
        txn.verify()
        read = FrameRead(client, txn, reads)
        failed.pop_all()
    return frames, read


class FrameReads:
    """The reads of the frames of one table, or of one session.

    Attributes:
        keeps_all: Whether a read lasts until ``close``, and not only until its last frame is
            collected.
    """

    def __init__(self, client: MetastoreClient) -> None:
        """Begin without reads.

        Args:
            client: The client of the table or the session.
        """
        self.keeps_all = False
        self._client = client
        self._reads: set[FrameRead] = set()
        self._kept: set[Lease] = set()
        self._latest: tuple[weakref.ref[Lease], FrameRead] | None = None

    def frame(
        self, spark: SparkSession, tables: Collection[HiveTable], work: _Work[_Frames]
    ) -> tuple[_Frames, Lease]:
        """Make frames, and return them with the object that they must refer to; see ``read_frames``."""
        latest = self._latest
        # From here on the latest read cannot end because of the frames that are collected.
        lease = None if latest is None else latest[0]()
        latest_read = None if latest is None or lease is None else latest[1]
        frame, read = read_frames(self._client, spark, tables, latest_read, work)
        if lease is None or read is not latest_read:
            lease = Lease(read)
            self._latest = weakref.ref(lease), read
            self._reads.add(read)
            # Threads that share the owner may be here at the same time.
            self._reads -= {read for read in tuple(self._reads) if not read.is_open}
        if self.keeps_all:
            self._kept.add(lease)
        return frame, lease

    def renew(self) -> None:
        """Let the next frame read in a new transaction, which sees the files of a compaction."""
        self._latest = None

    def close(self, *, verified: bool) -> None:
        """End all reads, verify them, and close the connection.

        Args:
            verified: Whether the results of their frames are used.

        Raises:
            TransactionAborted: The metastore has aborted a read.
            TableReplaced: A table was replaced before the end of its read.
        """
        reads, self._reads = self._reads, set()
        with ExitStack() as ends:
            ends.callback(self._client.close)
            # Last, or the thread of the heartbeats would end them first, without verification.
            ends.callback(self._kept.clear)
            for read in reads:
                ends.callback(read.end, self._client, verified=verified)


# Frames of one table


class TableFrames:
    """The frames of a table, in transactions that last as long as somebody needs their rows.

    Attributes:
        reads: The transactions.
    """

    def __init__(self, client: MetastoreClient, spark: SparkSession, ref: TableRef) -> None:
        """Begin without frames.

        Args:
            client: The metastore.
            spark: The session of the frames.
            ref: The table.
        """
        self.reads = FrameReads(client)
        self._client = client
        self._spark = spark
        self._ref = ref

    def rows(
        self,
        where: Expression | None,
        columns: Sequence[str] | None,
        as_of: AsOf | None,
        params: Parameters,
        trusted: bool,
    ) -> DataFrame:
        """Return the visible rows; see ``AcidTable.to_df``."""
        condition = Expressions(self._spark, params, trusted).sql(where)
        query = RowQuery(condition, columns, as_of)
        table = self._table()
        query.check(table)
        return self._frame(table, lambda reader, session: reader.rows(session, table, query))

    def changes(self, source: ChangesSource) -> DataFrame:
        """Return the changes between two versions; see ``AcidTable.changes``."""
        source.validate()
        table = self._table()
        return self._frame(table, lambda reader, session: reader.changes(session, table, source))

    def staged(self, name: str) -> DataFrame:
        """Return the rows of a staged change; see ``AcidTable.staged``."""
        table = self._table()
        return self._frame(table, lambda reader, session: reader.staged(session, table, name))

    def _table(self) -> HiveTable:
        table = existing_table(self._client, self._ref)
        check_kind(table, Operation.SELECT)
        check_readable(self._spark, table)
        return table

    def _frame(self, table: HiveTable, work: _Work[DataFrame]) -> DataFrame:
        """Return a frame of the session, with a transaction that is open as long as needed."""
        rows, lease = self.reads.frame(self._spark, [table], work)
        return in_session(rows, session_holding(self._spark, lease))
