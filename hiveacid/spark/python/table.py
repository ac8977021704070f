"""AcidTable: the Python interface of a transactional table, for notebooks and applications."""

import time
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from hiveacid.erasure.requests import erase_keys
from hiveacid.errors import HiveAcidError, TransactionAborted
from hiveacid.iceberg.run import compare_with_iceberg, export_to_iceberg
from hiveacid.jobs.definition_jobs import AnalyzeJob
from hiveacid.jobs.erase_job import WITHIN_DAYS, EraseReport
from hiveacid.jobs.fields import Parameters
from hiveacid.jobs.iceberg_job import (
    IcebergCompareJob,
    IcebergCompareReport,
    IcebergDeletes,
    IcebergExportJob,
    IcebergExportReport,
    IcebergFileFormat,
)
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.report import AnalyzeReport, CompactReport, PartitionDifference, RunReport
from hiveacid.jobs.run_options import OrcCodec, Place
from hiveacid.jobs.sources import ChangesSource
from hiveacid.metastore.authorizer import program_user
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import check_kind, existing_table
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.metastore.txn.transaction import Lease, OpenRead, Transaction
from hiveacid.progress import PhaseClock, PhaseObserver
from hiveacid.records.history_entries import History
from hiveacid.records.table_history import table_history
from hiveacid.rules.compaction import CompactionTypeName
from hiveacid.rules.locks import Operation
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.rules.texts import html_table
from hiveacid.rules.write_ids import AsOf
from hiveacid.spark.compaction import compact_table
from hiveacid.spark.read.flat_snapshot import text_counter
from hiveacid.spark.read.table_reader import RowQuery, TableReader
from hiveacid.spark.rows.columns import all_columns, check_readable, spark_struct
from hiveacid.spark.session import end_reads_on_stop, in_session, reading_session, session_holding
from hiveacid.spark.spark_versions import to_arrow
from hiveacid.spark.statements.conditions import Expression, Expressions
from hiveacid.spark.statements.engine import SparkEngine
from hiveacid.spark.statements.methods import TableChanges
from hiveacid.spark.statements.restore import RestoreStatement
from hiveacid.tables.locations import require_job_access
from hiveacid.tables.scan.differences import count_differences
from hiveacid.tables.scan.table_scan import TableScan
from hiveacid.tables.statistics import analyze
from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler
from hiveacid.upkeep.table_detail import TableDetail, table_detail
from hiveacid.writes.atomic_write import run_statements
from hiveacid.writes.statement import Statement, WriteOptions, require_statement_access

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
        self, spark: SparkSession, tables: Collection[HiveTable], work: _Work[DataFrame]
    ) -> tuple[DataFrame, Lease]:
        """Make a frame, and return it with the object that it must refer to; see ``read_frames``."""
        latest = self._latest
        # From here on the latest read cannot end because of the frames that are collected.
        lease = None if latest is None else latest[0]()
        known = None if latest is None or lease is None else latest[1]
        frame, read = read_frames(self._client, spark, tables, known, work)
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


