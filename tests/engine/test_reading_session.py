"""The sessions of this package are not visible to users."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from hiveacid import spark as engine
from hiveacid.api.table import AcidTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.spark.python.registered_tables import read_together, register_views
from tests.engine.acid_tables import create

WORKS: Mapping[str, Callable[[AcidTable, DataFrame], object]] = {
    "append": lambda table, rows: table.append(rows),
    "delete": lambda table, _: table.delete("id = 3 AND p = 1"),
    "update": lambda table, _: table.update({"id": "id + 100"}, "id = 5"),
    "merge": lambda table, rows: (
        table.merge(rows, "t.id = s.id AND t.p = s.p").when_matched_delete().execute()
    ),
    "compact": lambda table, _: table.compact("major"),
    "read": lambda table, _: table.to_df("t.p = 1").count(),
    "changes": lambda table, _: table.changes(1).count(),
}
FILTER_PUSHDOWN = "spark.sql.orc.filterPushdown"


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_reads_do_not_change_the_active_session(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> None:
    name = f"{database}.t"
    create(client, name, {"id": "bigint"}, {"p": "int"})
    with AcidTable(name, hms.uri, spark=spark, run_in="spark") as table:
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


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
@pytest.mark.parametrize("work", WORKS)
def test_no_work_changes_the_active_session(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str, work: str
) -> None:
    name = f"{database}.t"
    create(client, name, {"id": "bigint"}, {"p": "int"})
    rows = spark.range(10).selectExpr("id", "cast(id % 2 as int) p")
    with AcidTable(name, hms.uri, spark=spark, run_in="spark") as table:
        table.append(rows)
        spark.createDataFrame([(1,)], "a int")
        assert SparkSession.active() is spark
        WORKS[work](table, rows)
        assert SparkSession.active() is spark
        java = spark._jvm.org.apache.spark.sql.SparkSession.active()
        assert java.equals(spark._jsparkSession)


def test_only_one_function_makes_frames_of_rows() -> None:
    """PySpark makes the session of such a frame active."""
    root = Path(engine.__file__).parent
    makers = [
        path.name for path in root.rglob("*.py") if "spark.createDataFrame(" in path.read_text()
    ]
    assert makers == ["spark_versions.py"]
