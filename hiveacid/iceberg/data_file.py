"""Task code that writes one data file of an Iceberg table from stripes of a Hive table, and its deletes.

For an ORC file, stripes whose rows are all visible, with the types of the table, are copied. Others
are decoded, and their remaining rows are written again. A task needs neither a metastore nor a
catalog, so that it may run in another process.
"""

import tempfile
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import fields, replace
from itertools import chain
from typing import IO, Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.schema import Schema

from hiveacid.dataclass import dataclass
from hiveacid.errors import CorruptFile, DataError, ProofFailed, UnsupportedFile
from hiveacid.foreign.parquet import ParquetInput
from hiveacid.iceberg.data_file_task import (
    CopyShares,
    DataFileMeasures,
    DataFileTask,
    DeleteFileTask,
    OrcMeasures,
    ParquetRows,
    SourceFile,
    WrittenDataFile,
    WrittenDeleteFile,
)
from hiveacid.iceberg.mirror_state import PROVENANCE, Provenance, SourceStripes
from hiveacid.iceberg.parquet_copy import CopiedFooter, copied_footer
from hiveacid.metastore.catalog import HiveColumn
from hiveacid.orc.copying.assemble import Part
from hiveacid.orc.copying.reencode import reencode, reencoded_part, values_of
from hiveacid.orc.copying.stripe_plan import PlannedFile, StripeGroup, plan_stripes
from hiveacid.orc.copying.transplant import FlatFileWritten, flatten, require_proleptic, transplant
from hiveacid.orc.format.batches import with_stripes
from hiveacid.orc.format.compression import Source
from hiveacid.orc.format.envelope import with_column_names, wrap_types
from hiveacid.orc.format.layout import Layout
from hiveacid.orc.format.process_memory import return_memory
from hiveacid.orc.format.statistics import reliable_statistics
from hiveacid.orc.format.tail import OrcTail
from hiveacid.orc.row_keys.key_stream import deleted_rows, names_rows, read_deletes
from hiveacid.orc.row_keys.keys import Keys
from hiveacid.orc.values.timestamps import finer_column, is_finer_text, is_marked
from hiveacid.rules.directory import Rules, SyntheticIds
from hiveacid.rules.write_ids import ValidWriteIdList
from hiveacid.storage.filesystems import translated_os_errors
from hiveacid.storage.folder import ReadOnlyStorage, Storage
from hiveacid.storage.listing import DataFile, open_data
from hiveacid.tables.scan.parquet_file import ParquetFile
from hiveacid.tables.scan.table_part import VisibleRows
from hiveacid.tables.scan.times import has_finer_times

# Timestamps with more digits than microseconds, which readers of Iceberg cut or round


def require_microseconds(
    path: str, source: Source, tail: OrcTail, stripes: Sequence[int], columns: Collection[str]
) -> None:
    """Refuse a file whose timestamps have more digits than microseconds.

    Args:
        path: Its location, for the message.
        source: The file.
        tail: Its tail.
        stripes: The numbers of the stripes to examine.
        columns: The names of the columns in lower case.

    Raises:
        UnsupportedFile: A column has such a timestamp.
    """
    if is_marked(tail):
        return
    column = finer_column(source, with_stripes(tail, stripes), columns)
    if column is not None:
        raise _nanoseconds(path, column)


def _nanoseconds(path: str, column: str) -> UnsupportedFile:
    return UnsupportedFile(
        f"{path} has timestamps of more digits than microseconds in the column {column}, which"
        " readers of Iceberg cut or round.",
        remedy="Round the values in the table first.",
    )


def require_microseconds_in_keys(
    table: str, keys: Sequence[HiveColumn], values: Mapping[str, str | None]
) -> None:
    """Refuse a partition whose keys have more digits than microseconds.

    Args:
        table: The name of the table, for the message.
        keys: The partition keys of the table.
        values: The values of the partition by the names of the keys.

    Raises:
        UnsupportedFile: A key is such a timestamp.
    """
    for key in keys:
        value = values[key.name] or ""
        if "timestamp" in key.type.lower() and is_finer_text(value):
            raise UnsupportedFile(
                f"The partition {key.name}={value} of {table} has more digits than microseconds,"
                " which tables of Iceberg cannot store.",
                remedy="Move its rows to a partition with a rounded key first.",
            )


