"""Earlier attempts of a run: open transactions to abort, or the report of a commit."""

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Self

from hiveacid.errors import (
    ConflictError,
    CorruptFile,
    InvalidJob,
    MalformedName,
    NewerRecord,
    OutsideTable,
    PermissionRefused,
    ScriptChanged,
    StorageError,
    TableNotFound,
    TooLarge,
    UnprovenRun,
)
from hiveacid.foreign.budget import Threads
from hiveacid.jobs import codec
from hiveacid.jobs.options import agent_info, run_of, source_token, unmarked_token
from hiveacid.jobs.report import CheckResult, RunReport, TableReport
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.locations import partition_locations
from hiveacid.metastore.txn.owner import Snapshot, abort_open_transactions, find_transactions
from hiveacid.records.proofs import (
    NoteName,
    RunOutcome,
    digest_of,
    digest_of_run,
    holds_write,
    outcome_by_lists,
)
from hiveacid.records.store import Kind, Record, RecordStore
from hiveacid.rules.cleaning import stale_staging
from hiveacid.rules.location import Location
from hiveacid.rules.names import (
    LARGEST_NOTE,
    RUN_NOTES,
    SIDECAR_FILE,
    TableIdentity,
    TableRef,
    plain_location,
    staging_txn,
)
from hiveacid.rules.notes import WriteFacts, is_own, merged_writes, parse_note, whole
from hiveacid.rules.write_ids import ValidTxnList, ValidWriteIdList
from hiveacid.storage.folder import ReadOnlyStorage, Storage

# Content of the note that a run leaves in the folder of each table, for a later attempt


# One directory of a transaction is as good a proof as all of them.
_MOST_DIRECTORIES = 8
_NO_PARTITIONS = "The names of the partitions were too many to be kept for this try."


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNote(Record):
    """Changes that a transaction is about to commit, as noted in one of its tables.

    Attributes:
        run_token: The run token, as in the names of its transactions.
        txn_id: The transaction.
        write_id: Its write id for the table.
        identity: The creation of the table, which may have been renamed since.
        directories: Some of its directories in the table: below the table's folder, or as a url.
        operation: The operation.
        time: The time, in ISO format.
        user: The user of the run.
        run_id: The run of the DAG, if once_per replaces it in run_token.
        report: The changes in all tables.
    """

    record_kind = Kind(title="a note on a run", folder=RUN_NOTES)

    run_token: str
    txn_id: int
    write_id: int
    identity: TableIdentity
    report: RunReport
    directories: tuple[str, ...] = ()
    operation: str = ""
    time: str | None = None
    user: str = ""
    run_id: str | None = None

    @property
    def shortened(self) -> Self:
        """The note in a size that readers accept."""
        few = replace(self, directories=self.directories[:_MOST_DIRECTORIES])
        if len(codec.to_bytes(few)) <= LARGEST_NOTE:
            return few
        tables = tuple(replace(table, partitions=()) for table in few.report.tables)
        warnings = (*few.report.warnings, _NO_PARTITIONS)
        report = replace(few.report, partitions=(), tables=tables, warnings=warnings)
        return replace(few, report=report)

    def require_sound(self, place: str) -> None:
        """See the base class."""
        name = NoteName.parse(place.rpartition("/")[2])
        if name is None or (digest_of(self.run_token), self.txn_id) != (name.digest, name.txn_id):
            raise ValueError("It is about another run.")

    @property
    def is_final(self) -> bool:
        """Whether a run with this note must not be applied again.

        A run that changed nothing is evaluated again: its source may have rows by then. A run that
        read changes or a batch has used them up.
        """
        report = self.report
        return bool(report.files or self.directories or report.changes or report.offsets)


def origin_of(report: RunReport, now: datetime) -> dict[str, str]:
    """Return the fields of a note with the author, the operation and the time.

    All tables of a run have the same time, so that one point in time selects all of them.
    """
    return {
        "operation": report.job,
        "time": now.isoformat(timespec="milliseconds"),
        "user": os.environ.get("USER", ""),
    }


