"""Restore: a new version of a table that is equal to an earlier one."""

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hiveacid.dataclass import dataclass
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.progress import Phase
from hiveacid.rules.locks import Operation, restoring_operation
from hiveacid.rules.schema import TableKind
from hiveacid.rules.sql_names import quoted
from hiveacid.rules.versions import as_of_write_id
from hiveacid.rules.write_ids import AsOf
from hiveacid.spark.read.acid_snapshot import KEY
from hiveacid.spark.read.changes import Difference, FlatDifference
from hiveacid.spark.read.flat_snapshot import FlatSnapshot
from hiveacid.spark.read.nanoseconds import check_nanoseconds
from hiveacid.spark.read.pruning import canonical_values
from hiveacid.spark.read.table_reader import TableReader
from hiveacid.spark.rows.columns import all_columns
from hiveacid.spark.statements.engine import SparkStatement, reader_of
from hiveacid.spark.statements.source import grouped, is_scattered
from hiveacid.spark.write.flat_rows import write_flat, write_rows
from hiveacid.spark.write.row_ids import CLAUSE, RowIds, RowSearch
from hiveacid.writes.statement import Counts, Preparation, WriteContext


@dataclass(eq=False)
class RestoreStatement(SparkStatement):
    """Delete the rows that were added after a version, and insert those that were removed since.

    The cost depends on the difference, and no version is removed. The rows of an insert-only table
    cannot be deleted: instead, the partitions that differ are overwritten.

    Attributes:
        as_of: The version.
    """

    as_of: AsOf

    @property
    def operation(self) -> Operation:
        """A merge with the earlier version, or an overwrite by it."""
        return restoring_operation(self.table.kind)

    @property
    def only_adds(self) -> bool:
        """A restore compares existing rows with those of the version."""
        return False

    @property
    def name(self) -> str:
        """The name "restore"."""
        return "restore"

    def prepare(self, preparation: Preparation) -> None:
        """Look up the table. The differing partitions are determined again under the locks."""
        self.look_up(preparation)
        if self.as_of.write_id is not None:
            # Later, the restore's own write id would be among those of the table.
            now = Snapshot.take(preparation.client, [self.target])
            as_of_write_id(now.write_ids[self.target.full_name], self.as_of.write_id)
        if not self._is_flat:
            return
        # An overwrite waits for all readers of the partitions that it locks, also for those of
        # earlier attempts that were not ended.
        if self.table.partition_keys:
            with Transaction(
                preparation.client,
                reads=[self.target],
                run_token=preparation.options.source_token,
                lock_wait_seconds=preparation.options.lock_wait_seconds,
            ) as txn:
                restored = self._differing(TableReader(preparation.client, txn), self.table)
            self.partitions = [
                difference.name for difference in restored if difference.name is not None
            ]

    def stage(self, context: WriteContext) -> Counts:
        """Stage the deletes and the restored rows."""
        table, output = context.table, context.output
        if self._is_flat:
            return self._overwritten(context)
        with context.phases(Phase.READ, "the difference"):
            partitions = context.client.get_partitions(table) if table.partition_keys else []
            output.locate(partitions)
            versions = (self.as_of, None)
            differences = list(
                reader_of(context).differences(self.spark, table, partitions, versions)
            )
            removed_rows = [
                self._rows_to_restore(context, difference) for difference in differences
            ]
            rows = [frame for frame in removed_rows if frame is not None]
            scattered = any(is_scattered(difference.removed_from) for difference in differences)
            deletes = [self._added(context, difference) for difference in differences]
        with context.phases(Phase.WRITE, "the difference"):
            for difference, row_ids in zip(differences, deletes, strict=True):
                if row_ids is not None:
                    row_ids.write_deletes(output, difference.partitions)
            if rows:
                restored = reduce(DataFrame.unionByName, rows)
                flat_rows = write_flat(restored, output.flat_target(), scattered=scattered)
                output.take(grouped(flat_rows.files), width=len(table.columns))
        return Counts(inserted=output.rows, deleted=output.deletes)

    @property
    def _is_flat(self) -> bool:
        return self.table.kind is TableKind.INSERT_ONLY

    def _overwritten(self, context: WriteContext) -> Counts:
        """Stage the earlier contents of an insert-only table's partitions that differ."""
        table, output = context.table, context.output
        with context.phases(Phase.READ, "the partitions that differ"):
            restored = self._differing(reader_of(context), table)
            output.locate(
                [
                    difference.partition
                    for difference in restored
                    if difference.partition is not None
                ]
            )
            earlier_snapshot = FlatSnapshot(
                table, [(difference.partition, difference.before) for difference in restored]
            )
            check_nanoseconds(self.spark, earlier_snapshot, "the restore")
            context.rewritten.append(earlier_snapshot)
        with context.phases(Phase.WRITE, "them as they were"):
            if any(difference.before for difference in restored):
                write_rows(output, earlier_snapshot.rows(self.spark), replace=True)
            # Partitions without rows in the version become empty again.
            output.write_empty_bases([difference.name for difference in restored])
        return Counts(inserted=output.rows)

    def _differing(self, reader: TableReader, table: HiveTable) -> list[FlatDifference]:
        """The partitions of an insert-only table to overwrite."""
        differences = reader.file_differences(self.spark, table, self.as_of)
        differing = [
            difference for difference in differences if difference.added or difference.removed
        ]
        names = {difference.name for difference in differing}
        if table.partition_keys:
            # Rows get their partition from values in the types of the keys: rows of hour=01 may be
            # written to hour=1, whose own rows must not be lost.
            values_of_keys = [
                () if difference.partition is None else difference.partition.values
                for difference in differences
            ]
            canonical = canonical_values(self.spark, table, values_of_keys)
            values = {
                key_values
                for difference, key_values in zip(differences, canonical, strict=True)
                if difference.name in names
            }
            return [
                difference
                for difference, key_values in zip(differences, canonical, strict=True)
                if key_values in values
            ]
        return differing

    def _rows_to_restore(self, context: WriteContext, difference: Difference) -> DataFrame | None:
        """The rows to restore."""
        if difference.removed is None:
            return None
        check_nanoseconds(self.spark, difference.removed_from, "the restore")
        context.rewritten.append(difference.removed_from)
        names = [column.name for column in all_columns(context.table)]
        return difference.removed.select(*map(quoted, names))

    def _added(self, context: WriteContext, difference: Difference) -> RowIds | None:
        """The row ids of the rows to delete."""
        if difference.added is None:
            return None
        subject = f"The restore of {context.table.ref.full_name}"
        search = RowSearch(difference.added_from, context.txn, subject)
        return search.evaluated(difference.added.select(*KEY, F.lit(0).alias(CLAUSE)))
