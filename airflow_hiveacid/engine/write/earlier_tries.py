"""What earlier tries of the same run have left: something to abort, or a report."""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from airflow_hiveacid.acid.cleaning import stale_staging
from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.acid.names import staging_txn
from airflow_hiveacid.acid.run_notes import RunOutcome
from airflow_hiveacid.errors import ConflictError, StorageError, TableNotFound, UnprovenRun
from airflow_hiveacid.jobs.report import RunReport
from airflow_hiveacid.jobs.run_token import source_token
from airflow_hiveacid.maintenance.run_note_folder import (
    NoteFile,
    RunNoteFolder,
    mark_committed,
)
from airflow_hiveacid.metastore.catalog import HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.txn.owner import abort_open_transactions, find_transactions
from airflow_hiveacid.metastore.txn.snapshot import Snapshot
from airflow_hiveacid.storage.folder import Storage

# So long after its last file was staged, no driver is waited for whose transaction has ended: it
# is not asleep, but gone.
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
    file: NoteFile
    outcome: RunOutcome

    @property
    def path(self) -> str:
        return f"{self.storage.location.rstrip('/')}/{self.file.path}"


class EarlierTries:
    """Keeps two tries of one run from both being applied, however they overlap.

    A try may still be starting when the next one looks for what there is to end. Both open a
    transaction sooner or later, and transactions have an order: so every try looks before it
    begins, and once more when it has opened its own.
    """

    def __init__(
        self, client: MetastoreClient, targets: Iterable[TableRef], run_token: str
    ) -> None:
        """Describe a run.

        Args:
            client: The metastore.
            targets: The tables that the run writes; each that exists has notes on it.
            run_token: Under which its transactions are opened.
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
        # Each time, as a table may be another one by now.
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
            # One that is gone can prove nothing; without another proof the job will miss it.
            with suppress(TableNotFound):
                yield self._client.get_table(ref)

    def _proofs(
        self, tables: Sequence[HiveTable], snapshot: Snapshot
    ) -> dict[RunOutcome, list[list[_Proof]]]:
        """The notes on each try of the run, the oldest first, by what they prove together."""
        tries: dict[int, list[_Proof]] = defaultdict(list)
        for table in tables:
            storage = Storage.of(table.folder)
            notes, write_ids = (
                RunNoteFolder(storage, table),
                snapshot.write_ids[table.ref.full_name],
            )
            for file in notes.of_run(self._run_token):
                outcome = notes.judge(file, snapshot.txns, write_ids)
                tries[file.txn_id or 0].append(_Proof(storage, file, outcome))
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
        """Say that a try has committed, and let that be known for good."""
        report = _report_of(proofs)
        for proof in proofs:
            note_of_it = proof.file.note is not None and proof.outcome is not RunOutcome.NO_EVIDENCE
            if proof.file.name.marked or not note_of_it:
                continue
            try:
                mark_committed(proof.storage, proof.file)
            except StorageError as error:  # Mostly because another try is just doing the same.
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
        return UnprovenRun(
            f"Transaction {file.note.txn_id} of an earlier try looks committed, but it may as well"
            " have been aborted and forgotten by the metastore: none of its directories is left."
            f" The note {where} says what it was about to commit."
        )


def _report_of(proofs: Sequence[_Proof]) -> RunReport:
    """The report of a try that was applied, which each note that proves it has."""
    notes = (proof.file.note for proof in proofs if proof.outcome is RunOutcome.APPLIED)
    return next(note.report for note in notes if note is not None)


def _is_left(storage: Storage, name: str) -> bool:
    """Whether nobody has written into a hidden folder for so long that nobody comes back to it."""
    written = [modified for _, _, modified in storage.walk(name) if modified is not None]
    return not written or max(written) < (time.time() - _SPARED_SECONDS) * 1e9
