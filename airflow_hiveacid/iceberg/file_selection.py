"""Selection of the files of a snapshot for an export, and their distribution over data files."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

from airflow_hiveacid.acid.directory import Rules
from airflow_hiveacid.acid.names import Base, Delta, delete_applies, may_delete
from airflow_hiveacid.acid.originals import SyntheticIds, synthetic_ids, written_by
from airflow_hiveacid.acid.write_ids import ValidWriteIdList
from airflow_hiveacid.errors import UnsupportedFile, UnsupportedTable
from airflow_hiveacid.iceberg.data_file import DataFileTask, SourceFile
from airflow_hiveacid.jobs.definitions.table_properties import COLUMN_MAPPING
from airflow_hiveacid.layout.file_columns import orc_row_types
from airflow_hiveacid.layout.listing import DataFile, read_tail
from airflow_hiveacid.metastore.formats import StorageFormat
from airflow_hiveacid.orc.copying.flatten import FieldId
from airflow_hiveacid.orc.format.compression import Codec
from airflow_hiveacid.orc.format.envelope import (
    EnvelopeColumn,
    TypeField,
    TypeKind,
    is_envelope,
    with_column_names,
)
from airflow_hiveacid.orc.format.layout import Writer, writer_of
from airflow_hiveacid.orc.format.protobuf import Message
from airflow_hiveacid.orc.format.tail import OrcTail
from airflow_hiveacid.scan.table_part import TablePart
from airflow_hiveacid.scan.visible_table import PartitionDirectory, VisibleTable
from airflow_hiveacid.storage.folder import ReadOnlyStorage
from airflow_hiveacid.storage.threads import in_threads

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
class SelectedPartition:
    """A partition, or a table without partitions, and the data files to write for it.

    Attributes:
        directory: The partition.
        tasks: The data files.
        files: The files of the Hive table that have rows.
    """

    directory: PartitionDirectory
    tasks: tuple[DataFileTask, ...]
    files: int


def select_files(
    visible: VisibleTable,
    fields: Mapping[str, FieldId],
    *,
    mapping_is_chosen: bool,
    file_bytes: int = FILE_BYTES,
) -> Iterator[SelectedPartition]:
    """Select the files of each partition.

    Args:
        visible: The snapshot.
        fields: The ids of the columns by their names in lower case.
        mapping_is_chosen: Whether the mapping of columns is configured, and not the default of the
            version of the metastore.
        file_bytes: The approximate size of a data file.

    Raises:
        UnsupportedFile: A column has another name in a file, and engines map it differently.
        UnsupportedTable: The files of a partition are not ORC files.
    """
    for directory in visible.partitions:
        if directory.format is not StorageFormat.ORC:
            raise UnsupportedTable(
                f"{visible.title} has files of the format {directory.format.name}.",
                remedy="Only ORC files are exported; copy the table with Spark, see"
                " docs/to-iceberg.md.",
            )
        selection = _Selection(visible, visible.part(directory), fields, mapping_is_chosen)
        yield SelectedPartition(directory, tuple(selection.tasks(file_bytes)), len(selection.files))


@dataclass(frozen=True, slots=True)
class _Opened:
    """A file with rows, and its tail."""

    file: DataFile
    tail: OrcTail
    ids: SyntheticIds | None

    def layout(self, types: tuple[bytes, ...]) -> "_LayoutKey":
        return types, self.tail.codec, self.tail.stride, writer_of(self.tail)


_LayoutKey = tuple[tuple[bytes, ...], Codec, int, Writer]


class _Selection:
    """The files of one partition."""

    def __init__(
        self,
        visible: VisibleTable,
        part: TablePart,
        fields: Mapping[str, FieldId],
        mapping_is_chosen: bool,
    ) -> None:
        assert visible.table is not None
        self._part = part
        self._fields = fields
        self._table = visible.table
        self._types = orc_row_types(visible.table)
        self._mapping_is_chosen = mapping_is_chosen
        self._deletes = [
            (file.directory, file)
            for file in part.files
            if isinstance(file.directory, Delta) and file.directory.is_delete
        ]
        deletes = {file.path for _, file in self._deletes}
        storage = ReadOnlyStorage.of(part.location)
        rows = [file for file in part.files if file.path not in deletes]
        tails = in_threads(partial(_tail, storage), rows)
        ids = _synthetic_ids(rows, tails)
        self.files = [
            _Opened(file, tail, ids.get(file.path))
            for file, tail in zip(rows, tails, strict=True)
            if tail.stripes
        ]

    def tasks(self, file_bytes: int) -> Iterator[DataFileTask]:
        """Distribute the rows over data files."""
        copied: dict[_LayoutKey, list[_Opened]] = {}
        for opened in self.files:
            self._check_mapping(opened)
            types = with_column_names(opened.tail.types, self._part.columns)
            deletes = self._deletes_of(opened.file)
            invisible = self._invisible(opened.file.directory)
            is_readable = readable(types, self._types)
            if not deletes and not invisible and is_readable:
                copied.setdefault(opened.layout(types), []).append(opened)
                continue
            wanted = _row_types(types) if is_readable else self._types
            # Events of write ids that are not visible must not apply.
            invisible = tuple(
                sorted({*invisible, *(w for d, _ in deletes for w in self._invisible(d))})
            )
            for stripes in _runs(opened.tail, file_bytes):
                yield self._task(
                    [self._source(opened, stripes, keyed=True)],
                    _bytes(opened.tail, stripes),
                    deletes=tuple((file.path, file.size) for _, file in deletes),
                    invisible=invisible,
                    types=wanted,
                )
        for group in copied.values():
            yield from self._copies(group, file_bytes)

    def _copies(self, group: Sequence[_Opened], file_bytes: int) -> Iterator[DataFileTask]:
        """Join small files, and split large ones."""
        joined: list[SourceFile] = []
        size = 0
        for opened in group:
            for stripes in _runs(opened.tail, file_bytes):
                more = _bytes(opened.tail, stripes)
                if joined and size + more > file_bytes:
                    yield self._task(joined, size)
                    joined, size = [], 0
                joined.append(self._source(opened, stripes, keyed=False))
                size += more
        if joined:
            yield self._task(joined, size)

    def _task(
        self,
        files: Sequence[SourceFile],
        size: int,
        *,
        deletes: tuple[tuple[str, int], ...] = (),
        invisible: tuple[int, ...] = (),
        types: tuple[bytes, ...] | None = None,
    ) -> DataFileTask:
        return DataFileTask(
            root=self._part.location,
            files=tuple(files),
            deletes=deletes,
            invisible=invisible,
            types=types,
            columns=self._part.columns,
            fields=self._fields,
            bytes=size,
        )

    @staticmethod
    def _source(opened: _Opened, stripes: Sequence[int], *, keyed: bool) -> SourceFile:
        ids = opened.ids if keyed else None
        if keyed and ids is None and not opened.tail.is_acid:
            # No delete names these rows; decoding needs any row ids.
            ids = SyntheticIds(opened.file.path, 1, 0, 0, opened.tail.rows)
        return SourceFile(opened.file.path, opened.file.size, tuple(stripes), ids)

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


def _runs(tail: OrcTail, most: int) -> Iterator[range]:
    """Split the stripes of a file into runs of a limited size."""
    start, size = 0, 0
    for number, stripe in enumerate(tail.stripes):
        if number > start and size + stripe.length > most:
            yield range(start, number)
            start, size = number, 0
        size += stripe.length
    yield range(start, len(tail.stripes))


def _bytes(tail: OrcTail, stripes: Sequence[int]) -> int:
    return sum(tail.stripes[number].length for number in stripes)
