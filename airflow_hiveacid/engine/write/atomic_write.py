"""Writing: statements that are run in one transaction, and committed together."""

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from pyspark.sql import SparkSession

from airflow_hiveacid.acid.locks import Operation, TableRef, Target
from airflow_hiveacid.acid.schema import TableKind
from airflow_hiveacid.engine.read.kept_rows import SharedRows
from airflow_hiveacid.engine.read.table_reader import TableReader
from airflow_hiveacid.engine.session import cancelling_jobs
from airflow_hiveacid.engine.write.acid_output import AcidOutput
from airflow_hiveacid.engine.write.context import Counts, PartitionsMoved, WriteContext
from airflow_hiveacid.engine.write.earlier_tries import AlreadyApplied, EarlierTries
from airflow_hiveacid.engine.write.insert_only_output import InsertOnlyOutput
from airflow_hiveacid.engine.write.statement import Preparation, Statement, WriteOptions
from airflow_hiveacid.engine.write.table_output import TableOutput
from airflow_hiveacid.errors import CorruptFile, UserError
from airflow_hiveacid.jobs.multi_table_job import require_one_change
from airflow_hiveacid.jobs.report import RunReport, TableReport
from airflow_hiveacid.jobs.run_note import RunNote
from airflow_hiveacid.jobs.run_token import unmarked_token
from airflow_hiveacid.maintenance.run_note_folder import NoteFile, mark_committed, write_note
from airflow_hiveacid.metastore.alteration import Writer, forget_statistics
from airflow_hiveacid.metastore.catalog import HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.same_table import require_same_definition
from airflow_hiveacid.metastore.txn.transaction import Transaction
from airflow_hiveacid.progress import Phase, PhaseClock, PhaseObserver
from airflow_hiveacid.storage import Storage


def run_statements(
    spark: SparkSession,
    client: MetastoreClient,
    options: WriteOptions,
    observers: Sequence[PhaseObserver],
    statements: Sequence[Statement],
    reading: ExitStack | None = None,
) -> RunReport:
    """Run statements in one transaction and commit it, unless an earlier try of the run has.

    Args:
        spark: The user's session.
        client: The metastore.
        options: How the write behaves.
        observers: Are told about the phases.
        statements: What to do, in this order.
        reading: The transactions of frames that the caller has read; an overwrite ends them.

    Raises:
        InvalidJob: Several of them change the rows of one table.
        UnprovenRun: An earlier try may have applied the run, which only a person can find out.
    """
    phases = PhaseClock(observers)
    preparation = Preparation(spark, client, options, phases, reading=reading or ExitStack())
    try:
        earlier = None
        if options.run_token is not None:
            targets = dict.fromkeys(statement.target for statement in statements)
            tables = [client.get_table(target) for target in targets]
            earlier = EarlierTries(client, tables, options.run_token)
            earlier.end()
        with preparation.stack:
            for statement in statements:
                statement.prepare(preparation)
            require_one_change((s.table.ref.full_name, not s.only_adds) for s in statements)
            write = _Write(client, options, phases, statements, earlier)
            try:
                return write.run([statement.locks for statement in statements])
            except PartitionsMoved as moved:
                phases.note(f"Beginning again: {moved.what}")
                return write.run([None] * len(statements))
    except AlreadyApplied as applied:
        return replace(applied.report, already_done=True)


@dataclass(frozen=True)
class _Done:
    """A statement whose files are staged."""

    statement: Statement
    context: WriteContext
    counts: Counts

    @property
    def output(self) -> TableOutput:
        return self.context.output

    @property
    def name(self) -> str:
        return self.statement.table.ref.full_name

    @property
    def overwrites(self) -> bool:
        return self.statement.operation is Operation.OVERWRITE

    def report(self) -> TableReport:
        return TableReport(
            table=self.name,
            rows_inserted=self.counts.inserted,
            rows_updated=self.counts.updated,
            rows_deleted=self.counts.deleted,
            files=self.output.files,
            bytes=self.output.size,
            partitions=tuple(self.output.partitions),
        )


