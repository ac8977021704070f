"""Update and delete: rows chosen by a condition on the table alone."""

from collections.abc import Mapping

from pyspark import StorageLevel  # noqa: TID253
from pyspark.sql import DataFrame  # noqa: TID253
from pyspark.sql import functions as F  # noqa: TID253, N812

from airflow_hiveacid.engine.columns import all_columns, assignments, quoted
from airflow_hiveacid.engine.failures import spark_errors_as_ours
from airflow_hiveacid.engine.pruning import Scope, matching_partitions
from airflow_hiveacid.engine.reader import KEY, TableSnapshot
from airflow_hiveacid.engine.search import search_argument
from airflow_hiveacid.engine.types import spark_struct
from airflow_hiveacid.engine.write import Counts, Work
from airflow_hiveacid.jobs.phases import Phase

TARGET = "t"


def delete_rows(work: Work, where: str | None) -> Counts:
    """Delete the rows that meet a condition."""
    with work.phases(Phase.READ):
        snapshot = _snapshot(work, where)
        keys = _chosen(work, snapshot, where).select(*KEY)
    with work.phases(Phase.WRITE):
        work.output.write_deletes(keys, snapshot.partitions)
    return Counts(deleted=work.output.deletes)


def update_rows(work: Work, values: Mapping[str, str], where: str | None) -> Counts:
    """Change the rows that meet a condition: delete each and insert it anew."""
    table = work.table
    with work.phases(Phase.READ):
        snapshot = _snapshot(work, where)
        chosen = _chosen(work, snapshot, where)
        new = assignments(chosen, table, values, f"The update of {table.ref.full_name}")
        columns = [
            new.get(column.name, F.col(f"{TARGET}.{quoted(column.name)}")).alias(column.name)
            for column in all_columns(table)
        ]
        # Read once, used twice: the deletes and the inserts must speak of the same rows.
        changed = chosen.select(*KEY, *columns).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        with work.phases(Phase.READ), spark_errors_as_ours(f"The update of {table.ref.full_name}"):
            count = changed.count()
        with work.phases(Phase.WRITE):
            if count:
                names = [quoted(column.name) for column in all_columns(table)]
                work.output.write_deletes(changed.select(*KEY), snapshot.partitions)
                work.output.write_rows(changed.select(*names), gather=True)
    finally:
        changed.unpersist()
    return Counts(updated=count)


def _snapshot(work: Work, where: str | None) -> TableSnapshot:
    scope = Scope(work.table, TARGET)
    return work.snapshot(lambda found: matching_partitions(work.spark, where, scope, found))


def _chosen(work: Work, snapshot: TableSnapshot, where: str | None) -> DataFrame:
    if where is None:
        return snapshot.rows(work.spark).alias(TARGET)
    with spark_errors_as_ours(f"The condition {where!r}"):
        columns = spark_struct(work.table.columns)
        search = search_argument(
            work.spark, where, columns, spark_struct(work.table.partition_keys), TARGET
        )
        return snapshot.rows(work.spark, search).alias(TARGET).where(where)
