"""The rows of a query, for display."""

import pyarrow as pa
from pyspark.sql import SparkSession

from airflow_hiveacid.engine.failures import translated_spark_errors
from airflow_hiveacid.engine.read.table_reader import TableReader
from airflow_hiveacid.engine.spark_versions import to_arrow
from airflow_hiveacid.engine.statements.source import SourceFrame
from airflow_hiveacid.jobs.options.metastore_options import MetastoreOptions
from airflow_hiveacid.jobs.sources import QuerySource
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.txn.transaction import Transaction


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
