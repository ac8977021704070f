"""AcidTable: the Python face of a full-ACID table, for notebooks and applications."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Self

from pyspark.sql import DataFrame, SparkSession  # noqa: TID253

from airflow_hiveacid.acid.locks import Operation, TableRef
from airflow_hiveacid.acid.merge import Clause, MergePlan
from airflow_hiveacid.engine.changes import Choice, delete_rows, update_rows
from airflow_hiveacid.engine.compact import TableCompactor
from airflow_hiveacid.engine.inserts import (
    InsertPlan,
    PartitionSpec,
    append_rows,
    overwrite_rows,
    partitions_to_truncate,
    static_partitions,
    truncate_rows,
)
from airflow_hiveacid.engine.merge_builder import MergeBuilder
from airflow_hiveacid.engine.merging import merge_rows
from airflow_hiveacid.engine.pruning import matching_partitions
from airflow_hiveacid.engine.session import scan_session
from airflow_hiveacid.engine.settled import Fence, settle_run
from airflow_hiveacid.engine.source import SourceFrame, SourceInputs
from airflow_hiveacid.engine.write import (
    Counts,
    Work,
    Write,
    WriteOptions,
    check_kind,
    check_readable,
    check_writable,
    read_snapshot,
)
from airflow_hiveacid.jobs.compaction import CompactJob
from airflow_hiveacid.jobs.options import MetastoreOptions, PathSource, Source, TableSource
from airflow_hiveacid.jobs.phases import PhaseClock, PhaseObserver
from airflow_hiveacid.jobs.report import CompactReport, RunReport
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.transaction import Transaction

# Rows of a job come from a frame of the caller, or from a source that is yet to be looked up.
Rows = DataFrame | Source
Inputs = Mapping[str, TableSource | PathSource]


class AcidTable:
    """A full-ACID table of a Hive Metastore.

    Every change is one transaction, committed when the method returns. A frame from ``to_df`` is
    read under a transaction that stays open, so that no cleaner removes its files, until the table
    is closed: use the table in a ``with`` statement, or call ``close``.

    Args:
        name: The table, ``"database.table"``.
        metastore: The metastore's uri, or all its options.
        spark: The session, which is left as it is; by default the active one.
        options: How writes behave.
        observers: Are told about the phases of a write.
    """

    def __init__(
        self,
        name: str,
        metastore: str | MetastoreOptions,
        *,
        spark: SparkSession | None = None,
        options: WriteOptions | None = None,
        observers: Sequence[PhaseObserver] = (),
    ) -> None:
        if isinstance(metastore, str):
            metastore = MetastoreOptions(uris=metastore)
        metastore.validate()
        self.ref = TableRef.parse(name)
        self._spark = spark or SparkSession.Builder().getOrCreate()
        self._client = MetastoreClient(metastore)
        self._options = options or WriteOptions()
        self._observers = observers
        self._reading = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the transactions of the frames that were read, and the connection."""
        self._reading.close()
        self._client.close()

    def settle(self, run_token: str) -> RunReport | None:
        """Find out what earlier tries of a run did, and make sure that they do nothing more.

        Every write from now on looks once more, and raises AlreadyApplied if one was faster.

        Args:
            run_token: Under which they opened their transactions.

        Returns:
            The report of the try that committed; None when the run is yet to be done.
        """
        table = self._client.get_table(self.ref)
        check_kind(table, Operation.SELECT)
        self._observers = (*self._observers, Fence(self._client, table, run_token))
        return settle_run(self._client, table, run_token)

    def to_df(self) -> DataFrame:
        """The visible rows, as of now."""
        table = self._client.get_table(self.ref)
        check_kind(table, Operation.SELECT)
        check_readable(self._spark, table)
        txn = self._reading.enter_context(Transaction(self._client, reads=[self.ref]))
        snapshot = read_snapshot(self._client, table, txn)
        return snapshot.rows(scan_session(self._spark), with_key=False)

    def append(
        self,
        rows: Rows,
        partitions: Sequence[PartitionSpec] | None = None,
        *,
        by_position: bool = False,
        columns: Sequence[str] | None = None,
        static: PartitionSpec | None = None,
    ) -> RunReport:
        """Add rows, their columns found by name.

        Args:
            rows: Their values must fit; columns they lack are null.
            partitions: The partitions that can be written, when they are known: nobody who
                writes others has to wait. A single one also gives its values to the rows.
            by_position: Their columns are the table's in their order, the partition keys last.
            columns: With by_position: the table's columns that they have, in their order.
            static: Some partition keys with the value that all rows get.
        """
        plan = InsertPlan(partitions, by_position, columns, static)
        return self._insert(Operation.INSERT, rows, plan)

    def overwrite(
        self,
        rows: Rows,
        partitions: Sequence[PartitionSpec] | None = None,
        *,
        by_position: bool = False,
        columns: Sequence[str] | None = None,
        static: PartitionSpec | None = None,
    ) -> RunReport:
        """Replace rows.

        Args:
            rows: What to put instead.
            partitions: The partitions to replace, also where there are no new rows. By default
                the whole table, or of a partitioned one the partitions that get rows.
            by_position: Their columns are the table's in their order, the partition keys last.
            columns: With by_position: the table's columns that they have, in their order.
            static: Some partition keys with the value that all rows get.
        """
        plan = InsertPlan(partitions, by_position, columns, static)
        return self._insert(Operation.OVERWRITE, rows, plan)

    def truncate(self, partition: PartitionSpec | None = None) -> RunReport:
        """Remove all rows.

        Args:
            partition: Some or all partition keys with their values: only rows of these partitions.
        """
        write = self._write(Operation.OVERWRITE)
        chosen = partitions_to_truncate(self._spark, self._client, write.table, partition)
        self._reading.close()
        locks = None if partition is None else [each.name for each in chosen]
        return write.locking(locks).run(partial(truncate_rows, partitions=chosen))

    def update(
        self,
        set: Mapping[str, str],
        where: str | None = None,
        *,
        inputs: Inputs | None = None,
        target_alias: str = "t",
    ) -> RunReport:
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
    ) -> RunReport:
        """Delete rows.

        Args:
            where: A SQL condition; all rows by default.
            inputs: What subqueries can read: view name to table or files.
            target_alias: The table's name in the condition.
        """
        return self._change(Operation.DELETE, delete_rows, where, inputs, target_alias)

    def merge(
        self, source: Rows, on: str, *, source_alias: str = "s", target_alias: str = "t"
    ) -> MergeBuilder:
        """Begin to describe a merge.

        Args:
            source: The rows to compare with; evaluated once.
            on: The SQL condition under which a source row and a target row belong together.
            source_alias: The source's name in expressions.
            target_alias: The target's name in expressions.
        """

        def run(clauses: Sequence[Clause]) -> RunReport:
            return merge_rows(
                lambda reads: self._write(Operation.MERGE, reads),
                self._lookup(source),
                on,
                MergePlan.of(clauses),
                (target_alias, source_alias),
            )

        return MergeBuilder(run)

    def compact(
        self, type: str | None = None, *, partitions: Sequence[str] | None = None
    ) -> CompactReport:
        """Put deltas together, so that the table stays quick to read.

        Every partition is a transaction of its own; the report says what became of each.

        Args:
            type: ``"minor"`` joins the deltas, ``"major"`` makes a new base out of everything; by
                default what Hive's thresholds call for, partition by partition.
            partitions: The names of the partitions; all by default.
        """
        job = CompactJob(
            target=self.ref.full_name,
            type=type,
            partitions=partitions,
            run_token=self._options.run_token,
            lock_wait_seconds=self._options.lock_wait_seconds,
        )
        job.validate()
        return TableCompactor(self._spark, self._client, job, self._observers).run()

    def _insert(self, operation: Operation, rows: Rows, plan: InsertPlan) -> RunReport:
        source = self._lookup(rows)
        write = self._write(operation, reads=source.acid_tables)
        locks = static_partitions(write.table, plan.partitions)
        insert = append_rows if operation is Operation.INSERT else overwrite_rows
        if operation is Operation.OVERWRITE:
            # It waits for every reader, and must not wait for the frames of this very object: they
            # may well be what the table is overwritten with.
            self._reading.close()

        def work(found: Work) -> Counts:
            return insert(found, source.frame(found.read), plan)

        return write.locking(locks).run(work)

    def _change(
        self,
        operation: Operation,
        change: Callable[..., Counts],
        where: str | None,
        inputs: Inputs | None,
        alias: str,
        moved: Iterable[str] = (),
    ) -> RunReport:
        write = self._write(operation)
        choice = Choice(where, alias, SourceInputs(write.spark, self._client, inputs or {}))
        locks = None
        keys = {key.name for key in write.table.partition_keys}
        if where is not None and keys and keys.isdisjoint(name.lower() for name in moved):
            partitions = self._client.get_partitions(self.ref)
            scope = choice.scope(write.table)
            found = matching_partitions(write.spark, where, scope, partitions)
            if len(found) < len(partitions):
                locks = [partition.name for partition in found]
        write = replace(write, reads=choice.inputs.acid_tables)
        return write.locking(locks).run(partial(change, choice=choice))

    def _write(self, operation: Operation, reads: Sequence[TableRef] = ()) -> Write:
        table = self._client.get_table(self.ref)
        check_kind(table, operation)
        check_readable(self._spark, table)
        check_writable(table)
        return Write(
            spark=scan_session(self._spark),
            client=self._client,
            table=table,
            operation=operation,
            options=self._options,
            phases=PhaseClock(self._observers),
            reads=reads,
        )

    def _lookup(self, rows: Rows) -> SourceFrame:
        return SourceFrame(self._spark, self._client, rows)
