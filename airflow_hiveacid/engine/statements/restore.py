"""Restore: a new version of a full-ACID table that is equal to an earlier one."""

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_hiveacid.acid.locks import Operation
from airflow_hiveacid.acid.schema import TableKind
from airflow_hiveacid.acid.versions import AsOf
from airflow_hiveacid.engine.read.acid_snapshot import KEY
from airflow_hiveacid.engine.read.changes import Difference
from airflow_hiveacid.engine.read.nanoseconds import check_nanoseconds
from airflow_hiveacid.engine.rows.columns import all_columns, quoted
from airflow_hiveacid.engine.statements.source_rows import grouped, is_scattered
from airflow_hiveacid.engine.write.context import Counts, WriteContext
from airflow_hiveacid.engine.write.row_ids import CLAUSE, RowIds, RowSearch
from airflow_hiveacid.engine.write.statement import Preparation, Statement
from airflow_hiveacid.errors import InsertOnlyTable, VersionUnknown
from airflow_hiveacid.progress import Phase


@dataclass(eq=False)
class RestoreStatement(Statement):
    """Delete the rows that came after a version, and insert those that have gone since.

    It costs what the difference costs, and removes no version.

    Attributes:
        as_of: The version.
    """

    as_of: AsOf

    @property
    def operation(self) -> Operation:
        """A merge, with the table as it was."""
        return Operation.MERGE

    @property
    def name(self) -> str:
        """A restore."""
        return "restore"

    def prepare(self, preparation: Preparation) -> None:
        """Look up the table. Which partitions differ is found out under the locks."""
        table = preparation.client.get_table(self.target)
        if table.kind is TableKind.INSERT_ONLY:
            name = table.ref.full_name
            raise InsertOnlyTable(
                f"{name} is insert-only: a restore would have to delete rows.",
                remedy=f"Overwrite it: INSERT OVERWRITE TABLE {name} SELECT * FROM {name} FOR"
                " VERSION AS OF n.",
            )
        self.look_up(preparation)

    def run(self, context: WriteContext) -> Counts:
        """Stage the deletes, and the rows that come back."""
        table, output = context.table, context.output
        if self.as_of.write_id == output.write_id:
            raise VersionUnknown(f"{table.ref.full_name} has no version {output.write_id} yet.")
        with context.phases(Phase.READ):
            partitions = context.client.get_partitions(table.ref) if table.partition_keys else []
            output.locate(partitions)
            versions = (self.as_of, None)
            found = list(context.reader.differences(context.spark, table, partitions, versions))
            gone = [self._gone(context, difference) for difference in found]
            rows = [frame for frame in gone if frame is not None]
            scattered = any(is_scattered(difference.gone_from) for difference in found)
            deletes = [self._added(context, difference) for difference in found]
        with context.phases(Phase.WRITE):
            for difference, added in zip(found, deletes, strict=True):
                if added is not None:
                    added.write_deletes(output, difference.partitions)
            if rows:
                written = output.write_flat(
                    reduce(DataFrame.unionByName, rows), scattered=scattered
                )
                output.take(grouped(written.files), width=len(table.columns))
        return Counts(inserted=output.rows, deleted=output.deletes)

    @staticmethod
    def _gone(context: WriteContext, difference: Difference) -> DataFrame | None:
        """The rows that come back."""
        if difference.gone is None:
            return None
        check_nanoseconds(context.spark, difference.gone_from, "the restore")
        names = [column.name for column in all_columns(context.table)]
        return difference.gone.select(*map(quoted, names))

    def _added(self, context: WriteContext, difference: Difference) -> RowIds | None:
        """The row ids of those that go."""
        if difference.added is None:
            return None
        what = f"The restore of {context.table.ref.full_name}"
        search = RowSearch(difference.added_from, context.txn, what)
        return search.found(difference.added.select(*KEY, F.lit(0).alias(CLAUSE)))
