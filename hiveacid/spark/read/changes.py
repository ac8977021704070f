"""Row-level changes between two versions of a full ACID table.

Rows never change: an update deletes one row and inserts another. So all changes are in deltas and
delete deltas, and a compaction adds no changes. Older files are read only where a delete affects
them.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from functools import partial, reduce
from typing import Self

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from hiveacid.dataclass import dataclass
from hiveacid.errors import UnknownColumn, UnsupportedTable
from hiveacid.jobs.sources import CHANGE, DELETE, INSERT
from hiveacid.metastore.catalog import HivePartition, HiveTable
from hiveacid.orc.row_keys.row_id_set import KeyRange
from hiveacid.rules.directory import AcidDirectory, FileStatus, Rules
from hiveacid.rules.names import Base, Delta, parse_directory
from hiveacid.rules.sql_names import quoted
from hiveacid.rules.versions import PartitionVersions, as_of_write_id
from hiveacid.rules.write_ids import ValidTxnList, ValidWriteIdList
from hiveacid.spark.own_columns import own_column
from hiveacid.spark.read.acid_snapshot import BUCKET, KEY, ROW, WRITE_ID, AcidSnapshot
from hiveacid.spark.read.flat_snapshot import FlatFiles, FlatSnapshot, folder_of, plain_files
from hiveacid.spark.rows.columns import all_columns
from hiveacid.spark.rows.file_scan import PART
from hiveacid.spark.spark_versions import from_rows
from hiveacid.storage.filesystems import in_threads
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.hidden_folder import TableOfFolder
from hiveacid.storage.listing import check_kept, list_files, read_state, versions_of
from hiveacid.tables.row_format import PlainFile
from hiveacid.tables.scan.differences import TwoReaders, flat_files
from hiveacid.tables.visible_files import (
    AcidFile,
    FileTails,
    PartitionFiles,
    partition_files,
)

# Changes between two versions of a table of any kind: versions, partitions, and frames


VERSION, ROW_ID = "_write_id", "_row_id"
UPDATE_BEFORE, UPDATE_AFTER = "update_before", "update_after"
ROW_ID_TYPE = "struct<writeid:bigint,bucketid:int,rowid:bigint>"


@dataclass(frozen=True)
class TwoVersions:
    """Two versions of a table, and the rules for reading them.

    Attributes:
        spark: A session made by ``scan_session``.
        table: The table.
        owner: The table as the owner of its folders.
        then: The version before the changes.
        later: The version after the changes.
        now: The write ids that a new reader sees.
        txns: The visible transactions.
        rules: The rules of the engine version for reading directories.
    """

    spark: SparkSession
    table: HiveTable
    owner: TableOfFolder
    then: ValidWriteIdList
    later: ValidWriteIdList
    now: ValidWriteIdList
    txns: ValidTxnList
    rules: Rules

    def all_of(self, partitions: Sequence[HivePartition]) -> Sequence[HivePartition | None]:
        """The partitions, or [None] for a table without partitions."""
        return partitions if self.table.partition_keys else [None]

    def changes(
        self,
        partitions: Sequence[HivePartition],
        *,
        net: bool = False,
        keys: Sequence[str] = (),
    ) -> DataFrame:
        """The changes: CHANGE, VERSION and ROW_ID beside the table's columns.

        Args:
            partitions: The partitions; empty for a table without partitions.
            net: Return only the difference of both versions, without intermediate rows.
            keys: Columns that identify the deleted and the inserted row of an update.

        Raises:
            VersionGone: The changes are not completely known any more.
        """
        check_columns(self.table, keys)
        frames = self._frames(self.all_of(partitions), net=net)
        rows = reduce(DataFrame.unionByName, frames)
        return with_updates(rows, keys, net=net) if keys else rows

    @abstractmethod
    def _frames(
        self, partitions: Sequence[HivePartition | None], *, net: bool
    ) -> Sequence[DataFrame]:
        """The changes in one frame or more."""


@dataclass(frozen=True)
class ListedPartition:
    """The listed folder of a partition, or of a table without partitions.

    Attributes:
        reader: The versions to read.
        flat: Whether the table is insert-only.
        storage: The folder.
        files: Its files.
        versions: The versions that these files contain.
    """

    reader: TwoVersions
    flat: bool
    storage: ReadOnlyStorage
    files: Sequence[FileStatus]
    versions: PartitionVersions

    @classmethod
    def of(cls, reader: TwoVersions, partition: HivePartition | None, *, flat: bool) -> Self:
        """List the folder of a partition."""
        storage = folder_of(reader.table, partition)
        files = list_files(storage, reader.owner)
        versions = versions_of(storage, files, reader.now, reader.txns, flat=flat)
        return cls(reader, flat, storage, files, versions)

    def state(self, files: Sequence[FileStatus], version: ValidWriteIdList) -> AcidDirectory:
        """Classify the files that a version reads; see ``read_state``."""
        txns, rules = self.reader.txns, self.reader.rules
        return read_state(self.storage, files, version, txns, rules=rules, flat=self.flat)

    def check_kept(self, files: Sequence[FileStatus], states: Sequence[AcidDirectory]) -> None:
        """Refuse directories that a cleaner is removing, if new readers do not read them.

        Args:
            files: The files between both versions.
            states: The states read from them.

        Raises:
            CorruptFile: A file of a directory is missing.
        """
        overwrites = self.versions.overwrites(self.reader.then, self.reader.later)
        if overwrites or len(files) < len(self.files):
            check_kept(self.storage, states)


def check_columns(table: HiveTable, keys: Sequence[str]) -> None:
    """Refuse a table whose changes cannot be represented, and unknown keys.

    Raises:
        UnsupportedTable: A column of the table has the name of a column of the changes.
        UnknownColumn: The table lacks a key.
    """
    column_names = {column.name.lower() for column in all_columns(table)}
    if clashes := column_names & {CHANGE, VERSION, ROW_ID}:
        raise UnsupportedTable(
            f"{table.ref.full_name} has a column {min(clashes)}, as its changes have, too."
        )
    if unknown_keys := [key for key in keys if key.lower() not in column_names]:
        raise UnknownColumn(f"{table.ref.full_name} has no column {', '.join(unknown_keys)}.")


def as_changes(
    table: HiveTable, rows: DataFrame, change: str, write_id: Column, row_id: Column
) -> DataFrame:
    """Convert rows of a table to rows of its changes.

    Args:
        table: The table.
        rows: The inserted or deleted rows.
        change: The kind of change.
        write_id: The write id of the change.
        row_id: The row ids.
    """
    return rows.select(
        F.lit(change).alias(CHANGE),
        write_id.alias(VERSION),
        row_id.alias(ROW_ID),
        *[quoted(column.name) for column in all_columns(table)],
    )


def with_updates(rows: DataFrame, keys: Sequence[str], *, net: bool) -> DataFrame:
    """Mark the rows of an update: a deleted and an inserted row with the same keys."""
    group_columns = ", ".join([*map(quoted, keys), *([] if net else [VERSION])])
    count = "count_if({0} = '{1}') OVER (PARTITION BY {2}) = 1"
    is_update = " AND ".join(count.format(CHANGE, kind, group_columns) for kind in (INSERT, DELETE))
    change_name = (
        f"CASE WHEN NOT ({is_update}) THEN {CHANGE} WHEN {CHANGE} = '{INSERT}' THEN '{UPDATE_AFTER}'"
        f" ELSE '{UPDATE_BEFORE}' END"
    )
    return rows.withColumn(CHANGE, F.expr(change_name))


_DELETED_BY = own_column("deleted_by")


@dataclass(frozen=True)
class _Span:
    """Versions between which a partition was not overwritten.

    Attributes:
        then: The first version, whose own changes are excluded.
        later: The last version.
        before: The files that the first version reads.
        after: The files that the last version reads, and all files written in between.
    """

    then: ValidWriteIdList
    later: ValidWriteIdList
    before: PartitionFiles
    after: PartitionFiles


@dataclass(frozen=True)
class _PartitionChanges:
    """Changes of one partition.

    Attributes:
        spans: One span, and another one after each overwrite.
        overwrites: The write ids of the overwrites between the spans.
    """

    spans: Sequence[_Span]
    overwrites: Sequence[int]


@dataclass(frozen=True)
class Difference:
    """The difference between two versions of some partitions.

    Attributes:
        partitions: The partitions that the partition numbers in the rows refer to.
        added: The rows that only the later version has, with their row ids; None without such rows.
        added_from: The snapshot of the added rows.
        removed: The rows that only the earlier version has; None without such rows.
        removed_from: The snapshot of the removed rows.
    """

    partitions: Sequence[PartitionFiles]
    added: DataFrame | None
    added_from: AcidSnapshot
    removed: DataFrame | None
    removed_from: AcidSnapshot


@dataclass(frozen=True)
class ChangeReader(TwoVersions):
    """The changes of a full ACID table between two versions.

    Attributes:
        deletes: Whether rows that were added between the versions are about to be deleted.
        snapshots: The snapshots that rows of changes were read from so far.
        tails: The file tails read so far.
    """

    deletes: bool = False
    snapshots: list[AcidSnapshot] = field(default_factory=list)
    tails: FileTails = field(default_factory=FileTails, compare=False, repr=False)

    def _frames(
        self, partitions: Sequence[HivePartition | None], *, net: bool
    ) -> Sequence[DataFrame]:
        parts = in_threads(self._changes_of, partitions)
        plain = [changes.spans[0] for changes in parts if not changes.overwrites]
        frames = [*self._changed(plain, net=net)]
        for changes in parts:
            if changes.overwrites:
                frames += self._overwritten(changes, net=net)
        return frames or [no_changes(self.spark, self.table)]

    def differences(self, partitions: Sequence[HivePartition]) -> Iterator[Difference]:
        """Yield the rows that only one of both versions has, with their row ids.

        Args:
            partitions: The partitions; empty for a table without partitions.

        Raises:
            VersionGone: The changes are not completely known any more.
        """
        parts = in_threads(self._changes_of, self.all_of(partitions))
        if plain := [changes.spans[0] for changes in parts if not changes.overwrites]:
            yield Difference(
                [span.after for span in plain],
                self._inserted(plain, net=True),
                self._snapshot(self._added(plain, net=True), self.later),
                self._deleted(plain, net=True),
                self._snapshot(self._hit_by_deletes(plain), self.then),
            )
        if overwritten := [changes.spans for changes in parts if changes.overwrites]:
            # All earlier rows are gone.
            later_snapshot = self._snapshot([spans[-1].after for spans in overwritten], self.later)
            earlier_snapshot = self._snapshot([spans[0].before for spans in overwritten], self.then)
            yield Difference(
                later_snapshot.partitions,
                later_snapshot.rows(self.spark),
                later_snapshot,
                earlier_snapshot.rows(self.spark),
                earlier_snapshot,
            )

    def _changes_of(self, partition: HivePartition | None) -> _PartitionChanges:
        listed_partition = ListedPartition.of(self, partition, flat=False)
        versions = listed_partition.versions
        files = versions.files_between(self.then, self.later)
        if self.deletes:
            versions.require_row_ids_of_today(self.then)
        states = []

        def read(version: ValidWriteIdList) -> PartitionFiles:
            states.append(listed_partition.state(files, version))
            return partition_files(
                listed_partition.storage, self.table, partition, states[-1], version
            )

        overwrites = versions.overwrites(self.then, self.later)
        spans = []
        earlier_ids = self.then
        for write_id in overwrites:
            later_ids = as_of_write_id(self.later, write_id - 1)
            spans.append(_Span(earlier_ids, later_ids, read(earlier_ids), read(later_ids)))
            earlier_ids = as_of_write_id(self.later, write_id)
        spans.append(_Span(earlier_ids, self.later, read(earlier_ids), read(self.later)))
        listed_partition.check_kept(files, states)
        return _PartitionChanges(spans, overwrites)

    def _changed(self, spans: Sequence[_Span], *, net: bool) -> Iterator[DataFrame]:
        """The changes between two versions of partitions without overwrites in between."""
        if not spans:
            return
        if (rows := self._inserted(spans, net=net)) is not None:
            yield _as_changes(self.table, rows, INSERT, F.col(WRITE_ID))
        if (rows := self._deleted(spans, net=net)) is not None:
            yield _as_changes(self.table, rows, DELETE, F.col(_DELETED_BY))

    def _deleted(self, spans: Sequence[_Span], *, net: bool) -> DataFrame | None:
        """The rows deleted between two versions; with ``net``, only rows of the first version."""
        if (events := self._events(spans)) is None:
            return None
        rows = self._rows(self._hit_by_deletes(spans), spans[0].then)
        if not net and (inserted_rows := self._inserted(spans, net=False)) is not None:
            rows = rows.unionByName(inserted_rows)
        return rows.join(events, [*KEY])

    def _hit_by_deletes(self, spans: Sequence[_Span]) -> list[PartitionFiles]:
        """The files that may contain deleted rows."""
        return [
            replace(
                span.before,
                inserts=self._hit(span.before, _within(span.after.deletes, span.then)),
            )
            for span in spans
        ]

    def _inserted(self, spans: Sequence[_Span], *, net: bool) -> DataFrame | None:
        """The rows inserted between two versions; with ``net``, only rows that remain."""
        earlier_ids, later_ids = spans[0].then, spans[0].later
        partitions = self._added(spans, net=net)
        if not any(partition.inserts for partition in partitions):
            return None
        rows = self._rows(partitions, later_ids).where(_is_of(WRITE_ID, earlier_ids))
        if not net and (undone := self._undone(spans)) is not None:
            rows = rows.join(undone, [*KEY], "left_anti")
        return rows

    def _undone(self, spans: Sequence[_Span]) -> DataFrame | None:
        """Row ids that were inserted and deleted by the same transaction: in no version."""
        files = [_within(span.after.deletes, span.then) for span in spans]
        self.tails.of(
            [file for files_of_span in files for file in files_of_span]
        )  # Read all tails at once.
        files = [tuple(filter(self._may_undo, files_of_span)) for files_of_span in files]
        if not any(files):
            return None
        deleted = [
            replace(span.after, deletes=files_of_span)
            for span, files_of_span in zip(spans, files, strict=True)
        ]
        events = self._snapshot(deleted, spans[0].later).events(self.spark, _DELETED_BY)
        return events.where(F.col(_DELETED_BY) == F.col(WRITE_ID)).select(*KEY)

    def _may_undo(self, deletes: AcidFile) -> bool:
        keys, delta = KeyRange.of(*self.tails.of([deletes])), deletes.directory
        return keys is None or (
            isinstance(delta, Delta) and keys.write_ids[1] >= delta.min_write_id
        )

    def _added(self, spans: Sequence[_Span], *, net: bool) -> list[PartitionFiles]:
        """The files that may contain inserted rows."""
        return [
            replace(
                span.after,
                inserts=_within(span.after.inserts, span.then),
                deletes=span.after.deletes if net else (),
            )
            for span in spans
        ]

    def _events(self, spans: Sequence[_Span]) -> DataFrame | None:
        """The row ids that were deleted between two versions, and the write ids of the deletes."""
        earlier_ids, later_ids = spans[0].then, spans[0].later
        deleted = [
            replace(span.after, deletes=_within(span.after.deletes, earlier_ids)) for span in spans
        ]
        if not any(partition.deletes for partition in deleted):
            return None
        events = self._snapshot(deleted, later_ids).events(self.spark, _DELETED_BY)
        # Engines may delete a row twice: the first delete counts.
        first = F.min(_DELETED_BY).alias(_DELETED_BY)
        return events.where(_is_of(_DELETED_BY, earlier_ids)).groupBy(*KEY).agg(first)

    def _overwritten(self, changes: _PartitionChanges, *, net: bool) -> Iterator[DataFrame]:
        """The changes of a partition whose earlier rows are all gone."""
        first, last = changes.spans[0], changes.spans[-1]
        if net:
            removed_rows = self._rows([first.before], first.then)
            by: Column = F.lit(changes.overwrites[0]).cast("bigint")
            if (events := self._events([first])) is not None:
                removed_rows, by = (
                    removed_rows.join(events, [*KEY], "left"),
                    F.coalesce(_DELETED_BY, by),
                )
            yield _as_changes(self.table, removed_rows, DELETE, by)
            rows = self._rows([last.after], last.later)
            yield _as_changes(self.table, rows, INSERT, F.col(WRITE_ID))
            return
        for span, write_id in zip(changes.spans, [*changes.overwrites, None], strict=True):
            if span is not first:
                base = [file for file in span.before.inserts if isinstance(file.directory, Base)]
                base_files = replace(span.before, inserts=tuple(base), deletes=())
                rows = self._rows([base_files], span.then)
                yield _as_changes(self.table, rows, INSERT, F.col(WRITE_ID))
            yield from self._changed([span], net=False)
            if write_id is not None:
                removed_rows = self._rows([span.after], span.later)
                yield _as_changes(self.table, removed_rows, DELETE, F.lit(write_id).cast("bigint"))

    def _hit(
        self, earlier_files: PartitionFiles, deletes: Sequence[AcidFile]
    ) -> tuple[AcidFile, ...]:
        """The files that may contain deleted rows, judged by their tails."""
        files_with_new_deletes = replace(earlier_files, deletes=tuple(deletes))
        by_file = {file: files_with_new_deletes.deletes_of(file) for file in earlier_files.inserts}
        files_with_deletes = [file for file, deletes in by_file.items() if deletes and not file.raw]
        files = [*files_with_deletes, *deletes] if files_with_deletes else []
        ranges = dict(zip(files, map(KeyRange.of, self.tails.of(files)), strict=True))

        def may_be_hit(file: AcidFile) -> bool:
            file_range = ranges.get(file)
            theirs = [ranges.get(delete) for delete in by_file[file]]
            return any(
                file_range is None or keys is None or file_range.may_share(keys) for keys in theirs
            )

        return tuple(file for file in earlier_files.inserts if may_be_hit(file))

    def _rows(self, partitions: Sequence[PartitionFiles], write_ids: ValidWriteIdList) -> DataFrame:
        snapshot = self._snapshot(partitions, write_ids)
        self.snapshots.append(snapshot)
        return snapshot.rows(self.spark)

    def _snapshot(
        self, partitions: Sequence[PartitionFiles], write_ids: ValidWriteIdList
    ) -> AcidSnapshot:
        return AcidSnapshot(self.table, partitions, write_ids, self.tails)


def no_changes(spark: SparkSession, table: HiveTable) -> DataFrame:
    """An empty frame with the columns of a table's changes."""
    rows = AcidSnapshot(table, [], ValidWriteIdList(None, 0)).rows(spark)
    return _as_changes(table, rows, INSERT, F.col(WRITE_ID))


