"""A query on a table: some rows and columns, reading as little as possible."""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from airflow_hiveacid.acid.as_of import AsOf
from airflow_hiveacid.engine.failures import spark_errors_as_ours
from airflow_hiveacid.engine.read.acid_snapshot import AcidSnapshot
from airflow_hiveacid.engine.read.pruning import Scope, matching_partitions, without_subqueries
from airflow_hiveacid.engine.read.search_argument import argument_of, filters_of
from airflow_hiveacid.engine.read.spark_trees import column_names, has_subquery, kind, nodes, parsed
from airflow_hiveacid.engine.read.value_pruning import files_with, values_of
from airflow_hiveacid.engine.rows.columns import all_columns, quoted
from airflow_hiveacid.errors import UnknownColumn
from airflow_hiveacid.metastore.catalog import HiveTable

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
        known = {column.name.lower() for column in all_columns(table)}
        unknown = [name for name in self.columns or () if name.lower() not in known]
        if unknown:
            raise UnknownColumn(
                f"{table.ref.full_name} has no column {', '.join(unknown)}.",
                remedy=f"Its columns are {', '.join(c.name for c in all_columns(table))}.",
            )

    def partitions(self, spark: SparkSession, table: HiveTable, names: Sequence[str]) -> list[str]:
        """The partitions that must be read, among all given names."""
        return matching_partitions(spark, self.where, Scope(table, _ALIAS), names)

    def rows_of(self, spark: SparkSession, snapshot: AcidSnapshot) -> DataFrame:
        """Return the rows of a full ACID table, reading as few files and columns as possible.

        Stripes are skipped, too.

        Args:
            spark: A session made by ``scan_session``.
            snapshot: The visible files.
        """
        table = snapshot.table
        if (needed := self._needed(spark)) is not None:
            snapshot = snapshot.of_columns(needed)
        search = None
        if self.where is not None:
            with spark_errors_as_ours(f"The condition {self.where!r}"):
                # A filter inside of a subquery does not apply to the table.
                own = without_subqueries(spark, self.where)
                filters = own and filters_of(
                    spark, own, table.columns, table.partition_keys, _ALIAS
                )
            if filters:
                snapshot = files_with(snapshot, values_of(filters, table.columns))
                search = argument_of(spark, filters, table.columns)
        return self.chosen(snapshot.rows(spark, search, with_key=False))

    def chosen(self, rows: DataFrame) -> DataFrame:
        """Apply the condition and the column list to rows."""
        if self.where is not None:
            with spark_errors_as_ours(f"The condition {self.where!r}"):
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