# Evidence of a committed write in the directories of its table, if its note on the run is
# unreadable.
#
# The note in a directory states the transaction and the run; the note of a compaction repeats this
# for the writes that it merged. A directory proves the commit once the transaction has ended:
# every cleaner removes the directories of an aborted transaction before the metastore may forget
# the abort.


_READERS = 8


@dataclass(frozen=True, slots=True)
class WriteEvidence:
    """Evidence of a committed write.

    Attributes:
        report: The report of the run, as far as it is known.
        is_whole: Whether it contains everything that the run reported about the table, apart from
            the names of partitions. A compaction only takes over the numbers.
    """

    report: RunReport
    is_whole: bool


def find_evidence(
    client: MetastoreClient,
    table: HiveTable,
    token: str,
    txn_id: int,
    write_ids: ValidWriteIdList,
) -> WriteEvidence | None:
    """Search all directories of a table for a write of a transaction of a run.

    Args:
        client: The metastore.
        table: The table.
        token: The run token.
        txn_id: The transaction, which has ended and is not known to be aborted.
        write_ids: A list of the table's write ids from after its end.
    """
    locations = [table.folder]
    if table.partition_keys:
        locations = [*partition_locations(client, table).values()]

    def evidence_in(location: Location) -> Sequence[WriteEvidence]:
        found = _written_in(ReadOnlyStorage.of(location), table.ref.full_name)
        return [
            _evidence(table.ref.full_name, facts, report)
            for facts, report in found
            if (facts.txn_id, facts.run_token) == (txn_id, unmarked_token(token))
            and write_ids.is_valid(facts.write_id)
        ]

    with Threads(_READERS) as pool:
        found = [each for evidence in pool.map(evidence_in, locations) for each in evidence]
    return max(found, key=lambda each: each.is_whole, default=None)


def _written_in(
    storage: ReadOnlyStorage, table: str
) -> Iterator[tuple[WriteFacts, RunReport | None]]:
    """Yield the writes that the notes in a folder describe, each with the report of its run."""
    for name in storage.list_directories(missing_ok=True):
        content = storage.read_small(f"{name}/{SIDECAR_FILE}")
        note = None if content is None else parse_note(content)
        if note is None:
            continue
        for facts in merged_writes(name, note):
            yield facts, None
        write_id = whole(note.get("write_id"))
        if write_id and is_own(name, write_id):
            yield WriteFacts.of_note(note, write_id, table), _report(note.get("report"))


def _report(record: object) -> RunReport | None:
    try:
        return RunReport.from_dict(record) if isinstance(record, dict) else None
    except InvalidJob:
        return None


def _evidence(table: str, facts: WriteFacts, report: RunReport | None) -> WriteEvidence:
    if report is not None and report.txn_id == facts.txn_id:
        return WriteEvidence(report, is_whole=True)
    written = TableReport(
        table=table,
        rows_inserted=facts.rows_inserted or 0,
        rows_updated=facts.rows_updated or 0,
        rows_deleted=facts.rows_deleted or 0,
        files=facts.files or 0,
        bytes=facts.bytes or 0,
    )
    known = RunReport(
        job=facts.operation or "",
        target=table,
        txn_id=facts.txn_id,
        write_ids={table: facts.write_id},
        rows_inserted=written.rows_inserted,
        rows_updated=written.rows_updated,
        rows_deleted=written.rows_deleted,
        files=written.files,
        bytes=written.bytes,
        tables=(written,),
    )
    return WriteEvidence(known, is_whole=False)


# Folder in which a table keeps the notes on its runs: writing, judging, marking.
#
# Notes are not kept in the directories of the data, because a compaction replaces those, and
# because a run without changes has no directory.


# Notes are small files, and each request to an object store takes long.
# A writer names 8; a forged note has as many as fit into a megabyte.
_MOST_LISTED = 100


