"""Second commit of files whose first transaction was lost after all files were staged."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from hiveacid.errors import (
    DataError,
    HiveAcidError,
    MetastoreError,
    StorageError,
)
from hiveacid.jobs.report import CommitRetry, RunReport
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.owner import Snapshot, find_open_transactions
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.progress import Phase, PhaseClock
from hiveacid.records.overlaps import written_by
from hiveacid.rules.run_tokens import source_token
from hiveacid.rules.texts import plural
from hiveacid.writes.finished_work import UnchangedSince
from hiveacid.writes.output import TakenFolders
from hiveacid.writes.statement import Part, WriteOptions


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
            file_owner = stack.enter_context(
                Transaction(
                    self.client,
                    keeps_files=True,
                    run_token=source_token(self.options.known_run_token),
                )
            )
            folders = TakenFolders(file_owner)
            detached_parts = [] if overtaken else [part.detached(folders) for part in parts]
        except (MetastoreError, StorageError) as error:
            raise self._refusal(error.what.rstrip(".")) from error
        if overtaken:
            raise self._refusal("a later attempt of the run is active")
        return detached_parts

    def require_unchanged(self, txn: Transaction, parts: Sequence[Part]) -> None:
        """Make sure that a repetition of the work would have the same result where it matters.

        Args:
            txn: The transaction that is going to commit the work, with all locks.
            parts: The staged statements.

        Raises:
            OverlapRefused: Under the policy rows, others have changed the same rows.
        """
        comparison = UnchangedSince(
            self.client,
            written_by(self.options.run_token, self.client.user),
            self.options.conflict_policy,
            self.since,
            txn,
            self.first.definitions.require_unchanged,
            self._refusal,
        )
        comparison.require(parts)

    def restage(self, txn: Transaction, parts: Sequence[Part]) -> list[Part]:
        """Restage the work with a transaction's write ids by copying bytes, not by creating rows.

        Args:
            txn: The transaction that is going to commit the work.
            parts: The staged statements.
        """
        try:
            with self.phases(Phase.WRITE, "the same files again"):
                return [part.of(txn) for part in parts]
        except (StorageError, DataError) as error:
            raise self._refusal(error.what.rstrip(".")) from error

    def report(self, parts: Sequence[Part]) -> CommitRetry:
        """Return the savings so far."""
        return CommitRetry(
            txn_id=self.first.txn_id,
            why=self.lost.what,
            rows=sum(part.output.rows + part.output.deletes for part in parts),
            bytes=sum(part.output.size for part in parts),
            seconds=round(time.monotonic() - self._started, 3),
            seconds_saved=round(self._saved, 3),
        )

    def with_savings(self, report: RunReport, parts: Sequence[Part]) -> RunReport:
        """Add the savings to the report on the run, and log them."""
        retry = self.report(parts)
        self.phases.note(
            f"Committed {plural(retry.rows, 'row')} and deletes of {plural(retry.bytes, 'byte')} once"
            f" more in {retry.seconds:.1f} s; to read and write them had taken {retry.seconds_saved:.1f} s"
        )
        return replace(report, commit_retry=retry)

    def _has_later_attempt(self) -> bool:
        """Whether a later attempt of the run, which takes precedence, is active."""
        attempts = find_open_transactions(
            self.client, self.options.known_run_token, source_token(self.options.known_run_token)
        )
        return any(txn_id > self.first.txn_id for txn_id in attempts)

    def _refusal(self, reason: str) -> HiveAcidError:
        error = self.lost
        return type(error)(f"{error.what} Not committed once more: {reason}.", remedy=error.remedy)


def may_help(error: HiveAcidError, options: WriteOptions) -> bool:
    """Whether a second publish and commit may help after an error."""
    # Without a token, a second commit could not be distinguished from one of a repeated job.
    is_allowed = options.run_token is not None and options.max_restarts > 0
    return is_allowed and (error.retryable or not isinstance(error, MetastoreError))
