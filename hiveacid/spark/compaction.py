"""Rebalance of a partition: sorted rows with new row ids.

The new row ids were never used in the partition. A delete that was prepared on an old row id
and is not committed yet identifies no row, and never a wrong one.
"""

import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, TypeVar

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hiveacid.dataclass import dataclass
from hiveacid.errors import (
    CorruptFile,
    DataError,
    HiveAcidError,
    ProofFailed,
    SparkNeeded,
    StorageError,
    UnsupportedFile,
)
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.report import CompactReport
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.orc.copying.assemble import Part, assemble
from hiveacid.orc.copying.spark_files import retyped
from hiveacid.orc.format.envelope import wrap_types
from hiveacid.orc.format.tail import OrcTail
from hiveacid.orc.row_keys.census import RowConstraints
from hiveacid.orc.values.timestamps import finer_column, mark
from hiveacid.progress import PhaseClock, PhaseObserver
from hiveacid.rules.compaction import Balance, CompactionType, Tally
from hiveacid.rules.compaction_policy import WorkerLimits
from hiveacid.rules.location import Location, below
from hiveacid.rules.names import Base, BucketFile, Delta, TableRef
from hiveacid.rules.row_id import ROW_BITS, encode_bucket, first_rebalanced_row
from hiveacid.rules.schema import SortColumn, TableKind
from hiveacid.rules.sql_names import quoted
from hiveacid.rules.write_ids import CompactorWriteIdList, ValidWriteIdList
from hiveacid.spark.failures import translate, translated_spark_errors
from hiveacid.spark.parallel import SparkTasks
from hiveacid.spark.read.acid_snapshot import ACID_FIELDS, BUCKET, ROW, WRITE_ID, AcidSnapshot
from hiveacid.spark.read.nanoseconds import InspectedFile, finer_column_in, timestamp_columns
from hiveacid.spark.rows.columns import check_readable, pad_chars, require_whole_maps
from hiveacid.spark.rows.file_scan import PART
from hiveacid.spark.rows.row_format import LINE, SparkRowFormat
from hiveacid.spark.session import cancelling_jobs, file_writer, scan_session
from hiveacid.spark.spark_versions import inheriting_target
from hiveacid.spark.write.flat_rows import RowFiles
from hiveacid.storage.file_columns import orc_row_types
from hiveacid.storage.folder import ReadOnlyStorage, Storage
from hiveacid.storage.staging import FlatFile, Folder, NewFile, StagedFile, staged_file
from hiveacid.tables.row_format import PlainFile
from hiveacid.tables.visible_files import AcidFile, PartitionFiles
from hiveacid.upkeep.compaction.acid import AcidCompactor
from hiveacid.upkeep.compaction.insert_only import InsertOnlyCompactor, JoinTask
from hiveacid.upkeep.compaction.partition import (
    PartitionCompactor,
    PlannedCompaction,
    Planner,
    RowOrder,
    refuse_sorted_text,
    require_no_buckets,
)
from hiveacid.upkeep.compaction.placement import compact
from hiveacid.upkeep.compaction.proof import CountedFile, RecountTask, balance, recount_file
from hiveacid.upkeep.compaction.scheduling import COPIED_WHILE_ENCODED, Scheduler, Tasks
from hiveacid.upkeep.compaction.table import TableCompactor
from hiveacid.upkeep.compaction.tasks import BucketInputs, InputFile, copy_file, naming, open_inputs
from hiveacid.upkeep.compaction.worker_scheduler import INLINE_BYTES, WorkerScheduler
from hiveacid.upkeep.survey import compactable

# Tasks of compactions in the executors of Spark