@dataclass(frozen=True)
class _Write:
    client: MetastoreClient
    options: WriteOptions
    phases: PhaseClock
    statements: Sequence[Statement]
    earlier: EarlierTries | None

    def run(self, locks: Sequence[Sequence[str] | None]) -> RunReport:
        """The whole course of the transaction; whatever fails in it, nothing of it shows.

        Entering it ends the earlier tries, locks, and takes the snapshot.

        Args:
            locks: The partitions to lock for each statement; None is the whole table.
        """
        with self._transaction(locks) as txn:
            self._require_same_tables(txn)
            done = self._stage(txn, locks)
            txn.check_alive()
            for each in done:
                each.context.require_locked(each.output.partitions)
            _require_apart(done)
            self._register(txn, done)
            note = self._publish(txn, done)
            txn.commit()
            if note is not None:
                txn.attempt("mark the note on the run", partial(mark_committed, *note))
            return self._report(txn, done)

    def _transaction(self, locks: Sequence[Sequence[str] | None]) -> Transaction:
        return Transaction(
            self.client,
            targets=[
                Target(each.table.ref, each.operation, bool(each.table.partition_keys), names)
                for each, names in zip(self.statements, locks, strict=True)
            ],
            reads=[read for each in self.statements for read in each.reads],
            run_token=self.options.run_token,
            lock_wait_seconds=self.options.lock_wait_seconds,
            max_restarts=self.options.max_restarts,
            phases=self.phases,
            earlier_tries=self.earlier,
        )

    def _require_same_tables(self, txn: Transaction, done: Sequence[_Done] = ()) -> None:
        """Make sure that nothing is written into what has become another table."""
        tables = {each.table.ref: each.table for each in self.statements}
        for ref, table in tables.items():
            partitions = {
                partition.name: partition
                for each in done
                if each.statement.table.ref == ref
                for partition in each.output.located
            }
            require_same_definition(
                self.client,
                table,
                [*partitions.values()],
                (txn.txn_id, txn.write_ids[ref.full_name]),
                may_grow=all(each.only_adds for each in self.statements if each.table.ref == ref),
            )

    def _stage(self, txn: Transaction, locks: Sequence[Sequence[str] | None]) -> list[_Done]:
        """Run the statements, one after the other."""
        shared = SharedRows(self.statements[0].table, txn)
        reader = TableReader(self.client, txn)
        done = []
        for number, (statement, names) in enumerate(zip(self.statements, locks, strict=True)):
            spark, table = statement.spark, statement.table
            kind = InsertOnlyOutput if table.kind is TableKind.INSERT_ONLY else AcidOutput
            output = kind(spark, self.client, table, txn, statement.codec, number)
            context = WriteContext(
                spark, self.client, table, txn, output, self.phases, names, shared, reader
            )
            description = f"{statement.operation.value.lower()} {table.ref.full_name}"
            with cancelling_jobs(spark, f"hiveacid-{txn.txn_id}", description):
                counts = statement.run(context)
            _check_counts(output, counts)
            done.append(_Done(statement, context, counts))
        return done

    def _register(self, txn: Transaction, done: Sequence[_Done]) -> None:
        """Tell the metastore what is written, before any file of it can be seen.

        A transaction that dies in between then leaves an empty partition, which harms nobody,
        and never a folder that no cleaner knows.
        """
        with self.phases(Phase.REGISTER):
            self._require_same_tables(txn)
            touched: dict[TableRef, set[str]] = defaultdict(set)
            for each in done:
                if each.statement.table.partition_keys and each.output.staged:
                    new = each.output.new_partitions()
                    if new:
                        self.client.add_partitions(each.statement.table.ref, new)
                    touched[each.statement.table.ref].update(each.output.partitions)
            for ref, names in touched.items():
                txn.register_partitions(ref, sorted(names))
            for each in done:
                if each.output.staged:
                    written = Writer(each.output.write_id, txn.snapshot.write_ids[each.name])
                    ref = each.statement.table.ref
                    forget_statistics(self.client, ref, each.output.partitions, written)
            self._require_same_tables(txn, done)

    def _publish(self, txn: Transaction, done: Sequence[_Done]) -> tuple[Storage, NoteFile] | None:
        """Let the files appear, and the note that proves to a later try what they are."""
        note = None
        for each in done:
            with self.phases(Phase.PUBLISH):
                if each is done[0]:
                    note = self._write_note(txn, done)
                report = self._report(txn, [each])
                each.output.publish(self._sidecar(txn, each.statement.table, report))
        return note

    def _report(self, txn: Transaction, done: Sequence[_Done]) -> RunReport:
        tables: dict[str, TableReport] = {}
        for each in done:
            known = tables.get(each.name)
            tables[each.name] = each.report() if known is None else known + each.report()
        names = list(tables)
        kinds = {each.statement.operation.value.lower() for each in done}
        return RunReport(
            job=kinds.pop() if len(done) == 1 else "transaction",
            target=names[0],
            txn_id=txn.txn_id,
            write_ids={name: txn.write_ids[name] for name in names},
            rows_inserted=sum(each.rows_inserted for each in tables.values()),
            rows_updated=sum(each.rows_updated for each in tables.values()),
            rows_deleted=sum(each.rows_deleted for each in tables.values()),
            files=sum(each.files for each in tables.values()),
            bytes=sum(each.bytes for each in tables.values()),
            partitions=tables[names[0]].partitions,
            tables=tuple(tables.values()),
            seconds=self.phases.seconds,
            warnings=tuple(txn.warnings),
            restarts=txn.restarts,
        )

    def _write_note(
        self, txn: Transaction, done: Sequence[_Done]
    ) -> tuple[Storage, NoteFile] | None:
        """Tell any later try of all tables, in the one place that it knows."""
        if self.options.run_token is None:
            return None
        home = self.statements[0].table
        report = self._report(txn, done)
        found = NoteFile.new(
            RunNote(
                run_token=self.options.run_token,
                txn_id=txn.txn_id,
                write_ids=report.write_ids,
                directories=tuple(
                    where.removeprefix(f"{home.folder.rstrip('/')}/")
                    for each in done
                    for where in each.output.directories
                ),
                report=report,
                **self._who(report),
            )
        )
        storage = Storage.of(home.folder)
        txn.own(partial(storage.delete_file, found.path), f"{storage.location}/{found.path}")
        write_note(storage, found)
        return storage, found

    def _sidecar(
        self, txn: Transaction, table: HiveTable, report: RunReport
    ) -> Mapping[str, object]:
        token = self.options.run_token
        return {
            "run_token": token and unmarked_token(token),
            "txn_id": txn.txn_id,
            "write_id": txn.write_ids[table.ref.full_name],
            **self._who(report),
            "report": report.to_dict(),
        }

    def _who(self, report: RunReport) -> dict[str, str]:
        return {
            "operation": report.job,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "user": os.environ.get("USER", ""),
        }


def _require_apart(done: Sequence[_Done]) -> None:
    """Refuse to overwrite what another statement of the transaction writes, which would vanish.

    Raises:
        UserError: Two statements write the same place, and one of them overwrites it.
    """
    for index, one in enumerate(done):
        for other in done[index + 1 :]:
            if one.name != other.name or not (one.overwrites or other.overwrites):
                continue
            shared = one.output.partition_names & other.output.partition_names
            if shared:
                where = min(name or "the whole table" for name in shared)
                raise UserError(
                    f"{one.name}: {where} is overwritten and written at the same time by two "
                    "statements of one transaction.",
                    remedy="Write all its rows by the one statement that overwrites.",
                )


def _check_counts(output: TableOutput, counts: Counts) -> None:
    """Compare what the work says it did with what stands in the files."""
    wanted = (counts.inserted + counts.updated, counts.updated + counts.deleted)
    if wanted != (output.rows, output.deletes):
        raise CorruptFile(
            f"The work made {wanted[0]} rows and {wanted[1]} deletes, its files hold "
            f"{output.rows} and {output.deletes}.",
            remedy="Nothing was published; run the job again.",
        )
