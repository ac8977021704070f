"""Storage of table and partition statistics, with or without a promise that they are exact.

Version 4 promises statistics to readers that see the write id that stored them, and every writer
revokes the promise before it commits. A writer that finds no promise has nothing to revoke, so a
new promise takes three steps: announce it, check that no writer that may have missed the
announcement is active, then make it. Every writer with a later write id finds the announcement or
the promise, and removes either.
"""

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal as Number
from typing import Any

from hiveacid.dataclass import dataclass
from hiveacid.errors import TableReplaced
from hiveacid.foreign.text import parse_json
from hiveacid.metastore.alteration import (
    ACCURATE,
    Writer,
    alter_partitions,
    alter_table,
    forget_statistics,
)
from hiveacid.metastore.catalog import ROW_COUNT, HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift import idl_tables as idl
from hiveacid.rules.column_statistics import ColumnStatistics, StatisticsKind
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import Decimal, parse_type
from hiveacid.rules.write_ids import ValidWriteIdList

# Readers trust no statistics with this value, and writers of all engines replace or remove it.
_ANNOUNCED = '{"BASIC_STATS":"false"}'
_ENGINE = "hive"
_PARTITIONS_PER_CALL = 200
# Planners treat it as unknown.
_NO_DISTINCT_COUNT = 0


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """The statistics of a column, and its type."""

    column: HiveColumn
    kind: StatisticsKind
    statistics: ColumnStatistics


@dataclass(frozen=True, slots=True)
class StoredStatistics:
    """The statistics stored for a partition, or for a table without partitions.

    Attributes:
        partition: The name of the partition; null for the table.
        rows: The number of rows.
        files: The number of files.
        bytes: Their size.
        columns: The statistics of columns.
        still_exact: Columns whose statistics are stored already and stay exact.
    """

    partition: str | None
    rows: int
    files: int
    bytes: int
    columns: Sequence[StoredColumn] = ()
    still_exact: frozenset[str] = frozenset()

    def parameters(self) -> dict[str, str]:
        """The parameters that declare these statistics accurate."""
        exact = sorted({column.column.name for column in self.columns} | self.still_exact)
        accurate: dict[str, Any] = {"BASIC_STATS": "true"}
        if exact:
            accurate["COLUMN_STATS"] = dict.fromkeys(exact, "true")
        return {
            ROW_COUNT: str(self.rows),
            "numFiles": str(self.files),
            "totalSize": str(self.bytes),
            # Hive stores 0 for full ACID tables, and then uses the size of the files.
            "rawDataSize": "0",
            ACCURATE: json.dumps(accurate, separators=(",", ":")),
        }


def columns_with_statistics(
    client: MetastoreClient,
    table: HiveTable,
    columns: Sequence[str],
    partitions: Sequence[str],
) -> dict[str | None, dict[str, tuple[Any, Any]]]:
    """Return which columns have statistics, and their bounds.

    A request for a snapshot would not return statistics that are revoked, although they are stored.

    Args:
        client: The metastore.
        table: The table.
        columns: The columns.
        partitions: The partitions; those of the table are returned in any case.

    Returns:
        The smallest and the largest value of each column, by the partition, and None for the table.
            Columns of other types than numbers and dates have no bounds.
    """
    ref = table.ref
    # Hive 3.1 ignores the engine; others require it.
    table_fields = {"dbName": ref.database, "tblName": ref.name, "colNames": list(columns)}
    table_fields["engine"] = _ENGINE
    of_table = client.call(
        idl.get_table_statistics_req, idl.TableStatsRequest(**table_fields), about=ref.full_name
    )
    bounds_by_partition: dict[str | None, dict[str, tuple[Any, Any]]] = {
        None: _bounds(of_table.tableStats)
    }
    for start in range(0, len(partitions), _PARTITIONS_PER_CALL):
        names = list(partitions[start : start + _PARTITIONS_PER_CALL])
        request = idl.PartitionsStatsRequest(**table_fields, partNames=names)
        answer = client.call(idl.get_partitions_statistics_req, request, about=ref.full_name)
        bounds_by_partition |= {
            name: _bounds(partition_stats)
            for name, partition_stats in (answer.partStats or {}).items()
        }
    return {name: bounds for name, bounds in bounds_by_partition.items() if bounds}


def _bounds(column_stats: Sequence[Any] | None) -> dict[str, tuple[Any, Any]]:
    bounds = {}
    for column in column_stats or ():
        kinds = (getattr(column.statsData, name) for name in column.statsData.__slots__)
        data = next((kind for kind in kinds if kind is not None), None)
        low, high = (getattr(data, name, None) for name in ("lowValue", "highValue"))
        bounds[column.colName] = (_plain_bound(low), _plain_bound(high))
    return bounds


