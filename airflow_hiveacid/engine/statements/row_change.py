"""Update and delete: rows chosen by a condition, which may have subqueries."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_hiveacid.engine.failures import spark_errors_as_ours
from airflow_hiveacid.engine.read.kept_rows import keep_rows
from airflow_hiveacid.engine.read.nanoseconds import check_digits
from airflow_hiveacid.engine.read.pruning import Scope, matching_partitions, without_subqueries
from airflow_hiveacid.engine.read.search import search_argument
from airflow_hiveacid.engine.read.snapshot import KEY, TableSnapshot
from airflow_hiveacid.engine.rows.columns import all_columns, assignments, quoted
from airflow_hiveacid.engine.statements.source import SourceInputs
from airflow_hiveacid.engine.write.context import Counts, Work
from airflow_hiveacid.metastore.catalog import HiveTable
from airflow_hiveacid.progress import Phase


@dataclass(frozen=True)
class Choice:
    """Which rows of a table are changed.

    Attributes:
        where: The condition; None is all of them.
        alias: The table's name in the condition and in expressions.
        inputs: What subqueries read; they are views of the session that reads the table.
    """

    where: str | None
    alias: str
    inputs: SourceInputs

    def scope(self, table: HiveTable) -> Scope:
        """The names that the condition can use."""
        return Scope(table, self.alias)

    def rows(self, work: Work, snapshot: TableSnapshot) -> DataFrame:
        """The rows with their keys."""
        self.inputs.register(work.read, work.shared)
        if self.where is None:
            return snapshot.rows(work.spark).alias(self.alias)
        with spark_errors_as_ours(f"The condition {self.where!r}"):
            # A filter inside of a subquery is none of the table.
            own = without_subqueries(work.spark, self.where)
            search = own and search_argument(
                work.spark,
                own,
                work.table.columns,
                work.table.partition_keys,
                self.alias,
            )
            rows = snapshot.rows(work.spark, search or None)
            return rows.alias(self.alias).where(self.where)


def delete_rows(work: Work, choice: Choice) -> Counts:
    """Delete the chosen rows."""
    with work.phases(Phase.READ):
        snapshot = _snapshot(work, choice)
        keys = choice.rows(work, snapshot).select(*KEY)
    with work.phases(Phase.WRITE):
        work.output.write_deletes(keys, snapshot.partitions)
    return Counts(deleted=work.output.deletes)


def update_rows(work: Work, values: Mapping[str, str], choice: Choice) -> Counts:
    """Change the chosen rows: delete each and insert it anew."""
    table = work.table
    with work.phases(Phase.READ):
        snapshot = _snapshot(work, choice)
        set_ = {name.strip("`").lower() for name in values}
        kept = {column.name.lower() for column in table.columns} - set_
        check_digits(work.spark, snapshot, "the update", kept)
        chosen = choice.rows(work, snapshot)
        new = assignments(chosen, table, values, f"The update of {table.ref.full_name}")
        columns = [
            new.get(column.name, F.col(f"{choice.alias}.{quoted(column.name)}")).alias(column.name)
            for column in all_columns(table)
        ]
        # Evaluated once, used twice: deletes and new rows must speak of the same rows.
        changed = keep_rows(
            chosen.select(*KEY, *columns),
            work.spark,
            table,
            work.txn,
            f"The update of {table.ref.full_name}",
        )
    with work.phases(Phase.WRITE):
        if changed.rows:
            names = [quoted(column.name) for column in all_columns(table)]
            work.output.write_deletes(changed.frame.select(*KEY), snapshot.partitions)
            work.output.write_rows(changed.frame.select(*names), gather=True)
    return Counts(updated=changed.rows)


def _snapshot(work: Work, choice: Choice) -> TableSnapshot:
    scope = choice.scope(work.table)
    return work.snapshot(lambda found: matching_partitions(work.spark, choice.where, scope, found))
