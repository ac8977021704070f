"""A merge source with unchanged rows in files, for merges that depend on the target's rows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hiveacid.spark.read.acid_scan import KEY
from hiveacid.spark.read.acid_snapshot import AcidSnapshot
from hiveacid.spark.read.kept_rows import KeptRows, keep_rows
from hiveacid.spark.read.pruning import partitions_of_source
from hiveacid.spark.read.value_pruning import ColumnValues, only_with
from hiveacid.spark.rows.columns import all_columns, quoted
from hiveacid.spark.statements.merge_join import MergeJoin, numbered
from hiveacid.spark.statements.source_plan import equal_columns
from hiveacid.spark.statements.source_rows import (
    BROADCAST_BYTES,
    SourceRows,
    grouped,
    is_scattered,
)
from hiveacid.spark.write.acid_output import DRIVER_BYTES
from hiveacid.spark.write.context import WriteContext
from hiveacid.spark.write.flat_rows import FATE, FlatRows
from hiveacid.spark.write.row_ids import (
    CLAUSE,
    SOURCE_ROW,
    RowIds,
    RowSearch,
    written_row_ids,
)
from hiveacid.storage.hidden_folder import ReadingTransaction

_WRITTEN, _NOT_WRITTEN = "written", "not"


@dataclass(eq=False)
class KeptSource(SourceRows):
    """Numbered rows in files.

    Matching pairs of rows are found by a join with the target's own columns. The rows of updates
    are written by the same pass over the target that finds their row ids.

    Attributes:
        join: The merge, its source the rows in the files.
        touched: The names of the partitions that the rows can change; None if unknown.
        kept: The files.
    """

    join: MergeJoin
    touched: Sequence[str] | None
    kept: KeptRows
    _updated: FlatRows | None = None

    @classmethod
    def of(cls, join: MergeJoin, txn: ReadingTransaction) -> "KeptSource":
        """Evaluate the source of a merge; the files belong to a transaction."""
        kept = keep_rows(numbered(join.source), join.spark, join.table, txn, "The source")
        join = replace(join, source=kept.frame, small=kept.bytes <= BROADCAST_BYTES)
        keys = join.partition_keys()
        if keys is None:
            return cls(join, None, kept)
        touched = partitions_of_source(kept.frame, join.source_alias, keys, join.table)
        return cls(join, touched, kept)

    def find(self, context: WriteContext, snapshot: AcidSnapshot) -> RowIds:
        """Find the target rows that a clause changes, and write the new rows of updates."""
        snapshot, where = only_with(snapshot, self._values_of_target())
        pairs = self.join.changes(snapshot.rows(context.spark, where=where))
        names = [*KEY, CLAUSE, SOURCE_ROW]
        updating = self.join.updating_clauses()
        if not updating:
            return RowSearch(snapshot, context.txn, "The merge").evaluated(pairs.select(*names))
        written = F.when(F.col(CLAUSE).isin(updating), _WRITTEN).otherwise(_NOT_WRITTEN)
        columns, keys = context.table.columns, context.table.partition_keys
        frame = pairs.withColumn(FATE, written).select(
            *[quoted(column.name) for column in columns],
            *names,
            *[quoted(key.name) for key in keys],
            FATE,
        )
        self._updated = context.output.write_flat(
            frame,
            has_fate=True,
            scattered=is_scattered(snapshot),
            written=f"{FATE} = '{_WRITTEN}'",
        )
        return written_row_ids(self._updated, context.spark, names)

    def pairs(self, context: WriteContext, rows: DataFrame) -> DataFrame:
        """Join some rows of the target with the matching rows of the source."""
        return self.join.pairs(rows)

    def _values_of_target(self) -> list[ColumnValues]:
        """Values that target columns must have in rows that match the source."""
        if self.kept.bytes > DRIVER_BYTES:
            return []
        return [
            ColumnValues(column, self.kept.values(field.name))
            for column, field in equal_columns(self.join)
        ]

    def write(self, context: WriteContext, found: RowIds) -> None:
        """Stage the new rows."""
        files = (
            [file for file in self._updated.files if file.fate == _WRITTEN] if self._updated else []
        )
        if self.join.plan.not_matched:
            partners = found.partners(context.spark, self.join.updating_clauses())
            new = self.join.inserted(partners)
            names = [quoted(column.name) for column in all_columns(context.table)]
            files += context.output.write_flat(new.select(*names), scattered=True).files
        context.output.take(grouped(files), width=len(context.table.columns))
