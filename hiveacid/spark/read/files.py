"""The files of a table that are visible to one snapshot."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from types import MappingProxyType
from typing import Self

from pyspark.sql import DataFrame, SparkSession

from hiveacid.errors import HiveAcidError
from hiveacid.metastore.catalog import HivePartition, HiveTable, clustering_columns, require_orc
from hiveacid.metastore.client import MetastoreClient
from hiveacid.orc.format.envelope import EnvelopeColumn
from hiveacid.orc.format.tail import OrcTail
from hiveacid.rules.directory import AcidDirectory, FileStatus, Rules
from hiveacid.rules.names import Base, Delta, delete_applies, is_hidden_path, may_delete
from hiveacid.rules.partitions import texts_in_rows
from hiveacid.rules.write_ids import Range, ValidTxnList, ValidWriteIdList
from hiveacid.spark.failures import translated_spark_errors
from hiveacid.spark.rows.columns import all_columns, quoted
from hiveacid.spark.rows.file_scan import PART, PlainFile
from hiveacid.spark.rows.row_format import RowFormat
from hiveacid.spark.session import scan_session
from hiveacid.storage.filesystems import in_threads
from hiveacid.storage.folder import ReadOnlyStorage, Storage
from hiveacid.storage.listing import DataFile, data_files, list_files, read_state, read_tail
from hiveacid.tables.scan.differences import CountText
from hiveacid.tables.scan.visible_table import PartitionDirectory

# A folder and everything in it.
Listing = tuple[ReadOnlyStorage, Sequence[FileStatus]]
# Folders by location.
Listings = Mapping[str, Listing | None]
NO_LISTINGS: Listings = MappingProxyType({})
_KEY_COLUMNS = (
    EnvelopeColumn.ORIGINAL_TRANSACTION,
    EnvelopeColumn.BUCKET,
    EnvelopeColumn.ROW_ID,
)


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
    """

    path: str
    directory: Base | Delta | None
    bucket: int | None
    size: int
    exact: bool
    raw: bool = False


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
            without rows; see ``acid.row_identity``.
    """

    name: str | None
    values: tuple[str | None, ...]
    location: str
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
        return [each for each in self._deletes_of_bucket(file) if _applies(each, file)]

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
            own = of_bucket[file.bucket]
            yield file, own if own and _applies(own[-1], file) else ()

    def _deletes_of_bucket(self, file: AcidFile) -> Iterator[AcidFile]:
        clustered = bool(self.clustered_by)
        for delete in self.deletes:
            if may_delete(delete.bucket, file.bucket, clustered=clustered):
                yield delete

    def raw_beside(self, file: AcidFile) -> list[AcidFile]:
        """The files whose rows are numbered together with those of a file without row ids."""
        return [other for other in self.inserts if other.raw and other.directory == file.directory]


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The ranges of the parts of the row ids in some files, and the number of rows."""

    rows: int
    write_ids: tuple[int, int] = (0, 0)
    buckets: tuple[int, int] = (0, 0)
    row_numbers: tuple[int, int] = (0, 0)

    @classmethod
    def of(cls, tail: OrcTail) -> "KeyRange | None":
        """The range of one file; None if its tail does not contain it."""
        known = cls(0)
        for stripe, rows in enumerate(stripe.rows for stripe in tail.stripes):
            parts = [tail.int_range(stripe, column) for column in _KEY_COLUMNS]
            if not tail.is_acid or None in parts:
                return None
            known = known.joined(cls(rows, *filter(None, parts)))
        return known

    def joined(self, other: "KeyRange") -> "KeyRange":
        """The combined range of both."""
        if not self.rows or not other.rows:
            return self if self.rows else other
        return KeyRange(
            self.rows + other.rows,
            *[
                (min(mine[0], others[0]), max(mine[1], others[1]))
                for mine, others in zip(self._parts, other._parts, strict=True)
            ],
        )

    def may_share(self, other: "KeyRange") -> bool:
        """Whether both ranges can contain the same row id."""
        return bool(self.rows and other.rows) and all(
            mine[0] <= others[1] and others[0] <= mine[1]
            for mine, others in zip(self._parts, other._parts, strict=True)
        )

    @property
    def _parts(self) -> tuple[tuple[int, int], ...]:
        return self.write_ids, self.buckets, self.row_numbers


