"""MERGE: preparation before the transaction, and its reads and writes.

If all values of a merge come from the source, the new rows do not depend on the target. They are
written first, and these files then replace the source: only the columns for matching rows are read
again, and joined with the same few columns of the target. The result determines the rows to keep.
In nearly all merges, every row is kept once; otherwise the files where this is not the case are
written a second time. All other sources are kept as rows, and new rows follow the matches.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hiveacid.dataclass import dataclass
from hiveacid.errors import CheckFailed, InvalidJob, TypeMismatch
from hiveacid.jobs.sources import Source
from hiveacid.metastore.catalog import HiveTable, layout_of
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.plan.merge import MergeChange, MergeText, RowAction
from hiveacid.progress import Phase
from hiveacid.rules.constraints import WriteRules
from hiveacid.rules.locks import Operation
from hiveacid.rules.merge import (
    SHOWN_DUPLICATES,
    adds_rows,
    columns_taken,
    depends_on_new_rows,
)
from hiveacid.rules.partitions import equal_partitions, have_one_text
from hiveacid.rules.sql_names import quoted
from hiveacid.spark.failures import translated_spark_errors
from hiveacid.spark.own_columns import own_column
from hiveacid.spark.read.acid_snapshot import KEY, AcidSnapshot
from hiveacid.spark.read.kept_rows import KeptRows, keep_rows
from hiveacid.spark.read.nanoseconds import check_nanoseconds
from hiveacid.spark.read.pruning import (
    called,
    matching_partitions,
    partitions_of_source,
    tied_partition_columns,
)
from hiveacid.spark.read.table_reader import TableReader
from hiveacid.spark.read.value_pruning import ColumnValues, only_with
from hiveacid.spark.rows.columns import all_columns, as_operand, select_as, select_texts, without
from hiveacid.spark.rows.conversion import stored
from hiveacid.spark.session import evaluating_session, in_session
from hiveacid.spark.statements.engine import SparkStatement, engine_of, reader_of, rows_of_others
from hiveacid.spark.statements.insert import SchemaGrowth
from hiveacid.spark.statements.merge_join import MergeJoin, numbered
from hiveacid.spark.statements.source import (
    BROADCAST_BYTES,
    SourceFrame,
    SourceRows,
    grouped,
    hidden_folder,
    is_scattered,
)
from hiveacid.spark.statements.source_plan import SourcePlan, equal_columns
from hiveacid.spark.write.flat_rows import FATE, AcidRowFiles, FlatRows, FlatRowsWriter, write_flat
from hiveacid.spark.write.row_ids import (
    CLAUSE,
    INSERTED,
    SOURCE_ROW,
    RowIds,
    RowSearch,
    Writes,
    written_row_ids,
)
from hiveacid.storage.hidden_folder import ReadingTransaction
from hiveacid.storage.staging import FlatFile
from hiveacid.writes.output import LOCAL_BYTES
from hiveacid.writes.statement import Counts, Preparation, RowsOfOthers, WriteContext

# A merge source with unchanged rows in files, for merges that depend on the target's rows


_WRITTEN, _NOT_WRITTEN = "written", "not"


@dataclass(eq=False)
class KeptSource(SourceRows):
    """Numbered rows in files.

    Matching pairs of rows are found by a join with the target's own columns. The rows of updates
    are written by the same pass over the target that finds their row ids.

    Attributes:
        join: The merge, its source the rows in the files.
        partitions: The names of the partitions that the rows can change; None if unknown.
        kept: The files.
    """

    join: MergeJoin
    partitions: Sequence[str] | None
    kept: KeptRows
    _updated: FlatRows | None = None

    @classmethod
    def of(cls, join: MergeJoin, txn: ReadingTransaction) -> "KeptSource":
        """Evaluate the source of a merge; the files belong to a transaction."""
        kept_rows = keep_rows(numbered(join.source), join.spark, join.table, txn, "The source")
        join = replace(join, source=kept_rows.frame, small=kept_rows.bytes <= BROADCAST_BYTES)
        keys = join.ties
        if keys is None:
            return cls(join, None, kept_rows)
        partitions = partitions_of_source(kept_rows.frame, join.source_alias, keys, join.table)
        return cls(join, partitions, kept_rows)

    def has_rows(self) -> bool:
        """See the base class."""
        return self.kept.rows > 0

    def find(self, context: WriteContext, snapshot: AcidSnapshot) -> RowIds:
        """Find the target rows that a clause changes, and write the new rows of updates."""
        snapshot, where = only_with(snapshot, self._values_of_target())
        pairs = self.join.changes(snapshot.rows(self.join.spark, where=where))
        names = [*KEY, CLAUSE, SOURCE_ROW]
        updating = self.join.change.updating
        if not updating:
            return RowSearch(snapshot, context.txn, "The merge").evaluated(pairs.select(*names))
        fate = F.when(F.col(CLAUSE).isin(updating), _WRITTEN).otherwise(_NOT_WRITTEN)
        columns, keys = context.table.columns, context.table.partition_keys
        frame = pairs.withColumn(FATE, fate).select(
            *[quoted(column.name) for column in columns],
            *names,
            *[quoted(key.name) for key in keys],
            FATE,
        )
        self._updated = write_flat(
            frame,
            context.output.flat_target(),
            has_fate=True,
            scattered=is_scattered(snapshot),
            condition_of_rows=f"{FATE} = '{_WRITTEN}'",
        )
        return written_row_ids(self._updated, self.join.spark, names)

    def pairs(self, rows: DataFrame) -> DataFrame:
        """Join some rows of the target with the matching rows of the source."""
        return self.join.pairs(rows)

    def _values_of_target(self) -> list[ColumnValues]:
        """Values that target columns must have in rows that match the source."""
        if self.kept.bytes > LOCAL_BYTES:
            return []
        return [
            ColumnValues(column, self.kept.values(field.name))
            for column, field in equal_columns(self.join)
        ]

    def write(self, context: WriteContext, matches: RowIds) -> None:
        """Stage the new rows."""
        files = (
            [file for file in self._updated.files if file.fate == _WRITTEN] if self._updated else []
        )
        if self.join.change.not_matched:
            partners = matches.partners(self.join.spark, self.join.change.updating)
            new = self.join.inserted(partners)
            names = [quoted(column.name) for column in all_columns(context.table)]
            target = context.output.flat_target()
            files += write_flat(new.select(*names), target, scattered=True).files
        context.output.take(grouped(files), width=len(context.table.columns))


# A merge source whose rows are written directly in the table's format


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
        matched, inserts = self.join.change.matched, self.join.change.not_matched
        if self.plan.values is None:
            return NEVER
        if not self.plan.decided:
            return OPEN
        if _are_conditional((*matched, *inserts)):
            return None
        updates = bool(matched) and matched[0].values is not None
        return SURE if updates and inserts else OPEN

    def write(self, txn: ReadingTransaction) -> "WrittenSource":
        """Evaluate the source; the files belong to a transaction."""
        join, table = self.join, self.join.table
        rows = in_session(join.source, join.spark).alias(join.source_alias)
        with translated_spark_errors("A condition of the merge"):
            if self._clause_differs:
                rows = rows.withColumn(CLAUSE, F.expr(join.first_clause(join.change.matched)))
            if self._inserts_some:
                inserted = f"{join.first_clause(join.change.not_matched)} >= 0"
                rows = rows.withColumn(INSERTED, F.expr(inserted))
        if self.fate is None:
            rows = rows.withColumn(FATE, F.expr(self._fate_of_row()))
        if self.omits_rows:
            counts = f"{FATE} <> '{NEVER}'" if self.fate is None else str(self.fate != NEVER)
            rows = rows.where(f"{counts} OR {self._clause()} >= 0")
        keys = join.ties
        tied = None if keys is None else tied_partition_columns(rows, keys, table)
        columns = self._columns(rows, tied)
        selection = select_as(rows, columns)
        selection = in_session(selection, evaluating_session(join.source.sparkSession))
        files = AcidRowFiles(table, self.codec)
        writer = FlatRowsWriter(table, files, layout_of(table), self.rules)
        folder = hidden_folder(table, txn)
        if self.fate == NEVER:
            by = [] if tied is None else [key.name for key in table.partition_keys]
            flat = writer.write(selection, folder, by)
        else:
            # A row that may never be written also fails here: its merge then keeps the source.
            has_fate = self.fate is None
            condition = f"{FATE} <> '{NEVER}'" if has_fate else None
            flat = writer.write_rows(
                selection, folder, has_fate=has_fate, condition_of_rows=condition
            )
        partitions = None if tied is None else sorted({file.partition or "" for file in flat.files})
        return WrittenSource(join, partitions, self, flat)

    def clause_of_match(self, is_pair: str) -> str:
        """The number of the clause that changes a target row, for a join with the files."""
        return self.join.clause_of_match(is_pair, self._clause() if self.plan.decided else None)

    @property
    def omits_rows(self) -> bool:
        """Whether rows that no clause concerns are not written."""
        return self.plan.decided and not self.join.change.not_matched_by_source

    @property
    def inserted(self) -> bool | None:
        """Whether unmatched rows are inserted; None if the column INSERTED determines it."""
        return None if self._inserts_some else bool(self.join.change.not_matched)

    @property
    def extra_columns(self) -> list[str]:
        """The columns of the files behind those of the table, except those for the join."""
        extra = [CLAUSE] * self._clause_differs + [INSERTED] * self._inserts_some
        return extra + [SOURCE_ROW] * (self.plan.values is not None)

    @property
    def _clause_differs(self) -> bool:
        return self.plan.decided and _are_conditional(self.join.change.matched)

    @property
    def _inserts_some(self) -> bool:
        return _are_conditional(self.join.change.not_matched)

    def _clause(self) -> str:
        """The clause for a pair, if the source determines it."""
        if self._clause_differs:
            return CLAUSE
        return "0" if self.join.change.matched else "-1"

    def _fate_of_row(self) -> str:
        updating = ", ".join(map(str, self.join.change.updating))
        updates = f"{self._clause()} IN ({updating})" if updating else "FALSE"
        inserts = INSERTED if self._inserts_some else str(self.inserted)
        return (
            f"CASE WHEN {updates} AND {inserts} THEN '{SURE}' "
            f"WHEN NOT ({updates}) AND NOT {inserts} THEN '{NEVER}' ELSE '{OPEN}' END"
        )

    def _columns(self, rows: DataFrame, tied: Mapping[str, str] | None) -> dict[str, str]:
        """The table's columns, the additional columns, and those that become folders."""
        alias, table = self.join.source_alias, self.join.table
        extra = {
            column.stored_name: column.encoded(alias)
            for column in self.plan.columns
            if column.carried
        }
        for name in self.extra_columns:
            extra[name] = "monotonically_increasing_id()" if name == SOURCE_ROW else name
        if self.plan.values is None:
            return {**extra, **(tied or {})}
        actions = (*self.join.change.matched, *self.join.change.not_matched)
        subject = next(action.what for action in actions if action.values is not None)
        values = stored(rows, self.plan.values, table, subject)
        if self.fate is None:
            # Rows that are never written may have values that cannot be stored.
            stored_names = {column.stored_name for column in self.plan.columns}
            is_written = f"{FATE} <> '{NEVER}'"
            values = {
                name: value
                if name in stored_names
                else f"CASE WHEN {is_written} THEN {as_operand(value)} END"
                for name, value in values.items()
            }
            for name, key in (tied or {}).items():
                unwritten = f"CASE WHEN NOT {is_written} THEN {key} END"
                values[name] = f"coalesce({as_operand(values[name])}, {unwritten})"
        columns = {column.name: values[column.name] for column in table.columns}
        keys = {key.name: values[key.name] for key in table.partition_keys}
        fate = {FATE: FATE} if self.fate is None else {}
        return {**columns, **extra, **keys, **fate}