# Task code that writes one Parquet file of an Iceberg table from rows of a Hive table.
#
# The rows are decoded as for every other reader of Arrow, so that char columns, days in the Julian
# calendar, and columns of other types than those of the table are converted.


# Decoded rows of about this size become a row group.
_ROW_GROUP_BYTES = 64 << 20
_ALL_WRITE_IDS = (1 << 63) - 1


def write_parquet(task: DataFileTask, parquet_rows: ParquetRows) -> WrittenDataFile | None:
    """Write a data file, unless none of its rows is visible.

    A Parquet file of the Hive table is copied if it can be.

    Args:
        task: The task.
        parquet_rows: The rows of the file.

    Raises:
        DataError: A value cannot be decoded or converted.
        UnsupportedFile: Timestamps have more digits than microseconds.
    """
    if task.from_parquet:
        with _opened_parquet(task) as (source, footer):
            if footer is not None:
                return _write_copy(task, parquet_rows, source, footer)
        rows: _ParquetSource | _Source = _ParquetSource(task, parquet_rows)
    else:
        rows = _Source(task, parquet_rows)
    groups = _row_groups(rows.rows())
    first = next(groups, None)
    if first is None:
        return None
    path = f"{task.target.rstrip('/')}/{task.name}"
    with translated_os_errors(path), Storage.of(task.target).create(task.name) as sink:
        counting_sink = _Counted(sink)
        file_metadata = _write(
            counting_sink, chain([first], groups), parquet_rows.schema, rows.provenance()
        )
    return_memory()
    return WrittenDataFile(
        name=task.name,
        rows=file_metadata.num_rows,
        bytes=counting_sink.bytes,
        split_offsets=_split_offsets(file_metadata),
        measures=_measures(file_metadata, parquet_rows.schema),
        shares=CopyShares.encoding(task),
    )


@contextmanager
def _opened_parquet(task: DataFileTask) -> Iterator[tuple[BinaryIO, CopiedFooter | None]]:
    """Open the Parquet file with the rows of a data file, and read its footer if it is copied.

    Raises:
        CorruptFile: It cannot be read.
    """
    assert task.parquet is not None
    (file,) = task.files
    path, columns = _location(task, file), task.parquet.columns.columns
    with translated_os_errors(path), ReadOnlyStorage.of(task.root).open_input(file.path) as source:
        try:
            parquet_file = ParquetInput(source, path)
            yield source, copied_footer(parquet_file, task.columns, columns, task.fields)
        except pa.ArrowException as error:
            raise CorruptFile(f"{path} cannot be read as Parquet: {error}") from error
        except CorruptFile as error:
            if path in error.what:
                raise
            raise CorruptFile(f"{path}: {error.what}", remedy=error.remedy) from error


def _write_copy(
    task: DataFileTask, parquet_rows: ParquetRows, source: BinaryIO, footer: CopiedFooter
) -> WrittenDataFile | None:
    """Copy a Parquet file, unless it has no rows."""
    if not footer.metadata.num_rows:
        return None
    path = f"{task.target.rstrip('/')}/{task.name}"
    origin = _parquet_origin(task, complete=True)
    with translated_os_errors(path), Storage.of(task.target).create(task.name) as sink:
        size = footer.write(source, sink, {PROVENANCE.encode(): origin.encode()})
    return WrittenDataFile(
        name=task.name,
        rows=footer.metadata.num_rows,
        bytes=size,
        split_offsets=_split_offsets(footer.metadata),
        measures=footer.measures(parquet_rows.schema),
        shares=_copied_shares(footer),
    )


def _copied_shares(footer: CopiedFooter) -> CopyShares:
    return CopyShares(footer.metadata.num_row_groups, footer.start)


def _parquet_origin(task: DataFileTask, *, complete: bool) -> Provenance:
    (file,) = task.files
    return Provenance(
        partition=task.partition,
        location=task.root,
        sources=(SourceStripes(file.path, file.size, 1, file.stripes),),
        complete=complete,
        whole=True,
    )


def _location(task: DataFileTask, file: SourceFile) -> str:
    return f"{task.root.rstrip('/')}/{file.path}"


