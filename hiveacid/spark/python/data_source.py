"""`spark.read.format("hiveacid")`: tables through Spark's Python data source API.

Spark runs the methods of a source in separate processes, which end when a query is planned: no
process remains to keep a transaction alive and to end it. So a transaction without locks stays
open, which keeps the cleaner of Hive 4 away from the files; other cleaners wait only for locks. The
reading tasks keep the transaction alive, and the metastore ends it after the last task.

The end of the planning verifies the listings. Files that vanish later are an error of the task, and
each task compares the definition of the table after its last row.
"""

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from functools import reduce
from itertools import compress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from hiveacid.dataclass import dataclass
from hiveacid.errors import UserError
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.authorizer import program_user
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import require_same_definition
from hiveacid.metastore.thrift.answers import TxnType
from hiveacid.metastore.txn.heartbeat import (
    HEARTBEATS_PER_TIMEOUT,
    Heartbeat,
    txn_timeout_seconds,
)
from hiveacid.metastore.txn.owner import Owner, open_transaction
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.names import TableRef
from hiveacid.rules.write_ids import AsOf
from hiveacid.spark.spark_versions import python_data_sources
from hiveacid.tables.locations import require_job_access
from hiveacid.tables.scan.columns import TableColumns
from hiveacid.tables.scan.row_filter import Expression, RowFilter
from hiveacid.tables.scan.table_part import TablePart
from hiveacid.tables.scan.table_scan import columns_of
from hiveacid.tables.scan.visible_table import see_table

_OF_METASTORE = (
    *("user", "token_env", "tls_ca_file", "auth_mechanism", "kerberos_service_name"),
    *("kerberos_principal", "kerberos_keytab", "kerberos_ccache"),
    *("kerberos_min_protection", "column_mapping", "metastore_profile"),
)
_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
# By the names of their classes, since Spark 4.0 has no filters.
_COMPARISONS: Mapping[str, Callable[[Expression, Any], Expression]] = {
    "EqualTo": operator.eq,
    "In": lambda field, values: field.isin(list(values)),
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
}
# The types for which Python's, Arrow's and Spark's comparisons agree.
_COMPARED = {
    "tinyint": int,
    "smallint": int,
    "int": int,
    "bigint": int,
    "date": date,
    "string": str,
}
if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
else:
    _api = python_data_sources()
    DataSource, DataSourceReader = _api.DataSource, _api.DataSourceReader
    InputPartition = _api.InputPartition


