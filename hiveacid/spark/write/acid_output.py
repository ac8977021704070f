"""Files that a transaction adds to a full ACID table: rows with row ids, and delete events."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hiveacid.errors import CorruptFile, UnsupportedTable
from hiveacid.orc.format.tail import OrcTail
from hiveacid.orc.row_keys.delete_file import write_empty_file
from hiveacid.rules.names import ACID_VERSION_FILE, BucketFile, OriginalFile
from hiveacid.rules.row_id import MAX_WRITER_ID
from hiveacid.spark.failures import translated_spark_errors
from hiveacid.spark.parallel import in_groups
from hiveacid.spark.read.acid_snapshot import BUCKET, PARTITION, ROW, WRITE_ID, read_events
from hiveacid.spark.read.files import AcidFile, PartitionFiles
from hiveacid.spark.rows.row_format import RowFormat
from hiveacid.spark.write.flat_rows import BUCKET_NUMBER, AcidRowFiles, RowFiles
from hiveacid.spark.write.staged_work import OutputFolder
from hiveacid.spark.write.table_output import TableOutput
from hiveacid.storage.file_columns import orc_row_types
from hiveacid.storage.filesystems import in_threads, translated_os_errors
from hiveacid.storage.folder import Storage
from hiveacid.storage.staging import (
    DELETE_REPORT,
    NewFile,
    StagedFile,
    by_delete_file,
    delete_stager,
    reported_file,
    row_stager,
)

# Files whose total size is below this limit are written in the driver: faster than a Spark task.
DRIVER_BYTES = 64 << 20


class AcidOutput(TableOutput):
    """Everything that one statement of a transaction writes into a full ACID table."""

    SIDE_FILES: ClassVar[Mapping[str, bytes]] = {ACID_VERSION_FILE: b"2"}

    def write_deletes(
        self, keys: DataFrame | pa.Table, partitions: Sequence[PartitionFiles]
    ) -> None:
        """Stage delete events.

        Args:
            keys: Unique row ids that are not deleted yet. A small number is given as a table,
                sorted by partition, bucket number, and row id, with the bucket number as the column
                BUCKET_NUMBER.
            partitions: The partitions that the partition numbers in the keys refer to.
        """
        self.record_read(partitions)
        self._deleted.append((keys, partitions))
        directory = self._delta(is_delete=True)
        self._locate([partition.name for partition in partitions])
        folders = [self._folders[partition.name] for partition in partitions]
        staging = [self._staging_folder(folder, directory, is_read=True) for folder in folders]
        stage = delete_stager(staging, self.write_id, orc_row_types(self.table), self.codec)
        columns = (PARTITION, BUCKET_NUMBER, WRITE_ID, BUCKET, ROW)
        with translated_spark_errors(f"Writing deletes for {self.table.ref.full_name}"):
            if isinstance(keys, pa.Table):

                def stage_one(file: pa.Table) -> list[dict[str, Any]]:
                    return [
                        row for report in stage(file.to_batches()) for row in report.to_pylist()
                    ]

                with translated_os_errors(self.table.folder):
                    files = in_threads(stage_one, by_delete_file(keys.select(columns)))
                reports = [row for file in files for row in file]
            else:
                number = F.when(
                    F.shiftrightunsigned(BUCKET, 29) == 1,
                    F.shiftright(BUCKET, 16).bitwiseAND(F.lit(0xFFF)),
                ).otherwise(F.col(BUCKET))
                sorted_keys = (
                    keys.withColumn(BUCKET_NUMBER, number.cast("int"))
                    .select(*columns)
                    .repartition(PARTITION, BUCKET_NUMBER)
                    .sortWithinPartitions(*columns)
                )
                tasks = sorted_keys.mapInArrow(stage, DELETE_REPORT)
                reports = [row.asDict(recursive=True) for row in tasks.collect()]
        for row in reports:
            self._keep(folders[row["partition"]], directory, reported_file(row))

    def restamp_deletes(self, files: Mapping[OutputFolder, Sequence[StagedFile]]) -> None:
        """Stage earlier staged delete events again, with the write id of this transaction.

        Args:
            files: The staged files, by folder.
        """
        directory = self._delta(is_delete=True)
        row_types = orc_row_types(self.table)
        every = [(folder, file) for folder in files for file in files[folder]]

        def restamp(one: tuple[OutputFolder, StagedFile]) -> StagedFile:
            folder, file = one
            path = f"{folder.root.rstrip('/')}/{file.path}"
            known = AcidFile(path, None, file.bucket, file.bytes, exact=True)
            ids = read_events([(0, known)], self.txn.snapshot.write_ids[self.table.ref.full_name])
            numbers = [pa.repeat(0, len(ids[0])), pa.repeat(file.bucket, len(ids[0]))]
            batch = pa.record_batch(
                [*numbers, *map(pa.array, ids[:3])],
                [PARTITION, BUCKET_NUMBER, WRITE_ID, BUCKET, ROW],
            )
            staging = [self._staging_folder(folder, directory, is_read=True)]
            stage = delete_stager(staging, self.write_id, row_types, self.codec)
            (row,) = (row for report in stage([batch]) for row in report.to_pylist())
            return reported_file(row)

        with translated_os_errors(self.table.folder):
            made = in_threads(restamp, every)
        for (folder, _), file in zip(every, made, strict=True):
            self._keep(folder, directory, file)

    def _row_files(self, replace: bool) -> AcidRowFiles:
        return AcidRowFiles(self.table, self.codec, for_base=replace)

    def _finish(self, files: Sequence[NewFile], width: int | None) -> Sequence[StagedFile]:
        """Assign row ids to the rows, file by file."""
        if max(file.bucket for file in files) > MAX_WRITER_ID:
            raise UnsupportedTable(
                f"Too many tasks wrote rows of one partition of {self.table.ref.full_name}; "
                f"Hive knows {MAX_WRITER_ID + 1} writers.",
                remedy="Coalesce the source into fewer Spark partitions.",
            )
        stage = row_stager(self.write_id, self.statement, orc_row_types(self.table), width)
        if sum(file.bytes for file in files) <= DRIVER_BYTES:
            with translated_os_errors(self.table.folder):
                return in_threads(stage, files)
        return in_groups(self.spark, stage, files)

    def _write_empty(self, sink: Any) -> int:
        return write_empty_file(sink, orc_row_types(self.table), codec=self.codec).bytes

    def _file_name(self, bucket: int) -> str:
        return BucketFile(bucket).name

    def _verify(self, storage: Storage, file: StagedFile) -> None:
        with storage.open_input(file.path) as source:
            tail = OrcTail.read(source)
        if tail.rows != file.rows or not tail.is_acid:
            raise CorruptFile(
                f"{storage.location}/{file.path} has {tail.rows} rows, "
                f"its task reported {file.rows}.",
                remedy="Nothing was published; run the job again.",
            )


# Files that a transaction adds to an insert-only table: plain rows in the table's format


class InsertOnlyOutput(TableOutput):
    """Everything that one statement of a transaction writes into an insert-only table."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._files = RowFiles(self.table, self.codec)

    def _locate(self, names: Sequence[str | None]) -> None:
        super()._locate(names)
        ours = RowFormat.of(self.table)
        for folder in map(self._folders.__getitem__, names):
            partition = folder.partition
            if partition is None or folder.is_new:
                continue
            theirs = RowFormat.of(self.table, partition)
            if theirs.format is not ours.format or (ours.format.is_text and theirs != ours):
                raise UnsupportedTable(
                    f"The partition {partition.name} of {self.table.ref.full_name} has another "
                    "format or other columns than the table: Hive would misread new files.",
                    remedy="Alter the partition first, as ALTER TABLE ... CASCADE does.",
                )

    def _row_files(self, replace: bool) -> RowFiles:
        return self._files

    def _finish(self, files: Sequence[NewFile], width: int | None) -> Sequence[StagedFile]:
        """Move the files to their staging folders and count their rows, in Spark tasks."""
        return in_groups(self.spark, self._files.taker(), files)

    def _write_empty(self, sink: Any) -> int:
        return self._files.write_empty(sink)

    def _file_name(self, bucket: int) -> str:
        return OriginalFile(bucket, 0).name

    def _verify(self, storage: Storage, file: StagedFile) -> None:
        with storage.open_input(file.path) as source:
            size = source.seek(0, 2)
        if size != file.bytes:
            raise CorruptFile(
                f"{storage.location}/{file.path} has {size} bytes, its task reported {file.bytes}.",
                remedy="Nothing was published; run the job again.",
            )