def _plain_bound(bound: Any) -> Any:
    """Return a bound as a number; dates are days since 1970."""
    if hasattr(bound, "unscaled"):
        number = int.from_bytes(bound.unscaled, "big", signed=True)
        return Number(number).scaleb(-(bound.scale or 0))
    for name in ("daysSinceEpoch", "secondsSinceEpoch"):
        if hasattr(bound, name):
            return getattr(bound, name)
    return bound


def exact_columns(definition: Any, valid_write_ids: ValidWriteIdList) -> frozenset[str]:
    """Return the columns whose statistics the metastore promises to be exact for a reader.

    Args:
        definition: The Thrift struct of a table or a partition.
        valid_write_ids: The table's write ids that are valid for the reader.
    """
    if (
        definition.writeId
        and definition.writeId > 0
        and not valid_write_ids.is_valid(definition.writeId)
    ):
        return frozenset()
    accurate = _accurate_statistics(definition)
    if not _is_true(accurate.get("BASIC_STATS")):
        return frozenset()
    columns = accurate.get("COLUMN_STATS")
    return (
        frozenset(name for name, exact in columns.items() if _is_true(exact))
        if isinstance(columns, dict)
        else frozenset()
    )


class StatisticsWriter:
    """Stores statistics of one table in a transaction.

    Args:
        client: The metastore.
        table: The table as it was analyzed.
        writer: The transaction.
    """

    def __init__(self, client: MetastoreClient, table: HiveTable, writer: Writer) -> None:
        self._client = client
        self._table = table
        self._writer = writer

    @property
    def _ref(self) -> TableRef:
        return self._table.ref

    def announce(self, partitions: Sequence[str]) -> None:
        """Revoke earlier promises, so that every writer that begins from now on must update them.

        Args:
            partitions: The names of the partitions; empty for a table without any.
        """

        def change(raw: Any) -> bool:
            if self._is_unchanged(raw, _is_announced(raw)):
                return False
            raw.parameters = {**(raw.parameters or {}), ACCURATE: _ANNOUNCED}
            return True

        self._alter(partitions, change)

    def store_columns(self, stored_statistics: Sequence[StoredStatistics]) -> None:
        """Store the statistics of columns, still without a promise."""
        filled_statistics = [
            partition_stats for partition_stats in stored_statistics if partition_stats.columns
        ]
        for start in range(0, len(filled_statistics), _PARTITIONS_PER_CALL):
            statistics = [
                self._columns(partition_stats)
                for partition_stats in filled_statistics[start : start + _PARTITIONS_PER_CALL]
            ]
            request = idl.SetPartitionsStatsRequest(
                colStats=statistics, needMerge=False, engine=_ENGINE
            )
            if self._client.features.versions_definitions:
                request.writeId = self._writer.write_id
                request.validWriteIdList = self._writer.write_ids.format()
            self._writer.confirm()
            self._client.call(idl.set_aggr_stats_for, request, about=self._ref.full_name)

    def mark_accurate(self, stored_statistics: Sequence[StoredStatistics]) -> set[str | None]:
        """Declare statistics accurate where the announcement is still present.

        Returns:
            The partitions, or null for the table, with accurate statistics. A concurrent change
                prevents the declaration.
        """
        by_name = {
            partition_stats.partition: partition_stats for partition_stats in stored_statistics
        }
        names = [name for name in by_name if name is not None]

        def mark(raw: Any, name: str | None) -> bool:
            if not self._is_unchanged(raw, _is_announced(raw)):
                return False
            raw.parameters = {**raw.parameters, **by_name[name].parameters()}
            return True

        if None in by_name:
            alter_table(
                self._client,
                self._table,
                lambda raw: self._is_same(raw) and mark(raw, None),
                self._writer.confirm,
                writer=self._writer,
            )
        else:
            alter_partitions(
                self._client,
                self._table,
                names,
                lambda partition: mark(partition.raw, partition.name),
                self._writer,
            )
        return self._confirmed(by_name, names)

    def forget(self, partitions: Sequence[str]) -> None:
        """Take back all promises."""
        forget_statistics(self._client, self._ref, partitions, self._writer)

    def _confirmed(
        self, by_name: Mapping[str | None, StoredStatistics], names: Sequence[str]
    ) -> set[str | None]:
        """Return where the promise remains, after removing the numbers of all others."""
        definitions: dict[str | None, Any]
        if None in by_name:
            definitions = {None: self._client.get_table(self._ref).raw}
        else:
            partitions = self._client.get_partitions(self._table, names)
            definitions = {partition.name: partition.raw for partition in partitions}
        accurate_names = {
            name
            for name, raw in definitions.items()
            if self._is_unchanged(
                raw, raw.parameters.get(ACCURATE) == by_name[name].parameters()[ACCURATE]
            )
        }
        broken = [name for name in definitions if name not in accurate_names]
        if broken:
            self.forget([name for name in broken if name is not None])
        return accurate_names

    def _alter(self, partitions: Sequence[str], change: Any) -> None:
        if partitions:
            alter_partitions(
                self._client,
                self._table,
                partitions,
                lambda partition: bool(change(partition.raw)),
                self._writer,
            )
        else:
            alter_table(
                self._client,
                self._table,
                lambda raw: self._is_same(raw) and bool(change(raw)),
                self._writer.confirm,
                writer=self._writer,
            )

    def _is_same(self, raw: Any) -> bool:
        """Reject storing the statistics of the analyzed table for other columns.

        Raises:
            TableReplaced: The table has other columns.
        """
        if raw.sd.cols != self._table.raw.sd.cols:
            raise TableReplaced(
                f"{self._ref} was changed while it was analyzed.",
                remedy="Run the analysis again.",
            )
        return True

    def _is_unchanged(self, raw: Any, unchanged: bool) -> bool:
        """Return whether a definition is unchanged since this transaction changed it."""
        versioned = self._client.features.versions_definitions
        is_own = not versioned or raw.writeId == self._writer.write_id
        return is_own and unchanged

    def _columns(self, stored_statistics: StoredStatistics) -> Any:
        longs = not self._client.features.has_timestamp_statistics
        return idl.ColumnStatistics(
            statsDesc=idl.ColumnStatisticsDesc(
                isTblLevel=stored_statistics.partition is None,
                dbName=self._ref.database,
                tableName=self._ref.name,
                partName=stored_statistics.partition,
            ),
            statsObj=[
                idl.ColumnStatisticsObj(
                    column.column.name, column.column.type, _data(column, longs=longs)
                )
                for column in stored_statistics.columns
            ],
            engine=_ENGINE,
        )


