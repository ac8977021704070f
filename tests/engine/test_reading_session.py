"""The session that reads share is not visible to users."""

import pytest
from pyspark.sql import SparkSession

from airflow_hiveacid.engine.python.read_together import read_together
from airflow_hiveacid.engine.python.registered_tables import register_views
from airflow_hiveacid.engine.python.table import AcidTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.dev.embedded import EmbeddedMetastore
from tests.engine.acid_tables import create

FILTER_PUSHDOWN = "spark.sql.orc.filterPushdown"


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_reads_do_not_change_the_active_session(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> None:
    name = f"{database}.t"
    create(client, name, {"id": "bigint"}, {"p": "int"})
    with AcidTable(name, hms.uri, spark=spark) as table:
        table.append(spark.range(10).selectExpr("id", "cast(id % 2 as int) p"))
        before = spark.conf.get(FILTER_PUSHDOWN)

        def count_by_the_active_session() -> int:
            active = SparkSession.active()
            assert active._jsparkSession.equals(spark._jsparkSession)
            # Readers of ACID files must not see this.
            active.conf.set(FILTER_PUSHDOWN, "true")
            active.range(1).createOrReplaceTempView("of_the_user")
            return table.to_df("t.p = 1").where("id > 4").count()

        try:
            assert table.to_df("t.p = 1").count() == 5
            assert count_by_the_active_session() == 3
            with read_together([name], hms.uri, spark=spark) as frames:
                assert frames[name].count() == 10
                assert count_by_the_active_session() == 3
            with register_views(hms.uri, [name], spark=spark):
                assert spark.sql("SELECT * FROM t").count() == 10
                assert count_by_the_active_session() == 3
        finally:
            spark.conf.set(FILTER_PUSHDOWN, str(before))
            spark.catalog.dropTempView("of_the_user")
