"""What earlier tries of the same run have left: something to abort, or a report."""

import time
from collections.abc import Sequence
from dataclasses import replace

from airflow_hiveacid.acid.cleaning import stale_staging
from airflow_hiveacid.acid.names import staging_txn
from airflow_hiveacid.errors import ConflictError, StorageError, UnprovenRun
from airflow_hiveacid.jobs.report import RunReport
from airflow_hiveacid.jobs.run_token import source_token
from airflow_hiveacid.maintenance.run_note_folder import (
    NoteFile,
    RunNoteFolder,
    RunOutcome,
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


class EarlierTries:
    """Keeps two tries of one run from both being applied, however they overlap.

    A try may still be starting when the next one looks for what there is to end. Both open a
    transaction sooner or later, and transactions have an order: so every try looks before it
    begins, and once more when it has opened its own.
    """

    def __init__(
        self, client: MetastoreClient, tables: Sequence[HiveTable], run_token: str
    ) -> None:
        """Describe a run.

        Args:
            client: The metastore.
            tables: What the run writes; the notes on it lie in the first one.
            run_token: Under which its transactions are opened.
        """
        self._client = client
        self._tables = tables
        self._run_token = run_token
        self._home = Storage.of(tables[0].folder)
        self._notes = RunNoteFolder(self._home, tables[0].ref.full_name)

    def end(self, before: int | None = None) -> None:
        """Abort what earlier tries have left open, and find out whether one has committed.

        Args:
            before: A transaction of this try: it and younger ones are left as they are.

        Raises:
            AlreadyApplied: One has.
            UnprovenRun: One may have, and nothing is left that would tell.
        """
        # In this order: what could not be aborted, because it committed just now, is then found.
        abort_open_transactions(self._client, self._run_token, before=before)
        if before is None:
            abort_open_transactions(self._client, source_token(self._run_token))
        snapshot = Snapshot.take(self._client, [table.ref for table in self._tables])
        self._remove_staging(snapshot)
        applied: list[NoteFile] = []
        unproven: list[NoteFile] = []
        for file in self._notes.of_run(self._run_token):
            belief = self._notes.judge(file, snapshot.txns, snapshot.write_ids)
            if belief is RunOutcome.APPLIED:
                applied.append(file)
            elif belief is RunOutcome.UNPROVEN:
                unproven.append(file)
        if applied:
            # Of two tries at once, one may have found nothing to do.
            wrote = [file for file in applied if file.note and not file.note.wrote_nothing]
            self._applied((wrote or applied)[0])
        if unproven:
            raise self._unproven(unproven[-1])

    def _remove_staging(self, snapshot: Snapshot) -> None:
        """Remove what drivers have staged whose transactions have ended.

        Those of other runs may be about to commit it once more: they get time for that.
        """
        own: set[int] | None = None
        for table in self._tables:
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

    def _applied(self, file: NoteFile) -> None:
        """Say that a try has committed, and let that be known for good."""
        assert file.note is not None
        report = file.note.report
        if not file.name.marked:
            try:
                mark_committed(self._home, file)
            except StorageError as error:  # Mostly because another try is just doing the same.
                warning = f"Could not mark the note on the run: {error}"
                report = replace(report, warnings=(*report.warnings, warning))
        raise AlreadyApplied(report)

    def _unproven(self, file: NoteFile) -> UnprovenRun:
        where = f"{self._home.location}/{file.path}"
        if file.is_of_later_format:
            return UnprovenRun(
                f"{where} is the note of a later version of this package on an earlier try. This"
                " version cannot read whether that try was applied."
            )
        if file.note is None:
            return UnprovenRun(f"{where} says that an earlier try has committed, but not what.")
        return UnprovenRun(
            f"Transaction {file.note.txn_id} of an earlier try looks committed, but it may as well"
            f" have been aborted and forgotten by the metastore: of its directories nothing is"
            f" left. {where} says what it was about to commit."
        )


def _is_left(storage: Storage, name: str) -> bool:
    """Whether nobody has written into a hidden folder for so long that nobody comes back to it."""
    written = [modified for _, _, modified in storage.walk(name) if modified is not None]
    return not written or max(written) < (time.time() - _SPARED_SECONDS) * 1e9
