"""Column names in ORC and Parquet files."""

from collections.abc import Sequence

from pyarrow import parquet

from airflow_hiveacid.layout.listing import read_tail
from airflow_hiveacid.metastore.formats import StorageFormat
from airflow_hiveacid.orc.format.envelope import column_names
from airflow_hiveacid.storage.filesystems import os_errors_as_ours
from airflow_hiveacid.storage.folder import ReadOnlyStorage


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
    with (
        os_errors_as_ours(f"{storage.location.rstrip('/')}/{path}"),
        storage.open_input(path) as source,
    ):
        names: list[str] = parquet.read_schema(source).names
        return names
