"""Rows of a merge's source, evaluated once before they are compared with the target."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from itertools import groupby

from pyspark.sql import DataFrame

from hiveacid.metastore.catalog import HiveTable
from hiveacid.spark.read.acid_snapshot import AcidSnapshot
from hiveacid.spark.statements.merge_join import MergeJoin
from hiveacid.spark.write.context import WriteContext
from hiveacid.spark.write.row_ids import RowIds
from hiveacid.storage.hidden_folder import HiddenFolder, ReadingTransaction
from hiveacid.storage.staged_files import FlatFile, Folder

# A source whose rows are smaller than this is broadcast instead of shuffling the target.
BROADCAST_BYTES = 64 << 20
# Files that Spark wrote are combined up to this size: a Spark task may have few rows.
_FILE_BYTES = 32 << 20
# A larger scan has so many tasks that its few changed rows per task should be combined.
_SCATTERING_BYTES = 8 << 30


class SourceRows(ABC):
    """Evaluated rows.

    Attributes:
        join: The merge.
        touched: The names of the partitions that the rows can change; None if unknown.
    """

    join: MergeJoin
    touched: Sequence[str] | None

    @abstractmethod
    def find(self, context: WriteContext, snapshot: AcidSnapshot) -> RowIds:
        """Find the target rows that a clause changes, and the source rows with a match."""

    @abstractmethod
    def pairs(self, context: WriteContext, rows: DataFrame) -> DataFrame:
        """Join some rows of the target with the matching rows of the source."""

    @abstractmethod
    def write(self, context: WriteContext, found: RowIds) -> None:
        """Stage the new rows."""


def hidden_folder(table: HiveTable, txn: ReadingTransaction) -> Folder:
    """Create a folder for Spark's files that is removed when a transaction ends."""
    return Folder(table.folder, HiddenFolder.until_the_end_of(txn, table.folder).name)


def is_scattered(snapshot: AcidSnapshot) -> bool:
    """Whether the changed rows of a snapshot come in small parts from many tasks."""
    files = [file for partition in snapshot.partitions for file in partition.inserts]
    return sum(file.size for file in files) > _SCATTERING_BYTES


def grouped(files: Iterable[FlatFile]) -> list[list[FlatFile]]:
    """Group files that become one: those of a bucket, and small files of a partition."""

    def goes_into(file: FlatFile) -> tuple[str, int]:
        return file.partition or "", -1 if file.bucket is None else file.bucket

    groups: list[list[FlatFile]] = []
    in_order = sorted(files, key=lambda file: (goes_into(file), file.path))
    for (_, bucket), some in groupby(in_order, key=goes_into):
        group: list[FlatFile] = []
        for file in some:
            large = sum(other.bytes for other in group) + file.bytes > _FILE_BYTES
            if not group or (large and bucket < 0):
                group = []
                groups.append(group)
            group.append(file)
    return groups
