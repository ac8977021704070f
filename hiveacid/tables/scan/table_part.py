"""Some files of a table that can be read by themselves, in another process, too."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa  # noqa: TID253

from hiveacid.errors import UnsupportedTable
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.formats import StorageFormat
from hiveacid.rules.directory import AcidDirectory, Rules
from hiveacid.rules.names import Delta
from hiveacid.rules.schema import MappedColumns, TableKind
from hiveacid.rules.write_ids import CompactorWriteIdList, ValidWriteIdList
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.listing import DataFile, data_files
from hiveacid.tables.scan.columns import TableColumns
from hiveacid.tables.scan.orc_file import OrcFile, shares_of
from hiveacid.tables.scan.parquet_file import ParquetFile
from hiveacid.tables.scan.row_filter import StripeChoice
from hiveacid.tables.scan.visible_rows import RowBatch, VisibleRows

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
    """

    location: str
    values: Mapping[str, str | None]
    format: StorageFormat
    files: tuple[DataFile, ...]
    full_acid: bool
    clustered: bool
    columns: MappedColumns
    write_ids: ValidWriteIdList | CompactorWriteIdList
    rules: Rules

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
        wanted: TableColumns,
        choice: StripeChoice | None = None,
        *,
        needs_ids: bool = True,
    ) -> Iterator[Rows]:
        """Read the rows; see ``readers``."""
        for read in self.readers(wanted, choice, needs_ids=needs_ids):
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


def _flat_files(state: AcidDirectory) -> Iterator[DataFile]:
    """The files of a directory of an insert-only table."""
    for directory in ("", *filter(None, (state.base,)), *state.deltas):
        for file in state.files(directory):
            if file.size:  # An empty file is neither a valid ORC nor a valid Parquet file.
                yield DataFile(file.path, file.size, None, None, raw=True)
