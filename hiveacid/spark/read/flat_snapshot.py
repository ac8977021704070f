"""Reading tables whose files contain only rows: insert-only and plain tables."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Self

from pyspark.sql import DataFrame, SparkSession

from hiveacid.dataclass import dataclass
from hiveacid.metastore.catalog import HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.live_transaction import LiveTransaction
from hiveacid.rules.directory import FileStatus, Rules
from hiveacid.rules.location import below
from hiveacid.rules.names import is_hidden_path
from hiveacid.rules.partitions import texts_in_rows
from hiveacid.rules.sql_names import quoted
from hiveacid.rules.write_ids import ValidTxnList, ValidWriteIdList
from hiveacid.spark.failures import translated_spark_errors
from hiveacid.spark.rows.columns import all_columns
from hiveacid.spark.rows.file_scan import PART
from hiveacid.spark.rows.row_format import SparkRowFormat
from hiveacid.spark.session import scan_session
from hiveacid.storage.filesystems import in_threads
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.hidden_folder import TableOfFolder
from hiveacid.storage.listing import read_state
from hiveacid.tables.row_format import PlainFile
from hiveacid.tables.scan.differences import CountText
from hiveacid.tables.scan.visible_table import PartitionDirectory
from hiveacid.tables.visible_files import NO_LISTINGS, Listings, listing_of

# A partition, or None for a table without partitions, and files of the partition.
FlatFiles = tuple[HivePartition | None, Sequence[PlainFile]]


@dataclass(frozen=True)
class FlatSnapshot:
    """The files of a table without row ids.

    Attributes:
        table: The table.
        files: The files of each partition; a partition may have several numbered parts.
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
        listings: Listings = NO_LISTINGS,
        txn: LiveTransaction | None = None,
    ) -> Self:
        """List the visible files of an insert-only table; a directory is visible as a whole.

        Args:
            table: The table.
            partitions: Its partitions.
            write_ids: The visible write ids of the table.
            txns: The visible transactions; None means all.
            rules: The rules of the engine version for reading directories.
            now: The write ids that a new reader sees, if an earlier version is read.
            listings: See ``usual_listings``.
            txn: The transaction, if any, that holds a lock on the table.
        """
        owner = TableOfFolder.of(table, txn)

        def list_one(partition: HivePartition | None) -> FlatFiles:
            folder = table.folder if partition is None else partition.folder
            storage, files = listings.get(folder) or listing_of(folder, owner)
            state = read_state(storage, files, write_ids, txns, rules=rules, now=now, flat=True)
            names = ["", *filter(None, [state.base]), *state.deltas]
            return partition, plain_files(storage, [f for name in names for f in state.files(name)])

        return cls(table, in_threads(list_one, partitions if table.partition_keys else [None]))

    @classmethod
    def of_plain(cls, table: HiveTable, partitions: Sequence[HivePartition]) -> Self:
        """List the files of a non-transactional table."""

        def list_one(partition: HivePartition | None) -> FlatFiles:
            storage = folder_of(table, partition)
            files = storage.list_files(recursive=True, missing_ok=True)
            visible_files = [file for file in files if not is_hidden_path(file.path)]
            return partition, plain_files(storage, visible_files)

        return cls(table, in_threads(list_one, partitions if table.partition_keys else [None]))

    @property
    def has_ambiguous_columns(self) -> bool:
        """Whether the values of a file depend on the column mapping."""
        return any(
            SparkRowFormat.of(self.table, partition).has_ambiguous_columns(files)
            for partition, files in self.files
        )

    def rows(self, spark: SparkSession, *, numbered: bool = False) -> DataFrame:
        """All rows, the partition keys last.

        Args:
            spark: A session made by ``scan_session``.
            numbered: Whether to add PART, the number of the part of the files.
        """
        table = self.table
        # One scan for all partitions of the same format.
        alike: dict[SparkRowFormat, list[PlainFile]] = {}
        for number, (partition, files) in enumerate(self.files):
            if files:
                key_values = () if partition is None else partition.values
                values = texts_in_rows(key_values, table.key_types)
                files_of_format = alike.setdefault(SparkRowFormat.of(table, partition), [])
                files_of_format += [replace(file, part=number, values=values) for file in files]
        scans = alike or {SparkRowFormat.of(table): []}
        with translated_spark_errors(f"Reading {table.ref.full_name}"):
            frames = [form.scan(spark, some, table.partition_keys) for form, some in scans.items()]
        names = [quoted(column.name) for column in all_columns(table)]
        rows = reduce(DataFrame.unionByName, frames)
        return rows.select(*names, *([PART] if numbered else []))


def text_counter(
    client: MetastoreClient, table: HiveTable, spark: Callable[[], SparkSession]
) -> CountText:
    """Return a function that counts the rows in files of text by the SerDe of their table.

    Args:
        client: The metastore.
        table: The table.
        spark: Returns the session; only called for files of text.
    """

    def count(directory: PartitionDirectory, files: Sequence[FileStatus]) -> int:
        partition = None
        if directory.name is not None:
            (partition,) = client.get_partitions(table, [directory.name])
        snapshot = FlatSnapshot(table, [(partition, plain_files(directory.storage, files))])
        return snapshot.rows(scan_session(spark())).count()

    return count


def folder_of(table: HiveTable, partition: HivePartition | None) -> ReadOnlyStorage:
    """The folder of a partition, or of a table without partitions."""
    return ReadOnlyStorage.of(table.folder if partition is None else partition.folder)


def plain_files(storage: ReadOnlyStorage, files: Sequence[FileStatus]) -> list[PlainFile]:
    """Files to scan, without empty ones, which are not valid ORC or Parquet files."""
    return [
        PlainFile(below(storage.location, file.path), file.size, modified=file.modified)
        for file in files
        if file.size > 0
    ]
