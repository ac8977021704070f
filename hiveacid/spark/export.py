"""Export of a table's changes to files: one folder for each range of versions, written once."""

import hashlib
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from hiveacid.errors import InvalidJob, NewerRecord, StorageError
from hiveacid.jobs.export_job import ExportChangesJob, ranges_of
from hiveacid.jobs.report import ChangesRange, RunReport
from hiveacid.jobs.sources import CHANGE, DELETE, INSERT
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import check_kind, located
from hiveacid.metastore.txn.transaction import ExclusiveTable, Transaction
from hiveacid.progress import Phase, PhaseClock, PhaseObserver
from hiveacid.records.exported_ranges import ExportedRange, range_file, range_folder
from hiveacid.records.store import RecordStore
from hiveacid.rules.locks import Operation
from hiveacid.rules.names import TableRef, plain_location
from hiveacid.rules.sql_names import quoted
from hiveacid.spark.failures import translated_spark_errors
from hiveacid.spark.read.changes import ROW_ID, UPDATE_AFTER, UPDATE_BEFORE, VERSION
from hiveacid.spark.read.table_reader import TableReader
from hiveacid.spark.rows.columns import check_readable
from hiveacid.spark.session import scan_session
from hiveacid.storage.folder import Storage
from hiveacid.tables.locations import require_free

# Precedes the name of a staged folder while it is deleted.
_REMOVED = "_removed"
# Spark writes milliseconds by default.
_TIMES = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
_OPTIONS = {"json": {"ignoreNullFields": "false", **_TIMES}, "csv": {"header": "true", **_TIMES}}


def export_changes(
    spark: SparkSession,
    client: MetastoreClient,
    job: ExportChangesJob,
    observers: Sequence[PhaseObserver],
) -> RunReport:
    """Write the changes of a range, unless a folder with the same start exists.

    Args:
        spark: The user's session.
        client: The metastore.
        job: The job; both ends of its range are write ids.
        observers: Receive the phases.

    Raises:
        InvalidJob: The job does not define the range.
        SharedLocation: A table is registered in the folder, around it, or inside it.
    """
    return _Export(spark, client, job, PhaseClock(observers)).write()


