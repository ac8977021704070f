"""The transaction of a write: runs, publishes, and commits statements together."""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType

from pyspark.sql import DataFrame, SparkSession

from hiveacid.errors import (
    DataError,
    HiveAcidError,
    MetastoreError,
    OverlapRefused,
    StorageError,
    TableReplaced,
    TransactionAborted,
    WriteConflict,
)
from hiveacid.jobs.options import source_token, unmarked_token
from hiveacid.jobs.report import CommitRetry, RunReport, TableReport
from hiveacid.jobs.write_jobs import require_one_change
from hiveacid.metastore.alteration import Writer, complete_columns, forget_statistics
from hiveacid.metastore.catalog import HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import require_same_definition, require_same_table
from hiveacid.metastore.txn.owner import find_open_transactions
from hiveacid.metastore.txn.snapshot import Snapshot
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.progress import Phase, PhaseClock, PhaseObserver
from hiveacid.records.overlaps import Overlaps, committed_since, writers_in, written_by
from hiveacid.records.run_notes import (
    AlreadyApplied,
    EarlierAttempts,
    NoteFile,
    RunNote,
    mark_committed,
    origin_of,
    write_note,
)
from hiveacid.rules.locks import Target, WriteKind, kind_of
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.spark.read.kept_rows import SharedRows
from hiveacid.spark.read.table_reader import TableReader
from hiveacid.spark.session import cancelling_jobs
from hiveacid.spark.spark_versions import requiring_stages_run_once
from hiveacid.spark.write.acid_output import AcidOutput, InsertOnlyOutput
from hiveacid.spark.write.part import (
    Part,
    RowOverlaps,
    require_published_together,
    send_write_events,
)
from hiveacid.spark.write.staged_work import TakenFolders
from hiveacid.spark.write.statement import (
    PartitionsMoved,
    Preparation,
    Statement,
    WriteContext,
    WriteOptions,
    look_up_constraints,
)
from hiveacid.storage.folder import Storage

# Second commit of files whose first transaction was lost after all files were staged


