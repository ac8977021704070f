"""The numbers of rows that differ between two versions of a table, without Spark and without Java.

Rows of a full ACID table are compared by their row ids, which a compaction keeps; those of an
insert-only table by the files that only one version reads.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from threading import Lock

from hiveacid.dataclass import dataclass
from hiveacid.errors import VersionGone
from hiveacid.foreign.budget import Threads
from hiveacid.jobs.report import PartitionDifference
from hiveacid.metastore.catalog import HiveTable, StorageFormat
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.records.table_history import version_of
from hiveacid.rules.directory import AcidDirectory, FileStatus, Rules
from hiveacid.rules.names import Delta
from hiveacid.rules.schema import TableKind
from hiveacid.rules.versions import check_order, precedes
from hiveacid.rules.write_ids import AsOf, Range, ValidTxnList, ValidWriteIdList
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.hidden_folder import TableOfFolder
from hiveacid.storage.listing import (
    DataFile,
    check_kept,
    data_files,
    list_files,
    read_state,
    read_tail,
    versions_of,
)
from hiveacid.tables.scan.orc_file import are_valid
from hiveacid.tables.scan.parquet_file import ParquetFile
from hiveacid.tables.scan.table_part import VisibleRows
from hiveacid.tables.scan.visible_table import PartitionDirectory, see_table

# Counts the rows in files of text of a partition.
CountText = Callable[[PartitionDirectory, Sequence[FileStatus]], int]

_READERS = 8


@dataclass(frozen=True)
class TwoReaders:
    """The snapshots of two readers of a table, and the rules for reading them.

    Attributes:
        owner: The table.
        then: The write ids of the earlier version.
        later: Those of the later version.
        now: Those that a new reader sees.
        txns: The visible transactions.
        rules: The rules of the engine version for reading directories.
    """

    owner: TableOfFolder
    then: ValidWriteIdList
    later: ValidWriteIdList
    now: ValidWriteIdList
    txns: ValidTxnList
    rules: Rules

    def flat_states(self, storage: ReadOnlyStorage) -> tuple[AcidDirectory, AcidDirectory]:
        """Return the files of both versions in a partition of an insert-only table.

        Raises:
            VersionGone: One of the versions is not available any more.
        """
        listed = list_files(storage, self.owner)
        versions = versions_of(storage, listed, self.now, self.txns, flat=True)

        def read(
            files: Sequence[FileStatus],
            version: ValidWriteIdList,
            now: ValidWriteIdList | None = None,
        ) -> AcidDirectory:
            return read_state(
                storage, files, version, self.txns, rules=self.rules, now=now, flat=True
            )

        try:
            files = versions.files_between(self.then, self.later)
        except VersionGone:
            # Versions in between cannot be distinguished any more; both versions may be available.
            return read(listed, self.then, self.now), read(listed, self.later, self.now)
        states = read(files, self.then), read(files, self.later)
        if versions.overwrites(self.then, self.later) or len(files) < len(listed):
            check_kept(storage, states)
        return states

    def acid_states(self, storage: ReadOnlyStorage) -> tuple[AcidDirectory, AcidDirectory]:
        """Return the files of both versions in a partition of a full ACID table.

        Raises:
            VersionGone: One of the versions is not available any more.
        """
        all_files = list_files(storage, self.owner)
        versions = versions_of(storage, all_files, self.now, self.txns, flat=False)
        files = versions.files_between(self.then, self.later)
        earlier_state, later_state = (
            read_state(storage, files, version, self.txns, rules=self.rules)
            for version in (self.then, self.later)
        )
        if versions.overwrites(self.then, self.later) or len(files) < len(all_files):
            check_kept(storage, [earlier_state, later_state])
        return earlier_state, later_state


def count_differences(
    client: MetastoreClient,
    txn: Transaction,
    table: HiveTable,
    versions: tuple[AsOf, AsOf | None],
    count_text: CountText,
) -> tuple[PartitionDifference, ...]:
    """Count the rows of each partition that only one of two versions has.

    Args:
        client: The metastore.
        txn: The transaction that reads.
        table: The table.
        versions: The versions; None for the newest. The first one may be the later one.
        count_text: Counts the rows in files of text, which need the table's SerDe.

    Raises:
        VersionGone: One of the versions is not available any more.
        VersionUnknown: A version does not exist, or the table has never gone from one to the other.
    """
    visible = see_table(client, txn, table)
    now = txn.snapshot.write_ids[table.ref.full_name]
    first, second = (
        now if as_of is None else version_of(client, table.ref, as_of, now) for as_of in versions
    )
    earlier_version, later_version = (first, second) if precedes(first, second) else (second, first)
    check_order(table.ref.full_name, earlier_version, later_version)
    owner = TableOfFolder.of(table, txn)
    readers = TwoReaders(
        owner, earlier_version, later_version, now, txn.snapshot.txns, visible.rules
    )

    reading_text = Lock()  # One Spark reads all files of text.

    def count_alone(partition: PartitionDirectory, files: Sequence[FileStatus]) -> int:
        with reading_text:
            return count_text(partition, files)

    def count(partition: PartitionDirectory) -> PartitionDifference:
        if table.kind is TableKind.INSERT_ONLY:
            added_count, removed_count = _count_files(readers, partition, count_alone)
        else:
            added_count, removed_count = _count_rows(readers, partition)
        inserted, deleted = (
            (added_count, removed_count)
            if earlier_version is first
            else (removed_count, added_count)
        )
        return PartitionDifference(partition.name, inserted=inserted, deleted=deleted)

    with Threads(_READERS) as pool:
        differences = [
            difference
            for difference in pool.map(count, visible.partitions)
            if difference.inserted or difference.deleted
        ]
    return tuple(sorted(differences, key=lambda difference: difference.partition or ""))


def _count_rows(readers: TwoReaders, partition: PartitionDirectory) -> tuple[int, int]:
    """Return the numbers of rows that only the later, and only the earlier version shows.

    A row id is never used again: rows of write ids that the earlier version sees were in it, and
    those of other write ids were not.
    """
    storage = partition.storage
    earlier_files, later_files = (
        list(data_files(storage, state)) for state in readers.acid_states(storage)
    )
    deletes = set(filter(_is_delete, earlier_files))
    # Both versions see the same delete events only if the earlier one sees all of each file:
    # a compacted delete delta may hold events between them.
    if deletes == set(filter(_is_delete, later_files)) and all(
        _is_whole(file, readers.then) for file in deletes
    ):
        common_files = {
            file for file in earlier_files if _is_whole(file, readers.then)
        }.intersection(later_files)
        earlier_files, later_files = (
            _without(files, common_files - deletes) for files in (earlier_files, later_files)
        )

    def count(files: Iterable[DataFile], version: ValidWriteIdList) -> tuple[int, int]:
        """All rows, and those of write ids that the earlier version sees."""
        rows = seen_count = 0
        visible = VisibleRows(storage, version, readers.rules, (), clustered=partition.clustered)
        for batch in visible.of(files):
            rows += len(batch)
            seen_count += int(are_valid(batch.ids.write_ids, readers.then).sum())
        return rows, seen_count

    earlier, _ = count(earlier_files, readers.then)
    newer, kept_count = count(later_files, readers.later)
    return newer - kept_count, earlier - kept_count


def _without(files: Sequence[DataFile], common_files: Collection[DataFile]) -> list[DataFile]:
    """Leave out some files of rows, and files of deletes that delete none of the other rows.

    A transaction may commit after a later one has deleted its rows, so that a version sees the
    deletes, but not the rows.
    """
    rows = [file for file in files if not _is_delete(file) and file not in common_files]
    first = min((_write_ids(file)[0] for file in rows), default=None)
    if first is None:
        return []
    return rows + [file for file in files if _is_delete(file) and _write_ids(file)[1] >= first]


def _is_delete(file: DataFile) -> bool:
    return isinstance(file.directory, Delta) and file.directory.is_delete


def _write_ids(file: DataFile) -> tuple[int, int]:
    """The smallest and the largest write id that a file may contain."""
    directory = file.directory
    if isinstance(directory, Delta):
        return directory.min_write_id, directory.max_write_id
    return 0, directory.write_id if directory else 0


def _is_whole(file: DataFile, earlier_version: ValidWriteIdList) -> bool:
    """Whether a version sees all rows of a file that it reads, apart from deleted rows."""
    delta = file.directory
    if not isinstance(delta, Delta):
        return True
    return earlier_version.range_valid(delta.min_write_id, delta.max_write_id) is Range.ALL


def _count_files(
    readers: TwoReaders, partition: PartitionDirectory, count_text: CountText
) -> tuple[int, int]:
    """Return the numbers of rows in files of only the later, and only the earlier version."""
    earlier_files, later_files = map(flat_files, readers.flat_states(partition.storage))

    def count(files: Sequence[FileStatus]) -> int:
        if files and partition.format.is_text:
            return count_text(partition, files)
        if partition.format is StorageFormat.PARQUET:
            return sum(ParquetFile(partition.storage, file.path).rows for file in files)
        return sum(read_tail(partition.storage, file.path).rows for file in files)

    return (
        count([file for file in later_files if file not in set(earlier_files)]),
        count([file for file in earlier_files if file not in set(later_files)]),
    )


def flat_files(state: AcidDirectory) -> list[FileStatus]:
    """Return the files of a directory of an insert-only table, without empty ones."""
    names = ["", *filter(None, [state.base]), *state.deltas]
    return [file for name in names for file in state.files(name) if file.size]
