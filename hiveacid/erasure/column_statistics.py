"""Statistics of columns in the metastore, whose bounds remain after a delete.

Version 4 deletes no statistics of transactional tables. So they are computed again, and those of
columns without any value become zero, which planners take for unknown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hiveacid.erasure.keys import KeySet, key_texts
from hiveacid.jobs.definition_jobs import AnalyzeJob
from hiveacid.jobs.options import marked_token
from hiveacid.metastore.alteration import Writer
from hiveacid.metastore.catalog import HiveColumn, HiveTable
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
from hiveacid.rules.schema import parse_type
from hiveacid.tables.statistics import analyze

Known = Mapping[str | None, Mapping[str, tuple[Any, Any]]]


@dataclass(frozen=True)
class Statistics:
    """The statistics of the columns of a table.

    Attributes:
        client: The metastore.
        table: The table.
        column: The column with the keys.
        keys: The keys.
        run_token: The name of the transactions.
    """

    client: MetastoreClient
    table: HiveTable
    column: HiveColumn
    keys: KeySet
    run_token: str

    def renew(self, affected: frozenset[str | None]) -> list[str]:
        """Replace the statistics where files held keys, or where a key is a bound.

        Args:
            affected: The partitions, or None for a table without partitions.

        Returns:
            What was replaced, "database.table/partition: column".
        """
        known = self._known()
        stale = {
            name: [*columns]
            for name, columns in known.items()
            if name in affected or name is None or self._has_key(columns)
        }
        if not stale:
            return []
        omitted = self._computed(stale)
        # The statistics of a partitioned table as a whole are never computed.
        omitted |= {None: stale[None]} if None in stale and self.table.partition_keys else {}
        for name, columns in self._known().items():
            if name in stale and self._has_key(columns):
                omitted[name] = [*omitted.get(name, ()), self.column.name]
        self._set_to_zero({name: columns for name, columns in omitted.items() if columns})
        table = self.table.ref.full_name
        return [
            f"{table if name is None else f'{table}/{name}'}: {column}"
            for name, columns in stale.items()
            for column in columns
        ]

    def has_key(self) -> bool:
        """Whether a key is a bound of any statistics."""
        return any(map(self._has_key, self._known().values()))

    def _known(self) -> Known:
        ref = self.table.ref
        names = self.client.get_partition_names(ref) if self.table.partition_keys else []
        columns = [column.name for column in self.table.columns]
        return columns_with_statistics(self.client, self.table, columns, names)

    def _computed(self, stale: Mapping[str | None, Sequence[str]]) -> dict[str | None, list[str]]:
        """Compute statistics again; return the columns without a value, whose statistics remain."""
        partitions = [name for name in stale if name is not None]
        if self.table.partition_keys and not partitions:
            return {}
        job = AnalyzeJob(
            target=self.table.ref.full_name,
            partitions=partitions or None,
            columns=sorted({column for columns in stale.values() for column in columns}),
            metastore=self.client.options,
            run_token=self.run_token,
        )
        return {
            each.partition: [name for name in each.omitted if name in stale[each.partition]]
            for each in analyze(self.client, job).partitions
            if each.partition in stale
        }

    def _has_key(self, columns: Mapping[str, tuple[Any, Any]]) -> bool:
        bounds = next(
            (found for name, found in columns.items() if name.lower() == self.column.name.lower()),
            (None, None),
        )
        is_date = str(parse_type(self.column.type)) == "date"
        for bound in bounds:
            if bound is None:
                continue
            values = pa.array([bound])
            if is_date:
                values = values.cast(pa.int32()).cast(pa.date32())
            if key_texts(values)[0].as_py() in self.keys:
                return True
        return False

    def _set_to_zero(self, stale: Mapping[str | None, Sequence[str]]) -> None:
        if not stale:
            return
        by_name = {column.name: column for column in self.table.columns}
        ref = self.table.ref
        with Transaction(
            self.client,
            reads=[ref],
            keeps_files=True,
            run_token=marked_token(self.run_token, [ref.full_name]),
        ) as txn:
            write_id = self.client.allocate_write_id(txn.txn_id, ref)
            snapshot = Snapshot.take(self.client, [ref], txn.txn_id)
            writer = Writer(write_id, snapshot.write_ids[ref.full_name], txn.confirm_alive)
            stored = [
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
            StatisticsWriter(self.client, self.table, writer).store_columns(stored)
            txn.commit()
