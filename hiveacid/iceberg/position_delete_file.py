"""Position delete files of Iceberg: the numbers of the deleted rows of one data file, as Parquet.

Each file is bound to one data file by the bounds of its paths, so that readers of other data files
skip it.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.manifest import (
    POSITIONAL_DELETE_SCHEMA,
    DataFile,
    DataFileContent,
    FileFormat,
)
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, StringType

from hiveacid.errors import IcebergRefused
from hiveacid.iceberg.catalog_files import EXPORT_ANEW
from hiveacid.iceberg.data_file_task import DeleteFileTask, WrittenDeleteFile
from hiveacid.storage.filesystems import translated_os_errors
from hiveacid.storage.folder import Storage

_PATH = POSITIONAL_DELETE_SCHEMA.find_field("file_path").field_id
_POSITION = POSITIONAL_DELETE_SCHEMA.find_field("pos").field_id
_ID = "PARQUET:field_id"
_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={_ID: str(_PATH)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={_ID: str(_POSITION)}),
    ]
)


def write_positions(task: DeleteFileTask, positions: NDArray[np.int64]) -> int:
    """Write a position delete file, and return its size.

    Args:
        task: The data file, and the folder and name of the new file.
        positions: The ascending numbers of the deleted rows.
    """
    paths = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(len(positions), dtype=np.int32)), pa.array([task.data_file])
    )
    rows = pa.Table.from_arrays([paths.cast(pa.string()), pa.array(positions)], schema=_SCHEMA)
    content = pa.BufferOutputStream()
    parquet.write_table(rows, content, compression="zstd")
    data = content.getvalue()
    path = f"{task.target.rstrip('/')}/{task.name}"
    with translated_os_errors(path), Storage.of(task.target).create(task.name) as sink:
        sink.write(data)
    return len(data)


def delete_entry(file: WrittenDeleteFile, path: str, partition: Record, spec_id: int) -> DataFile:
    """Describe a position delete file for Iceberg.

    Args:
        file: The file.
        path: Its location.
        partition: The partition of its data file.
        spec_id: The number of the definition of the partitions.
    """
    location = to_bytes(StringType(), file.data_file)
    return DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=partition,
        record_count=file.rows,
        file_size_in_bytes=file.bytes,
        column_sizes={},
        value_counts={_PATH: file.rows, _POSITION: file.rows},
        null_value_counts={_PATH: 0, _POSITION: 0},
        nan_value_counts={},
        # Complete locations, of which readers take the only data file.
        lower_bounds={_PATH: location, _POSITION: to_bytes(LongType(), file.first)},
        upper_bounds={_PATH: location, _POSITION: to_bytes(LongType(), file.last)},
        split_offsets=None,
        sort_order_id=None,
        spec_id=spec_id,
        equality_ids=None,
        key_metadata=None,
    )


def data_file_of(deletes: DataFile) -> str:
    """Return the location of the data file with the rows that a delete file names.

    Raises:
        IcebergRefused: No export has written the delete file.
    """
    lower, upper = (deletes.lower_bounds or {}), (deletes.upper_bounds or {})
    if deletes.content is not DataFileContent.POSITION_DELETES or (
        lower.get(_PATH) is None or lower.get(_PATH) != upper.get(_PATH)
    ):
        raise IcebergRefused(
            f"No export has written the delete file {deletes.file_path}.", remedy=EXPORT_ANEW
        )
    location: str = from_bytes(StringType(), lower[_PATH])
    return location
