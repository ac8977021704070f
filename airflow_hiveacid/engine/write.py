"""One write of one table, from opening the transaction to its commit."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Self

from pyspark.sql import DataFrame, SparkSession  # noqa: TID253

from airflow_hiveacid.acid.directory import Rules
from airflow_hiveacid.acid.errors import (
    CorruptFile,
    InsertOnlyTable,
    NotTransactional,
    SnapshotMoved,
    TypeMismatch,
    UnsupportedTable,
    UserError,
)
from airflow_hiveacid.acid.locks import MetastoreVersion, Operation, TableRef, Target
from airflow_hiveacid.acid.schema import TableKind
from airflow_hiveacid.engine.acid_output import AcidOutput
from airflow_hiveacid.engine.columns import all_columns
from airflow_hiveacid.engine.files import list_partitions
from airflow_hiveacid.engine.flushed import with_copies
from airflow_hiveacid.engine.output import TableOutput
from airflow_hiveacid.engine.reader import TableSnapshot
from airflow_hiveacid.engine.run_note import write_note
from airflow_hiveacid.engine.session import cancelling_jobs, require_utc
from airflow_hiveacid.engine.types import spark_struct
from airflow_hiveacid.jobs.options import ORC_CODECS
from airflow_hiveacid.jobs.phases import Phase, PhaseClock
from airflow_hiveacid.jobs.report import RunReport
from airflow_hiveacid.metastore.catalog import HivePartition, HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.transaction import Transaction
from airflow_hiveacid.storage import Storage

# More partitions than this are locked as a whole table: each lock is a row in the metastore.
MAX_PARTITION_LOCKS = 256


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How a write behaves; see ``jobs.options.Job`` for what the fields mean."""

    run_token: str | None = None
    lock_wait_seconds: float = 300
    max_restarts: int = 5
    orc_codec: str | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """What a write did to rows."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0


@dataclass(frozen=True)
class Work:
    """An open transaction with its table: what the work on the rows needs."""

    spark: SparkSession
    client: MetastoreClient
    table: HiveTable
    txn: Transaction
    output: TableOutput
    phases: PhaseClock
    locks: Sequence[str] | None

    def snapshot(
        self, choose: Callable[[Sequence[HivePartition]], Sequence[HivePartition]] | None = None
    ) -> TableSnapshot:
        """The target as the transaction sees it.

        Args:
            choose: Picks the partitions that matter; all of them by default.
        """
        partitions = self.client.get_partitions(self.table.ref) if self.table.partition_keys else []
        chosen = partitions if choose is None else choose(partitions)
        return read_snapshot(self.client, self.table, self.txn, chosen)

    def read(self, spark: SparkSession, table: HiveTable) -> DataFrame:
        """Another table as the transaction sees it."""
        return read_snapshot(self.client, table, self.txn).rows(spark, with_key=False)

    def require_locked(self, partitions: Sequence[str] | None) -> None:
        """Make sure that the locks cover all partitions that will be touched.

        Raises:
            PartitionsMoved: They do not; the write begins anew with a lock on the whole table.
        """
        if self.locks is not None:
            beyond = None if partitions is None else sorted(set(partitions) - set(self.locks))
            if beyond is None or beyond:
                raise PartitionsMoved(beyond or ["all partitions"])


@dataclass(frozen=True)
class Write:
    """A write that is ready to begin.

    Attributes:
        spark: The session for scans.
        client: The metastore.
        table: The target.
        operation: What is done to it.
        options: How.
        phases: The clock of the run.
        reads: Transactional tables that the work reads.
        partitions: The partitions that can be touched, if known.
    """

    spark: SparkSession
    client: MetastoreClient
    table: HiveTable
    operation: Operation
    options: WriteOptions
    phases: PhaseClock
    reads: Sequence[TableRef] = ()
    partitions: Sequence[str] | None = field(default=None)

    def locking(self, partitions: Sequence[str] | None) -> Self:
        """The same write, when the partitions it can touch are known."""
        return replace(self, partitions=partitions)

    def run(self, work: Callable[[Work], Counts]) -> RunReport:
        """Do the work in a transaction and commit it.

        Args:
            work: Stages files through the output of what it is given; counts rows.
        """
        locks = self.partitions
        if not locks or len(locks) > MAX_PARTITION_LOCKS:
            return self._run(work, None)
        try:
            return self._run(work, locks)
        except PartitionsMoved as moved:
            self.phases.note(f"Beginning anew: {moved.what}")
            return self._run(work, None)

    def _run(self, work: Callable[[Work], Counts], locks: Sequence[str] | None) -> RunReport:
        codec = self._codec()
        with Transaction(
            self.client,
            targets=[
                Target(
                    self.table.ref,
                    self.operation,
                    partitioned=bool(self.table.partition_keys),
                    partitions=locks,
                )
            ],
            reads=self.reads,
            run_token=self.options.run_token,
            lock_wait_seconds=self.options.lock_wait_seconds,
            max_restarts=self.options.max_restarts,
            phases=self.phases,
        ) as txn:
            output = AcidOutput(self.spark, self.client, self.table, txn, codec)
            found = Work(self.spark, self.client, self.table, txn, output, self.phases, locks)
            with cancelling_jobs(self.spark, f"hiveacid-{txn.txn_id}", self._description):
                counts = work(found)
            _check_counts(output, counts)
            txn.check_alive()
            found.require_locked(output.partitions)
            if output.staged:
                self._register(txn, output)
            with self.phases(Phase.PUBLISH):
                note = self._note(txn, self._report(txn, output, counts))
                if self.options.run_token is not None:
                    write_note(Storage.of(self.table.folder), self.options.run_token, note)
                output.publish(note)
            txn.commit()
            return self._report(txn, output, counts)

    @property
    def _description(self) -> str:
        return f"{self.operation.value.lower()} {self.table.ref.full_name}"

    def _register(self, txn: Transaction, output: TableOutput) -> None:
        """Tell the metastore what is written, before any file of it can be seen.

        A transaction that dies in between then leaves an empty partition, which harms nobody,
        and never a folder that no cleaner knows.
        """
        with self.phases(Phase.REGISTER):
            if self.table.partition_keys:
                new = output.new_partitions()
                if new:
                    self.client.add_partitions(self.table.ref, new)
                txn.register_partitions(self.table.ref, output.partitions)
            partitions = (
                self.client.get_partitions(self.table.ref, output.partitions)
                if output.partitions
                else []
            )
            overwrite = self.operation is Operation.OVERWRITE
            mark = partial(
                self.client.mark_statistics_inaccurate,
                self.table,
                partitions,
                output.write_id,
                txn.snapshot.write_ids[self.table.ref.full_name],
                replaced=overwrite,
            )
            changes = output.row_changes
            mark(row_changes=changes)
            if not overwrite:
                # The metastore does not undo this when it aborts.
                undone = {name: -change for name, change in changes.items()}
                txn.own(partial(mark, row_changes=undone), "the change of the row counts")

    def _report(self, txn: Transaction, output: TableOutput, counts: Counts) -> RunReport:
        return RunReport(
            job=self.operation.value.lower(),
            target=self.table.ref.full_name,
            txn_id=txn.txn_id,
            write_ids=txn.write_ids,
            rows_inserted=counts.inserted,
            rows_updated=counts.updated,
            rows_deleted=counts.deleted,
            files=output.files,
            bytes=output.size,
            partitions=tuple(output.partitions),
            seconds=self.phases.seconds,
            warnings=tuple(txn.warnings),
            restarts=txn.restarts,
        )

    def _note(self, txn: Transaction, report: RunReport) -> dict[str, object]:
        return {
            "run_token": self.options.run_token,
            "operation": self.operation.value,
            "txn_id": txn.txn_id,
            "write_id": txn.write_ids[self.table.ref.full_name],
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "user": os.environ.get("USER", ""),
            "report": report.to_dict(),
        }

    def _codec(self) -> str:
        given = self.options.orc_codec or self.table.parameters.get("orc.compress", "zlib")
        codec = given.lower()
        if codec not in ORC_CODECS:
            raise UserError(
                f"{self.table.ref.full_name}: {given!r} is no codec we can write.",
                remedy=f"Use one of {', '.join(sorted(ORC_CODECS))}.",
            )
        if codec == "zstd" and self.client.version is MetastoreVersion.HMS3:
            raise UserError(
                f"{self.table.ref.full_name}: Hive 3 cannot read zstd.", remedy="Use zlib."
            )
        return codec


def _check_counts(output: TableOutput, counts: Counts) -> None:
    """Compare what the work says it did with what stands in the files."""
    wanted = (counts.inserted + counts.updated, counts.updated + counts.deleted)
    if wanted != (output.rows, output.deletes):
        raise CorruptFile(
            f"The work made {wanted[0]} rows and {wanted[1]} deletes, its files hold "
            f"{output.rows} and {output.deletes}.",
            remedy="Nothing was published; run the job again.",
        )


class PartitionsMoved(SnapshotMoved):
    """The work touched partitions that were not locked, because the source had changed."""

    def __init__(self, partitions: Sequence[str]) -> None:
        super().__init__(f"The source has got rows of other partitions: {', '.join(partitions)}.")


def read_snapshot(
    client: MetastoreClient,
    table: HiveTable,
    txn: Transaction,
    partitions: Sequence[HivePartition] | None = None,
) -> TableSnapshot:
    """A table, or some of its partitions, as a transaction sees it."""
    if partitions is None:
        partitions = client.get_partitions(table.ref) if table.partition_keys else []
    write_ids = txn.snapshot.write_ids[table.ref.full_name]
    rules = Rules.HIVE3 if client.version is MetastoreVersion.HMS3 else Rules.HIVE4
    files = list_partitions(table, partitions, write_ids, txn.snapshot.txns, rules)
    return TableSnapshot(table, with_copies(files, txn), write_ids)


def check_readable(spark: SparkSession, table: HiveTable) -> None:
    """Refuse a table whose columns Spark cannot read or write exactly.

    Raises:
        UnsupportedTable: It has a type or a name that Spark cannot handle.
        UserError: It has timestamps and Spark's clock is not UTC.
    """
    spark_struct(all_columns(table))
    if any("timestamp" in column.type.lower() for column in all_columns(table)):
        require_utc(spark, table.ref.full_name)


def check_writable(table: HiveTable) -> None:
    """Refuse a table that Hive could not read back after us.

    Raises:
        UnsupportedTable: It is sorted inside of its buckets, or has no columns of its own.
        TypeMismatch: A clustering column is not a column of the table.
    """
    if table.sort_columns:
        raise UnsupportedTable(
            f"{table.ref.full_name} is sorted by {', '.join(table.sort_columns)}; "
            "rows of ACID tables are in the order of their row ids.",
            remedy="Create the table without SORTED BY.",
        )
    known = {column.name.lower() for column in table.columns}
    for name in table.bucket_columns if table.num_buckets > 0 else ():
        if name.lower() not in known:
            raise TypeMismatch(f"{table.ref.full_name} is clustered by {name}, which it lacks.")


def check_kind(table: HiveTable, operation: Operation) -> None:
    """Refuse what this kind of table does not allow.

    Raises:
        NotTransactional: The table is not transactional.
        InsertOnlyTable: The table takes inserts only.
    """
    if table.kind is TableKind.NOT_ACID:
        raise NotTransactional(f"{table.ref.full_name} is not a transactional table.")
    if table.kind is TableKind.INSERT_ONLY:
        if operation in (Operation.UPDATE, Operation.DELETE, Operation.MERGE):
            raise InsertOnlyTable(
                f"{table.ref.full_name} is insert-only: {operation.value.lower()} is not possible."
            )
        raise UnsupportedTable(
            f"{table.ref.full_name} is insert-only, which cannot be written yet.",
            remedy="Write it with Hive, or convert it to full ACID.",
        )
