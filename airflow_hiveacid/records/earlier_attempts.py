"""What earlier tries of the same run have left: something to abort, or a report."""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from airflow_hiveacid.acid.cleaning import stale_staging
from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.acid.names import staging_txn
from airflow_hiveacid.errors import ConflictError, StorageError, TableNotFound, UnprovenRun
from airflow_hiveacid.jobs.report import RunReport
from airflow_hiveacid.jobs.run_token import source_token
from airflow_hiveacid.metastore.catalog import HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.txn.owner import abort_open_transactions, find_transactions
from airflow_hiveacid.metastore.txn.snapshot import Snapshot
from airflow_hiveacid.records.proofs import RunOutcome
from airflow_hiveacid.records.run_note_folder import (
    NoteFile,
    RunNoteFolder,
    mark_committed,
)
from airflow_hiveacid.storage.folder import Storage

# A driver whose transaction has ended and that has staged no file for so long does not come back.
_SPARED_SECONDS = 3600


class AlreadyApplied(ConflictError):
    """Another try of the same run has committed.

    Attributes:
        report: What it did.
    """

    def __init__(self, report: RunReport) -> None:
        super().__init__(f"Another try of this run has already committed on {report.target}.")
        self.report = report


@dataclass(frozen=True)
class _Proof:
    """What the note in one table proves about a transaction."""

    storage: Storage
    notes: RunNoteFolder
    file: NoteFile
    outcome: RunOutcome

    @property
    def path(self) -> str:
        return f"{self.storage.location.rstrip('/')}/{self.file.path}"


class EarlierTries:
    """Prevents two tries of one run from both being applied, however they overlap.

    A try may still be starting when the next one searches for tries to end. Both open a transaction
    later, and transactions have an order: so each try searches before it begins, and again after it
    has opened its own transaction.
    """

    def __init__(
        self, client: MetastoreClient, targets: Iterable[TableRef], run_token: str
    ) -> None:
        """Describe a run.

        Args:
            client: The metastore.
            targets: The tables that the run writes; each that exists has notes on it.
            run_token: The token of its transactions.
        """
        self._client = client
        self._targets = tuple(targets)
        self._run_token = run_token

    def end(self, before: int | None = None) -> None:
        """Abort what earlier tries have left open, and find out whether one has committed.

        Args:
            before: A transaction of this try: it and younger ones are left as they are.

        Raises:
            AlreadyApplied: One has.
            UnprovenRun: One may have, and no table can prove it.
        """
        # In this order: what could not be aborted, because it committed just now, is then found.
        abort_open_transactions(self._client, self._run_token, before=before)
        if before is None:
            abort_open_transactions(self._client, source_token(self._run_token))
        # Looked up each time, because a table may have been created again.
        tables = [*self._existing_tables()]
        snapshot = Snapshot.take(self._client, [table.ref for table in tables])
        self._remove_staging(tables, snapshot)
        tries = self._proofs(tables, snapshot)
        if applied := tries[RunOutcome.APPLIED]:
            # Of two tries at once, one may have found nothing to do.
            wrote = [proofs for proofs in applied if _report_of(proofs).files]
            self._applied((wrote or applied)[0])
        if unproven := tries[RunOutcome.UNPROVEN]:
            raise self._unproven(unproven[-1])

    def _existing_tables(self) -> Iterator[HiveTable]:
        for ref in self._targets:
            # A table that is gone proves nothing; the job fails later unless another one does.
            with suppress(TableNotFound):
                yield self._client.get_table(ref)

    def _proofs(
        self, tables: Sequence[HiveTable], snapshot: Snapshot
    ) -> dict[RunOutcome, list[list[_Proof]]]:
        """Group the tries of the run, the oldest first, by what their notes prove together."""
        tries: dict[int, list[_Proof]] = defaultdict(list)
        for table in tables:
            storage, write_ids = Storage.of(table.folder), snapshot.write_ids[table.ref.full_name]
            notes = RunNoteFolder(self._client, storage, table)
            for file in notes.of_run(self._run_token):
                outcome = notes.judge(file, snapshot.txns, write_ids)
                tries[file.txn_id or 0].append(_Proof(storage, notes, file, outcome))
        joined = defaultdict(list)
        for _, proofs in sorted(tries.items()):
            joined[min(proof.outcome for proof in proofs)].append(proofs)
        return joined

    def _remove_staging(self, tables: Sequence[HiveTable], snapshot: Snapshot) -> None:
        """Remove what drivers have staged whose transactions have ended.

        Those of other runs may be about to commit it once more: they get time for that.
        """
        own: set[int] | None = None
        for table in tables:
            storage = Storage.of(table.folder)
            names = storage.list_directories(missing_ok=True)
            for name in stale_staging(names, snapshot.txns, snapshot.min_open):
                if own is None:
                    tokens = self._run_token, source_token(self._run_token)
                    own = {txn.txn_id for txn in find_transactions(self._client, *tokens)}
                if staging_txn(name) in own or _is_left(storage, name):
                    storage.delete_directory(name)

    def settled(self, report: RunReport) -> RunReport:
        """What the run has done for good, although this try has found nothing to do.

        A try that leaves no file does not keep another one at the same time from writing: that may
        have looked before this one was marked. So whatever is still open is ended, and what got
        ahead of that counts.

        Args:
            report: What this try, or the one that it found, did.
        """
        try:
            self.end()
        except AlreadyApplied as applied:
            if applied.report.txn_id != report.txn_id:
                return replace(applied.report, already_done=True)
        return report

    def _applied(self, proofs: Sequence[_Proof]) -> None:
        """Mark the notes of a try that has committed, and report it."""
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

    def _unproven(self, proofs: Sequence[_Proof]) -> UnprovenRun:
        unproven = [proof for proof in proofs if proof.outcome is RunOutcome.UNPROVEN]
        file, where = unproven[0].file, " and ".join(proof.path for proof in unproven)
        if file.is_of_later_format:
            return UnprovenRun(
                f"{where}: this note of a later version of this package is about an earlier try."
                " This version cannot read whether that try was applied."
            )
        if file.note is None:
            return UnprovenRun(
                f"{where}: an earlier try has committed, but its note is unreadable."
            )
        if foreign := unproven[0].notes.foreign_directory(file.note):
            return UnprovenRun(
                f"{where}: this note on an earlier try names {foreign}, which is neither in the table"
                " nor in one of its partitions, and is not opened. The note is forged, or the"
                " partition was dropped or moved."
            )
        return UnprovenRun(
            f"Transaction {file.note.txn_id} of an earlier try looks committed, but it may as well"
            " have been aborted and forgotten by the metastore: none of its directories is left."
            f" The note {where} says what it was about to commit."
        )


def _report_of(proofs: Sequence[_Proof]) -> RunReport:
    """The report of a try that was applied; each of its notes has the same."""
    notes = (proof.file.note for proof in proofs if proof.outcome is RunOutcome.APPLIED)
    return next(note.report for note in notes if note is not None)


def _is_left(storage: Storage, name: str) -> bool:
    """Whether nobody has written into a hidden folder for so long that nobody comes back to it."""
    written = [modified for _, _, modified in storage.walk(name) if modified is not None]
    return not written or max(written) < (time.time() - _SPARED_SECONDS) * 1e9
