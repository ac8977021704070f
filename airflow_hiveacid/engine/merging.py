"""Running a merge: what is looked at before the transaction, and what is read and written in it."""

from collections.abc import Callable, Mapping, Sequence

from pyspark import StorageLevel  # noqa: TID253
from pyspark.sql import DataFrame  # noqa: TID253
from pyspark.sql import functions as F  # noqa: TID253, N812

from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.acid.merge import MergePlan
from airflow_hiveacid.engine.failures import spark_errors_as_ours
from airflow_hiveacid.engine.merge import CLAUSE, Merge, number_rows
from airflow_hiveacid.engine.pruning import (
    canonical_names,
    matching_partitions,
    partitions_of_source,
)
from airflow_hiveacid.engine.reader import KEY
from airflow_hiveacid.engine.source import SourceFrame
from airflow_hiveacid.engine.write import Counts, Work, Write, read_snapshot
from airflow_hiveacid.jobs.phases import Phase
from airflow_hiveacid.jobs.report import RunReport
from airflow_hiveacid.metastore.catalog import HivePartition
from airflow_hiveacid.metastore.transaction import Transaction

BeginWrite = Callable[[Sequence[TableRef]], Write]


def merge_rows(
    begin: BeginWrite, source: SourceFrame, on: str, plan: MergePlan, aliases: tuple[str, str]
) -> RunReport:
    """Merge a source into a table.

    The source is looked at before anything is locked: where the condition ties the partitions to
    the source's rows, only those partitions are locked, and merges of others run side by side.

    Args:
        begin: Prepares the write, given the tables it reads.
        source: The source.
        on: The merge condition.
        plan: The clauses.
        aliases: The names of target and source.
    """
    write = begin(source.acid_tables)
    if source.acid_tables:
        return _merge_of_acid_source(write, source, on, plan, aliases)
    with write.phases(Phase.READ):
        rows = number_rows(source.frame(_no_acid_table))
    try:
        with write.phases(Phase.READ):
            merge = Merge(write.spark, write.table, on, plan, rows, *aliases)
            locks = _touched_partitions(write, merge)
        return write.locking(locks).run(lambda work: _merge(work, merge, locks))
    finally:
        rows.unpersist()


def _merge_of_acid_source(
    write: Write, source: SourceFrame, on: str, plan: MergePlan, aliases: tuple[str, str]
) -> RunReport:
    """The rows of an ACID source are those of the write's own snapshot, taken after the locks.

    So the look before is only a guess at the partitions; the write begins anew with a lock on the
    whole table if it turns out wrong.
    """
    with Transaction(write.client, reads=source.acid_tables) as look:
        rows = source.frame(
            lambda spark, table: read_snapshot(write.client, table, look).rows(
                spark, with_key=False
            )
        )
        merge = Merge(write.spark, write.table, on, plan, rows, *aliases)
        with write.phases(Phase.READ):
            locks = _touched_partitions(write, merge)

    def work(found: Work) -> Counts:
        with found.phases(Phase.READ):
            rows = number_rows(source.frame(found.read))
        try:
            merge = Merge(write.spark, write.table, on, plan, rows, *aliases)
            touched = _touched_partitions(write, merge)
            found.require_locked(touched)
            return _merge(found, merge, touched)
        finally:
            rows.unpersist()

    return write.locking(locks).run(work)


def _touched_partitions(write: Write, merge: Merge) -> list[str] | None:
    """The partitions that the merge can touch, or None if the condition does not say."""
    keys: Mapping[str, str] | None = merge.partition_keys()
    if keys is None:
        return None
    return partitions_of_source(merge.source, merge.source_alias, keys, write.table)


def _merge(work: Work, merge: Merge, touched: Sequence[str] | None) -> Counts:
    def choose(partitions: Sequence[HivePartition]) -> Sequence[HivePartition]:
        if touched is not None:
            names = canonical_names(work.spark, work.table, partitions)
            partitions = [
                partition
                for partition, name in zip(partitions, names, strict=True)
                if name in touched
            ]
        if merge.plan.not_matched_by_source:
            # A row that cannot meet the condition is a row without a source.
            return partitions
        return matching_partitions(work.spark, merge.on, merge.scope, partitions)

    with work.phases(Phase.READ):
        snapshot = work.snapshot(choose)
        changes = merge.changes(snapshot.rows(work.spark))
        changes = changes.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        with work.phases(Phase.READ), spark_errors_as_ours("The merge"):
            acted = _rows_by_clause(changes)
            if merge.plan.checks_cardinality and any(clause >= 0 for clause in acted):
                merge.check_cardinality(changes)
        with work.phases(Phase.WRITE):
            if any(clause >= 0 for clause in acted):
                keys = changes.where(F.col(CLAUSE) >= 0).select(*KEY)
                work.output.write_deletes(keys, snapshot.partitions)
            if merge.plan.inserts_rows:
                work.output.write_rows(merge.new_rows(changes), gather=True)
    finally:
        changes.unpersist()
    updating = set(merge.updating_clauses())
    updated = sum(count for clause, count in acted.items() if clause in updating)
    changed = sum(count for clause, count in acted.items() if clause >= 0)
    return Counts(work.output.rows - updated, updated, changed - updated)


def _rows_by_clause(changes: DataFrame) -> dict[int, int]:
    rows = changes.groupBy(CLAUSE).count().collect()
    return {row[CLAUSE]: row["count"] for row in rows}


def _no_acid_table(*_: object) -> DataFrame:
    raise AssertionError("the source has no ACID tables")
