"""Task code that writes one Parquet file of an Iceberg table from rows of a Hive table.

The rows are decoded as for every other reader of Arrow, so that char columns, days in the Julian
calendar, and columns of other types than those of the table are converted.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import Any, BinaryIO

import pyarrow as pa
from pyarrow import parquet
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.schema import Schema

from hiveacid.errors import DataError, ProofFailed
from hiveacid.iceberg.data_file_task import (
    CopyShares,
    DataFileMeasures,
    DataFileTask,
    ParquetRows,
    SourceFile,
    WrittenDataFile,
)
from hiveacid.iceberg.microseconds import require_microseconds
from hiveacid.iceberg.provenance import PROVENANCE, Provenance, SourceStripes
from hiveacid.orc.format.envelope import with_column_names
from hiveacid.orc.format.process_memory import return_memory
from hiveacid.orc.format.tail import OrcTail
from hiveacid.rules.directory import Rules
from hiveacid.rules.write_ids import ValidWriteIdList
from hiveacid.storage.filesystems import translated_os_errors
from hiveacid.storage.folder import ReadOnlyStorage, Storage
from hiveacid.storage.listing import DataFile, open_data
from hiveacid.tables.scan.visible_rows import VisibleRows

# Decoded rows of about this size become a row group.
_ROW_GROUP_BYTES = 64 << 20
_ALL_WRITE_IDS = (1 << 63) - 1


def write_parquet(task: DataFileTask, wanted: ParquetRows) -> WrittenDataFile | None:
    """Write a data file, unless none of its rows is visible.

    Args:
        task: The task.
        wanted: The rows of the file.

    Raises:
        DataError: A value cannot be decoded or converted.
        NanosecondsLost: Timestamps have more digits than microseconds.
    """
    source = _Source(task, wanted)
    groups = _row_groups(source.rows())
    first = next(groups, None)
    if first is None:
        return None
    path = f"{task.target.rstrip('/')}/{task.name}"
    with translated_os_errors(path), Storage.of(task.target).create(task.name) as sink:
        counted = _Counted(sink)
        written = _write(counted, chain([first], groups), wanted.schema, source.provenance())
    return_memory()
    return WrittenDataFile(
        name=task.name,
        rows=written.num_rows,
        bytes=counted.bytes,
        split_offsets=_split_offsets(written),
        measures=_measures(written, wanted.schema),
        shares=CopyShares.encoding(task),
    )


@dataclass(frozen=True, slots=True)
class _Stripes:
    """The stripes of a file of the Hive table that are read."""

    numbers: frozenset[int]

    def stripes(self, tail: OrcTail) -> list[bool]:
        return [number in self.numbers for number in range(len(tail.stripes))]


class _Source:
    """The files of the Hive table with the rows."""

    def __init__(self, task: DataFileTask, wanted: ParquetRows) -> None:
        self._task = task
        self._wanted = wanted
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
            chosen = replace(reader, choice=_Stripes(frozenset(file.stripes)))
            for batch in chosen.of_file(_data_file(file), events, file.ids):
                try:
                    yield columns.batch(batch.columns, keys)
                except DataError as error:
                    what = f"{self._location(file)}: {error.what}"
                    raise type(error)(what, remedy=error.remedy) from error

    def _checked(self, file: SourceFile) -> OrcTail:
        """Read the tail of a file, and refuse values that Iceberg's readers would change."""
        with open_data(self._storage, _data_file(file)) as opened:
            tail = OrcTail.read(opened, file.size)
            named = replace(tail, types=with_column_names(tail.types, self._task.columns))
            require_microseconds(
                self._location(file), opened, named, file.stripes, self._task.fields.keys()
            )
        # Rows without stored ids are numbered from the beginning of their file.
        assert file.ids is None or len(file.stripes) == len(tail.stripes)
        return tail

    def _location(self, file: SourceFile) -> str:
        return f"{self._task.root.rstrip('/')}/{file.path}"


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
    described = types.with_metadata({PROVENANCE.encode(): provenance.encode()})
    rows = 0
    with parquet.ParquetWriter(
        pa.PythonFile(sink, mode="w"), described, compression="zstd"
    ) as writer:
        for group in groups:
            rows += len(group)
            writer.write_table(
                group.select(types.names).cast(types).replace_schema_metadata(described.metadata),
                row_group_size=len(group),
            )
    written: parquet.FileMetaData = writer.writer.metadata
    if written.num_rows != rows:
        raise ProofFailed(f"{rows} rows were to be written, {written.num_rows} were.")
    return written


def _split_offsets(written: parquet.FileMetaData) -> tuple[int, ...]:
    return tuple(
        min(
            column.dictionary_page_offset or column.data_page_offset,
            column.data_page_offset,
        )
        for column in (
            written.row_group(number).column(0) for number in range(written.num_row_groups)
        )
    )


def _measures(written: parquet.FileMetaData, schema: Schema) -> DataFileMeasures:
    found = data_file_statistics_from_parquet_metadata(
        written, compute_statistics_plan(schema, {}), parquet_path_to_id_mapping(schema)
    ).to_serialized_dict()
    return DataFileMeasures(**{field.name: found[field.name] for field in fields(DataFileMeasures)})