@dataclass(frozen=True, slots=True)
class NoteFile:
    """Note in a table's folder.

    Attributes:
        name: The parsed name of the file.
        note: The content; None if it is missing or unreadable.
        newer: The error that a newer version of this package wrote it, so that this version cannot
            read it. It is neither removed nor treated as a run that was not applied.
    """

    name: NoteName
    note: RunNote | None
    newer: NewerRecord | None = None

    @classmethod
    def new(cls, note: RunNote) -> Self:
        """Describe a note that has not been written yet."""
        return cls(NoteName.of(note.run_token, note.txn_id), note)

    def with_checks(self, results: Sequence[CheckResult]) -> Self:
        """Return the note with the results of checks."""
        assert self.note is not None
        return replace(self, note=replace(self.note, report=self.note.report.with_checks(results)))

    @property
    def path(self) -> str:
        """The path below the table's folder."""
        return f"{RUN_NOTES}/{self.name.name}"


class RunNoteFolder:
    """Notes in the folder of one table.

    Every user who can write into the folder can forge a note. A location in a note is therefore never
    opened: it only selects a partition, which is opened at its location in the metastore.

    Args:
        client: The metastore.
        storage: The table's folder.
        table: The current description of the table in the metastore.
    """

    def __init__(self, client: MetastoreClient, storage: ReadOnlyStorage, table: HiveTable) -> None:
        self._client = client
        self._table = table
        self._storage = storage
        self._store = RecordStore(RunNote, storage)
        self._name = table.ref.full_name
        self._identity = table.identity

    def of_run(self, token: str) -> list[NoteFile]:
        """Read the notes on the attempts of a run, the oldest first."""
        names = self._of_digest(digest_of(token))
        files = self._read(names)
        if any(file.note is None for file in files) and self._of_digest(names[0].digest) != names:
            return self.of_run(token)  # Another process has marked or removed a note meanwhile.
        return files

    def of_digest(self, digest: str) -> list[NoteFile]:
        """Read the notes on the attempts of a run, by the digest of its token.

        Raises:
            NewerRecord: A newer version has written one.
        """
        return self._understood(self._of_digest(digest))

    def newer(self, names: Sequence[NoteName]) -> list[NoteFile]:
        """Return those of some notes that a newer version has written."""
        return [file for file in self._read(names) if file.newer is not None]

    def of_whole_run(self, token: str) -> list[NoteFile]:
        """Read the notes on all statements of a run.

        Raises:
            NewerRecord: A newer version has written one.
        """
        run = digest_of_run(token)
        return self._understood([n for n in self._names() if n.digest.startswith(run)])

    def of_other_statements(self, tokens: Collection[str]) -> list[NoteFile]:
        """Read the notes of a run, except those on some of its statements.

        Args:
            tokens: The tokens of these statements, with the marks of their tables.
        """
        runs, known = {digest_of_run(token) for token in tokens}, {digest_of(t) for t in tokens}
        names = self._names()
        return self._read(
            [n for n in names if n.digest.startswith(tuple(runs)) and n.digest not in known]
        )

    def unmarked(self) -> list[NoteFile]:
        """Read the notes of all runs without a mark."""
        return self._read([name for name in self._names() if not name.marked])

    def committed(
        self,
        txns: ValidTxnList,
        write_ids: ValidWriteIdList,
        limit: int,
        known: Set[int] = frozenset(),
        since: float | None = None,
    ) -> list[RunNote]:
        """Read the newest notes of runs that were committed.

        Args:
            txns: A fresh list of transactions.
            write_ids: A fresh list of the table's write ids.
            limit: The maximum number of notes.
            known: The transactions whose notes need not be read.
            since: Notes written before this time are not read; in seconds since 1970.
        """
        names = [name for name in self._names(since) if name.txn_id not in known]
        files = self._read(names[-limit:])
        applied = (
            file for file in files if self.judge(file, txns, write_ids) is RunOutcome.APPLIED
        )
        return [file.note for file in applied if file.note is not None]

    def judge(self, file: NoteFile, txns: ValidTxnList, write_ids: ValidWriteIdList) -> RunOutcome:
        """Decide on the transaction of a note, by this table alone.

        Args:
            file: The note.
            txns: A fresh list of transactions.
            write_ids: A fresh list of the table's write ids.
        """
        note = file.note
        if note is None:
            return self._judge_by_name(file, txns)
        if not note.identity.is_same(self._identity):
            return RunOutcome.NO_EVIDENCE
        if file.name.marked:
            return RunOutcome.APPLIED
        outcome = outcome_by_lists(note.txn_id, note.write_id, txns, write_ids)
        if outcome is not RunOutcome.UNPROVEN:
            return outcome
        if note.report.files == 0:  # The run can be repeated.
            return RunOutcome.NO_EVIDENCE
        return RunOutcome.APPLIED if self._has_directory(note) else outcome

    def evidence(
        self, file: NoteFile, token: str, write_ids: Mapping[str, ValidWriteIdList]
    ) -> WriteEvidence | None:
        """Search all directories of the table for the write of an unproven, unreadable note.

        Args:
            file: The note.
            token: The run token.
            write_ids: Fresh lists of the write ids of tables, by their full names.
        """
        if file.note is not None or file.newer is not None:
            return None
        own = write_ids[self._name]
        return find_evidence(self._client, self._table, token, file.name.txn_id, own)

    def _judge_by_name(self, file: NoteFile, txns: ValidTxnList) -> RunOutcome:
        """Decide on an unreadable note by its name, which contains the number of the transaction."""
        txn_id = file.name.txn_id
        if file.name.marked:
            return RunOutcome.UNPROVEN
        if txn_id in txns.aborted:
            return RunOutcome.ABORTED
        may_commit = txn_id in txns.open or txn_id > txns.high_watermark
        return RunOutcome.OPEN if may_commit else RunOutcome.UNPROVEN

    def _of_digest(self, digest: str) -> list[NoteName]:
        return [name for name in self._names() if name.digest == digest]

    def _names(self, since: float | None = None) -> list[NoteName]:
        parsed = (
            NoteName.parse(path.rpartition("/")[2])
            for path, _, written in self._storage.walk(RUN_NOTES)
            if since is None or not written or written / 1e9 >= since
        )
        return sorted((name for name in parsed if name is not None), key=lambda name: name.txn_id)

    def _read(self, names: Sequence[NoteName]) -> list[NoteFile]:
        if len(names) < 2:
            return [self._content(name) for name in names]
        with Threads(_READERS) as pool:
            return list(pool.map(self._content, names))

    def _understood(self, names: Sequence[NoteName]) -> list[NoteFile]:
        files = self._read(names)
        for file in files:
            if file.newer is not None:
                raise file.newer
        return files

    def _content(self, name: NoteName) -> NoteFile:
        try:
            return NoteFile(name, self._store.read(name.name))
        except (CorruptFile, PermissionRefused, TooLarge):
            return NoteFile(name, None)
        except NewerRecord as newer:
            return NoteFile(name, None, newer)

    def foreign_directory(self, note: RunNote) -> str | None:
        """Return a directory in a note that is neither in the table nor in one of its partitions.

        Args:
            note: The note.
        """
        return next((each for each in note.directories if self._place_of(each) is None), None)

    def _has_directory(self, note: RunNote) -> bool:
        """Whether a directory of the transaction exists, or existed until just now."""
        named = note.directories[:_MOST_LISTED]
        return any(self._is_directory_of(note, each) for each in named)

    def _is_directory_of(self, note: RunNote, location: str) -> bool:
        try:
            if not holds_write(location.rpartition("/")[2], note.write_id):
                return False
            place = self._place_of(location)
            if place is None:
                return False
            storage, path = place
            content = storage.read_small(f"{path}/{SIDECAR_FILE}")
        except (MalformedName, OutsideTable):
            return False
        sidecar = None if content is None else parse_note(content)
        return sidecar is not None and sidecar.get("txn_id") == note.txn_id

    def _place_of(self, location: str) -> tuple[ReadOnlyStorage, str] | None:
        """Return the folder and the path of a directory in a note; None if they are foreign."""
        parent, _, name = location.rpartition("/")
        if ":/" not in parent:
            is_inside = not location.startswith("/") and ".." not in location.split("/")
            return (self._storage, location) if is_inside else None
        place = self._partitions.get(plain_location(parent))
        return None if place is None else (ReadOnlyStorage.of(place), name)

    @cached_property
    def _partitions(self) -> Mapping[str, Location]:
        """The locations of the partitions, by their texts."""
        if not self._table.partition_keys:
            return {}
        found = partition_locations(self._client, self._table).values()
        return dict(zip(found, found, strict=True))


