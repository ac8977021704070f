"""Selection of the files of a snapshot for an export, and their distribution over data files."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from enum import Enum
from functools import lru_cache, partial

from pyiceberg.schema import Schema

from hiveacid.dataclass import dataclass
from hiveacid.errors import UnsupportedFile, UnsupportedTable
from hiveacid.iceberg.data_file import require_microseconds_in_keys
from hiveacid.iceberg.data_file_task import DataFileTask, ParquetRows, SourceFile
from hiveacid.iceberg.mirror_state import Provenance
from hiveacid.jobs.table_properties import COLUMN_MAPPING
from hiveacid.metastore.catalog import StorageFormat
from hiveacid.orc.copying.transplant import FieldId
from hiveacid.orc.format.compression import Codec
from hiveacid.orc.format.envelope import (
    EnvelopeColumn,
    TypeField,
    TypeKind,
    is_envelope,
    with_column_names,
)
from hiveacid.orc.format.layout import Writer, writer_of
from hiveacid.orc.format.protobuf import Message
from hiveacid.orc.format.tail import OrcTail
from hiveacid.rules.directory import Rules, SyntheticIds, synthetic_ids, written_by
from hiveacid.rules.location import Location
from hiveacid.rules.names import Base, Delta, delete_applies, may_delete, parse_directory
from hiveacid.rules.write_ids import Range, ValidWriteIdList
from hiveacid.storage.file_columns import orc_row_types
from hiveacid.storage.filesystems import in_threads
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.listing import DataFile, read_tail
from hiveacid.tables.scan.columns import TableColumns
from hiveacid.tables.scan.visible_table import PartitionDirectory, VisibleTable

# The data files of a mirror that remain valid for a new snapshot of a Hive partition: pure rules.
#
# A mirror has the rows of an earlier snapshot. A directory of the partition is *old* if it covers
# no write id that has become visible since then, *new* if it covers no write id that the earlier
# snapshot saw, and *mixed* otherwise, such as a base compacted from old and new deltas.
#
# Data files whose sources are unchanged files of old directories remain, unless new delete events
# name their rows. Sources that are gone were either compacted, which changes no row, or their rows
# were removed, for example by an overwrite. They count as compacted only if an old directory
# covers them, and nothing else of the partition has to be derived from their rows.


class Age(Enum):
    """Whether a directory has rows or events that the earlier snapshot did not see."""

    OLD = "old"
    MIXED = "mixed"
    NEW = "new"


@dataclass(frozen=True, slots=True)
class MirroredFile:
    """A data file of the mirror.

    Attributes:
        path: Its location.
        provenance: The origin of its rows.
    """

    path: Location
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """The fate of the data files of a partition.

    Attributes:
        kept: The data files that remain, unless delete events name their rows.
        removed: The data files to remove.
        skipped: The files of the Hive table whose rows are in data files that remain.
        deletes: The files of the Hive table with delete events that may name rows of `kept`.
    """

    kept: tuple[MirroredFile, ...] = ()
    removed: tuple[MirroredFile, ...] = ()
    skipped: frozenset[str] = frozenset()
    deletes: tuple[DataFile, ...] = ()


def plan_partition(
    rows: Sequence[DataFile],
    deletes: Sequence[DataFile],
    mirrored: Sequence[MirroredFile],
    earlier_write_ids: ValidWriteIdList,
    now: ValidWriteIdList,
    *,
    columns_changed: bool,
) -> PartitionPlan:
    """Determine which data files of a partition remain.

    Args:
        rows: The visible files of the Hive partition with rows.
        deletes: Those with delete events.
        mirrored: The data files of the partition.
        earlier_write_ids: The snapshot that the mirror has.
        now: The new snapshot.
        columns_changed: Whether columns were added, or their types widened, since then.
    """
    ages = {
        file.path: age(directory_of(file), earlier_write_ids, now) for file in (*rows, *deletes)
    }
    old = {file.path: file.size for file in rows if ages[file.path] is Age.OLD}
    kept_files: list[MirroredFile] = []
    other_files: list[MirroredFile] = []
    for file in mirrored:
        origin = file.provenance
        valid = all(old.get(source.path) == source.size for source in origin.sources)
        (kept_files if valid and _has_values(origin, columns_changed) else other_files).append(file)
    new_deletes = tuple(file for file in deletes if ages[file.path] is not Age.OLD)
    skipped: frozenset[str] = frozenset()
    if (
        other_files
        and not new_deletes
        and not any(ages[file.path] is Age.MIXED for file in rows)
        and all(_has_values(file.provenance, columns_changed) for file in other_files)
        and _are_compacted(_removed_sources(other_files, old), old)
    ):
        kept_files, other_files = [*kept_files, *other_files], []
        covered = coverage(kept_files)
        skipped = frozenset(path for path in old if path not in covered)
    return PartitionPlan(tuple(kept_files), tuple(other_files), skipped, new_deletes)


def coverage(files: Iterable[MirroredFile]) -> dict[str, set[int]]:
    """Return the stripes whose rows are in data files, by the paths of their files."""
    covered: dict[str, set[int]] = {}
    for file in files:
        for source in file.provenance.sources:
            covered.setdefault(source.path, set()).update(source.stripes)
    return covered


def fully_covered(files: Sequence[MirroredFile]) -> set[str]:
    """Return the files of the Hive table whose stripes are all in data files."""
    covered = coverage(files)
    return {
        source.path
        for file in files
        for source in file.provenance.sources
        if len(covered[source.path]) == source.count
    }


def directory_of(file: DataFile) -> Base | Delta | None:
    """Return the directory of a file; files of insert-only tables do not name it."""
    name, slash, _ = file.path.partition("/")
    return file.directory or (parse_directory(name) if slash else None)


def age(
    directory: Base | Delta | None, earlier_write_ids: ValidWriteIdList, now: ValidWriteIdList
) -> Age:
    """Compare a directory with the earlier snapshot."""
    if directory is None:
        return Age.OLD
    first, last = directory.write_ids[0], directory.write_ids[-1]
    later_range = max(first, earlier_write_ids.high_watermark + 1), min(last, now.high_watermark)
    appeared = any(
        first <= write_id <= last and now.is_valid(write_id) for write_id in earlier_write_ids.open
    ) or (later_range[0] <= later_range[1] and now.range_valid(*later_range) is not Range.NONE)
    if not appeared:
        return Age.OLD
    # A base also has rows that are older than all write ids.
    is_mixed = (
        isinstance(directory, Base) or earlier_write_ids.range_valid(first, last) is not Range.NONE
    )
    return Age.MIXED if is_mixed else Age.NEW


def _has_values(origin: Provenance, columns_changed: bool) -> bool:
    """Return whether a data file has all values of its sources that the table has now."""
    return origin.complete or not columns_changed


def _removed_sources(files: Iterable[MirroredFile], old: Mapping[str, int]) -> set[str]:
    """Return the source files that are not there any more, or have changed."""
    return {
        source.path
        for file in files
        for source in file.provenance.sources
        if old.get(source.path) != source.size
    }


def _are_compacted(removed_paths: Iterable[str], old: Iterable[str]) -> bool:
    """Return whether other old directories cover those of some files."""
    present = {path.partition("/")[0] for path in old if "/" in path}
    directories = {name: parse_directory(name) for name in present}
    return all(
        any(
            name != path.partition("/")[0] and _covers(directory, path)
            for name, directory in directories.items()
        )
        for path in removed_paths
    )


def _covers(directory: Base | Delta | None, path: str) -> bool:
    name, slash, _ = path.partition("/")
    source = parse_directory(name) if slash else None
    match directory:
        case Base(write_id):
            return source is None or source.write_ids[-1] <= max(0, write_id)
        case Delta() if isinstance(source, Delta):
            return (
                directory.min_write_id <= source.min_write_id
                and source.max_write_id <= directory.max_write_id
            )
    return False


# The size of a data file: larger files are split between stripes, smaller ones are joined.
FILE_BYTES = 256 << 20

_TEXTS = (TypeKind.STRING, TypeKind.VARCHAR)
# The kinds of ORC that readers of Iceberg convert to a wider type by themselves.
_READABLE: Mapping[int, tuple[int, ...]] = {
    TypeKind.BYTE: (TypeKind.SHORT, TypeKind.INT),
    TypeKind.SHORT: (TypeKind.INT,),
    TypeKind.INT: (TypeKind.LONG,),
    TypeKind.FLOAT: (TypeKind.DOUBLE,),
}


@dataclass(frozen=True, slots=True)
class _Opened:
    """A file with rows, and its tail."""

    file: DataFile
    tail: OrcTail
    ids: SyntheticIds | None

    def layout(self, types: tuple[bytes, ...]) -> "_LayoutKey":
        return types, self.tail.codec, self.tail.stride, writer_of(self.tail)


_LayoutKey = tuple[tuple[bytes, ...], Codec, int, Writer]
# Files with delete events, and the write ids whose rows and events are left out.
_Deletes = tuple[tuple[DataFile, ...], tuple[int, ...]]
# A file, and some of its stripes.
_Run = tuple[_Opened, Sequence[int]]


class PartitionFiles:
    """The files of a partition, or of a table without partitions, and the data files to write.

    Args:
        visible: The snapshot.
        directory: The partition.
        fields: The ids of the columns by their names in lower case.
        mapping_is_chosen: Whether the mapping of columns is configured, and not the default of the
            version of the metastore.
        parquet: The columns of Parquet files to write; None for ORC files.
        deletes_stay: Whether data files contain deleted rows, whose positions are in files of their
            own, where that is possible.

    Attributes:
        directory: The partition.
        rows: The files with rows.
        deletes: The files with delete events.

    Raises:
        UnsupportedFile: A partition key has more digits than microseconds.
        UnsupportedTable: The files of the partition have another format.
    """

    def __init__(
        self,
        visible: VisibleTable,
        directory: PartitionDirectory,
        fields: Mapping[str, FieldId],
        *,
        mapping_is_chosen: bool,
        parquet: Schema | None = None,
        deletes_stay: bool = False,
    ) -> None:
        if directory.format.is_text:
            raise UnsupportedTable(
                f"{visible.title} has files of the format {directory.format.name}.",
                remedy="Only ORC and Parquet files are exported; copy the table with Spark.",
            )
        if directory.format is StorageFormat.PARQUET and parquet is None:
            raise UnsupportedTable(
                f"{visible.title} has Parquet files, which are not exported to ORC files.",
                remedy="Export the table with format='parquet', to another name if it exists.",
            )
        assert visible.table is not None
        require_microseconds_in_keys(visible.title, visible.table.partition_keys, directory.values)
        self.directory = directory
        self._part = part = visible.part(directory)
        self._fields = fields
        self._table = visible.table
        self._types = orc_row_types(visible.table)
        self._mapping_is_chosen = mapping_is_chosen
        self._deletes_stay = deletes_stay
        self._parquet = None
        if parquet is not None:
            columns = TableColumns(visible.table.columns, visible.table.partition_keys)
            self._parquet = ParquetRows(columns, directory.values, parquet)
        self._deletes = [
            (file.directory, file)
            for file in part.files
            if isinstance(file.directory, Delta) and file.directory.is_delete
        ]
        self.deletes = [file for _, file in self._deletes]
        paths = {file.path for file in self.deletes}
        self.rows = [file for file in part.files if file.path not in paths]
        self._storage = ReadOnlyStorage.of(part.location)
        self._tails: dict[str, OrcTail] = {}

    def tasks(
        self,
        file_bytes: int = FILE_BYTES,
        *,
        covered: Mapping[str, Set[int]] | None = None,
        skipped: Collection[str] = (),
        unnamed: Collection[str] = (),
    ) -> Iterator[DataFileTask]:
        """Distribute the rows over data files.

        Args:
            file_bytes: The approximate size of a data file.
            covered: Stripes to omit, by the paths of their files.
            skipped: Files to omit.
            unnamed: Files without deleted rows.

        Raises:
            UnsupportedFile: A column has another name in a file, and engines map it differently.
        """
        covered = covered or {}
        if self.directory.format is StorageFormat.PARQUET:
            yield from self._parquet_tasks({*covered, *skipped})
            return
        copied: dict[_LayoutKey, list[_Run]] = {}
        decoded_runs: dict[_Deletes, list[_Run]] = {}
        for opened_file in self._opened([file for file in self.rows if file.path not in skipped]):
            omitted = covered.get(opened_file.file.path, ())
            stripes = [
                stripe for stripe in range(len(opened_file.tail.stripes)) if stripe not in omitted
            ]
            if not stripes:
                continue
            self._check_mapping(opened_file)
            types = with_column_names(opened_file.tail.types, self._part.columns)
            deletes = [] if opened_file.file.path in unnamed else self._deletes_of(opened_file.file)
            invisible = self._invisible(opened_file.file.directory)
            is_readable = readable(types, self._types)
            if self._deletes_stay and not invisible and (is_readable or self._parquet is not None):
                deletes = []
            if self._parquet is not None:
                files = tuple(file for _, file in deletes)
                key = files, self._with_invisible_deletes(invisible, deletes)
                decoded_runs.setdefault(key, []).append((opened_file, stripes))
                continue
            if not deletes and not invisible and is_readable:
                copied.setdefault(opened_file.layout(types), []).append((opened_file, stripes))
                continue
            target_types = _row_types(types) if is_readable else self._types
            for run in _runs(opened_file.tail, stripes, file_bytes):
                yield self._task(
                    [(opened_file, run)],
                    deletes=[file for _, file in deletes],
                    invisible=self._with_invisible_deletes(invisible, deletes),
                    types=target_types,
                )
        for group in copied.values():
            for task_runs in _joined(_split(group, file_bytes), file_bytes):
                yield self._with_named(self._task(task_runs), task_runs, unnamed)
        for (files, invisible), group in decoded_runs.items():
            for task_runs in _joined(group, file_bytes):
                task = self._task(task_runs, deletes=files, invisible=invisible, types=self._types)
                yield self._with_named(task, task_runs, unnamed)

    def _parquet_tasks(self, omitted: Collection[str]) -> Iterator[DataFileTask]:
        """Yield one data file for each Parquet file of an insert-only table."""
        for file in self.rows:
            if file.path not in omitted:
                yield DataFileTask(
                    root=self._part.location,
                    partition=self.directory.name,
                    files=(SourceFile(file.path, file.size, (0,)),),
                    columns=self._part.columns,
                    fields=self._fields,
                    bytes=file.size,
                    parquet=self._parquet,
                    from_parquet=True,
                )

    def check(self, file: MirroredFile, deletes: Sequence[DataFile]) -> DataFileTask:
        """Return a task that looks for rows of a data file that some delete events name.

        Args:
            file: A data file whose sources are among the rows.
            deletes: The files with the events.
        """
        return self._named(self._runs_of(file), deletes)

    def _runs_of(self, file: MirroredFile) -> list[_Run]:
        """Return the sources of a data file in their order in it."""
        rows = {row.path: row for row in self.rows}
        opened_files = self._opened([rows[source.path] for source in file.provenance.sources])
        stripes = {source.path: source.stripes for source in file.provenance.sources}
        return [(opened_file, stripes[opened_file.file.path]) for opened_file in opened_files]

    def _named(self, runs: Sequence[_Run], deletes: Sequence[DataFile]) -> DataFileTask:
        """Return some stripes with those of some delete events that may name their rows."""
        delete_paths = {delete.path for delete in deletes}
        applying = {
            delete.path: (directory, delete)
            for opened_file, _ in runs
            for directory, delete in self._deletes_of(opened_file.file)
            if delete.path in delete_paths
        }
        return self._task(
            runs,
            deletes=[delete for _, delete in applying.values()],
            invisible=self._with_invisible_deletes((), [*applying.values()]),
            types=self._types,
        )

    def _with_named(
        self, task: DataFileTask, runs: Sequence[_Run], unnamed: Collection[str]
    ) -> DataFileTask:
        """Add the delete events for rows that stay in a data file."""
        if not self._deletes_stay or not task.is_whole:
            return task
        if all(opened_file.file.path in unnamed for opened_file, _ in runs):
            return task
        delete_task = self._named(runs, self.deletes)
        return replace(task, named=delete_task) if delete_task.deletes else task

    def _opened(self, files: Sequence[DataFile]) -> list[_Opened]:
        """Read the tails of files, without those that have no rows."""
        # The rows of files without row ids are counted together.
        groups = {file.directory for file in files if file.raw and self._part.full_acid}
        requested_paths = {file.path for file in files}
        also = [
            file
            for file in self.rows
            if file.path in requested_paths or (file.raw and file.directory in groups)
        ]
        missing = [file for file in also if file.path not in self._tails]
        tails = in_threads(partial(_tail, self._storage), missing)
        self._tails |= {file.path: tail for file, tail in zip(missing, tails, strict=True)}
        ids = _synthetic_ids(also, [self._tails[file.path] for file in also])
        return [
            _Opened(file, self._tails[file.path], ids.get(file.path))
            for file in files
            if self._tails[file.path].stripes
        ]

    def _task(
        self,
        runs: Sequence[_Run],
        *,
        deletes: Sequence[DataFile] = (),
        invisible: tuple[int, ...] = (),
        types: tuple[bytes, ...] | None = None,
    ) -> DataFileTask:
        """Return the task for some stripes; with types, they may be decoded."""
        return DataFileTask(
            root=self._part.location,
            partition=self.directory.name,
            files=tuple(
                self._source(opened_file, stripes, keyed=types is not None)
                for opened_file, stripes in runs
            ),
            deletes=tuple((file.path, file.size) for file in deletes),
            invisible=invisible,
            types=types,
            columns=self._part.columns,
            fields=self._fields,
            bytes=sum(_bytes(opened_file.tail, stripes) for opened_file, stripes in runs),
            complete=all(self._is_complete(opened_file) for opened_file, _ in runs),
            parquet=self._parquet,
        )

    def _is_complete(self, opened_file: _Opened) -> bool:
        types = with_column_names(opened_file.tail.types, self._part.columns)
        root = EnvelopeColumn.ROW if is_envelope(types) else EnvelopeColumn.ROOT
        return _are_columns(types, root, self._fields) and readable(types, self._types)

    @staticmethod
    def _source(opened_file: _Opened, stripes: Sequence[int], *, keyed: bool) -> SourceFile:
        ids = opened_file.ids if keyed else None
        if keyed and ids is None and not opened_file.tail.is_acid:
            # No delete names these rows; decoding needs any row ids.
            ids = SyntheticIds(opened_file.file.path, 1, 0, 0, opened_file.tail.rows)
        file = opened_file.file
        return SourceFile(file.path, file.size, tuple(stripes), ids, cut_off=file.cut_off)

    def _with_invisible_deletes(
        self, invisible: tuple[int, ...], deletes: Sequence[tuple[Delta, DataFile]]
    ) -> tuple[int, ...]:
        """Add the write ids of events that must not apply."""
        of_deletes = (write_id for delete, _ in deletes for write_id in self._invisible(delete))
        return tuple(sorted({*invisible, *of_deletes}))

    def _deletes_of(self, file: DataFile) -> list[tuple[Delta, DataFile]]:
        if file.bucket is None or not self._part.full_acid:
            return []
        return [
            (delete, events)
            for delete, events in self._deletes
            if may_delete(events.bucket, file.bucket, clustered=self._part.clustered)
            and (self._part.rules is Rules.HIVE3 or delete_applies(file.directory, delete))
        ]

    def _invisible(self, directory: Base | Delta | None) -> tuple[int, ...]:
        """The write ids in a directory that the snapshot does not see."""
        if directory is None or not self._part.full_acid:
            return ()
        write_ids = self._part.write_ids
        first, last = (
            (0, directory.write_id)
            if isinstance(directory, Base)
            else (directory.min_write_id, directory.max_write_id)
        )
        hidden_ids = [
            *write_ids.aborted,
            *(write_ids.open if isinstance(write_ids, ValidWriteIdList) else ()),
        ]
        later_ids = range(max(write_ids.high_watermark + 1, first), last + 1)
        return tuple(sorted({*(w for w in hidden_ids if first <= w <= last), *later_ids}))

    def _check_mapping(self, opened_file: _Opened) -> None:
        """Refuse columns that engines map differently unless the mapping is chosen."""
        names = opened_file.tail.column_names
        if self._mapping_is_chosen or not self._part.columns.is_ambiguous(names):
            return
        raise UnsupportedFile(
            f"{self._part.location.rstrip('/')}/{opened_file.file.path} has the columns"
            f" {', '.join(names)}, and {self._table.ref.full_name} has"
            f" {', '.join(self._part.columns.names)}: engines that map columns by position read"
            " other values than those that map them by name.",
            remedy="Choose with column_mapping='position' or 'name', or with the table property"
            f" {COLUMN_MAPPING}.",
        )


# Thousands of files have the same types.
@lru_cache(maxsize=64)
def readable(types: tuple[bytes, ...], table_types: tuple[bytes, ...]) -> bool:
    """Return whether readers of Iceberg convert the columns of a file to those of the table.

    Columns and fields are found by their names. Missing ones are null, and others are not copied.

    Args:
        types: The types of a flat file, or of a full ACID one.
        table_types: The types of the row of the table.
    """
    root = EnvelopeColumn.ROW if is_envelope(types) else EnvelopeColumn.ROOT
    return _is_readable(types, table_types, root, 0)


def _is_readable(
    types: Sequence[bytes], table_types: Sequence[bytes], column: int, wanted_column: int
) -> bool:
    file_type, table_type = (
        Message.decode(types[column]),
        Message.decode(table_types[wanted_column]),
    )
    if not _fits(file_type, table_type):
        return False
    file_fields, table_fields = _inside(file_type), _inside(table_type)
    return all(
        _is_readable(types, table_types, file_fields[name], table_fields[name])
        for name in file_fields.keys() & table_fields.keys()
    )


def _fits(file_type: Message, table_type: Message) -> bool:
    """Compare two types, ignoring types inside of them."""
    kind, table_kind = (message.number(TypeField.KIND) for message in (file_type, table_type))
    if TypeKind.CHAR in (kind, table_kind):
        return False
    if table_kind == TypeKind.STRING and kind in _TEXTS:
        return True
    if table_kind == TypeKind.VARCHAR:
        longest = file_type.number(TypeField.MAXIMUM_LENGTH)
        return kind == table_kind and longest <= table_type.number(TypeField.MAXIMUM_LENGTH)
    if kind == table_kind == TypeKind.DECIMAL:
        same_scale = file_type.number(TypeField.SCALE) == table_type.number(TypeField.SCALE)
        wider = file_type.number(TypeField.PRECISION) <= table_type.number(TypeField.PRECISION)
        return same_scale and wider
    return kind == table_kind or table_kind in _READABLE.get(kind, ())


def _inside(type_: Message) -> dict[str, int]:
    numbers = type_.all_numbers(TypeField.SUBTYPES)
    if type_.number(TypeField.KIND) != TypeKind.STRUCT:
        return {str(place): number for place, number in enumerate(numbers)}
    names = [
        name.decode(errors="surrogateescape").lower()
        for name in type_.all_data(TypeField.FIELD_NAMES)
    ]
    # Of names that differ only by case, the first one counts.
    return dict(reversed([*zip(names, numbers, strict=False)]))


def _row_types(types: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """The types of the row of a file."""
    if not is_envelope(types):
        return types
    return tuple(map(_moved_up, types[EnvelopeColumn.ROW :]))


def _moved_up(type_: bytes) -> bytes:
    message = Message.decode(type_)
    if not message.has(TypeField.SUBTYPES):
        return type_
    moved_type = Message().add_number(TypeField.KIND, message.number(TypeField.KIND))
    for number in message.all_numbers(TypeField.SUBTYPES):
        moved_type.add_number(TypeField.SUBTYPES, number - EnvelopeColumn.ROW)
    moved_type.fields += message.without(TypeField.KIND, TypeField.SUBTYPES).fields
    return moved_type.encode()


def _tail(storage: ReadOnlyStorage, file: DataFile) -> OrcTail:
    return read_tail(storage, file.path, file.size)


def _synthetic_ids(files: Sequence[DataFile], tails: Iterable[OrcTail]) -> dict[str, SyntheticIds]:
    """The row ids of files that do not store them, by path."""
    rows: dict[Base | Delta | None, dict[str, int]] = {}
    for file, tail in zip(files, tails, strict=True):
        if file.raw:
            rows.setdefault(file.directory, {})[file.path] = tail.rows
    id_groups = (synthetic_ids(group, *written_by(parent)) for parent, group in rows.items())
    return {ids.path: ids for group in id_groups for ids in group if ids.bucket is not None}


def _are_columns(types: Sequence[bytes], column: int, fields: Mapping[str, FieldId]) -> bool:
    """Return whether all columns inside of a column have an id."""
    message = Message.decode(types[column])
    if message.number(TypeField.KIND) == TypeKind.STRUCT:
        inner_fields = _inside(message)
        return all(
            name in fields and _are_columns(types, number, fields[name].inside)
            for name, number in inner_fields.items()
        )
    # The element of a list, or the key and the value of a map.
    numbers = message.all_numbers(TypeField.SUBTYPES)
    return all(
        _are_columns(types, number, field.inside)
        for number, field in zip(numbers, fields.values(), strict=False)
    )


def _joined(runs: Iterable[_Run], limit: int) -> Iterator[list[_Run]]:
    """Join small files up to a limited size."""
    group: list[_Run] = []
    size = 0
    for opened_file, stripes in runs:
        run_size = _bytes(opened_file.tail, stripes)
        if group and size + run_size > limit:
            yield group
            group, size = [], 0
        group.append((opened_file, stripes))
        size += run_size
    if group:
        yield group


def _split(files: Iterable[_Run], limit: int) -> Iterator[_Run]:
    """Split large files between stripes."""
    for opened_file, stripes in files:
        for run in _runs(opened_file.tail, stripes, limit):
            yield opened_file, run


def _runs(tail: OrcTail, stripes: Sequence[int], limit: int) -> Iterator[Sequence[int]]:
    """Split stripes of a file into runs of a limited size."""
    start, size = 0, 0
    for place, number in enumerate(stripes):
        length = tail.stripes[number].length
        if place > start and size + length > limit:
            yield stripes[start:place]
            start, size = place, 0
        size += length
    yield stripes[start:]


def _bytes(tail: OrcTail, stripes: Sequence[int]) -> int:
    return sum(tail.stripes[number].length for number in stripes)