@dataclass(eq=False)
class WrittenSource(SourceRows):
    """Rows in files, in the table's format.

    Attributes:
        join: The merge.
        partitions: The names of the partitions that the rows can change; None if unknown.
        writer: The writer of the files.
        rows: The files.
    """

    join: MergeJoin
    partitions: Sequence[str] | None
    writer: SourceWriter
    rows: FlatRows

    def has_rows(self) -> bool:
        """See the base class; of a source whose rows are all omitted, nothing is changed anyway."""
        if self.rows.rows:
            return True
        with translated_spark_errors("The source"):
            return self.writer.omits_rows and bool(self.join.source.take(1))

    def find(self, context: WriteContext, snapshot: AcidSnapshot) -> RowIds:
        """Find the target rows that a clause changes, and the source rows with a match."""
        join, plan, spark = self.join, self.writer.plan, self.join.spark
        is_pair = f"coalesce({_IS_PAIR}, FALSE)"
        narrow_join = replace(
            join,
            source=self._joined(f"TRUE AS {_IS_PAIR}"),
            small=self.rows.bytes <= BROADCAST_BYTES,
        )
        fewer, where = only_with(snapshot, self._values_of_target())
        narrow = fewer.of_columns(plan.target_columns)
        rows = RowSearch(fewer, context.txn, "The merge")
        target = narrow.rows(spark, where=where)
        with translated_spark_errors("A condition of the merge"):
            pairs = narrow_join.pairs(target).withColumn(
                CLAUSE, F.expr(self.writer.clause_of_match(is_pair))
            )
        numbers = [SOURCE_ROW] if SOURCE_ROW in self.writer.extra_columns else []
        pairs = join.with_other_clauses(pairs, is_pair, CLAUSE, _IS_PAIR, *numbers)
        pairs = pairs.where(join.matters(is_pair))
        if join.change.matched or join.change.not_matched_by_source:
            return rows.evaluated(select_texts(pairs, [*KEY, CLAUSE, *numbers]))
        return rows.evaluated(pairs.select(CLAUSE, *numbers).distinct())

    def pairs(self, rows: DataFrame) -> DataFrame:
        """Join some rows of the target with the matching rows of the source."""
        narrow = rows.select(*self.writer.plan.target_columns)
        return replace(self.join, source=self._joined()).pairs(narrow)

    def write(self, context: WriteContext, matches: RowIds) -> None:
        """Stage the rows to keep."""
        if self.writer.fate == NEVER:
            return
        files = [file for file in self.rows.files if file.fate != NEVER]
        updating = self.join.change.updating
        writes = Writes(files, self.writer.inserted)
        rewritten = matches.files_to_rewrite(self.rows, writes, updating)
        final = [file for file in files if file not in rewritten]
        if rewritten:
            partners = matches.partners(self.join.spark, updating)
            repeated_rows = self._counted(context, rewritten, writes, partners)
            final += write_flat(repeated_rows, context.output.flat_target()).files
        context.output.take(grouped(final), width=len(context.table.columns))

    def _values_of_target(self) -> list[ColumnValues]:
        """Values that target columns must have in rows that match the source."""
        equal = self.writer.plan.equal
        names = [source_column.stored_name for _, source_column in equal]
        if not equal or self.rows.bytes > LOCAL_BYTES:
            return []
        tables = self.rows.columns(list(dict.fromkeys(names)), self.rows.files)
        if not tables:
            return []
        values = pa.concat_tables(tables)
        return [
            ColumnValues(column, source_column.arrow(values[source_column.stored_name]))
            for column, source_column in equal
        ]

    def _joined(self, *further_columns: str) -> DataFrame:
        """The columns for matching rows, and the additional columns."""
        columns = self.writer.plan.columns
        extra = [name for name in self.writer.extra_columns if name != INSERTED]
        rows = self.rows.frame(
            self.join.spark, [*[column.stored_name for column in columns], *extra]
        )
        return select_texts(
            rows, [*[column.decoded() for column in columns], *extra, *further_columns]
        )

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
        extra_names = [name for name in self.writer.extra_columns if name != CLAUSE]
        rows = self.rows.frame(self.join.spark, [*names, *extra_names], files, table)
        repeated_rows = rows.join(partners, SOURCE_ROW, "left").withColumn(_TIMES, writes.times())
        repeated_rows = repeated_rows.where(f"{_TIMES} > 0")
        copies = f"explode(array_repeat(1, CAST({_TIMES} AS INT)))"
        columns = [quoted(column.name) for column in all_columns(table)]
        return select_texts(select_texts(repeated_rows, [*columns, copies]), columns)


