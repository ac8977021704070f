"""Reading tables of any kind in one transaction."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial, reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hiveacid.dataclass import dataclass
from hiveacid.errors import UnknownColumn
from hiveacid.foreign.budget import Threads
from hiveacid.jobs.sources import CHANGE, DELETE, INSERT, ChangesSource
from hiveacid.metastore.catalog import HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.plan.scope import ChangeScope
from hiveacid.records.staged_changes import StagedRows
from hiveacid.rules.location import Location, below
from hiveacid.rules.names import parse_partition_name
from hiveacid.rules.schema import TableKind
from hiveacid.rules.sql_names import quoted
from hiveacid.rules.versions import check_order
from hiveacid.rules.write_ids import AsOf, ValidWriteIdList
from hiveacid.spark.failures import translated_spark_errors
from hiveacid.spark.own_columns import own_column
from hiveacid.spark.read.acid_snapshot import KEY, AcidSnapshot
from hiveacid.spark.read.changes import ChangeReader, Difference, FlatChangeReader, FlatDifference
from hiveacid.spark.read.flat_snapshot import FlatSnapshot
from hiveacid.spark.read.kept_rows import SharedRows
from hiveacid.spark.read.pruning import (
    column_names,
    filters_of,
    has_subquery,
    kind,
    matching_partitions,
    nodes,
    parsed,
    without_subqueries,
)
from hiveacid.spark.read.value_pruning import in_buckets, values_of
from hiveacid.spark.rows.columns import all_columns
from hiveacid.storage.hidden_folder import TableOfFolder
from hiveacid.tables.row_format import PlainFile
from hiveacid.tables.visible_files import NO_LISTINGS, FilesReader, Listings, usual_listings
from hiveacid.writes.staged_rows import StagedFiles

# The table's alias in a condition.
_ALIAS = "t"
# Expression classes whose columns are known before Spark resolves a condition.
_CLEAR = {"UnresolvedAttribute", "UnresolvedFunction", "UnresolvedExtractValue"}


@dataclass(frozen=True)
class RowQuery:
    """Some rows and columns of a table.

    Attributes:
        where: The condition on the rows; None means all rows.
        columns: The names of the columns, in any case and in their order; None means all.
        as_of: The version to read; None means the newest.
    """

    where: str | None = None
    columns: Sequence[str] | None = None
    as_of: AsOf | None = None

    def check(self, table: HiveTable) -> None:
        """Refuse columns that the table lacks.

        Raises:
            UnknownColumn: A column is missing.
        """
        column_names = {column.name.lower() for column in all_columns(table)}
        unknown_names = [name for name in self.columns or () if name.lower() not in column_names]
        if unknown_names:
            raise UnknownColumn(
                f"{table.ref.full_name} has no column {', '.join(unknown_names)}.",
                remedy=f"Its columns are {', '.join(c.name for c in all_columns(table))}.",
            )

    def partitions(self, spark: SparkSession, table: HiveTable, names: Sequence[str]) -> list[str]:
        """The partitions that must be read, among all given names."""
        return matching_partitions(spark, self.where, ChangeScope(table, _ALIAS), names)

    def rows_of(self, spark: SparkSession, snapshot: AcidSnapshot) -> DataFrame:
        """Return the rows of a full ACID table, reading as few files and columns as possible.

        Args:
            spark: A session made by ``scan_session``.
            snapshot: The visible files.
        """
        if (column_names := self._needed(spark)) is not None:
            snapshot = snapshot.of_columns(column_names)
        if self.where is not None and any(
            partition.clustered_by for partition in snapshot.partitions
        ):
            # ORC skips parts of files, but does not know buckets.
            with translated_spark_errors(f"The condition {self.where!r}"):
                # A filter inside of a subquery does not apply to the table.
                condition = without_subqueries(spark, self.where)
                table = snapshot.table
                filters = condition and filters_of(
                    spark, condition, table.columns, table.partition_keys, _ALIAS
                )
            if filters:
                snapshot = in_buckets(snapshot, values_of(filters, table.columns))
        return self.select(snapshot.rows(spark, with_key=False))

    def select(self, rows: DataFrame) -> DataFrame:
        """Apply the condition and the column list to rows."""
        if self.where is not None:
            with translated_spark_errors(f"The condition {self.where!r}"):
                rows = rows.alias(_ALIAS).where(self.where)
        return rows if self.columns is None else rows.select(*map(quoted, self.columns))

    def _needed(self, spark: SparkSession) -> set[str] | None:
        """A superset of the needed names; None if only Spark can determine the names."""
        if self.columns is None or self.where is None:
            return None if self.columns is None else set(self.columns)
        condition = parsed(spark, self.where)
        kinds = {name for name in map(kind, nodes(condition)) if name.startswith("Unresolved")}
        if has_subquery(condition) or not kinds <= _CLEAR:
            return None
        return {*self.columns, *[part for name in column_names(condition) for part in name]}


class TableReader(FilesReader):
    """Reads transactional tables under one transaction, and records its snapshots.

    Attributes:
        snapshots: The snapshots whose rows were returned so far.
        shared: Rows that several statements of a write read; None for other readers.
    """

    def __init__(
        self,
        client: MetastoreClient,
        txn: Transaction,
        shared_in: tuple[HiveTable, Transaction] | None = None,
    ) -> None:
        """Read under a transaction.

        Args:
            client: The metastore.
            txn: The transaction.
            shared_in: The table whose folder stores shared rows, and the transaction that they
                belong to.
        """
        super().__init__(client, txn)
        self.snapshots: list[AcidSnapshot | FlatSnapshot] = []
        self.shared = None if shared_in is None else SharedRows(*shared_in)

    def rows(
        self, spark: SparkSession, table: HiveTable, query: RowQuery | None = None
    ) -> DataFrame:
        """Return visible rows of a table, with the partition keys last.

        Args:
            spark: A session made by ``scan_session``.
            table: The table, full ACID or insert-only.
            query: The rows and columns to read; by default all.
        """
        table, query = self.confirmed(table), query or RowQuery()
        partitions, listings = self._partitions(spark, table, query)
        if table.kind is TableKind.INSERT_ONLY:
            flat = self.flat_files(table, partitions, query.as_of, listings)
            self.snapshots.append(flat)
            return query.select(flat.rows(spark))
        acid = AcidSnapshot.of(self.files(table, partitions, query.as_of, listings))
        self.snapshots.append(acid)
        return query.rows_of(spark, acid)

    def flat_files(
        self,
        table: HiveTable,
        partitions: Sequence[HivePartition],
        as_of: AsOf | None = None,
        listings: Listings = NO_LISTINGS,
    ) -> FlatSnapshot:
        """Some partitions of an insert-only table; see ``files``."""
        version, now = self._version(table, as_of), self._now(table)
        txns = self._txn.snapshot.txns
        return FlatSnapshot.of_insert_only(
            table, partitions, version, txns, self._rules, now, listings, self._txn
        )

    def _partitions(
        self, spark: SparkSession, table: HiveTable, query: RowQuery
    ) -> tuple[list[HivePartition], Listings]:
        if not table.partition_keys:
            return [], NO_LISTINGS
        names = query.partitions(spark, table, self._client.get_partition_names(table.ref))
        with Threads(1) as background:
            # The metastore needs as long to describe many partitions as they take to be listed.
            listings = background.submit(usual_listings, table, names)
            return self._client.get_partitions(table, names), listings.result()

    def changes(
        self,
        spark: SparkSession,
        table: HiveTable,
        source: ChangesSource,
    ) -> DataFrame:
        """Return the changes of a table between two versions; see ``ChangesSource``."""
        table = self.confirmed(table)
        earlier_ids, later_ids = (self._version(table, as_of) for as_of in source.versions)
        flat = table.kind is TableKind.INSERT_ONLY
        of_kind = self._file_changes if flat else self._row_changes
        reader = of_kind(spark, table, earlier_ids, later_ids)
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
        table = self.confirmed(table)
        earlier_ids, later_ids = (self._version(table, as_of) for as_of in versions)
        reader = replace(self._row_changes(spark, table, earlier_ids, later_ids), deletes=True)
        yield from reader.differences(partitions)

    def file_differences(
        self, spark: SparkSession, table: HiveTable, as_of: AsOf
    ) -> list[FlatDifference]:
        """Return the difference of a version of an insert-only table to the newest version.

        See ``FlatChangeReader``.
        """
        table = self.confirmed(table)
        earlier_ids, later_ids = self._version(table, as_of), self._now(table)
        return self._file_changes(spark, table, earlier_ids, later_ids).differences(
            self._all(table)
        )

    def _row_changes(
        self,
        spark: SparkSession,
        table: HiveTable,
        earlier_ids: ValidWriteIdList,
        later_ids: ValidWriteIdList,
    ) -> ChangeReader:
        snapshot, now = self._txn.snapshot, self._now(table)
        check_order(table.ref.full_name, earlier_ids, later_ids)
        owner = TableOfFolder.of(table, self._txn)
        return ChangeReader(
            spark, table, owner, earlier_ids, later_ids, now, snapshot.txns, self._rules
        )

    def _file_changes(
        self,
        spark: SparkSession,
        table: HiveTable,
        earlier_ids: ValidWriteIdList,
        later_ids: ValidWriteIdList,
    ) -> FlatChangeReader:
        snapshot, now = self._txn.snapshot, self._now(table)
        check_order(table.ref.full_name, earlier_ids, later_ids)
        owner = TableOfFolder.of(table, self._txn)
        return FlatChangeReader(
            spark, table, owner, earlier_ids, later_ids, now, snapshot.txns, self._rules
        )

    def staged(self, spark: SparkSession, table: HiveTable, name: str) -> DataFrame:
        """Return the rows that a staged change inserts, and the current rows that it deletes.

        Args:
            spark: A session made by ``scan_session``.
            table: One of its tables.
            name: The staged change.

        Raises:
            StagedChangeRefused: It is missing or damaged, or the table has changed since then.
        """
        table = self.confirmed(table)
        files = StagedFiles.of(table, name)
        new = [
            (_new_partition(table, partition), _plain_files(files.folder, rows))
            for partition, rows in files.inserts.items()
        ]
        inserted = FlatSnapshot(table, new).rows(spark)
        column_texts = [quoted(column.name) for column in all_columns(table)]
        frames = [inserted.select(F.lit(INSERT).alias(CHANGE), *column_texts)]
        for names, read in (
            (files.replaced, self._current),
            (files.deletes.keys() - files.replaced, partial(self._hit, files)),
        ):
            if names:
                partition_names = [name for name in names if name is not None]
                partitions = (
                    self._client.get_partitions(table, partition_names) if partition_names else []
                )
                rows = read(spark, table, partitions)
                frames.append(rows.select(F.lit(DELETE).alias(CHANGE), *column_texts))
        return reduce(DataFrame.unionAll, frames)

    def _current(
        self, spark: SparkSession, table: HiveTable, partitions: Sequence[HivePartition]
    ) -> DataFrame:
        if table.kind is TableKind.INSERT_ONLY:
            return self.flat_files(table, partitions).rows(spark)
        return AcidSnapshot.of(self.files(table, partitions)).rows(spark)

    def _hit(
        self,
        files: StagedFiles,
        spark: SparkSession,
        table: HiveTable,
        partitions: Sequence[HivePartition],
    ) -> DataFrame:
        current = AcidSnapshot.of(self.files(table, partitions))
        partitions_with_events = [
            replace(partition, inserts=(), deletes=(*files.events(partition.name),))
            for partition in current.partitions
        ]
        events = replace(current, partitions=partitions_with_events).events(
            spark, own_column("deleted_by")
        )
        return current.rows(spark).join(events.select(*KEY), [*KEY], "left_semi")

    def _all(self, table: HiveTable) -> list[HivePartition]:
        return self._client.get_partitions(table) if table.partition_keys else []


def _new_partition(table: HiveTable, name: str | None) -> HivePartition | None:
    if name is None:
        return None
    return HivePartition.new(table, [value for _, value in parse_partition_name(name)])


def _plain_files(folder: Location, files: Sequence[StagedRows]) -> list[PlainFile]:
    return [PlainFile(below(folder, file.path), file.bytes) for file in files]
