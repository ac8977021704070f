"""Row-level validation of a change that was prepared concurrently, under the policy rows.

The change was prepared on one snapshot and is about to be committed on a later one, under the lock
that excludes all other changes. In between, others may have committed. The change is valid if the
row ids that it names still identify the same rows, no other change has deleted one of these rows,
and a merge would have matched no new row.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial

from hiveacid.dataclass import dataclass
from hiveacid.errors import OverlapRefused
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.orc.row_keys.row_id_set import KeyRange, RowIdSet
from hiveacid.records.overlaps import committed_since, read_note, writers_in
from hiveacid.rules.location import below
from hiveacid.rules.locks import Finished, describe_renumbered, describe_shared_rows
from hiveacid.rules.names import Delta, TableRef, parse_directory, parse_file
from hiveacid.rules.notes import trace_row_ids
from hiveacid.storage.folder import Storage
from hiveacid.storage.staging import StagedFile
from hiveacid.tables.visible_files import (
    AcidFile,
    FilesReader,
    PartitionFiles,
    read_events,
)
from hiveacid.writes.output import OutputFolder
from hiveacid.writes.statement import Part, RowsOfOthers


@dataclass(frozen=True)
class RowOverlaps:
    """Concurrent commits between the snapshot of a change and its commit.

    Attributes:
        client: The metastore.
        by: A description of the job's user and run.
        since: The snapshot that the change was prepared on.
        txn: The transaction that commits the change and excludes other changes.
    """

    client: MetastoreClient
    by: str
    since: Snapshot
    txn: Transaction

    def require_none(self, part: Part) -> None:
        """Make sure that a change is still valid.

        Args:
            part: The staged change.

        Raises:
            OverlapRefused: Others have changed a row of the change, written a row that the change
                would have matched, or renumbered rows.
        """
        write_ids = self.txn.snapshot.write_ids[part.name]
        new = committed_since(self.since.write_ids[part.name], write_ids)
        new -= {self.txn.write_ids[part.name]}
        # Also without concurrent writes: a rebalance assigns new row ids.
        for folder, files in part.output.staged_deletes().items():
            if deleted := self._count_deleted(part, folder, files, new):
                names = [folder.name]
                raise self._refusal(part, names, new, f"{deleted} of the rows that it changes")
        if new and part.statement.depends_on_new_rows:
            self._require_no_new_match(part, new)

    def require_same_row_ids(self, part: Part, partition: PartitionFiles) -> frozenset[str]:
        """Make sure that row ids which a statement has read still identify the same rows.

        Args:
            part: The statement.
            partition: The current files of a partition.

        Returns:
            The directories that compactions have replaced since they were read.

        Raises:
            OverlapRefused: The rows may have new row ids, or the files that were read are
                unknown.
        """
        read = part.output.read_from.get(partition.name, frozenset())
        note = partial(read_note, Storage.of(partition.location))
        trace = trace_row_ids(read, partition.read_from, note)
        is_unknown = not read and any(
            folder.name == partition.name for folder in part.output.staged_deletes()
        )
        if trace.unproven or is_unknown:
            raise OverlapRefused(
                describe_renumbered(part.name, partition.name, part.kind, self.by, trace.unproven)
            )
        return trace.replaced

    def _count_deleted(
        self,
        part: Part,
        folder: OutputFolder,
        files: Sequence[StagedFile],
        new: Collection[int],
    ) -> int:
        """Count the rows that the change deletes and others have deleted since."""
        partitions = [] if folder.partition is None else [folder.partition]
        now = FilesReader(self.client, self.txn).files(part.statement.table, partitions)
        (partition,) = now.partitions
        replaced_names = self.require_same_row_ids(part, partition)
        mine = read_events([_as_acid(folder, file) for file in files], now.write_ids)
        deletes = [
            *partition.deletes,
            *self._compacted_deletes(part, partition, replaced_names, new),
        ]
        candidates = [file for file in deletes if _may_have(file, new)]
        own_range = KeyRange.of_ids(mine)
        events = []
        for file, tail in zip(candidates, now.tails.of(candidates), strict=True):
            keys = KeyRange.of(tail)
            if keys is None or keys.may_share(own_range):
                events.append(file)
        theirs = RowIdSet([read_events(events, now.write_ids)])
        return int(theirs.contains(mine).sum())

    def _compacted_deletes(
        self,
        part: Part,
        partition: PartitionFiles,
        replaced_names: Collection[str],
        new: Collection[int],
    ) -> Iterator[AcidFile]:
        """List the delete events of some write ids that compactions have applied to rows.

        Raises:
            OverlapRefused: A cleaner has removed them.
        """
        storage = Storage.of(partition.location)
        for name in sorted(replaced_names):
            directory = parse_directory(name)
            if not isinstance(directory, Delta) or not directory.is_delete:
                continue
            if not any(write_id in directory.write_ids for write_id in new):
                continue
            files = storage.list_files(name, missing_ok=True)
            if not files:
                subject = f"rows of {name}, which has been compacted and removed,"
                raise self._refusal(part, [partition.name], new, subject)
            for file in files:
                if data := parse_file(file.path):
                    path = below(partition.location, name, file.path)
                    yield AcidFile(path, directory, data.bucket, file.size, exact=False)

    def _require_no_new_match(self, part: Part, new: Collection[int]) -> None:
        """Make sure that the change would not have matched a new row."""
        context, statement = part.context, part.statement
        names: Sequence[str] = ()
        if statement.table.partition_keys:
            locked = context.locks
            names = context.partition_names() if locked is None else locked
        partitions = self.client.get_partitions(statement.table, names) if names else []
        files = FilesReader(self.client, self.txn).files(statement.table, partitions)
        new_rows = [_only_new(partition, new) for partition in files.partitions]
        if not any(partition.inserts for partition in new_rows):
            return
        unread = []
        for number, partition in enumerate(files.partitions):
            if partition.name not in part.output.read_from:
                unread.append(number)
            elif new_rows[number].inserts:
                # An ordered rebalance assigns existing write ids to new rows.
                self.require_same_row_ids(part, partition)
        if statement.would_act_on(
            context, RowsOfOthers(replace(files, partitions=new_rows), new, unread)
        ):
            names_of_new = [partition.name for partition in new_rows if partition.inserts]
            raise self._refusal(part, names_of_new, new, "a row that it would have met")

    def _refusal(
        self, part: Part, names: Collection[str | None], new: Collection[int], subject: str
    ) -> OverlapRefused:
        finished = list(self._finished(part.ref, names, new))
        return OverlapRefused(
            describe_shared_rows(part.name, part.kind, self.by, subject, finished)
        )

    def _finished(
        self, table: TableRef, names: Collection[str | None], new: Collection[int]
    ) -> Iterator[Finished]:
        yield from writers_in(self.client, table, names, new, self.txn.snapshot.txns)


def _as_acid(folder: OutputFolder, file: StagedFile) -> AcidFile:
    return AcidFile(below(folder.root, file.path), None, file.bucket, file.bytes, exact=True)


def _only_new(partition: PartitionFiles, new: Collection[int]) -> PartitionFiles:
    return replace(
        partition, inserts=tuple(file for file in partition.inserts if _may_have(file, new))
    )


def _may_have(file: AcidFile, write_ids: Collection[int]) -> bool:
    """Whether a file may contain rows or events of some write ids."""
    directory = file.directory
    return directory is not None and any(write_id in directory.write_ids for write_id in write_ids)
