"""Queries of users over ACID tables, as Spark plans them with the scan."""

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.spark.python.registered_tables import register_views
from tests.engine.acid_tables import create

DAYS = 24

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)


@pytest.fixture
def facts(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> Iterator[None]:
    """Views: ``facts``, an ACID table with a partition for each of 24 days, and ``days``."""
    name = f"{database}.facts"
    create(client, name, {"id": "bigint", "v": "double"}, {"day": "int"})
    with AcidTable(name, hms.uri, spark=spark, run_in="spark") as acid:
        acid.append(spark.range(DAYS * 10).selectExpr("id", "id / 2 AS v", f"id % {DAYS} AS day"))
        acid.delete("id < 24")
    days = spark.range(DAYS).selectExpr("CAST(id AS int) AS day", "id DIV 12 AS half")
    days.createOrReplaceTempView("days")
    with register_views(hms.uri, name, spark=spark):
        yield
    spark.catalog.dropTempView("days")


QUERIES = {
    "a subquery without rows": "SELECT count(*) FROM facts WHERE id = (SELECT max(day) FROM days WHERE day > 99)",
    "lateral": "SELECT d.day, s.n FROM days d, LATERAL (SELECT count(*) AS n FROM facts f WHERE f.day = d.day) s",
    "in in a condition of a join": "SELECT d.day, f.id FROM days d LEFT JOIN facts f"
    " ON f.day = d.day AND d.day IN (SELECT day FROM facts WHERE id = 30)",
    "exists in a filter": "SELECT count(*) FILTER (WHERE EXISTS (SELECT 1 FROM facts f WHERE f.day = d.day AND f.id > 230)) FROM days d",
}


def test_subqueries_in_all_places_are_answered(spark, facts):
    table = spark.table("facts")
    spark.createDataFrame(table.collect(), table.schema).createOrReplaceTempView("copied")
    for what, query in QUERIES.items():
        found, expected = (
            sorted(map(str, spark.sql(text).collect()))
            for text in (query, query.replace("facts", "copied"))
        )
        assert (what, found) == (what, expected)
        assert found
    spark.catalog.dropTempView("copied")


def test_a_join_selects_the_partitions_that_are_read(spark, facts):
    frame = spark.sql(
        "SELECT sum(f.v) FROM facts f JOIN days d ON f.day = d.day WHERE d.day < 2 AND d.half = 0"
    )
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "dynamicpruning" in plan
    (row,) = frame.collect()
    assert row[0] == sum(id / 2 for id in range(DAYS, DAYS * 10) if id % DAYS < 2)
    assert files_read(frame) == 2


def test_a_condition_on_a_key_selects_the_partitions_that_are_read(spark, facts):
    frame = spark.sql("SELECT count(*) FROM (SELECT * FROM facts) WHERE day = 3")
    assert frame.collect() == [(9,)]
    assert files_read(frame) == 1


def files_read(frame: DataFrame) -> int:
    """The number of files of ACID tables that the last execution of a frame opened."""
    plan = frame._jdf.queryExecution().executedPlan()
    while plan.nodeName().startswith("AdaptiveSparkPlan"):
        plan = plan.executedPlan()

    def scans(node) -> Iterator[int]:
        if "hiveacid" in node.nodeName().lower() or "HiveAcid" in str(node.toString()):
            metrics = node.metrics()
            if metrics.contains("numFiles"):
                yield int(metrics.apply("numFiles").value())
        children = node.children()
        for at in range(children.size()):
            yield from scans(children.apply(at))
        if node.nodeName().endswith("QueryStage"):
            yield from scans(node.plan())

    return sum(scans(plan))