def write_note(storage: Storage, file: NoteFile, *, again: bool = False) -> None:
    """Write a note, before the commit.

    Args:
        storage: The table's folder.
        file: The note.
        again: Whether it replaces the note that the same transaction has written.
    """
    assert file.note is not None
    RecordStore(RunNote, storage).write(file.name.name, file.note.shortened, replaces=again)


def mark_committed(storage: Storage, file: NoteFile) -> None:
    """Rename a note after its transaction was committed, unless another process has done so.

    Args:
        storage: The table's folder.
        file: The note.
    """
    assert file.note is not None
    name = NoteName(file.name.digest, file.note.txn_id, marked=True)
    marked = NoteFile(name, file.note).path
    try:
        if storage.renames_at_once:
            storage.rename(file.path, marked)
        else:
            RecordStore(RunNote, storage).write(name.name, file.note.shortened)
    except StorageError:
        # A cleaning and another attempt of the run mark it, too.
        if not storage.exists(marked):
            raise
    storage.delete_file(file.path)


class AlreadyApplied(ConflictError):
    """Another attempt of the same run has committed.

    Attributes:
        report: The report of that attempt.
    """

    def __init__(self, report: RunReport) -> None:
        super().__init__(f"Another attempt of this run has already committed on {report.target}.")
        self.report = report


