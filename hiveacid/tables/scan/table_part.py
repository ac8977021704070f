"""Some files of a table that can be read by themselves, in another process, too."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hiveacid.dataclass import dataclass
from hiveacid.errors import SparkNeeded, UnsupportedTable
from hiveacid.metastore.catalog import HiveTable, StorageFormat
from hiveacid.orc.row_keys.row_id_set import Mask, RowIds, RowIdSet, contained
from hiveacid.rules.directory import AcidDirectory, Rules, SyntheticIds, synthetic_ids, written_by
from hiveacid.rules.location import Location
from hiveacid.rules.names import Base, Delta, delete_applies, may_delete
from hiveacid.rules.row_id import RowId
from hiveacid.rules.schema import AS_STORED, MappedColumns, TableKind
from hiveacid.rules.write_ids import CompactorWriteIdList, ValidWriteIdList, WriteIdList
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.listing import DataFile, data_files, read_tail
from hiveacid.tables.scan.columns import TableColumns
from hiveacid.tables.scan.orc_file import OrcFile, are_valid, shares_of
from hiveacid.tables.scan.parquet_file import ParquetFile
from hiveacid.tables.scan.row_filter import StripeChoice

# The visible rows of one directory of an ACID table, in batches.
#
# Rows are returned in the order of buckets, then of directories, then of the files themselves.
# Memory holds some rows, and the delete events that ``may_delete`` allows for the buckets that are
# read at once, and for those that follow.


# Rows of a file without a bucket number in its name have no row ids; nothing can delete them.
_NO_BUCKET = -1


@dataclass(frozen=True)
class RowBatch:
    """Some visible rows: their row ids, and the table's own columns.

    Timestamps are of the type that ``hiveacid.tables.scan.times`` has for them.
    """

    ids: RowIds
    columns: pa.RecordBatch

    def __len__(self) -> int:
        return len(self.ids.rows)

    def row_ids(self) -> list[RowId]:
        """Spell out the row ids."""
        return [RowId(*key) for key in zip(*(part.tolist() for part in self.ids), strict=True)]


def visible_rows(
    storage: ReadOnlyStorage,
    directory: AcidDirectory,
    write_ids: WriteIdList,
    rules: Rules,
) -> Iterator[RowBatch]:
    """Read every visible row of one table or partition directory.

    Args:
        storage: The directory that holds the base and the deltas.
        directory: The parts of that directory that the snapshot selects.
        write_ids: The snapshot's write ids; single rows are checked against them as well, since a
            directory of several write ids can hold rows of aborted ones.
        rules: The engine whose rules assign delete deltas to files.

    Raises:
        CorruptFile: A file is not a readable ORC file.
        UnsupportedFile: A file contains data that Arrow cannot read.
    """
    return VisibleRows(storage, write_ids, rules).of(data_files(storage, directory))


@dataclass(frozen=True)
class VisibleRows:
    """The visible rows of some files of one directory; see ``visible_rows``.

    Attributes:
        columns: The columns to read, in any case; by default all columns of each file.
        stored: All columns stored in files of the table.
        clustered: Whether the directory has buckets; see ``may_delete``.
        choice: Chooses the stripes to read of files with row ids; by default all.
        most_events: The delete events that the process holds; by default any number.
    """

    storage: ReadOnlyStorage
    write_ids: WriteIdList
    rules: Rules
    columns: Collection[str] | None = None
    stored: MappedColumns = AS_STORED
    clustered: bool = False
    choice: StripeChoice | None = None
    most_events: int | None = None

    def of(self, files: Iterable[DataFile]) -> Iterator[RowBatch]:
        """Read the rows of some files; see ``readers``."""
        for read in self.readers(files):
            yield from read()

    def readers(self, files: Iterable[DataFile]) -> list[Callable[[], Iterator[RowBatch]]]:
        """Return functions that read the rows of a file, or of a part of one, in any thread.

        Args:
            files: Files of rows, all that may delete some of them, and of those without row ids
                all.
        """
        return [read for _, read in self.readers_by_file(files)]

    def readers_by_file(
        self, files: Iterable[DataFile]
    ) -> list[tuple[DataFile, Callable[[], Iterator[RowBatch]]]]:
        """Return the files beside the functions that read them; see ``readers``."""
        return [(share[0].file, partial(self._read, *share)) for share in self._plan(files)]

    def readers_without_ids(
        self, files: Iterable[DataFile]
    ) -> list[Callable[[], Iterator[pa.RecordBatch]]]:
        """Return functions that read the columns of rows without row ids; see ``readers``."""
        return [partial(self._read_columns, *share) for share in self._plan(files)]

    def count(self, files: Iterable[DataFile]) -> int:
        """Count the rows of some files, by their footers where no row can be invisible.

        Args:
            files: See ``readers``.
        """
        by_footer: dict[str, int | None] = {}
        row_count = 0
        for share, events in self._plan(files):
            path = share.file.path
            if share.ids is None and not share.applied and path not in by_footer:
                orc_file = OrcFile(self.storage, share.file, self.stored)
                by_footer[path] = orc_file.count(self.write_ids)
                row_count += by_footer[path] or 0
            if by_footer.get(path) is None:
                row_count += sum(map(len, self._read(share, events)))
        return row_count

    def _plan(self, files: Iterable[DataFile]) -> Iterator[tuple["_FileShare", "_SharedEvents"]]:
        """Return the shares of the files of rows, and all delete events."""
        data: dict[int, list[DataFile]] = {}
        deletes: list[tuple[Delta, DataFile]] = []
        for file in files:
            bucket = _NO_BUCKET if file.bucket is None else file.bucket
            if isinstance(file.directory, Delta) and file.directory.is_delete:
                deletes.append((file.directory, file))
            else:
                data.setdefault(bucket, []).append(file)
        ids = self._synthetic_ids([file for group in data.values() for file in group if file.raw])
        deletes_by_file: dict[DataFile, list[DataFile]] = {}
        for bucket in sorted(data):
            near = [
                (delete, delete_file)
                for delete, delete_file in deletes
                if may_delete(delete_file.bucket, bucket, clustered=self.clustered)
            ]
            for file in data[bucket]:
                # Hive 3 applies every delete delta to every file.
                deletes_by_file[file] = [
                    delete_file
                    for delete, delete_file in near
                    if self.rules is Rules.HIVE3 or delete_applies(file.directory, delete)
                ]
        shares = [
            _FileShare(file, choice, applied_deletes, ids.get(file.path))
            for file, applied_deletes in deletes_by_file.items()
            # The rows of files without row ids are counted from the first one.
            for choice in (shares_of(file, self.choice) if file.path not in ids else [None])
        ]
        events = _SharedEvents(self, Counter(file for share in shares for file in share.applied))
        for share in shares:
            yield share, events

    def _read(self, share: "_FileShare", events: "_SharedEvents") -> Iterator[RowBatch]:
        with events.of(share.applied) as delete_events:
            reader = replace(self, choice=share.choice)
            yield from reader.of_file(share.file, delete_events, share.ids)

    def _read_columns(
        self, share: "_FileShare", events: "_SharedEvents"
    ) -> Iterator[pa.RecordBatch]:
        rows = None
        if self.columns is not None and share.ids is None and not share.applied:
            orc_file = OrcFile(self.storage, share.file, self.stored, share.choice)
            rows = orc_file.without_ids(self.columns, self.write_ids)
        if rows is not None:
            yield from rows
        else:
            for batch in self._read(share, events):
                yield batch.columns

    def of_file(
        self, file: DataFile, deletes: Sequence[RowIdSet], ids: SyntheticIds | None = None
    ) -> Iterator[RowBatch]:
        """Read the rows of one file.

        Args:
            file: The file.
            deletes: All events that may delete some of its rows.
            ids: Its row ids if it does not store them.
        """
        for batch, keep in self._acid(file) if ids is None else self._numbered(file, ids):
            yield from _visible(batch, keep, deletes)

    def events(self, file: DataFile, event_count: int = 0) -> RowIdSet:
        """Read the row ids in the visible delete events of one file.

        Args:
            file: The file.
            event_count: The events of other files that the process holds.

        Raises:
            SparkNeeded: There are more than the process holds.
        """

        def counted(held: int) -> Iterator[RowIds]:
            for ids in self._open(file).events(self.write_ids):
                held += len(ids.rows)
                if self.most_events is not None and held > self.most_events:
                    raise SparkNeeded(
                        f"more than {self.most_events:,} deletes in {self.storage.location}"
                    )
                yield ids

        return RowIdSet(counted(event_count))

    def _synthetic_ids(self, raw: Sequence[DataFile]) -> dict[str, SyntheticIds]:
        """Return the row ids of files that do not store them, by path."""
        rows: dict[Base | Delta | None, dict[str, int]] = {}
        for file in raw:
            tail = read_tail(self.storage, file.path, file.size)
            rows.setdefault(file.directory, {})[file.path] = tail.rows
        groups = (synthetic_ids(group, *written_by(parent)) for parent, group in rows.items())
        return {ids.path: ids for group in groups for ids in group}

    def _open(self, file: DataFile) -> OrcFile:
        return OrcFile(self.storage, file, self.stored)

    def _acid(self, file: DataFile) -> Iterator[tuple[RowBatch, Mask]]:
        """The rows of a file that has row ids, and which of them were written visibly."""
        orc_file = OrcFile(self.storage, file, self.stored, self.choice)
        for batch in orc_file.keyed(self.columns):
            rows = RowBatch(batch.ids, batch.columns)
            yield rows, are_valid(batch.current, self.write_ids)

    def _numbered(self, file: DataFile, ids: SyntheticIds) -> Iterator[tuple[RowBatch, Mask]]:
        """The rows of a file without row ids, all visible, with the ids that Hive counts."""
        first = ids.first_row
        for columns in self._open(file).flat(self.columns):
            rows = len(columns)
            write_id = np.full(rows, ids.write_id, dtype=np.int64)
            bucket = np.full(rows, _NO_BUCKET if ids.bucket is None else ids.bucket, np.int64)
            number = np.arange(first, first + rows, dtype=np.int64)
            first += rows
            yield RowBatch(RowIds(write_id, bucket, number), columns), np.ones(rows, np.bool_)


class _FileShare(NamedTuple):
    """Some stripes of a file of rows.

    Attributes:
        file: The file.
        choice: Chooses the stripes; by default all.
        applied: The files that may delete some of its rows.
        ids: Its row ids if it does not store them.
    """

    file: DataFile
    choice: StripeChoice | None
    applied: Sequence[DataFile]
    ids: SyntheticIds | None


class _SharedEvents:
    """The delete events of files, each of which is read once, and kept until its last use."""

    def __init__(self, rows: VisibleRows, uses: Mapping[DataFile, int]) -> None:
        self._visible = rows
        self._left = dict(uses)
        self._known: dict[DataFile, RowIdSet] = {}
        self._locks = {file: Lock() for file in uses}

    @contextmanager
    def of(self, files: Sequence[DataFile]) -> Iterator[list[RowIdSet]]:
        """Use the events of some files."""
        yield [self._take(file) for file in files]
        for file in files:
            with self._locks[file]:
                self._left[file] -= 1
                if not self._left[file]:
                    del self._known[file]

    def _take(self, file: DataFile) -> RowIdSet:
        with self._locks[file]:
            if file not in self._known:
                event_count = sum(map(len, [*self._known.values()]))
                self._known[file] = self._visible.events(file, event_count)
            return self._known[file]


def _visible(batch: RowBatch, keep: Mask, deletes: Sequence[RowIdSet]) -> Iterator[RowBatch]:
    """Yield the remaining rows of a batch."""
    keep &= ~contained(batch.ids, deletes)
    if not keep.any():
        return
    if keep.all():
        yield batch
        return
    yield RowBatch(batch.ids.only(keep), batch.columns.filter(pa.array(keep)))


# Rows as stored in a file, with their ids if present, and as converted for the table.
Rows = tuple[RowBatch | None, pa.RecordBatch]


@dataclass(frozen=True, kw_only=True)
class TablePart:
    """Files of one partition, or of a table without partitions.

    Attributes:
        location: Its folder.
        values: The texts of the partition keys; null for Hive's null.
        format: The format of its files.
        files: The files to read.
        full_acid: Whether rows have ids.
        clustered: Whether the partition has buckets.
        columns: All columns stored in files.
        write_ids: The write ids that the reader sees.
        rules: The engine whose reading rules apply.
        most_events: The delete events that the process holds; by default any number.
    """

    location: Location
    values: Mapping[str, str | None]
    format: StorageFormat
    files: tuple[DataFile, ...]
    full_acid: bool
    clustered: bool
    columns: MappedColumns
    write_ids: ValidWriteIdList | CompactorWriteIdList
    rules: Rules
    most_events: int | None = None

    @classmethod
    def of(
        cls,
        table: HiveTable,
        values: Mapping[str, str | None],
        format: StorageFormat,
        storage: ReadOnlyStorage,
        state: AcidDirectory,
        write_ids: ValidWriteIdList | CompactorWriteIdList,
        rules: Rules,
        *,
        clustered: bool,
    ) -> "TablePart":
        """Return all files of a directory as one part.

        Raises:
            UnsupportedTable: Its files hold lines of text.
        """
        full_acid = table.kind is TableKind.FULL_ACID
        if format.is_text:
            raise UnsupportedTable(
                f"{table.ref.full_name} keeps its rows as lines of text.",
                remedy="Read it with AcidTable(...).to_df(), or as a source of `hiveacid sql`.",
            )
        return cls(
            location=storage.location,
            values=values,
            format=format,
            files=tuple(data_files(storage, state) if full_acid else _flat_files(state)),
            full_acid=full_acid,
            clustered=clustered,
            columns=table.mapped_columns,
            write_ids=write_ids,
            rules=rules,
        )

    def split(self) -> list["TablePart"]:
        """Split the part into parts that can be read in parallel.

        Files that do not store row ids remain in one part, because their rows are counted together.
        """
        if not self.full_acid:
            return [replace(self, files=(file,)) for file in self.files]
        deletes = tuple(
            file
            for file in self.files
            if isinstance(file.directory, Delta) and file.directory.is_delete
        )
        rows = [file for file in self.files if file not in deletes]
        raw = tuple(file for file in rows if file.raw)
        groups = [raw] if raw else []
        groups += [(file,) for file in rows if not file.raw]
        return [replace(self, files=(*group, *deletes)) for group in groups]

    def rows(
        self,
        columns: TableColumns,
        choice: StripeChoice | None = None,
        *,
        needs_ids: bool = True,
    ) -> Iterator[Rows]:
        """Read the rows; see ``readers``."""
        for read in self.readers(columns, choice, needs_ids=needs_ids):
            yield from read()

    def readers(
        self,
        wanted: TableColumns,
        choice: StripeChoice | None = None,
        *,
        needs_ids: bool = True,
    ) -> list[Callable[[], Iterator[Rows]]]:
        """Return functions that read the rows of a file, or of a part of one, in any thread.

        Args:
            wanted: The columns.
            choice: Chooses the stripes to read; by default all.
            needs_ids: Whether the ids of the rows are needed, if they have some.
        """
        storage = ReadOnlyStorage.of(self.location)
        keys = wanted.values(self.values)
        names = [column.name for column in wanted.columns]
        if self.full_acid:
            visible = VisibleRows(
                storage,
                self.write_ids,
                self.rules,
                names,
                self.columns,
                self.clustered,
                choice,
                self.most_events,
            )

            def with_ids(read: Callable[[], Iterator[RowBatch]]) -> Iterator[Rows]:
                for batch in read():
                    yield batch, wanted.batch(batch.columns, keys)

            def without_ids(read: Callable[[], Iterator[pa.RecordBatch]]) -> Iterator[Rows]:
                for columns in read():
                    yield None, wanted.batch(columns, keys)

            if needs_ids:
                return [partial(with_ids, read) for read in visible.readers(self.files)]
            return [partial(without_ids, read) for read in visible.readers_without_ids(self.files)]

        def flat(open: Callable[[], Iterator[pa.RecordBatch]]) -> Iterator[Rows]:
            for rows in open():
                yield None, wanted.batch(rows, keys)

        if self.format is StorageFormat.PARQUET:
            files = [ParquetFile(storage, file.path, self.columns) for file in self.files]
            return [partial(flat, partial(file.batches, names)) for file in files]
        return [
            partial(flat, partial(OrcFile(storage, file, self.columns, share).flat, names))
            for file in self.files
            for share in shares_of(file, choice)
        ]

    def count(self) -> int:
        """Count the rows, by the footers of files where no row can be invisible."""
        storage = ReadOnlyStorage.of(self.location)
        if self.full_acid:
            visible = VisibleRows(
                storage, self.write_ids, self.rules, [], self.columns, self.clustered
            )
            return visible.count(self.files)
        if self.format is StorageFormat.PARQUET:
            return sum(ParquetFile(storage, file.path, self.columns).rows for file in self.files)
        return sum(read_tail(storage, file.path, file.size).rows for file in self.files)


def _flat_files(state: AcidDirectory) -> Iterator[DataFile]:
    """The files of a directory of an insert-only table."""
    for directory in ("", *filter(None, (state.base,)), *state.deltas):
        for file in state.files(directory):
            if file.size:  # An empty file is neither a valid ORC nor a valid Parquet file.
                yield DataFile(file.path, file.size, None, None, raw=True)