class AcidTable(TableChanges[RunReport]):
    """A transactional table of a Hive Metastore.

    Example::

        with AcidTable("sales.orders", "thrift://metastore:9083") as orders:
            orders.update({"status": "'late'"}, "t.due < current_date()")
            orders.to_df("t.status = 'late'", ["id", "due"]).show()

    Every change is one transaction, committed when the method returns. A frame from ``to_df`` or
    ``changes`` keeps cleaners away from its files until the end of the ``with`` statement or the
    call of ``close``; without either, until the frame and the frames made from it are
    garbage-collected (a join keeps only the frame on its left side), or until this process
    requests a lock that would wait for it. While the table is unchanged, frames share a
    transaction.

    Args:
        name: The table, ``"database.table"``.
        metastore: The metastore's uri, or all its options.
        spark: The session, which is not changed; by default the active one, or a new one that is
            started by the first method that needs Spark. ``scan``, ``to_arrow``, ``to_pandas``,
            ``history``, ``detail``, ``analyze``, and ``schema`` never do, ``diff`` only for files of
            text.
        options: The options of writes.
        observers: Receive the phases of a write.

    Raises:
        AccessRefused: The authorizer does not let this program read the table; methods that change
            the table check their own permissions.
    """

    def __init__(
        self,
        name: str,
        metastore: str | MetastoreOptions,
        *,
        spark: SparkSession | None = None,
        options: WriteOptions | None = None,
        observers: Sequence[PhaseObserver] = (),
    ) -> None:
        options = options or WriteOptions()
        super().__init__(name, spark, options.orc_codec)
        self._client = MetastoreClient(MetastoreOptions.of(metastore)).patient()
        self._require_access(self.ref)
        self._options = options
        self._observers = observers
        self._reads = FrameReads(self._client)

    def __enter__(self) -> Self:
        self._reads.keeps_all = True
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._reads.close(verified=kind is None)

    def __repr__(self) -> str:
        # Debuggers and logs call it at any moment, so that it must not call a server.
        return f"AcidTable({self.ref.full_name!r}, {self._client.options.uris!r})"

    def _repr_html_(self) -> str:
        # A notebook calls it to display the table.
        try:
            table = existing_table(self._client, self.ref)
        except HiveAcidError as error:
            return html_table(repr(self), ("",), [(str(error),)])
        head, kind = ("column", "type", "comment"), table.kind.value.replace("_", " ")
        rows = [(one.name, one.type, one.comment or "") for one in all_columns(table)]
        return html_table(f"{self.ref.full_name}, {kind}", head, rows)

    @property
    def schema(self) -> StructType:
        """The columns of its frames, partition keys last, as currently defined in the metastore.

        Example::

            >>> orders.schema.simpleString()
            'struct<id:int,status:string>'
        """
        return spark_struct(all_columns(existing_table(self._client, self.ref)))

    def close(self) -> None:
        """End the transactions of the frames that were read, and close the connection.

        Raises:
            TransactionAborted: The metastore has aborted a transaction, so that a frame may have
                returned other rows.
            TableReplaced: A table was replaced before the end of a transaction.
        """
        self._reads.close(verified=True)

    def to_df(
        self,
        where: Expression | None = None,
        columns: Sequence[str] | None = None,
        *,
        as_of_write_id: int | None = None,
        as_of_time: datetime | str | None = None,
        params: Parameters | None = None,
        trusted: bool = False,
    ) -> DataFrame:
        """Return the visible rows of the current or an earlier version as a frame of the session.

        Rows that ``where`` excludes are not read if partition names, bucket numbers, or file
        statistics show that they cannot match. A filter by the frame's own method ``where`` skips
        the partitions that it excludes; other rows are read and then filtered.

        Example::

            >>> orders.to_df("t.id = 7", ["status"]).columns
            ['status']

        Args:
            where: The condition, in Spark's SQL or as a PySpark column; the alias of the table is
                ``t``; all rows by default.
            columns: The names of the columns, in their order; all by default.
            as_of_write_id: Read the version of the table after this write id, without later
                changes.
            as_of_time: Read the version of the table at this time; a text is in ISO format, and a
                time without a zone is in UTC.
            params: The values of parameters in the condition: ``{"id": 7}`` for ``:id``.
            trusted: Whether the condition may call Java and read files by their paths.

        Raises:
            VersionGone: The version was compacted and cleaned; the message lists the available
                versions.
            VersionUnknown: The version does not exist.
        """
        chosen = Expressions(self._spark, params or {}, trusted).sql(where)
        query = RowQuery(chosen, columns, AsOf.of(as_of_write_id, as_of_time))
        table = existing_table(self._client, self.ref)
        check_kind(table, Operation.SELECT)
        check_readable(self._spark, table)
        query.check(table)
        return self._frame(table, lambda reader, session: reader.rows(session, table, query))

    def changes(
        self,
        after: int | datetime | str,
        up_to: int | datetime | str | None = None,
        *,
        net: bool = False,
        keys: Sequence[str] = (),
    ) -> DataFrame:
        """The rows that were inserted, updated and deleted between two versions.

        In addition to the table's columns, the frame has ``_change_type`` ("insert", "delete",
        "update_before" or "update_after"), the ``_write_id`` of the transaction, and ``_row_id`` in
        the form of Hive's ROW__ID. In an insert-only table ``_row_id`` is null, and an overwrite
        deletes all earlier rows. Compactions neither add changes nor modify any.

        Args:
            after: The version before the changes: a write id, a time, or "oldest" for the oldest
                version from which on all can still be read.
            up_to: The version with the last changes; by default the newest.
            net: Return only the difference of both versions, without intermediate rows.
            keys: Columns that an update does not change. Without keys, an update is a deleted and
                an inserted row, as Hive stores it.

        Raises:
            VersionGone: The changes are not completely known any more.
            VersionUnknown: The version does not exist.
        """
        source = ChangesSource(
            self.ref.full_name,
            _as_text(after),
            None if up_to is None else _as_text(up_to),
            net,
            tuple(keys),
        )
        source.validate()
        table = existing_table(self._client, self.ref)
        check_kind(table, Operation.SELECT)
        check_readable(self._spark, table)
        return self._frame(table, lambda reader, session: reader.changes(session, table, source))

    def staged(self, name: str) -> DataFrame:
        """Return the rows that a staged change inserts, and the current rows that it deletes.

        In addition to the table's columns, the frame has ``_change_type``, "insert" or "delete": an
        update is both. The frame can be read as long as the change is staged.

        Args:
            name: The staged change, as ``HiveAcidStageOperator`` returns it.

        Raises:
            StagedChangeRefused: It is missing or damaged, or the table has changed since then.
        """
        table = existing_table(self._client, self.ref)
        check_kind(table, Operation.SELECT)
        check_readable(self._spark, table)
        return self._frame(table, lambda reader, session: reader.staged(session, table, name))

    def _frame(
        self, table: HiveTable, work: Callable[[TableReader, SparkSession], DataFrame]
    ) -> DataFrame:
        """Return a frame of the session, with a transaction that is open as long as needed."""
        rows, lease = self._reads.frame(self._spark, [table], work)
        return in_session(rows, session_holding(self._spark, lease))

    def scan(self, **options: Any) -> TableScan:
        """Read the visible rows as Arrow batches in this process, without Spark.

        Args:
            options: The options of ``TableScan``: columns, partitions, a version, the unit of
                timestamps.
        """
        return TableScan(self.ref.full_name, self._client.options, **options)

    def to_arrow(self, **options: Any) -> pa.Table:
        """Return the visible rows as an Arrow table; see ``scan``.

        Example::

            >>> orders.to_arrow(columns=["id", "status"]).to_pylist()
            [{'id': 7, 'status': 'new'}]
        """
        return self.scan(**options).to_arrow()

    def to_pandas(self, **options: Any) -> Any:
        """Return the visible rows as a pandas frame; see ``scan``."""
        return self.scan(**options).to_pandas()

    def history(self, limit: int = 100, *, directories: bool = False) -> History:
        """Return the writes and the compactions of the table, the newest first.

        Example::

            >>> [(entry.operation, entry.write_id) for entry in orders.history()]
            [('insert', 1)]

        Args:
            limit: The maximum number of entries.
            directories: Whether to also read their directories, for the number of rows of each.
        """
        entries = table_history(self._client, self.ref, limit=limit, directories=directories)
        return History(self.ref.full_name, entries)

    def detail(self) -> TableDetail:
        """Return the current state of the table: columns, files, and readable versions.

        Example::

            >>> detail = orders.detail()
            >>> detail.kind, detail.deltas, detail.newest_version
            ('full_acid', 1, 1)
        """
        return table_detail(self._client, self.ref)

    def diff(
        self, before: int | datetime | str, after: int | datetime | str | None = None
    ) -> tuple[PartitionDifference, ...]:
        """Count the rows that differ between two versions, for each partition with differences.

        Args:
            before: The first version: a write id, or a time.
            after: The second version, which may be earlier than the first; by default the newest.

        Raises:
            VersionGone: The changes are not completely known any more.
            VersionUnknown: The version does not exist.
        """
        first = AsOf.parse(_as_text(before))
        second = None if after is None else AsOf.parse(_as_text(after))
        table = existing_table(self._client, self.ref)
        check_kind(table, Operation.SELECT)
        with Transaction(self._client, reads=[self.ref]) as txn:
            count_text = text_counter(self._client, table, lambda: self._spark)
            return count_differences(self._client, txn, table, (first, second), count_text)

    def restore(self, as_of: int | datetime | str, *, dry_run: bool = False) -> RunReport:
        """Write a new version that is equal to an earlier one; all versions in between are kept.

        Only the rows that differ are deleted and inserted. Restored rows get new row ids. In an
        insert-only table, the partitions that differ are overwritten.

        Args:
            as_of: The version: a write id, or a time.
            dry_run: Only count the rows that differ, and list the partitions that would be written.

        Raises:
            VersionGone: The changes are not completely known any more.
            VersionUnknown: The version does not exist.
        """
        if not dry_run:
            return self._run(
                RestoreStatement(self.ref, self._orc_codec, AsOf.parse(_as_text(as_of)))
            )
        counts = self.diff(as_of)
        warnings = ["This was a dry run: nothing was written."]
        if existing_table(self._client, self.ref).kind is TableKind.INSERT_ONLY:
            warnings.append("The table is insert-only: its partitions are overwritten as a whole.")
        return RunReport(
            job="restore",
            target=self.ref.full_name,
            rows_inserted=sum(partition.deleted for partition in counts),
            rows_deleted=sum(partition.inserted for partition in counts),
            partitions=tuple(one.partition for one in counts if one.partition is not None),
            warnings=tuple(warnings),
        )

    def analyze(
        self,
        columns: Sequence[str] | None = None,
        *,
        partitions: Sequence[str] | None = None,
        rows_only: bool = False,
    ) -> AnalyzeReport:
        """Store statistics of the rows and columns, which Hive and Trino plan their queries with.

        Files are decoded only if their footers are insufficient.

        Args:
            columns: The names of the columns; all by default.
            partitions: The partitions, by some or all of their keys; all by default.
            rows_only: Store only the numbers of rows and files.
        """
        job = AnalyzeJob(
            target=self.ref.full_name,
            columns=columns,
            partitions=partitions,
            rows_only=rows_only,
            **self._options.options,
        )
        self._require_access(job)
        return analyze(self._client, job, phases=PhaseClock(self._observers))

    def to_iceberg(
        self,
        table: str,
        *,
        catalog: str = "default",
        catalog_options: Mapping[str, str] | None = None,
        format: IcebergFileFormat | None = None,
        deletes: IcebergDeletes = "apply",
        location: str | None = None,
        properties: Mapping[str, str] | None = None,
        dry_run: bool = False,
    ) -> IcebergExportReport:
        """Mirror the table in an Iceberg table by copying its stripes; Spark does not take part.

        The first call creates the Iceberg table, and each further call adds the changes since then as
        one snapshot. Stripes with deleted rows, and those with other types than the table, are decoded.

        Args:
            table: The Iceberg table, ``"namespace.table"``.
            catalog: The name of its catalog in the configuration of pyiceberg.
            catalog_options: Its options, as pyiceberg names them; by default the metastore of this table.
            format: The format of data files; by default that of the existing table, and ORC for a new one.
            deletes: ``"positions"`` writes positions of deleted rows to delete files; see IcebergExportJob.
            location: The folder of the new table; by default the catalog chooses one.
            properties: More properties of the new table.
            dry_run: Only plan the export.
        """
        job = IcebergExportJob(
            target=self.ref.full_name,
            metastore=self._client.options,
            table=table,
            catalog=catalog,
            catalog_options=catalog_options or {},
            format=format,
            deletes=deletes,
            location=location,
            properties=properties or {},
            dry_run=dry_run,
            **self._options.options,
        )
        self._require_access(job)
        with WorkerScheduler() as scheduler:
            return export_to_iceberg(
                self._client, job, scheduler, phases=PhaseClock(self._observers)
            )

    def compare_iceberg(self, table: str, **options: Any) -> IcebergCompareReport:
        """Compare the rows with those of an Iceberg table, partition by partition, without Spark.

        Args:
            table: The Iceberg table, ``"namespace.table"``.
            options: Other fields of ``IcebergCompareJob``: ``catalog``, ``catalog_options``, and
                ``as_of_write_id``, by default the version of the mirror.
        """
        job = IcebergCompareJob(
            target=self.ref.full_name,
            metastore=self._client.options,
            table=table,
            **{**self._options.options, **options},
        )
        self._require_access(job)
        return compare_with_iceberg(self._client, job, phases=PhaseClock(self._observers))

    def compact(
        self,
        type: CompactionTypeName | None = None,
        *,
        partitions: Sequence[str] | None = None,
        order_by: Sequence[str] = (),
        run_in: Place = "auto",
    ) -> CompactReport:
        """Compact deltas, so that the table remains fast to read.

        Every partition is compacted in its own transaction, also after another one has failed; the
        report lists all outcomes.

        Args:
            type: ``"minor"`` joins the deltas, ``"major"`` makes a new base from all rows; by
                default, Hive's thresholds determine the type for each partition. ``"rebalance"``
                makes a base of sorted rows, which get new row ids.
            partitions: The names of the partitions; all by default.
            order_by: The columns that a rebalance sorts by, like ``"day"`` or ``"ts DESC"``.
            run_in: ``"worker"`` does the work in this process, and in others on its machine,
                ``"spark"`` by tasks of Spark; by default, the amount of work determines it.

        Raises:
            HiveAcidError: The error of the first partition that failed, of those that a retry can
                help if there are any; the message names all failed partitions.
        """
        job = CompactJob(
            target=self.ref.full_name,
            type=type,
            partitions=partitions,
            order_by=order_by,
            run_in=run_in,
            **self._options.options,
        )
        job.validate()
        self._require_access(job)
        self._reads.renew()
        report = compact_table(lambda: self._spark, self._client, job, self._observers)
        if report.error is not None:
            raise report.error.exception()
        return report

    def erase(
        self,
        keys: Any,
        column: str,
        *,
        request: str,
        folder: str = "",
        mirrors: Sequence[str] = (),
        within_days: int = WITHIN_DAYS,
        retention: str | None = None,
        dry_run: bool = False,
    ) -> EraseReport:
        """Erase the rows with some keys from the table, its versions, and its files, without Spark.

        The rows are deleted, and their files are rewritten and removed as soon as no reader,
        consumer, or retention needs them. Frames that were read before delay this until they end.
        Call it again with the same request and keys until the report has a certificate. An erasure
        in several tables is an ``EraseJob``.

        Example::

            report = orders.erase([7, 8], "customer", request="2026-03-01", retention="0")
            print(report.certificate or report.waits)

        Args:
            keys: A list of values, a frame with one column of Spark, Arrow, pandas, or Polars, or a
                source such as ``TableSource("privacy.requests")``. They are integers, decimals, texts,
                or dates.
            column: The column with the keys.
            request: The name of the request, which identifies it in the folder.
            folder: The folder of requests and certificates, outside of all tables; the option erasures
                of ``[hive_acid]`` by default.
            mirrors: The folders of mirrors of the table in Iceberg, which are searched as well.
            within_days: The days after the request in which the erasure must be complete.
            retention: The time in which files are kept for earlier versions, like ``"7 days"``; ``"0"``
                removes them as soon as no open reader needs them. None uses that of the table.
            dry_run: Only report the rows, the files, and everything that would delay the erasure.

        Raises:
            InvalidJob: The request exists with other keys or another table.
            UnsupportedTable: Rows of the table cannot be deleted, or its keys cannot be compared.
        """
        if isinstance(keys, DataFrame):
            keys = to_arrow(keys)
        self._reads.renew()
        return erase_keys(
            self._client,
            self.ref,
            column,
            keys,
            self._observers,
            request=request,
            folder=folder,
            mirrors=mirrors,
            within_days=within_days,
            retention=retention,
            dry_run=dry_run,
            **self._options.options,
        )

    def _require_access(self, job: object) -> None:
        require_job_access(self._client, program_user(), job)

    def _run(self, statement: Statement) -> RunReport:
        require_statement_access(self._client, [statement], self._options.checks)
        engine = SparkEngine(self._spark)
        return run_statements(engine, self._client, self._options, self._observers, [statement])


