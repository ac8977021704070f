"""Statistics of columns in the metastore, whose bounds remain after a delete.

Version 4 deletes no statistics of transactional tables. So they are computed again, and those of
columns without any value become zero, which planners take for unknown.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from hiveacid.dataclass import dataclass
from hiveacid.erasure.keys import KeyHolder, date_text, key_texts
from hiveacid.jobs.definition_jobs import AnalyzeJob
from hiveacid.metastore.alteration import Writer
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.statistics import (
    StatisticsWriter,
    StoredColumn,
    StoredStatistics,
    columns_with_statistics,
)
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.column_statistics import ColumnStatistics, kind_of_statistics
from hiveacid.rules.run_tokens import marked_token
from hiveacid.rules.schema import parse_type
from hiveacid.tables.statistics import analyze

# The smallest and the largest value of each column.
Bounds = Mapping[str, tuple[Any, Any]]


@dataclass(frozen=True)
class Statistics:
    """The statistics of the columns of a table.

    Attributes:
        client: The metastore.
        holder: The table with the keys.
        run_token: The name of the transactions.
    """

    client: MetastoreClient
    holder: KeyHolder
    run_token: str

    def renew(self, affected: frozenset[str | None]) -> list[str]:
        """Replace the statistics where files held keys, or where a key is a bound.

        Args:
            affected: The partitions, or None for a table without partitions.

        Returns:
            What was replaced, "database.table/partition: column".
        """
        stored = self._bounds()
        stale = {
            name: [*columns]
            for name, columns in stored.items()
            if name in affected or name is None or self._holds_key(columns)
        }
        if not stale:
            return []
        omitted = self._compute(stale)
        # The statistics of a partitioned table as a whole are never computed.
        omitted |= {None: stale[None]} if None in stale and self.holder.table.partition_keys else {}
        for name, columns in self._bounds().items():
            if name in stale and self._holds_key(columns):
                omitted[name] = [*omitted.get(name, ()), self.holder.column.name]
        self._set_to_zero({name: columns for name, columns in omitted.items() if columns})
        return [
            f"{'/'.join(filter(None, (self.holder.name, name)))}: {column}"
            for name, columns in stale.items()
            for column in columns
        ]

    def has_key(self) -> bool:
        """Whether a key is a bound of any statistics."""
        return any(map(self._holds_key, self._bounds().values()))

    def _bounds(self) -> Mapping[str | None, Bounds]:
        table = self.holder.table
        names = self.client.get_partition_names(table.ref) if table.partition_keys else []
        columns = [column.name for column in table.columns]
        return columns_with_statistics(self.client, table, columns, names)

    def _compute(self, stale: Mapping[str | None, Sequence[str]]) -> dict[str | None, list[str]]:
        """Compute statistics again; return the columns without a value, whose statistics remain."""
        partitions = [name for name in stale if name is not None]
        if self.holder.table.partition_keys and not partitions:
            return {}
        job = AnalyzeJob(
            target=self.holder.name,
            partitions=partitions or None,
            columns=sorted({column for columns in stale.values() for column in columns}),
            metastore=self.client.options,
            run_token=self.run_token,
        )
        return {
            computed.partition: [
                name for name in computed.omitted if name in stale[computed.partition]
            ]
            for computed in analyze(self.client, job).partitions
            if computed.partition in stale
        }

    def _holds_key(self, columns: Bounds) -> bool:
        wanted = self.holder.column.name.lower()
        is_date = str(parse_type(self.holder.column.type)) == "date"
        return any(
            (date_text(bound) if is_date else key_texts(pa.array([bound]))[0].as_py())
            in self.holder.keys
            for name, bounds in columns.items()
            if name.lower() == wanted
            for bound in bounds
            if bound is not None
        )

    def _set_to_zero(self, stale: Mapping[str | None, Sequence[str]]) -> None:
        if not stale:
            return
        ref = self.holder.table.ref
        by_name = {column.name: column for column in self.holder.table.columns}
        with Transaction(
            self.client,
            reads=[ref],
            keeps_files=True,
            run_token=marked_token(self.run_token, [self.holder.name]),
        ) as txn:
            write_id = self.client.allocate_write_id(txn.txn_id, ref)
            snapshot = Snapshot.take(self.client, [ref], txn.txn_id)
            writer = Writer(write_id, snapshot.write_ids[self.holder.name], txn.confirm_alive)
            statistics = [
                StoredStatistics(
                    partition=name,
                    rows=0,
                    files=0,
                    bytes=0,
                    columns=[
                        StoredColumn(by_name[column], kind, ColumnStatistics(low=0, high=0))
                        for column in columns
                        if (kind := kind_of_statistics(parse_type(by_name[column].type)))
                    ],
                )
                for name, columns in stale.items()
            ]
            StatisticsWriter(self.client, self.holder.table, writer).store_columns(statistics)
            txn.commit()
