"""A merge source whose rows are written directly in the table's format.

If all values of a merge come from the source, the new rows do not depend on the target. They are
written first, and these files then replace the source: only the columns for matching rows are read
again, and joined with the same few columns of the target. The result determines the rows to keep.
In nearly all merges, every row is kept once; otherwise the files where this is not the case are
written a second time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hiveacid.metastore.catalog import layout_of
from hiveacid.rules.constraints import WriteRules
from hiveacid.rules.merge import Clause, MatchedUpdate
from hiveacid.spark.failures import translated_spark_errors
from hiveacid.spark.own_columns import own_column
from hiveacid.spark.read.acid_scan import KEY
from hiveacid.spark.read.acid_snapshot import AcidSnapshot
from hiveacid.spark.read.pruning import tied_partition_columns
from hiveacid.spark.read.value_pruning import ColumnValues, only_with
from hiveacid.spark.rows.columns import all_columns, as_operand, quoted
from hiveacid.spark.rows.conversion import assignments
from hiveacid.spark.rows.frames import select_as, select_texts
from hiveacid.spark.session import evaluating_session, in_session
from hiveacid.spark.statements.merge_join import MergeJoin
from hiveacid.spark.statements.source_plan import SourcePlan
from hiveacid.spark.statements.source_rows import (
    BROADCAST_BYTES,
    SourceRows,
    grouped,
    hidden_folder,
)
from hiveacid.spark.write.acid_output import DRIVER_BYTES
from hiveacid.spark.write.context import WriteContext
from hiveacid.spark.write.flat_rows import FATE, AcidRowFiles, FlatRows, FlatRowsWriter
from hiveacid.spark.write.row_ids import (
    CLAUSE,
    INSERTED,
    SOURCE_ROW,
    RowIds,
    RowSearch,
    Writes,
)
from hiveacid.storage.hidden_folder import ReadingTransaction
from hiveacid.storage.staged_files import FlatFile

# The classification of a row before the target is read: it is written in any case, or never, or
# depending on a match.
SURE, NEVER, OPEN = "sure", "never", "open"
_IS_PAIR, _TIMES = own_column("is_pair"), own_column("times")


@dataclass(frozen=True)
class SourceWriter:
    """Writes the rows of a source in the table's format.

    Attributes:
        join: The merge.
        plan: The analysis of the source.
        codec: The compression.
        rules: The constraints of the table.
    """

    join: MergeJoin
    plan: SourcePlan
    codec: str
    rules: WriteRules | None

    @property
    def fate(self) -> str | None:
        """The fate of all rows; None if rows differ."""
        matched, inserts = self.join.plan.matched, self.join.plan.not_matched
        if self.plan.values is None:
            return NEVER
        if not self.plan.decided:
            return OPEN
        if _are_conditional((*matched, *inserts)):
            return None
        updates = bool(matched) and isinstance(matched[0], MatchedUpdate)
        return SURE if updates and inserts else OPEN

    def write(self, txn: ReadingTransaction) -> "WrittenSource":
        """Evaluate the source; the files belong to a transaction."""
        join, table = self.join, self.join.table
        rows = in_session(join.source, join.spark).alias(join.source_alias)
        with translated_spark_errors("A condition of the merge"):
            if self._clause_differs:
                rows = rows.withColumn(CLAUSE, F.expr(join.first_clause(join.plan.matched)))
            if self._inserts_some:
                inserted = f"{join.first_clause(join.plan.not_matched)} >= 0"
                rows = rows.withColumn(INSERTED, F.expr(inserted))
        if self.fate is None:
            rows = rows.withColumn(FATE, F.expr(self._fate_of_row()))
        if self.plan.decided and not join.plan.not_matched_by_source:
            counts = f"{FATE} <> '{NEVER}'" if self.fate is None else str(self.fate != NEVER)
            rows = rows.where(f"{counts} OR {self._clause()} >= 0")
        keys = join.partition_keys()
        tied = None if keys is None else tied_partition_columns(rows, keys, table)
        columns = self._columns(rows, tied)
        chosen = select_as(rows, columns)
        chosen = in_session(chosen, evaluating_session(join.source.sparkSession))
        files = AcidRowFiles(table, self.codec)
        writer = FlatRowsWriter(join.spark, table, files, layout_of(table), self.rules)
        folder = hidden_folder(table, txn)
        if self.fate == NEVER:
            by = [] if tied is None else [key.name for key in table.partition_keys]
            flat = writer.write(chosen, folder, by)
        else:
            # A row that may never be written also fails here: its merge then keeps the source.
            has_fate = self.fate is None
            written = f"{FATE} <> '{NEVER}'" if has_fate else None
            flat = writer.write_rows(chosen, folder, has_fate=has_fate, written=written)
        touched = None if tied is None else sorted({file.partition or "" for file in flat.files})
        return WrittenSource(join, touched, self, flat)

    def clause_of_match(self, is_pair: str) -> str:
        """The number of the clause that changes a target row, for a join with the files."""
        return self.join.clause_of_match(is_pair, self._clause() if self.plan.decided else None)

    @property
    def inserted(self) -> bool | None:
        """Whether unmatched rows are inserted; None if the column INSERTED determines it."""
        return None if self._inserts_some else bool(self.join.plan.not_matched)

    @property
    def beside(self) -> list[str]:
        """The columns of the files behind those of the table, except those for the join."""
        given = [CLAUSE] * self._clause_differs + [INSERTED] * self._inserts_some
        return given + [SOURCE_ROW] * (self.plan.values is not None)

    @property
    def _clause_differs(self) -> bool:
        return self.plan.decided and _are_conditional(self.join.plan.matched)

    @property
    def _inserts_some(self) -> bool:
        return _are_conditional(self.join.plan.not_matched)

    def _clause(self) -> str:
        """The clause for a pair, if the source determines it."""
        if self._clause_differs:
            return CLAUSE
        return "0" if self.join.plan.matched else "-1"

    def _fate_of_row(self) -> str:
        updating = ", ".join(map(str, self.join.updating_clauses()))
        updates = f"{self._clause()} IN ({updating})" if updating else "FALSE"
        inserts = INSERTED if self._inserts_some else str(self.inserted)
        return (
            f"CASE WHEN {updates} AND {inserts} THEN '{SURE}' "
            f"WHEN NOT ({updates}) AND NOT {inserts} THEN '{NEVER}' ELSE '{OPEN}' END"
        )

    def _columns(self, rows: DataFrame, tied: Mapping[str, str] | None) -> dict[str, str]:
        """The table's columns, the additional columns, and those that become folders."""
        alias, table = self.join.source_alias, self.join.table
        beside = {
            column.held: column.encoded(alias) for column in self.plan.columns if column.carried
        }
        for name in self.beside:
            beside[name] = "monotonically_increasing_id()" if name == SOURCE_ROW else name
        if self.plan.values is None:
            return {**beside, **(tied or {})}
        clause = "update" if self.join.updating_clauses() else "insert"
        what = f"An {clause} clause of the merge"
        values = assignments(rows, table, self.plan.values, what)
        if self.fate is None:
            # Rows that are never written may have values that cannot be stored.
            held = {column.held for column in self.plan.columns}
            written = f"{FATE} <> '{NEVER}'"
            values = {
                name: value if name in held else f"CASE WHEN {written} THEN {as_operand(value)} END"
                for name, value in values.items()
            }
            for name, key in (tied or {}).items():
                unwritten = f"CASE WHEN NOT {written} THEN {key} END"
                values[name] = f"coalesce({as_operand(values[name])}, {unwritten})"
        columns = {column.name: values[column.name] for column in table.columns}
        keys = {key.name: values[key.name] for key in table.partition_keys}
        fate = {FATE: FATE} if self.fate is None else {}
        return {**columns, **beside, **keys, **fate}


