"""Reading tables of any kind in one transaction."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from airflow_hiveacid.acid.as_of import AsOf
from airflow_hiveacid.acid.directory import Rules
from airflow_hiveacid.acid.schema import TableKind
from airflow_hiveacid.acid.versions import precedes
from airflow_hiveacid.acid.write_ids import ValidWriteIdList
from airflow_hiveacid.engine.read.acid_snapshot import AcidSnapshot
from airflow_hiveacid.engine.read.changes import ChangeReader, Difference
from airflow_hiveacid.engine.read.copies import with_copies
from airflow_hiveacid.engine.read.files import list_partitions
from airflow_hiveacid.engine.read.flat_changes import FlatChangeReader, FlatDifference
from airflow_hiveacid.engine.read.flat_snapshot import FlatSnapshot
from airflow_hiveacid.engine.read.row_query import RowQuery
from airflow_hiveacid.engine.rows.partition_values import PARTITION
from airflow_hiveacid.errors import VersionUnknown
from airflow_hiveacid.history.table_history import version_of
from airflow_hiveacid.jobs.report import PartitionDifference
from airflow_hiveacid.jobs.sources import ChangesSource
from airflow_hiveacid.metastore.catalog import HivePartition, HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.txn.transaction import Transaction


class TableReader:
    """Reads transactional tables under one transaction, and records its snapshots.

    Attributes:
        snapshots: The snapshots whose rows were returned so far.
    """

    def __init__(self, client: MetastoreClient, txn: Transaction) -> None:
        self.snapshots: list[AcidSnapshot | FlatSnapshot] = []
        self._client = client
        self._txn = txn
        self._rules = Rules.of(client.version)

    def rows(
        self, spark: SparkSession, table: HiveTable, query: RowQuery | None = None
    ) -> DataFrame:
        """Return visible rows of a table, with the partition keys last.

        Args:
            spark: A session made by ``scan_session``.
            table: The table, full ACID or insert-only.
            query: The rows and columns to read; by default all.
        """
        query = query or RowQuery()
        partitions = self._partitions(spark, table, query) if table.partition_keys else []
        if table.kind is TableKind.INSERT_ONLY:
            seen, now = self._txn.snapshot, self._now(table)
            flat = FlatSnapshot.of_insert_only(
                table, partitions, self._version(table, query.as_of), seen.txns, self._rules, now
            )
            self.snapshots.append(flat)
            return query.chosen(flat.rows(spark))
        acid = self.acid_snapshot(table, partitions, query.as_of)
        self.snapshots.append(acid)
        return query.rows_of(spark, acid)

    def _partitions(
        self, spark: SparkSession, table: HiveTable, query: RowQuery
    ) -> list[HivePartition]:
        names = self._client.get_partition_names(table.ref)
        return self._client.get_partitions(table.ref, query.partitions(spark, table, names))

    def acid_snapshot(
        self, table: HiveTable, partitions: Sequence[HivePartition], as_of: AsOf | None = None
    ) -> AcidSnapshot:
        """Some partitions of a full ACID table, or a whole table without partitions."""
        seen, now = self._txn.snapshot, self._now(table)
        write_ids = self._version(table, as_of)
        files = list_partitions(table, partitions, write_ids, seen.txns, self._rules, now)
        return AcidSnapshot(table, with_copies(table, files, self._txn), write_ids)

    def changes(
        self,
        spark: SparkSession,
        table: HiveTable,
        source: ChangesSource,
    ) -> DataFrame:
        """Return the changes of a table between two versions; see ``ChangesSource``."""
        then, later = (self._version(table, as_of) for as_of in source.versions)
        flat = table.kind is TableKind.INSERT_ONLY
        of_kind = self._file_changes if flat else self._row_changes
        reader = of_kind(spark, table, then, later)
        rows = reader.changes(self._all(table), net=source.net, keys=source.keys)
        self.snapshots += reader.snapshots
        return rows

    def differences(
        self,
        spark: SparkSession,
        table: HiveTable,
        partitions: Sequence[HivePartition],
        versions: tuple[AsOf | None, AsOf | None],
    ) -> Iterator[Difference]:
        """Yield the differences between two versions of a full ACID table, the earlier one first.

        The caller is about to delete the rows that only the later version has; see
        ``ChangeReader``.
        """
        then, later = (self._version(table, as_of) for as_of in versions)
        reader = replace(self._row_changes(spark, table, then, later), deletes=True)
        yield from reader.differences(partitions)

    def file_differences(
        self, spark: SparkSession, table: HiveTable, as_of: AsOf
    ) -> list[FlatDifference]:
        """Return the difference of a version of an insert-only table to the newest version.

        See ``FlatChangeReader``.
        """
        then, later = self._version(table, as_of), self._now(table)
        return self._file_changes(spark, table, then, later).differences(self._all(table))

    def counted(
        self,
        spark: SparkSession,
        table: HiveTable,
        versions: tuple[AsOf | None, AsOf | None],
    ) -> tuple[PartitionDifference, ...]:
        """Count the rows of each partition that only one of two versions has."""
        first, second = (self._version(table, as_of) for as_of in versions)
        then, later = (first, second) if precedes(first, second) else (second, first)
        if table.kind is TableKind.INSERT_ONLY:
            differences = self._file_changes(spark, table, then, later).differences(
                self._all(table)
            )
            counts = _counts_of_files(spark, table, differences)
        else:
            reader = self._row_changes(spark, table, then, later)
            counts = _counts_of_rows(reader.differences(self._all(table)))
        found: list[PartitionDifference] = []
        for name, *numbers in counts:
            inserted, deleted = numbers if then is first else reversed(numbers)
            if inserted or deleted:
                found.append(PartitionDifference(name, inserted, deleted))
        return tuple(sorted(found, key=lambda one: one.partition or ""))

    def _row_changes(
        self,
        spark: SparkSession,
        table: HiveTable,
        then: ValidWriteIdList,
        later: ValidWriteIdList,
    ) -> ChangeReader:
        seen, now = self._txn.snapshot, self._now(table)
        _check_order(table, then, later)
        return ChangeReader(spark, table, then, later, now, seen.txns, self._rules, self._txn)

    def _file_changes(
        self,
        spark: SparkSession,
        table: HiveTable,
        then: ValidWriteIdList,
        later: ValidWriteIdList,
    ) -> FlatChangeReader:
        seen, now = self._txn.snapshot, self._now(table)
        _check_order(table, then, later)
        return FlatChangeReader(spark, table, then, later, now, seen.txns, self._rules)

    def _all(self, table: HiveTable) -> list[HivePartition]:
        return self._client.get_partitions(table.ref) if table.partition_keys else []

    def _now(self, table: HiveTable) -> ValidWriteIdList:
        return self._txn.snapshot.write_ids[table.ref.full_name]

    def _version(self, table: HiveTable, as_of: AsOf | None) -> ValidWriteIdList:
        return version_of(self._client, table.ref, as_of, self._now(table))


def _check_order(table: HiveTable, then: ValidWriteIdList, later: ValidWriteIdList) -> None:
    if then.high_watermark > later.high_watermark:
        raise VersionUnknown(
            f"{table.ref.full_name} has had version {then.high_watermark} only after version"
            f" {later.high_watermark}."
        )
    if not precedes(then, later):
        late = next(filter(then.is_valid, later.open))
        raise VersionUnknown(
            f"{table.ref.full_name} has never gone from version {then.high_watermark} to version"
            f" {later.high_watermark} as they are asked for: only the first one has write id {late},"
            " which was committed late.",
            remedy="Ask for both by their numbers, or for both by a time.",
        )


# The name of a partition, and the numbers of inserted and deleted rows.
_Counts = Iterator[tuple[str | None, int, int]]


def _counts_of_rows(differences: Iterator[Difference]) -> _Counts:
    for each in differences:
        added, gone = (_by_partition(frame) for frame in (each.added, each.gone))
        for number, partition in enumerate(each.partitions):
            yield partition.name, added.get(number, 0), gone.get(number, 0)


def _counts_of_files(
    spark: SparkSession, table: HiveTable, differences: Sequence[FlatDifference]
) -> _Counts:
    added, gone = (
        _by_partition(FlatSnapshot(table, files).rows(spark, numbered=True))
        for files in (
            [(each.partition, each.added) for each in differences],
            [(each.partition, each.gone) for each in differences],
        )
    )
    for number, each in enumerate(differences):
        yield each.name, added.get(number, 0), gone.get(number, 0)


def _by_partition(rows: DataFrame | None) -> dict[int, int]:
    """Number of rows of each partition, by its number."""
    if rows is None:
        return {}
    return {row[0]: row[1] for row in rows.groupBy(PARTITION).count().collect()}
