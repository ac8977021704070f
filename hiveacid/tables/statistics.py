"""ANALYZE TABLE: compute statistics of a snapshot and store them so that readers may trust them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from decimal import Context
from decimal import Decimal as Number
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute

from hiveacid.dataclass import dataclass
from hiveacid.errors import (
    InvalidJob,
    UnknownColumn,
    UnsupportedFile,
    UnsupportedTable,
    UserError,
    WrongTableKind,
)
from hiveacid.foreign.budget import Threads
from hiveacid.jobs.definition_jobs import AnalyzeJob
from hiveacid.jobs.report import AnalyzedColumn, AnalyzedPartition, AnalyzeReport
from hiveacid.metastore.alteration import Writer
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable, StorageFormat
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.statistics import (
    StatisticsWriter,
    StoredColumn,
    StoredStatistics,
    exact_columns,
)
from hiveacid.metastore.table_rules import existing_table, require_same_definition
from hiveacid.metastore.txn.owner import Snapshot, abort_open_transactions
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.orc.format.envelope import EnvelopeColumn, with_column_names
from hiveacid.orc.format.tail import OrcTail
from hiveacid.orc.row_keys.row_id_set import RowIdSet
from hiveacid.orc.values.column_bounds import row_columns, stripe_statistics
from hiveacid.progress import Phase, PhaseClock
from hiveacid.rules.column_statistics import (
    ColumnStatistics,
    StatisticsKind,
    kind_of_statistics,
    united,
)
from hiveacid.rules.names import Delta, TableRef, parse_partition_name
from hiveacid.rules.partitions import KeyComparison, matching_partitions
from hiveacid.rules.schema import Decimal, HiveType, Primitive, TableKind, parse_type
from hiveacid.rules.sql_names import unquoted
from hiveacid.rules.write_ids import Range, ValidWriteIdList
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.listing import DataFile, read_tail
from hiveacid.tables.scan.columns import TableColumns
from hiveacid.tables.scan.orc_file import OrcFile
from hiveacid.tables.scan.parquet_file import parquet_rows
from hiveacid.tables.scan.table_part import TablePart
from hiveacid.tables.scan.visible_table import PartitionDirectory, see_table

# Column statistics of decoded rows


class NotComparable(Exception):
    """A column holds a value that has no place in an order."""


def statistics_of(column: pa.Array, kind: StatisticsKind) -> ColumnStatistics:
    """The statistics of a column of the table's own type, its timestamps as ``scan.times`` has them.

    Raises:
        NotComparable: A number is NaN.
    """
    nulls = column.null_count
    values = len(column) - nulls
    if not values:
        return ColumnStatistics(nulls=nulls)
    match kind:
        case StatisticsKind.BOOLEAN:
            trues = compute.sum(column.cast(pa.int64())).as_py()
            return ColumnStatistics(values, nulls, trues=trues)
        case StatisticsKind.STRING | StatisticsKind.BINARY:
            lengths = compute.binary_length(column)
            length, longest = compute.sum(lengths).as_py(), compute.max(lengths).as_py()
            return ColumnStatistics(values, nulls, length=length, longest=longest)
    low, high = _range(column, kind)
    return ColumnStatistics(values, nulls, low, high)


def _range(column: pa.Array, kind: StatisticsKind) -> tuple[Any, Any]:
    match kind:
        case StatisticsKind.DOUBLE:
            if compute.any(compute.is_nan(column)).as_py():
                raise NotComparable
            low, high = _min_max(column)
            return low + 0.0, high + 0.0
        case StatisticsKind.DATE:
            return _min_max(column.cast(pa.int32()))
        case StatisticsKind.TIMESTAMP:
            return _min_max(compute.drop_null(column).field(0))
        case StatisticsKind.DECIMAL:
            low, high = _min_max(column)
            scale = column.type.scale
            return _unscaled(low, scale), _unscaled(high, scale)
    return _min_max(column)


def _min_max(column: pa.Array) -> tuple[Any, Any]:
    bounds = compute.min_max(column)
    return bounds["min"].as_py(), bounds["max"].as_py()


def _unscaled(value: Any, scale: int) -> int:
    sign, digits, exponent = value.as_tuple()
    number: int = int("".join(map(str, digits))) * 10 ** (exponent + scale)
    return -number if sign else number


# Statistics of the visible rows of one partition, or of a table without partitions.
#
# Stripes whose rows are all visible contribute the statistics from the tail of their file. Only
# stripes with a deleted or invisible row, and stripes with inexact statistics, are decoded.


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
    part: TablePart, columns: Sequence[HiveColumn], column_names: Sequence[str]
) -> PartitionStatistics:
    """Compute the statistics of a partition.

    Args:
        part: All files of the partition that a snapshot reads.
        columns: The columns of the table.
        column_names: The names of the columns to analyze, as the table spells them; may be empty.

    Raises:
        CorruptFile: A file cannot be read.
    """
    return _PartitionAnalysis(part, columns, column_names).collect()


@dataclass(frozen=True)
class _Undecided:
    """Selects the stripes for the scan to decode."""

    analysis: "_PartitionAnalysis"

    def stripes(self, tail: OrcTail) -> list[bool]:
        """Return for each stripe whether it is read."""
        return self.analysis.undecided(tail)


class _PartitionAnalysis:
    def __init__(
        self, part: TablePart, columns: Sequence[HiveColumn], column_names: Sequence[str]
    ) -> None:
        self._part = part
        self._storage = ReadOnlyStorage.of(part.location)
        self._columns: dict[str, tuple[HiveColumn, HiveType, StatisticsKind]] = {}
        self._omitted: dict[str, str] = {}
        for column in columns:
            if column.name in column_names:
                type_ = parse_type(column.type)
                kind = kind_of_statistics(type_)
                if kind is None:
                    self._omitted[column.name] = f"{_NO_STATISTICS}: {column.type}"
                else:
                    self._columns[column.name] = (column, type_, kind)
        self._found: dict[str, list[ColumnStatistics]] = {name: [] for name in self._columns}
        self._deleted = RowIdSet(())
        self._rows = self._stripes = self._decoded = 0

    def collect(self) -> PartitionStatistics:
        """Collect the statistics from the tails of all files, then decode the remaining stripes."""
        files = self._part.files
        deletes = [file for file in files if _is_delete(file)]
        data = [file for file in files if not _is_delete(file)]
        self._deleted = RowIdSet(
            ids
            for file in deletes
            for ids in OrcFile(self._storage, file).events(self._part.write_ids)
        )
        if self._part.format is StorageFormat.PARQUET:
            self._rows = sum(parquet_rows(self._storage, file.path) for file in data)
            undecided = data if self._columns else []
        else:
            undecided = [file for file, tail in self._tails(data) if self._take(tail)]
        if undecided:
            self._decode(replace(self._part, files=(*undecided, *deletes)))
        names = [name for name in self._columns if name not in self._omitted]
        return PartitionStatistics(
            rows=self._rows,
            files=len(files),
            bytes=sum(file.size for file in files),
            columns={name: united(self._found[name]) for name in names},
            omitted=self._omitted,
            stripes=self._stripes,
            decoded=self._decoded,
        )

    def undecided(self, tail: OrcTail) -> list[bool]:
        """Return for each stripe whether it must be decoded; repeated calls return the same result.

        The decision therefore considers all columns, including those that turn out to lack
        statistics.
        """
        return self._undecided(tail, self._statistics_of_tail(tail))

    def _undecided(self, tail: OrcTail, columns: Sequence[Sequence[object]]) -> list[bool]:
        undecided = [
            any(column is None for column in bounds) or self._hides_rows(tail, number)
            for number, bounds in enumerate(columns)
        ]
        if self._part.full_acid and not tail.is_acid:
            # The row ids of such files follow from the rows of all of them, and their scan makes no
            # choice among stripes.
            return [bool(self._deleted) or any(undecided)] * len(undecided)
        return undecided

    def _tails(self, files: Sequence[DataFile]) -> Iterator[tuple[DataFile, OrcTail]]:
        """Read the tails of files, some at a time: thousands of them would fill the memory."""
        with Threads(_READERS) as pool:
            for start in range(0, len(files), _AT_A_TIME):
                batch = files[start : start + _AT_A_TIME]
                yield from zip(batch, pool.map(self._tail, batch), strict=True)

    def _tail(self, file: DataFile) -> OrcTail:
        tail = read_tail(self._storage, file.path, file.size)
        return replace(tail, types=with_column_names(tail.types, self._part.columns))

    def _take(self, tail: OrcTail) -> bool:
        """Collect the statistics of a tail; return whether a part of the file must be decoded."""
        columns = self._statistics_of_tail(tail)
        undecided = self._undecided(tail, columns)
        for stripe, open_, statistics_of_stripe in zip(
            tail.stripes, undecided, columns, strict=True
        ):
            if not open_:
                for name, statistics in zip(self._columns, statistics_of_stripe, strict=True):
                    assert statistics is not None
                    self._found[name].append(statistics)
            if not open_ or not self._part.full_acid:
                self._rows += stripe.rows
        self._stripes += len(undecided)
        self._decoded += sum(undecided)
        return any(undecided)

    def _statistics_of_tail(self, tail: OrcTail) -> list[list[ColumnStatistics | None]]:
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
        if self._deleted.may_be_in(tail, stripe):
            return True
        id_range = tail.int_range(stripe, EnvelopeColumn.CURRENT_TRANSACTION)
        if id_range is None:
            return True
        return self._part.write_ids.range_valid(*id_range) is not Range.ALL

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
        statistics: dict[str, list[ColumnStatistics]] = {name: [] for name in names}
        nan: set[str] = set()
        columns = TableColumns([self._columns[name][0] for name in names], unit=None)
        for batch, values in part.rows(columns, _Undecided(self)):
            rows += 0 if batch is None else len(batch)
            for name, array in zip(names, values.columns, strict=True):
                try:
                    statistics[name].append(statistics_of(array, self._columns[name][2]))
                except NotComparable:
                    nan.add(name)
        for name in names:
            self._found[name] += statistics[name]
        self._omitted.update(dict.fromkeys(sorted(nan), _NAN))
        return rows


def _is_delete(file: DataFile) -> bool:
    return isinstance(file.directory, Delta) and file.directory.is_delete


_NO_VALUE = "it has no value, or null alone"
_EXACT = Context(prec=80)


def analyze(
    client: MetastoreClient, job: AnalyzeJob, *, phases: PhaseClock | None = None
) -> AnalyzeReport:
    """Store statistics of a table that are exact for every reader that sees the transaction.

    Args:
        client: The metastore.
        job: The table, partitions and columns to analyze.
        phases: Receives the phases of the run.

    Raises:
        WrongTableKind: The table is not transactional.
        UnknownColumn: The table has no such column.
        UserError: A named partition does not exist.
        UnsupportedTable: Its files hold lines of text.
        TableReplaced: The table was changed meanwhile.
    """
    job.validate()
    phases = phases or PhaseClock()
    table = existing_table(client, TableRef.parse(job.target))
    if table.kind is TableKind.NOT_ACID:
        raise WrongTableKind(
            f"{table.ref} is not transactional.", remedy="Let its engine analyze it."
        )
    column_names = _columns_to_analyze(table, job)
    if job.tokens:
        abort_open_transactions(client, *job.tokens)
    with Transaction(
        client,
        reads=[table.ref],
        keeps_files=True,  # Version 4 allocates no write id to read-only transactions.
        run_token=job.token,
        lock_wait_seconds=job.lock_wait_seconds,
        max_restarts=job.max_restarts,
        phases=phases,
    ) as txn:
        write_id = client.allocate_write_id(txn.txn_id, table.ref)
        # Once more, so that it sees the write id, too.
        txn.snapshot = Snapshot.take(client, [table.ref], txn.txn_id)
        analysis = _Analysis(client, table, txn, write_id, column_names)
        with phases(Phase.READ, "the files"):
            analysis.read(job)
        with phases(Phase.REGISTER, "the statistics"):
            accurate = analysis.store()
            if accurate and not client.features.versions_definitions:
                accurate = analysis.confirm(accurate)
        txn.commit()
    return AnalyzeReport(
        target=table.ref.full_name,
        txn_id=txn.txn_id,
        write_id=write_id,
        partitions=analysis.reports(accurate),
        seconds=phases.seconds,
        warnings=(*analysis.warnings, *txn.warnings),
    )


def _columns_to_analyze(table: HiveTable, job: AnalyzeJob) -> list[str]:
    """The columns that are analyzed, as the table names them."""
    if job.rows_only:
        return []
    columns_by_name = {column.name.lower(): column.name for column in table.columns}
    if job.columns is None:
        return list(columns_by_name.values())
    names = [unquoted(name).lower() for name in job.columns]
    if unknown_names := sorted({*names} - {*columns_by_name}):
        raise UnknownColumn(
            f"{table.ref} has no column {', '.join(unknown_names)} to analyze.",
            remedy=f"Its columns are {', '.join(columns_by_name.values())}; partition keys need no statistics.",
        )
    return [columns_by_name[name] for name in dict.fromkeys(names)]


@dataclass(frozen=True, slots=True)
class _Result:
    """The statistics of a directory, and the columns whose stored statistics remain exact."""

    directory: PartitionDirectory
    statistics: PartitionStatistics
    still_exact: frozenset[str]


class _Analysis:
    """The analysis of one table in one transaction.

    Attributes:
        warnings: The reasons why the statistics have no promise of exactness.
    """

    def __init__(
        self,
        client: MetastoreClient,
        table: HiveTable,
        txn: Transaction,
        write_id: int,
        column_names: Sequence[str],
    ) -> None:
        self.warnings: list[str] = []
        self._client = client
        self._table = table
        self._txn = txn
        self._write_id = write_id
        self._columns_to_analyze = column_names
        self._results: list[_Result] = []
        self._partitions: dict[str, HivePartition] = {}
        writer = Writer(write_id, self._write_ids, txn.confirm_alive)
        self._writer = StatisticsWriter(client, table, writer)

    @property
    def _write_ids(self) -> ValidWriteIdList:
        return self._txn.snapshot.write_ids[self._table.ref.full_name]

    def read(self, job: AnalyzeJob) -> None:
        """Compute the statistics of all partitions that the job names."""

        def choose(table: HiveTable, names: Sequence[str]) -> Sequence[str]:
            return _matching_partitions(table, names, job.partitions)

        if job.partitions is not None and not self._table.partition_keys:
            raise InvalidJob(f"{self._table.ref} has no partitions.")
        visible = see_table(self._client, self._txn, self._table, partitions=choose)
        names = [partition.name for partition in visible.partitions if partition.name is not None]
        self._partitions = {
            partition.name: partition
            for partition in self._client.get_partitions(self._table, names)
        }
        # Read after the snapshot: a transaction that commits in between revokes the statistics that
        # are exact by then.
        definition = self._txn.definitions.confirmed(self._table).raw
        exact = {None: exact_columns(definition, self._write_ids)} | {
            name: exact_columns(partition.raw, self._write_ids)
            for name, partition in self._partitions.items()
        }
        for directory in visible.partitions:
            part = visible.part(directory)
            statistics = partition_statistics(part, self._table.columns, self._columns_to_analyze)
            self._results.append(
                _Result(
                    directory,
                    self._storable(statistics),
                    exact.get(directory.name, frozenset()) - {*self._columns_to_analyze},
                )
            )

    def store(self) -> set[str | None]:
        """Store the computed statistics and return the partitions with a promise of exactness."""
        if not self._results:
            return set()
        require_same_definition(
            self._client,
            self._table,
            list(self._partitions.values()),
            (self._txn.txn_id, self._write_id),
        )
        names = list(self._partitions)
        self._writer.announce(names)
        stored_statistics = [self._stored(result) for result in self._results]
        busy = self._who_writes()
        if busy is not None:
            self.warnings.append(
                f"The statistics are not exact: {busy}. Planners use the stored column statistics."
            )
            self._writer.store_columns(stored_statistics)
            self._writer.forget(names)
            return set()
        self._writer.store_columns(stored_statistics)
        marked = self._writer.mark_accurate(stored_statistics)
        if len(marked) < len(stored_statistics):
            self.warnings.append(
                f"{len(stored_statistics) - len(marked)} of {len(stored_statistics)} statistics are not exact: another"
                " transaction was writing."
            )
        return marked

    def confirm(self, marked: set[str | None]) -> set[str | None]:
        """Revoke promises on a metastore that does not detect concurrent writers.

        Returns:
            The partitions whose promise remains.
        """
        now = Snapshot.take(self._client, [self._table.ref])
        if now.write_ids[self._table.ref.full_name].high_watermark == self._write_id:
            return marked
        self.warnings.append("The statistics are not exact: another transaction was writing.")
        self._writer.forget(list(self._partitions))
        return set()

    def reports(self, accurate: set[str | None]) -> tuple[AnalyzedPartition, ...]:
        """Report the results partition by partition."""
        return tuple(
            AnalyzedPartition(
                partition=result.directory.name,
                rows=result.statistics.rows,
                files=result.statistics.files,
                bytes=result.statistics.bytes,
                columns=tuple(self._column_reports(result.statistics)),
                omitted=result.statistics.omitted,
                stripes=result.statistics.stripes,
                stripes_decoded=result.statistics.decoded,
                accurate=result.directory.name in accurate,
            )
            for result in self._results
        )

    def _storable(self, statistics: PartitionStatistics) -> PartitionStatistics:
        """Leave out the columns without any value.

        The metastore keeps its old bounds if it receives no new ones, so Hive would answer min and
        max from rows that no longer exist.
        """
        kinds = {
            column.name: kind_of_statistics(parse_type(column.type))
            for column in self._table.columns
        }
        empty = [
            name
            for name, column_statistics in statistics.columns.items()
            if not column_statistics.values and (kind := kinds[name]) is not None and kind.has_range
        ]
        return replace(
            statistics,
            columns={
                n: column_statistics
                for n, column_statistics in statistics.columns.items()
                if n not in empty
            },
            omitted={**statistics.omitted, **dict.fromkeys(empty, _NO_VALUE)},
        )

    def _who_writes(self) -> str | None:
        """Return a reason why a writer that missed the announcement may be active, if any."""
        name = self._table.ref.full_name
        now = Snapshot.take(self._client, [self._table.ref]).write_ids[name]
        open_ids = [
            write_id
            for write_id in (*self._write_ids.open, *now.open)
            if write_id != self._write_id
        ]
        if open_ids:
            return f"write id {min(open_ids)} of {name} was open"
        if now.high_watermark > self._write_id:
            return f"write id {now.high_watermark} of {name} is newer"
        return None

    def _stored(self, result: _Result) -> StoredStatistics:
        columns = []
        for column in self._table.columns:
            kind = kind_of_statistics(parse_type(column.type))
            statistics = result.statistics.columns.get(column.name)
            if kind is not None and statistics is not None:
                columns.append(StoredColumn(column, kind, statistics))
        partition_statistics = result.statistics
        return StoredStatistics(
            result.directory.name,
            partition_statistics.rows,
            partition_statistics.files,
            partition_statistics.bytes,
            columns,
            result.still_exact,
        )

    def _column_reports(self, statistics: PartitionStatistics) -> list[AnalyzedColumn]:
        types = {column.name: parse_type(column.type) for column in self._table.columns}
        return [
            AnalyzedColumn(
                name=name,
                nulls=column_statistics.nulls,
                low=shown(column_statistics.low, types[name]),
                high=shown(column_statistics.high, types[name]),
            )
            for name, column_statistics in statistics.columns.items()
        ]


def _matching_partitions(
    table: HiveTable, names: Sequence[str], requested: Sequence[str] | None
) -> Sequence[str]:
    """Return the partitions that match all keys of one of the requested names."""
    if requested is None:
        return names
    clauses = [
        [KeyComparison(*comparison) for comparison in parse_partition_name(text)]
        for text in requested
    ]
    values = {name: dict(parse_partition_name(name)) for name in names}
    matches_by_clause = matching_partitions(clauses, table.key_types, values)
    for text, matches in zip(requested, matches_by_clause, strict=True):
        if not matches:
            raise UserError(
                f"{table.ref} has no partition {text}.",
                remedy=f"It has, for example, {', '.join(names[:3])}." if names else None,
            )
    chosen_names = {name for matches in matches_by_clause for name in matches}
    return [name for name in names if name in chosen_names]


def shown(value: Any, hive_type: HiveType) -> str | None:
    """Format a bound of a column's values as SQL writes it; null remains null."""
    if value is None:
        return None
    match hive_type:
        case Decimal(_, scale):
            return format(Number(value).scaleb(-scale, _EXACT), "f")
        case Primitive("date"):
            return str(np.datetime64(value, "D"))
        case Primitive("timestamp"):
            return str(np.datetime64(value, "s")).replace("T", " ")
    return str(value)