@dataclass(frozen=True)
class _Proof:
    """Outcome of a transaction as proved by the note in one table."""

    storage: Storage
    notes: RunNoteFolder
    file: NoteFile
    outcome: RunOutcome

    @property
    def path(self) -> str:
        return f"{self.storage.location.rstrip('/')}/{self.file.path}"


class EarlierAttempts:
    """Prevents two attempts of one run from both being applied, however they overlap.

    An attempt may still be starting when the next one searches for attempts to end. Both open a
    transaction later, and transactions have an order: so each attempt searches before it begins,
    and again after it has opened its own transaction.
    """

    def __init__(
        self,
        client: MetastoreClient,
        targets: Iterable[TableRef],
        run_token: str,
        *,
        needs_report: bool = False,
    ) -> None:
        """Describe a run.

        Args:
            client: The metastore.
            targets: The tables that the run writes; each existing one has notes on the run.
            run_token: The token of its transactions.
            needs_report: Whether the next run continues where the report of this one ends, so that
                a committed attempt without its whole report is for a person.
        """
        self._client = client
        self._targets = tuple(targets)
        self._run_token = run_token
        self._needs_report = needs_report

    def end(self, before: int | None = None) -> None:
        """Abort the open transactions of earlier attempts, and check whether one has committed.

        Args:
            before: A transaction of this attempt: it and younger ones are not aborted.

        Raises:
            AlreadyApplied: An attempt has committed.
            UnprovenRun: An attempt may have committed, and no table can prove it.
            NewerRecord: The note on such an attempt was written by a newer version.
        """
        # In this order, a transaction that could not be aborted, as it just committed, is found.
        abort_open_transactions(self._client, self._run_token, before=before)
        if before is None:
            abort_open_transactions(self._client, source_token(self._run_token))
        # Repeated each time, because a table may have been created again.
        tables = [*self._existing_tables()]
        snapshot = Snapshot.take(self._client, [table.ref for table in tables])
        self._remove_staging(tables, snapshot)
        attempts = self._proofs(tables, snapshot)
        applied = [proofs for proofs in attempts[RunOutcome.APPLIED] if _is_final(proofs)]
        if applied:
            # Of two concurrent attempts, one may have had nothing to do.
            wrote = [proofs for proofs in applied if _report_of(proofs).files]
            self._applied((wrote or applied)[0])
        if unproven := attempts[RunOutcome.UNPROVEN]:
            self._search_directories(unproven, snapshot)
            raise self._unproven(unproven[-1])

    def _existing_tables(self) -> Iterator[HiveTable]:
        for ref in self._targets:
            # A removed table proves nothing; the job fails later unless another table has proof.
            with suppress(TableNotFound):
                yield self._client.get_table(ref)

    def _proofs(
        self, tables: Sequence[HiveTable], snapshot: Snapshot
    ) -> dict[RunOutcome, list[list[_Proof]]]:
        """Group the attempts of the run, the oldest first, by the combined proof of their notes."""
        attempts: dict[int, list[_Proof]] = defaultdict(list)
        for table in tables:
            storage, write_ids = Storage.of(table.folder), snapshot.write_ids[table.ref.full_name]
            notes = RunNoteFolder(self._client, storage, table)
            for file in notes.of_run(self._run_token):
                outcome = notes.judge(file, snapshot.txns, write_ids)
                attempts[file.name.txn_id].append(_Proof(storage, notes, file, outcome))
        joined = defaultdict(list)
        for _, proofs in sorted(attempts.items()):
            joined[min(proof.outcome for proof in proofs)].append(proofs)
        return joined

    def _remove_staging(self, tables: Sequence[HiveTable], snapshot: Snapshot) -> None:
        """Remove the staged files of earlier attempts whose transactions have ended.

        Drivers of other runs may be about to retry the commit: only a cleaning removes their files.
        """
        own: set[int] | None = None
        for table in tables:
            storage = Storage.of(table.folder)
            names = storage.list_directories(missing_ok=True)
            for name in stale_staging(names, snapshot.txns, snapshot.min_open):
                if own is None:
                    tokens = self._run_token, source_token(self._run_token)
                    own = {txn.txn_id for txn in find_transactions(self._client, *tokens)}
                if staging_txn(name) in own:
                    storage.delete_directory(name)

    def settled(self, report: RunReport) -> RunReport:
        """Return the final result of the run if this attempt had nothing to do.

        An attempt that leaves no file does not keep a concurrent attempt from writing: that attempt
        may have searched before this one was marked. So all open transactions of the run are
        aborted, and a commit before the abort counts.

        Args:
            report: The report of this attempt, or of the attempt that it found.
        """
        try:
            self.end()
        except AlreadyApplied as applied:
            if applied.report.txn_id != report.txn_id:
                return replace(applied.report, already_done=True)
        return report

    def _applied(self, proofs: Sequence[_Proof]) -> None:
        """Mark the notes of a committed attempt, and report it."""
        report = _report_of(proofs)
        for proof in proofs:
            of_table = proof.outcome is not RunOutcome.NO_EVIDENCE
            if proof.file.name.marked or proof.file.note is None or not of_table:
                continue
            try:
                mark_committed(proof.storage, proof.file)
            except StorageError as error:
                warning = f"Could not mark the note on the run: {error}"
                report = replace(report, warnings=(*report.warnings, warning))
        raise AlreadyApplied(report)

    def _search_directories(self, attempts: Sequence[Sequence[_Proof]], snapshot: Snapshot) -> None:
        """Report an attempt with an unreadable note if a directory proves that it was committed."""
        for proofs in attempts:
            evidence = [
                each.notes.evidence(each.file, self._run_token, snapshot.write_ids)
                for each in proofs
            ]
            found = [
                each.report
                for each in evidence
                if each is not None and (each.is_whole or not self._needs_report)
            ]
            if found:
                paths = " and ".join(proof.path for proof in proofs)
                warning = f"{paths} cannot be read. A directory of the table proves the commit."
                report = _joined(found)
                raise AlreadyApplied(replace(report, warnings=(*report.warnings, warning)))

    def _unproven(self, proofs: Sequence[_Proof]) -> UnprovenRun | NewerRecord:
        unproven = [proof for proof in proofs if proof.outcome is RunOutcome.UNPROVEN]
        file, where = unproven[0].file, " and ".join(proof.path for proof in unproven)
        if file.newer is not None:
            return file.newer
        if file.note is None:
            return UnprovenRun(
                f"{where}: an earlier attempt may have committed, but its note is unreadable, and no"
                " directory of the table has its report."
            )
        if foreign := unproven[0].notes.foreign_directory(file.note):
            return UnprovenRun(
                f"{where}: this note on an earlier attempt names {foreign}, which is neither in the table"
                " nor in one of its partitions, and is not opened. The note is forged, or the"
                " partition was dropped or moved."
            )
        return UnprovenRun(
            f"Transaction {file.note.txn_id} of an earlier attempt looks committed, but it may as well"
            " have been aborted and forgotten by the metastore: none of its directories is left."
            f" The note {where} contains what it was about to commit."
        )