T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class SparkScheduler(Scheduler):
    """Runs the tasks of each compaction as a group of Spark jobs.

    Attributes:
        spark: The session.
    """

    spark: SparkSession

    @contextmanager
    def tasks(self, name: str, subject: str, size: int) -> Iterator[Tasks]:
        """See the base class."""
        with (
            cancelling_jobs(self.spark, f"hiveacid-{name}", subject),
            translated_spark_errors(subject),
        ):
            yield SparkTasks(self.spark, size)

    def translated(self, error: Exception) -> HiveAcidError:
        """See the base class."""
        return translate(error, "The compaction")

    def in_thread(self, work: Callable[[T], R]) -> Callable[[T], R]:
        """See the base class."""
        # Each thread needs its own wrapper: threads that share one also share a job group, and are
        # cancelled together.
        return inheriting_target(self.spark, work)

    def stop(self) -> None:
        """See the base class."""
        # The jobs of each compaction are cancelled when it ends.


def spark_of(tasks: Tasks) -> SparkSession:
    """The session of Spark tasks.

    Raises:
        SparkNeeded: The tasks are parts of one task of Spark, which has no session.
    """
    if not isinstance(tasks, SparkTasks):
        raise SparkNeeded("A session of Spark must write the rows.")
    return tasks.spark


# The row order of a rebalance as columns of Spark


def sort_columns(order: RowOrder) -> list[SparkColumn]:
    """The columns that rows are sorted by."""
    return [_column(SortColumn.parse(text)) for text in order.by]


def _column(column: SortColumn) -> SparkColumn:
    field = F.col(quoted(column.name))
    if column.nulls_last is None:
        return field.desc() if column.descending else field.asc()
    if column.descending:
        return field.desc_nulls_last() if column.nulls_last else field.desc_nulls_first()
    return field.asc_nulls_last() if column.nulls_last else field.asc_nulls_first()


# Counts of rows by all their values, computed by Spark


_HASHES = 1 << 64


def tally_values(frame: DataFrame) -> Tally:
    """Count rows by all their values.

    Args:
        frame: The rows, of a session made by ``scan_session`` for this.
    """
    # The entries of a map keep their order unless they are rewritten.
    frame.sparkSession.conf.set("spark.sql.legacy.allowHashOnMapType", "true")
    hashes = F.xxhash64(*[F.col(quoted(name)) for name in frame.columns])
    (row,) = frame.agg(F.count(F.lit(1)), F.sum(hashes.cast("decimal(20,0)"))).collect()
    return Tally(row[0], int(row[1] or 0) % _HASHES)


# Compaction of a bucket by sorting its rows, if stripes cannot be copied or decoded individually.
#
# Spark reads the rows, sorts them by their row ids, and writes them. This takes many times as
# long. It is needed for rows that are not in the order of their files, and for columns whose type
# has changed in a way that only Spark can convert. It must not be used where timestamps have more
# digits than Spark supports, see ``check_nanoseconds``.


_ROW_ID = [field.name for field in ACID_FIELDS[1:4]]


class SortingCompactor(AcidCompactor):
    """Compacts one partition of a full ACID table, also buckets that must be sorted."""

    def sort(self, bucket: BucketInputs, reason: str, out: Folder) -> tuple[StagedFile, Tally]:
        """See the base class."""
        self.phases.note(f"Sorting bucket {bucket.bucket}: {reason}")
        self.tasks.run(partial(check_nanoseconds, bucket), bucket.inserts)
        whole = replace(
            bucket,
            inserts=self.readable(bucket.inserts),
            deletes=self.readable(bucket.deletes),
        )
        spark = spark_of(self.tasks)
        return sort_bucket(spark, self.table, whole, self.planner.write_ids, out)

    def readable(self, files: Sequence[InputFile]) -> tuple[InputFile, ...]:
        """The same files, with copies in place of files that Spark may be unable to read."""
        copy = partial(copy_file, self.storage.location, self.folder("rows"))
        local_times = bool(self.table.local_time_columns)
        strange = [file for file in files if file.cut_off or local_times]
        copies = dict(zip(strange, self.tasks.run(copy, strange), strict=True))
        return tuple(copies.get(file, file) for file in files)


@dataclass(frozen=True, slots=True)
class SortTask:
    """A bucket that Spark has sorted."""

    bucket: int
    path: str
    folder: Folder
    types: tuple[bytes, ...]


