"""Hive's number of rows follows what is committed."""

import pytest
from pyspark.sql import SparkSession

from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.engine.table import AcidTable
from airflow_hiveacid.jobs.phases import Phase
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.embedded import EmbeddedMetastore
from tests.engine.acid_tables import create
from tests.observers import At


class Stopped(Exception):
    pass


def stop() -> None:
    raise Stopped


def test_a_write_that_is_not_committed_leaves_the_number_of_rows(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> None:
    ref = TableRef(database, "counted")
    create(client, ref.full_name, {"id": "bigint"})
    rows = spark.range(5)

    def counted() -> str:
        return client.get_table(ref).parameters["numRows"]

    with AcidTable(ref.full_name, hms.uri, spark=spark) as table:
        table.append(rows)
    assert counted() == "5"
    # By then the count has been changed: registering comes before publishing.
    during: list[str] = []
    look = At(Phase.PUBLISH, lambda: during.append(counted()))
    observers = [look, At(Phase.COMMIT, stop)]
    stopped = AcidTable(ref.full_name, hms.uri, spark=spark, observers=observers)
    with stopped, pytest.raises(Stopped):
        stopped.append(rows)
    assert during == ["10"]
    assert counted() == "5"