def _are_conditional(actions: Sequence[RowAction]) -> bool:
    return any(action.condition is not None for action in actions)


@dataclass(eq=False)
class MergeStatement(SparkStatement):
    """A merge of a source into a table.

    Attributes:
        source: The rows to compare with; evaluated once.
        merge: The condition and the clauses, in Spark's SQL.
    """

    source: DataFrame | Source
    merge: MergeText
    _source: SourceFrame = field(init=False, repr=False)
    # The rows of a source that is the same under every snapshot.
    _rows: SourceRows | None = field(init=False, repr=False, default=None)
    _source_partitions: Sequence[str] | None = field(init=False, repr=False, default=None)
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
    def adds_rows(self) -> bool:
        """See ``hiveacid.rules.merge``."""
        return adds_rows(self.merge.when)

    @property
    def depends_on_new_rows(self) -> bool:
        """See ``hiveacid.rules.merge``."""
        return depends_on_new_rows(self.merge.when)

    def would_act_on(self, context: WriteContext, rows: RowsOfOthers) -> bool:
        """Whether a row would have matched the source, or been changed without a source row."""
        assert self._merged is not None
        new_rows = rows_of_others(self.spark, rows)
        if self._merged.join.change.not_matched_by_source:
            matching = new_rows
        else:
            matching = self._merged.pairs(new_rows)
        with translated_spark_errors(f"Comparing {self.target.full_name} with concurrent writes"):
            return bool(matching.take(1))

    def prepare(self, preparation: Preparation) -> None:
        """Look up the source, and determine from its rows the partitions that can be changed.

        If the condition ties the partitions to the source's rows, only those partitions are locked,
        and concurrent merges of other partitions are possible.
        """
        engine = engine_of(preparation)
        self._source = SourceFrame(engine.spark, preparation.client, self.source, engine.batches)
        self.look_up(preparation)
        if self.adds_rows:
            self.declared.look_up(preparation.client, self.table)
        if self.merge.merge_schema:
            self._grow(preparation)
        if self._source.acid_tables:
            self._estimate_partitions(preparation)
        else:
            self._keep_source(preparation)
        self.partitions = self._source_partitions
        if self._source_partitions is not None and not have_one_text(self.table.key_types.values()):
            names = partial(preparation.client.get_partition_names, self.target)
            self.partitions = _existing(self.spark, self.table, self._source_partitions, names)

    def files_without_bytes(self) -> Sequence[str]:
        """See the base class."""
        return self._source.files_without_bytes()

    def has_source_rows(self, counts: Counts) -> bool:
        """See the base class."""
        assert self._merged is not None
        by_rows = counts.inserted
        if not self._merged.join.change.not_matched_by_source:
            by_rows += counts.updated + counts.deleted
        return by_rows > 0 or self._merged.has_rows()

    def stage(self, context: WriteContext) -> Counts:
        """Stage the deletes and the new rows."""
        source = self._rows
        with context.phases(Phase.READ, "the rows that match"):
            if source is None:
                rows = self._source.frame(reader_of(context), reader_of(context).shared)
                self.check_times(context, rows)
                source = self._evaluated(rows, context.txn)
            join, self._merged = source.join, source
            names = context.partition_names
            partitions = _existing(self.spark, context.table, source.partitions, names)
            context.require_locked(partitions)
            snapshot = self.snapshot(context, _matching(context, join, partitions))
            check_nanoseconds(self.spark, snapshot, "the merge", join.change.kept_columns)
            with translated_spark_errors("The merge"):
                matches = source.find(context, snapshot)
                if join.change.deletes_all_matched:
                    matches = matches.once()
                counts_by_clause = matches.by_clause()
                has_changes = any(clause >= 0 for clause in counts_by_clause)
                if has_changes and (repeated := matches.repeated(SHOWN_DUPLICATES + 1)):
                    join.refuse(repeated, snapshot)
        with context.phases(Phase.WRITE, "the changes"), translated_spark_errors("The merge"):
            if has_changes:
                matches.write_deletes(context.output, snapshot.partitions)
            source.write(context, matches)
        updating = set(join.change.updating)
        updated = sum(count for clause, count in counts_by_clause.items() if clause in updating)
        changed_rows = sum(count for clause, count in counts_by_clause.items() if clause >= 0)
        return Counts(context.output.rows - updated, updated, changed_rows - updated)

    def _grow(self, preparation: Preparation) -> None:
        """Add the columns that clauses use, after checking that the merge is valid with them."""
        empty = self._source.empty()
        nothing = empty.withColumn(SOURCE_ROW, F.lit(0).cast("bigint"))
        row = without(empty, self.merge.exclude, "The merge")
        growth = SchemaGrowth(self.table, row.schema, columns_taken(self.merge.when))
        self._join_with(growth.grown(preparation), nothing).check()
        self.table, self.columns_added = growth.apply(preparation)

    def _keep_source(self, preparation: Preparation) -> None:
        """Evaluate the source before locks are acquired.

        Its rows belong to a separate transaction, since the writing transaction may restart.
        """
        token = preparation.options.source_token
        file_owner = Transaction(preparation.client, keeps_files=True, run_token=token)
        preparation.stack.enter_context(file_owner)
        with preparation.phases(Phase.READ, "the source"):
            self._rows = self._evaluated(self._source.frame(reader=None), file_owner)
            self._source_partitions = self._rows.partitions

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
                self._source_partitions = _partitions_to_change(self._join_with(self.table, rows))

    def _evaluated(self, source: DataFrame, txn: ReadingTransaction) -> SourceRows:
        """Evaluate the source, once, and return its rows."""
        join = self._join_with(self.table, source)
        plan = SourcePlan.of(join)
        if plan is None:
            return KeptSource.of(join, txn)
        writer = SourceWriter(join, plan, self.codec, self.rules)
        try:
            return writer.write(txn)
        except (TypeMismatch, InvalidJob, CheckFailed):
            if writer.fate in (SURE, NEVER):
                raise
            # The invalid row may be one that is never written, whose values are irrelevant.
            return KeptSource.of(join, txn)

    def _join_with(self, table: HiveTable, rows: DataFrame) -> MergeJoin:
        source = [name for name in rows.columns if name != SOURCE_ROW]
        rules = self.declared.of(table) if self.adds_rows else None
        change = MergeChange.of(self.merge, table, source, rules)
        return MergeJoin(self.spark, rows, change)