def usual_listings(table: HiveTable, names: Sequence[str]) -> Listings:
    """List the folders that partitions usually have, while their locations are not known yet.

    Args:
        table: The table.
        names: The names of its partitions.

    Returns:
        Each folder and its files by location; None for those that cannot be listed.
    """

    def list_one(location: str) -> Listing | None:
        with suppress(HiveAcidError):
            return listing_of(location)
        return None  # The partition may be elsewhere.

    # A part without "=" is no part of a partition's name, and could lead out of the table: "..".
    usual = [name for name in names if all("=" in part for part in name.split("/"))]
    locations = [f"{table.location}/{name}" for name in usual]
    return dict(zip(locations, in_threads(list_one, locations), strict=True))


def listing_of(location: str) -> Listing:
    """List a folder."""
    storage = ReadOnlyStorage.of(location)
    return storage, list_files(storage)


def list_partitions(
    table: HiveTable,
    partitions: Sequence[HivePartition],
    write_ids: ValidWriteIdList,
    txns: ValidTxnList,
    rules: Rules,
    now: ValidWriteIdList | None = None,
    listed: Listings = NO_LISTINGS,
) -> list[PartitionFiles]:
    """List the visible files of some partitions, or of a whole unpartitioned table.

    Args:
        table: The table.
        partitions: The partitions.
        write_ids: The visible write ids of the table.
        txns: The visible transactions.
        rules: The rules of the engine version for reading directories.
        now: The write ids that a new reader sees, if an earlier version is read.
        listed: See ``usual_listings``.
    """

    def list_one(partition: HivePartition | None) -> PartitionFiles:
        location = (table.location if partition is None else partition.location) or ""
        storage, files = listed.get(location) or listing_of(location)
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
    location = (table.location if partition is None else partition.location) or ""
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

    def known(self, files: Sequence[AcidFile]) -> list[OrcTail]:
        """The tails that were already read."""
        return [self._known[file] for file in files if file in self._known]


def read_tails(files: Sequence[AcidFile]) -> list[OrcTail]:
    """Read the tails of some files."""
    return in_threads(_read_tail, files)


def _read_tail(file: AcidFile) -> OrcTail:
    folder, _, name = file.path.rpartition("/")
    return read_tail(Storage.of(folder), name, file.size)


