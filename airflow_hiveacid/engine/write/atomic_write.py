"""Writing: statements that are prepared, run in one transaction and committed together."""

import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from pyspark.sql import SparkSession

from airflow_hiveacid.acid.locks import MetastoreVersion, Operation, TableRef, Target
from airflow_hiveacid.acid.schema import TableKind
from airflow_hiveacid.engine.read.nanoseconds import Files
from airflow_hiveacid.engine.read.shared_rows import SharedRows
from airflow_hiveacid.engine.rows.table_support import check_kind, check_readable, check_writable
from airflow_hiveacid.engine.session import cancelling_jobs, scan_session
from airflow_hiveacid.engine.write.acid_output import AcidOutput
from airflow_hiveacid.engine.write.context import Counts, PartitionsMoved, Work
from airflow_hiveacid.engine.write.earlier_tries import AlreadyApplied, EarlierTries
from airflow_hiveacid.engine.write.insert_only_output import InsertOnlyOutput
from airflow_hiveacid.engine.write.output import TableOutput
from airflow_hiveacid.errors import CorruptFile, UserError
from airflow_hiveacid.jobs.options import ORC_CODECS
from airflow_hiveacid.jobs.report import RunReport, TableReport
from airflow_hiveacid.jobs.run_note import RunNote
from airflow_hiveacid.jobs.run_token import unmarked_token
from airflow_hiveacid.jobs.transaction import require_one_change
from airflow_hiveacid.maintenance.run_notes import FoundNote, mark_committed, write_note
from airflow_hiveacid.metastore.alteration import Writer, forget_statistics
from airflow_hiveacid.metastore.catalog import HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.identity import require_same_definition
from airflow_hiveacid.metastore.txn.transaction import Transaction
from airflow_hiveacid.progress import Phase, PhaseClock, PhaseObserver
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


@dataclass(frozen=True)
class Statement:
    """One change of one table, ready to be run.

    Attributes:
        spark: The session that its work uses.
        table: The target.
        operation: What is done to it.
        work: Stages files through the output of what it is given; counts rows.
        codec: The compression of its files.
        reads: Transactional tables that the work reads.
        partitions: The partitions that can be touched, if known.
    """

    spark: SparkSession
    table: HiveTable
    operation: Operation
    work: Callable[[Work], Counts]
    codec: str
    reads: Sequence[TableRef] = ()
    partitions: Sequence[str] | None = None

    @property
    def locks(self) -> Sequence[str] | None:
        """The partitions to lock; None is the whole table."""
        few = self.partitions and len(self.partitions) <= MAX_PARTITION_LOCKS
        return self.partitions if few else None


@dataclass(frozen=True)
class Preparation:
    """What statements are prepared with, before anything is locked.

    Attributes:
        spark: The user's session, which is left as it is.
        client: The metastore.
        options: How the write behaves.
        phases: The clock of the run.
        stack: Is closed when all is done, or has failed.
    """

    spark: SparkSession
    client: MetastoreClient
    options: WriteOptions
    phases: PhaseClock
    stack: ExitStack

    def table(self, ref: TableRef, operation: Operation) -> HiveTable:
        """Look up a table that will be written, and refuse what cannot be done to it."""
        table = self.client.get_table(ref)
        check_kind(table, operation)
        check_readable(self.spark, table)
        check_writable(table, self.client.version)
        return table

    def codec(self, table: HiveTable, wanted: str | None) -> str:
        """The compression of a table's new files: the one that is wanted, else the table's own.

        Raises:
            UserError: It is none that we, or the readers of the table, know.
        """
        given = wanted or table.orc_codec
        codec = given.lower()
        if codec not in ORC_CODECS:
            raise UserError(
                f"{table.ref.full_name}: {given!r} is no codec we can write.",
                remedy=f"Use one of {', '.join(sorted(ORC_CODECS))}.",
            )
        if codec == "zstd" and self.client.version is MetastoreVersion.HMS3:
            raise UserError(f"{table.ref.full_name}: Hive 3 cannot read zstd.", remedy="Use zlib.")
        return codec

    def session(self) -> SparkSession:
        """A session of its own for a statement's scans and views."""
        return scan_session(self.spark)


Prepare = Callable[[Preparation], Statement]


