"""Reading tables whose files contain only rows: insert-only and plain tables."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, StructField, StructType

from airflow_hiveacid.acid.directory import FileStatus, Rules
from airflow_hiveacid.acid.names import is_hidden
from airflow_hiveacid.acid.partition_keys import texts_in_rows
from airflow_hiveacid.acid.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.engine.rows.columns import all_columns, quoted, spark_struct
from airflow_hiveacid.engine.rows.partition_values import (
    PARTITION,
    PATH,
    PartitionedFile,
    keys_in_paths,
    with_partition,
)
from airflow_hiveacid.engine.rows.row_format import RowFormat
from airflow_hiveacid.engine.session import scan_session
from airflow_hiveacid.engine.spark_versions import from_rows
from airflow_hiveacid.layout.listing import list_files, read_state
from airflow_hiveacid.metastore.catalog import HivePartition, HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.scan.differences import CountText
from airflow_hiveacid.scan.visible_table import PartitionDirectory
from airflow_hiveacid.storage.folder import ReadOnlyStorage
from airflow_hiveacid.storage.threads import in_threads

# A partition, or None for a table without partitions, and files of the partition.
FlatFiles = tuple[HivePartition | None, Sequence[str]]


@dataclass(frozen=True)
class FlatSnapshot:
    """The files of a table without row ids.

    Attributes:
        table: The table.
        files: The full paths of the files of each partition; a partition may have several numbered
            parts.
    """

    table: HiveTable
    files: Sequence[FlatFiles]

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
        """List the visible files of an insert-only table; a directory is visible as a whole.

        Args:
            table: The table.
            partitions: Its partitions.
            write_ids: The visible write ids of the table.
            txns: The visible transactions; None means all.
            rules: The rules of the engine version for reading directories.
            now: The write ids that a new reader sees, if an earlier version is read.
        """

        def list_one(partition: HivePartition | None) -> FlatFiles:
            storage = folder_of(table, partition)
            files = list_files(storage)
            state = read_state(storage, files, write_ids, txns, rules=rules, now=now, flat=True)
            names = ["", *filter(None, [state.base]), *state.deltas]
            return partition, full_paths(storage, [f for name in names for f in state.files(name)])

        return cls(table, in_threads(list_one, partitions if table.partition_keys else [None]))

    @classmethod
    def of_plain(cls, table: HiveTable, partitions: Sequence[HivePartition]) -> Self:
        """List the files of a non-transactional table."""

        def list_one(partition: HivePartition | None) -> FlatFiles:
            storage = folder_of(table, partition)
            files = storage.list_files(recursive=True, missing_ok=True)
            seen = [file for file in files if not any(map(is_hidden, file.path.split("/")))]
            return partition, full_paths(storage, seen)

        return cls(table, in_threads(list_one, partitions if table.partition_keys else [None]))

    @property
    def has_ambiguous_columns(self) -> bool:
        """Whether the values of a file depend on the column mapping."""
        return any(
            RowFormat.of(self.table, partition).has_ambiguous_columns(paths)
            for partition, paths in self.files
        )

    def rows(self, spark: SparkSession, *, numbered: bool = False) -> DataFrame:
        """All rows, the partition keys last.

        Args:
            spark: A session made by ``scan_session``.
            numbered: Whether to add PARTITION, the number of the part of the files.
        """
        columns = all_columns(self.table)
        frames = list(self._scans(spark, numbered=numbered))
        if not frames:
            number = StructField(PARTITION, IntegerType())
            nothing = StructType([*spark_struct(columns).fields, number])
            frames = [from_rows(spark, [], nothing)]
        names = [quoted(column.name) for column in columns]
        return reduce(DataFrame.unionByName, frames).select(
            *names, *([PARTITION] if numbered else [])
        )

    def _scans(self, spark: SparkSession, *, numbered: bool) -> Iterator[DataFrame]:
        """Return one scan for all partitions of the same format."""
        alike: dict[RowFormat, list[PartitionedFile]] = {}
        for number, (partition, paths) in enumerate(self.files):
            values = texts_in_rows(
                () if partition is None else partition.values, self.table.key_types
            )
            files = alike.setdefault(RowFormat.of(self.table, partition), [])
            files += [PartitionedFile(path, number, values) for path in paths]
        keys: StructType = spark_struct(self.table.partition_keys)
        for stored, files in alike.items():
            if files:
                scan = stored.scan(spark, [file.path for file in files])
                own = self.table
                in_paths = (
                    None if numbered else keys_in_paths(own.folder, own.partition_keys, files, PATH)
                )
                if in_paths is None:
                    yield with_partition(spark, scan, files, keys)
                else:
                    yield scan.selectExpr("*", *in_paths)


def text_counter(
    client: MetastoreClient, table: HiveTable, spark: Callable[[], SparkSession]
) -> CountText:
    """Return a function that counts the rows in files of text by the SerDe of their table.

    Args:
        client: The metastore.
        table: The table.
        spark: Returns the session; only called for files of text.
    """

    def count(directory: PartitionDirectory, paths: Sequence[str]) -> int:
        partition = None
        if directory.name is not None:
            (partition,) = client.get_partitions(table, [directory.name])
        folder = directory.storage.location.rstrip("/")
        files = [f"{folder}/{path}" for path in paths]
        return FlatSnapshot(table, [(partition, files)]).rows(scan_session(spark())).count()

    return count


def folder_of(table: HiveTable, partition: HivePartition | None) -> ReadOnlyStorage:
    """The folder of a partition, or of a table without partitions."""
    return ReadOnlyStorage.of(table.folder if partition is None else partition.folder)


def full_paths(storage: ReadOnlyStorage, files: Sequence[FileStatus]) -> list[str]:
    """Paths for Spark, without empty files, which are not valid ORC or Parquet files."""
    folder = storage.location.rstrip("/")
    return [f"{folder}/{file.path}" for file in files if file.size > 0]
