"""Limits of the data files of Iceberg tables, which are checked before their rows are decoded.

Small files may describe a lot of memory: a footer with millions of columns, rows that are only a
number, or a long text that each row repeats by its number in a dictionary.
"""

from typing import Any

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat

from hiveacid.errors import CorruptFile, TooLarge
from hiveacid.foreign.parquet import ParquetInput
from hiveacid.iceberg.catalog_files import DataFiles
from hiveacid.orc.format.batches import rows_at_a_time
from hiveacid.orc.format.tail import OrcTail

_MOST_GROUPS = 1 << 15
# Also the columns inside of others.
_MOST_COLUMNS = 1 << 16
# Of a column in a row group, without compression.
_LARGEST_COLUMN, _LEAST_COLUMN, _SHARE_OF_FILE = 2 << 30, 64 << 20, 64
_LEAST_WIDTH = 16
# pyiceberg reads a file of deleted positions as a whole: with a path in each row of an ORC file.
_LARGEST_PATH = 128


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
            except (CorruptFile, TooLarge) as error:
                limit_error = _beyond(error.what) if isinstance(error, TooLarge) else error
                message = (
                    limit_error.what if path in limit_error.what else f"{path}: {limit_error.what}"
                )
                raise CorruptFile(message, remedy=limit_error.remedy) from error
        return self._checked[path]

    def _fits(self, file: DataFile) -> bool:
        deletes = file.content is not DataFileContent.DATA
        input_file = self._files.new_input(file.file_path)
        with input_file.open() as source:
            if file.file_format is FileFormat.ORC:
                return _orc_fits(source, len(input_file), deletes=deletes)
            if file.file_format is FileFormat.PARQUET:
                _require_small_parquet(source, file.file_path, deletes=deletes)
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


def _require_small_parquet(source: Any, path: str, *, deletes: bool) -> None:
    parquet_file = ParquetInput(source, path)
    metadata = parquet_file.metadata
    groups, columns = metadata.num_row_groups, metadata.num_columns
    _require(groups <= _MOST_GROUPS, f"It has {groups} row groups.")
    _require(columns <= _MOST_COLUMNS, f"It has {columns} columns.")
    if deletes:
        rows = metadata.num_rows
        _require(rows * _LEAST_WIDTH <= _LARGEST_COLUMN, f"It deletes {rows} rows.")
    parquet_file.require_small(
        min(_LARGEST_COLUMN, _LEAST_COLUMN + _SHARE_OF_FILE * parquet_file.size)
    )


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise _beyond(problem)


def _beyond(problem: str) -> CorruptFile:
    return CorruptFile(
        f"{problem} The comparison does not decode that.", remedy="Compare the tables with Spark."
    )