# The parts of a row id, by their names in Hive's ROW__ID.
_PARTS = (("writeid", WRITE_ID), ("bucketid", BUCKET), ("rowid", ROW))
_ROW_ID = "struct({})".format(", ".join(f"{key} AS {part}" for part, key in _PARTS))


def _as_changes(table: HiveTable, rows: DataFrame, change: str, write_id: Column) -> DataFrame:
    return as_changes(table, rows, change, write_id, F.expr(_ROW_ID))


def _within(files: Sequence[AcidFile], version: ValidWriteIdList) -> tuple[AcidFile, ...]:
    """The files that may contain rows or events that a version did not see."""
    return tuple(
        file
        for file in files
        if isinstance(file.directory, Delta)
        and (
            file.directory.max_write_id > version.high_watermark
            or any(write_id in file.directory.write_ids for write_id in version.open)
        )
    )


def _is_of(column: str, version: ValidWriteIdList) -> str:
    """The condition that a version did not see a write id."""
    open_ = f" OR {column} IN ({', '.join(map(str, version.open))})" if version.open else ""
    return f"{column} > {version.high_watermark}{open_}"


# Changes between two versions of an insert-only table, by directory.
#
# Its rows have no ids: a delta contains the inserts of its write id, and an overwrite deletes all
# earlier rows. Compacted directories do not identify write ids, so the replaced directories are
# read.


