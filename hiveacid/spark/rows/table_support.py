"""Refusal of unsupported tables, before rows are read or written."""

from pyspark.sql import SparkSession

from hiveacid.errors import UnsupportedTable
from hiveacid.metastore.catalog import HiveTable, layout_of
from hiveacid.metastore.formats import StorageFormat
from hiveacid.rules.metastore_version import MetastoreVersion
from hiveacid.rules.schema import LOCAL_ZONE
from hiveacid.spark.rows.columns import all_columns, require_whole_maps, spark_struct
from hiveacid.spark.session import require_utc

STRIPE_SIZE = "orc.stripe.size"
_USUAL_STRIPE_SIZE = 64 << 20


def check_readable(spark: SparkSession, table: HiveTable) -> None:
    """Refuse a table whose columns Spark cannot read or write exactly.

    Raises:
        UnsupportedTable: The table has a type or a name that Spark cannot handle.
        UserError: The table has timestamps and Spark's time zone is not UTC.
    """
    spark_struct(all_columns(table))
    if any("timestamp" in column.type.lower() for column in all_columns(table)):
        require_utc(spark, table.ref.full_name)


def check_writable(table: HiveTable, version: MetastoreVersion) -> None:
    """Refuse a table if Hive could not read the written rows.

    Raises:
        UnsupportedTable: The table is sorted inside of its buckets, has no columns of its own, or
            has a column that Spark or this version of Hive cannot handle.
        TypeMismatch: A clustering column is not a column of the table.
    """
    if StorageFormat.of(table.serde, table.ref.full_name) is StorageFormat.ORC:
        stripe_size(table)
        require_whole_maps(table.columns)
        local_times = table.local_time_columns
        if local_times and not version.reads_local_times:
            raise UnsupportedTable(
                f"{table.ref.full_name} has columns of {LOCAL_ZONE}, which Hive 3 cannot read from "
                f"ORC files: {', '.join(local_times)}.",
                remedy="Use plain timestamps, in UTC.",
            )
    if table.sort_columns:
        raise UnsupportedTable(
            f"{table.ref.full_name} is sorted by {', '.join(table.sort_columns)}; "
            "rows of ACID tables are in the order of their row ids.",
            remedy="Create the table without SORTED BY.",
        )
    layout_of(table)


def stripe_size(table: HiveTable) -> int:
    """The table's stripe size in bytes.

    Raises:
        UnsupportedTable: The property has an invalid value.
    """
    return table.number(STRIPE_SIZE, _USUAL_STRIPE_SIZE, range(1, 1 << 63))
