"""The transaction of a write: runs, publishes, and commits statements together."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import combinations
from types import MappingProxyType

from hiveacid.dataclass import dataclass
from hiveacid.errors import (
    MetastoreError,
    TransactionAborted,
    UserError,
    WriteConflict,
)
from hiveacid.jobs.report import RunReport, TableReport
from hiveacid.jobs.write_jobs import require_one_change, skipping_empty_sources
from hiveacid.metastore.alteration import Writer, complete_columns, forget_statistics
from hiveacid.metastore.catalog import HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import require_same_definition, require_same_table
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.metastore.write_events import AddedFile, AddedFiles, add_write_events
from hiveacid.progress import Phase, PhaseClock, PhaseObserver
from hiveacid.records.earlier_attempts import AlreadyApplied, EarlierAttempts
from hiveacid.records.overlaps import Overlaps, written_by
from hiveacid.records.run_notes import (
    NoteFile,
    RunNote,
    mark_committed,
    origin_of,
    write_note,
)
from hiveacid.records.staged_changes import StagedChange
from hiveacid.rules.locks import Target, kind_of
from hiveacid.rules.names import TableRef
from hiveacid.rules.run_tokens import unmarked_token
from hiveacid.rules.schema import TableKind
from hiveacid.storage.clock import storage_now
from hiveacid.storage.filesystems import in_threads
from hiveacid.storage.folder import Storage
from hiveacid.writes.checks import WriteChecks
from hiveacid.writes.engine import RowEngine
from hiveacid.writes.finished_work import FinishedWork
from hiveacid.writes.output import AcidOutput, InsertOnlyOutput
from hiveacid.writes.row_overlaps import RowOverlaps
from hiveacid.writes.second_commit import SecondCommit, may_help
from hiveacid.writes.staged_change import keep_change, require_stageable
from hiveacid.writes.statement import (
    Part,
    PartitionsMoved,
    Preparation,
    Statement,
    WriteContext,
    WriteOptions,
    look_up_constraints,
    require_source_rows,
)

# The locked partitions of each statement; None means the whole table.
_Locks = Sequence[Sequence[str] | None]


def run_statements(
    engine: RowEngine,
    client: MetastoreClient,
    options: WriteOptions,
    observers: Sequence[PhaseObserver],
    statements: Sequence[Statement],
    end: "Callable[[AtomicWrite, _Locks], RunReport] | None" = None,
) -> RunReport:
    """Run statements in one transaction and commit it, unless an earlier attempt has committed.

    Args:
        engine: Evaluates the rows.
        client: The metastore.
        options: The options of the write.
        observers: Receive the phases.
        statements: The statements, in order of execution.
        end: Does something else with the prepared write than to commit it.

    Raises:
        InvalidJob: Several statements change the rows of one table.
        UnprovenRun: An earlier attempt may have applied the run; only a person can determine this.
    """
    phases = PhaseClock(observers)
    preparation = Preparation(engine, client, options, phases)
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
            with engine.running("earlier attempts"):
                earlier.end()
        with preparation.stack:
            for statement in statements:
                with (
                    skipping_empty_sources(statement.on_empty),
                    engine.running(statement.name),
                ):
                    statement.prepare(preparation)
            require_one_change((s.table.ref.full_name, not s.only_adds) for s in statements)
            checks = WriteChecks(client, engine.checks(client), options.checks, statements)
            write = AtomicWrite(
                engine, client, options, phases, statements, earlier, overlaps, checks
            )
            end = end or AtomicWrite.commit
            try:
                report = end(write, [statement.locks for statement in statements])
            except PartitionsMoved as error:
                phases.note(f"Restarting: {error.what}")
                report = end(write, [None] * len(statements))
    except AlreadyApplied as outcome:
        report = replace(outcome.report, already_done=True)
    if earlier is None or not report.changes or report.files:
        return report
    return earlier.settled(report)


@dataclass(frozen=True)
class AtomicWrite:
    """Prepared statements that one transaction commits atomically."""

    engine: RowEngine
    client: MetastoreClient
    options: WriteOptions
    phases: PhaseClock
    statements: Sequence[Statement]
    earlier: EarlierAttempts | None
    overlaps: Overlaps | None
    checks: WriteChecks

    def commit(self, locks: _Locks) -> RunReport:
        """Run the transaction; after any failure, no change is visible.

        Args:
            locks: The partitions to lock for each statement; None means the whole table.
        """
        rows = self.options.conflict_policy == "rows"
        if rows and all(statement.changes_single_rows for statement in self.statements):
            return self._run_concurrently(locks)
        # Entering the transaction opens it, ends earlier attempts, locks, and takes the snapshot.
        with self._transaction(locks) as txn:
            txn.definitions.add(self._require_same_tables(txn).values())
            look_up_constraints(self.client, self.statements)
            self._require_no_overlap(locks)
            parts = self._stage(txn, txn, locks)
            return self._finish_surely(txn, txn.snapshot, parts, locks)

    def _run_concurrently(self, locks: _Locks) -> RunReport:
        """Run like ``commit``, but take the lock that excludes other changes only at the end.

        The work is done like that of a reader. To the metastore, the whole change begins when the
        work is done: the change does not conflict with changes that were committed in the meantime,
        and every engine that reads locks or write sets sees correct data.
        """
        with self._staged_by_reader(locks) as (file_owner, reading, reader_parts):
            snapshot = reading.snapshot
            # A writer that waits for this reader, to replace the files it has read, must not be
            # waited for.
            with self._transaction(locks) as txn:
                txn.definitions.add(self._require_same_tables(txn).values())
                look_up_constraints(self.client, self.statements)
                by = written_by(self.options.run_token, self.client.user)
                overlaps = RowOverlaps(self.client, by, snapshot, txn)
                for part in reader_parts:
                    overlaps.require_none(part)
                with self.phases(Phase.WRITE, "the files to their places"):
                    parts = [part.of(txn) for part in reader_parts]
                report = self._finish_surely(txn, snapshot, parts, locks)
            for part in reader_parts:
                file_owner.attempt("remove staged files", part.output.discard)
            return report

    def stage(self, locks: _Locks, lifetime: timedelta) -> StagedChange:
        """Stage the change without a commit; afterwards no lock and no transaction is left.

        Args:
            locks: The partitions to lock for each statement at the commit.
            lifetime: The time in which the change may be published.
        """
        require_stageable(self.client, self.statements)
        with self._staged_by_reader(locks) as (file_owner, reading, parts):
            for part in parts:
                part.context.require_locked(part.output.partitions)
            self.checks.require_counts(parts)
            with self.phases(Phase.PUBLISH, "the staged change"):
                return keep_change(file_owner, reading, parts, self.options, lifetime)

    def publish(self, locks: _Locks, work: FinishedWork, *, queues: bool = True) -> RunReport:
        """Commit finished work, unless something that matters has changed since then.

        Args:
            locks: The partitions to lock for each statement.
            work: The work.
            queues: Whether the locks are requested behind those of other jobs.

        Raises:
            OverlapRefused: Under the policy rows, others have changed the same rows.
        """
        with self._transaction(locks, queues=queues) as txn:
            txn.definitions.add(self._require_same_tables(txn).values())
            look_up_constraints(self.client, self.statements)
            return self._finish(txn, work.of(txn), work)

    @contextmanager
    def _staged_by_reader(
        self, locks: _Locks
    ) -> Iterator[tuple[Transaction, Transaction, list[Part]]]:
        """Stage the files like a reader, whose locks have ended in the body.

        Yields:
            The transaction that the files belong to, the reader, and the staged statements.
        """
        refs = [statement.table.ref for statement in self.statements]
        reads = [*refs, *(ref for statement in self.statements for ref in statement.reads)]
        token = self.options.source_token
        with Transaction(self.client, keeps_files=True, run_token=token) as file_owner:
            with Transaction(
                self.client,
                reads=[*dict.fromkeys(reads)],
                run_token=token,
                lock_wait_seconds=self.options.lock_wait_seconds,
                phases=self.phases,
            ) as reading:
                look_up_constraints(self.client, self.statements)
                # The write id that the transaction receives if no other writer precedes it.
                file_owner.write_ids = {
                    ref.full_name: reading.snapshot.write_ids[ref.full_name].high_watermark + 1
                    for ref in refs
                }
                parts = self._stage(file_owner, reading, locks)
            yield file_owner, reading, parts

    def _finish_surely(
        self, txn: Transaction, snapshot: Snapshot, parts: Sequence[Part], locks: _Locks
    ) -> RunReport:
        """Publish and commit the staged files; repeat this if the transaction is lost meanwhile."""
        # Nothing is read after this line. Cleaners may have removed files that a lost transaction
        # still had to read.
        txn.confirm_alive()
        try:
            return self._finish(txn, parts)
        except (TransactionAborted, WriteConflict, MetastoreError) as error:
            if not may_help(error, self.options) or not txn.give_up(error):
                raise
            second_commit = SecondCommit(
                self.client, self.options, self.phases, snapshot, parts, txn, error
            )
            with ExitStack() as stack:
                second_commit.keep(stack)
                txn.abort(f"it is committed once more: {error.what}")
                report = self.publish(locks, second_commit, queues=False)
            second_commit.log(report)
            return report

    def _finish(
        self, txn: Transaction, parts: Sequence[Part], work: FinishedWork | None = None
    ) -> RunReport:
        """Publish and commit the staged files."""
        txn.check_alive()
        require_published_together(parts)
        results = self.checks.require_counts(parts)
        with self.phases(Phase.REGISTER, "what was written"):
            for part in parts:
                part.output.seal()
            self._register(txn, parts)
        notes: list[tuple[Storage, NoteFile]] = []
        # By one clock for all writers of a table: versions are read as of a time.
        now = storage_now(self.statements[0].table.folder, txn.txn_id)
        for part in parts:
            with self.phases(Phase.PUBLISH, "the files"):
                # Written before any file is visible: the notes prove to a later attempt which run
                # the files belong to.
                notes = notes or self._write_notes(txn, parts, work, now)
                self._publish(txn, parts, part, now)
        results += self.checks.require_rows(txn, parts, self.phases)
        if results:
            notes = [(storage, note.with_checks(results)) for storage, note in notes]
            for storage, note in notes:
                write_note(storage, note, is_replacement=True)
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
        report = self._report(txn, parts).with_checks(results)
        return report if work is None else work.described(report, parts)

    def _transaction(self, locks: _Locks, *, queues: bool = True) -> Transaction:
        return Transaction(
            self.client,
            targets=[
                Target(s.table.ref, s.operation, bool(s.table.partition_keys), partitions)
                for s, partitions in zip(self.statements, locks, strict=True)
            ],
            reads=[
                *(ref for statement in self.statements for ref in statement.reads),
                *self.checks.reads,
            ],
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
            locked_names = names if statement.table.partition_keys else [None]
            self.overlaps.require_none(
                statement.table.ref, kind_of(statement.operation), locked_names or ()
            )

    def _stage(self, txn: Transaction, reading: Transaction, locks: _Locks) -> list[Part]:
        """Run the statements in order.

        Args:
            txn: The transaction that the staged files belong to.
            reading: The transaction whose snapshot is read.
            locks: The partitions that are, or will be, locked for each statement.
        """
        reader = self.engine.reader(self.client, reading, self.statements[0].table, txn)
        parts = []
        for number, (statement, names) in enumerate(zip(self.statements, locks, strict=True)):
            table = statement.table
            kind = InsertOnlyOutput if table.kind is TableKind.INSERT_ONLY else AcidOutput
            output = kind(
                self.engine, self.client, table, txn, statement.codec, number, statement.rules
            )
            context = WriteContext(self.client, table, txn, output, self.phases, names, reader)
            description = f"{statement.name} {table.ref.full_name}"
            if len(self.statements) > 1:
                self.phases.step(f"statement {number + 1} of {len(self.statements)}: {description}")
            with skipping_empty_sources(statement.on_empty):
                with self.engine.running(description, f"hiveacid-{txn.txn_id}-{number}"):
                    counts = statement.stage(context)
                warning = require_source_rows(statement, counts)
            # The mapping is computed from files, which cleaners may remove after the commit.
            parts.append(Part(statement, context, counts, context.column_mapping, warning))
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
        new_partitions: dict[TableRef, list[HivePartition]] = defaultdict(list)
        try:
            registered = self._register_partitions(txn, parts, current, new_partitions)
        finally:
            # Also for a transaction that was lost: these partitions stay.
            read = {ref: self._complete(current[ref], new) for ref, new in new_partitions.items()}
        if registered:
            self._require_same_tables(txn, parts, read)

    def _register_partitions(
        self,
        txn: Transaction,
        parts: Sequence[Part],
        current: Mapping[TableRef, HiveTable],
        new_partitions: dict[TableRef, list[HivePartition]],
    ) -> bool:
        """Add and register partitions, and forget statistics that will be wrong.

        Args:
            txn: The transaction.
            parts: The statements.
            current: The definitions of the targets.
            new_partitions: Receives the partitions that were added.

        Returns:
            Whether the metastore has changed anything.
        """
        partitions: dict[TableRef, set[str]] = defaultdict(set)
        for part in parts:
            if part.statement.table.partition_keys and part.output.staged:
                if new := part.output.take_new_partitions(current[part.ref]):
                    txn.confirm_alive()
                    new_partitions[part.ref] += new
                    self.client.add_partitions(part.ref, new)
                partitions[part.ref].update(part.output.partitions)
        for ref, names in partitions.items():
            txn.register_partitions(ref, sorted(names))
        registered = bool(partitions)
        for part in parts:
            if part.output.staged:
                write_ids = txn.snapshot.write_ids[part.name]
                writer = Writer(part.output.write_id, write_ids, txn.confirm_alive)
                written, read = part.output.partitions, current[part.ref]
                registered |= forget_statistics(self.client, part.ref, written, writer, read)
        return registered

    def _complete(self, table: HiveTable, new_partitions: Sequence[HivePartition]) -> HiveTable:
        """Give new partitions all columns of their table, and return its definition."""
        read = partial(require_same_table, self.client, table)
        return complete_columns(self.client, table, new_partitions, read)

    def _publish(self, txn: Transaction, parts: Sequence[Part], part: Part, now: datetime) -> None:
        """Publish the files of a statement, with a note on the transaction beside them.

        The note describes all statements on the table: they are one write, with one write id.
        """
        token = self.options.run_token
        report = self._report(txn, [sibling for sibling in parts if sibling.name == part.name])
        part.output.publish(
            {
                "run_token": token and unmarked_token(token),
                **({} if self.options.run_id is None else {"run_id": self.options.run_id}),
                "txn_id": txn.txn_id,
                "write_id": txn.write_ids[part.name],
                **({"checked": True} if self.options.checks else {}),
                **origin_of(report, now),
                "report": report.short_record(),
            }
        )

    def _report(self, txn: Transaction, parts: Sequence[Part]) -> RunReport:
        tables: dict[str, TableReport] = {}
        for part in parts:
            table_report = tables.get(part.name)
            tables[part.name] = (
                part.report() if table_report is None else table_report + part.report()
            )
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
            columns_added=tables[names[0]].columns_added,
            tables=tuple(tables.values()),
            changes=self.options.changes,
            offsets=self.options.offsets,
            seconds=self.phases.seconds,
            warnings=(*txn.warnings, *(part.warning for part in parts if part.warning)),
            restarts=txn.restarts,
        )

    def _write_notes(
        self,
        txn: Transaction,
        parts: Sequence[Part],
        work: FinishedWork | None,
        now: datetime,
    ) -> list[tuple[Storage, NoteFile]]:
        """Write a note in each table, so that any single note proves the run to a later attempt.

        Without a run token and checks, only tables without new directories receive a note: their
        history shows the version.
        """
        token = self.options.run_token
        written_tables = {part.ref for part in parts if part.output.directories}
        tables = {s.table.ref: s.table for s in self.statements}
        noted = [
            table
            for ref, table in tables.items()
            if token is not None or self.options.checks or ref not in written_tables
        ]
        if not noted:
            return []
        report = self._report(txn, parts)
        if work is not None:
            report = work.described(report, parts)
        notes = []
        for table in noted:
            name, prefix = table.ref.full_name, f"{table.folder.rstrip('/')}/"
            note = NoteFile.new(
                RunNote(
                    run_token=token or "",
                    run_id=self.options.run_id,
                    txn_id=txn.txn_id,
                    write_id=txn.write_ids[name],
                    identity=table.identity,
                    directories=tuple(
                        directory.removeprefix(prefix)
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


def require_published_together(parts: Sequence[Part]) -> None:
    """Refuse parts that must not be published, once the written partitions are known.

    Raises:
        PartitionsMoved: A statement has written partitions that are not locked.
        UserError: Two statements write the same partition, and one of them overwrites it: the rows
            of the other statement would be lost.
    """
    for part in parts:
        part.context.require_locked(part.output.partitions)
    for one, sibling in combinations(parts, 2):
        if one.name != sibling.name or not (one.overwrites or sibling.overwrites):
            continue
        shared = one.output.partition_names & sibling.output.partition_names
        if shared:
            where = min(name or "the whole table" for name in shared)
            raise UserError(
                f"{one.name}: {where} is overwritten and written at the same time by two "
                "statements of one transaction.",
                remedy="Write all its rows by the one statement that overwrites.",
            )


def send_write_events(client: MetastoreClient, txn: Transaction, parts: Sequence[Part]) -> None:
    """Report the published files to the metastore's listeners, if it has any.

    Args:
        client: The metastore.
        txn: The transaction that is about to commit.
        parts: The statements of the transaction.
    """
    if not any(part.output.staged for part in parts) or not client.listeners.want_events:
        return
    with parts[0].context.phases(Phase.REGISTER, "the write events"):
        for ref, table in {part.ref: part.statement.table for part in parts}.items():
            write_id = txn.write_ids[ref.full_name]
            files = _added([part for part in parts if part.ref == ref])
            add_write_events(client, table, txn.txn_id, write_id, files)


def _added(parts: Sequence[Part]) -> list[AddedFiles]:
    """The files of one table's statements: one event for each written partition."""
    partitions: dict[str | None, HivePartition | None] = {}
    files: dict[str | None, list[AddedFile]] = defaultdict(list)
    for part in parts:
        for folder, _ in part.output.staged:
            partitions[folder.name] = folder.partition
        for partition, file in _files(part):
            files[partition].append(file)
    return [
        AddedFiles(partitions[name], files_of_partition)
        for name, files_of_partition in files.items()
    ]


def _files(part: Part) -> Iterator[tuple[str | None, AddedFile]]:
    output = part.output
    located_files = [
        (folder.name, name, f"{directory}/{file}")
        for (folder, name), directory in zip(output.staged, output.directories, strict=True)
        for file in output.file_names(folder, name)
    ]
    locations = [location for _, _, location in located_files]
    checksums = in_threads(part.output.engine.checksum, locations)
    for (partition, directory, location), checksum in zip(located_files, checksums, strict=True):
        yield partition, AddedFile(location, directory, checksum)
