"""Earlier attempts of a run: open transactions to abort, or the report of a commit."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from hiveacid.dataclass import dataclass
from hiveacid.errors import (
    ConflictError,
    NewerRecord,
    StorageError,
    TableNotFound,
    UnprovenRun,
)
from hiveacid.jobs.report import RunReport
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.owner import Snapshot, abort_open_transactions, find_transactions
from hiveacid.records.proofs import RunOutcome
from hiveacid.records.run_notes import NoteFile, RunNoteFolder, mark_committed
from hiveacid.rules.cleaning import stale_staging
from hiveacid.rules.names import TableRef, staging_txn
from hiveacid.rules.run_tokens import agent_info, run_of, source_token
from hiveacid.storage.folder import Storage


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

    def end(self, limit_txn_id: int | None = None) -> None:
        """Abort the open transactions of earlier attempts, and check whether one has committed.

        Args:
            limit_txn_id: A transaction of this attempt: it and younger ones are not aborted.

        Raises:
            AlreadyApplied: An attempt has committed.
            UnprovenRun: An attempt may have committed, and no table can prove it.
            NewerRecord: The note on such an attempt was written by a newer version.
        """
        # In this order, a transaction that could not be aborted, as it just committed, is found.
        abort_open_transactions(self._client, self._run_token, limit_txn_id=limit_txn_id)
        if limit_txn_id is None:
            abort_open_transactions(self._client, source_token(self._run_token))
        # Repeated each time, because a table may have been created again.
        tables = [*self._existing_tables()]
        snapshot = Snapshot.take(self._client, [table.ref for table in tables])
        self._remove_staging(tables, snapshot)
        attempts = self._proofs(tables, snapshot)
        applied_attempts = [proofs for proofs in attempts[RunOutcome.APPLIED] if _is_final(proofs)]
        if applied_attempts:
            # Of two concurrent attempts, one may have had nothing to do.
            wrote = [proofs for proofs in applied_attempts if _report_of(proofs).files]
            self._applied((wrote or applied_attempts)[0])
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
        attempts_by_outcome = defaultdict(list)
        for _, proofs in sorted(attempts.items()):
            attempts_by_outcome[min(proof.outcome for proof in proofs)].append(proofs)
        return attempts_by_outcome

    def _remove_staging(self, tables: Sequence[HiveTable], snapshot: Snapshot) -> None:
        """Remove the staged files of earlier attempts whose transactions have ended.

        Drivers of other runs may be about to retry the commit: only a cleaning removes their files.
        """
        own_txn_ids: set[int] | None = None
        for table in tables:
            storage = Storage.of(table.folder)
            names = storage.list_directories(missing_ok=True)
            for name in stale_staging(names, snapshot.txns, snapshot.min_open):
                if own_txn_ids is None:
                    tokens = self._run_token, source_token(self._run_token)
                    own_txn_ids = {txn.txn_id for txn in find_transactions(self._client, *tokens)}
                if staging_txn(name) in own_txn_ids:
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
        except AlreadyApplied as applied_error:
            if applied_error.report.txn_id != report.txn_id:
                return replace(applied_error.report, already_done=True)
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
                proof.notes.evidence(proof.file, self._run_token, snapshot.write_ids)
                for proof in proofs
            ]
            reports = [
                finding.report
                for finding in evidence
                if finding is not None and (finding.is_whole or not self._needs_report)
            ]
            if reports:
                paths = " and ".join(proof.path for proof in proofs)
                warning = f"{paths} cannot be read. A directory of the table proves the commit."
                report = _joined(reports)
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
        UnprovenRun: An earlier attempt has applied another statement, or may have.
    """
    _abort_other_statements(client, tokens)
    for ref in tables:
        try:
            table = client.get_table(ref)
        except TableNotFound:
            continue
        folder = RunNoteFolder(client, Storage.of(table.folder), table)
        other_files = folder.of_other_statements(tokens)
        if not other_files:
            continue
        snapshot = Snapshot.take(client, [ref])
        for file in other_files:
            outcome = folder.judge(file, snapshot.txns, snapshot.write_ids[ref.full_name])
            note = file.note
            changed_nothing = note is not None and not note.is_final
            if changed_nothing or outcome in (RunOutcome.ABORTED, RunOutcome.NO_EVIDENCE):
                continue
            if file.newer is not None:
                raise file.newer
            statement_text = (
                "another statement" if note is None else f"another statement, {note.operation},"
            )
            has = "has" if outcome is RunOutcome.APPLIED else "may have"
            path = f"{table.folder.rstrip('/')}/{file.path}"
            raise UnprovenRun(
                f"An earlier attempt of this run {has} applied {statement_text} to {ref}, which the script"
                " no longer contains.",
                remedy="Put it back as it was: it is not applied again. Values that differ in each "
                "attempt, like the time, cannot be part of a statement. If the changed script is to be "
                f"applied as well, run it by another run, or delete the note {path}.",
            )


def _abort_other_statements(client: MetastoreClient, tokens: Collection[str]) -> None:
    """Abort the open transactions of the run, on the same tables, for statements of other texts."""
    own_tokens = {agent_info(token) for token in tokens}
    alike = {(run_of(token), token.rpartition("@")[2]) for token in own_tokens}
    abort_open_transactions(
        client,
        *(
            txn.token
            for txn in client.get_open_txns_info()
            if txn.token not in own_tokens
            and (run_of(txn.token), txn.token.rpartition("@")[2]) in alike
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
        write_ids={name: id_ for report in reports for name, id_ in report.write_ids.items()},
        rows_inserted=sum(report.rows_inserted for report in reports),
        rows_updated=sum(report.rows_updated for report in reports),
        rows_deleted=sum(report.rows_deleted for report in reports),
        files=sum(report.files for report in reports),
        bytes=sum(report.bytes for report in reports),
        tables=tuple(table for report in reports for table in report.tables),
    )