def require_same_statements(
    client: MetastoreClient, tokens: Collection[str], tables: Iterable[TableRef]
) -> None:
    """Refuse a script whose run may have applied a statement that it no longer contains.

    Such a statement was edited, or its text differs in each attempt: then the new text would be
    applied as well.

    Args:
        client: The metastore.
        tokens: The names of the transactions of all statements that change rows.
        tables: The tables that they write.

    Raises:
        ScriptChanged: An earlier attempt has applied another statement, or may have.
    """
    _abort_other_statements(client, tokens)
    for ref in tables:
        try:
            table = client.get_table(ref)
        except TableNotFound:
            continue
        folder = RunNoteFolder(client, Storage.of(table.folder), table)
        others = folder.of_other_statements(tokens)
        if not others:
            continue
        snapshot = Snapshot.take(client, [ref])
        for file in others:
            outcome = folder.judge(file, snapshot.txns, snapshot.write_ids[ref.full_name])
            note = file.note
            changed_nothing = note is not None and not note.is_final
            if changed_nothing or outcome in (RunOutcome.ABORTED, RunOutcome.NO_EVIDENCE):
                continue
            if file.newer is not None:
                raise file.newer
            what = "another statement" if note is None else f"another statement, {note.operation},"
            has = "has" if outcome is RunOutcome.APPLIED else "may have"
            path = f"{table.folder.rstrip('/')}/{file.path}"
            raise ScriptChanged(
                f"An earlier attempt of this run {has} applied {what} to {ref}, which the script"
                " no longer contains.",
                remedy="Put it back as it was: it is not applied again. Values that differ in each "
                "attempt, like the time, cannot be part of a statement. If the changed script is to be "
                f"applied as well, run it by another run, or delete the note {path}.",
            )


