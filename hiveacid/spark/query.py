"""The rows of a query, for display."""

import pyarrow as pa
from pyspark.sql import SparkSession

from hiveacid.jobs.options.metastore_options import MetastoreOptions
from hiveacid.jobs.sources import QuerySource
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.spark.failures import translated_spark_errors
from hiveacid.spark.read.table_reader import TableReader
from hiveacid.spark.spark_versions import to_arrow
from hiveacid.spark.statements.source import SourceFrame


def query_rows(
    spark: SparkSession, metastore: MetastoreOptions, query: QuerySource, limit: int
) -> pa.Table:
    """The first rows of a query, whose tables are all read in one transaction.

    Args:
        spark: The session, which is not changed.
        metastore: The options of the metastore connection.
        query: The query.
        limit: The maximum number of rows.
    """
    with MetastoreClient(metastore) as client:
        source = SourceFrame(spark, client, query)
        with Transaction(client, reads=source.acid_tables) as txn:
            rows = source.frame(TableReader(client, txn)).limit(limit)
            with translated_spark_errors("The query"):
                return to_arrow(rows)