def run_statements(
    spark: SparkSession,
    client: MetastoreClient,
    options: WriteOptions,
    observers: Sequence[PhaseObserver],
    prepared: Sequence[tuple[TableRef, Prepare]],
) -> RunReport:
    """Run statements in one transaction and commit it, unless an earlier try of the run has.

    Args:
        spark: The user's session.
        client: The metastore.
        options: How the write behaves.
        observers: Are told about the phases.
        prepared: What makes the statements, with their tables, in their order.

    Raises:
        InvalidJob: Several of them change the rows of one table.
        UnprovenRun: An earlier try may have applied the run, which only a person can find out.
    """
    phases = PhaseClock(observers)
    try:
        earlier = None
        if options.run_token is not None:
            tables = [client.get_table(ref) for ref in dict.fromkeys(ref for ref, _ in prepared)]
            earlier = EarlierTries(client, tables, options.run_token)
            earlier.end()
        return _run_statements(
            Preparation(spark, client, options, phases, ExitStack()),
            [prepare for _, prepare in prepared],
            earlier,
        )
    except AlreadyApplied as applied:
        return replace(applied.report, settled=True)


def _run_statements(
    preparation: Preparation, prepared: Sequence[Prepare], earlier: EarlierTries | None
) -> RunReport:
    with preparation.stack:
        statements = [prepare(preparation) for prepare in prepared]
        require_one_change(
            (
                each.table.ref.full_name,
                each.operation not in (Operation.INSERT, Operation.OVERWRITE),
            )
            for each in statements
        )
        write = _Write(
            preparation.client, preparation.options, preparation.phases, statements, earlier
        )
        try:
            return write.run([each.locks for each in statements])
        except PartitionsMoved as moved:
            preparation.phases.note(f"Beginning anew: {moved.what}")
            return write.run([None] * len(statements))


@dataclass(frozen=True)
class _Done:
    """A statement whose files are staged."""

    statement: Statement
    work: Work
    counts: Counts

    @property
    def output(self) -> TableOutput:
        return self.work.output

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
        """Run the statements with locks on these partitions of their tables."""
        with Transaction(
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
        ) as txn:
            self._require_same_tables(txn)
            shared = SharedRows(self.statements[0].table, txn)
            sources: list[Files] = []
            done = [
                self._stage(number, statement, txn, names, shared, sources)
                for number, (statement, names) in enumerate(
                    zip(self.statements, locks, strict=True)
                )
            ]
            txn.check_alive()
            for each in done:
                each.work.require_locked(each.output.partitions)
            _require_apart(done)
            with self.phases(Phase.REGISTER):
                self._require_same_tables(txn)
                self._register(txn, done)
                self._require_same_tables(txn, done)
            note = None
            for each in done:
                with self.phases(Phase.PUBLISH):
                    if each is done[0]:
                        note = self._write_note(txn, done)
                    report = self._report(txn, [each])
                    each.output.publish(self._sidecar(txn, each.statement.table, report))
            txn.commit()
            if note is not None:
                txn.attempt("mark the note on the run", partial(mark_committed, *note))
            return self._report(txn, done)

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
                may_grow=all(
                    each.operation in (Operation.INSERT, Operation.OVERWRITE)
                    for each in self.statements
                    if each.table.ref == ref
                ),
            )

    def _stage(
        self,
        number: int,
        statement: Statement,
        txn: Transaction,
        locks: Sequence[str] | None,
        shared: SharedRows,
        sources: list[Files],
    ) -> _Done:
        spark, table = statement.spark, statement.table
        kind = InsertOnlyOutput if table.kind is TableKind.INSERT_ONLY else AcidOutput
        output = kind(spark, self.client, table, txn, statement.codec, number)
        work = Work(spark, self.client, table, txn, output, self.phases, locks, shared, sources)
        description = f"{statement.operation.value.lower()} {table.ref.full_name}"
        with cancelling_jobs(spark, f"hiveacid-{txn.txn_id}", description):
            counts = statement.work(work)
        _check_counts(output, counts)
        return _Done(statement, work, counts)

    def _register(self, txn: Transaction, done: Sequence[_Done]) -> None:
        """Tell the metastore what is written, before any file of it can be seen.

        A transaction that dies in between then leaves an empty partition, which harms nobody,
        and never a folder that no cleaner knows.
        """
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
    ) -> tuple[Storage, FoundNote] | None:
        """Tell any later try of all tables, in the one place that it knows."""
        if self.options.run_token is None:
            return None
        home = self.statements[0].table
        report = self._report(txn, done)
        found = FoundNote.new(
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
            shared = one.output.places & other.output.places
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
