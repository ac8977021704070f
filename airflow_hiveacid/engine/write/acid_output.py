"""The files that a transaction adds to a full ACID table: rows with row ids, and delete events."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_hiveacid.acid.names import ACID_VERSION_FILE, Base, BucketFile, Delta
from airflow_hiveacid.acid.row_id import MAX_WRITER_ID
from airflow_hiveacid.engine.failures import spark_errors_as_ours
from airflow_hiveacid.engine.read.acid_snapshot import BUCKET, ROW, WRITE_ID
from airflow_hiveacid.engine.read.files import PartitionFiles
from airflow_hiveacid.engine.rows.columns import orc_row_types, pad_chars
from airflow_hiveacid.engine.rows.partition_values import PARTITION
from airflow_hiveacid.engine.rows.table_support import STRIPE_SIZE, stripe_size
from airflow_hiveacid.engine.write.row_files import orc_options
from airflow_hiveacid.engine.write.staged_files import (
    DELETE_REPORT,
    FlatFile,
    StagedFile,
    delete_stager,
    row_stager,
)
from airflow_hiveacid.engine.write.table_output import BUCKET_NUMBER, TableOutput
from airflow_hiveacid.errors import CorruptFile, UnsupportedTable
from airflow_hiveacid.orc.delete_file import write_empty_file
from airflow_hiveacid.orc.tail import OrcTail
from airflow_hiveacid.storage import Storage

# Hive's orc.base.delta.ratio.
_STRIPES_OF_DELTAS = 8


class AcidOutput(TableOutput):
    """Everything that one statement of a transaction writes into a full ACID table."""

    SIDE_FILES: ClassVar[Mapping[str, bytes]] = {ACID_VERSION_FILE: b"2"}

    def write_deletes(self, keys: DataFrame, partitions: Sequence[PartitionFiles]) -> None:
        """Stage delete events.

        Args:
            keys: The row ids, each once, none of them deleted before.
            partitions: What the numbers of partitions in the keys stand for.
        """
        directory = self._delta(is_delete=True)
        self._locate([partition.name for partition in partitions])
        folders = [self._folders[partition.name] for partition in partitions]
        staging = [self._staging_folder(folder, directory) for folder in folders]
        number = F.when(
            F.shiftrightunsigned(BUCKET, 29) == 1, F.shiftright(BUCKET, 16).bitwiseAND(F.lit(0xFFF))
        ).otherwise(F.col(BUCKET))
        sorted_keys = (
            keys.select(PARTITION, number.cast("int").alias(BUCKET_NUMBER), WRITE_ID, BUCKET, ROW)
            .repartition(PARTITION, BUCKET_NUMBER)
            .sortWithinPartitions(PARTITION, BUCKET_NUMBER, WRITE_ID, BUCKET, ROW)
        )
        stage = delete_stager(staging, self.write_id, orc_row_types(self.table), self.codec)
        with spark_errors_as_ours(f"Writing deletes for {self.table.ref.full_name}"):
            for row in sorted_keys.mapInArrow(stage, DELETE_REPORT).collect():
                file = StagedFile(row["path"], row["bucket"], row["rows"], row["bytes"])
                folder = folders[row["partition"]]
                self.staged.setdefault((folder, directory.name), []).append(file)

    def _save(
        self, frame: DataFrame, by: Sequence[str], directory: Base | Delta, location: str
    ) -> None:
        frame = pad_chars(frame, self.table.columns)
        writer = frame.write.format("orc").options(**self._orc_options(directory))
        writer = writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        writer.partitionBy(*by).save(location)

    def _finish(self, files: Sequence[FlatFile]) -> Sequence[StagedFile]:
        """Give the rows their row ids, file by file in Spark's tasks."""
        if not files:
            return []
        if max(file.bucket for file in files) > MAX_WRITER_ID:
            raise UnsupportedTable(
                f"Too many tasks wrote rows of one partition of {self.table.ref.full_name}; "
                f"Hive knows {MAX_WRITER_ID + 1} writers.",
                remedy="Coalesce the source into fewer Spark partitions.",
            )
        tasks = self.spark.sparkContext.parallelize(files, len(files))
        return tasks.map(
            row_stager(self.write_id, self.statement, orc_row_types(self.table))
        ).collect()

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

    def _orc_options(self, directory: Base | Delta) -> dict[str, str]:
        options = orc_options(self.table, self.codec)
        if isinstance(directory, Delta):
            # As Hive does: what a delete hits must be written again in a compaction, stripe by
            # stripe, and what it does not hit is copied.
            size = stripe_size(self.table) // _STRIPES_OF_DELTAS
            options[STRIPE_SIZE] = str(max(size, 1))
        return options
