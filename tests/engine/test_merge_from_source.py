"""Merges whose new rows take everything from the source, which is written before it is compared."""

import pytest
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.errors import CheckFailed, TypeMismatch
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.spark.write import row_ids
from hiveacid.writes import output
from tests.engine.acid_tables import ONLY_HIVE4, create, left_behind, problems_of_keys, rows_of

COLUMNS = {"id": "int", "v": "int"}
SHAPES = {
    "plain": ({**COLUMNS, "day": "date"}, None, {}),
    "partitioned": (COLUMNS, {"day": "date"}, {}),
    "bucketed": ({**COLUMNS, "day": "date"}, None, {"bucket_columns": ["id"], "num_buckets": 3}),
}
SCHEMA = "id int, v int, day date"
ON = "t.id = s.id and t.day = s.day"


def jobs_of(spark: SparkSession) -> int:
    return int(spark._jsc.sc().dagScheduler().nextJobId())


@pytest.fixture
def where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The place where row ids are sorted and files are written: in the driver, or in Spark's tasks."""
    if request.param != "in the driver":
        monkeypatch.setattr(row_ids, "FEW", 0)
        monkeypatch.setattr(output, "LOCAL_BYTES", 0)
    if request.param == "in Spark":
        monkeypatch.setattr(row_ids, "_MOST_FETCHED", 0)
    return str(request.param)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)
@pytest.mark.parametrize(
    ("shape", "where"),
    [
        *[(shape, "in the driver") for shape in SHAPES],
        ("plain", "fetched, and given back"),
        ("partitioned", "in Spark"),
        ("bucketed", "in Spark"),
    ],
    indirect=["where"],
)
def test_every_source_row_is_written_as_often_as_it_counts(
    spark: SparkSession,
    hms: EmbeddedMetastore,
    client: MetastoreClient,
    database: str,
    shape: str,
    where: str,
) -> None:
    columns, keys, more = SHAPES[shape]
    table = create(client, f"{database}.t", columns, keys, **more)
    days = ("2026-01-01", "2026-01-02")

    def rows(*given: tuple[int, int, str]):
        return spark.createDataFrame(given, "id int, v int, day string").selectExpr(
            "id", "v", "cast(day as date) as day"
        )

    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        # Two rows of the table meet one of the source, which then becomes two.
        acid.append(rows(*[(id_, 0, day) for id_ in range(6) for day in days], (0, 1, days[0])))
        source = rows((0, 7, days[0]), (1, 8, days[1]), (9, 9, days[0]), (5, -1, days[0]))
        report = (
            acid.merge(source, ON)
            .when_matched_delete("s.v < 0")
            .when_matched_update_all()
            .when_not_matched_insert_all("s.v > 0")
            .execute()
        )
        assert (report.rows_inserted, report.rows_updated, report.rows_deleted) == (1, 3, 1)
        expected = {(id_, 0, day) for id_ in range(6) for day in days}
        expected -= {(0, 0, days[0]), (1, 0, days[1]), (5, 0, days[0])}
        shown = sorted(
            [*expected, (0, 7, days[0]), (0, 7, days[0]), (1, 8, days[1]), (9, 9, days[0])]
        )

        def seen() -> list[tuple[int, int, str]]:
            return sorted((id_, v, str(day)) for id_, v, day in rows_of(acid.to_df()))

        assert seen() == shown
        # Only new rows; only known rows; neither.
        new = rows((0, 1, days[0]), (20, 1, days[0]), (21, 1, days[1]), (21, 2, days[1]))
        assert acid.merge(new, ON).when_not_matched_insert_all().execute().rows_inserted == 3
        shown = sorted([*shown, (20, 1, days[0]), (21, 1, days[1]), (21, 2, days[1])])
        assert seen() == shown
        known = rows((20, 5, days[0]), (30, 5, days[0]))
        assert acid.merge(known, ON).when_matched_update_all().execute().rows_updated == 1
        shown = sorted([*(set(shown) - {(20, 1, days[0])}), (20, 5, days[0]), (0, 7, days[0])])
        assert seen() == shown
        no_rows = acid.merge(rows((40, 1, days[0])).where("id < 0"), ON)
        assert no_rows.when_not_matched_insert_all("s.v > 0").execute().files == 0
        neither = rows((30, 5, days[0]))
        assert acid.merge(neither, ON).when_matched_update_all().execute().files == 0
        twice = rows((20, 1, days[0]), (20, 2, days[0]))
        with pytest.raises(CheckFailed, match=r"id=20.*2 source rows"):
            acid.merge(twice, ON).when_matched_update_all().execute()
        twice = rows((20, 1, days[0]), (20, 2, days[0]), (22, 3, days[0]))
        merge = acid.merge(twice, ON).when_matched_delete().when_not_matched_insert_all()
        report = merge.execute()
        assert (report.rows_deleted, report.rows_inserted) == (1, 1)
        assert seen() == sorted([*(row for row in shown if row[0] != 20), (22, 3, days[0])])
        known = rows((22, 5, days[0]), (22, 6, days[0]))
        assert acid.merge(known, ON).when_matched_delete().execute().rows_deleted == 1
        assert seen() == [row for row in shown if row[0] != 20]
    assert problems_of_keys(table) == []
    assert left_behind(client) == []


@pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)
def test_a_value_that_is_never_written_may_be_wrong(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> None:
    create(client, f"{database}.t", {"id": "int", "v": "tinyint"})
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        acid.append(spark.createDataFrame([(1, 1)], "id int, v int"))
        source = spark.createDataFrame([(1, 1000), (2, 2)], "id int, v int")
        merge = acid.merge(source, "t.id = s.id")
        assert merge.when_not_matched_insert_all().execute().rows_inserted == 1
        assert rows_of(acid.to_df()) == [(1, 1), (2, 2)]
        gone = acid.merge(source, "t.id = s.id").when_matched_delete("s.v > 100")
        assert gone.when_not_matched_insert_all("s.id > 2").execute().rows_deleted == 1
        with pytest.raises(TypeMismatch, match="1000"):
            acid.merge(source, "t.id = s.id").when_not_matched_insert_all().execute()
        assert rows_of(acid.to_df()) == [(2, 2)]


@pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)
def test_keys_that_an_update_keeps_are_those_of_the_source(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> None:
    create(client, f"{database}.t", {"id": "int", "v": "int", "w": "int"})
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        acid.append(spark.range(1000).selectExpr("cast(id as int) as id", "0 as v", "0 as w"))
        source = spark.range(990, 1010).selectExpr("cast(id as int) as id", "1 as v")

        def merge(update: dict[str, str], insert: dict[str, str]) -> int:
            before = jobs_of(spark)
            builder = acid.merge(source, "t.id = s.id").when_matched_update(update)
            report = builder.when_not_matched_insert(insert).execute()
            assert report.rows_updated + report.rows_inserted == 20
            return jobs_of(spark) - before

        # The source is written, sent to all tasks, and joined; there is no other pass.
        from_source = merge({"v": "s.v", "w": "s.v"}, {"id": "s.id", "v": "s.v", "w": "s.v"})
        assert from_source == 3
        assert rows_of(acid.to_df().where("v = 1")) == [(id_, 1, 1) for id_ in range(990, 1010)]
        # The table's own value of w is kept.
        merge({"v": "s.v + 1"}, {"id": "s.id", "v": "s.v"})
        assert rows_of(acid.to_df().where("v = 2")) == [(id_, 2, 1) for id_ in range(990, 1010)]
