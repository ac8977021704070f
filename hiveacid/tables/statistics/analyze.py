"""ANALYZE TABLE: compute statistics of a snapshot and store them so that readers may trust them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Context
from decimal import Decimal as Number
from typing import Any

import numpy as np

from hiveacid.errors import InvalidJob, NotTransactional, UnknownColumn, UserError
from hiveacid.jobs.analyze_job import AnalyzeJob
from hiveacid.jobs.reports.analyze_report import (
    AnalyzedColumn,
    AnalyzedPartition,
    AnalyzeReport,
)
from hiveacid.metastore.alteration import Writer
from hiveacid.metastore.catalog import HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.same_table import require_same_definition
from hiveacid.metastore.statistics import (
    StatisticsWriter,
    StoredColumn,
    StoredStatistics,
    exact_columns,
)
from hiveacid.metastore.table_rules import existing_table
from hiveacid.metastore.txn.owner import abort_open_transactions
from hiveacid.metastore.txn.snapshot import Snapshot
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.progress import Phase, PhaseClock
from hiveacid.rules.column_statistics import kind_of_statistics
from hiveacid.rules.names import TableRef, parse_partition_name
from hiveacid.rules.partition_filter import KeyComparison, matching_partitions
from hiveacid.rules.schema import Decimal, HiveType, Primitive, TableKind, parse_type
from hiveacid.rules.write_ids import ValidWriteIdList
from hiveacid.tables.scan.visible_table import PartitionDirectory, see_table
from hiveacid.tables.statistics.partition_statistics import (
    PartitionStatistics,
    partition_statistics,
)

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
        NotTransactional: The table is not transactional.
        UnknownColumn: The table has no such column.
        UserError: A named partition does not exist.
        UnsupportedTable: Its files hold lines of text.
        TableReplaced: The table was changed meanwhile.
    """
    job.validate()
    phases = phases or PhaseClock()
    table = existing_table(client, TableRef.parse(job.target))
    if table.kind is TableKind.NOT_ACID:
        raise NotTransactional(
            f"{table.ref} is not transactional.", remedy="Let its engine analyze it."
        )
    wanted = _wanted(table, job)
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
        analysis = _Analysis(client, table, txn, write_id, wanted)
        with phases(Phase.READ, "the files"):
            analysis.read(job)
        with phases(Phase.REGISTER, "the statistics"):
            accurate = analysis.store()
            if accurate and not client.version.versions_definitions:
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