@dataclass(eq=False)
class WrittenSource(SourceRows):
    """Rows in files, in the table's format.

    Attributes:
        join: The merge.
        touched: The names of the partitions that the rows can change; None if unknown.
        writer: The writer of the files.
        rows: The files.
    """

    join: MergeJoin
    touched: Sequence[str] | None
    writer: SourceWriter
    rows: FlatRows

    def find(self, context: WriteContext, snapshot: AcidSnapshot) -> RowIds:
        """Find the target rows that a clause changes, and the source rows with a match."""
        join, plan, spark = self.join, self.writer.plan, context.spark
        is_pair = f"coalesce({_IS_PAIR}, FALSE)"
        some = replace(
            join,
            source=self._joined(context, f"TRUE AS {_IS_PAIR}"),
            small=self.rows.bytes <= BROADCAST_BYTES,
        )
        fewer, where = only_with(snapshot, self._values_of_target())
        few = fewer.of_columns(plan.target_columns)
        rows = RowSearch(fewer, context.txn, "The merge")
        target = few.rows(spark, where=where)
        with translated_spark_errors("A condition of the merge"):
            pairs = some.pairs(target).withColumn(
                CLAUSE, F.expr(self.writer.clause_of_match(is_pair))
            )
        numbers = [SOURCE_ROW] if SOURCE_ROW in self.writer.beside else []
        pairs = join.with_other_clauses(pairs, is_pair, CLAUSE, _IS_PAIR, *numbers)
        pairs = pairs.where(join.matters(is_pair))
        if join.plan.matched or join.plan.not_matched_by_source:
            return rows.evaluated(select_texts(pairs, [*KEY, CLAUSE, *numbers]))
        return rows.evaluated(pairs.select(CLAUSE, *numbers).distinct())

    def pairs(self, context: WriteContext, rows: DataFrame) -> DataFrame:
        """Join some rows of the target with the matching rows of the source."""
        few = rows.select(*self.writer.plan.target_columns)
        return replace(self.join, source=self._joined(context)).pairs(few)

    def write(self, context: WriteContext, found: RowIds) -> None:
        """Stage the rows to keep."""
        if self.writer.fate == NEVER:
            return
        files = [file for file in self.rows.files if file.fate != NEVER]
        updating = self.join.updating_clauses()
        writes = Writes(files, self.writer.inserted)
        uneven = found.uneven(self.rows, writes, updating)
        final = [file for file in files if file not in uneven]
        if uneven:
            partners = found.partners(context.spark, updating)
            final += context.output.write_flat(
                self._counted(context, uneven, writes, partners)
            ).files
        context.output.take(grouped(final), width=len(context.table.columns))

    def _values_of_target(self) -> list[ColumnValues]:
        """Values that target columns must have in rows that match the source."""
        equal = self.writer.plan.equal
        names = [joined.held for _, joined in equal]
        if not equal or self.rows.bytes > DRIVER_BYTES:
            return []
        tables = self.rows.columns(list(dict.fromkeys(names)), self.rows.files)
        if not tables:
            return []
        values = pa.concat_tables(tables)
        return [ColumnValues(column, joined.arrow(values[joined.held])) for column, joined in equal]

    def _joined(self, context: WriteContext, *more: str) -> DataFrame:
        """The columns for matching rows, and the additional columns."""
        columns = self.writer.plan.columns
        beside = [name for name in self.writer.beside if name != INSERTED]
        rows = self.rows.frame(context.spark, [*[column.held for column in columns], *beside])
        return select_texts(rows, [*[column.decoded() for column in columns], *beside, *more])

    def _counted(
        self,
        context: WriteContext,
        files: Sequence[FlatFile],
        writes: Writes,
        partners: DataFrame,
    ) -> DataFrame:
        """The rows of some files, each repeated as often as it must be written."""
        table = context.table
        names = [column.name for column in table.columns]
        known = [name for name in self.writer.beside if name != CLAUSE]
        rows = self.rows.frame(context.spark, [*names, *known], files, table)
        counted = rows.join(partners, SOURCE_ROW, "left").withColumn(_TIMES, writes.times())
        counted = counted.where(f"{_TIMES} > 0")
        copies = f"explode(array_repeat(1, CAST({_TIMES} AS INT)))"
        columns = [quoted(column.name) for column in all_columns(table)]
        return select_texts(select_texts(counted, [*columns, copies]), columns)


def _are_conditional(clauses: Sequence[Clause]) -> bool:
    return any(clause.condition is not None for clause in clauses)