@dataclass(frozen=True)
class SecondCommit:
    """Commits the work of a transaction that is certainly aborted, without repeating the work.

    If this is impossible, the job ends with the error that ended the first transaction.

    Attributes:
        client: The metastore.
        options: The options of the write.
        phases: The clock of the run.
        first: The transaction that was lost.
        since: The snapshot of the work.
        lost: The error that ended the first transaction.
    """

    client: MetastoreClient
    options: WriteOptions
    phases: PhaseClock
    first: Transaction
    since: Snapshot
    lost: HiveAcidError
    _started: float = field(default_factory=time.monotonic)
    _saved: float = field(init=False)

    def __post_init__(self) -> None:
        spent = self.phases.seconds
        work = sum(spent.get(phase, 0.0) for phase in (Phase.READ, Phase.WRITE))
        object.__setattr__(self, "_saved", work)

    def keep(self, parts: Sequence[Part], stack: ExitStack) -> list[Part]:
        """Protect the files from cleaners, which may remove files of an aborted transaction.

        Args:
            parts: The staged statements.
            stack: Is closed when the files are not needed any more.
        """
        self.phases.note(f"Committing the written files once more: {self.lost.what}")
        try:
            overtaken = self._has_later_attempt()
            keeper = stack.enter_context(
                Transaction(
                    self.client,
                    keeps_files=True,
                    run_token=source_token(self.options.known_run_token),
                )
            )
            taken = TakenFolders(keeper)
            kept = [] if overtaken else [part.detached(taken) for part in parts]
        except (MetastoreError, StorageError) as error:
            raise self._refusal(error.what.rstrip(".")) from error
        if overtaken:
            raise self._refusal("a later attempt of the run is active")
        return kept

    def require_unchanged(self, txn: Transaction, kept: Sequence[Part]) -> None:
        """Make sure that a repetition of the work would have the same result where it matters.

        Args:
            txn: The transaction that is going to commit the work, with all locks.
            kept: The staged statements.

        Raises:
            OverlapRefused: Under the policy rows, others have changed the same rows.
        """
        if self.options.conflict_policy == "rows" and all(
            part.statement.changes_single_rows for part in kept
        ):
            overlaps = self._overlaps(txn)
            for part in kept:
                if part.statement.depends_on_new_rows and (new := self._new(txn, part.ref)):
                    raise self._refusal(
                        f"{part.name}, which it inserts into, has got write id {min(new)} since then"
                    )
                overlaps.require_none(part)
            return
        try:
            self.first.definitions.require_unchanged({part.ref for part in kept})
        except TableReplaced as replaced:
            raise self._refusal(replaced.what.rstrip(".")) from replaced
        for part in kept:
            for ref in part.statement.reads:
                if new := self._new(txn, ref):
                    raise self._refusal(
                        f"{ref.full_name}, which was read, has got write id {min(new)} since then"
                    )
            if part.kind is not WriteKind.APPEND:
                self._require_unchanged_target(txn, part)

    def made(self, txn: Transaction, kept: Sequence[Part]) -> list[Part]:
        """Restage the work with a transaction's write ids by copying bytes, not by creating rows.

        Args:
            txn: The transaction that is going to commit the work.
            kept: The staged statements.
        """
        try:
            with self.phases(Phase.WRITE, "the same files again"):
                return [part.restaged_in(txn) for part in kept]
        except (StorageError, DataError) as error:
            raise self._refusal(error.what.rstrip(".")) from error

    def report(self, made: Sequence[Part]) -> CommitRetry:
        """Return the savings so far."""
        return CommitRetry(
            txn_id=self.first.txn_id,
            why=self.lost.what,
            rows=sum(part.output.rows + part.output.deletes for part in made),
            bytes=sum(part.output.size for part in made),
            seconds=round(time.monotonic() - self._started, 3),
            seconds_saved=round(self._saved, 3),
        )

    def with_savings(self, report: RunReport, made: Sequence[Part]) -> RunReport:
        """Add the savings to the report on the run, and log them."""
        retry = self.report(made)
        self.phases.note(
            f"Committed {retry.rows} rows and deletes of {retry.bytes} bytes once more in"
            f" {retry.seconds:.1f} s; to read and write them had taken {retry.seconds_saved:.1f} s"
        )
        return replace(report, commit_retry=retry)

    def _has_later_attempt(self) -> bool:
        """Whether a later attempt of the run, which takes precedence, is active."""
        attempts = find_open_transactions(
            self.client, self.options.known_run_token, source_token(self.options.known_run_token)
        )
        return any(txn_id > self.first.txn_id for txn_id in attempts)

    def _require_unchanged_target(self, txn: Transaction, part: Part) -> None:
        statement, locks = part.statement, part.context.locks
        names: Sequence[str | None] = [None]
        if statement.table.partition_keys:
            names = part.context.partition_names() if locks is None else locks
        # As always, a change does not see rows that are appended concurrently.
        allows_appends = statement.changes_single_rows and not statement.depends_on_new_rows
        new = self._new(txn, part.ref)
        for other in (
            writers_in(self.client, part.ref, names, new, txn.snapshot.txns) if new else ()
        ):
            if not allows_appends or other.kind is not WriteKind.APPEND:
                raise self._refusal(
                    f"{part.name} has received {other.what} of {other.by} since then"
                )
        folders = part.output.staged_deletes()
        if not folders:
            return
        found = TableReader(self.client, txn).acid_snapshot(
            statement.table, [each.partition for each in folders if each.partition is not None]
        )
        try:
            for partition in found.partitions:
                self._overlaps(txn).require_same_row_ids(part, partition)
        except OverlapRefused as refused:
            raise self._refusal(refused.what.rstrip(".")) from refused

    def _overlaps(self, txn: Transaction) -> RowOverlaps:
        by = written_by(self.options.run_token, self.client.user)
        return RowOverlaps(self.client, by, self.since, txn)

    def _new(self, txn: Transaction, ref: TableRef) -> set[int]:
        name = ref.full_name
        new = committed_since(self.since.write_ids[name], txn.snapshot.write_ids[name])
        return {*new} - {txn.write_ids.get(name, 0)}

    def _refusal(self, why: str) -> HiveAcidError:
        lost = self.lost
        return type(lost)(f"{lost.what} Not committed once more: {why}.", remedy=lost.remedy)


