"""What one statement gets to do its work with, and what it gives back."""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from airflow_hiveacid.acid.directory import Rules
from airflow_hiveacid.acid.locks import MetastoreVersion
from airflow_hiveacid.acid.schema import TableKind
from airflow_hiveacid.engine.read.acid_snapshot import AcidSnapshot
from airflow_hiveacid.engine.read.copies import with_copies
from airflow_hiveacid.engine.read.files import list_partitions
from airflow_hiveacid.engine.read.flat_snapshot import FlatSnapshot
from airflow_hiveacid.engine.read.nanoseconds import AnySnapshot, check_digits
from airflow_hiveacid.engine.read.shared_rows import SharedRows
from airflow_hiveacid.engine.write.table_output import TableOutput
from airflow_hiveacid.errors import SnapshotMoved
from airflow_hiveacid.metastore.catalog import HivePartition, HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.txn.transaction import Transaction
from airflow_hiveacid.progress import PhaseClock


@dataclass(frozen=True, slots=True)
class Counts:
    """What a write did to rows."""

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
    # The tables that the statements of the transaction have read as sources so far.
    sources: list[AnySnapshot]

    def partitions(self) -> list[HivePartition]:
        """The partitions of the target, as they are under the locks."""
        return self.client.get_partitions(self.table.ref) if self.table.partition_keys else []

    def snapshot(self, partitions: Sequence[HivePartition]) -> AcidSnapshot:
        """Some partitions of the target as the transaction sees them, and will write them."""
        self.output.locate(partitions)
        return take_acid_snapshot(self.client, self.table, self.txn, partitions)

    def read(self, spark: SparkSession, table: HiveTable) -> DataFrame:
        """Another table as the transaction sees it."""
        found = take_snapshot(self.client, table, self.txn)
        self.sources.append(found)
        return rows_of(found, spark)

    def check_digits(self, source: DataFrame) -> None:
        """Refuse to write rows of a source whose timestamps may have been cut when it was read.

        Raises:
            NanosecondsLost: A table that has been read has nanoseconds.
        """
        if "timestamp" in source.schema.simpleString():
            for files in self.sources:
                check_digits(self.spark, files, f"the write into {self.table.ref.full_name}")

    def require_locked(self, partitions: Sequence[str] | None) -> None:
        """Make sure that the locks cover all partitions that will be touched.

        Raises:
            PartitionsMoved: They do not; the write begins anew with a lock on the whole table.
        """
        if self.locks is not None:
            beyond = None if partitions is None else sorted(set(partitions) - set(self.locks))
            if beyond is None or beyond:
                raise PartitionsMoved(beyond or ["all partitions"])


class PartitionsMoved(SnapshotMoved):
    """The work touched partitions that were not locked, because the source had changed."""

    def __init__(self, partitions: Sequence[str]) -> None:
        super().__init__(f"The source has got rows of other partitions: {', '.join(partitions)}.")


def read_rows(
    client: MetastoreClient, spark: SparkSession, table: HiveTable, txn: Transaction
) -> DataFrame:
    """All rows of a transactional table of any kind, as a transaction sees them."""
    return rows_of(take_snapshot(client, table, txn), spark)


def rows_of(files: AnySnapshot, spark: SparkSession) -> DataFrame:
    """All rows in some files, the partition keys last."""
    if isinstance(files, AcidSnapshot):
        return files.rows(spark, with_key=False)
    return files.rows(spark)


def take_snapshot(client: MetastoreClient, table: HiveTable, txn: Transaction) -> AnySnapshot:
    """The files of a transactional table of any kind that a transaction sees."""
    if table.kind is not TableKind.INSERT_ONLY:
        return take_acid_snapshot(client, table, txn)
    partitions = client.get_partitions(table.ref) if table.partition_keys else []
    write_ids = txn.snapshot.write_ids[table.ref.full_name]
    return FlatSnapshot.of_insert_only(
        table, partitions, write_ids, txn.snapshot.txns, _rules(client)
    )


def take_acid_snapshot(
    client: MetastoreClient,
    table: HiveTable,
    txn: Transaction,
    partitions: Sequence[HivePartition] | None = None,
) -> AcidSnapshot:
    """A full-ACID table, or some of its partitions, as a transaction sees it."""
    if partitions is None:
        partitions = client.get_partitions(table.ref) if table.partition_keys else []
    write_ids = txn.snapshot.write_ids[table.ref.full_name]
    files = list_partitions(table, partitions, write_ids, txn.snapshot.txns, _rules(client))
    return AcidSnapshot(table, with_copies(table, files, txn), write_ids)


def _rules(client: MetastoreClient) -> Rules:
    return Rules.HIVE3 if client.version is MetastoreVersion.HMS3 else Rules.HIVE4
