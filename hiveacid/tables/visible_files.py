"""The files of a table that are visible to one snapshot."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from types import MappingProxyType

from hiveacid.dataclass import dataclass
from hiveacid.errors import HiveAcidError, UnsupportedFile
from hiveacid.metastore.catalog import HivePartition, HiveTable, clustering_columns, require_orc
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.live_transaction import LiveTransaction
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.orc.format.tail import OrcTail
from hiveacid.orc.row_keys.row_id_set import RowIds
from hiveacid.records.table_history import version_of
from hiveacid.rules.directory import (
    AcidDirectory,
    FileStatus,
    Rules,
    SyntheticIds,
    synthetic_ids,
    written_by,
)
from hiveacid.rules.location import Location, below, split
from hiveacid.rules.names import Base, Delta, TableRef, delete_applies, may_delete
from hiveacid.rules.partitions import texts_in_rows
from hiveacid.rules.write_ids import AsOf, Range, ValidTxnList, ValidWriteIdList, WriteIdList
from hiveacid.storage.filesystems import in_threads
from hiveacid.storage.folder import ReadOnlyStorage, Storage
from hiveacid.storage.hidden_folder import TableOfFolder
from hiveacid.storage.listing import DataFile, data_files, list_files, read_state, read_tail
from hiveacid.tables.scan.orc_file import OrcFile

# A folder and everything in it.
Listing = tuple[ReadOnlyStorage, Sequence[FileStatus]]
# Folders by location.
Listings = Mapping[str, Listing | None]
NO_LISTINGS: Listings = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class AcidFile:
    """One file of a full ACID table.

    Attributes:
        path: The full path, for Spark and the storage.
        directory: The base, delta or delete delta that contains it; None for an older original
            file.
        bucket: The bucket or writer number in its name; None without a number, which is valid only
            for a file without row ids.
        size: The length of its valid part in bytes.
        exact: Whether every row in it belongs to a write id that the snapshot sees.
        raw: Whether it has no row ids: it is an original file, or was moved in by LOAD DATA.
        modified: See ``DataFile``.
    """

    path: Location
    directory: Base | Delta | None
    bucket: int | None
    size: int
    exact: bool
    raw: bool = False
    modified: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class PartitionFiles:
    """Visible files of one partition, or of a table without partitions.

    Attributes:
        name: The partition's name in the metastore, ``None`` for a table without partitions.
        values: The values of the partition columns as text; ``None`` is Hive's null.
        location: The partition's directory.
        inserts: The files with rows, in Hive's order.
        deletes: The files with delete events.
        clustered_by: The clustering columns in the metastore, in lower case; empty without buckets.
            Existing files may have been written under another definition.
        noted: The directories that have a note of this package.
        read_from: The base, the deltas, and the original files that the snapshot reads, with or
            without rows; see ``rules.notes.trace_row_ids``.
    """

    name: str | None
    values: tuple[str | None, ...]
    location: Location
    inserts: tuple[AcidFile, ...]
    deletes: tuple[AcidFile, ...]
    clustered_by: tuple[str, ...] = ()
    noted: frozenset[str] = frozenset()
    read_from: frozenset[str] = frozenset()

    @property
    def files(self) -> tuple[AcidFile, ...]:
        """All its files."""
        return (*self.inserts, *self.deletes)

    def deletes_of(self, file: AcidFile) -> list[AcidFile]:
        """The delete files that may contain events for rows of a file; see ``may_delete``."""
        return [delete for delete in self._deletes_of_bucket(file) if _applies(delete, file)]

    def inserts_with_deletes(self) -> Iterator[tuple[AcidFile, tuple[AcidFile, ...]]]:
        """Yield the files with rows, each with the delete files of its bucket.

        A file has no delete files if none may contain events for its rows. With one, it has all of
        its bucket, so that the files of a bucket share them.
        """
        of_bucket: dict[int | None, tuple[AcidFile, ...]] = {}
        for file in self.inserts:
            if file.bucket not in of_bucket:
                # The last one applies to every file that any of them applies to.
                of_bucket[file.bucket] = tuple(sorted(self._deletes_of_bucket(file), key=_order))
            deletes = of_bucket[file.bucket]
            yield file, deletes if deletes and _applies(deletes[-1], file) else ()

    def _deletes_of_bucket(self, file: AcidFile) -> Iterator[AcidFile]:
        clustered = bool(self.clustered_by)
        for delete in self.deletes:
            if may_delete(delete.bucket, file.bucket, clustered=clustered):
                yield delete

    def raw_beside(self, file: AcidFile) -> list[AcidFile]:
        """The files whose rows are numbered together with those of a file without row ids."""
        return [
            insert for insert in self.inserts if insert.raw and insert.directory == file.directory
        ]


def usual_listings(table: HiveTable, names: Sequence[str]) -> Listings:
    """List the folders that partitions usually have, while their locations are not known yet.

    Args:
        table: The table.
        names: The names of its partitions.

    Returns:
        Each folder and its files by location; None for those that cannot be listed.
    """

    def list_one(location: Location) -> Listing | None:
        with suppress(HiveAcidError):
            return listing_of(location, TableOfFolder.of(table))
        return None  # The partition may be elsewhere.

    # A part without "=" is no part of a partition's name, and could lead out of the table: "..".
    usual = [name for name in names if all("=" in part for part in name.split("/"))]
    locations = [below(table.folder, name) for name in usual]
    return dict(zip(locations, in_threads(list_one, locations), strict=True))


def listing_of(location: Location, table: TableOfFolder) -> Listing:
    """List a folder of a table."""
    storage = ReadOnlyStorage.of(location)
    return storage, list_files(storage, table)


def list_partitions(
    table: HiveTable,
    partitions: Sequence[HivePartition],
    write_ids: ValidWriteIdList,
    txns: ValidTxnList,
    rules: Rules,
    now: ValidWriteIdList | None = None,
    listings: Listings = NO_LISTINGS,
    txn: LiveTransaction | None = None,
) -> list[PartitionFiles]:
    """List the visible files of some partitions, or of a whole unpartitioned table.

    Args:
        table: The table.
        partitions: The partitions.
        write_ids: The visible write ids of the table.
        txns: The visible transactions.
        rules: The rules of the engine version for reading directories.
        now: The write ids that a new reader sees, if an earlier version is read.
        listings: See ``usual_listings``.
        txn: The transaction, if any, that holds a lock on the table.
    """
    owner = TableOfFolder.of(table, txn)

    def list_one(partition: HivePartition | None) -> PartitionFiles:
        location = table.folder if partition is None else partition.folder
        storage, files = listings.get(location) or listing_of(location, owner)
        state = read_state(storage, files, write_ids, txns, rules=rules, now=now)
        return partition_files(storage, table, partition, state, write_ids)

    if not table.partition_keys:
        return [list_one(None)]
    return in_threads(list_one, partitions)


def partition_files(
    storage: ReadOnlyStorage,
    table: HiveTable,
    partition: HivePartition | None,
    state: AcidDirectory,
    write_ids: ValidWriteIdList,
) -> PartitionFiles:
    """The files that a snapshot reads of a partition.

    Args:
        storage: Its folder.
        table: The table.
        partition: The partition; None for a table without partitions.
        state: The visible part of the folder.
        write_ids: The visible write ids of the table.

    Raises:
        UnsupportedTable: The partition has another format than ORC.
    """
    require_orc(table, partition)
    location = table.folder if partition is None else partition.folder
    files = [_acid_file(location, file, write_ids) for file in data_files(storage, state)]
    return PartitionFiles(
        name=None if partition is None else partition.name,
        values=() if partition is None else texts_in_rows(partition.values, table.key_types),
        location=location,
        inserts=tuple(file for file in files if not _is_delete(file.directory)),
        deletes=tuple(file for file in files if _is_delete(file.directory)),
        clustered_by=clustering_columns(table, partition),
        noted=frozenset(
            name for name in (state.base, *state.deltas) if name and state.sidecar(name) is not None
        ),
        read_from=frozenset(filter(None, (state.base, *state.deltas, *state.originals))),
    )


class FileTails:
    """A cache of file tails; each tail is read once."""

    def __init__(self) -> None:
        self._known: dict[AcidFile, OrcTail] = {}

    def of(self, files: Sequence[AcidFile]) -> list[OrcTail]:
        """The tails of some files."""
        new = [file for file in dict.fromkeys(files) if file not in self._known]
        self._known.update(zip(new, read_tails(new), strict=True))
        return [self._known[file] for file in files]

    def cached(self, files: Sequence[AcidFile]) -> list[OrcTail]:
        """The tails that were already read."""
        return [self._known[file] for file in files if file in self._known]


def read_tails(files: Sequence[AcidFile]) -> list[OrcTail]:
    """Read the tails of some files."""
    return in_threads(_read_tail, files)


def _read_tail(file: AcidFile) -> OrcTail:
    folder, name = split(file.path)
    return read_tail(Storage.of(folder), name, file.size)


def _acid_file(location: Location, file: DataFile, write_ids: ValidWriteIdList) -> AcidFile:
    return AcidFile(
        path=below(location, file.path),
        directory=file.directory,
        bucket=file.bucket,
        size=file.size,
        exact=_is_exact(file.directory, write_ids),
        raw=file.raw,
        modified=file.modified,
    )


def _applies(delete: AcidFile, file: AcidFile) -> bool:
    return isinstance(delete.directory, Delta) and delete_applies(file.directory, delete.directory)


def _order(delete: AcidFile) -> tuple[int, int]:
    """The write id and the statement, by which ``delete_applies`` decides."""
    assert isinstance(delete.directory, Delta)
    return delete.directory.max_write_id, delete.directory.statement_id or 0


def _is_delete(directory: Base | Delta | None) -> bool:
    return isinstance(directory, Delta) and directory.is_delete


def _is_exact(directory: Base | Delta | None, write_ids: ValidWriteIdList) -> bool:
    return (
        not isinstance(directory, Delta)
        or directory.min_write_id == directory.max_write_id
        or write_ids.range_valid(directory.min_write_id, directory.max_write_id) is Range.ALL
    )


@dataclass(frozen=True)
class AcidFiles:
    """The files and write ids of a full ACID table that one transaction sees.

    Attributes:
        table: The table, with the columns to read.
        partitions: Its files; elsewhere, a partition is identified by its index here.
        write_ids: The visible write ids.
        tails: The file tails read so far, shared with others of fewer files or columns.
    """

    table: HiveTable
    partitions: Sequence[PartitionFiles]
    write_ids: ValidWriteIdList
    tails: FileTails = field(default_factory=FileTails, compare=False, repr=False)

    @property
    def inserts(self) -> list[AcidFile]:
        """The files with rows."""
        return [file for partition in self.partitions for file in partition.inserts]

    @property
    def has_ambiguous_columns(self) -> bool:
        """Whether the values of a file depend on the column mapping."""
        stored_names = {tail.column_names for tail in self.tails.of(self.inserts)}
        return any(map(self.table.mapped_columns.is_ambiguous, stored_names))


class FilesReader:
    """Finds the files of tables that one transaction sees.

    All methods take a table as it was before the transaction. They raise TableReplaced if another
    one has its name by now, or if its definition has changed; see ``Definitions``.
    """

    def __init__(self, client: MetastoreClient, txn: Transaction) -> None:
        self._client = client
        self._txn = txn
        self._rules = Rules.of(client.features.hides_compactions)

    @property
    def txn(self) -> Transaction:
        """The transaction whose snapshot is read."""
        return self._txn

    def confirmed(self, table: HiveTable) -> HiveTable:
        """Return the definition of a table, also of a plain one, that its files are read by."""
        return self._txn.definitions.confirmed(table)

    def require_unchanged(self, except_for: Collection[TableRef]) -> None:
        """Verify, after the last read, the tables that were read; see ``Definitions``."""
        self._txn.definitions.require_unchanged(except_for)

    def files(
        self,
        table: HiveTable,
        partitions: Sequence[HivePartition],
        as_of: AsOf | None = None,
        listings: Listings = NO_LISTINGS,
    ) -> AcidFiles:
        """Some partitions of a full ACID table, or a whole table without partitions.

        Args:
            table: The table.
            partitions: The partitions.
            as_of: The version to read; None means the newest.
            listings: See ``usual_listings``.
        """
        table = self.confirmed(table)
        snapshot, now = self._txn.snapshot, self._now(table)
        write_ids = self._version(table, as_of)
        files = list_partitions(
            table, partitions, write_ids, snapshot.txns, self._rules, now, listings, self._txn
        )
        return AcidFiles(table, files, write_ids)

    def _now(self, table: HiveTable) -> ValidWriteIdList:
        return self._txn.snapshot.write_ids[table.ref.full_name]

    def _version(self, table: HiveTable, as_of: AsOf | None) -> ValidWriteIdList:
        now = self._now(table)
        return now if as_of is None else version_of(self._client, table.ref, as_of, now)


def row_ids(
    partitions: Sequence[PartitionFiles], files: Sequence[tuple[int, AcidFile]]
) -> Mapping[str, SyntheticIds]:
    """Return the row ids that Hive assigns to the rows of files without row ids, by their paths.

    Args:
        partitions: The partitions that the numbers beside the files refer to.
        files: Files without row ids, each with the number of its partition.

    Raises:
        UnsupportedFile: The name of a file has no bucket number, so that its rows have no ids.
    """
    neighbours = {
        (number, file.directory): partitions[number].raw_beside(file) for number, file in files
    }
    files_to_count = sorted(
        {file for group in neighbours.values() for file in group}, key=lambda f: f.path
    )
    tails = dict(
        zip([file.path for file in files_to_count], read_tails(files_to_count), strict=True)
    )
    files_by_path = {
        ids.path: ids
        for (_, directory), group in neighbours.items()
        for ids in synthetic_ids(
            {file.path: tails[file.path].rows for file in group}, *written_by(directory)
        )
    }
    for _, file in files:
        if files_by_path[file.path].bucket is None:
            raise UnsupportedFile(
                f"{file.path} has no bucket number in its name, so that its rows have no row ids.",
                remedy="Overwrite the table, or the partition, with its own rows; then change them.",
            )
    return files_by_path


def read_events(files: Sequence[AcidFile], write_ids: WriteIdList) -> RowIds:
    """Read the row ids in the delete events of some files that a snapshot sees."""

    def read(file: AcidFile) -> RowIds:
        folder, name = split(file.path)
        data = DataFile(name, file.size, file.directory, file.bucket)
        events = OrcFile(Storage.of(folder), data).events(None if file.exact else write_ids)
        return RowIds.joined(events)

    return RowIds.joined(in_threads(read, files))
