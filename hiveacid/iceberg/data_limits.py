"""Limits of the data files of Iceberg tables, which are checked before their rows are decoded.

Small files may describe a lot of memory: a footer with millions of columns, rows that are only a
number, or a long text that each row repeats by its number in a dictionary.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat

from hiveacid.errors import CorruptFile
from hiveacid.iceberg.catalog_files import DataFiles
from hiveacid.orc.format.batches import rows_at_a_time
from hiveacid.orc.format.tail import OrcTail, most_rows

_LARGEST_FOOTER = 16 << 20
_MOST_GROUPS = 1 << 15
# Also the columns inside of others.
_MOST_COLUMNS = 1 << 16
# Of a column in a row group, without compression.
_LARGEST_COLUMN = 2 << 30
_LEAST_WIDTH = 16
# pyiceberg reads a file of deleted positions as a whole: with a path in each row of an ORC file.
_LARGEST_PATH = 128
_TAIL, _MAGIC = 8, b"PAR1"
_BATCH = 65_536


class DataLimits:
    """The limits of the files of a table.

    Args:
        files: Opens them.
    """

    def __init__(self, files: DataFiles) -> None:
        self._files = files
        self._checked: dict[str, bool] = {}

    def fit(self, file: DataFile) -> bool:
        """Check a file, and return whether pyiceberg may read it.

        It decodes stripes of ORC files as a whole, which the reader of Hive tables does not.

        Raises:
            CorruptFile: The file describes more data than it may contain, or than may be decoded.
        """
        path = file.file_path
        if path not in self._checked:
            try:
                self._checked[path] = self._fits(file)
            except CorruptFile as error:
                raise CorruptFile(f"{path}: {error.what}") from error
        return self._checked[path]

    def _fits(self, file: DataFile) -> bool:
        deletes = file.content is not DataFileContent.DATA
        opened = self._files.new_input(file.file_path)
        with opened.open() as source:
            if file.file_format is FileFormat.ORC:
                return _orc_fits(source, len(opened), deletes=deletes)
            if file.file_format is FileFormat.PARQUET:
                _require_small_parquet(source, len(opened), deletes=deletes)
            else:
                # The library of bitmaps trusts their bytes.
                _require(False, f"It is a {file.file_format.value} file.")
        return True


def _orc_fits(source: Any, size: int, *, deletes: bool) -> bool:
    tail = OrcTail.read(source, size)
    if deletes:
        _require(tail.rows * _LARGEST_PATH <= _LARGEST_COLUMN, f"It deletes {tail.rows} rows.")
    fits = all(
        rows_at_a_time(source, tail, number) >= stripe.rows
        for number, stripe in enumerate(tail.stripes)
    )
    _require(fits or not deletes, "A stripe needs too much memory.")
    return fits


def _require_small_parquet(source: Any, size: int, *, deletes: bool) -> None:
    _require(size >= 2 * _TAIL, "It is no Parquet file.")
    source.seek(size - _TAIL)
    end = source.read(_TAIL)
    footer = int.from_bytes(end[:4], "little")
    _require(end[4:] == _MAGIC, "It is no Parquet file.")
    _require(footer <= min(size, _LARGEST_FOOTER), f"Its footer has {footer} bytes.")
    source.seek(0)
    try:
        opened = pa.PythonFile(source, "r")
        metadata = parquet.read_metadata(opened)
        _require_few_values(metadata, size)
        if deletes:
            rows = metadata.num_rows
            _require(rows * _LEAST_WIDTH <= _LARGEST_COLUMN, f"It deletes {rows} rows.")
        for column in _texts_of(metadata):
            _require_short_texts(opened, metadata, column)
    except pa.ArrowException as error:
        raise CorruptFile(f"It cannot be read as Parquet: {error}") from error


def _require_few_values(metadata: parquet.FileMetaData, size: int) -> None:
    groups, columns = metadata.num_row_groups, metadata.num_columns
    _require(groups <= _MOST_GROUPS, f"It has {groups} row groups.")
    _require(columns <= _MOST_COLUMNS, f"It has {columns} columns.")
    _require(
        0 <= metadata.num_rows <= most_rows(size),
        f"{size} bytes claim to have {metadata.num_rows} rows.",
    )
    widths = [
        max(metadata.schema.column(number).length or 0, _LEAST_WIDTH) for number in range(columns)
    ]
    rows = 0
    for group in map(metadata.row_group, range(groups)):
        rows += group.num_rows
        for number, width in enumerate(widths):
            column = group.column(number)
            plain, values = column.total_uncompressed_size, column.num_values
            _require(
                0 <= column.total_compressed_size <= size and 0 <= plain <= _LARGEST_COLUMN,
                f"A column of a row group has {plain} bytes.",
            )
            _require(
                0 <= values * width <= _LARGEST_COLUMN and group.num_rows >= 0,
                f"A column of a row group has {values} values of {width} bytes.",
            )
    _require(rows == metadata.num_rows, "Its row groups have other rows than it has.")


def _texts_of(metadata: parquet.FileMetaData) -> list[int]:
    """Return the columns whose rows may repeat a long text."""
    return [
        number
        for number in range(metadata.num_columns)
        if metadata.schema.column(number).physical_type == "BYTE_ARRAY"
    ]


def _require_short_texts(
    source: pa.NativeFile, metadata: parquet.FileMetaData, column: int
) -> None:
    """Sum up the lengths of the texts of a column, of which each is decoded only once."""
    path = metadata.schema.column(column).path
    file = parquet.ParquetFile(source, metadata=metadata, read_dictionary=[path])
    for number in range(metadata.num_row_groups):
        found = metadata.row_group(number).column(column)
        if found.num_values * found.total_uncompressed_size <= _LARGEST_COLUMN:
            continue
        size = 0
        for batch in file.iter_batches(
            _BATCH, row_groups=[number], columns=[path], use_threads=False
        ):
            size += sum(map(_length, _texts(batch.column(0))))
            _require(size <= _LARGEST_COLUMN, f"The texts of {path} have more than {size} bytes.")


def _texts(array: Any) -> Iterator[Any]:
    """Yield the texts inside of an array, encoded by their dictionary."""
    if isinstance(array, pa.StructArray):
        for field in array.flatten():
            yield from _texts(field)
    elif isinstance(array, pa.MapArray):
        yield from _texts(array.keys)
        yield from _texts(array.items)
    elif isinstance(array, pa.ListArray | pa.LargeListArray):
        yield from _texts(array.flatten())
    elif isinstance(array, pa.DictionaryArray):
        yield array


def _length(texts: pa.DictionaryArray) -> int:
    lengths = pc.binary_length(texts.dictionary).cast(pa.int64())
    return pc.sum(lengths.take(texts.indices)).as_py() or 0


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise CorruptFile(
            f"{problem} The comparison does not decode that.",
            remedy="Compare the tables with Spark.",
        )
