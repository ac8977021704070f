"""A table for tests that want any."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from airflow_hiveacid.engine.table import AcidTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.embedded import EmbeddedMetastore
from tests.engine.acid_tables import ROWS, SCHEMA, create


@pytest.fixture
def filled(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> Iterator[AcidTable]:
    """A partitioned table with the rows ROWS."""
    create(client, f"{database}.t", {"id": "int", "v": "int", "name": "string"}, {"day": "string"})
    with AcidTable(f"{database}.t", hms.uri, spark=spark) as acid:
        acid.append(spark.createDataFrame(ROWS, SCHEMA))
        yield acid
