"""The join of a MERGE, which determines the changed target rows and the new source rows."""

from collections.abc import Mapping, Sequence
from functools import cached_property, reduce
from operator import and_, or_

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from hiveacid.dataclass import dataclass
from hiveacid.metastore.catalog import HiveTable
from hiveacid.plan.merge import MergeChange, RowAction
from hiveacid.plan.ties import compared_columns, ties_of
from hiveacid.rules.merge import SHOWN_DUPLICATES, duplicates
from hiveacid.rules.sql_names import quoted
from hiveacid.rules.write_ids import ValidWriteIdList
from hiveacid.spark.failures import translated_spark_errors
from hiveacid.spark.own_columns import own_column
from hiveacid.spark.read.acid_snapshot import KEY, AcidSnapshot
from hiveacid.spark.read.pruning import parsed
from hiveacid.spark.rows.columns import all_columns, as_operand
from hiveacid.spark.rows.conversion import null_of, stored
from hiveacid.spark.write.row_ids import CLAUSE, SOURCE_ROW, RowKey


@dataclass(frozen=True)
class MergeJoin:
    """The frames of a merge of a source into a table, before any data is read.

    Attributes:
        spark: The session that reads the target.
        source: The rows of the source with their numbers; every read must return the same rows.
        change: The merge with its names resolved.
        small: Whether the source is sent to every task, instead of shuffling the target.
    """

    spark: SparkSession
    source: DataFrame
    change: MergeChange
    small: bool = False

    @property
    def table(self) -> HiveTable:
        """The target."""
        return self.change.table

    @property
    def target_alias(self) -> str:
        """The name of the target in expressions."""
        return self.change.target_alias

    @property
    def source_alias(self) -> str:
        """The name of the source in expressions."""
        return self.change.source_alias

    @cached_property
    def ties(self) -> Mapping[str, str] | None:
        """See ``ties_of``."""
        return ties_of(self.change)

    def changes(self, target: DataFrame) -> DataFrame:
        """Return every matching pair of rows, and every row that a clause changes.

        Args:
            target: The visible rows of the target with their keys.

        Returns:
            KEY, SOURCE_ROW, CLAUSE, and all columns of the table: new values where a clause updates
            the row, else nulls.
        """
        pairs = self.pairs(target)
        is_pair = f"{SOURCE_ROW} IS NOT NULL"
        with translated_spark_errors("A condition of the merge"):
            pairs = pairs.withColumn(CLAUSE, F.expr(self.clause_of_match(is_pair)))
        values = self._new_values(pairs, self.change.matched)
        if self.change.not_matched_by_source:
            names = [own_column(f"new_{number}") for number in range(len(values))]
            new = [value.alias(name) for name, value in zip(names, values.values(), strict=True)]
            pairs = self.with_other_clauses(pairs, is_pair, SOURCE_ROW, CLAUSE, *new)
            matched = dict(zip(values, map(F.col, names), strict=True))
            start = len(self.change.matched)
            values = self._new_values(pairs, self.change.not_matched_by_source, start, matched)
        pairs = pairs.where(self.matters(is_pair))
        new = [
            values.get(column.name, F.expr(null_of(column))).alias(column.name)
            for column in all_columns(self.table)
        ]
        return pairs.select(*KEY, SOURCE_ROW, CLAUSE, *new)

    def clause_of_match(self, is_pair: str, clause: str | None = None) -> str:
        """The number of the clause that changes the target row of a matching pair, or -1.

        Args:
            is_pair: Whether the row matches a source row.
            clause: The clause of a matching pair; by default, the conditions determine it.
        """
        clause = self.first_clause(self.change.matched) if clause is None else clause
        rests = self.change.not_matched_by_source
        return f"CASE WHEN {is_pair} THEN {clause} ELSE -1 END" if rests else clause

    def with_other_clauses(
        self, pairs: DataFrame, is_pair: str, *kept_columns: str | Column
    ) -> DataFrame:
        """Add the clauses for rows without a source: their expressions see only the target.

        Args:
            pairs: Rows with the columns of both sides, and CLAUSE as of ``clause_of_match``.
            is_pair: Whether a row matches a source row.
            kept_columns: The columns to keep beside those of the target, with CLAUSE.
        """
        if not self.change.not_matched_by_source:
            return pairs
        rows = pairs.select(f"{quoted(self.target_alias)}.*", *kept_columns).alias(
            self.target_alias
        )
        number_without_source = self.first_clause(
            self.change.not_matched_by_source, len(self.change.matched)
        )
        number = f"CASE WHEN {is_pair} THEN {CLAUSE} ELSE {number_without_source} END"
        with translated_spark_errors("A condition of the merge"):
            return rows.withColumn(CLAUSE, F.expr(number))

    def matters(self, is_pair: str) -> str:
        """Whether a row is relevant: a clause changes it, or it makes an insert unnecessary."""
        acting = f"{CLAUSE} >= 0"
        return f"{acting} OR {is_pair}" if self.change.not_matched else acting

    def first_clause(self, actions: Sequence[RowAction], start: int = 0) -> str:
        """The number of the first clause whose condition is true, or -1."""
        cases = "".join(
            f" WHEN {self._condition(action)} THEN {index}"
            for index, action in enumerate(actions, start)
        )
        return f"CASE{cases} ELSE -1 END" if cases else "-1"

    def check(self) -> None:
        """Check names and types, without rows."""
        nothing = AcidSnapshot(self.table, (), ValidWriteIdList(self.table.ref.full_name, 0))
        changes = self.changes(nothing.rows(self.spark))
        if self.change.not_matched:
            self.inserted(changes)

    def refuse(self, repeated: Sequence[tuple[RowKey, int]], snapshot: AcidSnapshot) -> None:
        """Refuse a merge if several source rows change one target row.

        Args:
            repeated: The row ids of such target rows, with the number of source rows.
            snapshot: The target.
        """
        names = compared_columns(self.change)
        counts = dict(repeated[:SHOWN_DUPLICATES])
        row_conditions = [
            reduce(and_, (F.col(part) == value for part, value in zip(KEY, key, strict=True)))
            for key in counts
        ]
        rows = (
            snapshot.rows(self.spark)
            .where(reduce(or_, row_conditions))
            .select(*KEY, *map(quoted, names))
        )
        keys_with_counts = [
            ({name: row[name] for name in names}, counts[tuple(row[part] for part in KEY)])
            for row in rows.collect()
        ]
        has_more = len(repeated) > SHOWN_DUPLICATES
        raise duplicates(self.table.ref.full_name, keys_with_counts, has_more=has_more)

    def inserted(self, partners: DataFrame) -> DataFrame:
        """The rows that inserts add, in the table's columns.

        Args:
            partners: The numbers of the source rows that match a target row.
        """
        unmatched = self.source.join(partners.select(SOURCE_ROW), SOURCE_ROW, "left_anti")
        unmatched = unmatched.alias(self.source_alias)
        with translated_spark_errors("A condition of an insert clause of the merge"):
            number = self.first_clause(self.change.not_matched)
            unmatched = unmatched.withColumn(CLAUSE, F.expr(number)).where(f"{CLAUSE} >= 0")
        values: dict[str, Column] = {}
        for index, action in enumerate(self.change.not_matched):
            typed = stored(unmatched, action.values or {}, self.table, action.what)
            for name, new in typed.items():
                values[name] = _choose(index, F.expr(new), values.get(name))
        return unmatched.select(*[value.alias(name) for name, value in values.items()])

    def pairs(self, target: DataFrame) -> DataFrame:
        """Join the rows of the target with the matching rows of the source."""
        source = self.source.alias(self.source_alias)
        if self.small:
            source = F.broadcast(source)
        join_type = "left" if self.change.not_matched_by_source else "inner"
        with translated_spark_errors("The merge condition"):
            return target.alias(self.target_alias).join(source, F.expr(self.change.on), join_type)

    def _new_values(
        self,
        pairs: DataFrame,
        actions: Sequence[RowAction],
        start: int = 0,
        earlier: Mapping[str, Column] | None = None,
    ) -> dict[str, Column]:
        """The values of the columns in the rows that clauses update; empty without an update.

        Args:
            pairs: The rows, with CLAUSE.
            actions: The actions of the clauses.
            start: The number of the first one.
            earlier: The values by the clauses before it.
        """
        values = dict(earlier or {})
        for index, action in enumerate(actions, start):
            if action.values is None:
                continue
            typed = stored(pairs, action.values, self.table, action.what)
            for column in all_columns(self.table):
                value_before = f"{quoted(self.target_alias)}.{quoted(column.name)}"
                new = F.expr(typed.get(column.name, value_before))
                values[column.name] = _choose(index, new, values.get(column.name))
        return values

    def _condition(self, action: RowAction) -> str:
        if action.condition is None:
            return "TRUE"
        # Parse it now: Spark would parse it much later, without naming the wrong condition.
        parsed(self.spark, action.condition)
        return f"coalesce({as_operand(action.condition)}, FALSE)"


def numbered(source: DataFrame) -> DataFrame:
    """Add row numbers to a source; they differ at every evaluation."""
    return source.withColumn(SOURCE_ROW, F.monotonically_increasing_id())


def _choose(clause: int, value: Column, alternative: Column | None) -> Column:
    choice = F.when(F.col(CLAUSE) == clause, value)
    return choice if alternative is None else choice.otherwise(alternative)