class _ParquetSource:
    """The rows of a Parquet file of the Hive table, which are decoded."""

    def __init__(self, task: DataFileTask, parquet_rows: ParquetRows) -> None:
        self._task = task
        self._wanted = parquet_rows
        self._storage = ReadOnlyStorage.of(task.root)

    def provenance(self) -> Provenance:
        """The origin of the rows."""
        # Fields inside of columns are not compared.
        (file,) = self._task.files
        path = _location(self._task, file)
        with translated_os_errors(path), self._storage.open_input(file.path) as source:
            stored_schema = ParquetInput(source, path).schema
        names = self._task.columns.renamed(stored_schema.names)
        complete = all(name.lower() in self._task.fields for name in names)
        flat = not any(field.type.num_fields for field in stored_schema)
        return _parquet_origin(self._task, complete=complete and flat)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Read the rows as rows of the Hive table."""
        (file,) = self._task.files
        columns, location = self._wanted.columns, _location(self._task, file)
        keys = columns.values(self._wanted.values)
        parquet_file = ParquetFile(self._storage, file.path, self._task.columns)
        for batch in parquet_file.batches([column.name for column in columns.columns]):
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                if has_finer_times(column):
                    raise _nanoseconds(location, name)
            try:
                yield columns.batch(batch, keys)
            except DataError as error:
                raise type(error)(f"{location}: {error.what}", remedy=error.remedy) from error


@dataclass(frozen=True, slots=True)
class _Stripes:
    """The stripes of a file of the Hive table that are read."""

    numbers: frozenset[int]

    def stripes(self, tail: OrcTail) -> list[bool]:
        return [number in self.numbers for number in range(len(tail.stripes))]


class _Source:
    """The files of the Hive table with the rows."""

    def __init__(self, task: DataFileTask, parquet_rows: ParquetRows) -> None:
        self._task = task
        self._wanted = parquet_rows
        self._storage = ReadOnlyStorage.of(task.root)
        self._tails = [self._checked(file) for file in task.files]

    def provenance(self) -> Provenance:
        """The origin of the rows."""
        return Provenance(
            partition=self._task.partition,
            location=self._task.root,
            sources=tuple(
                SourceStripes(file.path, file.size, len(tail.stripes), tuple(file.stripes))
                for file, tail in zip(self._task.files, self._tails, strict=True)
            ),
            complete=self._task.complete,
            whole=self._task.is_whole,
        )

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Read the visible rows as rows of the Hive table."""
        columns = self._wanted.columns
        keys = columns.values(self._wanted.values)
        reader = VisibleRows(
            self._storage,
            ValidWriteIdList(None, _ALL_WRITE_IDS, aborted=self._task.invisible),
            # The task names only events that apply.
            Rules.HIVE3,
            [column.name for column in columns.columns],
            self._task.columns,
        )
        events = [
            reader.events(DataFile(path, size, None, None)) for path, size in self._task.deletes
        ]
        for file in self._task.files:
            stripe_reader = replace(reader, choice=_Stripes(frozenset(file.stripes)))
            for batch in stripe_reader.of_file(_data_file(file), events, file.ids):
                try:
                    yield columns.batch(batch.columns, keys)
                except DataError as error:
                    message = f"{_location(self._task, file)}: {error.what}"
                    raise type(error)(message, remedy=error.remedy) from error

    def _checked(self, file: SourceFile) -> OrcTail:
        """Read the tail of a file, and refuse values that Iceberg's readers would change."""
        with open_data(self._storage, _data_file(file)) as stream:
            tail = OrcTail.read(stream, file.size)
            named_tail = replace(tail, types=with_column_names(tail.types, self._task.columns))
            require_microseconds(
                _location(self._task, file),
                stream,
                named_tail,
                file.stripes,
                self._task.fields.keys(),
            )
        # Rows without stored ids are numbered from the beginning of their file.
        assert file.ids is None or len(file.stripes) == len(tail.stripes)
        return tail


class _Counted:
    """A sink that counts its bytes.

    Attributes:
        bytes: The number of bytes written.
    """

    closed = False

    def __init__(self, sink: BinaryIO) -> None:
        self._sink = sink
        self.bytes = 0

    def write(self, data: Any) -> int:
        content = bytes(data)
        self._sink.write(content)
        self.bytes += len(content)
        return len(content)

    def tell(self) -> int:
        return self.bytes

    def flush(self) -> None:
        self._sink.flush()

    def close(self) -> None:
        """Leave the sink open, which its owner closes."""


