"""The steps of an erasure: a delete, rewritten and removed files, a search, and a certificate.

Each step can be repeated by any process at any time: the hashes of the keys in the record of the
request are enough for all of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from hiveacid.dataclass import dataclass
from hiveacid.erasure.certificate import Certificate, Place, certificate_of, places_of
from hiveacid.erasure.column_statistics import Statistics
from hiveacid.erasure.copies import Copies
from hiveacid.erasure.delays import (
    files_outside,
    is_below,
    look_up_tables,
    waits_of_files,
    waits_of_others,
    waits_of_writers,
)
from hiveacid.erasure.keys import KeyHolder, KeySet
from hiveacid.erasure.rows import EraseRows, joined_keys, matching_rows
from hiveacid.erasure.search import SearchResult, TableSearch
from hiveacid.errors import CorruptFile, HiveAcidError, InvalidJob, LockTimeout, WriteConflict
from hiveacid.jobs.erase_job import MOST_ROUNDS, Wait, token_of_request
from hiveacid.jobs.maintenance_jobs import CleanJob, CompactJob
from hiveacid.jobs.report import CleanReport, CompactReport, RunReport
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import existing_table, require_same_table
from hiveacid.metastore.txn.owner import Snapshot, abort_open_transactions
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.progress import Phase, PhaseClock, PhaseObserver
from hiveacid.records.earlier_attempts import AlreadyApplied, EarlierAttempts
from hiveacid.records.erasures import CERTIFICATE, ErasedTable, Erasure, ErasureRecord, HeldFile
from hiveacid.records.signatures import SigningKey
from hiveacid.rules.location import split
from hiveacid.rules.names import TableRef
from hiveacid.rules.run_tokens import marked_token
from hiveacid.rules.schema import TableKind
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.upkeep.compaction.table import TableCompactor
from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler
from hiveacid.upkeep.table_cleaning import clean
from hiveacid.worker.engine import ArrowEngine
from hiveacid.writes.atomic_write import run_statements
from hiveacid.writes.statement import WriteContext, WriteOptions

Tables = Mapping[str, HiveTable]
T = TypeVar("T")


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
        self._phases = PhaseClock(self.observers)

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
                waits, must_repeat = self._pass()
            except HiveAcidError as error:
                error.after(self._done)
                raise
            if not must_repeat:
                break
        if self.erasure.certificate is None:
            self._store(waits=_distinct(waits), checked_at=self._now())
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
        tables, waits = look_up_tables(self.client, self.erasure)
        if waits or self.erasure.needs_delete:
            return _distinct(waits)
        waits += waits_of_writers(self.client, self.erasure, tables)
        for name, table in tables.items():
            if files := [file for file in self._held(name) if self._exists(file)]:
                waits += waits_of_files(table, files, self._clean(table, dry_run=True).kept)
            waits += self._copies(table).lags()
        return _distinct([*waits, *self._others(tables, waits)])

    def plan(self, token: str) -> Erasure:
        """Describe the effects and the delays of a new request, without a change.

        Args:
            token: The name of the transaction that reads the rows.
        """
        tables, _ = look_up_tables(self.client, self.erasure)
        refs = [table.ref for table in tables.values()]
        with Transaction(self.client, reads=refs, run_token=token) as txn:
            for name, table in tables.items():
                if self._erased(name).join:
                    self._change(name, hashes=self._joined_keys(name, txn).record)
                rows = sum(map(len, matching_rows(self.client, txn, self._holder(table))))
                write_id = txn.snapshot.write_ids[name].high_watermark + 1
                self._change(name, rows_deleted=rows, write_id=write_id)
            last = txn.snapshot.txns.high_watermark
        files = [file for table in tables.values() for file in self._search_table(table, None).held]
        self.erasure = replace(self.erasure.with_files(files), txn_ids=(last,))
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
        elif issued is not None:
            self._issue(issued)
        return issued is not None

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
        if erasure.needs_delete or look_up_tables(self.client, erasure)[1]:
            return
        names = [erased.table.name for erased in erasure.tables]
        token = marked_token(erasure.run_tokens[-1], names)
        txn_ids = erasure.txn_ids[:-1]
        try:
            EarlierAttempts(self.client, map(TableRef.parse, names), token).end()
        except AlreadyApplied as outcome:
            txn_ids = (*txn_ids, outcome.report.txn_id or 0)
            for name, write_id in outcome.report.write_ids.items():
                self._change(name, write_id=write_id)
        self.erasure = replace(self.erasure, txn_ids=txn_ids)

    def _is_left(self) -> bool:
        """Whether a file holds a key, although an unsigned record has a certificate."""
        tables, waits = look_up_tables(self.client, self.erasure)
        is_noted = not self.erasure.needs_delete
        return any(
            self._search_table(tables[name], self._erased(name).write_id if is_noted else None).held
            for name in tables.keys() - {wait.table for wait in waits}
        )

    def _pass(self) -> tuple[list[Wait], bool]:
        """Perform each step once; return what delays the request, and whether to go on at once."""
        tables, waits = look_up_tables(self.client, self.erasure)
        if waits:
            return waits, False
        if self.erasure.needs_delete:
            try:
                self._delete()
            except (LockTimeout, WriteConflict) as error:
                reason = f"The rows are not deleted yet: {error.what}"
                return [self._wait("writer", reason)], isinstance(error, WriteConflict)
        if self.erasure.searched_at is None:
            self._search(tables)
        waits += waits_of_writers(self.client, self.erasure, tables)
        live: list[HeldFile] = []
        for name, table in tables.items():
            if self._held(name):
                new_waits, unexplained = self._rewrite_and_clean(table, is_free=not waits)
                waits, live = waits + new_waits, live + unexplained
        if not waits and live:
            return self._delete_again(live)
        waits += self._others(tables, waits)
        places: list[Place] = []
        for table in tables.values():
            late, copies = self._copies(table).look()
            waits, places = waits + late, places + copies
        if waits:
            return waits, False
        if self.erasure.statistics_at is None:
            self._renew_statistics(tables)
        results = self._search(tables)
        if held := self.erasure.held:
            waits = [
                self._wait("file", f"{file.path}: {file.problem or 'It holds keys.'}", file.table)
                for file in held
            ]
            # A cleaning or a compaction may remove them.
            return waits, any(file.rows for file in held)
        stale = [name for name, table in tables.items() if self._statistics(table).has_key()]
        if stale:  # Another program has stored them meanwhile.
            self._store(statistics_at=None)
            reason = "A key is a bound of the statistics of columns in the metastore."
            return [self._wait("statistics", reason, name) for name in stale], True
        self._certify(tables, results, places)
        return [], False

    # Delete

    def _delete(self) -> None:
        """Delete the rows of all tables in one transaction, exactly once."""
        if not self.erasure.run_tokens:
            self._begin_delete()
        statements = [
            EraseRows(
                TableRef.parse(erased.table.name),
                None,
                erased.column,
                partial(self._keys_of_delete, erased.table.name),
                erased.table.identity,
            )
            for erased in self.erasure.tables
        ]
        names = [erased.table.name for erased in self.erasure.tables]
        options = WriteOptions(run_token=marked_token(self.erasure.run_tokens[-1], names))
        report = run_statements(ArrowEngine(), self.client, options, self.observers, statements)
        # At once: an error from now on must not deny the commit.
        self.erasure = replace(self.erasure, txn_ids=(*self.erasure.txn_ids, report.txn_id or 0))
        self._store(
            tables=tuple(self._deleted(erased, report) for erased in self.erasure.tables),
            deleted_at=self._now(),
            searched_at=None,
            statistics_at=None,
        )

    def _deleted(self, erased: ErasedTable, report: RunReport) -> ErasedTable:
        name = erased.table.name
        write_id = report.write_ids.get(name)
        if write_id is None:  # No row had a key.
            ref = TableRef.parse(name)
            write_id = Snapshot.take(self.client, [ref]).write_ids[name].high_watermark
        rows = sum(part.rows_deleted for part in report.tables if part.table == name)
        if not report.tables and report.target == name:
            rows = report.rows_deleted
        return replace(erased, write_id=write_id, rows_deleted=erased.rows_deleted + rows)

    def _delete_again(self, live: Sequence[HeldFile]) -> tuple[list[Wait], bool]:
        """Begin another delete, of rows that writers of the time of the last one have committed."""
        if len(self.erasure.run_tokens) < MOST_ROUNDS:
            self._begin_delete()
            return [], True
        waits = [
            self._wait("file", f"Readers see keys in {file.path}.", file.table) for file in live
        ]
        return waits, False

    def _begin_delete(self) -> None:
        tokens = self.erasure.run_tokens
        token = token_of_request(self.folder, self.erasure.request, len(tokens) + 1)
        self._store(run_tokens=(*tokens, token))

    # Keys

    def _keys_of_delete(self, name: str, context: WriteContext) -> KeySet:
        """Return the keys of a table by the snapshot of a delete, and store those of a join."""
        if not self._erased(name).join:
            return self.keys
        txn = context.reader.txn
        keys = self._joined_keys(name, txn)
        # A reader that was aborted may have found fewer rows. Before the commit, after which the
        # rows that have the keys are gone.
        txn.verify()
        self._change(name, hashes=keys.record)
        self._store()
        return keys

    def _joined_keys(self, name: str, txn: Transaction) -> KeySet:
        """Return the keys of a table that the rows of another table of the request have."""
        erased = self._erased(name)
        other, _, column = erased.join.rpartition(".")
        source = self._holder(existing_table(self.client, TableRef.parse(other)))
        keys = joined_keys(self.client, txn, source, column)
        # Those of a delete that was not committed do not count.
        stored = erased.key_hashes if self.erasure.txn_ids else frozenset()
        return keys if stored <= keys.hashes else KeySet(keys.salt, keys.hashes | stored)

    def _holder(self, table: HiveTable) -> KeyHolder:
        """Return a table with its keys, as far as they are known."""
        erased = self._erased(table.ref.full_name)
        keys = KeySet(self.keys.salt, erased.key_hashes) if erased.join else self.keys
        return KeyHolder.of(table, erased.column, keys)

    # Column statistics

    def _renew_statistics(self, tables: Tables) -> None:
        """Replace the statistics of columns, whose bounds remain after a delete."""
        renewed = [*self.erasure.statistics]
        for name, table in tables.items():
            partitions = {file.partition for file in self.erasure.files if file.table == name}
            renewed += self._statistics(table).renew(frozenset(partitions))
        self._store(statistics=_distinct(renewed), statistics_at=self._now())

    def _statistics(self, table: HiveTable) -> Statistics:
        return Statistics(self.client, self._holder(table), self.erasure.run_tokens[-1])

    # Files

    def _search(self, tables: Tables) -> dict[str, SearchResult]:
        """Search all files of the tables, and note those that hold keys."""
        results = {
            name: self._search_table(table, self._erased(name).write_id)
            for name, table in tables.items()
        }
        self._note_gone()
        files = [file for result in results.values() for file in result.held]
        self._store(files=self.erasure.with_files(files).files, searched_at=self._now())
        return results

    def _search_table(self, table: HiveTable, after: int | None) -> SearchResult:
        with self._phases(Phase.READ, f"all files of {table.ref}"):
            return TableSearch(self.client, self._holder(table), after).run()

    def _held(self, name: str) -> list[HeldFile]:
        return [file for file in self.erasure.held if file.table == name]

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
            waits += self._compact(table)
        report = self._clean(table)
        self._note_gone(report)
        files = self._held(name)
        waits += waits_of_files(table, files, report.kept)
        return waits, [] if waits else files

    def _compact(self, table: HiveTable) -> list[Wait]:
        name, client = table.ref.full_name, self.client
        held = [file for file in self._held(name) if self._exists(file)]
        # Files that only wait for their removal need no compaction.
        plan = self._clean(table, dry_run=True)
        idle = [kept.path for kept in plan.kept] + [removed.path for removed in plan.removed]
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
            self._wait(
                "compaction",
                f"The compaction of {part.partition or name} failed: {part.reason}",
                name,
            )
            for part in report.partitions
            if part.error is not None
        ]

    def _clean(self, table: HiveTable, *, dry_run: bool = False) -> CleanReport:
        job = CleanJob(
            target=table.ref.full_name,
            dry_run=dry_run,
            retention=self.erasure.retention,
            # A dry run ends no transaction.
            run_token=None if dry_run else self.erasure.run_tokens[-1],
            metastore=self.client.options,
        )
        return clean(self.client, job, phases=self._phases)

    def _note_gone(self, report: CleanReport | None = None) -> None:
        """Note which files do not exist any more."""
        removed_paths = {file.path for file in self.erasure.held if not self._exists(file)}
        if not removed_paths:
            return
        removed = [] if report is None else [directory.path for directory in report.removed]

        def noted(file: HeldFile) -> HeldFile:
            if file.gone_at is not None or file.path not in removed_paths:
                return file
            folder = self._erased(file.table).table.location.rstrip("/")
            path_in_table = file.path.removeprefix(f"{folder}/")
            is_cleaned = any(is_below(path, path_in_table) for path in removed)
            removed_by = report.txn_id if is_cleaned and report is not None else None
            return replace(file, gone_at=self._now(), removed_by=removed_by)

        self._store(files=tuple(map(noted, self.erasure.files)))

    # Reasons for a delay

    def _others(self, tables: Tables, waits: Sequence[Wait]) -> list[Wait]:
        return [*waits_of_others(self.client, self.erasure, tables, waits, self.clock())]

    def _copies(self, table: HiveTable) -> Copies:
        name = table.ref.full_name
        other_tables = {erased.table.name for erased in self.erasure.tables} - {name}
        return Copies(
            client=self.client,
            holder=self._holder(table),
            deleted_by=self._erased(name).write_id or 0,
            mirrors=self.erasure.mirrors,
            others=frozenset(other_tables),
        )

    # Certificate

    def _certify(
        self, tables: Tables, results: Mapping[str, SearchResult], copies: Sequence[Place]
    ) -> None:
        """Issue the certificate, after the tables are confirmed once more."""
        for table in tables.values():
            require_same_table(self.client, table)
        places = places_of(self.client, self.erasure, [*results.values()], copies)
        later = {name: result.later for name, result in results.items()}
        self._issue(certificate_of(self.erasure, later, places, self._now(), self.key))

    def _issue(self, certificate: Certificate) -> None:
        """Write a certificate, unless another process has done so."""
        counting = self.record.issue(
            certificate.content, lambda content: self._issued(content) is not None
        )
        issued = Certificate.parse(counting, self._certificate)
        self.record.write_text(issued.text)
        self._store(certificate=self._certificate, waits=(), checked_at=issued.issued_at)

    @property
    def _certificate(self) -> str:
        return f"{self.record.location}/{CERTIFICATE}"

    # The record

    def _erased(self, name: str) -> ErasedTable:
        return next(erased for erased in self.erasure.tables if erased.table.name == name)

    def _change(self, name: str, **changes: Any) -> None:
        tables = tuple(
            replace(erased, **changes) if erased.table.name == name else erased
            for erased in self.erasure.tables
        )
        self.erasure = replace(self.erasure, tables=tables)

    def _store(self, **changes: Any) -> None:
        self.number += 1
        self.erasure = replace(self.erasure, **changes)
        self.record.write(self.number, self.erasure)

    def _wait(self, kind: str, reason: str, table: str | None = None) -> Wait:
        return Wait(kind=kind, table=table or self.erasure.tables[0].table.name, reason=reason)

    def _now(self) -> str:
        return self.clock().isoformat(timespec="seconds")

    def _exists(self, file: HeldFile) -> bool:
        folder, name = split(self.client.allowed_locations.require(file.path))
        return ReadOnlyStorage.of(folder).exists(name)


def _distinct(values: Sequence[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(values))
