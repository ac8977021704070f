"""Checks that the footers of the written files answer, without a look at the rows."""

from collections.abc import Iterator, Sequence
from datetime import date, datetime
from decimal import Context
from decimal import Decimal as Number
from typing import Any

from hiveacid.jobs.checks import InRange, NotNull, RowCheck
from hiveacid.metastore.catalog import HiveTable, StorageFormat
from hiveacid.orc.format.tail import OrcTail
from hiveacid.orc.values.column_bounds import all_values_in, ranges_of
from hiveacid.rules.schema import Decimal, HiveType, Primitive, parse_type
from hiveacid.storage.filesystems import in_threads
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.listing import read_tail
from hiveacid.writes.statement import Part

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_FIRST_DAY = date(1970, 1, 1)
# A rounded bound would prove too much.
_EXACT = Context(prec=100)


class WrittenFooters:
    """The footers of the rows that statements have written into one table."""

    def __init__(self, parts: Sequence[Part]) -> None:
        """Name the files, which are published.

        Args:
            parts: The statements on the table.
        """
        self._table = parts[0].statement.table
        self._parts = parts
        self._tails: list[OrcTail] | None = None

    def prove(self, check: RowCheck) -> bool:
        """Return whether all written rows certainly satisfy a check."""
        if check.whole_table or not isinstance(check, NotNull | InRange):
            return False
        types = {column.name.lower(): parse_type(column.type) for column in self._table.columns}
        names = [name.lower() for name in check.columns_needed]
        if not _is_orc(self._table) or not all(name in types for name in names):
            return False
        if isinstance(check, NotNull):
            return all(all_values_in(tail, name) for tail in self._read() for name in names)
        return self._are_within(check, types[names[0]])

    def _are_within(self, check: InRange, type_: HiveType) -> bool:
        bounds = [
            None if limit is None else _bound(limit, type_) for limit in (check.min, check.max)
        ]
        if [bound is None for bound in bounds] != [check.min is None, check.max is None]:
            return False  # A bound has another type than the column.
        low, high = bounds
        for tail in self._read():
            for bounds_in_file in ranges_of(tail, check.column, type_):
                if bounds_in_file is None:
                    return False
                if bounds_in_file.is_empty:
                    continue
                if (low is not None and bounds_in_file.low < low) or (
                    high is not None and bounds_in_file.high > high
                ):
                    return False
        return True

    def _read(self) -> list[OrcTail]:
        if self._tails is None:
            files = [file for part in self._parts for file in _files(part)]
            self._tails = in_threads(lambda file: read_tail(*file), files)
        return self._tails


def _files(part: Part) -> Iterator[tuple[ReadOnlyStorage, str, int]]:
    """Yield the files of rows: their folder, their name, and their size."""
    output = part.output
    for (folder, name), directory in zip(output.staged, output.directories, strict=True):
        if name.startswith("delete_"):
            continue
        storage = ReadOnlyStorage.of(directory)
        for file, staged_file in zip(
            output.file_names(folder, name), output.staged[folder, name], strict=True
        ):
            yield storage, file, staged_file.bytes


def _is_orc(table: HiveTable) -> bool:
    return StorageFormat.of(table.serde, table.ref.full_name) is StorageFormat.ORC


def _bound(value: Any, type_: HiveType) -> Any:
    """Return a bound as footers count it; None if SQL would convert it or the column first."""
    match type_:
        case Primitive(name) if name in _INTEGERS:
            return value if type(value) is int else None
        case Primitive("date"):
            is_day = isinstance(value, date) and not isinstance(value, datetime)
            return (value - _FIRST_DAY).days if is_day else None
        case Decimal(scale=scale):
            return Number(value).scaleb(scale, _EXACT) if type(value) in (int, Number) else None
    return None
