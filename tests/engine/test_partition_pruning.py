"""Filters of queries skip partitions, also where they are not part of ``to_df``."""

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.schema import TableKind
from tests.engine.acid_tables import create, rows_of

ON_FAKE = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)


def ids_and_files(frame: DataFrame) -> tuple[list[int], int]:
    """The ids of the rows of a query, and the number of files that its scans read."""
    ids = sorted(row.id for row in frame.collect())
    plan = frame._jdf.queryExecution().executedPlan()
    return ids, sum(scan.metrics().apply("numFiles").value() for scan in scans(plan))


def scans(plan: Any) -> list[Any]:
    name = plan.getClass().getSimpleName()
    if name == "AdaptiveSparkPlanExec":
        return scans(plan.executedPlan())
    if name.endswith("QueryStageExec"):
        return scans(plan.plan())
    if name == "FileSourceScanExec":
        return [plan]
    children = plan.children()
    return [scan for i in range(children.size()) for scan in scans(children.apply(i))]


@pytest.fixture
def table(
    spark: SparkSession,
    client: MetastoreClient,
    database: str,
    hms: EmbeddedMetastore,
    kind: TableKind,
) -> AcidTable:
    create(client, f"{database}.t", {"id": "bigint"}, {"day": "date", "k": "int"}, kind=kind)
    acid = AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark")
    days = "date_add(DATE'2024-01-01', CAST(id % 4 AS INT)) AS day"
    acid.append(spark.range(16).selectExpr("id", days, "CAST(id % 2 AS INT) AS k"))
    return acid


@ON_FAKE
@pytest.mark.parametrize("kind", [TableKind.FULL_ACID, TableKind.INSERT_ONLY])
@pytest.mark.parametrize(
    ("where", "files"),
    [
        ("day = DATE'2024-01-03'", 1),
        ("day > '2024-01-02' AND id >= 0", 2),
        ("k = 1", 2),
        ("k + 1 = 2 OR day = '2024-01-01'", 3),
        ("k = 5", 0),
    ],
)
def test_a_filter_on_a_view_reads_only_its_partitions(spark, table, where, files):
    with table:
        expected = sorted(row.id for row in table.to_df(where).collect())
        table.to_df().createOrReplaceTempView("pruned")
        frame = spark.sql(f"SELECT * FROM pruned WHERE {where}")
        assert ids_and_files(frame) == (expected, files)


@ON_FAKE
@pytest.mark.parametrize("kind", [TableKind.FULL_ACID])
def test_deletes_do_not_hinder_pruning(spark, table):
    with table:
        table.delete("id IN (1, 2, 4)")
        frame = table.to_df().where("k = 1")
        assert ids_and_files(frame) == ([3, 5, 7, 9, 11, 13, 15], 2)


@ON_FAKE
@pytest.mark.parametrize("kind", [TableKind.FULL_ACID])
def test_several_versions_of_a_partition_are_pruned_together(spark, table):
    with table:
        table.append(spark.sql("SELECT 100L AS id, DATE'2024-01-01' AS day, 0 AS k"))
        frame = table.to_df().where("day = '2024-01-01'")
        assert ids_and_files(frame) == ([0, 4, 8, 12, 100], 2)


@ON_FAKE
def test_conditions_on_fields_exclude_no_partition(
    spark: SparkSession, client: MetastoreClient, database: str, hms: EmbeddedMetastore
) -> None:
    create(
        client,
        f"{database}.people",
        {"id": "int", "addr": "struct<country:string>", "v": "int"},
        {"country": "string"},
    )
    people = "1 AS id, named_struct('country', 'DE') AS addr, 10 AS v, 'FR' AS country"
    with AcidTable(f"{database}.people", hms.uri, spark=spark, run_in="spark") as table:
        table.append(spark.sql(f"SELECT {people}"))
        source = spark.sql("SELECT 1 AS id, 'DE' AS country, 99 AS v")
        on = "t.id = s.id AND t.addr.country = s.country"
        merge = table.merge(source, on).when_matched_update({"v": "s.v"})
        merge.when_not_matched_insert({"id": "s.id"}).execute()
        assert rows_of(table.to_df().select("id", "v")) == [(1, 99)]
        table.delete("t.addr.country = 'US'")
        table.delete("addr.country = 'DE' AND v > 1")
        assert rows_of(table.to_df()) == []