def sort_bucket(
    spark: SparkSession,
    table: HiveTable,
    inputs: BucketInputs,
    write_ids: CompactorWriteIdList,
    folder: Folder,
) -> tuple[StagedFile, Tally]:
    """Write the rows of a bucket in the order of their row ids.

    Args:
        spark: The session.
        table: The table.
        inputs: The inputs of the file.
        write_ids: The write ids that the compaction sees.
        folder: The folder of the file.

    Returns:
        The file, and its rows with all their values.

    Raises:
        ProofFailed: The written values differ from the values that were read.
        UnsupportedTable: Spark cannot write a type of the table.
        UserError: The table has timestamps and Spark's clock is not UTC.
    """
    check_readable(spark, table)
    require_whole_maps(table.columns)
    session = scan_session(spark)
    frame = _rows(session, table, inputs, write_ids)
    expected_tally = tally_values(frame)
    path = f"{folder.path}/sorted-{uuid.uuid4().hex}"
    in_one = as_events(frame, table).repartition(1)
    save_events(in_one.sortWithinPartitions(*_ROW_ID), table, f"{folder.root}/{path}")
    storage = Storage.of(folder.root)
    (name,) = [file.path for file in storage.list_files(path) if file.path.endswith(".orc")]
    task = SortTask(inputs.bucket, f"{path}/{name}", folder, inputs.types)
    (file,) = SparkTasks(spark).run(assemble_sorted, [task])
    sorted_file = InputFile(file.path, file.bytes, Base(write_ids.high_watermark), exact=True)
    copied = replace(inputs, inserts=(sorted_file,) if file.rows else (), deletes=())
    read = tally_values(_rows(session, table, copied, write_ids))
    if read != expected_tally:
        raise ProofFailed(
            f"Bucket {inputs.bucket} of {inputs.root}: {expected_tally} rows with their values were to be"
            f" sorted, {read} were returned."
        )
    return file, read


def check_nanoseconds(inputs: BucketInputs, file: InputFile) -> None:
    """Make sure that Spark can sort the rows of a file without truncating a timestamp.

    Raises:
        UnsupportedFile: A timestamp has more digits than microseconds.
    """
    with ExitStack() as stack:
        ((source, tail),) = open_inputs(stack, inputs, [file])
        with naming(inputs.root, file.path):
            column = finer_column(source, tail, {name.lower() for name in inputs.columns.names})
    if column is not None:
        raise UnsupportedFile(
            f"{inputs.root}/{file.path} has nanoseconds in the column {column}, and can only be"
            " compacted by Spark, which knows microseconds.",
            remedy="Let Hive compact the table, or overwrite the partition with its own rows after"
            " setting the table property hiveacid.nanoseconds to truncate.",
        )


def assemble_sorted(task: SortTask) -> StagedFile:
    """Make an ACID file from a file of Spark that has the six columns, in their order."""
    storage = Storage.of(task.folder.root)
    with ExitStack() as stack:
        source = stack.enter_context(storage.open_input(task.path))
        tail = retyped(source, OrcTail.read(source), wrap_types(task.types))
        tail = replace(tail, user_metadata=mark(tail.rows))
        with staged_file(task.folder, BucketFile(task.bucket).name) as file:
            assembled = assemble([Part(source, tail)], file.sink)
    return file.result(task.bucket, assembled.rows, assembled.bytes)


def as_events(frame: DataFrame, table: HiveTable) -> DataFrame:
    """Convert rows with row ids to Hive's events, the form of rows in ACID files."""
    columns = [quoted(column.name) for column in table.columns]
    insert, write_id, bucket, row, current = (field.name for field in ACID_FIELDS)
    # An insert's own write id is that of its row, so that both columns are equal.
    return frame.select(
        F.lit(0).alias(insert),
        F.col(WRITE_ID).alias(write_id),
        F.col(BUCKET).alias(bucket),
        F.col(ROW).alias(row),
        F.col(WRITE_ID).alias(current),
        F.struct(*[F.col(column) for column in columns]).alias("row"),
    )


