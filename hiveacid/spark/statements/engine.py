"""Spark as the engine of a write: what all its statements have in common."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hiveacid.dataclass import dataclass
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.schema import BucketLayout
from hiveacid.rules.sql_names import quoted
from hiveacid.spark.failures import translated_spark_errors
from hiveacid.spark.java_objects import java_class, java_context
from hiveacid.spark.parallel import in_groups
from hiveacid.spark.read.acid_snapshot import PARTITION, WRITE_ID, AcidSnapshot
from hiveacid.spark.read.nanoseconds import check_nanoseconds
from hiveacid.spark.read.table_reader import TableReader
from hiveacid.spark.rows.columns import all_columns, check_readable, check_writable
from hiveacid.spark.rows.row_format import SparkRowFormat
from hiveacid.spark.session import cancelling_jobs, scan_session
from hiveacid.spark.spark_versions import requiring_stages_run_once
from hiveacid.spark.statements.checks import SparkChecks
from hiveacid.spark.write.flat_rows import numbered_files, write_flat
from hiveacid.storage.filesystems import keeps_checksums
from hiveacid.storage.staging import FlatFile, NewFile, StagedFile
from hiveacid.writes.engine import FlatTarget, RowEngine
from hiveacid.writes.statement import Preparation, RowsOfOthers, Statement, WriteContext


@dataclass(frozen=True)
class SparkEngine(RowEngine):
    """Evaluates rows by Spark.

    Attributes:
        spark: The user's session, which is not changed.
        batches: The rows of a stream's batch, or tables and views of the session by their names.
    """

    spark: SparkSession
    batches: Mapping[str, DataFrame] = field(default_factory=dict)

    @contextmanager
    def running(self, subject: str, group: str | None = None) -> Iterator[None]:
        """See the base class."""
        with requiring_stages_run_once(self.spark, subject):
            if group is None:
                yield
                return
            with cancelling_jobs(self.spark, group, subject):
                yield

    def reader(
        self, client: MetastoreClient, reading: Transaction, table: HiveTable, txn: Transaction
    ) -> TableReader:
        """See the base class."""
        return TableReader(client, reading, (table, txn))

    def finish(
        self, subject: str, stage: Callable[[NewFile], StagedFile], files: Sequence[NewFile]
    ) -> list[StagedFile]:
        """See the base class."""
        with translated_spark_errors(subject):
            return in_groups(self.spark, stage, files)

    def rewrite(
        self, files: Sequence[FlatFile], layout: BucketLayout, target: FlatTarget
    ) -> Sequence[FlatFile]:
        """See the base class."""
        table, session = target.table, scan_session(self.spark)
        # Header and footer lines are added later, when the table takes the files.
        row_format = replace(SparkRowFormat.of(table), header=0, footer=0)
        rows = row_format.scan(session, numbered_files(files, table), table.partition_keys)
        rows = rows.select(*[quoted(column.name) for column in all_columns(table)])
        return write_flat(rows, target, layout=layout).files

    def checks(self, client: MetastoreClient) -> SparkChecks:
        """See the base class."""
        return SparkChecks(self.spark, client)

    def checksum(self, location: str) -> str:
        """See the base class."""
        if not keeps_checksums(location):
            return ""
        with translated_spark_errors(f"Reading the checksum of {location}"):
            path = java_class(self.spark, "org.apache.hadoop.fs.Path")(location)
            file_system = path.getFileSystem(java_context(self.spark).hadoopConfiguration())
            checksum = file_system.getFileChecksum(path)
            return "" if checksum is None else bytes(checksum.getBytes()).hex()


def engine_of(preparation: Preparation) -> SparkEngine:
    """Return Spark as the engine of a write."""
    engine = preparation.engine
    assert isinstance(engine, SparkEngine), f"{engine} does not evaluate statements of Spark."
    return engine


def reader_of(context: WriteContext) -> TableReader:
    """Return the reader that Spark has made for a write."""
    reader = context.reader
    assert isinstance(reader, TableReader), f"{reader} does not return frames."
    return reader


@dataclass(eq=False)
class SparkStatement(Statement):
    """A statement whose rows Spark evaluates.

    Attributes:
        spark: A session of its own, made by ``scan_session``.
    """

    spark: SparkSession = field(init=False, repr=False)

    def look_up(self, preparation: Preparation) -> None:
        """See the base class."""
        super().look_up(preparation)
        spark = engine_of(preparation).spark
        check_readable(spark, self.table)
        check_writable(self.table, preparation.client.features)
        self.spark = scan_session(spark)

    def snapshot(self, context: WriteContext, names: Sequence[str]) -> AcidSnapshot:
        """Return the rows of partitions as the transaction reads them; see ``WriteContext.files``."""
        return AcidSnapshot.of(context.files(names))

    def check_times(self, context: WriteContext, source: DataFrame) -> None:
        """Refuse to write rows of a source whose timestamps the read may have truncated.

        Raises:
            UnsupportedFile: A table that has been read has nanoseconds.
        """
        if "timestamp" in source.schema.simpleString():
            for snapshot in reader_of(context).snapshots:
                subject = f"the write into {self.table.ref.full_name}"
                check_nanoseconds(self.spark, snapshot, subject)


def rows_of_others(spark: SparkSession, rows: RowsOfOthers) -> DataFrame:
    """Return rows that others have added, with all columns and KEY."""
    is_new = F.col(WRITE_ID).isin(sorted(rows.write_ids))
    for number in rows.partitions:
        is_new |= F.col(PARTITION) == number
    return AcidSnapshot.of(rows.files).rows(spark).where(is_new)
