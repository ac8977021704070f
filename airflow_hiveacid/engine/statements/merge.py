"""Running a merge: what is looked at before the transaction, and what is read and written in it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_hiveacid.acid.names import partition_name
from airflow_hiveacid.engine.failures import spark_errors_as_ours
from airflow_hiveacid.engine.read.copies import Reading
from airflow_hiveacid.engine.read.kept_rows import keep_rows
from airflow_hiveacid.engine.read.nanoseconds import check_digits
from airflow_hiveacid.engine.read.pruning import (
    canonical_values,
    matching_partitions,
    partitions_of_source,
)
from airflow_hiveacid.engine.read.snapshot import KEY
from airflow_hiveacid.engine.statements.merge_join import CLAUSE, Merge, numbered
from airflow_hiveacid.engine.statements.source import SourceFrame
from airflow_hiveacid.engine.write.atomic_write import Preparation, Statement
from airflow_hiveacid.engine.write.context import Counts, Work, read_rows
from airflow_hiveacid.jobs.run_token import source_token
from airflow_hiveacid.metastore.catalog import HivePartition, HiveTable
from airflow_hiveacid.metastore.txn.transaction import Transaction
from airflow_hiveacid.progress import Phase

Describe = Callable[[SparkSession, HiveTable, DataFrame], Merge]

# A source that is smaller than this in memory is sent to every task instead of shuffling the target.
BROADCAST_BYTES = 64 * 1024 * 1024


def prepare_merge(
    found: Preparation,
    statement: Statement,
    source: SourceFrame,
    describe: Describe,
) -> Statement:
    """Prepare to merge a source into a table.

    The source is evaluated before anything is locked: where the condition ties the partitions to
    the source's rows, only those partitions are locked, and merges of others run side by side. Its
    rows belong to a transaction of their own, because the one that writes may have to begin anew.

    Args:
        found: What the merge is prepared with.
        statement: The table, and what else is known of the statement.
        source: The source.
        describe: Makes the merge of a session, a table and the numbered rows of the source.
    """
    spark, table = statement.spark, statement.table
    if source.acid_tables:
        return _merge_of_acid_source(found, statement, source, describe)
    token = found.options.run_token
    keeper = Transaction(
        found.client, keeps_files=True, run_token=None if token is None else source_token(token)
    )
    found.stack.enter_context(keeper)
    with found.phases(Phase.READ):
        merge = _of_kept(spark, table, source.frame(_no_acid_table), keeper, describe)
        locks = _touched_partitions(merge, table)
    return replace(statement, work=lambda work: _merge(work, merge, locks), partitions=locks)


def _merge_of_acid_source(
    found: Preparation,
    statement: Statement,
    source: SourceFrame,
    describe: Describe,
) -> Statement:
    """The rows of an ACID source are those of the write's own snapshot, taken after the locks.

    So the look before is only a guess at the partitions; the write begins anew with a lock on the
    whole table if it turns out wrong.
    """
    spark, table, client = statement.spark, statement.table, found.client
    with Transaction(client, reads=source.acid_tables) as look:
        rows = source.frame(lambda spark, read: read_rows(client, spark, read, look))
        merge = describe(spark, table, rows)
        with found.phases(Phase.READ):
            locks = _touched_partitions(merge, table)

    def work(work: Work) -> Counts:
        with work.phases(Phase.READ):
            rows = source.frame(work.read, work.shared)
            work.check_digits(rows)
            merge = _of_kept(spark, table, rows, work.txn, describe)
            touched = _touched_partitions(merge, table)
        work.require_locked(touched)
        return _merge(work, merge, touched)

    return replace(statement, work=work, reads=source.acid_tables, partitions=locks)


def _of_kept(
    spark: SparkSession, table: HiveTable, source: DataFrame, txn: Reading, describe: Describe
) -> Merge:
    """The merge of a source that is evaluated here, and nowhere else."""
    kept = keep_rows(numbered(source), spark, table, txn, "The source")
    return replace(describe(spark, table, kept.frame), small=kept.bytes <= BROADCAST_BYTES)


def _touched_partitions(merge: Merge, table: HiveTable) -> list[str] | None:
    """The partitions that the merge can touch, or None if the condition does not say."""
    keys: Mapping[str, str] | None = merge.partition_keys()
    if keys is None:
        return None
    return partitions_of_source(merge.source, merge.source_alias, keys, table)


def _merge(work: Work, merge: Merge, touched: Sequence[str] | None) -> Counts:
    def choose(partitions: Sequence[HivePartition]) -> Sequence[HivePartition]:
        if touched is not None:
            given = [partition.values for partition in partitions]
            values = canonical_values(work.spark, work.table, given)
            keys = [key.name for key in work.table.partition_keys]
            partitions = [
                partition
                for partition, canonical in zip(partitions, values, strict=True)
                if partition_name(keys, canonical) in touched
            ]
        if merge.plan.not_matched_by_source:
            # A row that cannot meet the condition is a row without a source.
            return partitions
        return matching_partitions(work.spark, merge.on, merge.scope, partitions)

    with work.phases(Phase.READ):
        snapshot = work.snapshot(choose)
        check_digits(work.spark, snapshot, "the merge", merge.kept_columns())
        pairs = merge.changes(snapshot.rows(work.spark))
        # Deletes, new rows and the rows of the source that met none must all speak of these.
        changes = keep_rows(pairs, work.spark, work.table, work.txn, "The merge").frame
        with spark_errors_as_ours("The merge"):
            acted = _rows_by_clause(changes)
            if merge.plan.checks_cardinality and any(clause >= 0 for clause in acted):
                merge.check_cardinality(changes)
    with work.phases(Phase.WRITE):
        if any(clause >= 0 for clause in acted):
            keys = changes.where(F.col(CLAUSE) >= 0).select(*KEY)
            work.output.write_deletes(keys, snapshot.partitions)
        if merge.plan.inserts_rows:
            work.output.write_rows(merge.new_rows(changes), gather=True)
    updating = set(merge.updating_clauses())
    updated = sum(count for clause, count in acted.items() if clause in updating)
    changed = sum(count for clause, count in acted.items() if clause >= 0)
    return Counts(work.output.rows - updated, updated, changed - updated)


def _rows_by_clause(changes: DataFrame) -> dict[int, int]:
    rows = changes.groupBy(CLAUSE).count().collect()
    return {row[CLAUSE]: row["count"] for row in rows}


def _no_acid_table(*_: object) -> DataFrame:
    raise AssertionError("the source has no ACID tables")