def save_events(events: DataFrame, table: HiveTable, location: str) -> None:
    """Write events, each partition of the frame into its own file."""
    file_writer(events, location).option("compression", table.orc_codec).orc(location)


def _rows(
    session: SparkSession, table: HiveTable, inputs: BucketInputs, write_ids: CompactorWriteIdList
) -> DataFrame:
    return pad_chars(_snapshot(table, inputs, write_ids).rows(session), table.columns)


def _snapshot(
    table: HiveTable, inputs: BucketInputs, write_ids: CompactorWriteIdList
) -> AcidSnapshot:
    """The bucket as a table without partitions."""

    def acid_files(files: Sequence[InputFile]) -> tuple[AcidFile, ...]:
        return tuple(
            AcidFile(
                path=below(inputs.root, file.path),
                directory=file.directory,
                bucket=inputs.bucket,
                size=file.size,
                exact=file.exact,
            )
            for file in files
        )

    reader_ids = ValidWriteIdList(
        write_ids.table, write_ids.high_watermark, aborted=write_ids.aborted
    )
    files = PartitionFiles(
        None, (), inputs.root, acid_files(inputs.inserts), acid_files(inputs.deletes)
    )
    return AcidSnapshot(replace(table, partition_keys=()), [files], reader_ids)


_PART = re.compile(r"part-(\d+)-")
# The number of a file among those of its bucket property; see ``encode_bucket``.
_WRITER = encode_bucket(1) - encode_bucket(0)