def may_help(lost: HiveAcidError, options: WriteOptions) -> bool:
    """Whether a second publish and commit may help after an error."""
    # Without a token, a second commit could not be distinguished from one of a repeated job.
    wanted = options.run_token is not None and options.max_restarts > 0
    return wanted and (lost.retryable or not isinstance(lost, MetastoreError))


# The locked partitions of each statement; None means the whole table.
_Locks = Sequence[Sequence[str] | None]


def run_statements(
    spark: SparkSession,
    client: MetastoreClient,
    options: WriteOptions,
    observers: Sequence[PhaseObserver],
    statements: Sequence[Statement],
    batch: DataFrame | None = None,
) -> RunReport:
    """Run statements in one transaction and commit it, unless an earlier attempt has committed.

    Args:
        spark: The user's session.
        client: The metastore.
        options: The options of the write.
        observers: Receive the phases.
        statements: The statements, in order of execution.
        batch: The rows of a stream's batch, which the statements may read.

    Raises:
        InvalidJob: Several statements change the rows of one table.
        UnprovenRun: An earlier attempt may have applied the run; only a person can determine this.
    """
    phases = PhaseClock(observers)
    preparation = Preparation(spark, client, options, phases, batch=batch)
    targets = dict.fromkeys(statement.target for statement in statements)
    overlaps = None
    if options.conflict_policy == "strict":
        overlaps = Overlaps.since_now(client, options.run_token, options.lock_wait_seconds, targets)
    try:
        earlier = None
        if options.run_token is not None:
            earlier = EarlierAttempts(
                client,
                targets,
                options.run_token,
                needs_report=bool(options.changes or options.offsets),
            )
            earlier.end()
        with preparation.stack:
            for statement in statements:
                with requiring_stages_run_once(preparation.spark, statement.name):
                    statement.prepare(preparation)
            require_one_change((s.table.ref.full_name, not s.only_adds) for s in statements)
            write = AtomicWrite(client, options, phases, statements, earlier, overlaps)
            try:
                report = write.commit([statement.locks for statement in statements])
            except PartitionsMoved as moved:
                phases.note(f"Restarting: {moved.what}")
                report = write.commit([None] * len(statements))
    except AlreadyApplied as applied:
        report = replace(applied.report, already_done=True)
    if earlier is None or not report.changes or report.files:
        return report
    return earlier.settled(report)


