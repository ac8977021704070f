"""AcidTable: the interface of a transactional table for programs, with and without Spark."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from hiveacid.api.changes import TableChanges, Version, version_text
from hiveacid.api.engines import Engines
from hiveacid.api.rows import is_of_spark, without_zones
from hiveacid.erasure.requests import erase_keys
from hiveacid.errors import HiveAcidError, UnsupportedTable
from hiveacid.iceberg.run import compare_with_iceberg, export_to_iceberg
from hiveacid.jobs.definition_jobs import AnalyzeJob
from hiveacid.jobs.erase_job import EraseReport
from hiveacid.jobs.fields import Parameters
from hiveacid.jobs.iceberg_job import (
    IcebergCompareJob,
    IcebergCompareReport,
    IcebergExportJob,
    IcebergExportReport,
)
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.report import AnalyzeReport, CompactReport, PartitionDifference, RunReport
from hiveacid.jobs.run_options import Place
from hiveacid.jobs.sources import ChangesSource
from hiveacid.jobs.write_jobs import RestoreJob
from hiveacid.metastore.authorizer import program_user
from hiveacid.metastore.table_rules import check_kind, existing_table
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.progress import PhaseClock, PhaseObserver
from hiveacid.public_names import requiring_pyspark
from hiveacid.records.history_entries import History
from hiveacid.records.table_history import table_history
from hiveacid.rules.compaction import CompactionTypeName
from hiveacid.rules.directory import FileStatus
from hiveacid.rules.locks import Operation
from hiveacid.rules.schema import TableKind
from hiveacid.rules.texts import html_table
from hiveacid.rules.write_ids import AsOf
from hiveacid.tables.definitions.answers import Answer
from hiveacid.tables.locations import require_job_access
from hiveacid.tables.scan.differences import count_differences
from hiveacid.tables.scan.row_filter import Expression as ArrowExpression
from hiveacid.tables.scan.table_scan import TableScan
from hiveacid.tables.scan.visible_table import PartitionDirectory
from hiveacid.tables.statistics import analyze
from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler
from hiveacid.upkeep.table_detail import TableDetail, table_detail
from hiveacid.writes.staged_rows import read_staged_rows
from hiveacid.writes.statement import WriteOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hiveacid.api.changes import Expression
    from hiveacid.spark.python.frames import TableFrames


class AcidTable(TableChanges[RunReport]):
    """A transactional table of a Hive Metastore.

    Example::

        with AcidTable("sales.orders", "thrift://metastore:9083") as orders:
            orders.upsert(pandas.DataFrame({"id": [7], "status": ["new"]}), on=["id"])
            orders.update({"status": "'late'"}, "t.due < :day", {"day": date(2026, 3, 1)})
            print(orders.to_pandas(["id", "due"]))

    Every change is one transaction, committed when the method returns. Small changes run in this
    process, without Spark and Java; others run on Spark, with the same results. Rows are frames of
    Spark, pandas, or Polars, Arrow, lists of dictionaries, or sources such as ``TableSource``.

    Only ``to_df`` and ``changes`` return frames of Spark. They keep cleaners away from their files
    until the end of the ``with`` statement or the call of ``close``; without either, until the frame
    and the frames made from it are garbage-collected (a join keeps only the frame on its left side),
    or until this process requests a lock that would wait for it. While the table is unchanged, frames
    share a transaction.

    Args:
        name: The table, ``"database.table"``.
        metastore: The metastore's uri, or all its options.
        run_in: Where changes and compactions run. ``"worker"`` is this process, and larger changes are
            an error; ``"spark"`` is Spark; by default, the size and the expressions determine it.
        spark: The session, which is not changed; by default the active one, or a new one that is
            started by the first change or frame that needs Spark.
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
        run_in: Place | str = "auto",
        *,
        spark: "SparkSession | None" = None,
        options: WriteOptions | None = None,
        observers: Sequence[PhaseObserver] = (),
    ) -> None:
        engines = Engines(metastore, spark, run_in, options, observers)
        super().__init__(name, engines, engines.change)
        self._client = engines.client
        require_job_access(self._client, program_user(), self.ref)
        self._read: TableFrames | None = None
        self._keeps_reads = False

    def __enter__(self) -> Self:
        self._keeps_reads = True
        if self._read is not None:
            self._read.reads.keeps_all = True
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._close(verified=kind is None)

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
        columns = (*table.columns, *table.partition_keys)
        rows = [(column.name, column.type, column.comment or "") for column in columns]
        return html_table(f"{self.ref.full_name}, {kind}", head, rows)

    @property
    def schema(self) -> pa.Schema:
        """The columns, partition keys last, as currently defined in the metastore.

        Example::

            >>> orders.schema.names
            ['id', 'status']
        """
        return self.scan().schema

    def close(self) -> None:
        """End the transactions of the frames that were read, and close the connection.

        Raises:
            TransactionAborted: The metastore has aborted a transaction, so that a frame may have
                returned other rows.
            TableReplaced: A table was replaced before the end of a transaction.
        """
        self._close(verified=True)

    @property
    def plan(self) -> TableChanges[Answer]:
        """The same changes, of which each returns what it would lock and do, like EXPLAIN.

        Example::

            >>> orders.plan.delete("t.id = 7").details["statement"]["runs"]
            'in the worker'
        """
        return TableChanges(self.ref.full_name, self._engines, self._engines.plan)

    def to_df(
        self,
        where: "Expression | None" = None,
        columns: Sequence[str] | None = None,
        *,
        as_of_write_id: int | None = None,
        as_of_time: datetime | str | None = None,
        params: Parameters | None = None,
        trusted: bool = False,
    ) -> "DataFrame":
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
        as_of = AsOf.of(as_of_write_id, as_of_time)
        return self._frames.rows(where, columns, as_of, params or {}, trusted)

    def changes(
        self,
        after: Version,
        up_to: Version | None = None,
        *,
        net: bool = False,
        keys: Sequence[str] = (),
    ) -> "DataFrame":
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
        last = None if up_to is None else version_text(up_to)
        source = ChangesSource(self.ref.full_name, version_text(after), last, net, tuple(keys))
        return self._frames.changes(source)

    def staged(self, name: str, limit: int | None = None) -> pa.Table:
        """Return the rows that a staged change inserts, and the current rows that it deletes.

        In addition to the table's columns, they have ``_change_type``, "insert" or "delete": an
        update is both.

        Args:
            name: The staged change, as ``HiveAcidStageOperator`` returns it.
            limit: The number of rows after which the rest is left out; by default none.

        Raises:
            StagedChangeRefused: It is missing or damaged, or the table has changed since then.
        """
        if self._engines.run_in != "spark":
            try:
                return read_staged_rows(self._client, self.ref, name, limit)
            except UnsupportedTable:
                if self._engines.run_in == "worker":
                    raise
        rows = self._frames.staged(name)
        from hiveacid.spark.spark_versions import to_arrow

        return without_zones(to_arrow(rows if limit is None else rows.limit(limit)))

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: ArrowExpression | None = None,
        **options: Any,
    ) -> TableScan:
        """Return the visible rows as a data set of Arrow, which DuckDB and Polars query directly.

        They are read without Spark. DuckDB and Polars read only the columns that a query needs, and
        skip partitions and stripes without rows that its conditions can select::

            rows = orders.scan()
            duckdb.sql("SELECT sum(price) FROM rows WHERE country = 'de'")
            polars.scan_pyarrow_dataset(rows).filter(polars.col("id") == 7).collect()

        Args:
            columns: The names of the columns, in their order; all by default.
            filter: Read only the rows that match an expression of Arrow, such as
                ``pyarrow.compute.field("id") == 7``.
            options: ``partitions``: the names of the partitions, ``"day=2026-05-01"``;
                ``as_of_write_id`` or ``as_of_time``: the version; ``timestamps``: ``"ns"`` for
                nanoseconds, which exclude years before 1677 or after 2262.

        Raises:
            UnsupportedTable: Its files hold lines of text, or a type that does not exist in Arrow.
        """
        metastore = self._client.options
        return TableScan(self.ref.full_name, metastore, columns=columns, filter=filter, **options)

    def to_arrow(self, columns: Sequence[str] | None = None, **options: Any) -> pa.Table:
        """Return the visible rows as an Arrow table; see ``scan``.

        Example::

            >>> orders.to_arrow(["id", "status"]).to_pylist()
            [{'id': 7, 'status': 'new'}]
        """
        return self.scan(columns, **options).to_arrow()

    def to_pandas(self, columns: Sequence[str] | None = None, **options: Any) -> Any:
        """Return the visible rows as a pandas frame with Arrow columns; see ``scan``."""
        return self.scan(columns, **options).to_pandas()

    def to_polars(self, columns: Sequence[str] | None = None, **options: Any) -> Any:
        """Return the visible rows as a Polars frame; see ``scan``."""
        return self.scan(columns, **options).to_polars()

    def to_duckdb(self, name: str, connection: Any = None) -> Any:
        """Return a connection of DuckDB in which a view reads the table; see ``scan``.

        Args:
            name: The name of the view.
            connection: The connection; by default a new one in memory.
        """
        return self.scan().to_duckdb(name, connection)

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
        self, before: Version, after: Version | None = None
    ) -> tuple[PartitionDifference, ...]:
        """Count the rows that differ between two versions, for each partition with differences.

        Args:
            before: The first version: a write id, or a time.
            after: The second version, which may be earlier than the first; by default the newest.

        Raises:
            VersionGone: The changes are not completely known any more.
            VersionUnknown: The version does not exist.
        """
        first = AsOf.parse(version_text(before))
        second = None if after is None else AsOf.parse(version_text(after))
        table = existing_table(self._client, self.ref)
        check_kind(table, Operation.SELECT)

        def count_text(directory: PartitionDirectory, files: Sequence[FileStatus]) -> int:
            with requiring_pyspark(f"Reading the text of {self.ref.full_name}"):
                from hiveacid.spark.read.flat_snapshot import text_counter
            return text_counter(self._client, table, lambda: self._spark)(directory, files)

        with Transaction(self._client, reads=[self.ref]) as txn:
            return count_differences(self._client, txn, table, (first, second), count_text)

    def restore(self, as_of: Version, *, dry_run: bool = False) -> RunReport:
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
            job = RestoreJob(target=self.ref.full_name, as_of=version_text(as_of))
            return self._engines.change(job, {})
        counts = self.diff(as_of)
        warnings = ["This was a dry run: nothing was written."]
        if existing_table(self._client, self.ref).kind is TableKind.INSERT_ONLY:
            warnings.append("The table is insert-only: its partitions are overwritten as a whole.")
        return RunReport(
            job="restore",
            target=self.ref.full_name,
            rows_inserted=sum(partition.deleted for partition in counts),
            rows_deleted=sum(partition.inserted for partition in counts),
            partitions=tuple(count.partition for count in counts if count.partition is not None),
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
            target=self.ref.full_name, columns=columns, partitions=partitions, rows_only=rows_only
        )
        phases = PhaseClock(self._engines.observers)
        return analyze(self._client, self._engines.bound(job), phases=phases)

    def to_iceberg(self, table: str, **options: Any) -> IcebergExportReport:
        """Mirror the table in an Iceberg table by copying its stripes; Spark does not take part.

        The first call creates the Iceberg table, and each further call adds the changes since then as
        one snapshot. Stripes with deleted rows, and those with other types than the table, are decoded.

        Args:
            table: The Iceberg table, ``"namespace.table"``.
            options: Other fields of ``IcebergExportJob``, such as ``catalog`` and ``dry_run``.
        """
        job = self._engines.bound(
            IcebergExportJob(target=self.ref.full_name, table=table, **options)
        )
        phases = PhaseClock(self._engines.observers)
        with WorkerScheduler() as scheduler:
            return export_to_iceberg(self._client, job, scheduler, phases=phases)

    def compare_iceberg(self, table: str, **options: Any) -> IcebergCompareReport:
        """Compare the rows with those of an Iceberg table, partition by partition, without Spark.

        Args:
            table: The Iceberg table, ``"namespace.table"``.
            options: Other fields of ``IcebergCompareJob``: ``catalog``, ``catalog_options``, and
                ``as_of_write_id``, by default the version of the mirror.
        """
        job = self._engines.bound(
            IcebergCompareJob(target=self.ref.full_name, table=table, **options)
        )
        phases = PhaseClock(self._engines.observers)
        return compare_with_iceberg(self._client, job, phases=phases)

    def compact(
        self,
        type: CompactionTypeName | None = None,
        *,
        partitions: Sequence[str] | None = None,
        order_by: Sequence[str] = (),
        run_in: Place | None = None,
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
                ``"spark"`` by tasks of Spark, ``"auto"`` by the amount of work; by default that
                of the table.

        Raises:
            HiveAcidError: The error of the first partition that failed, of those that a retry can
                help if there are any; the message names all failed partitions.
        """
        job = CompactJob(
            target=self.ref.full_name,
            type=type,
            partitions=partitions,
            order_by=order_by,
        )
        self._renew()
        return self._engines.compact(job, run_in)

    def erase(self, keys: Any, column: str, *, request: str, **options: Any) -> EraseReport:
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
            options: ``folder``, ``mirrors``, ``within_days``, ``retention``, and ``dry_run``; see
                ``EraseJob``.

        Raises:
            InvalidJob: The request exists with other keys or another table.
            UnsupportedTable: Rows of the table cannot be deleted, or its keys cannot be compared.
        """
        if is_of_spark(keys):
            from hiveacid.spark.spark_versions import to_arrow

            keys = to_arrow(keys)
        self._renew()
        return erase_keys(
            self._client,
            self.ref,
            column,
            keys,
            self._engines.observers,
            request=request,
            **self._engines.options.options,
            **options,
        )

    @property
    def _spark(self) -> "SparkSession":
        return self._engines.spark

    @property
    def _frames(self) -> "TableFrames":
        """The frames of the table, whose transactions are shared."""
        if self._read is None:
            with requiring_pyspark("A frame"):
                from hiveacid.spark.python.frames import TableFrames
            self._read = TableFrames(self._client, self._spark, self.ref)
            self._read.reads.keeps_all = self._keeps_reads
        return self._read

    def _renew(self) -> None:
        """Let the next frame read in a new transaction, without the files that are replaced now."""
        if self._read is not None:
            self._read.reads.renew()

    def _close(self, *, verified: bool) -> None:
        if self._read is None:
            self._client.close()
        else:
            self._read.reads.close(verified=verified)