def _wanted(table: HiveTable, job: AnalyzeJob) -> list[str]:
    """The columns that are analyzed, as the table names them."""
    if job.rows_only:
        return []
    known = {column.name.lower(): column.name for column in table.columns}
    if job.columns is None:
        return list(known.values())
    names = [name.strip("`").lower() for name in job.columns]
    if unknown := sorted({*names} - {*known}):
        raise UnknownColumn(
            f"{table.ref} has no column {', '.join(unknown)} to analyze.",
            remedy=f"Its columns are {', '.join(known.values())}; partition keys need no statistics.",
        )
    return [known[name] for name in dict.fromkeys(names)]


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
        wanted: Sequence[str],
    ) -> None:
        self.warnings: list[str] = []
        self._client = client
        self._table = table
        self._txn = txn
        self._write_id = write_id
        self._wanted = wanted
        self._results: list[_Result] = []
        self._partitions: dict[str, HivePartition] = {}
        writer = Writer(write_id, self._seen, txn.confirm_alive)
        self._writer = StatisticsWriter(client, table, writer)

    @property
    def _seen(self) -> ValidWriteIdList:
        return self._txn.snapshot.write_ids[self._table.ref.full_name]

    def read(self, job: AnalyzeJob) -> None:
        """Compute the statistics of all partitions that the job names."""

        def choose(table: HiveTable, names: Sequence[str]) -> Sequence[str]:
            return _chosen(table, names, job.partitions)

        if job.partitions is not None and not self._table.partition_keys:
            raise InvalidJob(f"{self._table.ref} has no partitions.")
        visible = see_table(self._client, self._txn, self._table, partitions=choose)
        names = [each.name for each in visible.partitions if each.name is not None]
        self._partitions = {
            each.name: each for each in self._client.get_partitions(self._table, names)
        }
        # Read after the snapshot: a transaction that commits in between revokes the statistics that
        # are exact by then.
        described = self._txn.definitions.confirmed(self._table).raw
        exact = {None: exact_columns(described, self._seen)} | {
            name: exact_columns(each.raw, self._seen) for name, each in self._partitions.items()
        }
        for directory in visible.partitions:
            part = visible.part(directory)
            statistics = partition_statistics(part, self._table.columns, self._wanted)
            self._results.append(
                _Result(
                    directory,
                    self._storable(statistics),
                    exact.get(directory.name, frozenset()) - {*self._wanted},
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
        stored = [self._stored(found) for found in self._results]
        busy = self._who_writes()
        if busy is not None:
            self.warnings.append(
                f"The statistics are not exact: {busy}. Planners use the stored column statistics."
            )
            self._writer.store_columns(stored)
            self._writer.forget(names)
            return set()
        self._writer.store_columns(stored)
        marked = self._writer.mark_accurate(stored)
        if len(marked) < len(stored):
            self.warnings.append(
                f"{len(stored) - len(marked)} of {len(stored)} statistics are not exact: another"
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
                partition=found.directory.name,
                rows=found.statistics.rows,
                files=found.statistics.files,
                bytes=found.statistics.bytes,
                columns=tuple(self._column_reports(found.statistics)),
                omitted=found.statistics.omitted,
                stripes=found.statistics.stripes,
                stripes_decoded=found.statistics.decoded,
                accurate=found.directory.name in accurate,
            )
            for found in self._results
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
            for name, each in statistics.columns.items()
            if not each.values and (kind := kinds[name]) is not None and kind.has_range
        ]
        return replace(
            statistics,
            columns={n: each for n, each in statistics.columns.items() if n not in empty},
            omitted={**statistics.omitted, **dict.fromkeys(empty, _NO_VALUE)},
        )

    def _who_writes(self) -> str | None:
        """Return a reason why a writer that missed the announcement may be active, if any."""
        name = self._table.ref.full_name
        now = Snapshot.take(self._client, [self._table.ref]).write_ids[name]
        others = [each for each in (*self._seen.open, *now.open) if each != self._write_id]
        if others:
            return f"write id {min(others)} of {name} was open"
        if now.high_watermark > self._write_id:
            return f"write id {now.high_watermark} of {name} is newer"
        return None

    def _stored(self, found: _Result) -> StoredStatistics:
        columns = []
        for column in self._table.columns:
            kind = kind_of_statistics(parse_type(column.type))
            statistics = found.statistics.columns.get(column.name)
            if kind is not None and statistics is not None:
                columns.append(StoredColumn(column, kind, statistics))
        counted = found.statistics
        return StoredStatistics(
            found.directory.name,
            counted.rows,
            counted.files,
            counted.bytes,
            columns,
            found.still_exact,
        )

    def _column_reports(self, statistics: PartitionStatistics) -> list[AnalyzedColumn]:
        types = {column.name: parse_type(column.type) for column in self._table.columns}
        return [
            AnalyzedColumn(
                name=name,
                nulls=each.nulls,
                low=shown(each.low, types[name]),
                high=shown(each.high, types[name]),
            )
            for name, each in statistics.columns.items()
        ]


def _chosen(table: HiveTable, names: Sequence[str], asked: Sequence[str] | None) -> Sequence[str]:
    """Return the partitions that match all keys of one of the requested names."""
    if asked is None:
        return names
    clauses = [[KeyComparison(*each) for each in parse_partition_name(text)] for text in asked]
    values = {name: dict(parse_partition_name(name)) for name in names}
    found = matching_partitions(clauses, table.key_types, values)
    for text, matches in zip(asked, found, strict=True):
        if not matches:
            raise UserError(
                f"{table.ref} has no partition {text}.",
                remedy=f"It has, for example, {', '.join(names[:3])}." if names else None,
            )
    chosen = {name for matches in found for name in matches}
    return [name for name in names if name in chosen]


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
