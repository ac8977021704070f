"""Work without a transaction: files of finished statements, which another transaction commits.

The first transaction was lost at its commit (``second_commit.py``), or ended on purpose because a person
decides on the change (``staged_change.py``). The files are published with the write ids of the other
transaction, by copying bytes, if a repetition of the work would have the same result.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence

from hiveacid.dataclass import dataclass
from hiveacid.errors import HiveAcidError, OverlapRefused, TableReplaced
from hiveacid.jobs.report import RunReport
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.progress import Phase, PhaseClock
from hiveacid.records.overlaps import committed_since, writers_in, written_by
from hiveacid.rules.locks import WriteKind
from hiveacid.rules.names import TableRef
from hiveacid.tables.visible_files import FilesReader
from hiveacid.writes.row_overlaps import RowOverlaps
from hiveacid.writes.statement import Part, WriteOptions


@dataclass(eq=False)
class FinishedWork(ABC):
    """Statements whose files belong to no transaction that could commit them.

    Attributes:
        client: The metastore.
        options: The options of the write.
        phases: The clock of the run.
        since: The snapshot of the work.
        parts: The detached statements.
    """

    client: MetastoreClient
    options: WriteOptions
    phases: PhaseClock
    since: Snapshot
    parts: Sequence[Part]

    @property
    def by(self) -> str:
        """A description of the job's user and run."""
        return written_by(self.options.run_token, self.client.user)

    @abstractmethod
    def of(self, txn: Transaction) -> list[Part]:
        """Return the work as that of another transaction, unless something that matters has changed.

        Args:
            txn: The transaction that is going to commit the work, with all locks.

        Raises:
            OverlapRefused: Under the policy rows, others have changed the same rows.
        """

    @abstractmethod
    def require_definitions(self, except_for: Collection[TableRef]) -> None:
        """Verify the definitions of the tables that were read, except for some."""

    @abstractmethod
    def refusal(self, reason: str) -> HiveAcidError:
        """Make the error that the work cannot be committed for a reason."""

    def described(self, report: RunReport, parts: Sequence[Part]) -> RunReport:
        """Add what is known of the first transaction to the report on the run."""
        return report

    def restaged(self, txn: Transaction) -> list[Part]:
        """Restage the work with a transaction's write ids by copying bytes, not by creating rows."""
        with self.phases(Phase.WRITE, "the files to their places"):
            return [part.of(txn) for part in self.parts]

    def require_unchanged(self, txn: Transaction) -> None:
        """Make sure that a repetition of the work would have the same result where it matters."""
        rows = self.options.conflict_policy == "rows"
        if rows and all(part.statement.changes_single_rows for part in self.parts):
            for part in self.parts:
                if part.statement.depends_on_new_rows and (new := self._new(txn, part.ref)):
                    raise self.refusal(
                        f"{part.name}, which it inserts into, has got write id {min(new)} since then"
                    )
                self._overlaps(txn).require_none(part)
            return
        try:
            self.require_definitions({part.ref for part in self.parts})
        except TableReplaced as error:
            raise self.refusal(error.what.rstrip(".")) from error
        for part in self.parts:
            for ref in part.statement.reads:
                if new := self._new(txn, ref):
                    raise self.refusal(
                        f"{ref.full_name}, which was read, has got write id {min(new)} since then"
                    )
            if part.kind is not WriteKind.APPEND:
                self._require_unchanged_target(txn, part)

    def _require_unchanged_target(self, txn: Transaction, part: Part) -> None:
        statement, locks = part.statement, part.context.locks
        names: Sequence[str | None] = [None]
        if statement.table.partition_keys:
            names = part.context.partition_names() if locks is None else locks
        # As always, a change does not see rows that are appended concurrently.
        allows_appends = statement.changes_single_rows and not statement.depends_on_new_rows
        new = self._new(txn, part.ref)
        for writer in (
            writers_in(self.client, part.ref, names, new, txn.snapshot.txns) if new else ()
        ):
            if not allows_appends or writer.kind is not WriteKind.APPEND:
                raise self.refusal(
                    f"{part.name} has received {writer.what} of {writer.by} since then"
                )
        folders = part.output.staged_deletes()
        if not folders:
            return
        files = FilesReader(self.client, txn).files(
            statement.table,
            [folder.partition for folder in folders if folder.partition is not None],
        )
        try:
            for partition in files.partitions:
                self._overlaps(txn).require_same_row_ids(part, partition)
        except OverlapRefused as refused:
            raise self.refusal(refused.what.rstrip(".")) from refused

    def _overlaps(self, txn: Transaction) -> RowOverlaps:
        return RowOverlaps(self.client, self.by, self.since, txn)

    def _new(self, txn: Transaction, ref: TableRef) -> set[int]:
        """Return the write ids of others that were committed since then."""
        name = ref.full_name
        earlier_ids, now = self.since.write_ids[name], txn.snapshot.write_ids[name]
        if now.high_watermark < earlier_ids.high_watermark:
            # Version 3.1 shows the time of a creation in seconds. Write ids of a new table restart.
            raise self.refusal(f"{name} was dropped and created again since then")
        return {*committed_since(earlier_ids, now)} - {txn.write_ids.get(name, 0)}