@dataclass(frozen=True)
class FlatDifference:
    """The difference between two versions of a partition, or of a table without partitions.

    Attributes:
        partition: The partition; None for a table without partitions.
        before: The files of the earlier version.
        added: The files that only the later version has.
        removed: The files that only the earlier version has.
    """

    partition: HivePartition | None
    before: Sequence[PlainFile]
    added: Sequence[PlainFile]
    removed: Sequence[PlainFile]

    @property
    def name(self) -> str | None:
        """The partition's name; None for a table without partitions."""
        return None if self.partition is None else self.partition.name


@dataclass(frozen=True)
class _Change:
    """Rows that one write id has inserted into a partition, or deleted from it."""

    kind: str
    write_id: int
    files: FlatFiles


@dataclass(frozen=True)
class FlatChangeReader(TwoVersions):
    """The changes of an insert-only table between two versions.

    Attributes:
        snapshots: The snapshots that rows of changes were read from so far.
    """

    snapshots: list[FlatSnapshot] = field(default_factory=list)

    def _frames(
        self, partitions: Sequence[HivePartition | None], *, net: bool
    ) -> Sequence[DataFrame]:
        # With ``net``, a row that an overwrite replaces by an equal row is also a change.
        by_partition = in_threads(partial(self._changes_of, net=net), partitions)
        changes = [change for of_partition in by_partition for change in of_partition]
        kinds = {change.kind for change in changes} or {INSERT}
        return [
            self._frame(kind, [change for change in changes if change.kind == kind])
            for kind in sorted(kinds)
        ]

    def differences(self, partitions: Sequence[HivePartition]) -> list[FlatDifference]:
        """Return the difference between both versions of each partition, by whole files.

        Args:
            partitions: The partitions; empty for a table without partitions.

        Raises:
            VersionGone: One of the versions is not available any more.
        """
        return in_threads(self._difference, self.all_of(partitions))

    def _changes_of(self, partition: HivePartition | None, *, net: bool) -> list[_Change]:
        listed_partition = ListedPartition.of(self, partition, flat=True)
        files = listed_partition.versions.files_between(self.then, self.later)
        read: list[AcidDirectory] = []

        def of(version: ValidWriteIdList) -> AcidDirectory:
            read.append(listed_partition.state(files, version))
            return read[-1]

        def change(kind: str, write_id: int, state: AcidDirectory, names: Sequence[str]) -> None:
            # "" means original files, which precede all directories.
            state_files = [file for name in names for file in state.files(name)]
            if flat_files := plain_files(listed_partition.storage, state_files):
                changes.append(_Change(kind, write_id, (partition, flat_files)))

        changes: list[_Change] = []
        seen = self.then
        overwrites = listed_partition.versions.overwrites(self.then, self.later)
        for write_id in overwrites[-1:] if net else overwrites:
            earlier_state = of(self.then if net else as_of_write_id(self.later, write_id - 1))
            if not net:
                for insert_id, name in _inserts(earlier_state, seen):
                    change(INSERT, insert_id, earlier_state, [name])
            # With ``net``, only the rows replaced by the first overwrite are deleted rows.
            change(DELETE, overwrites[0] if net else write_id, earlier_state, _names(earlier_state))
            seen = as_of_write_id(self.later, write_id)
            later_state = of(seen)
            change(INSERT, write_id, later_state, [later_state.base or ""])
        last = of(self.later)
        for insert_id, name in _inserts(last, seen):
            change(INSERT, insert_id, last, [name])
        listed_partition.check_kept(files, read)
        return changes

    def _difference(self, partition: HivePartition | None) -> FlatDifference:
        storage = folder_of(self.table, partition)
        readers = TwoReaders(self.owner, self.then, self.later, self.now, self.txns, self.rules)
        earlier_files, later_files = (
            plain_files(storage, flat_files(state)) for state in readers.flat_states(storage)
        )
        earlier, later_set = set(earlier_files), set(later_files)
        return FlatDifference(
            partition,
            earlier_files,
            [file for file in later_files if file not in earlier],
            [file for file in earlier_files if file not in later_set],
        )

    def _frame(self, kind: str, changes: Sequence[_Change]) -> DataFrame:
        snapshot = FlatSnapshot(self.table, [change.files for change in changes])
        self.snapshots.append(snapshot)
        rows = snapshot.rows(self.spark, numbered=True)
        numbers = [(number, change.write_id) for number, change in enumerate(changes)]
        write_ids = from_rows(self.spark, numbers, f"{PART} int, {VERSION} bigint")
        rows = rows.join(F.broadcast(write_ids), PART)
        no_id = F.lit(None).cast(ROW_ID_TYPE)
        return as_changes(self.table, rows, kind, F.col(VERSION), no_id)


def _names(state: AcidDirectory) -> list[str]:
    return ["", *filter(None, [state.base]), *state.deltas]


def _inserts(state: AcidDirectory, version: ValidWriteIdList) -> Iterator[tuple[int, str]]:
    """The deltas that a version did not see, each of one write id."""
    for name in state.deltas:
        delta = parse_directory(name)
        assert isinstance(delta, Delta), name
        if not version.is_valid(delta.max_write_id):
            yield delta.max_write_id, name