def _as_text(version: int | datetime | str) -> str:
    return version.isoformat() if isinstance(version, datetime) else str(version)


# AcidTransaction: the Python interface for changes of several tables that commit together


class TableInTransaction(TableChanges[None]):
    """A table of an AcidTransaction: its methods return nothing, and run later."""

    def __init__(
        self,
        name: str,
        spark: SparkSession,
        orc_codec: str | None,
        statements: list[Statement],
    ) -> None:
        super().__init__(name, spark, orc_codec)
        self._statements = statements

    def _run(self, statement: Statement) -> None:
        self._statements.append(statement)


class AcidTransaction:
    """Changes of several tables, or several of one, that become visible together.

    The changes are collected in a ``with`` statement and run in one transaction at its end; if its
    body raises, no change is run. All sources and targets are read as of the beginning of the
    transaction: no change sees the rows of another change. Only one change of a table may update,
    delete or merge.

    Example::

        with AcidTransaction("thrift://hms:9083", spark=spark) as txn:
            customers = txn.table("dw.customers").merge(new_customers, "t.id = s.id")
            customers.when_matched_update_all().when_not_matched_insert_all().execute()
            txn.table("dw.sales").append(sales)
        print(txn.report)

    Args:
        metastore: The metastore's uri, or all its options.
        spark: The session, which is not changed; by default the active one.
        options: The options of the write.
        observers: Receive the phases.

    Attributes:
        report: The report on the changes, once they are committed.
    """

    def __init__(
        self,
        metastore: str | MetastoreOptions,
        *,
        spark: SparkSession | None = None,
        options: WriteOptions | None = None,
        observers: Sequence[PhaseObserver] = (),
    ) -> None:
        self.report: RunReport | None = None
        self._spark = spark or SparkSession.Builder().getOrCreate()
        self._client = MetastoreClient(MetastoreOptions.of(metastore)).patient()
        self._options = options or WriteOptions()
        self._observers = observers
        self._statements: list[Statement] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._client:
            if kind is None and self._statements:
                require_statement_access(self._client, self._statements, self._options.checks)
                engine = SparkEngine(self._spark)
                self.report = run_statements(
                    engine, self._client, self._options, self._observers, self._statements
                )

    def table(self, name: str, *, orc_codec: OrcCodec | None = None) -> TableInTransaction:
        """Return a table to change.

        Args:
            name: ``"database.table"``.
            orc_codec: The compression of its new files, if it differs from the options'.
        """
        codec = orc_codec or self._options.orc_codec
        return TableInTransaction(name, self._spark, codec, self._statements)