@dataclass(frozen=True)
class AtomicWrite:
    """Prepared statements that one transaction commits atomically."""

    client: MetastoreClient
    options: WriteOptions
    phases: PhaseClock
    statements: Sequence[Statement]
    earlier: EarlierAttempts | None
    overlaps: Overlaps | None

    def commit(self, locks: _Locks) -> RunReport:
        """Run the transaction; after any failure, no change is visible.

        Args:
            locks: The partitions to lock for each statement; None means the whole table.
        """
        rows = self.options.conflict_policy == "rows"
        if rows and all(statement.changes_single_rows for statement in self.statements):
            return self._run_beside_others(locks)
        # Entering the transaction opens it, ends earlier attempts, locks, and takes the snapshot.
        with self._transaction(locks) as txn:
            txn.definitions.add(self._require_same_tables(txn).values())
            look_up_constraints(self.client, self.statements)
            self._require_no_overlap(locks)
            parts = self._stage(txn, TableReader(self.client, txn), locks)
            return self._finish_surely(txn, txn.snapshot, parts, locks)

    def _run_beside_others(self, locks: _Locks) -> RunReport:
        """Run like ``commit``, but take the lock that excludes other changes only at the end.

        The work is done like that of a reader. To the metastore, the whole change begins when the
        work is done: the change does not conflict with changes that were committed in the meantime,
        and every engine that reads locks or write sets sees correct data.
        """
        refs = [statement.table.ref for statement in self.statements]
        reads = [*refs, *(ref for statement in self.statements for ref in statement.reads)]
        token = self.options.source_token
        with Transaction(self.client, keeps_files=True, run_token=token) as keeper:
            with Transaction(
                self.client,
                reads=[*dict.fromkeys(reads)],
                run_token=token,
                lock_wait_seconds=self.options.lock_wait_seconds,
                phases=self.phases,
            ) as reading:
                since = reading.snapshot
                look_up_constraints(self.client, self.statements)
                # The write id that the transaction receives if no other writer precedes it.
                keeper.write_ids = {
                    ref.full_name: since.write_ids[ref.full_name].high_watermark + 1 for ref in refs
                }
                staged = self._stage(keeper, TableReader(self.client, reading), locks)
                # Cleaners may have removed files that a lost transaction had yet to read.
                reading.confirm_alive()
            # A writer that waits for this reader, to replace the files it has read, must not be
            # waited for.
            with self._transaction(locks) as txn:
                txn.definitions.add(self._require_same_tables(txn).values())
                look_up_constraints(self.client, self.statements)
                by = written_by(self.options.run_token, self.client.user)
                overlaps = RowOverlaps(self.client, by, since, txn)
                for part in staged:
                    overlaps.require_none(part)
                with self.phases(Phase.WRITE, "the files to their places"):
                    parts = [part.moved_to(txn) for part in staged]
                report = self._finish_surely(txn, since, parts, locks)
            for part in staged:
                keeper.attempt("remove staged files", part.output.discard)
            return report

    def _finish_surely(
        self, txn: Transaction, since: Snapshot, parts: Sequence[Part], locks: _Locks
    ) -> RunReport:
        """Publish and commit the staged files; repeat this if the transaction is lost meanwhile."""
        # Nothing is read after this line. Cleaners may have removed files that a lost transaction
        # still had to read.
        txn.confirm_alive()
        try:
            return self._finish(txn, parts)
        except (TransactionAborted, WriteConflict, MetastoreError) as lost:
            if not may_help(lost, self.options) or not txn.give_up(lost):
                raise
            again = SecondCommit(self.client, self.options, self.phases, txn, since, lost)
            with ExitStack() as stack:
                kept = again.keep(parts, stack)
                txn.abort(f"it is committed once more: {lost.what}")
                second = stack.enter_context(self._transaction(locks, queues=False))
                look_up_constraints(self.client, self.statements)
                again.require_unchanged(second, kept)
                return self._finish(second, again.made(second, kept), again)

    def _finish(
        self, txn: Transaction, parts: Sequence[Part], again: SecondCommit | None = None
    ) -> RunReport:
        """Publish and commit the staged files."""
        txn.check_alive()
        require_published_together(parts)
        with self.phases(Phase.REGISTER, "what was written"):
            for part in parts:
                part.output.seal()
            self._register(txn, parts)
        notes: list[tuple[Storage, NoteFile]] = []
        now = datetime.now(UTC)
        for part in parts:
            with self.phases(Phase.PUBLISH, "the files"):
                # Written before any file is visible: the notes prove to a later attempt which run
                # the files belong to.
                notes = notes or self._write_notes(txn, parts, again, now)
                self._publish(txn, parts, part, now)
        send_write_events(self.client, txn, parts)
        if self.overlaps is not None:
            self.overlaps.require_none_at_commit(
                txn, [(part.ref, part.kind, part.output.partition_names) for part in parts]
            )
        txn.commit()
        for storage, note in notes:
            mark = partial(mark_committed, storage, note)
            if self.options.changes and not any(part.output.files for part in parts):
                # No other record proves that these versions are processed.
                mark()
            else:
                txn.attempt("mark the note on the run", mark)
        report = self._report(txn, parts)
        return report if again is None else again.with_savings(report, parts)

    def _transaction(self, locks: _Locks, *, queues: bool = True) -> Transaction:
        return Transaction(
            self.client,
            targets=[
                Target(s.table.ref, s.operation, bool(s.table.partition_keys), partitions)
                for s, partitions in zip(self.statements, locks, strict=True)
            ],
            reads=[ref for statement in self.statements for ref in statement.reads],
            queues=queues,
            run_token=self.options.run_token,
            lock_wait_seconds=self.options.lock_wait_seconds,
            max_restarts=self.options.max_restarts,
            phases=self.phases,
            earlier_attempts=self.earlier,
        )

    def _require_same_tables(
        self,
        txn: Transaction,
        parts: Sequence[Part] = (),
        read: Mapping[TableRef, HiveTable] = MappingProxyType({}),
    ) -> dict[TableRef, HiveTable]:
        """Make sure that the targets are still the same tables, and return their definitions.

        Args:
            txn: The transaction.
            parts: The statements whose partitions are registered.
            read: The definitions that were just read.
        """
        tables = {statement.table.ref: statement.table for statement in self.statements}
        current = {}
        for ref, table in tables.items():
            partitions = {
                partition.name: partition
                for part in parts
                if part.ref == ref
                for partition in part.output.located
            }
            current[ref] = require_same_definition(
                self.client,
                table,
                [*partitions.values()],
                (txn.txn_id, txn.write_ids[ref.full_name]),
                may_grow=all(s.only_adds for s in self.statements if s.table.ref == ref),
                now=read.get(ref),
            )
        return current

    def _require_no_overlap(self, locks: _Locks) -> None:
        """Refuse early a write that the check at the commit would certainly refuse.

        Raises:
            OverlapRefused: The policy strict does not let both succeed.
        """
        if self.overlaps is None:
            return
        for statement, names in zip(self.statements, locks, strict=True):
            known = names if statement.table.partition_keys else [None]
            self.overlaps.require_none(
                statement.table.ref, kind_of(statement.operation), known or ()
            )

    def _stage(self, txn: Transaction, reader: TableReader, locks: _Locks) -> list[Part]:
        """Run the statements in order.

        Args:
            txn: The transaction that the staged files belong to.
            reader: Reads tables.
            locks: The partitions that are, or will be, locked for each statement.
        """
        shared = SharedRows(self.statements[0].table, txn)
        parts = []
        for number, (statement, names) in enumerate(zip(self.statements, locks, strict=True)):
            spark, table = statement.spark, statement.table
            kind = InsertOnlyOutput if table.kind is TableKind.INSERT_ONLY else AcidOutput
            output = kind(spark, self.client, table, txn, statement.codec, number, statement.rules)
            context = WriteContext(
                spark, self.client, table, txn, output, self.phases, names, shared, reader
            )
            description = f"{statement.name} {table.ref.full_name}"
            if len(self.statements) > 1:
                self.phases.step(f"statement {number + 1} of {len(self.statements)}: {description}")
            group = f"hiveacid-{txn.txn_id}-{number}"
            with (
                requiring_stages_run_once(spark, description),
                cancelling_jobs(spark, group, description),
            ):
                counts = statement.stage(context)
            # The mapping is computed from files, which cleaners may remove after the commit.
            parts.append(Part(statement, context, counts, context.column_mapping))
            parts[-1].check_counts()
        # The targets are verified before anything is registered.
        reader.require_unchanged({statement.table.ref for statement in self.statements})
        return parts

    def _register(self, txn: Transaction, parts: Sequence[Part]) -> None:
        """Register the written partitions in the metastore before any of their files is visible.

        If a transaction dies in between, it leaves an empty partition, which is harmless, and never
        a folder that is unknown to cleaners.
        """
        current = self._require_same_tables(txn)
        added: dict[TableRef, list[HivePartition]] = defaultdict(list)
        try:
            registered = self._register_partitions(txn, parts, current, added)
        finally:
            # Also for a transaction that was lost: these partitions stay.
            read = {ref: self._complete(current[ref], new) for ref, new in added.items()}
        if registered:
            self._require_same_tables(txn, parts, read)

    def _register_partitions(
        self,
        txn: Transaction,
        parts: Sequence[Part],
        current: Mapping[TableRef, HiveTable],
        added: dict[TableRef, list[HivePartition]],
    ) -> bool:
        """Add and register partitions, and forget statistics that will be wrong.

        Args:
            txn: The transaction.
            parts: The statements.
            current: The definitions of the targets.
            added: Receives the partitions that were added.

        Returns:
            Whether the metastore has changed anything.
        """
        partitions: dict[TableRef, set[str]] = defaultdict(set)
        for part in parts:
            if part.statement.table.partition_keys and part.output.staged:
                if new := part.output.take_new_partitions(current[part.ref]):
                    txn.confirm_alive()
                    added[part.ref] += new
                    self.client.add_partitions(part.ref, new)
                partitions[part.ref].update(part.output.partitions)
        for ref, names in partitions.items():
            txn.register_partitions(ref, sorted(names))
        registered = bool(partitions)
        for part in parts:
            if part.output.staged:
                seen = txn.snapshot.write_ids[part.name]
                writer = Writer(part.output.write_id, seen, txn.confirm_alive)
                written, read = part.output.partitions, current[part.ref]
                registered |= forget_statistics(self.client, part.ref, written, writer, read)
        return registered

    def _complete(self, table: HiveTable, added: Sequence[HivePartition]) -> HiveTable:
        """Give new partitions all columns of their table, and return its definition."""
        read = partial(require_same_table, self.client, table)
        return complete_columns(self.client, table, added, read)

    def _publish(self, txn: Transaction, parts: Sequence[Part], part: Part, now: datetime) -> None:
        """Publish the files of a statement, with a note on the transaction beside them.

        The note describes all statements on the table: they are one write, with one write id.
        """
        token = self.options.run_token
        report = self._report(txn, [other for other in parts if other.name == part.name])
        part.output.publish(
            {
                "run_token": token and unmarked_token(token),
                **({} if self.options.run_id is None else {"run_id": self.options.run_id}),
                "txn_id": txn.txn_id,
                "write_id": txn.write_ids[part.name],
                **origin_of(report, now),
                "report": report.short_record(),
            }
        )

    def _report(self, txn: Transaction, parts: Sequence[Part]) -> RunReport:
        tables: dict[str, TableReport] = {}
        for part in parts:
            known = tables.get(part.name)
            tables[part.name] = part.report() if known is None else known + part.report()
        names = list(tables)
        kinds = {part.statement.name for part in parts}
        return RunReport(
            job=kinds.pop() if len(parts) == 1 else "transaction",
            target=names[0],
            txn_id=txn.txn_id,
            write_ids={name: txn.write_ids[name] for name in names},
            rows_inserted=sum(table.rows_inserted for table in tables.values()),
            rows_updated=sum(table.rows_updated for table in tables.values()),
            rows_deleted=sum(table.rows_deleted for table in tables.values()),
            files=sum(table.files for table in tables.values()),
            bytes=sum(table.bytes for table in tables.values()),
            partitions=tables[names[0]].partitions,
            column_mapping=tables[names[0]].column_mapping,
            tables=tuple(tables.values()),
            changes=self.options.changes,
            offsets=self.options.offsets,
            seconds=self.phases.seconds,
            warnings=tuple(txn.warnings),
            restarts=txn.restarts,
        )

    def _write_notes(
        self, txn: Transaction, parts: Sequence[Part], again: SecondCommit | None, now: datetime
    ) -> list[tuple[Storage, NoteFile]]:
        """Write a note in each table, so that any single note proves the run to a later attempt.

        Without a run token, only tables without new directories receive a note: their history shows
        the version.
        """
        token = self.options.run_token
        written = {part.ref for part in parts if part.output.directories}
        tables = {s.table.ref: s.table for s in self.statements}
        noted = [table for ref, table in tables.items() if token is not None or ref not in written]
        if not noted:
            return []
        report = self._report(txn, parts)
        if again is not None:
            report = replace(report, commit_retry=again.report(parts))
        notes = []
        for table in noted:
            name, below = table.ref.full_name, f"{table.folder.rstrip('/')}/"
            note = NoteFile.new(
                RunNote(
                    run_token=token or "",
                    run_id=self.options.run_id,
                    txn_id=txn.txn_id,
                    write_ids={name: txn.write_ids[name]},
                    identity=table.identity,
                    directories=tuple(
                        directory.removeprefix(below)
                        for part in parts
                        if part.name == name
                        for directory in part.output.directories
                    ),
                    report=report,
                    **origin_of(report, now),
                )
            )
            storage = Storage.of(table.folder)
            txn.own(partial(storage.delete_file, note.path), f"{storage.location}/{note.path}")
            write_note(storage, note)
            notes.append((storage, note))
        return notes
