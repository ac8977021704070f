"""Changes between two versions of a table of any kind: versions, partitions, and frames."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Self

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from hiveacid.errors import UnknownColumn, UnsupportedTable
from hiveacid.metastore.catalog import HivePartition, HiveTable
from hiveacid.rules.directory import AcidDirectory, FileStatus, Rules
from hiveacid.rules.versions import PartitionVersions
from hiveacid.rules.write_ids import ValidTxnList, ValidWriteIdList
from hiveacid.spark.read.flat_snapshot import folder_of
from hiveacid.spark.rows.columns import all_columns, quoted
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.listing import check_kept, list_files, read_state, versions_of

CHANGE, VERSION, ROW_ID = "_change_type", "_write_id", "_row_id"
INSERT, DELETE = "insert", "delete"
UPDATE_BEFORE, UPDATE_AFTER = "update_before", "update_after"
ROW_ID_TYPE = "struct<writeid:bigint,bucketid:int,rowid:bigint>"


@dataclass(frozen=True)
class TwoVersions:
    """Two versions of a table, and the rules for reading them.

    Attributes:
        spark: A session made by ``scan_session``.
        table: The table.
        then: The version before the changes.
        later: The version after the changes.
        now: The write ids that a new reader sees.
        txns: The visible transactions.
        rules: The rules of the engine version for reading directories.
    """

    spark: SparkSession
    table: HiveTable
    then: ValidWriteIdList
    later: ValidWriteIdList
    now: ValidWriteIdList
    txns: ValidTxnList
    rules: Rules

    def all_of(self, partitions: Sequence[HivePartition]) -> Sequence[HivePartition | None]:
        """The partitions, or [None] for a table without partitions."""
        return partitions if self.table.partition_keys else [None]

    def changes(
        self,
        partitions: Sequence[HivePartition],
        *,
        net: bool = False,
        keys: Sequence[str] = (),
    ) -> DataFrame:
        """The changes: CHANGE, VERSION and ROW_ID beside the table's columns.

        Args:
            partitions: The partitions; empty for a table without partitions.
            net: Return only the difference of both versions, without intermediate rows.
            keys: Columns that identify the deleted and the inserted row of an update.

        Raises:
            VersionGone: The changes are not completely known any more.
        """
        check_columns(self.table, keys)
        frames = self._frames(self.all_of(partitions), net=net)
        rows = reduce(DataFrame.unionByName, frames)
        return with_updates(rows, keys, net=net) if keys else rows

    @abstractmethod
    def _frames(
        self, partitions: Sequence[HivePartition | None], *, net: bool
    ) -> Sequence[DataFrame]:
        """The changes in one frame or more."""


@dataclass(frozen=True)
class ListedPartition:
    """The listed folder of a partition, or of a table without partitions.

    Attributes:
        reader: The versions to read.
        flat: Whether the table is insert-only.
        storage: The folder.
        files: Its files.
        versions: The versions that these files contain.
    """

    reader: TwoVersions
    flat: bool
    storage: ReadOnlyStorage
    files: Sequence[FileStatus]
    versions: PartitionVersions

    @classmethod
    def of(cls, reader: TwoVersions, partition: HivePartition | None, *, flat: bool) -> Self:
        """List the folder of a partition."""
        storage = folder_of(reader.table, partition)
        files = list_files(storage)
        versions = versions_of(storage, files, reader.now, reader.txns, flat=flat)
        return cls(reader, flat, storage, files, versions)

    def state(self, files: Sequence[FileStatus], version: ValidWriteIdList) -> AcidDirectory:
        """Classify the files that a version reads; see ``read_state``."""
        txns, rules = self.reader.txns, self.reader.rules
        return read_state(self.storage, files, version, txns, rules=rules, flat=self.flat)

    def check_kept(self, files: Sequence[FileStatus], states: Sequence[AcidDirectory]) -> None:
        """Refuse directories that a cleaner is removing, if new readers do not read them.

        Args:
            files: The files between both versions.
            states: The states read from them.

        Raises:
            CorruptFile: A file of a directory is missing.
        """
        overwrites = self.versions.overwrites(self.reader.then, self.reader.later)
        if overwrites or len(files) < len(self.files):
            check_kept(self.storage, states)


def check_columns(table: HiveTable, keys: Sequence[str]) -> None:
    """Refuse a table whose changes cannot be represented, and unknown keys.

    Raises:
        UnsupportedTable: A column of the table has the name of a column of the changes.
        UnknownColumn: The table lacks a key.
    """
    known = {column.name.lower() for column in all_columns(table)}
    if taken := known & {CHANGE, VERSION, ROW_ID}:
        raise UnsupportedTable(
            f"{table.ref.full_name} has a column {min(taken)}, as its changes have, too."
        )
    if unknown := [key for key in keys if key.lower() not in known]:
        raise UnknownColumn(f"{table.ref.full_name} has no column {', '.join(unknown)}.")


def as_changes(
    table: HiveTable, rows: DataFrame, change: str, write_id: Column, row_id: Column
) -> DataFrame:
    """Convert rows of a table to rows of its changes.

    Args:
        table: The table.
        rows: The inserted or deleted rows.
        change: The kind of change.
        write_id: The write id of the change.
        row_id: The row ids.
    """
    return rows.select(
        F.lit(change).alias(CHANGE),
        write_id.alias(VERSION),
        row_id.alias(ROW_ID),
        *[quoted(column.name) for column in all_columns(table)],
    )


def with_updates(rows: DataFrame, keys: Sequence[str], *, net: bool) -> DataFrame:
    """Mark the rows of an update: a deleted and an inserted row with the same keys."""
    together = ", ".join([*map(quoted, keys), *([] if net else [VERSION])])
    count = "count_if({0} = '{1}') OVER (PARTITION BY {2}) = 1"
    both = " AND ".join(count.format(CHANGE, kind, together) for kind in (INSERT, DELETE))
    named = (
        f"CASE WHEN NOT ({both}) THEN {CHANGE} WHEN {CHANGE} = '{INSERT}' THEN '{UPDATE_AFTER}'"
        f" ELSE '{UPDATE_BEFORE}' END"
    )
    return rows.withColumn(CHANGE, F.expr(named))
