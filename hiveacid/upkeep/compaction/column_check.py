"""Refusal of compactions that would change values which depend on the mapping of columns.

Engines that map columns by position and engines that map them by name read different values from a
file whose columns were renamed later. A compaction writes all rows with the current columns, so it
must choose. By position, every stored value is kept under its new name. By name, the values of
renamed columns would be lost for the engines that still show them.
"""

from collections.abc import Sequence
from functools import partial

from hiveacid.errors import UnsupportedFile
from hiveacid.jobs.definitions.table_properties import COLUMN_MAPPING
from hiveacid.metastore.formats import StorageFormat
from hiveacid.rules.schema import ColumnMapping, MappedColumns
from hiveacid.storage.file_columns import stored_names
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.threads import in_threads


def check_columns(
    storage: ReadOnlyStorage,
    columns: MappedColumns,
    format: StorageFormat,
    files: Sequence[tuple[str, int]],
) -> None:
    """Refuse files if a compaction would drop values of them.

    Args:
        storage: The folder of the partition.
        columns: The columns of the table.
        format: The format of the files.
        files: The path of each file below the folder, and the length of its valid part in bytes.

    Raises:
        UnsupportedFile: A compaction would drop values of a file.
    """
    names = in_threads(partial(_names, storage, format), files)
    for (path, _), stored in zip(files, names, strict=True):
        check_names(columns, stored, f"{storage.location.rstrip('/')}/{path}")


def check_names(columns: MappedColumns, stored: Sequence[str], path: str) -> None:
    """Refuse a file if a compaction would drop values of it.

    Args:
        columns: The columns of the table.
        stored: The names of the columns of the file.
        path: The file.

    Raises:
        UnsupportedFile: A compaction would drop values of the file.
    """
    if not columns.is_ambiguous(stored):
        return
    by_position = columns.mapping is ColumnMapping.POSITION
    if by_position and len(stored) <= len(columns.names):
        return
    raise UnsupportedFile(
        f"{path} has the columns {', '.join(stored)}, and the table has {', '.join(columns.names)}:"
        f" mapped by {columns.mapping}, a compaction would drop values that other engines still"
        " show.",
        remedy=(
            "Give the columns that the table lacks back to it."
            if by_position
            else f"Set the table property '{COLUMN_MAPPING}'='{ColumnMapping.POSITION}' if all"
            " engines map columns by position, or give the columns their old names back."
        ),
    )


def _names(storage: ReadOnlyStorage, format: StorageFormat, file: tuple[str, int]) -> Sequence[str]:
    path, size = file
    return stored_names(storage, path, format, size)
