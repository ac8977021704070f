"""The changes of a table, as methods: each prepares a statement, whoever inherits runs it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Generic, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_hiveacid.acid.locks import Operation, TableRef
from airflow_hiveacid.acid.merge import Clause, MergePlan
from airflow_hiveacid.engine.read.pruning import matching_partitions
from airflow_hiveacid.engine.statements.insert import (
    Insert,
    InsertPlan,
    PartitionSpec,
    partitions_to_truncate,
    rows_for,
    truncate_rows,
)
from airflow_hiveacid.engine.statements.merge import prepare_merge
from airflow_hiveacid.engine.statements.merge_builder import MergeBuilder
from airflow_hiveacid.engine.statements.merge_join import SOURCE_ROW, Merge
from airflow_hiveacid.engine.statements.row_change import Choice, delete_rows, update_rows
from airflow_hiveacid.engine.statements.schema_growth import grow
from airflow_hiveacid.engine.statements.source import SourceFrame, SourceInputs
from airflow_hiveacid.engine.write.atomic_write import Preparation, Prepare, Statement
from airflow_hiveacid.engine.write.context import Counts, Work
from airflow_hiveacid.errors import InvalidJob
from airflow_hiveacid.jobs.ddl import TruncateJob
from airflow_hiveacid.jobs.options import (
    DeleteJob,
    InsertJob,
    Job,
    MergeJob,
    PathSource,
    Source,
    TableSource,
    UpdateJob,
)
from airflow_hiveacid.metastore.catalog import HiveTable

# Rows of a job come from a frame of the caller, or from a source that is yet to be looked up.
Rows = DataFrame | Source
Inputs = Mapping[str, TableSource | PathSource]

R = TypeVar("R")


class TableChanges(ABC, Generic[R]):
    """What can be changed in a table.

    Args:
        name: The table, ``"database.table"``.
        orc_codec: The compression of new files; by default the table's.
    """

    def __init__(self, name: str, orc_codec: str | None = None) -> None:
        self.ref = TableRef.parse(name)
        self._orc_codec = orc_codec

    def append(
        self,
        rows: Rows,
        partitions: Sequence[PartitionSpec] | None = None,
        *,
        by_position: bool = False,
        columns: Sequence[str] | None = None,
        static: PartitionSpec | None = None,
        merge_schema: bool = False,
    ) -> R:
        """Add rows, their columns found by name.

        Args:
            rows: Their values must fit; columns they lack are null.
            partitions: The partitions that can be written, when they are known: nobody who
                writes others has to wait. A single one also gives its values to the rows.
            by_position: Their columns are the table's in their order, the partition keys last.
            columns: With by_position: the table's columns that they have, in their order.
            static: Some partition keys with the value that all rows get.
            merge_schema: Add the columns to the table that only they have, and widen numbers.
        """
        plan = InsertPlan(partitions, by_position, columns, static)
        return self._insert(Operation.INSERT, rows, plan, merge_schema)

    def overwrite(
        self,
        rows: Rows,
        partitions: Sequence[PartitionSpec] | None = None,
        *,
        by_position: bool = False,
        columns: Sequence[str] | None = None,
        static: PartitionSpec | None = None,
        merge_schema: bool = False,
    ) -> R:
        """Replace rows.

        Args:
            rows: What to put instead.
            partitions: The partitions to replace, also where there are no new rows. By default
                the whole table, or of a partitioned one the partitions that get rows.
            by_position: Their columns are the table's in their order, the partition keys last.
            columns: With by_position: the table's columns that they have, in their order.
            static: Some partition keys with the value that all rows get.
            merge_schema: Add the columns to the table that only they have, and widen numbers.
        """
        plan = InsertPlan(partitions, by_position, columns, static)
        return self._insert(Operation.OVERWRITE, rows, plan, merge_schema)

    def truncate(self, partition: PartitionSpec | None = None) -> R:
        """Remove all rows.

        Args:
            partition: Some or all partition keys with their values: only rows of these partitions.
        """

        def prepare(found: Preparation) -> Statement:
            statement = self._statement(found, Operation.OVERWRITE, lambda _: Counts())
            table = statement.table
            chosen = partitions_to_truncate(found.spark, found.client, table, partition)
            self._end_reading()
            return replace(
                statement,
                work=partial(truncate_rows, partition=partition),
                partitions=None if partition is None else [each.name for each in chosen],
            )

        return self._run(prepare)

    def update(
        self,
        set: Mapping[str, str],
        where: str | None = None,
        *,
        inputs: Inputs | None = None,
        target_alias: str = "t",
    ) -> R:
        """Change rows.

        Args:
            set: Column to SQL expression.
            where: A SQL condition; all rows by default.
            inputs: What subqueries can read: view name to table or files.
            target_alias: The table's name in the condition and in expressions.
        """
        change = partial(update_rows, values=set)
        return self._change(Operation.UPDATE, change, where, inputs, target_alias, moved=set)

    def delete(
        self,
        where: str | None = None,
        *,
        inputs: Inputs | None = None,
        target_alias: str = "t",
    ) -> R:
        """Delete rows.

        Args:
            where: A SQL condition; all rows by default.
            inputs: What subqueries can read: view name to table or files.
            target_alias: The table's name in the condition.
        """
        return self._change(Operation.DELETE, delete_rows, where, inputs, target_alias)

    def merge(
        self,
        source: Rows,
        on: str,
        *,
        source_alias: str = "s",
        target_alias: str = "t",
        merge_schema: bool = False,
    ) -> MergeBuilder[R]:
        """Begin to describe a merge.

        Args:
            source: The rows to compare with; evaluated once.
            on: The SQL condition under which a source row and a target row belong together.
            source_alias: The source's name in expressions.
            target_alias: The target's name in expressions.
            merge_schema: Add the columns to the table that only the source has and that a clause
                takes, and widen numbers. A clause that takes all columns then leaves alone what
                the source lacks.
        """

        def run(clauses: Sequence[Clause]) -> R:
            def describe(spark: SparkSession, table: HiveTable, rows: DataFrame) -> Merge:
                aliases = (target_alias, source_alias)
                return Merge(spark, table, rows, on, MergePlan.of(clauses), *aliases, merge_schema)

            def prepare(found: Preparation) -> Statement:
                looked_up = SourceFrame(found.spark, found.client, source)
                statement = self._statement(found, Operation.MERGE, lambda _: Counts())
                if merge_schema:
                    rows = looked_up.empty()
                    numbered = rows.withColumn(SOURCE_ROW, F.lit(0).cast("bigint"))

                    def check(table: HiveTable) -> None:
                        describe(statement.spark, table, numbered).check()

                    self._end_reading()
                    taken = describe(statement.spark, statement.table, numbered).columns_taken()
                    statement = grow(found, statement, rows.schema, taken, check)
                return prepare_merge(found, statement, looked_up, describe)

            return self._run(prepare)

        return MergeBuilder(run)

    def apply(self, job: Job) -> R:
        """Make the change that a job describes."""
        match job:
            case InsertJob():
                insert = self.overwrite if job.overwrite else self.append
                return insert(
                    job.source,
                    job.partitions,
                    by_position=job.by_position,
                    columns=job.columns,
                    static=job.static,
                    merge_schema=job.merge_schema,
                )
            case TruncateJob():
                return self.truncate(job.partition)
            case UpdateJob():
                return self.update(
                    job.set, job.where, inputs=job.inputs, target_alias=job.target_alias
                )
            case DeleteJob():
                return self.delete(job.where, inputs=job.inputs, target_alias=job.target_alias)
            case MergeJob():
                merge = self.merge(
                    job.source,
                    job.on,
                    source_alias=job.source_alias,
                    target_alias=job.target_alias,
                    merge_schema=job.merge_schema,
                )
                return replace(merge, clauses=tuple(job.when)).execute()
        raise InvalidJob(f"{type(job).__name__} is no job that changes a table.")

    @abstractmethod
    def _run(self, prepare: Prepare) -> R:
        """Run a statement, now or later."""

    def _end_reading(self) -> None:
        """Let go of what an overwrite would wait for."""

    def _insert(self, operation: Operation, rows: Rows, plan: InsertPlan, merge_schema: bool) -> R:
        if merge_schema and plan.by_position:
            raise InvalidJob("merge_schema finds columns by name; it excludes by_position.")

        def prepare(found: Preparation) -> Statement:
            source = SourceFrame(found.spark, found.client, rows)
            statement = self._statement(found, operation, lambda _: Counts(), source.acid_tables)
            named = plan.named(statement.spark, statement.table)
            insert = Insert(plan, named, replaces=operation is Operation.OVERWRITE)

            def work(work: Work) -> Counts:
                rows = source.frame(work.read, work.shared)
                work.check_digits(rows)
                return insert.run(work, rows)

            if operation is Operation.OVERWRITE or merge_schema:
                self._end_reading()
            if merge_schema:
                empty = source.empty()
                check = partial(rows_for, source=empty, plan=plan)
                statement = grow(found, statement, empty.schema, None, check)
            return replace(statement, work=work, partitions=named)

        return self._run(prepare)

    def _change(
        self,
        operation: Operation,
        change: Callable[..., Counts],
        where: str | None,
        inputs: Inputs | None,
        alias: str,
        moved: Iterable[str] = (),
    ) -> R:
        def prepare(found: Preparation) -> Statement:
            statement = self._statement(found, operation, lambda _: Counts())
            table = statement.table
            looked_up = SourceInputs(statement.spark, found.client, inputs or {})
            choice = Choice(where, alias, looked_up)
            locks = None
            keys = {key.name for key in table.partition_keys}
            if where is not None and keys and keys.isdisjoint(name.lower() for name in moved):
                partitions = found.client.get_partitions(self.ref)
                chosen = matching_partitions(
                    statement.spark, where, choice.scope(table), partitions
                )
                if len(chosen) < len(partitions):
                    locks = [partition.name for partition in chosen]
            return replace(
                statement,
                work=partial(change, choice=choice),
                reads=looked_up.acid_tables,
                partitions=locks,
            )

        return self._run(prepare)

    def _statement(
        self,
        found: Preparation,
        operation: Operation,
        work: Callable[[Work], Counts],
        reads: Sequence[TableRef] = (),
    ) -> Statement:
        table = found.table(self.ref, operation)
        codec = found.codec(table, self._orc_codec)
        return Statement(found.session(), table, operation, work, codec, reads)
