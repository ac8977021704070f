"""Compaction of a bucket by sorting its rows, if stripes cannot be copied or decoded individually.

Spark reads the rows, sorts them by their row ids, and writes them. This takes many times as long.
It is needed for rows that are not in the order of their files, and for columns whose type has
changed in a way that only Spark can convert. It must not be used where timestamps have more digits
than Spark supports, see ``check_nanoseconds``.
"""

import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hiveacid.errors import (
    NanosecondsLost,
    ProofFailed,
)
from hiveacid.metastore.catalog import HiveTable
from hiveacid.orc.copying.assemble import Part, assemble
from hiveacid.orc.copying.spark_files import retyped
from hiveacid.orc.format.envelope import wrap_types
from hiveacid.orc.format.tail import OrcTail
from hiveacid.orc.values.nanoseconds import finer_column, mark
from hiveacid.rules.names import Base, BucketFile
from hiveacid.rules.proof import Tally
from hiveacid.rules.write_ids import CompactorWriteIdList, ValidWriteIdList
from hiveacid.spark.compaction.spark_scheduler import spark_of
from hiveacid.spark.compaction.value_tally import tally_values
from hiveacid.spark.file_writer import file_writer
from hiveacid.spark.parallel import SparkTasks
from hiveacid.spark.read.acid_scan import ACID_FIELDS, BUCKET, ROW, WRITE_ID
from hiveacid.spark.read.acid_snapshot import AcidSnapshot
from hiveacid.spark.read.files import AcidFile, PartitionFiles
from hiveacid.spark.rows.columns import pad_chars, quoted, require_whole_maps
from hiveacid.spark.rows.table_support import check_readable
from hiveacid.spark.session import scan_session
from hiveacid.storage.folder import Storage
from hiveacid.storage.staged_files import Folder, StagedFile, staged_file
from hiveacid.upkeep.compaction.acid import AcidCompactor
from hiveacid.upkeep.compaction.input_files import InputFile, copy_file, naming
from hiveacid.upkeep.compaction.tasks import BucketInputs, open_inputs

_ROW_ID = [field.name for field in ACID_FIELDS[1:4]]


class SortingCompactor(AcidCompactor):
    """Compacts one partition of a full ACID table, also buckets that must be sorted."""

    def sort(self, bucket: BucketInputs, why: str, out: Folder) -> tuple[StagedFile, Tally]:
        """See the base class."""
        self.phases.note(f"Sorting bucket {bucket.bucket}: {why}")
        self.tasks.run(partial(check_nanoseconds, bucket), bucket.inserts)
        whole = replace(
            bucket,
            inserts=self.readable(bucket.inserts),
            deletes=self.readable(bucket.deletes),
        )
        spark = spark_of(self.scheduler)
        return sort_bucket(spark, self.table, whole, self.compaction.write_ids, out)

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
    wanted = tally_values(frame)
    path = f"{folder.path}/sorted-{uuid.uuid4().hex}"
    in_one = as_events(frame, table).repartition(1)
    save_events(in_one.sortWithinPartitions(*_ROW_ID), table, f"{folder.root}/{path}")
    storage = Storage.of(folder.root)
    (name,) = [file.path for file in storage.list_files(path) if file.path.endswith(".orc")]
    task = SortTask(inputs.bucket, f"{path}/{name}", folder, inputs.types)
    (file,) = SparkTasks(spark).run(assemble_sorted, [task])
    written = InputFile(file.path, file.bytes, Base(write_ids.high_watermark), exact=True)
    copied = replace(inputs, inserts=(written,) if file.rows else (), deletes=())
    read = tally_values(_rows(session, table, copied, write_ids))
    if read != wanted:
        raise ProofFailed(
            f"Bucket {inputs.bucket} of {inputs.root}: {wanted} rows with their values were to be"
            f" sorted, {read} were returned."
        )
    return file, read


def check_nanoseconds(inputs: BucketInputs, file: InputFile) -> None:
    """Make sure that Spark can sort the rows of a file without truncating a timestamp.

    Raises:
        NanosecondsLost: A timestamp has more digits than microseconds.
    """
    with ExitStack() as stack:
        ((source, tail),) = open_inputs(stack, inputs, [file])
        with naming(inputs.root, file.path):
            column = finer_column(source, tail, {name.lower() for name in inputs.columns.names})
    if column is not None:
        raise NanosecondsLost(
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
            written = assemble([Part(source, tail)], file.sink)
    return file.made(task.bucket, written.rows, written.bytes)


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
                path=f"{inputs.root}/{file.path}",
                directory=file.directory,
                bucket=inputs.bucket,
                size=file.size,
                exact=file.exact,
            )
            for file in files
        )

    seen = ValidWriteIdList(write_ids.table, write_ids.high_watermark, aborted=write_ids.aborted)
    files = PartitionFiles(
        None, (), inputs.root, acid_files(inputs.inserts), acid_files(inputs.deletes)
    )
    return AcidSnapshot(replace(table, partition_keys=()), [files], seen)
