"""Selection of the files of a snapshot for an export, and their distribution over data files."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache, partial

from pyiceberg.schema import Schema

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
    before: ValidWriteIdList,
    now: ValidWriteIdList,
    *,
    columns_changed: bool,
) -> PartitionPlan:
    """Determine which data files of a partition remain.

    Args:
        rows: The visible files of the Hive partition with rows.
        deletes: Those with delete events.
        mirrored: The data files of the partition.
        before: The snapshot that the mirror has.
        now: The new snapshot.
        columns_changed: Whether columns were added, or their types widened, since then.
    """
    ages = {file.path: age(directory_of(file), before, now) for file in (*rows, *deletes)}
    old = {file.path: file.size for file in rows if ages[file.path] is Age.OLD}
    kept: list[MirroredFile] = []
    others: list[MirroredFile] = []
    for file in mirrored:
        origin = file.provenance
        valid = all(old.get(source.path) == source.size for source in origin.sources)
        (kept if valid and _has_values(origin, columns_changed) else others).append(file)
    new_deletes = tuple(file for file in deletes if ages[file.path] is not Age.OLD)
    skipped: frozenset[str] = frozenset()
    if (
        others
        and not new_deletes
        and not any(ages[file.path] is Age.MIXED for file in rows)
        and all(_has_values(file.provenance, columns_changed) for file in others)
        and _are_compacted(_removed_sources(others, old), old)
    ):
        kept, others = [*kept, *others], []
        covered = coverage(kept)
        skipped = frozenset(path for path in old if path not in covered)
    return PartitionPlan(tuple(kept), tuple(others), skipped, new_deletes)


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


def age(directory: Base | Delta | None, before: ValidWriteIdList, now: ValidWriteIdList) -> Age:
    """Compare a directory with the earlier snapshot."""
    if directory is None:
        return Age.OLD
    first, last = directory.write_ids[0], directory.write_ids[-1]
    later = max(first, before.high_watermark + 1), min(last, now.high_watermark)
    appeared = any(first <= own <= last and now.is_valid(own) for own in before.open) or (
        later[0] <= later[1] and now.range_valid(*later) is not Range.NONE
    )
    if not appeared:
        return Age.OLD
    # A base also has rows that are older than all write ids.
    is_mixed = isinstance(directory, Base) or before.range_valid(first, last) is not Range.NONE
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


def _are_compacted(gone: Iterable[str], old: Iterable[str]) -> bool:
    """Return whether other old directories cover those of some files."""
    present = {path.partition("/")[0] for path in old if "/" in path}
    parsed = {name: parse_directory(name) for name in present}
    return all(
        any(
            name != path.partition("/")[0] and _covers(directory, path)
            for name, directory in parsed.items()
        )
        for path in gone
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
        decoded: dict[_Deletes, list[_Run]] = {}
        for opened in self._opened([file for file in self.rows if file.path not in skipped]):
            omitted = covered.get(opened.file.path, ())
            stripes = [each for each in range(len(opened.tail.stripes)) if each not in omitted]
            if not stripes:
                continue
            self._check_mapping(opened)
            types = with_column_names(opened.tail.types, self._part.columns)
            deletes = [] if opened.file.path in unnamed else self._deletes_of(opened.file)
            invisible = self._invisible(opened.file.directory)
            is_readable = readable(types, self._types)
            if self._deletes_stay and not invisible and (is_readable or self._parquet is not None):
                deletes = []
            if self._parquet is not None:
                files = tuple(file for _, file in deletes)
                key = files, self._with_invisible_deletes(invisible, deletes)
                decoded.setdefault(key, []).append((opened, stripes))
                continue
            if not deletes and not invisible and is_readable:
                copied.setdefault(opened.layout(types), []).append((opened, stripes))
                continue
            wanted = _row_types(types) if is_readable else self._types
            for run in _runs(opened.tail, stripes, file_bytes):
                yield self._task(
                    [(opened, run)],
                    deletes=[file for _, file in deletes],
                    invisible=self._with_invisible_deletes(invisible, deletes),
                    types=wanted,
                )
        for group in copied.values():
            for chosen in _joined(_split(group, file_bytes), file_bytes):
                yield self._with_named(self._task(chosen), chosen, unnamed)
        for (files, invisible), group in decoded.items():
            for chosen in _joined(group, file_bytes):
                task = self._task(chosen, deletes=files, invisible=invisible, types=self._types)
                yield self._with_named(task, chosen, unnamed)

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
        opened = self._opened([rows[source.path] for source in file.provenance.sources])
        stripes = {source.path: source.stripes for source in file.provenance.sources}
        return [(each, stripes[each.file.path]) for each in opened]

    def _named(self, runs: Sequence[_Run], deletes: Sequence[DataFile]) -> DataFileTask:
        """Return some stripes with those of some delete events that may name their rows."""
        chosen = {delete.path for delete in deletes}
        applying = {
            delete.path: (directory, delete)
            for opened, _ in runs
            for directory, delete in self._deletes_of(opened.file)
            if delete.path in chosen
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
        if all(opened.file.path in unnamed for opened, _ in runs):
            return task
        named = self._named(runs, self.deletes)
        return replace(task, named=named) if named.deletes else task

    def _opened(self, files: Sequence[DataFile]) -> list[_Opened]:
        """Read the tails of files, without those that have no rows."""
        # The rows of files without row ids are counted together.
        groups = {file.directory for file in files if file.raw and self._part.full_acid}
        needed = {file.path for file in files}
        also = [
            file
            for file in self.rows
            if file.path in needed or (file.raw and file.directory in groups)
        ]
        missing = [file for file in also if file.path not in self._tails]
        found = in_threads(partial(_tail, self._storage), missing)
        self._tails |= {file.path: tail for file, tail in zip(missing, found, strict=True)}
        ids = _synthetic_ids(also, [self._tails[file.path] for file in also])
        return [
            _Opened(file, self._tails[file.path], ids.get(file.path))
            for file in files
            if self._tails[file.path].stripes
        ]

    def _task(
        self,
        chosen: Sequence[_Run],
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
                self._source(opened, stripes, keyed=types is not None) for opened, stripes in chosen
            ),
            deletes=tuple((file.path, file.size) for file in deletes),
            invisible=invisible,
            types=types,
            columns=self._part.columns,
            fields=self._fields,
            bytes=sum(_bytes(opened.tail, stripes) for opened, stripes in chosen),
            complete=all(self._is_complete(opened) for opened, _ in chosen),
            parquet=self._parquet,
        )

    def _is_complete(self, opened: _Opened) -> bool:
        types = with_column_names(opened.tail.types, self._part.columns)
        root = EnvelopeColumn.ROW if is_envelope(types) else EnvelopeColumn.ROOT
        return _are_columns(types, root, self._fields) and readable(types, self._types)

    @staticmethod
    def _source(opened: _Opened, stripes: Sequence[int], *, keyed: bool) -> SourceFile:
        ids = opened.ids if keyed else None
        if keyed and ids is None and not opened.tail.is_acid:
            # No delete names these rows; decoding needs any row ids.
            ids = SyntheticIds(opened.file.path, 1, 0, 0, opened.tail.rows)
        file = opened.file
        return SourceFile(file.path, file.size, tuple(stripes), ids, cut_off=file.cut_off)

    def _with_invisible_deletes(
        self, invisible: tuple[int, ...], deletes: Sequence[tuple[Delta, DataFile]]
    ) -> tuple[int, ...]:
        """Add the write ids of events that must not apply."""
        of_deletes = (own for delete, _ in deletes for own in self._invisible(delete))
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
        seen = self._part.write_ids
        first, last = (
            (0, directory.write_id)
            if isinstance(directory, Base)
            else (directory.min_write_id, directory.max_write_id)
        )
        known = [*seen.aborted, *(seen.open if isinstance(seen, ValidWriteIdList) else ())]
        later = range(max(seen.high_watermark + 1, first), last + 1)
        return tuple(sorted({*(w for w in known if first <= w <= last), *later}))

    def _check_mapping(self, opened: _Opened) -> None:
        """Refuse columns that engines map differently unless the mapping is chosen."""
        names = opened.tail.column_names
        if self._mapping_is_chosen or not self._part.columns.is_ambiguous(names):
            return
        raise UnsupportedFile(
            f"{self._part.location.rstrip('/')}/{opened.file.path} has the columns"
            f" {', '.join(names)}, and {self._table.ref.full_name} has"
            f" {', '.join(self._part.columns.names)}: engines that map columns by position read"
            " other values than those that map them by name.",
            remedy="Choose with column_mapping='position' or 'name', or with the table property"
            f" {COLUMN_MAPPING}.",
        )


# Thousands of files have the same types.
@lru_cache(maxsize=64)
def readable(types: tuple[bytes, ...], wanted: tuple[bytes, ...]) -> bool:
    """Return whether readers of Iceberg convert the columns of a file to those of the table.

    Columns and fields are found by their names. Missing ones are null, and others are not copied.

    Args:
        types: The types of a flat file, or of a full ACID one.
        wanted: The types of the row of the table.
    """
    root = EnvelopeColumn.ROW if is_envelope(types) else EnvelopeColumn.ROOT
    return _is_readable(types, wanted, root, 0)


def _is_readable(
    types: Sequence[bytes], wanted: Sequence[bytes], column: int, wanted_column: int
) -> bool:
    own, other = Message.decode(types[column]), Message.decode(wanted[wanted_column])
    if not _fits(own, other):
        return False
    inside, expected = _inside(own), _inside(other)
    return all(
        _is_readable(types, wanted, inside[name], expected[name])
        for name in inside.keys() & expected.keys()
    )


def _fits(own: Message, other: Message) -> bool:
    """Compare two types, ignoring types inside of them."""
    kind, wanted = (message.number(TypeField.KIND) for message in (own, other))
    if TypeKind.CHAR in (kind, wanted):
        return False
    if wanted == TypeKind.STRING and kind in _TEXTS:
        return True
    if wanted == TypeKind.VARCHAR:
        longest = own.number(TypeField.MAXIMUM_LENGTH)
        return kind == wanted and longest <= other.number(TypeField.MAXIMUM_LENGTH)
    if kind == wanted == TypeKind.DECIMAL:
        same_scale = own.number(TypeField.SCALE) == other.number(TypeField.SCALE)
        wider = own.number(TypeField.PRECISION) <= other.number(TypeField.PRECISION)
        return same_scale and wider
    return kind == wanted or wanted in _READABLE.get(kind, ())


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
    moved = Message().add_number(TypeField.KIND, message.number(TypeField.KIND))
    for number in message.all_numbers(TypeField.SUBTYPES):
        moved.add_number(TypeField.SUBTYPES, number - EnvelopeColumn.ROW)
    moved.fields += message.without(TypeField.KIND, TypeField.SUBTYPES).fields
    return moved.encode()


def _tail(storage: ReadOnlyStorage, file: DataFile) -> OrcTail:
    return read_tail(storage, file.path, file.size)


def _synthetic_ids(files: Sequence[DataFile], tails: Iterable[OrcTail]) -> dict[str, SyntheticIds]:
    """The row ids of files that do not store them, by path."""
    rows: dict[Base | Delta | None, dict[str, int]] = {}
    for file, tail in zip(files, tails, strict=True):
        if file.raw:
            rows.setdefault(file.directory, {})[file.path] = tail.rows
    counted = (synthetic_ids(group, *written_by(parent)) for parent, group in rows.items())
    return {ids.path: ids for group in counted for ids in group if ids.bucket is not None}


def _are_columns(types: Sequence[bytes], column: int, fields: Mapping[str, FieldId]) -> bool:
    """Return whether all columns inside of a column have an id."""
    message = Message.decode(types[column])
    if message.number(TypeField.KIND) == TypeKind.STRUCT:
        inside = _inside(message)
        return all(
            name in fields and _are_columns(types, number, fields[name].inside)
            for name, number in inside.items()
        )
    # The element of a list, or the key and the value of a map.
    numbers = message.all_numbers(TypeField.SUBTYPES)
    return all(
        _are_columns(types, number, field.inside)
        for number, field in zip(numbers, fields.values(), strict=False)
    )


def _joined(runs: Iterable[_Run], most: int) -> Iterator[list[_Run]]:
    """Join small files up to a limited size."""
    joined: list[_Run] = []
    size = 0
    for opened, stripes in runs:
        more = _bytes(opened.tail, stripes)
        if joined and size + more > most:
            yield joined
            joined, size = [], 0
        joined.append((opened, stripes))
        size += more
    if joined:
        yield joined


def _split(files: Iterable[_Run], most: int) -> Iterator[_Run]:
    """Split large files between stripes."""
    for opened, stripes in files:
        for run in _runs(opened.tail, stripes, most):
            yield opened, run


def _runs(tail: OrcTail, stripes: Sequence[int], most: int) -> Iterator[Sequence[int]]:
    """Split stripes of a file into runs of a limited size."""
    start, size = 0, 0
    for place, number in enumerate(stripes):
        length = tail.stripes[number].length
        if place > start and size + length > most:
            yield stripes[start:place]
            start, size = place, 0
        size += length
    yield stripes[start:]


def _bytes(tail: OrcTail, stripes: Sequence[int]) -> int:
    return sum(tail.stripes[number].length for number in stripes)