def _abort_other_statements(client: MetastoreClient, tokens: Collection[str]) -> None:
    """Abort the open transactions of the run, on the same tables, for statements of other texts."""
    own = {agent_info(token) for token in tokens}
    alike = {(run_of(token), token.rpartition("@")[2]) for token in own}
    abort_open_transactions(
        client,
        *(
            txn.token
            for txn in client.get_open_txns_info()
            if txn.token not in own and (run_of(txn.token), txn.token.rpartition("@")[2]) in alike
        ),
    )


def _is_final(proofs: Sequence[_Proof]) -> bool:
    """Whether the notes of an attempt keep the run from being applied again."""
    return any(proof.file.note is not None and proof.file.note.is_final for proof in proofs)


def _report_of(proofs: Sequence[_Proof]) -> RunReport:
    """Return the report of an applied attempt; all of its notes contain the same report."""
    notes = (proof.file.note for proof in proofs if proof.outcome is RunOutcome.APPLIED)
    return next(note.report for note in notes if note is not None)


def _joined(reports: Sequence[RunReport]) -> RunReport:
    """Join the reports of one run on some tables each."""
    return replace(
        reports[0],
        write_ids={name: id_ for each in reports for name, id_ in each.write_ids.items()},
        rows_inserted=sum(each.rows_inserted for each in reports),
        rows_updated=sum(each.rows_updated for each in reports),
        rows_deleted=sum(each.rows_deleted for each in reports),
        files=sum(each.files for each in reports),
        bytes=sum(each.bytes for each in reports),
        tables=tuple(table for each in reports for table in each.tables),
    )
