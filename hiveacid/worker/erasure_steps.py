"""The steps of an erasure: a delete, rewritten and removed files, a search, and a certificate.

Each step can be repeated by any process at any time: the hashes of the keys in the record of the
request are enough for all of them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from hiveacid.errors import (
    CorruptFile,
    HiveAcidError,
    InvalidJob,
    LockTimeout,
    TableNotFound,
    WriteConflict,
)
from hiveacid.jobs.erase_job import (
    MOST_ROUNDS,
    Wait,
    token_of_request,
)
from hiveacid.jobs.maintenance_jobs import CleanJob, CompactJob
from hiveacid.jobs.options import marked_token
from hiveacid.jobs.report import CleanReport, CompactReport, RunReport
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import column_of, existing_table, require_same_table
from hiveacid.metastore.txn.owner import Snapshot, abort_open_transactions
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.progress import Phase, PhaseClock, PhaseObserver
from hiveacid.records.earlier_attempts import AlreadyApplied, EarlierAttempts
from hiveacid.records.erasures import (
    CERTIFICATE,
    ErasedTable,
    Erasure,
    ErasureRecord,
    HeldFile,
)
from hiveacid.records.signatures import SigningKey
from hiveacid.rules.location import split
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.upkeep.compaction.table import TableCompactor
from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler
from hiveacid.upkeep.erasure.certificate import Certificate, certificate_of
from hiveacid.upkeep.erasure.column_statistics import Statistics
from hiveacid.upkeep.erasure.key_set import KeySet
from hiveacid.upkeep.erasure.places import (
    Copies,
    Place,
    files_outside,
    other_places,
    waits_of_compactors,
    waits_of_files,
    waits_of_tables,
    waits_of_writers,
)
from hiveacid.upkeep.erasure.search import Searched, TableSearch
from hiveacid.upkeep.survey import blockers_of
from hiveacid.upkeep.table_cleaning import clean
from hiveacid.worker.engine import ArrowEngine
from hiveacid.worker.erased_rows import EraseRows, Join, matching_rows
from hiveacid.writes.atomic_write import run_statements
from hiveacid.writes.statement import WriteContext, WriteOptions

# Named transactions in a reason, at most.
_MOST_NAMED = 3


@dataclass
class Steps:
    """The steps of a request that are possible now; each stores the record when it is done.

    Attributes:
        client: The metastore.
        observers: Observers of the phases.
        clock: The present time.
        folder: The folder of requests.
        record: The record of the request.
        number: The number of its state.
        erasure: Its state.
        keys: Its keys, or their hashes.
        key: The key of the installation, by which the record was verified. Without one, the record is
            evidence only: what it states about deletes and the certificate is looked up again.
    """

    client: MetastoreClient
    observers: Sequence[PhaseObserver]
    clock: Callable[[], datetime]
    folder: str
    record: ErasureRecord
    number: int
    erasure: Erasure
    keys: KeySet
    key: SigningKey | None

    def __post_init__(self) -> None:
        self.phases = PhaseClock(self.observers)

    def run(self) -> Erasure:
        """Perform all steps that are possible now.

        Raises:
            InvalidJob: The record is signed, and this process has no key.
        """
        self.require_key()
        if self._is_certified():
            return self.erasure
        for _ in range(MOST_ROUNDS + 1):
            try:
                waits, again = self._pass()
            except HiveAcidError as error:
                error.after(self._done)
                raise
            if not again:
                break
        if self.erasure.certificate is None:
            self._store(waits=_different(waits), checked_at=self._now())
        return self.erasure

    def require_key(self) -> None:
        """Refuse to work on a signed record without the key, which its hashes need as well.

        Raises:
            InvalidJob: There is no key.
        """
        if self.key is None and self.erasure.signature is not None:
            raise InvalidJob(
                f"The request {self.erasure.request} is signed, and this process has no key.",
                remedy="Set signing_key_file of [hive_acid] to the file with the key of signatures.",
            )

    def delays(self) -> tuple[Wait, ...]:
        """Return what delays the request, without a change."""
        if self.erasure.certificate is not None:
            return ()
        tables = self._tables()
        if waits := [*waits_of_tables(self.erasure, tables)]:
            return _different(waits)
        if self.erasure.needs_delete:
            return ()
        described = {name: table for name, table in tables.items() if table is not None}
        waits = [*self._writers(described)]
        for name, table in described.items():
            job = CleanJob(target=name, dry_run=True, retention=self.erasure.retention)
            held = [file for file in self.erasure.held if file.table == name and self._exists(file)]
            if held:
                waits += waits_of_files(table, held, clean(self.client, job).kept)
            waits += self._copies(table).lags()
        return _different([*waits, *self._others_at_work(described, waits)])

    def plan(self) -> Erasure:
        """Describe the effects and the delays of a new request, without a change."""
        client = self.client
        tables = {name: table for name, table in self._tables().items() if table is not None}
        refs = [table.ref for table in tables.values()]
        with Transaction(client, reads=refs) as txn:
            for name, table in tables.items():
                erased = self._erased(name)
                if erased.join:
                    self._join(erased, self._note_keys).evaluate(client, txn)
                column, keys = column_of(table, erased.column), self._keys(self._erased(name))
                rows = sum(map(len, matching_rows(client, txn, table, column, keys)))
                seen = txn.snapshot.write_ids[name].high_watermark
                self._change(name, rows_deleted=rows, write_id=seen + 1)
            last = txn.snapshot.txns.high_watermark
        found = [self._searched(table, after=None) for table in tables.values()]
        held = [file for each in found for file in each.held]
        self.erasure = replace(self.erasure.with_files(held), txn_ids=(last,))
        return replace(self.erasure, waits=self.delays())

    @property
    def _done(self) -> str:
        """The part that remains done if a step fails; "" before the rows are deleted."""
        txns = ", ".join(str(txn_id) for txn_id in self.erasure.txn_ids if txn_id)
        if not txns:
            return ""
        return (
            f"Before that, the rows of request {self.erasure.request} were deleted, by transaction"
            f" {txns}: they are invisible, and their files are removed when the request is continued."
        )

    def _is_certified(self) -> bool:
        """Whether the erasure has a certificate, including one that a killed process has stored.

        Without a key, anybody may have written it: then the files decide.
        """
        claimed = self.erasure
        if self.key is not None and claimed.certificate is not None:
            return True
        issued = self._issued(self.record.certificate())
        if self.key is None:
            self._doubt()
            if claimed.certificate is None or issued is None or self._is_left():
                return False
            self.erasure = claimed
            return True
        if issued is None:
            return False
        self._issue(issued)
        return True

    def _issued(self, content: bytes | None) -> Certificate | None:
        """Parse a certificate of the request; None for other contents, which anybody may have written.

        Raises:
            NewerRecord: A newer version has issued it.
        """
        if content is None:
            return None
        try:
            issued = Certificate.parse(content, self._certificate)
        except CorruptFile:
            return None
        is_own = issued.signature_state(self.key) == ("unsigned" if self.key is None else "valid")
        return issued if is_own and issued.is_of(self.erasure) else None

    def _doubt(self) -> None:
        """Take from an unsigned record only the last delete that the tables themselves have noted.

        A delete that they have not noted is repeated.
        """
        erasure = self.erasure = replace(self.erasure, certificate=None)
        if erasure.needs_delete or [*waits_of_tables(erasure, self._tables())]:
            return
        names = [each.table.name for each in erasure.tables]
        token = marked_token(erasure.run_tokens[-1], names)
        txn_ids = erasure.txn_ids[:-1]
        try:
            EarlierAttempts(self.client, map(TableRef.parse, names), token).end()
        except AlreadyApplied as applied:
            txn_ids = (*txn_ids, applied.report.txn_id or 0)
            for name, write_id in applied.report.write_ids.items():
                self._change(name, write_id=write_id)
        self.erasure = replace(self.erasure, txn_ids=txn_ids)

    def _is_left(self) -> bool:
        """Whether a file holds a key, although an unsigned record has a certificate."""
        tables = self._tables()
        others = {wait.table for wait in waits_of_tables(self.erasure, tables)}
        known = {name: table for name, table in tables.items() if table is not None}
        is_noted = not self.erasure.needs_delete
        return any(
            self._searched(
                known[name], after=self._erased(name).write_id if is_noted else None
            ).held
            for name in known.keys() - others
        )

    def _pass(self) -> tuple[list[Wait], bool]:
        """Perform each step once; return what delays the request, and whether to go on at once."""
        tables = self._tables()
        if waits := [*waits_of_tables(self.erasure, tables)]:
            return waits, False
        described = {name: table for name, table in tables.items() if table is not None}
        if self.erasure.needs_delete:
            try:
                self._delete()
            except (LockTimeout, WriteConflict) as other:
                reason = f"The rows are not deleted yet: {other.what}"
                return [self._wait("writer", reason)], isinstance(other, WriteConflict)
        if self.erasure.searched_at is None:
            self._search(described)
        waits = [*self._writers(described)]
        live: list[HeldFile] = []
        for name, table in described.items():
            if any(file.table == name for file in self.erasure.held):
                more, left = self._rewrite_and_clean(table, is_free=not waits)
                waits += more
                live += left
        if not waits and live:
            return self._delete_again(live)
        waits += self._others_at_work(described, waits)
        places: list[Place] = []
        for table in described.values():
            copies, found = self._copies(table).look()
            waits, places = waits + copies, places + found
        if waits:
            return waits, False
        if self.erasure.statistics_at is None:
            self._renew_statistics(described)
            self._store(statistics_at=self._now())
        searched = self._search(described)
        if self.erasure.held:
            return self._unexplained(), self._is_progress()
        stale = [
            erased.table.name
            for erased in self.erasure.tables
            if self._statistics(described[erased.table.name], erased).has_key()
        ]
        if stale:  # Another program has stored them meanwhile.
            self._store(statistics_at=None)
            reason = "A key is a bound of the statistics of columns in the metastore."
            return [self._wait("statistics", reason, name) for name in stale], True
        self._certify(described, searched, places)
        return [], False

    # Delete

    def _delete(self) -> None:
        """Delete the rows of all tables in one transaction, exactly once."""
        erasure = self.erasure
        if not erasure.run_tokens:
            token = token_of_request(self.folder, erasure.request, 1)
            self._store(run_tokens=(token,))
        token = self.erasure.run_tokens[-1]
        names = [each.table.name for each in erasure.tables]
        statements = [
            EraseRows(
                TableRef.parse(each.table.name),
                None,
                each.column,
                partial(self._keys_by, each.table.name),
                each.table.identity,
            )
            for each in erasure.tables
        ]
        options = WriteOptions(run_token=marked_token(token, names))
        client = self.client
        done = run_statements(ArrowEngine(), client, options, self.observers, statements)
        # At once: an error from now on must not deny the commit.
        self.erasure = replace(self.erasure, txn_ids=(*erasure.txn_ids, done.txn_id or 0))
        self._store(
            tables=tuple(self._deleted(each, done) for each in self.erasure.tables),
            deleted_at=self._now(),
            searched_at=None,
            statistics_at=None,
        )

    def _deleted(self, erased: ErasedTable, done: RunReport) -> ErasedTable:
        name = erased.table.name
        write_id = done.write_ids.get(name)
        if write_id is None:  # No row had a key.
            ref = TableRef.parse(name)
            write_id = Snapshot.take(self.client, [ref]).write_ids[name].high_watermark
        rows = sum(each.rows_deleted for each in done.tables if each.table == name)
        if not done.tables and done.target == name:
            rows = done.rows_deleted
        return replace(erased, write_id=write_id, rows_deleted=erased.rows_deleted + rows)

    def _delete_again(self, live: Sequence[HeldFile]) -> tuple[list[Wait], bool]:
        """Begin another delete, of rows that writers of the time of the last one have committed."""
        if len(self.erasure.run_tokens) >= MOST_ROUNDS:
            return [
                self._wait("file", f"Readers see keys in {file.path}.", file.table) for file in live
            ], False
        number = len(self.erasure.run_tokens) + 1
        token = token_of_request(self.folder, self.erasure.request, number)
        self._store(run_tokens=(*self.erasure.run_tokens, token))
        return [], True

    # Keys

    def _keys(self, erased: ErasedTable) -> KeySet:
        """Return the keys of a table, as far as they are known."""
        return KeySet(self.keys.salt, erased.key_hashes) if erased.join else self.keys

    def _keys_by(self, name: str, context: WriteContext) -> KeySet:
        """Return the keys of a table by the snapshot of a delete, and store those of a join."""
        erased = self._erased(name)
        if not erased.join:
            return self.keys

        txn = context.reader.txn

        def store(name: str, keys: KeySet) -> None:
            # A reader that was aborted may have found fewer rows. Before the commit, after which the
            # rows that have the keys are gone.
            txn.confirm_alive()
            txn.definitions.require_unchanged()
            self._note_keys(name, keys)
            self._store()

        return self._join(erased, store).evaluate(context.client, txn)

    def _join(self, erased: ErasedTable, store: Callable[[str, KeySet], None]) -> Join:
        other, _, equal = erased.join.rpartition(".")
        return Join(
            TableRef.parse(other),
            self._erased(other).column,
            equal,
            keys=self._keys(self._erased(other)),
            # Those of a delete that was not committed do not count.
            known=erased.key_hashes if self.erasure.txn_ids else frozenset(),
            store=partial(store, erased.table.name),
        )

    def _note_keys(self, name: str, keys: KeySet) -> None:
        self._change(name, hashes=" ".join(sorted(keys.hashes)))

    def _erased(self, name: str) -> ErasedTable:
        (erased,) = (each for each in self.erasure.tables if each.table.name == name)
        return erased

    def _change(self, name: str, **changes: Any) -> None:
        tables = tuple(
            replace(each, **changes) if each.table.name == name else each
            for each in self.erasure.tables
        )
        self.erasure = replace(self.erasure, tables=tables)

    # Column statistics

    def _renew_statistics(self, tables: Mapping[str, HiveTable]) -> None:
        """Replace the statistics of columns, whose bounds remain after a delete."""
        replaced: list[str] = []
        for erased in self.erasure.tables:
            name = erased.table.name
            files = [file for file in self.erasure.files if file.table == name]
            replaced += self._statistics(tables[name], erased).renew(
                frozenset(file.partition for file in files)
            )
        if replaced:
            self._store(statistics=tuple(dict.fromkeys((*self.erasure.statistics, *replaced))))

    def _statistics(self, table: HiveTable, erased: ErasedTable) -> Statistics:
        column = column_of(table, erased.column)
        token = self.erasure.run_tokens[-1]
        return Statistics(self.client, table, column, self._keys(erased), token)

    # Files

    def _search(self, tables: Mapping[str, HiveTable]) -> dict[str, Searched]:
        """Search all files of the tables, and note those that hold keys."""
        found = {
            each.table.name: self._searched(tables[each.table.name], after=each.write_id)
            for each in self.erasure.tables
        }
        self._note_gone()
        held = [file for each in found.values() for file in each.held]
        erasure = self.erasure.with_files(held)
        self._store(files=erasure.files, searched_at=self._now())
        return found

    def _searched(self, table: HiveTable, *, after: int | None) -> Searched:
        erased = self._erased(table.ref.full_name)
        column = column_of(table, erased.column)
        with self.phases(Phase.READ, f"all files of {table.ref}"):
            return TableSearch(self.client, table, column, self._keys(erased), after).run()

    def _rewrite_and_clean(
        self, table: HiveTable, *, is_free: bool
    ) -> tuple[list[Wait], list[HeldFile]]:
        """Compact the partitions in which readers open files with keys, and clean the table.

        Returns:
            The reasons for a delay, and the files that are read although nothing delays their removal.
        """
        name = table.ref.full_name
        waits: list[Wait] = []
        # A base of an insert-only table has had no rows with keys from the beginning.
        if is_free and table.kind is TableKind.FULL_ACID:
            waits += self._compacted(table)
        report = self._cleaned(table)
        self._note_gone(report)
        held = [file for file in self.erasure.held if file.table == name]
        waits += waits_of_files(table, held, report.kept)
        explained = [wait for wait in waits if wait.table == name]
        return waits, [] if explained else held

    def _compacted(self, table: HiveTable) -> list[Wait]:
        name, client = table.ref.full_name, self.client
        held = [file for file in self.erasure.held if file.table == name and self._exists(file)]
        # Files that only wait for their removal need no compaction.
        plan = clean(client, replace(self._cleaning(table), dry_run=True))
        idle = [each.path for each in plan.kept] + [each.path for each in plan.removed]
        opened = files_outside(table, held, idle)
        partitions = sorted({file.partition for file in opened if file.partition is not None})
        if not opened or (table.partition_keys and not partitions):
            return []
        job = CompactJob(
            target=name,
            type="major",
            partitions=partitions or None,
            reason=f"erasure {self.erasure.request}",
            run_in="worker",
            run_token=self.erasure.run_tokens[-1],
            metastore=client.options,
        )
        # No other process would: the heartbeats of a killed process end, but its locks remain.
        abort_open_transactions(client, *job.tokens)
        with WorkerScheduler() as scheduler:
            report: CompactReport = TableCompactor(scheduler, client, job, self.observers).run()
        return [
            Wait(
                kind="compaction",
                table=name,
                reason=f"The compaction of {each.partition or name} failed: {each.reason}",
            )
            for each in report.partitions
            if each.error is not None
        ]

    def _cleaned(self, table: HiveTable) -> CleanReport:
        return clean(self.client, self._cleaning(table), phases=self.phases)

    def _cleaning(self, table: HiveTable) -> CleanJob:
        return CleanJob(
            target=table.ref.full_name,
            retention=self.erasure.retention,
            run_token=self.erasure.run_tokens[-1],
            metastore=self.client.options,
        )

    def _note_gone(self, report: CleanReport | None = None) -> None:
        """Note which files do not exist any more."""
        gone = {file.path for file in self.erasure.held if not self._exists(file)}
        if not gone:
            return
        folder = {each.table.name: each.table.location for each in self.erasure.tables}
        removed = () if report is None else [each.path for each in report.removed]

        def noted(file: HeldFile) -> HeldFile:
            if file.gone_at is not None or file.path not in gone:
                return file
            inside = file.path.removeprefix(f"{folder[file.table].rstrip('/')}/")
            own = any(f"{inside}/".startswith(f"{path}/") for path in removed)
            by = report.txn_id if own and report is not None else None
            return replace(file, gone_at=self._now(), removed_by=by)

        self._store(files=tuple(map(noted, self.erasure.files)))

    # Reasons for a delay

    def _writers(self, tables: Mapping[str, HiveTable]) -> list[Wait]:
        refs = [table.ref for table in tables.values()]
        snapshot = Snapshot.take(self.client, refs)
        waits: list[Wait] = []
        for erased in self.erasure.tables:
            table = tables[erased.table.name]
            write_ids = snapshot.write_ids[erased.table.name]
            assert erased.write_id is not None
            waits += waits_of_writers(table, write_ids, erased.write_id)
        return waits

    def _others_at_work(
        self, tables: Mapping[str, HiveTable], waits: Sequence[Wait]
    ) -> Iterator[Wait]:
        """Yield those that may copy rows of the time before the delete, if nobody named it yet."""
        client = self.client
        last = max(self.erasure.txn_ids, default=0)
        is_named = any(wait.kind in ("reader", "writer") for wait in waits)
        oldest = Snapshot.take(client, []).min_open
        if oldest <= last and not is_named:
            now, first = self.clock(), next(iter(tables.values()))
            older = [
                each.describe(now)
                for each in blockers_of(client, first.ref, everywhere=True)
                if each.txn_id is not None and each.txn_id <= last
            ]
            named = "; ".join(older[:_MOST_NAMED]) or f"transaction {oldest}"
            reason = f"Transactions that began before the delete have not ended: {named}."
            yield self._wait("reader", reason)
        for table in tables.values():
            yield from waits_of_compactors(client, table)

    def _copies(self, table: HiveTable) -> Copies:
        erased = self._erased(table.ref.full_name)
        assert erased.write_id is not None
        column, keys = column_of(table, erased.column).name, self._keys(erased)
        client, mirrors = self.client, self.erasure.mirrors
        others = frozenset(each.table.name for each in self.erasure.tables if each is not erased)
        return Copies(client, table, column, keys, erased.write_id, mirrors, others)

    def _unexplained(self) -> list[Wait]:
        """Return the files that the last search has found."""
        return [
            self._wait("file", f"{file.path}: {file.problem or 'It holds keys.'}", file.table)
            for file in self.erasure.held
        ]

    def _is_progress(self) -> bool:
        """Whether the last search has found files that a cleaning or a compaction may remove."""
        return any(file.rows for file in self.erasure.held)

    # Certificate

    def _certify(
        self,
        tables: Mapping[str, HiveTable],
        searched: Mapping[str, Searched],
        places: Sequence[Place],
    ) -> None:
        """Issue the certificate, after the tables are confirmed once more."""
        client = self.client
        for table in tables.values():
            require_same_table(client, table)
        more = [*places, *other_places(client, self.erasure, [*tables.values()])]
        certificate = certificate_of(self.erasure, searched, more, self._now(), self.key)
        self._issue(certificate)

    def _issue(self, certificate: Certificate) -> None:
        """Write a certificate, unless another process has done so."""
        counting = self.record.issue(
            certificate.content, lambda other: self._issued(other) is not None
        )
        issued = Certificate.parse(counting, self._certificate)
        self.record.write_text(issued.text)
        self._store(certificate=self._certificate, waits=(), checked_at=issued.issued_at)

    @property
    def _certificate(self) -> str:
        return f"{self.record.location}/{CERTIFICATE}"

    # The record

    def _store(self, **changes: Any) -> None:
        self.number += 1
        self.erasure = replace(self.erasure, **changes)
        self.record.write(self.number, self.erasure)

    def _tables(self) -> dict[str, HiveTable | None]:
        found: dict[str, HiveTable | None] = {}
        for each in self.erasure.tables:
            found[each.table.name] = None
            with suppress(TableNotFound):
                table = existing_table(self.client, TableRef.parse(each.table.name))
                found[each.table.name] = table
        return found

    def _wait(self, kind: str, reason: str, table: str | None = None) -> Wait:
        return Wait(kind=kind, table=table or self.erasure.tables[0].table.name, reason=reason)

    def _now(self) -> str:
        return self.clock().isoformat(timespec="seconds")

    def _exists(self, file: HeldFile) -> bool:
        folder, name = split(self.client.allowed_locations.require(file.path))
        return ReadOnlyStorage.of(folder).exists(name)


def _different(waits: Sequence[Wait]) -> tuple[Wait, ...]:
    return tuple(dict.fromkeys(waits))
