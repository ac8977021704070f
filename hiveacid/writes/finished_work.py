"""Comparison of staged work with the tables as they are when another transaction commits it."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from hiveacid.errors import HiveAcidError, OverlapRefused, TableReplaced
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.records.overlaps import committed_since, writers_in
from hiveacid.rules.locks import WriteKind
from hiveacid.rules.names import TableRef
from hiveacid.tables.visible_files import FilesReader
from hiveacid.writes.row_overlaps import RowOverlaps
from hiveacid.writes.statement import Part


@dataclass(frozen=True)
class UnchangedSince:
    """The rules by which work may be committed that was done on an earlier snapshot.

    Attributes:
        client: The metastore.
        by: A description of the job's user and run.
        policy: The treatment of concurrent commits; see ``RunOptions``.
        since: The snapshot of the work.
        txn: The transaction that is going to commit the work, with all locks.
        require_definitions: Verifies the definitions of the tables that were read, except for some.
        refusal: Makes an error of a reason.
    """

    client: MetastoreClient
    by: str
    policy: str
    since: Snapshot
    txn: Transaction
    require_definitions: Callable[[Collection[TableRef]], None]
    refusal: Callable[[str], HiveAcidError]

    def require(self, detached_parts: Sequence[Part]) -> None:
        """Make sure that a repetition of the work would have the same result where it matters.

        Args:
            detached_parts: The staged statements.

        Raises:
            OverlapRefused: Under the policy rows, others have changed the same rows.
        """
        if self.policy == "rows" and all(
            part.statement.changes_single_rows for part in detached_parts
        ):
            for part in detached_parts:
                if part.statement.depends_on_new_rows and (new := self._new(part.ref)):
                    raise self.refusal(
                        f"{part.name}, which it inserts into, has got write id {min(new)} since then"
                    )
                self._overlaps.require_none(part)
            return
        try:
            self.require_definitions({part.ref for part in detached_parts})
        except TableReplaced as error:
            raise self.refusal(error.what.rstrip(".")) from error
        for part in detached_parts:
            for ref in part.statement.reads:
                if new := self._new(ref):
                    raise self.refusal(
                        f"{ref.full_name}, which was read, has got write id {min(new)} since then"
                    )
            if part.kind is not WriteKind.APPEND:
                self._require_unchanged_target(part)

    def _require_unchanged_target(self, part: Part) -> None:
        statement, locks = part.statement, part.context.locks
        names: Sequence[str | None] = [None]
        if statement.table.partition_keys:
            names = part.context.partition_names() if locks is None else locks
        # As always, a change does not see rows that are appended concurrently.
        allows_appends = statement.changes_single_rows and not statement.depends_on_new_rows
        new = self._new(part.ref)
        for writer in (
            writers_in(self.client, part.ref, names, new, self.txn.snapshot.txns) if new else ()
        ):
            if not allows_appends or writer.kind is not WriteKind.APPEND:
                raise self.refusal(
                    f"{part.name} has received {writer.what} of {writer.by} since then"
                )
        folders = part.output.staged_deletes()
        if not folders:
            return
        files = FilesReader(self.client, self.txn).files(
            statement.table,
            [folder.partition for folder in folders if folder.partition is not None],
        )
        try:
            for partition in files.partitions:
                self._overlaps.require_same_row_ids(part, partition)
        except OverlapRefused as refused:
            raise self.refusal(refused.what.rstrip(".")) from refused

    @property
    def _overlaps(self) -> RowOverlaps:
        return RowOverlaps(self.client, self.by, self.since, self.txn)

    def _new(self, ref: TableRef) -> set[int]:
        """Return the write ids of others that were committed since then."""
        name = ref.full_name
        earlier_ids, now = self.since.write_ids[name], self.txn.snapshot.write_ids[name]
        if now.high_watermark < earlier_ids.high_watermark:
            # Version 3.1 shows the time of a creation in seconds. Write ids of a new table restart.
            raise self.refusal(f"{name} was dropped and created again since then")
        return {*committed_since(earlier_ids, now)} - {self.txn.write_ids.get(name, 0)}
