"""The rows of one Parquet file of an insert-only table as Arrow batches."""

from collections.abc import Collection, Iterator, Mapping, Sequence

import pyarrow as pa
from pyarrow import types

from hiveacid.dataclass import dataclass
from hiveacid.errors import UnsupportedFile
from hiveacid.foreign.parquet import ParquetInput
from hiveacid.orc.format.streams import UTC
from hiveacid.rules.schema import AS_STORED, MappedColumns
from hiveacid.storage.filesystems import translated_os_errors
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.tables.scan.times import StoredTime, of_parquet, stored_times


@dataclass(frozen=True)
class ParquetFile:
    """A file of an insert-only table.

    Attributes:
        storage: The folder of its partition.
        path: The file in it.
        columns: All columns that files of the table hold.
    """

    storage: ReadOnlyStorage
    path: str
    columns: MappedColumns = AS_STORED

    @property
    def rows(self) -> int:
        """The number of rows, from the footer.

        Raises:
            CorruptFile: The file cannot be read.
        """
        return parquet_rows(self.storage, self.path)

    def batches(self, columns: Collection[str]) -> Iterator[pa.RecordBatch]:
        """Read the rows, with the table's names of the columns.

        Args:
            columns: The columns to read, in any case. At least one is required.

        Raises:
            CorruptFile: The file cannot be read.
            UnsupportedFile: Its timestamps are nested and in a zone other than UTC.
        """
        path = f"{self.storage.location.rstrip('/')}/{self.path}"
        with translated_os_errors(path), self.storage.open_input(self.path) as source:
            column_names = {name.lower() for name in columns}
            yield from _batches(ParquetInput(source, path), self.columns, column_names, path)


def parquet_rows(storage: ReadOnlyStorage, name: str) -> int:
    """Return the number of rows from the footer of a file.

    Raises:
        CorruptFile: The file cannot be read.
    """
    return int(_opened(storage, name).metadata.num_rows)


def times_of_file(storage: ReadOnlyStorage, name: str) -> dict[str, tuple[StoredTime, ...]]:
    """Return the forms of all dates and timestamps of a file; see ``stored_times``.

    Raises:
        CorruptFile: The file cannot be read.
    """
    return stored_times(_opened(storage, name).metadata)


def _opened(storage: ReadOnlyStorage, name: str) -> ParquetInput:
    path = f"{storage.location.rstrip('/')}/{name}"
    with translated_os_errors(path), storage.open_input(name) as source:
        return ParquetInput(source, path)


def _batches(
    file: ParquetInput, columns: MappedColumns, column_names: set[str], path: str
) -> Iterator[pa.RecordBatch]:
    times = stored_times(file.metadata)
    stored_names = file.names
    names_in_table = dict(zip(stored_names, columns.renamed(stored_names), strict=True))
    names = [
        name for name in stored_names if names_in_table[name].lower() in column_names
    ] or stored_names[:1]
    for name in names:
        zones = {time.zone for time in times.get(name, ())} - {UTC}
        if zones and not types.is_timestamp(file.schema.field(name).type):
            raise UnsupportedFile(
                f"{path}: {name} holds timestamps within other values, by the clock of {zones.pop()}.",
                remedy="Let Hive copy the rows into an ORC table.",
            )
    for batch, fine in _fine_batches(file, names, times):
        fine_columns = dict(zip(fine.schema.names, fine.columns, strict=True))
        yield pa.RecordBatch.from_arrays(
            [
                of_parquet(column, fine_columns.get(name, column), times.get(name, ()))
                for name, column in zip(batch.schema.names, batch.columns, strict=True)
            ],
            names=[names_in_table[name] for name in batch.schema.names],
        )


def _fine_batches(
    file: ParquetInput, names: Sequence[str], times: Mapping[str, Sequence[StoredTime]]
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Read batches, each with its columns of timestamps of 96 bits as nanoseconds."""
    in_96_bits = [
        name for name in names if any(time.physical == "INT96" for time in times.get(name, ()))
    ]
    yield from paired(file.batches(names, int96="us"), file.batches(in_96_bits, int96="ns"))


def paired(
    left_batches: Iterator[pa.RecordBatch], right: Iterator[pa.RecordBatch]
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Pair the rows of two readers; Arrow ends a batch early if it has long texts."""
    first = second = pa.record_batch({})
    while True:
        first, second = first or next(left_batches, None), second or next(right, None)
        if first is None or second is None:
            return
        if rows := min(len(first), len(second)):
            yield first.slice(0, rows), second.slice(0, rows)
        first, second = first.slice(rows), second.slice(rows)
