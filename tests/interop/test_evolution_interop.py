"""Columns that we add to a table while we write: Hive and Trino see them, and nulls before them."""

import pytest

from airflow_hiveacid import AcidTable
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import TableRef

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

REF = TableRef("default", "growing")


@pytest.fixture
def table(spark, hive):
    with MetastoreClient(MetastoreOptions(uris=hive.metastore_uri)) as client:
        columns = [HiveColumn("id", "int"), HiveColumn("v", "int")]
        keys = [HiveColumn("day", "string")]
        client.create_table(HiveTable.new(REF, columns, partition_keys=keys))
    with AcidTable(REF.full_name, hive.metastore_uri, spark=spark, run_in="spark") as table:
        yield table


def test_hive_and_trino_see_columns_that_our_writes_add(table, spark, hive, trino):
    def check(expected):
        selected = "select id, v, extra, part.a, day from"
        assert sorted(hive.sql(f"{selected} {REF.full_name}")) == expected
        assert sorted(trino.sql(f"{selected} hive.{REF.full_name}")) == expected

    table.append(spark.sql("select 1 id, 10 v, '2024' day union all select 2, 20, '2025'"))
    more = "select 3 id, 30 v, 'x' extra, named_struct('a', 5) part, '2024' day"
    table.append(spark.sql(more), merge_schema=True)
    old = [("1", "10", "NULL", "NULL", "2024"), ("2", "20", "NULL", "NULL", "2025")]
    check([*old, ("3", "30", "x", "5", "2024")])

    hive.sql(f"insert into {REF.full_name} select 4, 40, 'hive', named_struct('a', 6), '2025'")
    source = spark.sql("select 2 id, 21 v, 7 late, '2025' day")
    table.merge(source, "t.id = s.id", merge_schema=True).when_matched_update_all().execute()
    rows = [old[0], ("2", "21", "NULL", "NULL", "2025"), ("3", "30", "x", "5", "2024")]
    rows.append(("4", "40", "hive", "6", "2025"))
    assert sorted(hive.sql(f"select id, late from {REF.full_name}"))[1] == ("2", "7")
    assert {each.outcome for each in table.compact("major").partitions} == {"compacted"}
    check(rows)
