"""The formats of files that hold only rows: those of insert-only and plain tables."""

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, Self

from hiveacid.dataclass import dataclass
from hiveacid.foreign.parquet import ParquetInput
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable, StorageFormat
from hiveacid.orc.copying.spark_files import copy_readable
from hiveacid.orc.format.tail import OrcTail
from hiveacid.rules.location import Location, split
from hiveacid.rules.names import OriginalFile
from hiveacid.rules.schema import MappedColumns
from hiveacid.storage.file_columns import stored_names
from hiveacid.storage.filesystems import in_threads
from hiveacid.storage.folder import ReadOnlyStorage, Storage
from hiveacid.storage.staging import NewFile, StagedFile, staged_file
from hiveacid.tables.scan.columns import TableColumns

# Valid values of the table properties for skipped lines.
_LINES = range(1 << 31)
_COPY_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class PlainFile:
    """A file with plain rows.

    Attributes:
        path: The full path.
        size: The size in bytes.
        part: The number of the files that it belongs to, which have the same values.
        values: The values of the partition keys as text; None means null.
        modified: See ``FileStatus``.
    """

    path: Location
    size: int
    part: int = 0
    values: tuple[str | None, ...] = ()
    modified: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class RowFormat:
    """The row format in the files of a table, or of one of its partitions.

    Attributes:
        table: The table's name, for errors.
        format: The format.
        columns: The columns of the table.
        mapped: The same columns, with their mapping to ORC and Parquet files.
        written: The columns of the partition, which its lines have: possibly fewer, and of other
            types.
        parameters: The properties of the serde and of the table.
        header: The number of lines at the beginning of a file that are not rows.
        footer: The number of lines at its end that are not rows.
    """

    table: str
    format: StorageFormat
    columns: tuple[HiveColumn, ...]
    mapped: MappedColumns
    written: tuple[HiveColumn, ...]
    parameters: tuple[tuple[str, str], ...]
    header: int
    footer: int

    @classmethod
    def of(cls, table: HiveTable, partition: HivePartition | None = None) -> Self:
        """Return the format of a partition, or of a table without partitions.

        Raises:
            UnsupportedTable: The format is unsupported.
        """
        storage = table.raw.sd if partition is None else partition.raw.sd
        serde = storage.serdeInfo
        form = StorageFormat.of(serde.serializationLib, table.ref.full_name)
        return cls(
            table=table.ref.full_name,
            format=form,
            columns=table.columns,
            mapped=table.mapped_columns,
            written=partition.columns if partition and form.is_text else table.columns,
            # Hive also passes the table's properties to a serde, and they take precedence.
            parameters=tuple(sorted({**(serde.parameters or {}), **table.parameters}.items())),
            header=table.number("skip.header.line.count", 0, _LINES),
            footer=table.number("skip.footer.line.count", 0, _LINES),
        )

    def has_ambiguous_columns(self, files: Sequence[PlainFile]) -> bool:
        """Whether the values of some files depend on the column mapping."""
        if self.format.is_text:
            return False
        return any(map(self.mapped.is_ambiguous, in_threads(self.stored_names, files)))

    def stored_names(self, file: PlainFile) -> Sequence[str]:
        """The names of a file's columns."""
        folder, name = split(file.path)
        return stored_names(ReadOnlyStorage.of(folder), name, self.format)

    def write_empty(self, sink: Any) -> int:
        """Write a file without rows and return its size."""
        if self.format.is_text:
            sink.write(b"".join(self._edges))
        else:
            from pyarrow import orc, parquet

            nothing = TableColumns(self.columns).schema.empty_table()
            is_parquet = self.format is StorageFormat.PARQUET
            (parquet if is_parquet else orc).write_table(nothing, sink)
        return int(sink.tell())

    def stager(self) -> Callable[[NewFile], StagedFile]:
        """Return a task function that copies one of the files of an engine and counts its rows."""
        form, (header, footer) = self.format, self._edges

        def stage(new: NewFile) -> StagedFile:
            rows, size = 0, None
            (flat,) = new.parts
            name = OriginalFile(new.bucket, 0).name
            with (
                Storage.of(flat.root).open_input(flat.path) as source,
                staged_file(new.folder, name) as file,
            ):
                sink = file.sink
                if form is StorageFormat.PARQUET:
                    rows = ParquetInput(source, flat.path).metadata.num_rows
                elif form is StorageFormat.ORC:
                    tail = OrcTail.read(source)
                    rows = tail.rows
                    # If any column is encrypted, even the file's statistics must not be changed.
                    if not tail.is_encrypted:
                        size = copy_readable(source, tail, sink)
                if size is None:
                    source.seek(0)
                    sink.write(header)
                    while piece := source.read(_COPY_BYTES):
                        rows += piece.count(b"\n") if form.is_text else 0
                        sink.write(piece)
                    sink.write(footer)
                    size = int(sink.tell())
            return file.result(new.bucket, rows, size)

        return stage

    @property
    def _edges(self) -> tuple[bytes, bytes]:
        """The header and footer lines of a file, which readers skip."""
        names = ",".join(column.name for column in self.columns)
        header = [names, *[""] * self.header][: self.header]
        return "".join(f"{line}\n" for line in header).encode(), b"\n" * self.footer