def _is_announced(raw: Any) -> bool:
    """Return whether an announcement is present; the metastore rewrites it when it stores columns."""
    return ACCURATE in (raw.parameters or {}) and not _is_true(
        _accurate_statistics(raw).get("BASIC_STATS")
    )


def _accurate_statistics(raw: Any) -> dict[str, Any]:
    """Return the metastore's promises for a table or a partition."""
    try:
        accurate = parse_json((raw.parameters or {}).get(ACCURATE, "{}"))
    except ValueError:
        return {}
    return accurate if isinstance(accurate, dict) else {}


def _is_true(value: object) -> bool:
    return str(value).lower() == "true"


def _data(stored_column: StoredColumn, *, longs: bool) -> Any:
    """Return the metastore's struct; some store the seconds of timestamps as longs."""
    statistics, kind = stored_column.statistics, stored_column.kind
    counts = {"numNulls": statistics.nulls, "numDVs": _NO_DISTINCT_COUNT}
    match kind:
        case StatisticsKind.BOOLEAN:
            booleans = idl.BooleanColumnStatsData(
                numTrues=statistics.trues,
                numFalses=statistics.values - statistics.trues,
                numNulls=statistics.nulls,
            )
            return idl.ColumnStatisticsData(booleanStats=booleans)
        case StatisticsKind.STRING:
            lengths = {"maxColLen": statistics.longest, "avgColLen": statistics.average_length}
            return idl.ColumnStatisticsData(
                stringStats=idl.StringColumnStatsData(**lengths, **counts)
            )
        case StatisticsKind.BINARY:
            binaries = idl.BinaryColumnStatsData(
                maxColLen=statistics.longest,
                avgColLen=statistics.average_length,
                numNulls=statistics.nulls,
            )
            return idl.ColumnStatisticsData(binaryStats=binaries)
        case StatisticsKind.DOUBLE:
            return idl.ColumnStatisticsData(
                doubleStats=idl.DoubleColumnStatsData(statistics.low, statistics.high, **counts)
            )
        case StatisticsKind.DECIMAL:
            type_ = parse_type(stored_column.column.type)
            assert isinstance(type_, Decimal)
            bounds = [_decimal(bound, type_.scale) for bound in (statistics.low, statistics.high)]
            return idl.ColumnStatisticsData(
                decimalStats=idl.DecimalColumnStatsData(*bounds, **counts)
            )
        case StatisticsKind.DATE:
            days = [
                None if day is None else idl.Date(day) for day in (statistics.low, statistics.high)
            ]
            return idl.ColumnStatisticsData(dateStats=idl.DateColumnStatsData(*days, **counts))
        case StatisticsKind.TIMESTAMP if not longs:
            times = [
                None if moment is None else idl.Timestamp(moment)
                for moment in (statistics.low, statistics.high)
            ]
            return idl.ColumnStatisticsData(
                timestampStats=idl.TimestampColumnStatsData(*times, **counts)
            )
    return idl.ColumnStatisticsData(
        longStats=idl.LongColumnStatsData(statistics.low, statistics.high, **counts)
    )


def _decimal(unscaled: int | None, scale: int) -> Any:
    if unscaled is None:
        return None
    length = (unscaled.bit_length() + 8) // 8
    return idl.Decimal(unscaled=unscaled.to_bytes(length, "big", signed=True), scale=scale)
