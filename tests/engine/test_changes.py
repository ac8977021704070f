"""Update and delete, and the files of every write for Hive."""

import pytest
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.errors import InvalidJob
from hiveacid.metastore.catalog import HivePartition
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.names import RUN_NOTES
from tests.engine.acid_tables import (
    ONLY_HIVE4,
    create,
    files,
    left_behind,
    problems_of_keys,
    row_ids,
    rows_of,
)

COLUMNS = {"id": "bigint", "name": "string", "amount": "decimal(10,2)"}
ROWS = [(i, f"n{i}", i, ("mon", "tue", None)[i % 3]) for i in range(9)]


def _filled(
    spark: SparkSession, client: MetastoreClient, hms: EmbeddedMetastore, name: str
) -> AcidTable:
    create(client, name, COLUMNS, {"day": "string"})
    acid = AcidTable(name, hms.uri, spark=spark, run_in="spark")
    acid.append(spark.createDataFrame(ROWS, "id bigint, name string, amount int, day string"))
    return acid


@pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)
def test_updates_and_deletes_follow_their_conditions(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> None:
    with _filled(spark, client, hms, f"{database}.t") as acid:
        table = client.get_table(acid.ref)
        expected = {row[0]: row for row in ROWS}

        def check() -> None:
            rows = [(i, name, int(amount), day) for i, name, amount, day in rows_of(acid.to_df())]
            assert rows == sorted(expected.values())
            assert problems_of_keys(table) == []

        context = spark.sparkContext
        context.setJobGroup("mine", "what I do")
        # Expressions see the old values, in any order of the assignments.
        report = acid.update({"NAME": "concat(day, id)", "amount": "t.amount + id"}, "id in (1, 3)")
        assert (report.job, report.rows_updated, report.rows_deleted) == ("update", 2, 0)
        assert list(report.partitions) == ["day=mon", "day=tue"]
        expected[1], expected[3] = (1, "tue1", 2, "tue"), (3, "mon3", 6, "mon")
        # The user's jobs in Spark keep the user's names.
        for name, told in (("spark.jobGroup.id", "mine"), ("spark.job.description", "what I do")):
            assert context.getLocalProperty(name) == told
            context.setLocalProperty(name, None)
        check()

        # A row that moves to another partition, and one to a partition that is new.
        report = acid.update({"day": "if(id = 0, 'new', 'tue')", "name": "day"}, "id in (0, 6)")
        expected[0], expected[6] = (0, "mon", 0, "new"), (6, "mon", 6, "tue")
        assert report.rows_updated == 2
        assert list(report.partitions) == ["day=mon", "day=new", "day=tue"]
        check()
        assert acid.update({"day": "null"}, "day = 'new'").rows_updated == 1
        expected[0] = (0, "mon", 0, None)
        check()

        # By partition columns alone; the null partition is like any other.
        report = acid.delete("day is null and true")
        assert (report.job, report.rows_deleted) == ("delete", 4)
        assert list(report.partitions) == ["day=__HIVE_DEFAULT_PARTITION__"]
        for number in (0, 2, 5, 8):
            del expected[number]
        check()

        # Nothing matches, or the condition is null: only notes, which the history shows.
        before = files(table)
        assert acid.delete("day = 'never' and id = 1").files == 0
        assert acid.delete("id = null").rows_deleted == 0
        assert acid.update({"name": "'x'"}, "id = 99 or name = 'none'").rows_updated == 0
        assert [file for file in files(table) if not file.startswith(RUN_NOTES)] == before
        check()

        # The rest, in two steps over rows that were changed and deleted before.
        assert acid.update({"amount": "amount + 1"}, all_rows=True).rows_updated == len(expected)
        expected = {i: (i, name, amount + 1, day) for i, name, amount, day in expected.values()}
        check()
        for change in (acid.delete, lambda: acid.update({"amount": "0"})):
            with pytest.raises(InvalidJob, match=r"has no condition.*all_rows=True"):
                change()
        assert acid.delete(all_rows=True).rows_deleted == len(expected)
        expected.clear()
        check()
        assert acid.delete(all_rows=True).files == 0
        assert len(set(row_ids(table, "delete_delta"))) == len(row_ids(table, "delete_delta"))
    assert left_behind(client) == []


def test_no_write_leaves_statistics_that_hive_would_answer_from(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> None:
    stale = {"COLUMN_STATS_ACCURATE": '{"BASIC_STATS":"true"}', "numRows": "0"}
    table = create(client, f"{database}.plain", COLUMNS, parameters=stale)
    parts = create(client, f"{database}.parts", COLUMNS, {"day": "string"}, parameters=stale)
    for day in ("mon", "tue"):
        partition = HivePartition.new(parts, [day])
        partition.raw.parameters = dict(stale)
        client.add_partitions(parts.ref, [partition])
    row = spark.createDataFrame([(1, "a")], "id bigint, name string")
    with AcidTable(f"{database}.plain", hms.uri, spark=spark, run_in="spark") as acid:
        acid.append(row)
    with AcidTable(f"{database}.parts", hms.uri, spark=spark, run_in="spark") as acid:
        acid.append(row, [{"day": "mon"}])
    assert "COLUMN_STATS_ACCURATE" not in client.get_table(table.ref).parameters
    assert "COLUMN_STATS_ACCURATE" not in client.get_table(parts.ref).parameters
    written, untouched = client.get_partitions(client.get_table(parts.ref), ["day=mon", "day=tue"])
    assert "COLUMN_STATS_ACCURATE" not in written.parameters
    assert "COLUMN_STATS_ACCURATE" in untouched.parameters


CONDITIONS = [
    "hour = 1 and id < 10",
    "hour = '1' and day < date'2026-01-02'",
    "id between 12 and 17 and (hour = 2 or day = date'2026-01-02')",
    "hour = 2 and id = 19 or id = 20",
    "not (hour <=> null) and day > '2026-01-01' and t.id > 20",
    "id = (select max(id) from values (2), (5) as v(id))",
    "T.Hour in (2) and t.`DAY` is not null",
    "hour is null",
]


@pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)
def test_conditions_choose_the_rows_that_spark_would(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> None:
    values = [(i, f"2026-01-0{1 + i % 2}", (1, 2, None)[i % 3]) for i in range(30)]
    rows = spark.createDataFrame(values, "id bigint, day string, hour int")
    rows = rows.selectExpr("id", "cast(day as date) as day", "hour")
    create(client, f"{database}.t", {"id": "bigint"}, {"day": "date", "hour": "int"})
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        acid.append(rows)
        for where in CONDITIONS:
            met = [tuple(row) for row in rows.alias("t").where(where).collect()]
            assert acid.delete(where).rows_deleted == len(met) > 0, where
            rows = rows.alias("t").where(f"not coalesce({where}, false)")
        assert rows_of(acid.to_df()) == rows_of(rows)