@dataclass(frozen=True)
class SortedRows:
    """The rows of one partition, to be written in another order.

    Attributes:
        spark: The session.
        table: The table.
        root: The partition's folder.
        write_ids: The write ids that the compaction sees.
        inserts: The files with rows, and the numbers of their buckets.
        deletes: The files with delete events, and the numbers of their buckets.
    """

    spark: SparkSession
    table: HiveTable
    root: Location
    write_ids: CompactorWriteIdList
    inserts: Sequence[tuple[int, InputFile]]
    deletes: Sequence[tuple[int, InputFile]]

    def write(
        self, order: RowOrder, directory: Base | Delta, size: int, folder: Folder
    ) -> tuple[list[StagedFile], Tally, Tally]:
        """Write the rows with new row ids.

        Args:
            order: The sort order; without columns, rows keep the order of the row ids.
            directory: The new directory.
            size: The size of the input in bytes; determines the number of files.
            folder: The folder of the files.

        Returns:
            The files, their row ids, and the rows with all their values.

        Raises:
            ProofFailed: The written rows differ from the rows that were read.
        """
        check_readable(self.spark, self.table)
        require_whole_maps(self.table.columns)
        session = scan_session(self.spark)
        rows = self._rows(session, self.inserts, self.deletes)
        (newest,) = rows.agg(F.max(WRITE_ID)).collect()[0]
        if newest is None:
            return [], Tally(), Tally()
        first = first_rebalanced_row(directory.write_ids[-1])
        by = sort_columns(order) or [F.col(name) for name in (WRITE_ID, BUCKET, ROW)]
        sorted_rows = rows.repartitionByRange(order.count(size), *by).sortWithinPartitions(*by)
        # Row ids ascend within a file, so that only rows of a single write id can keep the order.
        write_id = F.lit(newest).cast("bigint") if order.by else F.col(WRITE_ID)
        # Spark numbers the rows of each partition from a multiple of 2 to the power of 33.
        number = F.monotonically_increasing_id()
        sorted_rows = sorted_rows.withColumns(
            {
                WRITE_ID: write_id,
                BUCKET: (F.spark_partition_id() * _WRITER + encode_bucket(0)).cast("int"),
                ROW: number % (1 << ROW_BITS) + F.lit(first).cast("bigint"),
            }
        )
        path = f"{folder.path}/sorted-{uuid.uuid4().hex}"
        save_events(as_events(sorted_rows, self.table), self.table, f"{folder.root}/{path}")
        types = orc_row_types(self.table)
        tasks = [
            SortTask(int(part[1]), f"{path}/{file.path}", folder, types)
            for file in Storage.of(folder.root).list_files(path)
            if file.path.endswith(".orc") and (part := _PART.match(file.path))
        ]
        files_of_tasks = SparkTasks(self.spark).run(assemble_sorted, tasks)
        files = sorted((file for file in files_of_tasks if file.rows), key=lambda file: file.bucket)
        values = self._require_same_values(session, rows, directory, files)
        return files, self._tally(directory, files, folder), values

    def _tally(self, directory: Base | Delta, files: Sequence[StagedFile], folder: Folder) -> Tally:
        """Count the stored row ids, which must belong to their file's bucket and ascend."""
        tasks = [
            RecountTask(
                folder.root, file, RowConstraints(False, directory.write_ids, (file.bucket,)), {}
            )
            for file in files
        ]
        total = Tally()
        stripes_of_files = SparkTasks(self.spark).run(recount_file, tasks)
        for file, stripes in zip(files, stripes_of_files, strict=True):
            total += balance((), stripes, Tally(), f"File {file.bucket} of {self.root}").written
        return total

    def _require_same_values(
        self,
        session: SparkSession,
        rows: DataFrame,
        directory: Base | Delta,
        files: Sequence[StagedFile],
    ) -> Tally:
        numbered_files = [
            (file.bucket, InputFile(file.path, file.bytes, directory, exact=True)) for file in files
        ]
        columns = [quoted(column.name) for column in self.table.columns]
        expected_tally = tally_values(rows.select(*columns))
        read = tally_values(self._rows(session, numbered_files, ()).select(*columns))
        if read != expected_tally:
            raise ProofFailed(
                f"{self.root}: {expected_tally} rows with their values were to be sorted, {read} were returned."
            )
        return read

    def _rows(
        self,
        session: SparkSession,
        inserts: Sequence[tuple[int, InputFile]],
        deletes: Sequence[tuple[int, InputFile]],
    ) -> DataFrame:
        acid_file = partial(_acid_file, self.root)
        files = PartitionFiles(
            None,
            (),
            self.root,
            tuple(acid_file(bucket, file) for bucket, file in inserts),
            tuple(acid_file(bucket, file) for bucket, file in deletes),
        )
        compactor_ids = self.write_ids
        seen_ids = ValidWriteIdList(
            compactor_ids.table, compactor_ids.high_watermark, aborted=compactor_ids.aborted
        )
        bare = replace(self.table, partition_keys=())
        rows = AcidSnapshot(bare, [files], seen_ids).rows(session)
        return pad_chars(rows, self.table.columns)


class RebalancingCompactor(SortingCompactor):
    """Compacts one partition of a full ACID table into sorted rows with new row ids."""

    @classmethod
    def require_possible(cls, planner: Planner, order: RowOrder) -> None:
        """See the base class."""
        # Others may have altered the table after the partition was created.
        require_no_buckets(planner.table, planner.partition)

    def write(self, compaction: PlannedCompaction) -> None:
        """See the base class."""
        plan = compaction.plan
        files = list(self._counted(compaction))
        rows = [file for file in files if not file.constraints.is_delete]
        events = [file for file in files if file.constraints.is_delete]
        census = self._take_census(plan, rows, events)
        aborted_ids, types = self.planner.write_ids.aborted, orc_row_types(self.table)
        bare = BucketInputs(
            self.storage.location, 0, (), (), aborted_ids, types, self.table.mapped_columns
        )
        self.tasks.run(partial(check_nanoseconds, bare), [file.file for file in rows])
        sorted_rows = SortedRows(
            spark_of(self.tasks),
            self.table,
            self.storage.location,
            self.planner.write_ids,
            self._numbered(rows),
            self._numbered(events),
        )
        new_files, written_tally, self.values = sorted_rows.write(
            self.order, plan.inserts, self.bytes_read, self.output(plan.inserts)
        )
        for new in new_files:
            self.keep(plan.inserts, new)
        self._write_nothing(plan)
        stripes = [stripe for file in rows for stripe in census[file]]
        balanced = Balance(
            read=sum((stripe.rows for stripe in stripes), Tally()),
            deleted=sum((stripe.deleted for stripe in stripes), Tally()),
            aborted=sum((stripe.aborted for stripe in stripes), Tally()),
            written=written_tally,
        )
        balanced.check_count(self.name)
        self.rows += balanced

    def _numbered(self, files: Sequence[CountedFile]) -> list[tuple[int, InputFile]]:
        """Files that Spark can read, with the numbers of their buckets."""
        readable = self.readable([file.file for file in files])
        return [
            (file.bucket, readable_file)
            for file, readable_file in zip(files, readable, strict=True)
        ]


