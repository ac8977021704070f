"""`spark.read.format("hiveacid")`: tables through Spark's Python data source API.

Spark runs the methods of a source in separate processes, which end when a query is planned: no
process remains to keep a transaction alive and to end it. So a transaction without locks stays
open, which keeps the cleaner of Hive 4 away from the files; other cleaners wait only for locks. The
reading tasks keep the transaction alive, and the metastore ends it after the last task.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from airflow_hiveacid.acid.as_of import AsOf
from airflow_hiveacid.acid.names import TableRef
from airflow_hiveacid.authorizer import program_user
from airflow_hiveacid.engine.spark_versions import python_data_sources
from airflow_hiveacid.errors import UserError
from airflow_hiveacid.jobs.options.metastore_options import MetastoreOptions
from airflow_hiveacid.maintenance.location_owners import require_job_access
from airflow_hiveacid.metastore.catalog import HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.thrift.answers import TxnType
from airflow_hiveacid.metastore.txn.heartbeat import (
    HEARTBEATS_PER_TIMEOUT,
    Heartbeat,
    txn_timeout_seconds,
)
from airflow_hiveacid.metastore.txn.owner import Owner, open_transaction
from airflow_hiveacid.metastore.txn.transaction import Transaction
from airflow_hiveacid.scan.columns import TableColumns
from airflow_hiveacid.scan.conditions import Condition
from airflow_hiveacid.scan.table_part import TablePart
from airflow_hiveacid.scan.table_scan import columns_of
from airflow_hiveacid.scan.visible_table import see_table

_OF_METASTORE = (
    *("user", "token_env", "tls_ca_file", "auth_mechanism", "kerberos_service_name"),
    *("kerberos_principal", "kerberos_keytab", "kerberos_ccache"),
    *("kerberos_min_protection", "column_mapping"),
)
_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
# By the names of their classes, since Spark 4.0 has no filters.
_OPERATORS = {
    "EqualTo": "in",
    "In": "in",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
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
        given = {name: self.options.get(name) for name in _OF_METASTORE}
        known: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        return MetastoreOptions.of(MetastoreOptions(uris=self._required("metastore"), **known))

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
    wanted: TableColumns
    conditions: tuple[Condition, ...]
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
        self._asked: list[tuple[str, str, tuple[Any, ...]]] = []

    def pushFilters(self, filters: "list[Filter]") -> "Iterable[Filter]":  # noqa: N802
        """Record filters that can skip partitions and stripes; Spark applies all filters again."""
        for each in filters:
            path: tuple[str, ...] = getattr(each, "attribute", ())
            value: Any = getattr(each, "value", None)
            name = type(each).__name__
            operator = _OPERATORS.get(name)
            if operator is not None and len(path) == 1:
                values = tuple(value) if name == "In" else (value,)
                self._asked.append(("".join(path), operator, values))
            yield each

    def partitions(self) -> list[InputPartition]:
        """Take a snapshot, and assign files to tasks."""
        with MetastoreClient(self._metastore) as client:
            timeout = txn_timeout_seconds(client)
            table = client.get_table(self._ref)
            wanted, schema = columns_of(table, self._schema.names, "us")
            if spark_schema(schema) != self._schema:
                raise UserError(
                    f"{self._ref} has other columns than the schema that is given.",
                    remedy=f"They are {spark_schema(schema).simpleString()}.",
                )
            conditions = self._conditions(table, (*table.columns, *table.partition_keys))
            of_rows = tuple(self._conditions(table, table.columns))
            keys = TableColumns((), table.partition_keys)
            owner = Owner.of(None, client.user)
            guard = open_transaction(client, owner, TxnType.READ_ONLY)
            try:
                with Transaction(client, reads=[self._ref]) as txn:
                    visible = see_table(client, txn, table, as_of=self._as_of)
                    parts = [
                        _Part(part, wanted, of_rows, guard, timeout)
                        for partition in visible.partitions
                        if _may_hold(keys, partition.values, conditions)
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
            for _, batch in partition.part.rows(partition.wanted, partition.conditions):
                yield batch.select(names)

    def _conditions(self, table: HiveTable, columns: Iterable[Any]) -> list[Condition]:
        known = tuple(columns)
        made = (Condition.of(known, *asked) for asked in self._asked)
        return [condition for condition in made if condition is not None]


def spark_schema(schema: pa.Schema) -> StructType:
    """Convert Arrow columns to Spark columns: a timestamp without a zone remains without a zone."""
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def _may_hold(
    keys: TableColumns, texts: Mapping[str, str | None], conditions: Iterable[Condition]
) -> bool:
    """Whether rows of a partition may satisfy all conditions."""
    values = {
        key.name.lower(): value.as_py()
        for key, value in zip(keys.keys, keys.values(texts), strict=True)
    }
    return all(
        condition.is_met(values[condition.column])
        for condition in conditions
        if condition.column in values
    )


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
