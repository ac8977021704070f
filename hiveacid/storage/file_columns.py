"""The columns of a table as its files store them."""

from collections.abc import Sequence

from hiveacid.foreign.parquet import ParquetInput
from hiveacid.metastore.catalog import HiveTable, StorageFormat
from hiveacid.orc.format.envelope import column_names
from hiveacid.orc.format.tail import row_types
from hiveacid.rules.schema import row_struct
from hiveacid.storage.filesystems import translated_os_errors
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.listing import read_tail


def orc_row_types(table: HiveTable) -> tuple[bytes, ...]:
    """The types of the row of a full ACID table, as its ORC files declare them."""
    return row_types(row_struct([(column.name, column.type) for column in table.columns]))


def stored_names(
    storage: ReadOnlyStorage, path: str, format: StorageFormat, size: int | None = None
) -> Sequence[str]:
    """Read the names of the columns of a file, without the ACID envelope.

    Args:
        storage: The folder of its partition.
        path: The file, below the folder.
        format: ORC or Parquet.
        size: The length of its valid part in bytes; None means all.
    """
    if format is StorageFormat.ORC:
        return column_names(read_tail(storage, path, size).types)
    location = f"{storage.location.rstrip('/')}/{path}"
    with translated_os_errors(location), storage.open_input(path) as source:
        return ParquetInput(source, location).names