def _partitions_to_change(join: MergeJoin) -> list[str] | None:
    """The partitions that the merge can change; None if the condition does not determine them."""
    keys = join.ties
    if keys is None:
        return None
    return partitions_of_source(join.source, join.source_alias, keys, join.table)


def _existing(
    spark: SparkSession,
    table: HiveTable,
    partitions: Sequence[str] | None,
    partition_names: Callable[[], Sequence[str]],
) -> Sequence[str] | None:
    """The partitions to read for some values, and those that new rows with these values go into.

    Args:
        spark: A session.
        table: The table.
        partitions: The canonical names of partitions; None if unknown.
        partition_names: Returns the names of the existing partitions.
    """
    if partitions is None or all(key.type == "string" for key in table.partition_keys):
        # Such values have one text, so that the other partition names are not needed.
        return partitions
    names = partition_names()
    equal = equal_partitions(partitions, names, table.key_types)
    new_names = [name for name, matches in equal.items() if not matches]
    return sorted({*called(spark, table, partitions, names), *new_names})


def _matching(
    context: WriteContext, join: MergeJoin, partitions: Sequence[str] | None
) -> Sequence[str]:
    """The names of the partitions to read."""
    names = context.partition_names() if partitions is None else partitions
    if join.change.not_matched_by_source:
        # A row that cannot satisfy the condition is a row without a source.
        return names
    return matching_partitions(join.spark, join.change.on, join.change.scope, names)
