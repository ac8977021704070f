"""Update and delete of rows that match a condition, which may have subqueries."""

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from functools import partial

from pyspark.sql import DataFrame

from hiveacid.dataclass import dataclass
from hiveacid.jobs.sources import Input
from hiveacid.metastore.client import MetastoreClient
from hiveacid.plan.partitions import partitions_to_change
from hiveacid.plan.scope import ChangeScope
from hiveacid.plan.values import assigned
from hiveacid.progress import Phase
from hiveacid.rules.locks import Operation
from hiveacid.rules.sql_names import quoted
from hiveacid.spark.failures import translated_spark_errors
from hiveacid.spark.read.acid_snapshot import KEY, AcidSnapshot
from hiveacid.spark.read.nanoseconds import check_nanoseconds
from hiveacid.spark.read.pruning import matching_partitions
from hiveacid.spark.rows.columns import all_columns, select_as, select_texts
from hiveacid.spark.rows.conversion import stored
from hiveacid.spark.statements.engine import SparkStatement, engine_of, reader_of
from hiveacid.spark.statements.source import SourceInputs, grouped, is_scattered
from hiveacid.spark.write.flat_rows import write_flat
from hiveacid.spark.write.row_ids import CLAUSE, RowSearch, written_row_ids
from hiveacid.writes.statement import Counts, Preparation, WriteContext


@dataclass(eq=False)
class RowChange(SparkStatement):
    """A change of the rows that match a condition.

    Attributes:
        where: The condition; None means all rows.
        inputs: The inputs of subqueries: view name to table or files.
        target_alias: The table's name in the condition and in expressions.
    """

    where: str | None
    inputs: Mapping[str, Input]
    target_alias: str
    _source_inputs: SourceInputs = field(init=False, repr=False)

    @property
    def changes_single_rows(self) -> bool:
        """An update or delete changes single rows."""
        return True

    @property
    @abstractmethod
    def assigned(self) -> Collection[str]:
        """The columns that get new values, in any spelling."""

    def prepare(self, preparation: Preparation) -> None:
        """Look up the inputs of subqueries, and determine the partitions that can match."""
        self.look_up(preparation)
        # The inputs become views of the session that reads the table.
        self._source_inputs = SourceInputs(
            self.spark, preparation.client, self.inputs, batches=engine_of(preparation).batches
        )
        self.reads = self._source_inputs.acid_tables
        self.partitions = self._partitions_to_change(preparation.client)

    def _partitions_to_change(self, client: MetastoreClient) -> Sequence[str] | None:
        """The partitions that can match; None if all can. EXPLAIN determines them alike."""
        existing = partial(client.get_partition_names, self.target)
        selection = partitions_to_change(self.where, self.assigned, self._scope, existing)
        if selection is None:
            return None
        if selection.certain:
            return selection.names
        matching = matching_partitions(self.spark, self.where, self._scope, selection.names)
        return matching if len(matching) < selection.existing else None

    @property
    def _scope(self) -> ChangeScope:
        """The names that the condition can use."""
        return ChangeScope(self.table, self.target_alias)

    def files_without_bytes(self) -> Sequence[str]:
        """See the base class."""
        return self._source_inputs.files_without_bytes()

    def has_source_rows(self, counts: Counts) -> bool:
        """See the base class."""
        return counts.updated + counts.deleted > 0 or not self.files_without_bytes()

    def _snapshot(self, context: WriteContext) -> AcidSnapshot:
        names = context.partition_names()
        return self.snapshot(
            context, matching_partitions(self.spark, self.where, self._scope, names)
        )

    def _matching_rows(self, context: WriteContext, snapshot: AcidSnapshot) -> DataFrame:
        """The matching rows with their keys."""
        self._source_inputs.register(reader_of(context), reader_of(context).shared)
        if self.where is None:
            return snapshot.rows(self.spark).alias(self.target_alias)
        with translated_spark_errors(f"The condition {self.where!r}"):
            return snapshot.rows(self.spark).alias(self.target_alias).where(self.where)


class DeleteStatement(RowChange):
    """Delete the matching rows."""

    @property
    def assigned(self) -> Collection[str]:
        """A delete assigns no columns."""
        return ()

    @property
    def operation(self) -> Operation:
        """Delete."""
        return Operation.DELETE

    @property
    def adds_rows(self) -> bool:
        """A delete adds no rows."""
        return False

    def stage(self, context: WriteContext) -> Counts:
        """Stage a delete event for each row."""
        with context.phases(Phase.READ, "the rows that match"):
            snapshot = self._snapshot(context)
            keys = self._matching_rows(context, snapshot)
            keys = select_texts(keys, [*KEY, f"0 AS {CLAUSE}"])
            subject = f"The delete from {context.table.ref.full_name}"
            row_ids = RowSearch(snapshot, context.txn, subject).evaluated(keys)
        with context.phases(Phase.WRITE, "the deletes"):
            row_ids.write_deletes(context.output, snapshot.partitions)
        return Counts(deleted=context.output.deletes)


@dataclass(eq=False)
class UpdateStatement(RowChange):
    """Change the matching rows: delete each, and insert its new version.

    Attributes:
        set: Column to SQL expression.
    """

    set: Mapping[str, str]

    @property
    def operation(self) -> Operation:
        """Update."""
        return Operation.UPDATE

    @property
    def assigned(self) -> Collection[str]:
        """The columns of the SET clause."""
        return [*self.set]

    def stage(self, context: WriteContext) -> Counts:
        """Stage the deletes and the new rows."""
        table, subject = context.table, f"The update of {context.table.ref.full_name}"
        with context.phases(Phase.READ, "the rows that match"):
            snapshot = self._snapshot(context)
            expressions = assigned(table, self.set, self.rules, subject)
            kept_columns = {
                column.name.lower()
                for column in all_columns(table)
                if column.name not in expressions
            }
            check_nanoseconds(self.spark, snapshot, "the update", kept_columns)
            matching_rows = self._matching_rows(context, snapshot)
            new = stored(matching_rows, expressions, table, subject)
            columns = {
                column.name: f"{quoted(self.target_alias)}.{quoted(column.name)}"
                for column in all_columns(table)
            }
            # The new rows are written by the same pass that finds the old ones.
            columns |= new | dict(zip(KEY, KEY, strict=True)) | {CLAUSE: "0"}
            with translated_spark_errors(subject):
                changed_rows = select_as(matching_rows, columns)
            rows = write_flat(
                changed_rows, context.output.flat_target(), scattered=is_scattered(snapshot)
            )
            row_ids = written_row_ids(rows, self.spark, [*KEY, CLAUSE])
        with context.phases(Phase.WRITE, "the deletes"):
            row_ids.write_deletes(context.output, snapshot.partitions)
            context.output.take(grouped(rows.files), width=len(table.columns))
        return Counts(updated=context.output.rows)
