"""The join of a MERGE, which determines the changed target rows and the new source rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.table_rules import column_names, require_full_row
from hiveacid.rules.constraints import WriteRules, with_defaults
from hiveacid.rules.merge import (
    Clause,
    MatchedUpdate,
    MergePlan,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
    duplicates,
)
from hiveacid.rules.sql_names import quoted, unquoted
from hiveacid.rules.write_ids import ValidWriteIdList
from hiveacid.spark.failures import translated_spark_errors
from hiveacid.spark.own_columns import own_column
from hiveacid.spark.read.acid_snapshot import KEY, AcidSnapshot
from hiveacid.spark.read.pruning import (
    Scope,
    fixed_partition_keys,
    named_columns,
    parsed,
    same_expression,
)
from hiveacid.spark.rows.columns import all_columns, as_operand, columns_by_name
from hiveacid.spark.rows.conversion import assignments, null_of
from hiveacid.spark.write.row_ids import CLAUSE, SOURCE_ROW, RowKey

SHOWN_DUPLICATES = 5


@dataclass(frozen=True)
class MergeJoin:
    """The frames of a merge of a source into a table, before any data is read.

    Attributes:
        spark: The session that reads the target.
        table: The target.
        source: The rows of the source with their numbers; every read must return the same rows.
        on: The condition for matching two rows.
        plan: The clauses.
        target_alias: The target's name in expressions.
        source_alias: The source's name in expressions.
        some_columns: Whether a clause for all columns accepts a source that lacks some: an update
            keeps these columns, and in new rows they get their default value, or null.
        small: Whether the source is sent to every task, instead of shuffling the target.
        rules: The constraints of the target, for the defaults of columns that an insert omits.
        exclude: The columns of the source that a clause for all columns does not take.
    """

    spark: SparkSession
    table: HiveTable
    source: DataFrame
    on: str
    plan: MergePlan
    target_alias: str = "t"
    source_alias: str = "s"
    some_columns: bool = False
    small: bool = False
    rules: WriteRules | None = None
    exclude: Sequence[str] = ()

    @property
    def scope(self) -> Scope:
        """The names that the condition can use."""
        columns = [name for name in self.source.columns if name != SOURCE_ROW]
        return Scope(self.table, self.target_alias, self.source_alias, columns)

    def partition_keys(self) -> Mapping[str, str] | None:
        """Return the source expressions that reliably determine the changed partitions, if any."""
        fixed = fixed_partition_keys(self.spark, self.on, self.scope)
        if fixed is None or self.plan.not_matched_by_source:
            return None
        for clause in (*self.plan.matched, *self.plan.not_matched):
            if isinstance(clause, MatchedUpdate):
                given = clause.set if clause.set is not None else self.all_values()
            elif isinstance(clause, NotMatchedInsert):
                given = self.values_of(clause)
            else:
                continue
            values = {unquoted(name).lower(): value for name, value in given.items()}
            if isinstance(clause, NotMatchedInsert) and not fixed.keys() <= values.keys():
                return None
            for key in fixed.keys() & values.keys():
                if not same_expression(self.spark, fixed[key], values[key]):
                    return None
        return fixed

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
        values = self._new_values(pairs, self.plan.matched)
        if self.plan.not_matched_by_source:
            names = [own_column(f"new_{number}") for number in range(len(values))]
            new = [value.alias(name) for name, value in zip(names, values.values(), strict=True)]
            pairs = self.with_other_clauses(pairs, is_pair, SOURCE_ROW, CLAUSE, *new)
            matched = dict(zip(values, map(F.col, names), strict=True))
            start = len(self.plan.matched)
            values = self._new_values(pairs, self.plan.not_matched_by_source, start, matched)
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
        clause = self.first_clause(self.plan.matched) if clause is None else clause
        rests = self.plan.not_matched_by_source
        return f"CASE WHEN {is_pair} THEN {clause} ELSE -1 END" if rests else clause

    def with_other_clauses(self, pairs: DataFrame, is_pair: str, *kept: str | Column) -> DataFrame:
        """Add the clauses for rows without a source: their expressions see only the target.

        Args:
            pairs: Rows with the columns of both sides, and CLAUSE as of ``clause_of_match``.
            is_pair: Whether a row matches a source row.
            kept: The columns to keep beside those of the target, with CLAUSE.
        """
        if not self.plan.not_matched_by_source:
            return pairs
        rows = pairs.select(f"{quoted(self.target_alias)}.*", *kept).alias(self.target_alias)
        other = self.first_clause(self.plan.not_matched_by_source, len(self.plan.matched))
        number = f"CASE WHEN {is_pair} THEN {CLAUSE} ELSE {other} END"
        with translated_spark_errors("A condition of the merge"):
            return rows.withColumn(CLAUSE, F.expr(number))

    def matters(self, is_pair: str) -> str:
        """Whether a row is relevant: a clause changes it, or it makes an insert unnecessary."""
        acting = f"{CLAUSE} >= 0"
        return f"{acting} OR {is_pair}" if self.plan.not_matched else acting

    def first_clause(self, clauses: Sequence[Clause], start: int = 0) -> str:
        """The number of the first clause whose condition is true, or -1."""
        cases = "".join(
            f" WHEN {self.condition(clause)} THEN {index}"
            for index, clause in enumerate(clauses, start)
        )
        return f"CASE{cases} ELSE -1 END" if cases else "-1"

    def check(self) -> None:
        """Check names and types, without rows."""
        nothing = AcidSnapshot(self.table, (), ValidWriteIdList(self.table.ref.full_name, 0))
        changes = self.changes(nothing.rows(self.spark))
        if self.plan.not_matched:
            self.inserted(changes)

    def kept_columns(self) -> set[str]:
        """The target's columns that some update does not change, in lower case."""
        names = {column.name.lower() for column in all_columns(self.table)}
        kept: set[str] = set()
        for clause in (*self.plan.matched, *self.plan.not_matched_by_source):
            if isinstance(clause, MatchedUpdate | NotMatchedBySourceUpdate):
                given = clause.set if clause.set is not None else self.all_values()
                kept |= names - {unquoted(name).lower() for name in given}
        return kept

    def updating_clauses(self) -> list[int]:
        """The numbers of the update clauses, in the numbering of ``changes``."""
        clauses = (*self.plan.matched, *self.plan.not_matched_by_source)
        kinds = MatchedUpdate | NotMatchedBySourceUpdate
        return [index for index, clause in enumerate(clauses) if isinstance(clause, kinds)]

    def refuse(self, repeated: Sequence[tuple[RowKey, int]], snapshot: AcidSnapshot) -> None:
        """Refuse a merge if several source rows change one target row.

        Args:
            repeated: The row ids of such target rows, with the number of source rows.
            snapshot: The target.
        """
        names = named_columns(self.spark, self.on, self.scope)
        counts = dict(repeated[:SHOWN_DUPLICATES])
        wanted = [
            reduce(and_, (F.col(part) == value for part, value in zip(KEY, key, strict=True)))
            for key in counts
        ]
        rows = (
            snapshot.rows(self.spark).where(reduce(or_, wanted)).select(*KEY, *map(quoted, names))
        )
        met = [
            ({name: row[name] for name in names}, counts[tuple(row[part] for part in KEY)])
            for row in rows.collect()
        ]
        more = len(repeated) > SHOWN_DUPLICATES
        raise duplicates(self.table.ref.full_name, met, more=more)

    def inserted(self, partners: DataFrame) -> DataFrame:
        """The rows that inserts add, in the table's columns.

        Args:
            partners: The numbers of the source rows that match a target row.
        """
        rest = self.source.join(partners.select(SOURCE_ROW), SOURCE_ROW, "left_anti")
        rest = rest.alias(self.source_alias)
        with translated_spark_errors("A condition of an insert clause of the merge"):
            number = self.first_clause(self.plan.not_matched)
            rest = rest.withColumn(CLAUSE, F.expr(number)).where(f"{CLAUSE} >= 0")
        values: dict[str, Column] = {}
        for index, clause in enumerate(self.plan.not_matched):
            what = "An insert clause of the merge"
            typed = assignments(rest, self.table, self.values_of(clause), what)
            for column in all_columns(self.table):
                new = typed.get(column.name, null_of(column))
                values[column.name] = _choose(index, F.expr(new), values.get(column.name))
        return rest.select(*[value.alias(name) for name, value in values.items()])

    def pairs(self, target: DataFrame) -> DataFrame:
        """Join the rows of the target with the matching rows of the source."""
        source = self.source.alias(self.source_alias)
        if self.small:
            source = F.broadcast(source)
        how = "left" if self.plan.not_matched_by_source else "inner"
        with translated_spark_errors("The merge condition"):
            return target.alias(self.target_alias).join(source, F.expr(self.on), how)

    def _new_values(
        self,
        pairs: DataFrame,
        clauses: Sequence[Clause],
        start: int = 0,
        earlier: Mapping[str, Column] | None = None,
    ) -> dict[str, Column]:
        """The values of the columns in the rows that clauses update; empty without an update.

        Args:
            pairs: The rows, with CLAUSE.
            clauses: The clauses.
            start: The number of the first one.
            earlier: The values by the clauses before it.
        """
        values = dict(earlier or {})
        for index, clause in enumerate(clauses, start):
            if not isinstance(clause, MatchedUpdate | NotMatchedBySourceUpdate):
                continue
            given = clause.set if clause.set is not None else self.all_values()
            typed = assignments(pairs, self.table, given, "An update clause of the merge")
            for column in all_columns(self.table):
                kept = f"{quoted(self.target_alias)}.{quoted(column.name)}"
                new = F.expr(typed.get(column.name, kept))
                values[column.name] = _choose(index, new, values.get(column.name))
        return values

    def condition(self, clause: Clause) -> str:
        """The condition of a clause, for rows that no earlier clause has taken."""
        if clause.condition is None:
            return "TRUE"
        # Parse it now: Spark would parse it much later, without naming the wrong condition.
        parsed(self.spark, clause.condition)
        return f"coalesce({as_operand(clause.condition)}, FALSE)"

    def values_of(self, clause: NotMatchedInsert) -> Mapping[str, str]:
        """The expressions of a new row by column; missing ones without a default are null."""
        if clause.row is None:
            given = clause.values if clause.values is not None else self.all_values()
            return {**self._defaults(given), **with_defaults(given, self.rules)}
        require_full_row(self.table, clause.row)
        names = column_names(self.table)
        return with_defaults(dict(zip(names, clause.row, strict=True)), self.rules)

    def _defaults(self, given: Mapping[str, str]) -> dict[str, str]:
        """The default values of the columns that an insert omits."""
        names = {unquoted(name).lower() for name in given}
        left_out = [c.name for c in self.table.columns if c.name.lower() not in names]
        defaults = {name: self.rules.default(name) if self.rules else None for name in left_out}
        return {name: default for name, default in defaults.items() if default is not None}

    def all_values(self) -> dict[str, str]:
        """The expressions of a row that takes every column from the source by name."""
        return columns_by_name(
            self.table,
            self.scope.source_columns,
            "The merge",
            self.source_alias,
            some=self.some_columns,
            exclude=self.exclude,
        )


def numbered(source: DataFrame) -> DataFrame:
    """Add row numbers to a source; they differ at every evaluation."""
    return source.withColumn(SOURCE_ROW, F.monotonically_increasing_id())


def _choose(clause: int, value: Column, other: Column | None) -> Column:
    chosen = F.when(F.col(CLAUSE) == clause, value)
    return chosen if other is None else chosen.otherwise(other)
