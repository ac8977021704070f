"""Reading tables whose files hold nothing but rows: insert-only ones and plain ones."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from airflow_hiveacid.acid.directory import FileStatus, Rules
from airflow_hiveacid.acid.names import is_hidden
from airflow_hiveacid.acid.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.engine.parallel import in_threads
from airflow_hiveacid.engine.rows.columns import all_columns, quoted
from airflow_hiveacid.engine.rows.partition_values import PartitionedFile, with_partition
from airflow_hiveacid.engine.rows.row_format import RowFormat
from airflow_hiveacid.engine.rows.types import spark_struct
from airflow_hiveacid.listing import list_files, read_state
from airflow_hiveacid.metastore.catalog import HivePartition, HiveTable
from airflow_hiveacid.storage import ReadOnlyStorage

# A partition, or None for a table without partitions, and its files.
_Files = tuple[HivePartition | None, list[str]]


@dataclass(frozen=True)
class FlatSnapshot:
    """A table without row ids: which files to read.

    Attributes:
        table: The table.
        files: The full paths of the files of each partition.
    """

    table: HiveTable
    files: Sequence[_Files]

    @classmethod
    def of_insert_only(
        cls,
        table: HiveTable,
        partitions: Sequence[HivePartition],
        write_ids: ValidWriteIdList,
        txns: ValidTxnList | None,
        rules: Rules,
        now: ValidWriteIdList | None = None,
    ) -> Self:
        """List what a snapshot sees of an insert-only table: whole directories, or nothing.

        Args:
            table: The table.
            partitions: Its partitions.
            write_ids: What is seen of its write ids.
            txns: What is seen of transactions; None is all.
            rules: Whose reading applies.
            now: What a new reader sees of the write ids, if an earlier version is read.
        """

        def list_one(partition: HivePartition | None) -> _Files:
            storage = _storage(table, partition)
            files = list_files(storage)
            state = read_state(storage, files, write_ids, txns, rules=rules, now=now, flat=True)
            names = ["", *filter(None, [state.base]), *state.deltas]
            return partition, _paths(storage, [f for name in names for f in state.files(name)])

        return cls(table, in_threads(list_one, partitions if table.partition_keys else [None]))

    @classmethod
    def of_plain(cls, table: HiveTable, partitions: Sequence[HivePartition]) -> Self:
        """List the files of a table that is not transactional."""

        def list_one(partition: HivePartition | None) -> _Files:
            storage = _storage(table, partition)
            files = storage.list_files(recursive=True, missing_ok=True)
            seen = [file for file in files if not any(map(is_hidden, file.path.split("/")))]
            return partition, _paths(storage, seen)

        return cls(table, in_threads(list_one, partitions if table.partition_keys else [None]))

    def rows(self, spark: SparkSession) -> DataFrame:
        """All rows, the partition keys last."""
        columns = all_columns(self.table)
        frames = list(self._scans(spark))
        if not frames:
            frames = [spark.createDataFrame([], spark_struct(columns))]
        return reduce(DataFrame.unionByName, frames).select(
            *[quoted(column.name) for column in columns]
        )

    def _scans(self, spark: SparkSession) -> Iterator[DataFrame]:
        """One scan for all partitions that are stored alike."""
        alike: dict[RowFormat, list[PartitionedFile]] = {}
        for number, (partition, paths) in enumerate(self.files):
            values = () if partition is None else partition.values
            files = alike.setdefault(RowFormat.of(self.table, partition), [])
            files += [PartitionedFile(path, number, values) for path in paths]
        keys: StructType = spark_struct(self.table.partition_keys)
        for stored, files in alike.items():
            if files:
                scan = stored.scan(spark, [file.path for file in files])
                yield with_partition(spark, scan, files, keys)


def _storage(table: HiveTable, partition: HivePartition | None) -> ReadOnlyStorage:
    return ReadOnlyStorage.of(table.folder if partition is None else partition.folder)


def _paths(storage: ReadOnlyStorage, files: Sequence[FileStatus]) -> list[str]:
    """An empty file is not even one of ORC or Parquet."""
    folder = storage.location.rstrip("/")
    return [f"{folder}/{file.path}" for file in files if file.size > 0]