class _Export:
    """One export. A lock on the folder's location excludes other exports, of any table."""

    def __init__(
        self,
        spark: SparkSession,
        client: MetastoreClient,
        job: ExportChangesJob,
        phases: PhaseClock,
    ) -> None:
        ranges = ranges_of(job)
        if len(ranges) != 1:
            raise InvalidJob(
                "An export needs the range of the changes by write ids.",
                remedy="Run it by HiveAcidChangesOperator, or set after and up_to.",
            )
        self._spark = spark
        self._client = client
        self._job = job
        self._phases = phases
        self._range: ChangesRange = ranges[0]
        self._storage = Storage.of(client.allowed_locations.require(job.path))
        self._ranges = RecordStore(ExportedRange, self._storage)
        self._name = range_folder(self._range.after)
        # It makes the folder complete.
        self._file = range_file(self._range.after)
        self._path = f"{self._job.path.rstrip('/')}/{self._name}"
        self._staged = f"_{self._name}_{uuid.uuid4().hex[:8]}"

    def write(self) -> RunReport:
        """Write the folder, or return the report of the run that has written it."""
        token = self._job.token or f"{self._path} of {self._job.target}"
        folder = hashlib.sha256(plain_location(self._path).encode()).hexdigest()[:16]
        lock, wait = TableRef("default", f"export#{folder}"), self._job.lock_wait_seconds
        with ExclusiveTable(self._client, lock, token, wait) as exclusive:
            # Before any file there is read or removed.
            require_free(self._client, [self._job.path], f"The export of {self._job.target}")
            table = self._client.get_table(TableRef.parse(self._job.target))
            if (report := self._earlier_report(table)) is not None:
                return report
            self._remove_unfinished(exclusive)
            path = f"{self._job.path.rstrip('/')}/{self._staged}"
            exclusive.own(partial(self._storage.delete_directory, self._staged), path)
            rows = self._write(table, path)
            with self._phases(Phase.PUBLISH, "the folder"):
                return self._publish(table, rows, exclusive)

    def _write(self, table: HiveTable, path: str) -> int:
        check_kind(table, Operation.SELECT)
        check_readable(self._spark, table)
        observation = Observation()
        with Transaction(self._client, reads=[table.ref], phases=self._phases) as txn:
            session, reader = scan_session(self._spark), TableReader(self._client, txn)
            changes = reader.changes(session, table, self._job.source)
            rows = self._enveloped(changes).observe(observation, F.count(F.lit(1)).alias("rows"))
            writer = rows.write.format(self._job.format)
            with (
                self._phases(Phase.WRITE, "the changes"),
                translated_spark_errors(f"The export to {path}"),
            ):
                writer.options(**_OPTIONS.get(self._job.format, {})).save(path)
        return int(observation.get["rows"])

    def _enveloped(self, changes: DataFrame) -> DataFrame:
        if self._job.envelope == "debezium":
            return _debezium(changes, self._job)
        if self._job.format == "csv":
            return changes.withColumn(ROW_ID, F.to_json(ROW_ID))
        return changes

    def _publish(self, table: HiveTable, rows: int, exclusive: ExclusiveTable) -> RunReport:
        files = self._storage.list_files(self._staged)
        data = [file for file in files if not file.path.startswith(("_", "."))]
        report = RunReport(
            job="export",
            target=self._job.target,
            rows_inserted=rows,
            files=len(data),
            bytes=sum(file.size for file in data),
            changes=(self._range,),
            seconds=self._phases.seconds,
        )
        exported = ExportedRange(table=located(table), consumer=self._job.consumer, report=report)
        if self._storage.renames_at_once:
            self._ranges.write(self._file.replace(self._name, self._staged), exported)
            exclusive.confirm_alive()
            # It fails if another attempt, after this one has lost its lock, has removed the files.
            self._storage.rename(self._staged, self._name)
        else:
            exclusive.confirm_alive()
            self._storage.rename(self._staged, self._name)
            self._ranges.write(self._file, exported)
        return report

    def _earlier_report(self, table: HiveTable) -> RunReport | None:
        """The report of the run that has written the folder; None without a complete folder."""
        try:
            exported = self._ranges.read(self._file)
        except NewerRecord as error:
            # Another program may use the name of the file as well.
            error.remedy += " If another program has written it, move that folder away."
            raise
        if exported is not None:
            place = self._ranges.place(self._file)
            exported.require_of(located(table), self._job.consumer, place)
            return replace(exported.report, already_done=True)
        # Only an object store shows a folder before it is complete.
        if self._storage.renames_at_once and self._storage.exists(self._name):
            raise StorageError(
                f"{self._path} exists, but has no {self._file.rpartition('/')[2]}.",
                remedy=ExportedRange.record_kind.remedy,
            )
        return None

    def _remove_unfinished(self, exclusive: ExclusiveTable) -> None:
        """Remove leftovers of killed attempts, and an incomplete folder on an object store."""
        at_once, staging_prefix = self._storage.renames_at_once, f"_{self._name}_"
        for name in self._storage.list_directories(missing_ok=True):
            hidden_name = name
            if name.startswith(staging_prefix) and at_once:
                # An attempt that sleeps must publish all of its files or fail.
                hidden_name = f"{_REMOVED}{name}"
                self._storage.rename(name, hidden_name)
            elif name == self._name and not at_once:
                # Without the lock, another attempt may have published the folder.
                exclusive.confirm_alive()
            elif not name.startswith((staging_prefix, f"{_REMOVED}{staging_prefix}")):
                continue
            self._storage.delete_directory(hidden_name)


def _debezium(changes: DataFrame, job: ExportChangesJob) -> DataFrame:
    columns = [name for name in changes.columns if name not in (CHANGE, VERSION, ROW_ID)]
    row = F.struct(*[F.col(quoted(name)) for name in columns])

    def side(*kinds: str) -> Column:
        return F.when(F.col(CHANGE).isin(*kinds), row)

    source = F.struct(F.lit(job.target).alias("table"), F.col(VERSION).alias("version"))
    updates = F.col(CHANGE).isin(UPDATE_BEFORE, UPDATE_AFTER)
    counted_rows = changes.where(~updates).select(
        side(DELETE).alias("before"),
        side(INSERT).alias("after"),
        F.when(F.col(CHANGE) == DELETE, "d").otherwise("c").alias("op"),
        source.alias("source"),
    )
    if job.source.keys:
        group_columns = [F.col(quoted(key)) for key in job.source.keys]
        group_columns += [] if job.source.net else [F.col(VERSION)]
        # An update has exactly one row of each kind.
        pairs = changes.where(updates).groupBy(
            *[key.alias(f"_k{n}") for n, key in enumerate(group_columns)]
        )
        counted_rows = counted_rows.unionByName(
            pairs.agg(
                F.first(side(UPDATE_BEFORE), ignorenulls=True).alias("before"),
                F.first(side(UPDATE_AFTER), ignorenulls=True).alias("after"),
                F.lit("u").alias("op"),
                F.max_by(source, F.col(CHANGE) == UPDATE_AFTER).alias("source"),
            ).select("before", "after", "op", "source")
        )
    now = F.lit(int(time.time() * 1000)).cast("bigint")
    return counted_rows.select("before", "after", "op", now.alias("ts_ms"), "source")
