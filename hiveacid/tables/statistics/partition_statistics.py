"""Statistics of the visible rows of one partition, or of a table without partitions.

Stripes whose rows are all visible contribute the statistics from the tail of their file. Only
stripes with a deleted or invisible row, and stripes with inexact statistics, are decoded.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from hiveacid.errors import UnsupportedFile, UnsupportedTable
from hiveacid.metastore.catalog import HiveColumn
from hiveacid.metastore.formats import StorageFormat
from hiveacid.orc.format.envelope import EnvelopeColumn, with_column_names
from hiveacid.orc.format.tail import OrcTail
from hiveacid.orc.values.exact_statistics import (
    row_columns,
    stripe_statistics,
)
from hiveacid.rules.column_statistics import (
    ColumnStatistics,
    StatisticsKind,
    kind_of_statistics,
    united,
)
from hiveacid.rules.names import Delta
from hiveacid.rules.schema import HiveType, parse_type
from hiveacid.rules.write_ids import Range
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.listing import DataFile, read_tail
from hiveacid.tables.scan.columns import TableColumns
from hiveacid.tables.scan.parquet_file import parquet_rows
from hiveacid.tables.scan.table_part import TablePart
from hiveacid.tables.statistics.arrow_statistics import NotComparable, statistics_of
from hiveacid.tables.statistics.deleted_keys import DeletedKeys

# Reading a tail is mostly a wait for the file system.
_READERS = 4
_AT_A_TIME = 256
_NO_STATISTICS = "Hive keeps no statistics of this type"
_NAN = "a value is NaN"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatistics:
    """Exact statistics of a partition.

    Attributes:
        rows: The number of visible rows.
        files: The files that a reader opens, delete events included.
        bytes: Their size.
        columns: The statistics of each column, as far as they are known.
        omitted: The reason for each column without statistics.
        stripes: The number of stripes.
        decoded: The number of decoded stripes.
    """

    rows: int = 0
    files: int = 0
    bytes: int = 0
    columns: Mapping[str, ColumnStatistics] = field(default_factory=dict)
    omitted: Mapping[str, str] = field(default_factory=dict)
    stripes: int = 0
    decoded: int = 0


def partition_statistics(
    part: TablePart, columns: Sequence[HiveColumn], wanted: Sequence[str]
) -> PartitionStatistics:
    """Compute the statistics of a partition.

    Args:
        part: All files of the partition that a snapshot reads.
        columns: The columns of the table.
        wanted: The names of the columns to analyze, as the table spells them; may be empty.

    Raises:
        CorruptFile: A file cannot be read.
    """
    return _Analysis(part, columns, wanted).collect()


@dataclass(frozen=True)
class _Undecided:
    """Selects the stripes for the scan to decode."""

    analysis: "_Analysis"

    def stripes(self, tail: OrcTail) -> list[bool]:
        """Return for each stripe whether it is read."""
        return self.analysis.undecided(tail)


class _Analysis:
    def __init__(
        self, part: TablePart, columns: Sequence[HiveColumn], wanted: Sequence[str]
    ) -> None:
        self._part = part
        self._storage = ReadOnlyStorage.of(part.location)
        self._columns: dict[str, tuple[HiveColumn, HiveType, StatisticsKind]] = {}
        self._omitted: dict[str, str] = {}
        for column in columns:
            if column.name in wanted:
                type_ = parse_type(column.type)
                kind = kind_of_statistics(type_)
                if kind is None:
                    self._omitted[column.name] = f"{_NO_STATISTICS}: {column.type}"
                else:
                    self._columns[column.name] = (column, type_, kind)
        self._found: dict[str, list[ColumnStatistics]] = {name: [] for name in self._columns}
        self._deleted = DeletedKeys(())
        self._rows = self._stripes = self._decoded = 0

    def collect(self) -> PartitionStatistics:
        """Collect the statistics from the tails of all files, then decode the remaining stripes."""
        files = self._part.files
        deletes = [file for file in files if _is_delete(file)]
        data = [file for file in files if not _is_delete(file)]
        self._deleted = DeletedKeys.read(self._storage, deletes, self._part.write_ids)
        if self._part.format is StorageFormat.PARQUET:
            self._rows = sum(parquet_rows(self._storage, file.path) for file in data)
            undecided = data if self._columns else []
        else:
            undecided = [file for file, tail in self._tails(data) if self._take(tail)]
        if undecided:
            self._decode(replace(self._part, files=(*undecided, *deletes)))
        known = [name for name in self._columns if name not in self._omitted]
        return PartitionStatistics(
            rows=self._rows,
            files=len(files),
            bytes=sum(file.size for file in files),
            columns={name: united(self._found[name]) for name in known},
            omitted=self._omitted,
            stripes=self._stripes,
            decoded=self._decoded,
        )

    def undecided(self, tail: OrcTail) -> list[bool]:
        """Return for each stripe whether it must be decoded; repeated calls return the same result.

        The decision therefore considers all columns, including those that turn out to lack
        statistics.
        """
        return self._undecided(tail, self._known(tail))

    def _undecided(self, tail: OrcTail, columns: Sequence[Sequence[object]]) -> list[bool]:
        undecided = [
            any(column is None for column in known) or self._hides_rows(tail, number)
            for number, known in enumerate(columns)
        ]
        if self._part.full_acid and not tail.is_acid:
            # The row ids of such files follow from the rows of all of them, and their scan makes no
            # choice among stripes.
            return [bool(self._deleted) or any(undecided)] * len(undecided)
        return undecided

    def _tails(self, files: Sequence[DataFile]) -> Iterator[tuple[DataFile, OrcTail]]:
        """Read the tails of files, some at a time: thousands of them would fill the memory."""
        with ThreadPoolExecutor(_READERS) as pool:
            for start in range(0, len(files), _AT_A_TIME):
                batch = files[start : start + _AT_A_TIME]
                yield from zip(batch, pool.map(self._tail, batch), strict=True)

    def _tail(self, file: DataFile) -> OrcTail:
        tail = read_tail(self._storage, file.path, file.size)
        return replace(tail, types=with_column_names(tail.types, self._part.columns))

    def _take(self, tail: OrcTail) -> bool:
        """Collect the statistics of a tail; return whether a part of the file must be decoded."""
        columns = self._known(tail)
        undecided = self._undecided(tail, columns)
        for stripe, open_, known in zip(tail.stripes, undecided, columns, strict=True):
            if not open_:
                for name, statistics in zip(self._columns, known, strict=True):
                    assert statistics is not None
                    self._found[name].append(statistics)
            if not open_ or not self._part.full_acid:
                self._rows += stripe.rows
        self._stripes += len(undecided)
        self._decoded += sum(undecided)
        return any(undecided)

    def _known(self, tail: OrcTail) -> list[list[ColumnStatistics | None]]:
        """Return for each stripe the statistics of the requested columns from its tail."""
        places = dict(reversed(row_columns(tail)))
        columns: list[list[ColumnStatistics | None]] = []
        for name, (_, type_, _) in self._columns.items():
            number = places.get(name.lower())
            if number is None:
                # A column that was added later is null in older files.
                columns.append([ColumnStatistics(nulls=stripe.rows) for stripe in tail.stripes])
            else:
                columns.append(stripe_statistics(tail, number, type_))
        return [[column[number] for column in columns] for number in range(len(tail.stripes))]

    def _hides_rows(self, tail: OrcTail, stripe: int) -> bool:
        """Return whether a row of a stripe may be deleted or have an invisible write id."""
        if not tail.is_acid:
            return False
        if self._deleted.may_hit(tail, stripe):
            return True
        written = tail.int_range(stripe, EnvelopeColumn.CURRENT_TRANSACTION)
        if written is None:
            return True
        return self._part.write_ids.range_valid(*written) is not Range.ALL

    def _decode(self, part: TablePart) -> None:
        """Add the visible rows of the remaining stripes.

        If a column cannot be decoded, columns are read one by one, and only that column is omitted.
        """
        names = [name for name in self._columns if name not in self._omitted]
        try:
            self._rows += self._read(part, names)
        except (UnsupportedFile, UnsupportedTable):
            self._rows += self._read(part, [])
            for name in names:
                try:
                    self._read(part, [name])
                except (UnsupportedFile, UnsupportedTable) as error:
                    self._omitted[name] = error.what

    def _read(self, part: TablePart, names: Sequence[str]) -> int:
        """Atomically add the statistics of some columns; return the number of rows with ids."""
        rows = 0
        found: dict[str, list[ColumnStatistics]] = {name: [] for name in names}
        nan: set[str] = set()
        columns = TableColumns([self._columns[name][0] for name in names], unit=None)
        for batch, values in part.rows(columns, _Undecided(self)):
            rows += 0 if batch is None else len(batch)
            for name, array in zip(names, values.columns, strict=True):
                try:
                    found[name].append(statistics_of(array, self._columns[name][2]))
                except NotComparable:
                    nan.add(name)
        for name in names:
            self._found[name] += found[name]
        self._omitted.update(dict.fromkeys(sorted(nan), _NAN))
        return rows


def _is_delete(file: DataFile) -> bool:
    return isinstance(file.directory, Delta) and file.directory.is_delete