def _acid_file(root: Location, bucket: int, file: InputFile) -> AcidFile:
    return AcidFile(
        path=below(root, file.path),
        directory=file.directory,
        bucket=bucket,
        size=file.size,
        exact=file.exact,
    )


# Compaction of one partition of an insert-only table whose rows only Spark can write again.
#
# A rebalance also sorts the rows. They have no row ids, so that sorting conflicts with no other
# writer.


class RewritingCompactor(InsertOnlyCompactor):
    """Compacts one partition of an insert-only table in any format, also sorted."""

    @classmethod
    def require_possible(cls, planner: Planner, order: RowOrder) -> None:
        """See the base class."""
        if order.by and SparkRowFormat.of(planner.table, planner.partition).format.is_text:
            # The format of the table may differ from that of the partition.
            refuse_sorted_text(planner.name)

    @cached_property
    def _format(self) -> SparkRowFormat:
        return SparkRowFormat.of(self.table, self.partition)

    def write_again(self, task: JoinTask) -> list[StagedFile]:
        """See the base class."""
        self._check_nanoseconds(task)
        files = self.tasks.run(self._format.stager(), self._written_again(task))
        self._check_rows(task, files)
        return files

    def write_empty(self, sink: Any) -> int:
        """See the base class."""
        return self._format.write_empty(sink)

    def _check_rows(self, task: JoinTask, files: Sequence[StagedFile]) -> None:
        """Make sure that each row was written exactly once, with all its values."""
        read = self._tally(self._inputs(task))
        noted = [rows for rows in task.noted_rows if rows is not None]
        whole = len(noted) == len(task.paths) and not self._format.format.is_text
        if whole and sum(noted) != read.rows:
            raise CorruptFile(
                f"{self.storage.location}: {', '.join(task.paths)} have {read.rows} rows, and were"
                f" written with {sum(noted)}."
            )
        root = self.storage.location
        plain_files = [PlainFile(below(root, file.path), file.bytes) for file in files if file.rows]
        written_tally = self._tally(plain_files)
        self.values += written_tally
        self.balance(task, Balance(read=read, written=written_tally))

    def _tally(self, files: Sequence[PlainFile]) -> Tally:
        """Count the rows of some files, or their lines, by all their values."""
        if not files:
            return Tally()
        session = scan_session(spark_of(self.tasks))
        if self._format.format.is_text:
            return tally_values(self._format.lines(session, files).select(LINE))
        return tally_values(self._format.scan(session, files).drop(PART))

    @staticmethod
    def _inputs(task: JoinTask) -> list[PlainFile]:
        return [PlainFile(below(task.root, file.path), file.size) for file in task.files]

    def _check_nanoseconds(self, task: JoinTask) -> None:
        """Make sure that Spark can rewrite some files without truncating a timestamp.

        Raises:
            UnsupportedFile: A timestamp has more digits than microseconds.
        """
        columns = timestamp_columns(self.table)
        if self._format.format.is_text or not columns:
            return
        files = [
            InspectedFile(file.path, file.size, self._format.format, self.table.mapped_columns)
            for file in self._inputs(task)
        ]
        finer = self.tasks.run(partial(finer_column_in, columns), files)
        for file, column in zip(files, finer, strict=True):
            if column is not None:
                raise UnsupportedFile(
                    f"{file.path} has nanoseconds in the column {column}, and can only be compacted by"
                    " Spark, which knows microseconds.",
                    remedy="Let Hive compact the table.",
                )

    def _written_again(self, task: JoinTask) -> list[NewFile]:
        """Read some files by Spark and write their rows, sorted, or their lines unchanged."""
        spark = scan_session(spark_of(self.tasks))
        files = self._inputs(task)
        flat = f"{self.folder('flat').path}/{task.number}-{uuid.uuid4().hex}"
        location = f"{task.root}/{flat}"
        writer = RowFiles(self.table, self.table.orc_codec, self.partition)
        if self._format.format.is_text:
            lines = self._format.lines(spark, files).select(LINE)
            writer.save_lines(lines.coalesce(1), [], location)
        else:
            rows = self._format.scan(spark, files).drop(PART)
            writer.save(self._arranged(rows), [], location)
        flat_files = self.storage.list_files(flat)
        return [
            NewFile(
                (FlatFile(task.root, f"{flat}/{file.path}", file.size),),
                task.folder,
                task.number + int(part[1]),
            )
            for file in flat_files
            if (part := _PART.match(file.path))
        ]

    def _arranged(self, rows: DataFrame) -> DataFrame:
        """Arrange rows for the new files: each bucket has one file."""
        by = sort_columns(self.order)
        if not by:
            return rows.coalesce(1)
        if self.planner.clustered:
            return rows.coalesce(1).sortWithinPartitions(*by)
        count = self.order.count(self.bytes_read)
        return rows.repartitionByRange(count, *by).sortWithinPartitions(*by)


