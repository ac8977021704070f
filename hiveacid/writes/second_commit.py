"""Second commit of files whose first transaction was lost after all files were staged."""

import time
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import field, replace

from hiveacid.dataclass import dataclass
from hiveacid.errors import (
    DataError,
    HiveAcidError,
    MetastoreError,
    StorageError,
)
from hiveacid.jobs.report import CommitRetry, RunReport
from hiveacid.metastore.txn.owner import find_open_transactions
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.progress import Phase
from hiveacid.rules.names import TableRef
from hiveacid.rules.run_tokens import source_token
from hiveacid.rules.texts import plural
from hiveacid.writes.finished_work import FinishedWork
from hiveacid.writes.output import TakenFolders
from hiveacid.writes.statement import Part, WriteOptions


@dataclass(eq=False)
class SecondCommit(FinishedWork):
    """Commits the work of a transaction that is certainly aborted, without repeating the work.

    If this is impossible, the job ends with the error that ended the first transaction.

    Attributes:
        first: The transaction that was lost.
        lost: The error that ended the first transaction.
    """

    first: Transaction
    lost: HiveAcidError
    _started: float = field(default_factory=time.monotonic)
    _saved: float = field(init=False)

    def __post_init__(self) -> None:
        spent = self.phases.seconds
        self._saved = sum(spent.get(phase, 0.0) for phase in (Phase.READ, Phase.WRITE))

    def keep(self, stack: ExitStack) -> None:
        """Protect the files from cleaners, which may remove files of an aborted transaction.

        Args:
            stack: Is closed when the files are not needed any more.
        """
        self.phases.note(f"Committing the written files once more: {self.lost.what}")
        try:
            overtaken = self._has_later_attempt()
            file_owner = stack.enter_context(
                Transaction(
                    self.client,
                    keeps_files=True,
                    run_token=source_token(self.options.known_run_token),
                )
            )
            folders = TakenFolders(file_owner)
            if not overtaken:
                self.parts = [part.detached(folders) for part in self.parts]
        except (MetastoreError, StorageError) as error:
            raise self.refusal(error.what.rstrip(".")) from error
        if overtaken:
            raise self.refusal("a later attempt of the run is active")

    def of(self, txn: Transaction) -> list[Part]:
        """Return the work as that of another transaction; see the base class."""
        self.require_unchanged(txn)
        try:
            return self.restaged(txn)
        except (StorageError, DataError) as error:
            raise self.refusal(error.what.rstrip(".")) from error

    def require_definitions(self, except_for: Collection[TableRef]) -> None:
        """Verify the definitions of the tables that were read, except for some."""
        self.first.definitions.require_unchanged(except_for)

    def refusal(self, reason: str) -> HiveAcidError:
        """Make the error that ended the first transaction, with the reason."""
        error = self.lost
        return type(error)(f"{error.what} Not committed once more: {reason}.", remedy=error.remedy)

    def described(self, report: RunReport, parts: Sequence[Part]) -> RunReport:
        """Add the savings so far to the report on the run."""
        retry = CommitRetry(
            txn_id=self.first.txn_id,
            why=self.lost.what,
            rows=sum(part.output.rows + part.output.deletes for part in parts),
            bytes=sum(part.output.size for part in parts),
            seconds=round(time.monotonic() - self._started, 3),
            seconds_saved=round(self._saved, 3),
        )
        return replace(report, commit_retry=retry)

    def log(self, report: RunReport) -> None:
        """Log the savings."""
        retry = report.commit_retry
        assert retry is not None
        self.phases.note(
            f"Committed {plural(retry.rows, 'row')} and deletes of {plural(retry.bytes, 'byte')} once"
            f" more in {retry.seconds:.1f} s; to read and write them had taken {retry.seconds_saved:.1f} s"
        )

    def _has_later_attempt(self) -> bool:
        """Whether a later attempt of the run, which takes precedence, is active."""
        attempts = find_open_transactions(
            self.client, self.options.known_run_token, source_token(self.options.known_run_token)
        )
        return any(txn_id > self.first.txn_id for txn_id in attempts)


def may_help(error: HiveAcidError, options: WriteOptions) -> bool:
    """Whether a second publish and commit may help after an error."""
    # Without a token, a second commit could not be distinguished from one of a repeated job.
    is_allowed = options.run_token is not None and options.max_restarts > 0
    return is_allowed and (error.retryable or not isinstance(error, MetastoreError))