class HiveAcidDataSource(DataSource):
    """Reads transactional tables as ``spark.read.format("hiveacid")``.

    Example::

        HiveAcidDataSource.register(spark)
        orders = spark.read.format("hiveacid").option("metastore", "thrift://hms:9083")
        orders.option("table", "sales.orders").option("columns", "id, price").load()

    Options:
        table: The table, "database.table".
        metastore: The metastore's uri. "user", "token_env", "tls_ca_file", "auth_mechanism" and the
            Kerberos options as in MetastoreOptions.
        columns: The names of the columns, separated by commas; all by default.
        asOfWriteId, asOfTime: The version to read.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "hiveacid"

    @classmethod
    def register(cls, spark: SparkSession) -> None:
        """Register the format in a session, and enable filter push-down."""
        spark.dataSource.register(cls)
        # Spark refuses sources that accept filters unless this is enabled.
        spark.conf.set(_PUSHDOWN, "true")

    def schema(self) -> StructType:
        """The columns, with the partition keys last unless the columns are named."""
        with MetastoreClient(self._metastore) as client:
            _, schema = columns_of(client.get_table(self._ref), self._columns, "us")
        return spark_schema(schema)

    def reader(self, schema: StructType) -> "HiveAcidReader":
        """Return a reader for the columns of a schema."""
        get = self.options.get
        write_id = get("asOfWriteId")
        return HiveAcidReader(
            self._ref,
            self._metastore,
            AsOf.of(None if write_id is None else int(write_id), get("asOfTime")),
            schema,
        )

    @property
    def _ref(self) -> TableRef:
        ref = TableRef.parse(self._required("table"))
        with MetastoreClient(self._metastore) as client:
            require_job_access(client, program_user(), ref)
        return ref

    @property
    def _columns(self) -> list[str] | None:
        names = self.options.get("columns")
        return None if names is None else [name.strip() for name in names.split(",")]

    @property
    def _metastore(self) -> MetastoreOptions:
        settings = {name: self.options.get(name) for name in _OF_METASTORE}
        known_settings: dict[str, Any] = {
            name: value for name, value in settings.items() if value is not None
        }
        return MetastoreOptions.of(
            MetastoreOptions(uris=self._required("metastore"), **known_settings)
        )

    def _required(self, name: str) -> str:
        value = self.options.get(name)
        if not value:
            raise UserError(
                f"The format hiveacid needs the option {name}.",
                remedy=f'Write .option("{name}", …).',
            )
        return str(value)


@dataclass
class _Part(InputPartition):
    """The input of a task, and the transaction that it keeps alive."""

    part: TablePart
    table: HiveTable
    wanted: TableColumns
    rows: RowFilter | None
    txn_id: int
    timeout: float


class HiveAcidReader(DataSourceReader):
    """Plans the read of a table, and reads its parts."""

    def __init__(
        self, ref: TableRef, metastore: MetastoreOptions, as_of: AsOf | None, schema: StructType
    ) -> None:
        self._ref = ref
        self._metastore = metastore
        self._as_of = as_of
        self._schema = schema
        self._asked: list[tuple[str, str, Any]] = []

    def pushFilters(self, filters: "list[Filter]") -> "Iterable[Filter]":  # noqa: N802
        """Record filters that can skip partitions and stripes; Spark applies all filters again."""
        for pushed_filter in filters:
            path: tuple[str, ...] = getattr(pushed_filter, "attribute", ())
            value: Any = getattr(pushed_filter, "value", None)
            name = type(pushed_filter).__name__
            if name in _COMPARISONS and len(path) == 1:
                self._asked.append(("".join(path), name, value))
            yield pushed_filter

    def partitions(self) -> list[InputPartition]:
        """Take a snapshot, and assign files to tasks."""
        with MetastoreClient(self._metastore) as client:
            timeout = txn_timeout_seconds(client)
            table = client.get_table(self._ref)
            columns_to_read, schema = columns_of(table, self._schema.names, "us")
            if spark_schema(schema) != self._schema:
                raise UserError(
                    f"{self._ref} has other columns than the schema that is given.",
                    remedy=f"They are {spark_schema(schema).simpleString()}.",
                )
            rows = self._filter_of(table)
            owner = Owner.of(None, client.user)
            guard = open_transaction(client, owner, TxnType.READ_ONLY)
            try:
                with Transaction(client, reads=[self._ref]) as txn:
                    visible = see_table(client, txn, table, as_of=self._as_of)
                    may_match = [True] * len(visible.partitions)
                    if rows is not None:
                        may_match = rows.partitions(
                            [partition.values for partition in visible.partitions]
                        )
                    parts = [
                        _Part(part, table, columns_to_read, rows, guard, timeout)
                        for partition in compress(visible.partitions, may_match)
                        for part in visible.part(partition).split()
                    ]
            except BaseException:
                client.abort_txn(guard)
                raise
            if not parts:
                client.abort_txn(guard)
        # For an empty list, Spark creates a part by itself, and cannot read it.
        return list(parts) or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part."""
        if not isinstance(partition, _Part):
            return
        names = self._schema.names
        with _kept_alive(self._metastore, partition):
            rows = partition.part.rows(partition.wanted, partition.rows, needs_ids=False)
            for _, batch in rows:
                yield batch.select(names)
        with MetastoreClient(self._metastore) as client:
            require_same_definition(client, partition.table, may_grow=True)

    def _filter_of(self, table: HiveTable) -> RowFilter | None:
        """Return the filters that all engines evaluate in the same way as one."""
        columns_by_name = {
            column.name.lower(): column for column in (*table.columns, *table.partition_keys)
        }
        conditions = []
        for name, comparison, value in self._asked:
            column = columns_by_name.get(name.lower())
            expected_type = _COMPARED.get(column.type.lower()) if column else None
            values = value if comparison == "In" else [value]
            if column and expected_type and all(type(value) is expected_type for value in values):
                conditions.append(_COMPARISONS[comparison](pc.field(column.name), value))
        if not conditions:
            return None
        condition = reduce(operator.and_, conditions)
        return RowFilter.of(condition, table.columns, table.partition_keys, "us")


def spark_schema(schema: pa.Schema) -> StructType:
    """Convert Arrow columns to Spark columns: a timestamp without a zone remains without a zone."""
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


@contextmanager
def _kept_alive(metastore: MetastoreOptions, part: _Part) -> Iterator[None]:
    """Keep the transaction of a read alive as long as possible.

    If it ends nevertheless, files may vanish, which is an error: files are referenced by name.
    """
    heartbeat = Heartbeat(metastore, part.txn_id, part.timeout / HEARTBEATS_PER_TIMEOUT)
    heartbeat.start()
    try:
        yield
    finally:
        heartbeat.stop()
