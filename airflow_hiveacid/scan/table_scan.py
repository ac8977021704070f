"""TableScan: a table for Arrow, pandas, DuckDB and Polars, without Spark and without Java."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Literal, get_args

import pyarrow as pa  # noqa: TID253

from airflow_hiveacid.acid.as_of import AsOf
from airflow_hiveacid.acid.names import TableRef
from airflow_hiveacid.authorizer import program_user
from airflow_hiveacid.errors import UnknownColumn, UserError
from airflow_hiveacid.jobs.options.metastore_options import MetastoreOptions
from airflow_hiveacid.maintenance.location_owners import require_job_access
from airflow_hiveacid.metastore.catalog import HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.table_rules import existing_table
from airflow_hiveacid.scan.columns import TableColumns
from airflow_hiveacid.scan.visible_table import snapshot_of

Unit = Literal["us", "ns"]


class TableScan:
    """The visible rows of a transactional table, as Arrow's batches.

    Every call reads in a transaction of its own, which prevents cleaners from removing the files
    and ends with the last batch, with an error, or when the batches are released. So each call sees
    the table as of the request for its first batch.

    DuckDB accepts a scan directly, and so does any consumer of Arrow streams, like Polars::

        orders = TableScan("sales.orders", "thrift://hms:9083", columns=["id", "price"])
        duckdb.sql("SELECT sum(price) FROM orders")
        pyarrow.table(orders)

    Args:
        name: The table, ``"database.table"``.
        metastore: The metastore's uri, or all its options.
        columns: The names of the columns, in their order; all by default.
        partitions: The names of the partitions, ``"day=2026-05-01"``; all by default.
        as_of_write_id: Read the table as it was after this write id, without later writes.
        as_of_time: Read the table as it was at this time; a text is in ISO form, and a time without
            a zone in UTC.
        timestamps: Their unit: microseconds, ``"us"``, or nanoseconds, ``"ns"``, which exclude
            years before 1677 or after 2262.
    """

    def __init__(
        self,
        name: str,
        metastore: str | MetastoreOptions,
        *,
        columns: Sequence[str] | None = None,
        partitions: Sequence[str] | None = None,
        as_of_write_id: int | None = None,
        as_of_time: datetime | str | None = None,
        timestamps: Unit = "us",
    ) -> None:
        if timestamps not in get_args(Unit):
            raise UserError(
                f"Timestamps are counted in {' or '.join(get_args(Unit))}, not {timestamps!r}."
            )
        if columns is not None and not columns:
            raise UserError("Rows without any column cannot be counted.", remedy="Name one.")
        self.ref = TableRef.parse(name)
        self._metastore = MetastoreOptions.of(metastore)
        with MetastoreClient(self._metastore) as client:
            require_job_access(client, program_user(), self.ref)
        self._columns = columns
        self._partitions = partitions
        self._as_of = AsOf.of(as_of_write_id, as_of_time)
        self._unit = timestamps

    @property
    def schema(self) -> pa.Schema:
        """The columns and their types, the partition keys last.

        Raises:
            UnsupportedTable: A type does not exist in Arrow.
        """
        with MetastoreClient(self._metastore) as client:
            return columns_of(existing_table(client, self.ref), self._columns, self._unit)[1]

    def batches(self) -> pa.RecordBatchReader:
        """Read the rows in batches.

        A reader that is not read to its end must be closed or released: until then the transaction
        stays open.

        Raises:
            UnknownColumn: The table lacks a requested column.
            UnsupportedTable: Its files hold lines of text, or a type that does not exist in Arrow.
        """
        reading = self._read()
        schema: pa.Schema = next(reading)
        return pa.RecordBatchReader.from_batches(schema, reading)

    def to_arrow(self) -> pa.Table:
        """Read all rows into an Arrow table; see ``batches``."""
        return self.batches().read_all()

    def to_pandas(self) -> Any:
        """Read all rows into a pandas data frame with Arrow columns; see ``batches``.

        So nulls, decimals and days keep their types.
        """
        from pandas import ArrowDtype  # type: ignore[import-untyped]

        return self.to_arrow().to_pandas(types_mapper=ArrowDtype)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows, for all that understands Arrow."""
        return self.batches().__arrow_c_stream__(requested_schema)

    def _read(self) -> Iterator[Any]:
        """First the schema, then the batches."""
        with (
            MetastoreClient(self._metastore) as client,
            snapshot_of(client, self.ref, as_of=self._as_of, partitions=self._chosen) as visible,
        ):
            assert visible.table is not None
            wanted, schema = columns_of(visible.table, self._columns, self._unit)
            yield schema
            for partition in visible.partitions:
                for _, batch in visible.part(partition).rows(wanted):
                    yield batch.select(schema.names)

    def _chosen(self, table: HiveTable, names: Sequence[str]) -> Sequence[str]:
        if self._partitions is None:
            return names
        if unknown := sorted({*self._partitions} - {*names}):
            raise UserError(
                f"{table.ref.full_name} has no partition {', '.join(unknown)}.",
                remedy=f"It has, for example, {', '.join(names[:3])}." if names else None,
            )
        return [name for name in names if name in self._partitions]


def columns_of(
    table: HiveTable, asked: Sequence[str] | None, unit: str
) -> tuple[TableColumns, pa.Schema]:
    """Return the columns to read from a table, and the schema in the requested order.

    Args:
        table: The table.
        asked: The names of the columns, in any case; by default all.
        unit: The unit of timestamps.

    Raises:
        UnknownColumn: The table lacks a requested column.
    """
    known = {column.name.lower(): column for column in (*table.columns, *table.partition_keys)}
    names = list(known) if asked is None else [name.lower() for name in asked]
    if unknown := [name for name in names if name not in known]:
        raise UnknownColumn(
            f"{table.ref.full_name} has no column {', '.join(unknown)}.",
            remedy=f"Its columns are {', '.join(each.name for each in known.values())}.",
        )
    wanted = TableColumns(
        [column for column in table.columns if column.name.lower() in names],
        [key for key in table.partition_keys if key.name.lower() in names],
        unit,
    )
    return wanted, pa.schema([wanted.schema.field(known[name].name) for name in names])