def _acid_file(location: str, file: DataFile, write_ids: ValidWriteIdList) -> AcidFile:
    return AcidFile(
        path=f"{location.rstrip('/')}/{file.path}",
        directory=file.directory,
        bucket=file.bucket,
        size=file.size,
        exact=_is_exact(file.directory, write_ids),
        raw=file.raw,
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


# Reading tables whose files contain only rows: insert-only and plain tables


# A partition, or None for a table without partitions, and files of the partition.
FlatFiles = tuple[HivePartition | None, Sequence[PlainFile]]


@dataclass(frozen=True)
class FlatSnapshot:
    """The files of a table without row ids.

    Attributes:
        table: The table.
        files: The files of each partition; a partition may have several numbered parts.
    """

    table: HiveTable
    files: Sequence[FlatFiles]

    @classmethod
    def of_insert_only(
        cls,
        table: HiveTable,
        partitions: Sequence[HivePartition],
        write_ids: ValidWriteIdList,
        txns: ValidTxnList | None,
        rules: Rules,
        now: ValidWriteIdList | None = None,
        listed: Listings = NO_LISTINGS,
    ) -> Self:
        """List the visible files of an insert-only table; a directory is visible as a whole.

        Args:
            table: The table.
            partitions: Its partitions.
            write_ids: The visible write ids of the table.
            txns: The visible transactions; None means all.
            rules: The rules of the engine version for reading directories.
            now: The write ids that a new reader sees, if an earlier version is read.
            listed: See ``usual_listings``.
        """

        def list_one(partition: HivePartition | None) -> FlatFiles:
            folder = table.folder if partition is None else partition.folder
            storage, files = listed.get(folder) or listing_of(folder)
            state = read_state(storage, files, write_ids, txns, rules=rules, now=now, flat=True)
            names = ["", *filter(None, [state.base]), *state.deltas]
            return partition, plain_files(storage, [f for name in names for f in state.files(name)])

        return cls(table, in_threads(list_one, partitions if table.partition_keys else [None]))

    @classmethod
    def of_plain(cls, table: HiveTable, partitions: Sequence[HivePartition]) -> Self:
        """List the files of a non-transactional table."""

        def list_one(partition: HivePartition | None) -> FlatFiles:
            storage = folder_of(table, partition)
            files = storage.list_files(recursive=True, missing_ok=True)
            seen = [file for file in files if not is_hidden_path(file.path)]
            return partition, plain_files(storage, seen)

        return cls(table, in_threads(list_one, partitions if table.partition_keys else [None]))

    @property
    def has_ambiguous_columns(self) -> bool:
        """Whether the values of a file depend on the column mapping."""
        return any(
            RowFormat.of(self.table, partition).has_ambiguous_columns(files)
            for partition, files in self.files
        )

    def rows(self, spark: SparkSession, *, numbered: bool = False) -> DataFrame:
        """All rows, the partition keys last.

        Args:
            spark: A session made by ``scan_session``.
            numbered: Whether to add PART, the number of the part of the files.
        """
        table = self.table
        # One scan for all partitions of the same format.
        alike: dict[RowFormat, list[PlainFile]] = {}
        for number, (partition, files) in enumerate(self.files):
            if files:
                own = () if partition is None else partition.values
                values = texts_in_rows(own, table.key_types)
                given = alike.setdefault(RowFormat.of(table, partition), [])
                given += [replace(file, part=number, values=values) for file in files]
        scans = alike or {RowFormat.of(table): []}
        with translated_spark_errors(f"Reading {table.ref.full_name}"):
            frames = [form.scan(spark, some, table.partition_keys) for form, some in scans.items()]
        names = [quoted(column.name) for column in all_columns(table)]
        rows = reduce(DataFrame.unionByName, frames)
        return rows.select(*names, *([PART] if numbered else []))


def text_counter(
    client: MetastoreClient, table: HiveTable, spark: Callable[[], SparkSession]
) -> CountText:
    """Return a function that counts the rows in files of text by the SerDe of their table.

    Args:
        client: The metastore.
        table: The table.
        spark: Returns the session; only called for files of text.
    """

    def count(directory: PartitionDirectory, files: Sequence[FileStatus]) -> int:
        partition = None
        if directory.name is not None:
            (partition,) = client.get_partitions(table, [directory.name])
        snapshot = FlatSnapshot(table, [(partition, plain_files(directory.storage, files))])
        return snapshot.rows(scan_session(spark())).count()

    return count


def folder_of(table: HiveTable, partition: HivePartition | None) -> ReadOnlyStorage:
    """The folder of a partition, or of a table without partitions."""
    return ReadOnlyStorage.of(table.folder if partition is None else partition.folder)


def plain_files(storage: ReadOnlyStorage, files: Sequence[FileStatus]) -> list[PlainFile]:
    """Files to scan, without empty ones, which are not valid ORC or Parquet files."""
    folder = storage.location.rstrip("/")
    return [PlainFile(f"{folder}/{file.path}", file.size) for file in files if file.size > 0]
