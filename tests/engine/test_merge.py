"""Merges have the results of the model."""

from collections import Counter
from random import Random

import pytest
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.errors import CheckFailed
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from tests.engine import merge_model as model
from tests.engine.acid_tables import (
    ONLY_HIVE4,
    create,
    files,
    left_behind,
    problems_of_keys,
    rows_of,
)
from tests.versions import NEWER

SCHEMA = "id int, v int, name string, day string"
TYPES = {"id": "int", "v": "int", "name": "string", "day": "string"}
SHAPES = {
    "plain": {"columns": TYPES},
    "partitioned": {
        "columns": {name: TYPES[name] for name in ("id", "v", "name")},
        "keys": {"day": "string"},
    },
    "bucketed": {
        "columns": {name: TYPES[name] for name in ("id", "v", "name")},
        "keys": {"day": "string"},
        "bucket_columns": ["id"],
        "num_buckets": 2,
    },
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("hms", "shape", "merges"),
    [
        ("4.0.1", "plain", 8),
        ("4.0.1", "partitioned", 10),
        ("4.0.1", "bucketed", 6),
        ("3.1.3", "partitioned", 3),
        *[pytest.param(*newer.values, "partitioned", 6, marks=newer.marks) for newer in NEWER],
    ],
    indirect=["hms"],
)
def test_random_merges_are_those_of_the_model(
    spark: SparkSession,
    hms: EmbeddedMetastore,
    client: MetastoreClient,
    database: str,
    shape: str,
    merges: int,
) -> None:
    random = Random(f"{shape} {merges}")
    table = create(client, f"{database}.t", **SHAPES[shape])
    rows: list[model.Row] = []
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        for number in range(merges):
            if len(rows) < 8 or number % 5 == 4:
                rows = model.random_rows(random, 14)
                acid.delete(all_rows=True)
                acid.append(spark.createDataFrame(rows, SCHEMA))
            source = model.random_source(random)
            on, when = random.choice(model.ONS), model.random_clauses(random)
            builder = acid.merge(spark.createDataFrame(source, SCHEMA), on[0])
            for clause in when:
                builder = clause.add_to(builder)
            case = f"merge {number} on {on[0]}: {when}\nof {source}\ninto {rows}"
            try:
                expected = model.merged(rows, source, on[1], when)
            except model.Duplicates:
                with pytest.raises(CheckFailed):
                    builder.execute()
            else:
                report = builder.execute()
                counts = (report.rows_inserted, report.rows_updated, report.rows_deleted)
                assert counts == (expected.inserted, expected.updated, expected.deleted), case
                rows = expected.rows
            merged = Counter(tuple(row) for row in acid.to_df().select(*model.COLUMNS).collect())
            assert merged == Counter(rows), case
    assert problems_of_keys(table) == []
    assert left_behind(client) == []


@pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)
def test_several_source_rows_for_one_target_row(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> None:
    table = create(client, f"{database}.t", {"id": "int", "v": "int"})
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        acid.append(spark.createDataFrame([(i, 0) for i in range(10)], "id int, v int"))
        twice = [(i, v) for i in range(8) for v in (1, 2)]
        source = spark.createDataFrame(twice, "id int, v int")
        before = files(table)

        with pytest.raises(CheckFailed) as refused:
            acid.merge(source, "t.id = s.id").when_matched_update_all().execute()
        message = str(refused.value)
        assert sum(f"id={i} (2 source rows)" in message for i in range(8)) == 5
        assert f"{database}.t" in message
        with pytest.raises(CheckFailed):
            acid.merge(source, "t.id = s.id").when_matched_delete("s.v > 0").execute()
        assert files(table) == before
        assert left_behind(client) == []

        # Allowed as long as at most one of them acts; and twice the same insert is two rows.
        report = acid.merge(source, "t.id = s.id").when_matched_update_all("s.v = 2").execute()
        assert report.rows_updated == 8
        merge = acid.merge(source, "t.id = s.id + 100").when_not_matched_insert_all("s.id < 2")
        assert merge.execute().rows_inserted == 4
        expected = [*((i, 2) for i in range(8)), (8, 0), (9, 0), (0, 1), (0, 2), (1, 1), (1, 2)]
        assert rows_of(acid.to_df(), (0, 1)) == sorted(expected)
        assert acid.merge(source, "t.id = s.id").when_matched_delete("s.v > 2").execute().files == 0
        # A deletion of all rows with a match has one result, whatever their number.
        merge = acid.merge(source, "t.id = s.id").when_matched_delete()
        report = merge.when_not_matched_by_source_delete("t.id = 9").execute()
        assert report.rows_deleted == 13
        assert rows_of(acid.to_df()) == [(8, 0)]


@pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)
def test_a_source_that_is_never_twice_the_same_is_evaluated_once(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> None:
    create(client, f"{database}.t", {"id": "int", "old": "int", "mark": "string"})
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        acid.append(spark.range(200).selectExpr("cast(id as int) as id", "0 as old", "'' as mark"))
        random = "cast(rand() * 400 as int) as id"
        source = spark.range(300).selectExpr(random, "uuid() as mark").dropDuplicates(["id"])
        report = (
            acid.merge(source, "t.id = s.id")
            .when_matched_delete("s.id < 100")
            .when_matched_update({"mark": "s.mark", "old": "s.id"})
            .when_not_matched_insert({"id": "s.id", "mark": "s.mark"})
            .execute()
        )
        rows = rows_of(acid.to_df())
        updated = [row for row in rows if row[1] != 0 and row[1] is not None]
        inserted = [row for row in rows if row[1] is None]
        assert all(id_ == old for id_, old, _ in updated)
        assert all(id_ >= 200 for id_, _, _ in inserted)
        assert (
            len({id_ for id_, _, _ in rows})
            == len(rows)
            == 200 + len(inserted) - (report.rows_deleted)
        )
        assert len(updated) == report.rows_updated
        assert len(inserted) == report.rows_inserted
        assert min(report.rows_deleted, report.rows_updated, report.rows_inserted) > 0


@pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)
@pytest.mark.parametrize(
    ("stored", "source", "on"),
    [
        # A text is compared with a number as a number, in any notation.
        ("01", "1 as id, 1 as day", "t.id = s.id and t.day = s.day"),
        ("2026-01-05", "1 as id, date'2026-01-05' as day", "s.day = t.day and t.id = s.id"),
    ],
)
def test_a_partition_is_found_by_comparing_as_spark_does(
    spark: SparkSession,
    hms: EmbeddedMetastore,
    client: MetastoreClient,
    database: str,
    stored: str,
    source: str,
    on: str,
) -> None:
    create(client, f"{database}.t", {"id": "int", "v": "int"}, {"day": "string"})
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        acid.append(spark.createDataFrame([(1, 0)], "id int, v int"), [{"day": stored}])
        rows = spark.sql(f"select {source}")
        report = (
            acid.merge(rows, on)
            .when_matched_update({"v": "t.v + 1"})
            .when_not_matched_insert({"id": "s.id", "day": "s.day"})
            .execute()
        )
        assert (report.rows_updated, report.rows_inserted) == (1, 0)
        assert rows_of(acid.to_df()) == [(1, 1, stored)]


@pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)
def test_rows_without_a_source_are_found_in_partitions_the_condition_excludes(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> None:
    create(client, f"{database}.t", {"id": "int"}, {"day": "string"})
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        rows = [(1, "d1"), (2, "d1"), (1, "d2"), (2, "d2")]
        acid.append(spark.createDataFrame(rows, "id int, day string"))
        source = spark.createDataFrame([(1,)], "id int")
        merge = acid.merge(source, "t.id = s.id and t.day = 'd1'")
        assert merge.when_not_matched_by_source_delete().execute().rows_deleted == 3
        assert rows_of(acid.to_df()) == [(1, "d1")]


@pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)
def test_a_merge_that_only_deletes_needs_no_columns_of_the_source_but_its_keys(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> None:
    columns = {"id": "int", "v": "varchar(3)", "c": "char(3)"}
    create(client, f"{database}.t", columns)
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        acid.append(
            spark.createDataFrame([(1, "a", "b"), (2, "c", "d")], "id int, v string, c string")
        )
        source = spark.createDataFrame([(2,)], "id int")
        assert acid.merge(source, "t.id = s.id").when_matched_delete().execute().rows_deleted == 1
        assert rows_of(acid.to_df()) == [(1, "a", "b")]


@pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)
def test_null_and_an_empty_text_are_one_partition_also_in_buckets(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> None:
    create(
        client,
        f"{database}.t",
        {"id": "int"},
        {"k": "string"},
        bucket_columns=["id"],
        num_buckets=2,
    )
    rows = [(id, k) for id in range(4) for k in ("", None, "a")]
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        acid.append(spark.createDataFrame(rows, "id int, k string").repartition(4))
        found = rows_of(acid.to_df())
    assert sorted(found, key=str) == sorted(((id, k or None) for id, k in rows), key=str)