def _data_file(file: SourceFile) -> DataFile:
    return DataFile(file.path, file.size, None, None, cut_off=file.cut_off)


def _row_groups(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Join batches to groups of a limited size."""
    batches: list[pa.RecordBatch] = []
    size = 0
    for batch in rows:
        batches.append(batch)
        size += batch.nbytes
        if size >= _ROW_GROUP_BYTES:
            yield pa.Table.from_batches(batches)
            batches, size = [], 0
    if batches:
        yield pa.Table.from_batches(batches)


def _write(
    sink: _Counted, groups: Iterable[pa.Table], schema: Schema, provenance: Provenance
) -> parquet.FileMetaData:
    """Write row groups, and return the footer of the file."""
    types = schema_to_pyarrow(schema)
    file_schema = types.with_metadata({PROVENANCE.encode(): provenance.encode()})
    rows = 0
    with parquet.ParquetWriter(
        pa.PythonFile(sink, mode="w"), file_schema, compression="zstd"
    ) as writer:
        for group in groups:
            rows += len(group)
            writer.write_table(
                group.select(types.names).cast(types).replace_schema_metadata(file_schema.metadata),
                row_group_size=len(group),
            )
    file_metadata: parquet.FileMetaData = writer.writer.metadata
    if file_metadata.num_rows != rows:
        raise ProofFailed(f"{rows} rows were to be written, {file_metadata.num_rows} were.")
    return file_metadata


def _split_offsets(file_metadata: parquet.FileMetaData) -> tuple[int, ...]:
    return tuple(
        min(
            column.dictionary_page_offset or column.data_page_offset,
            column.data_page_offset,
        )
        for column in (
            file_metadata.row_group(number).column(0)
            for number in range(file_metadata.num_row_groups)
        )
    )


def _measures(file_metadata: parquet.FileMetaData, schema: Schema) -> DataFileMeasures:
    statistics = data_file_statistics_from_parquet_metadata(
        file_metadata, compute_statistics_plan(schema, {}), parquet_path_to_id_mapping(schema)
    ).to_serialized_dict()
    return DataFileMeasures(
        **{field.name: statistics[field.name] for field in fields(DataFileMeasures)}
    )


# The decoded rows of larger groups of stripes are in a temporary file.
_HELD_IN_MEMORY = 64 << 20
_GROUP_BYTES = 16 << 20


def share_task(task: DataFileTask) -> CopyShares:
    """Determine how the stripes of a data file would be made, without writing."""
    if task.from_parquet:
        with _opened_parquet(task) as (_, footer):
            return CopyShares.encoding(task) if footer is None else _copied_shares(footer)
    if task.parquet is not None:
        return CopyShares.encoding(task)
    with _Opened(task) as source_files:
        return _shares(source_files.groups())


def write_task(task: DataFileTask) -> WrittenDataFile | None:
    """Write a data file, unless none of its rows is visible.

    Raises:
        DataError: The rows cannot be copied as they are, and not be decoded.
        UnsupportedFile: Timestamps have more digits than microseconds.
        ProofFailed: Rows that were written again differ from those that were read.
    """
    if task.parquet is not None:
        # Processes that copy stripes start in half of the time without these imports.

        return write_parquet(task, task.parquet)
    with _Opened(task) as source_files:
        groups = source_files.groups()
        with source_files.naming():
            source_files.check_values()
            parts = [part for group in groups for part in source_files.parts(group)]
            if not any(part.tail.stripes[number].rows for part in parts for number in part.chosen):
                return None
            path = f"{task.target.rstrip('/')}/{task.name}"
            with (
                translated_os_errors(path),
                Storage.of(task.target).create(task.name) as sink,
            ):
                flat_file = flatten(
                    parts,
                    sink,
                    layout=source_files.layout,
                    fields=task.fields,
                    user_metadata={PROVENANCE: source_files.provenance().encode()},
                )
    return_memory()
    return _result(task.name, flat_file, _shares(groups))


def named_task(task: DataFileTask) -> frozenset[str]:
    """Return the paths of the files with rows that the delete events of a task name."""
    with _Opened(task) as source_files:
        return frozenset(source_files.named())


def deletes_task(task: DeleteFileTask) -> WrittenDeleteFile | None:
    """Write the positions of the deleted rows of a data file, unless all of them are known.

    Row ids of deleted rows do not return, so that an equal number of positions means equal ones.

    Raises:
        DataError: The row ids, or the delete events, cannot be read.
        ProofFailed: Delete events of known positions are missing.
    """
    with _Opened(task.named) as source_files:
        deleted_positions = np.concatenate([np.empty(0, dtype=np.int64), *source_files.positions()])
    if len(deleted_positions) == task.known_positions:
        return None
    if len(deleted_positions) < task.known_positions:
        raise ProofFailed(
            f"{task.data_file} has {task.known_positions} deleted rows, of which the Hive table names"
            f" {len(deleted_positions)}."
        )
    size = 0
    if task.target:
        # Processes that copy stripes start in half of the time without these imports.
        from hiveacid.iceberg.position_delete_file import write_positions

        size = write_positions(task, deleted_positions)
    return WrittenDeleteFile(
        task.data_file,
        task.name,
        len(deleted_positions),
        int(deleted_positions[0]),
        int(deleted_positions[-1]),
        size,
    )


class _Opened:
    """The opened input of a task."""

    def __init__(self, task: DataFileTask) -> None:
        self._task = task
        self._storage = ReadOnlyStorage.of(task.root)
        self._stack = ExitStack()
        self._files: list[PlannedFile] = []
        # As stored, without added row ids.
        self._stored: list[tuple[SourceFile, Source, OrcTail]] = []
        self._sources: list[SourceStripes] = []
        self.layout: Layout

    def __enter__(self) -> "_Opened":
        with self._stack:
            for file in self._task.files:
                with self.naming(file.path):
                    source, tail = self._open(file.path, file.size)
                    tail = replace(tail, types=with_column_names(tail.types, self._task.columns))
                    stripes = len(tail.stripes)
                    self._stored.append((file, source, tail))
                    if file.ids is not None:
                        source, tail = self._with_ids(source, file.ids)
                self._sources.append(
                    SourceStripes(file.path, file.size, stripes, tuple(file.stripes))
                )
                tail = with_stripes(tail, file.stripes)
                name = f"{self._task.root}/{file.path}"
                exact = not self._task.invisible
                self._files.append(PlannedFile(source, tail, name, exact))
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def groups(self) -> list[StripeGroup]:
        """Determine the fate of all stripes."""
        if self._task.types is None:
            named_tails = [(file.name, file.tail) for file in self._files]
            self.layout = Layout.joint(named_tails, like=named_tails[0][1])
            return [_copied(number, file.tail) for number, file in enumerate(self._files)]
        with self.naming(), closing(self._events()) as events:
            plan = plan_stripes(
                self._files,
                events,
                self._task.invisible,
                types=wrap_types(self._task.types),
                tiny_bytes=0,
                group_bytes=_GROUP_BYTES,
            )
        self.layout = plan.layout
        return list(plan.groups)

    def provenance(self) -> Provenance:
        """The origin of the rows."""
        return Provenance(
            partition=self._task.partition,
            location=self._task.root,
            sources=tuple(self._sources),
            complete=self._task.complete,
            whole=self._task.is_whole,
        )

    def named(self) -> Iterator[str]:
        """Yield the paths of the files with rows that delete events name."""
        size = sum(size for _, size in self._task.deletes)
        event_list = list(self._events()) if size <= _GROUP_BYTES else None
        for source_file, file in zip(self._task.files, self._files, strict=True):
            with self.naming(), closing(self._events()) as events:
                if names_rows(file.source, file.tail, events if event_list is None else event_list):
                    yield source_file.path

    def positions(self) -> Iterator[NDArray[np.int64]]:
        """Yield the numbers of the rows that delete events name, counted over all stripes."""
        row_offset = 0
        for source_file, file in zip(self._task.files, self._files, strict=True):
            with self.naming(source_file.path), closing(self._events()) as events:
                for rows in deleted_rows(file.source, file.tail, events):
                    yield rows + row_offset
            row_offset += sum(stripe.rows for stripe in file.tail.stripes)

    def check_values(self) -> None:
        """Refuse values that Iceberg's readers would change."""
        for planned_file in self._files:
            require_proleptic(planned_file.tail)
        for file, source, tail in self._stored:
            location = f"{self._task.root.rstrip('/')}/{file.path}"
            columns = self._task.fields.keys()
            require_microseconds(location, source, tail, file.stripes, columns)

    def parts(self, group: StripeGroup) -> Iterator[Part]:
        """The stripes of a group: those of the files, or new ones."""
        stripes_by_file: dict[int, list[int]] = {}
        for number, stripe in group.stripes:
            stripes_by_file.setdefault(number, []).append(stripe)
        if group.copy:
            for number, stripes in stripes_by_file.items():
                yield Part(self._files[number].source, self._files[number].tail, stripes)
            return
        sink = self._temporary()
        with closing(self._events()) as events:
            reencoding = reencode(
                [
                    (self._files[number].source, self._files[number].tail, stripes)
                    for number, stripes in stripes_by_file.items()
                ],
                sink,
                layout=self.layout,
                deletes=events,
                aborted_ids=self._task.invisible,
            )
        part = reencoded_part(sink, self.layout.types)
        read = values_of(part)
        if read != reencoding.values:
            raise ProofFailed(
                f"{reencoding.values} rows with their values were to be written again, {read} were."
            )
        yield part

    @contextmanager
    def naming(self, *paths: str) -> Iterator[None]:
        """Add the names of the files to errors of the ORC layer, which only has their bytes."""
        try:
            yield
        except DataError as error:
            error_paths = paths or tuple(file.path for file in self._task.files)
            names = ", ".join(f"{self._task.root.rstrip('/')}/{path}" for path in error_paths)
            if any(path in error.what for path in error_paths):
                raise
            raise type(error)(f"{names}: {error.what}", remedy=error.remedy) from error

    def _open(self, path: str, size: int) -> tuple[Source, OrcTail]:
        source = self._stack.enter_context(self._storage.open_input(path))
        return source, OrcTail.read(source, size)

    def _with_ids(self, source: Source, ids: SyntheticIds) -> tuple[Source, OrcTail]:
        """Give a file without row ids the ids that delete events name."""
        acid = self._temporary()
        transplant(
            [source],
            acid,
            write_id=ids.write_id,
            bucket=ids.bucket or 0,
            first_row=ids.first_row,
            columns=self._task.columns,
        )
        return acid, OrcTail.read(acid)

    def _temporary(self) -> IO[bytes]:
        return self._stack.enter_context(tempfile.SpooledTemporaryFile(_HELD_IN_MEMORY))

    def _events(self) -> Generator[Keys, None, None]:
        """The delete events in the order of the row ids."""
        with ExitStack() as stack:
            delete_files = []
            for path, size in self._task.deletes:
                source = stack.enter_context(self._storage.open_input(path))
                delete_files.append((source, OrcTail.read(source, size)))
            # Arrow reads ahead, and must have stopped before the files are closed.
            with closing(read_deletes(delete_files, self._task.invisible)) as events:
                yield from events


def _copied(number: int, tail: OrcTail) -> StripeGroup:
    stripes = tail.stripes
    return StripeGroup(
        True,
        tuple((number, stripe) for stripe in range(len(stripes))),
        sum(stripe.length for stripe in stripes),
        tail.rows,
    )


def _shares(groups: Sequence[StripeGroup]) -> CopyShares:
    shares = CopyShares()
    for group in groups:
        size = (len(group.stripes), group.bytes)
        shares += CopyShares(*size) if group.copy else CopyShares(0, 0, *size)
    return shares


def _result(name: str, flat_file: FlatFileWritten, shares: CopyShares) -> WrittenDataFile:
    tail = flat_file.tail
    return WrittenDataFile(
        name=name,
        rows=tail.rows,
        bytes=flat_file.bytes,
        split_offsets=tuple(stripe.offset for stripe in tail.stripes),
        measures={
            column.id: OrcMeasures(size, reliable_statistics(statistics), column.repeated)
            for column, size, statistics in zip(
                flat_file.columns[1:],
                flat_file.column_bytes[1:],
                tail.file_statistics[1:],
                strict=True,
            )
        },
        shares=shares,
    )