# Compaction of the partitions of a table, by tasks of Spark where they are necessary


class SparkCompactor(TableCompactor):
    """Compacts a table as requested by a job, also where rows must be sorted or rewritten."""

    def compactor(self, table: HiveTable, type_: CompactionType) -> type[PartitionCompactor]:
        """See the base class."""
        if table.kind is TableKind.INSERT_ONLY:
            return RewritingCompactor
        return RebalancingCompactor if type_ is CompactionType.REBALANCE else SortingCompactor


def compact_table(
    spark: Callable[[], SparkSession],
    client: MetastoreClient,
    job: CompactJob,
    observers: Sequence[PhaseObserver] = (),
) -> CompactReport:
    """Compact a table in this process or by tasks of Spark, as its job and its size require.

    Only small inputs are left to this process, a driver of Spark, and copies of local files: others
    would need memory that it may lack, or cores that executors have.

    Args:
        spark: Returns the session; called only if Spark is needed.
        client: The metastore.
        job: The compaction job.
        observers: Observers of the phases.
    """

    def in_worker(job: CompactJob) -> CompactReport:
        with WorkerScheduler() as scheduler:
            return TableCompactor(scheduler, client, job, observers).run()

    def on_spark(job: CompactJob, reason: str) -> CompactReport:
        PhaseClock(observers).note(f"On Spark: {reason}")
        return SparkCompactor(SparkScheduler(spark()), client, job, observers).run()

    if job.run_in == "auto":
        job = replace(job, worker=_limits_here(client, job))
    return compact(client, job, in_worker, on_spark)


def _limits_here(client: MetastoreClient, job: CompactJob) -> WorkerLimits:
    """The limits for a process that also runs a driver of Spark."""
    copied = INLINE_BYTES
    # Requests of a queue may be for any table.
    if job.mode != "serve" and _is_local(client, job):
        copied *= COPIED_WHILE_ENCODED
    limits = job.worker
    return replace(
        limits,
        max_copied_bytes=min(limits.max_copied_bytes, copied),
        max_encoded_bytes=min(limits.max_encoded_bytes, INLINE_BYTES),
    )


def _is_local(client: MetastoreClient, job: CompactJob) -> bool:
    try:
        folder = compactable(client, TableRef.parse(job.target)).folder
        return ReadOnlyStorage.of(folder).is_local
    except (DataError, StorageError):
        return False  # The compaction reports it.
