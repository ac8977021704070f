"""Rows that the worker writes without Spark: Hive and Trino copy them, and Hive compacts them."""

from dataclasses import replace

import pytest
from pyspark.sql import functions as F  # noqa: N812

from airflow_hiveacid import AcidTable
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.write_jobs import RowJob
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.parser.script import to_jobs
from hiveacid.rules.names import TableRef
from hiveacid.worker.run import change_rows
from tests.engine.typed_values import MOMENTS, differences, frame_of
from tests.interop.test_types_interop import PRIMITIVES, STRANGE

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

NESTED = ["array<int>", "map<string,double>", "struct<a:struct<b:binary>,d:array<decimal(5,2)>>"]
TYPES = {f"c{number}": text for number, text in enumerate([*PRIMITIVES, *NESTED])} | STRANGE
ROWS = 9


@pytest.fixture
def worker(hive):
    """Run a statement in this process."""

    def run(sql: str) -> None:
        options = MetastoreOptions(uris=hive.metastore_uri)
        (job,) = to_jobs(sql)
        assert isinstance(job, RowJob)
        with MetastoreClient(options) as client:
            change_rows(client, replace(job, run_in="worker", metastore=options))

    return run


@pytest.fixture
def changed(spark, hive, worker):
    """Write values of all types by the worker into a table; return it, and the frame of its rows."""

    def change(name: str, buckets: int):
        columns = [HiveColumn(*each) for each in {"id": "int", **TYPES}.items()]
        with MetastoreClient(MetastoreOptions(uris=hive.metastore_uri)) as client:
            for table, count in ((f"{name}_source", -1), (name, buckets), (f"{name}_copy", -1)):
                by = {"bucket_columns": ["id"], "num_buckets": count} if count > 0 else {}
                client.create_table(HiveTable.new(TableRef.parse(table), columns, **by))
        values = frame_of(spark, TYPES, ROWS, MOMENTS)
        # Days of the Julian calendar are left to Spark.
        first = "date'1582-10-15'"
        for column in [column for column, text in TYPES.items() if text == "date"]:
            values = values.withColumn(column, F.expr(f"if({column} < {first}, {first}, {column})"))
        values = values.coalesce(1).localCheckpoint()
        with AcidTable(f"{name}_source", hive.metastore_uri, spark=spark, run_in="spark") as source:
            source.append(values)
        worker(f"INSERT INTO {name} SELECT * FROM {name}_source WHERE id < 6")
        worker(f"UPDATE {name} SET id = id + 100 WHERE id < 3")
        worker(f"DELETE FROM {name} WHERE id = 4")
        worker(
            f"MERGE INTO {name} t USING {name}_source s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        names = [f"`{column}`" for column in values.columns[1:]]
        moved = values.where("id < 3").selectExpr("id + 100 AS id", *names)
        return AcidTable(name, hive.metastore_uri, spark=spark, run_in="spark"), values.union(moved)

    return change


@pytest.mark.parametrize("buckets", [-1, 3])
def test_hive_copies_and_compacts_what_the_worker_writes(spark, hive, changed, buckets):
    name = f"default.worker_for_hive_{buckets % 10}"
    table, expected = changed(name, buckets)
    with table, AcidTable(f"{name}_copy", hive.metastore_uri, spark=spark, run_in="spark") as copy:
        hive.sql(f"insert into {name}_copy select * from {name}")
        assert differences(copy.to_df(), expected) == []
        hive.compact(name, "major")
        assert differences(table.to_df(), expected) == []


def test_trino_copies_what_the_worker_writes(spark, hive, trino, changed):
    name = "default.worker_for_trino"
    table, expected = changed(name, -1)
    with table, AcidTable(f"{name}_copy", hive.metastore_uri, spark=spark, run_in="spark") as copy:
        trino.sql(f"insert into hive.{name}_copy select * from hive.{name}")
        assert differences(copy.to_df(), expected) == []
