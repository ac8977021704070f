"""MERGE: preparation before the transaction, and its reads and writes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hiveacid.errors import BadCondition, ConstraintViolated, TypeMismatch
from hiveacid.jobs.sources import Source
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.progress import Phase
from hiveacid.rules.locks import Operation
from hiveacid.rules.merge import Clause, MergePlan
from hiveacid.rules.partition_keys import equal_partitions, have_one_text
from hiveacid.spark.failures import translated_spark_errors
from hiveacid.spark.read.nanoseconds import check_nanoseconds
from hiveacid.spark.read.pruning import (
    called,
    matching_partitions,
    partitions_of_source,
)
from hiveacid.spark.read.table_reader import TableReader
from hiveacid.spark.statements.kept_source import KeptSource
from hiveacid.spark.statements.merge_join import SHOWN_DUPLICATES, MergeJoin
from hiveacid.spark.statements.schema_growth import SchemaGrowth
from hiveacid.spark.statements.source import SourceFrame
from hiveacid.spark.statements.source_plan import SourcePlan
from hiveacid.spark.statements.source_rows import SourceRows
from hiveacid.spark.statements.written_source import NEVER, SURE, SourceWriter
from hiveacid.spark.write.context import Counts, WriteContext
from hiveacid.spark.write.row_ids import SOURCE_ROW
from hiveacid.spark.write.statement import Preparation, Statement
from hiveacid.storage.hidden_folder import ReadingTransaction


@dataclass(eq=False)
class MergeStatement(Statement):
    """A merge of a source into a table.

    Attributes:
        source: The rows to compare with; evaluated once.
        on: The condition for matching a source row with a target row.
        clauses: The actions, with their conditions.
        source_alias: The source's name in expressions.
        target_alias: The target's name in expressions.
        merge_schema: Add columns to the table that only the source has and that a clause uses.
    """

    source: DataFrame | Source
    on: str
    clauses: Sequence[Clause]
    source_alias: str = "s"
    target_alias: str = "t"
    merge_schema: bool = False
    _source: SourceFrame = field(init=False, repr=False)
    # The rows of a source that is the same under every snapshot.
    _rows: SourceRows | None = field(init=False, repr=False, default=None)
    _touched: Sequence[str] | None = field(init=False, repr=False, default=None)
    # The source rows of the run.
    _merged: SourceRows | None = field(init=False, repr=False, default=None)

    @property
    def operation(self) -> Operation:
        """Merge."""
        return Operation.MERGE

    @property
    def changes_single_rows(self) -> bool:
        """A merge changes single rows."""
        return True

    @property
    def depends_on_new_rows(self) -> bool:
        """Whether new rows matter: to inserts, or to clauses for rows without a source."""
        plan = MergePlan.of(self.clauses)
        return bool(plan.not_matched or plan.not_matched_by_source)

    def would_act_on(self, context: WriteContext, rows: DataFrame) -> bool:
        """Whether a row would have matched the source, or been changed without a source row."""
        assert self._merged is not None
        if self._merged.join.plan.not_matched_by_source:
            return bool(rows.take(1))
        return bool(self._merged.pairs(context, rows).take(1))

    def prepare(self, preparation: Preparation) -> None:
        """Look up the source, and determine from its rows the partitions that can be changed.

        If the condition ties the partitions to the source's rows, only those partitions are locked,
        and concurrent merges of other partitions are possible.
        """
        self._source = SourceFrame(
            preparation.spark, preparation.client, self.source, preparation.batch
        )
        self.look_up(preparation)
        self.declared.look_up(preparation.client, self.table)
        if self.merge_schema:
            self._grow(preparation)
        if self._source.acid_tables:
            self._estimate_partitions(preparation)
        else:
            self._keep_source(preparation)
        self.partitions = self._touched
        if self._touched is not None and not have_one_text(self.table.key_types.values()):
            names = partial(preparation.client.get_partition_names, self.target)
            self.partitions = _existing(self.spark, self.table, self._touched, names)

    def stage(self, context: WriteContext) -> Counts:
        """Stage the deletes and the new rows."""
        source = self._rows
        with context.phases(Phase.READ, "the rows that match"):
            if source is None:
                rows = self._source.frame(context.reader, context.shared)
                context.check_nanoseconds(rows)
                source = self._evaluated(rows, context.txn)
            join, self._merged = source.join, source
            names = context.partition_names
            touched = _existing(context.spark, context.table, source.touched, names)
            context.require_locked(touched)
            snapshot = context.snapshot(_matching(context, join, touched))
            check_nanoseconds(context.spark, snapshot, "the merge", join.kept_columns())
            with translated_spark_errors("The merge"):
                found = source.find(context, snapshot)
                acted = found.by_clause()
                acts = any(clause >= 0 for clause in acted)
                if acts and (repeated := found.repeated(SHOWN_DUPLICATES + 1)):
                    join.refuse(repeated, snapshot)
        with context.phases(Phase.WRITE, "the changes"), translated_spark_errors("The merge"):
            if acts:
                found.write_deletes(context.output, snapshot.partitions)
            source.write(context, found)
        updating = set(join.updating_clauses())
        updated = sum(count for clause, count in acted.items() if clause in updating)
        changed = sum(count for clause, count in acted.items() if clause >= 0)
        return Counts(context.output.rows - updated, updated, changed - updated)

    def _grow(self, preparation: Preparation) -> None:
        """Add the columns that clauses use, after checking that the merge is valid with them."""
        empty = self._source.empty()
        nothing = empty.withColumn(SOURCE_ROW, F.lit(0).cast("bigint"))
        taken = self._join_with(self.table, nothing).columns_taken()
        growth = SchemaGrowth(self.table, empty.schema, taken)
        self._join_with(growth.grown(preparation), nothing).check()
        self.table = growth.made(preparation)

    def _keep_source(self, preparation: Preparation) -> None:
        """Evaluate the source before locks are acquired.

        Its rows belong to a separate transaction, since the writing transaction may restart.
        """
        token = preparation.options.source_token
        keeper = Transaction(preparation.client, keeps_files=True, run_token=token)
        preparation.stack.enter_context(keeper)
        with preparation.phases(Phase.READ, "the source"):
            self._rows = self._evaluated(self._source.frame(reader=None), keeper)
            self._touched = self._rows.touched

    def _estimate_partitions(self, preparation: Preparation) -> None:
        """Estimate the partitions by a read of transactional sources.

        The final rows are those of the write's own snapshot, taken after the locks: if the estimate
        is wrong, the write restarts with a lock on the whole table.
        """
        self.reads = self._source.acid_tables
        token = preparation.options.source_token
        with Transaction(preparation.client, reads=self.reads, run_token=token) as estimate:
            rows = self._source.frame(TableReader(preparation.client, estimate))
            with preparation.phases(Phase.READ, "the partitions of the source"):
                self._touched = _touched_partitions(self._join_with(self.table, rows))

    def _evaluated(self, source: DataFrame, txn: ReadingTransaction) -> SourceRows:
        """Evaluate the source, once, and return its rows."""
        join = self._join_with(self.table, source)
        plan = SourcePlan.of(join)
        if plan is None:
            return KeptSource.of(join, txn)
        writer = SourceWriter(join, plan, self.codec, self.rules)
        try:
            return writer.write(txn)
        except (TypeMismatch, BadCondition, ConstraintViolated):
            if writer.fate in (SURE, NEVER):
                raise
            # The invalid row may be one that is never written, whose values are irrelevant.
            return KeptSource.of(join, txn)

    def _join_with(self, table: HiveTable, rows: DataFrame) -> MergeJoin:
        rules = self.declared.of(table)
        return MergeJoin(
            self.spark,
            table,
            rows,
            self.on,
            MergePlan.of(self.clauses).with_defaults(rules),
            self.target_alias,
            self.source_alias,
            some_columns=self.merge_schema,
            rules=rules,
        )


def _touched_partitions(join: MergeJoin) -> list[str] | None:
    """The partitions that the merge can change; None if the condition does not determine them."""
    keys = join.partition_keys()
    if keys is None:
        return None
    return partitions_of_source(join.source, join.source_alias, keys, join.table)


def _existing(
    spark: SparkSession,
    table: HiveTable,
    touched: Sequence[str] | None,
    partition_names: Callable[[], Sequence[str]],
) -> Sequence[str] | None:
    """The partitions to read for some values, and those that new rows with these values go into.

    Args:
        spark: A session.
        table: The table.
        touched: The canonical names of partitions; None if unknown.
        partition_names: Returns the names of the existing partitions.
    """
    if touched is None or all(key.type == "string" for key in table.partition_keys):
        # Such values have one text, so that the other partition names are not needed.
        return touched
    names = partition_names()
    equal = equal_partitions(touched, names, table.key_types)
    written = [name for name, found in equal.items() if not found]
    return sorted({*called(spark, table, touched, names), *written})


def _matching(
    context: WriteContext, join: MergeJoin, touched: Sequence[str] | None
) -> Sequence[str]:
    """The names of the partitions to read."""
    names = context.partition_names() if touched is None else touched
    if join.plan.not_matched_by_source:
        # A row that cannot satisfy the condition is a row without a source.
        return names
    return matching_partitions(context.spark, join.on, join.scope, names)
