"""Where the rows of a job come from, as a Spark frame."""

from collections.abc import Callable, Iterator, Mapping
from functools import reduce

from pyspark.sql import DataFrame, SparkSession  # noqa: TID253
from pyspark.sql import functions as F  # noqa: TID253, N812
from pyspark.sql.types import StructType  # noqa: TID253

from airflow_hiveacid.acid.errors import UnsupportedTable
from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.acid.schema import TableKind
from airflow_hiveacid.engine.failures import spark_errors_as_ours
from airflow_hiveacid.engine.session import scan_session
from airflow_hiveacid.engine.types import spark_struct
from airflow_hiveacid.jobs.options import PathSource, QuerySource, Source, TableSource
from airflow_hiveacid.metastore.catalog import HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient

# Reads an ACID table in a session, as the transaction that asks for it sees the table.
ReadAcid = Callable[[SparkSession, HiveTable], DataFrame]

_ORC = "org.apache.hadoop.hive.ql.io.orc.OrcSerde"
_PARQUET = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
_TEXT = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
_CSV = "org.apache.hadoop.hive.serde2.OpenCSVSerde"
_JSON = {
    "org.apache.hadoop.hive.serde2.JsonSerDe",
    "org.apache.hive.hcatalog.data.JsonSerDe",
}


class SourceFrame:
    """A source whose tables have been looked up.

    Attributes:
        acid_tables: The transactional tables it reads, which want a snapshot.
    """

    def __init__(
        self, spark: SparkSession, client: MetastoreClient, source: Source | DataFrame
    ) -> None:
        # Views live in a session: one of its own keeps two jobs' views of one name apart.
        self._spark = scan_session(spark)
        self._client = client
        self._source = source
        self._tables = {
            name: client.get_table(TableRef.parse(name)) for name in _table_names(source)
        }
        for table in self._tables.values():
            if table.kind is TableKind.INSERT_ONLY:
                raise UnsupportedTable(
                    f"{table.ref.full_name} is an insert-only table, which cannot be read yet.",
                    remedy="Read it with Hive or Trino.",
                )
        self.acid_tables = [
            table.ref for table in self._tables.values() if table.kind is TableKind.FULL_ACID
        ]

    def frame(self, read_acid: ReadAcid) -> DataFrame:
        """The rows of the source.

        Args:
            read_acid: Reads a transactional table under the caller's snapshot.
        """
        if isinstance(self._source, DataFrame):
            return self._source
        if not isinstance(self._source, QuerySource):
            return self._input(self._source, read_acid)
        for name, given in self._source.inputs.items():
            self._input(given, read_acid).createOrReplaceTempView(name)
        with spark_errors_as_ours("The source query"):
            return self._spark.sql(self._source.sql)

    def _input(self, given: TableSource | PathSource, read_acid: ReadAcid) -> DataFrame:
        if isinstance(given, PathSource):
            reader = self._spark.read.format(given.format).options(**given.options)
            if given.schema is not None:
                with spark_errors_as_ours(f"The schema of {given.path}"):
                    reader = reader.schema(given.schema)
            with spark_errors_as_ours(f"The source {given.path}"):
                return reader.load(given.path)
        table = self._tables[given.name]
        if table.kind is TableKind.FULL_ACID:
            return read_acid(self._spark, table)
        return self._plain_table(table)

    def _plain_table(self, table: HiveTable) -> DataFrame:
        form, options = _format_of(table)
        columns, keys = spark_struct(table.columns), spark_struct(table.partition_keys)

        def load(location: str, values: tuple[str | None, ...]) -> DataFrame:
            frame = self._spark.read.format(form).options(**options).schema(columns).load(location)
            return frame.select(
                "*",
                *[
                    F.lit(value).cast(key.dataType).alias(key.name)
                    for key, value in zip(keys.fields, values, strict=True)
                ],
            )

        with spark_errors_as_ours(f"The source table {table.ref.full_name}"):
            if not table.partition_keys:
                return load(table.folder, ())
            partitions = self._client.get_partitions(table.ref)
            if not partitions:
                return self._spark.createDataFrame([], StructType(columns.fields + keys.fields))
            frames = [load(each.folder, each.values) for each in partitions]
            return reduce(DataFrame.unionByName, frames)


def _table_names(source: Source | DataFrame) -> Iterator[str]:
    if isinstance(source, TableSource):
        yield source.name
    elif isinstance(source, QuerySource):
        for given in source.inputs.values():
            yield from _table_names(given)


def _format_of(table: HiveTable) -> tuple[str, Mapping[str, str]]:
    """Spark's format and options for a table of files that Hive reads through a serde."""
    given = table.serde_parameters
    if table.serde == _ORC:
        return "orc", {}
    if table.serde == _PARQUET:
        return "parquet", {}
    if table.serde in _JSON:
        return "json", {}
    header = "true" if table.parameters.get("skip.header.line.count") == "1" else "false"
    if table.serde == _CSV:
        return "csv", {
            "sep": given.get("separatorChar", ","),
            "quote": given.get("quoteChar", '"'),
            "escape": given.get("escapeChar", '"'),
            "header": header,
        }
    if table.serde == _TEXT:
        return "csv", {
            "sep": given.get("field.delim", given.get("serialization.format", "\x01")),
            "quote": "",
            "escape": given.get("escape.delim", "\\"),
            "nullValue": given.get("serialization.null.format", "\\N"),
            "header": header,
        }
    raise UnsupportedTable(
        f"{table.ref.full_name} is stored through {table.serde}, which Spark cannot read.",
        remedy="Use a table of ORC, Parquet, CSV or JSON files as source.",
    )
