"""The context of a running statement, and the row counts that it returns."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from hiveacid.errors import SnapshotMoved
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.progress import PhaseClock
from hiveacid.spark.read.acid_snapshot import AcidSnapshot
from hiveacid.spark.read.flat_snapshot import FlatSnapshot
from hiveacid.spark.read.kept_rows import SharedRows
from hiveacid.spark.read.nanoseconds import check_nanoseconds
from hiveacid.spark.read.table_reader import TableReader
from hiveacid.spark.write.table_output import TableOutput


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of rows that a write inserted, updated, and deleted."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0


@dataclass(frozen=True)
class WriteContext:
    """An open transaction, with the table that a statement changes in it."""

    spark: SparkSession
    client: MetastoreClient
    table: HiveTable
    txn: Transaction
    output: TableOutput
    phases: PhaseClock
    locks: Sequence[str] | None
    shared: SharedRows
    # Reads the sources of all statements of the transaction.
    reader: TableReader
    # The snapshots whose rows are rewritten.
    rewritten: list[AcidSnapshot | FlatSnapshot] = field(default_factory=list)

    @property
    def column_mapping(self) -> str | None:
        """The mapping of the target's columns, if another mapping would read other values."""
        ambiguous = any(snapshot.has_ambiguous_columns for snapshot in self.rewritten)
        return self.table.mapped_columns.mapping.value if ambiguous else None

    def partition_names(self) -> list[str]:
        """The names of the target's partitions under the locks."""
        return self.client.get_partition_names(self.table.ref) if self.table.partition_keys else []

    def snapshot(self, names: Sequence[str]) -> AcidSnapshot:
        """Return partitions as the transaction reads them, and locate them for writing.

        Args:
            names: Their names; names without a partition are ignored.
        """
        partitions = self.client.get_partitions(self.table, names) if names else []
        self.output.locate(partitions)
        found = self.reader.acid_snapshot(self.table, partitions)
        self.output.record_read(found.partitions)
        self.rewritten.append(found)
        return found

    def check_nanoseconds(self, source: DataFrame) -> None:
        """Refuse to write rows of a source whose timestamps the read may have truncated.

        Raises:
            NanosecondsLost: A table that has been read has nanoseconds.
        """
        if "timestamp" in source.schema.simpleString():
            for snapshot in self.reader.snapshots:
                check_nanoseconds(
                    self.spark, snapshot, f"the write into {self.table.ref.full_name}"
                )

    def require_locked(self, partitions: Sequence[str] | None) -> None:
        """Make sure that the locks cover all partitions that will be changed.

        Raises:
            PartitionsMoved: A partition is not locked; the write restarts with a lock on the whole
                table.
        """
        if self.locks is not None:
            beyond = None if partitions is None else sorted(set(partitions) - set(self.locks))
            if beyond is None or beyond:
                raise PartitionsMoved(beyond or ["all partitions"])


class PartitionsMoved(SnapshotMoved):
    """The statement changed partitions that were not locked, because the source had changed."""

    def __init__(self, partitions: Sequence[str]) -> None:
        super().__init__(f"The source has got rows of other partitions: {', '.join(partitions)}.")
