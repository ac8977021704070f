"""Methods that change a table: each creates a statement, which the subclass runs."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic, Self, TypeVar

from pyspark.sql import DataFrame, SparkSession

from hiveacid.jobs.fields import Parameters, require_condition
from hiveacid.jobs.sources import Input, Source
from hiveacid.plan.insert import InsertMapping, PartitionSpec
from hiveacid.rules.merge import (
    Clause,
    MatchedDelete,
    MatchedUpdate,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
    validate_clauses,
)
from hiveacid.rules.names import TableRef
from hiveacid.spark.statements.conditions import Expression, Expressions
from hiveacid.spark.statements.insert import (
    InsertStatement,
    TruncateStatement,
)
from hiveacid.spark.statements.merge import MergeStatement
from hiveacid.spark.statements.row_change import DeleteStatement, UpdateStatement
from hiveacid.writes.statement import Statement

# The rows of a job: a frame of the caller, or a source that is looked up later.
Rows = DataFrame | Source
Inputs = Mapping[str, Input]

R = TypeVar("R")


class TableChanges(ABC, Generic[R]):
    """Methods that change a table.

    Args:
        name: The table, ``"database.table"``.
        spark: The session; by default the active one, or a new one, once it is needed.
        orc_codec: The compression of new files; by default the table's.
    """

    def __init__(self, name: str, spark: SparkSession | None, orc_codec: str | None = None) -> None:
        self.ref = TableRef.parse(name)
        self._given_session = spark
        self._orc_codec = orc_codec

    @cached_property
    def _spark(self) -> SparkSession:
        return self._given_session or SparkSession.Builder().getOrCreate()

    def append(
        self,
        rows: Rows,
        partitions: Sequence[PartitionSpec] | None = None,
        *,
        by_position: bool = False,
        columns: Sequence[str] | None = None,
        static: PartitionSpec | None = None,
        merge_schema: bool = False,
        exclude: Sequence[str] = (),
    ) -> R:
        """Add rows, by default with columns found by name.

        Example::

            >>> report = orders.append(spark.sql("SELECT 7 AS id, 'new' AS status"))
            >>> report.rows_inserted
            1

        Args:
            rows: The rows; their values must fit. Missing columns get their default value, or null.
            partitions: The partitions that can be written, if known: writers of other partitions
                need not wait. A single partition also gives its values to the rows.
            by_position: The columns of the rows are the table's columns in order, the partition
                keys last.
            columns: With by_position: the table's columns in the rows, in order.
            static: Some partition keys, each with its value for all rows.
            merge_schema: Add columns to the table that only the rows have, and widen numbers.
            exclude: Columns of the given rows that are not part of the new rows.
        """
        mapping = InsertMapping(partitions, by_position, columns, static, exclude=exclude)
        return self._run(
            InsertStatement(
                self.ref, self._orc_codec, rows, mapping, False, merge_schema=merge_schema
            )
        )

    def overwrite(
        self,
        rows: Rows,
        partitions: Sequence[PartitionSpec] | None = None,
        *,
        by_position: bool = False,
        columns: Sequence[str] | None = None,
        static: PartitionSpec | None = None,
        merge_schema: bool = False,
        exclude: Sequence[str] = (),
    ) -> R:
        """Replace rows.

        Args:
            rows: The new rows.
            partitions: The partitions to replace, even without new rows. By default the whole
                table, or in a partitioned table the partitions that get rows.
            by_position: The columns of the rows are the table's columns in order, the partition
                keys last.
            columns: With by_position: the table's columns in the rows, in order.
            static: Some partition keys, each with its value for all rows.
            merge_schema: Add columns to the table that only the rows have, and widen numbers.
            exclude: Columns of the given rows that are not part of the new rows.
        """
        mapping = InsertMapping(partitions, by_position, columns, static, exclude=exclude)
        return self._run(
            InsertStatement(
                self.ref, self._orc_codec, rows, mapping, True, merge_schema=merge_schema
            )
        )

    def truncate(self, partition: PartitionSpec | None = None) -> R:
        """Remove all rows.

        Args:
            partition: Some or all partition keys with their values: only rows of these partitions
                are removed.
        """
        return self._run(TruncateStatement(self.ref, self._orc_codec, partition))

    def update(
        self,
        set: Mapping[str, Expression],
        where: Expression | None = None,
        *,
        inputs: Inputs | None = None,
        target_alias: str = "t",
        params: Parameters | None = None,
        trusted: bool = False,
        all_rows: bool = False,
    ) -> R:
        """Change rows.

        Example::

            table.update({"status": "'late'"}, "t.due < current_date()")
            table.update({"status": F.lit("late")}, F.col("t.due") < F.current_date())
            table.update({"status": ":new"}, "t.id = :id", params={"new": "late", "id": 7})

        Args:
            set: Column to expression, each in SQL or as a column of PySpark.
            where: A condition, likewise, which only ``all_rows`` replaces.
            inputs: The inputs of subqueries: view name to table or files.
            target_alias: The table's name in the condition and in expressions.
            params: The values of parameters: ``{"id": 7}`` for ``:id``.
            trusted: Whether the SQL may run scripts, call Java and read files by their paths.
            all_rows: Change all rows of the table. Without it, a missing condition is an error.
        """
        require_condition(where, all_rows, f"UPDATE {self.ref.full_name}")
        given = Expressions(self._spark, params or {}, trusted)
        chosen, values = given.sql(where), given.all_sql(set)
        return self._run(
            UpdateStatement(self.ref, self._orc_codec, chosen, inputs or {}, target_alias, values)
        )

    def delete(
        self,
        where: Expression | None = None,
        *,
        inputs: Inputs | None = None,
        target_alias: str = "t",
        params: Parameters | None = None,
        trusted: bool = False,
        all_rows: bool = False,
    ) -> R:
        """Delete rows.

        Args:
            where: A condition in SQL, or as a column of PySpark, which only ``all_rows`` replaces.
            inputs: The inputs of subqueries: view name to table or files.
            target_alias: The table's name in the condition.
            params: The values of parameters: ``{"id": 7}`` for ``:id``.
            trusted: Whether the SQL may run scripts, call Java and read files by their paths.
            all_rows: Delete all rows of the table. Without it, a missing condition is an error.
        """
        require_condition(where, all_rows, f"DELETE FROM {self.ref.full_name}")
        chosen = Expressions(self._spark, params or {}, trusted).sql(where)
        return self._run(
            DeleteStatement(self.ref, self._orc_codec, chosen, inputs or {}, target_alias)
        )

    def merge(
        self,
        source: Rows,
        on: Expression,
        *,
        source_alias: str = "s",
        target_alias: str = "t",
        merge_schema: bool = False,
        exclude: Sequence[str] = (),
        params: Parameters | None = None,
        trusted: bool = False,
    ) -> "MergeBuilder[R]":
        """Begin to describe a merge.

        Args:
            source: The rows to compare with; evaluated once.
            on: The condition for matching a source row with a target row, in SQL or as a PySpark
                column.
            source_alias: The source's name in expressions.
            target_alias: The target's name in expressions.
            merge_schema: Add columns to the table that only the source has and that a clause uses,
                and widen numbers. A clause for all columns then does not change the columns that
                the source lacks.
            exclude: Columns of the source that are not part of its rows: a clause for all columns
                does not take them. Conditions and expressions may use them.
            params: The values of parameters in the condition and in the clauses: ``{"id": 7}`` for
                ``:id``.
            trusted: Whether the SQL may run scripts, call Java and read files by their paths.
        """
        given = Expressions(self._spark, params or {}, trusted)
        statement = MergeStatement(
            self.ref,
            self._orc_codec,
            source,
            given.sql(on),
            (),
            source_alias,
            target_alias,
            merge_schema,
            exclude,
        )
        return MergeBuilder(self, statement, given)

    @abstractmethod
    def _run(self, statement: Statement) -> R:
        """Run a statement, now or later."""


@dataclass(frozen=True)
class MergeBuilder(Generic[R]):
    """Collects the clauses of a merge; ``execute`` runs it.

    Of each kind of clause, the first one with a true condition applies. Conditions and expressions
    are SQL, or PySpark columns, over the aliases of target and source, by default ``t`` and ``s``.

    Example::

        merge = table.merge(changes, "t.id = s.id")
        merge = merge.when_matched_delete("s.op = 'D'").when_matched_update_all()
        merge.when_not_matched_insert_all("s.op <> 'D'").execute()
    """

    _table: "TableChanges[R]"
    _statement: MergeStatement
    _expressions: Expressions

    def when_matched_update(
        self, set: Mapping[str, Expression], condition: Expression | None = None
    ) -> Self:
        """Update the target row of a pair: column to expression."""
        return self._with(MatchedUpdate(self._all_sql(set), self._sql(condition)))

    def when_matched_update_all(self, condition: Expression | None = None) -> Self:
        """Update every column of the target row from the source's column of the same name."""
        return self._with(MatchedUpdate(None, self._sql(condition)))

    def when_matched_delete(self, condition: Expression | None = None) -> Self:
        """Delete the target row of a pair."""
        return self._with(MatchedDelete(self._sql(condition)))

    def when_not_matched_insert(
        self, values: Mapping[str, Expression], condition: Expression | None = None
    ) -> Self:
        """Insert a source row without a match: column to expression, null for the others."""
        return self._with(NotMatchedInsert(self._all_sql(values), self._sql(condition)))

    def when_not_matched_insert_all(self, condition: Expression | None = None) -> Self:
        """Insert a source row without a match, every column by its name."""
        return self._with(NotMatchedInsert(None, self._sql(condition)))

    def when_not_matched_by_source_update(
        self, set: Mapping[str, Expression], condition: Expression | None = None
    ) -> Self:
        """Update a target row without a match; expressions can name the target only."""
        return self._with(NotMatchedBySourceUpdate(self._all_sql(set), self._sql(condition)))

    def when_not_matched_by_source_delete(self, condition: Expression | None = None) -> Self:
        """Delete a target row without a match."""
        return self._with(NotMatchedBySourceDelete(self._sql(condition)))

    def execute(self) -> R:
        """Run the merge: at once, or with the other changes of its transaction."""
        validate_clauses(self._statement.when)
        return self._table._run(self._statement)

    def _sql(self, condition: Expression | None) -> str | None:
        return self._expressions.sql(condition)

    def _all_sql(self, values: Mapping[str, Expression]) -> dict[str, str]:
        return self._expressions.all_sql(values)

    def _with(self, clause: Clause) -> Self:
        when = (*self._statement.when, clause)
        return replace(self, _statement=replace(self._statement, when=when))
