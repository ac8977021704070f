"""Tables that get the columns of written rows."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.errors import (
    HiveAcidError,
    InvalidJob,
    TypeMismatch,
    UnknownColumn,
    UnsupportedTable,
)
from hiveacid.jobs.report import RunReport
from hiveacid.jobs.sources import QuerySource
from hiveacid.jobs.write_jobs import InsertJob
from hiveacid.metastore.catalog import HivePartition
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.progress import PhaseObserver
from hiveacid.rules.names import TableRef
from hiveacid.spark.run import run
from tests.engine.acid_tables import ONLY_HIVE4, create, files, left_behind, rows_of
from tests.engine.compaction_case import report_of_compaction

COLUMNS = {"id": "int", "amount": "decimal(6,2)", "name": "varchar(9)"}


class Said(PhaseObserver):
    """Keeps the notes of runs."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def types_of(client: MetastoreClient, name: str) -> dict[str, str]:
    """The columns of a table, after a check that its partitions have the same."""
    table = client.get_table(TableRef.parse(name))
    for partition in client.get_partitions(table) if table.partition_keys else ():
        assert partition.columns == table.columns
    assert len({column.name for column in table.columns}) == len(table.columns)
    return {column.name: column.type for column in table.columns}


@pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)
def test_appends_and_merges_add_columns_and_widen_numbers(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> None:
    name = f"{database}.t"
    create(client, name, COLUMNS, {"day": "string"}, bucket_columns=["id"], num_buckets=2)
    with AcidTable(name, hms.uri, spark=spark, run_in="spark") as acid:
        acid.append(spark.sql("select 1 as id, 1.5 as amount, 'a' as name, 'mon' as day"))
        # The key of the buckets stays, and the value has to fit; the others grow.
        more = spark.sql(
            "select 2L as id, cast(12345.678 as decimal(8,3)) as amount, 'b' as name,"
            " map('k', array(1)) as Tags, date'2024-02-29' as since, 'mon' as day"
        )
        with pytest.raises(UnknownColumn, match=r"Tags, since"):
            acid.append(more)
        assert acid.append(more, merge_schema=True).rows_inserted == 1
        grown = COLUMNS | {
            "amount": "decimal(8,3)",
            "tags": "map<string,array<int>>",
            "since": "date",
        }
        assert types_of(client, name) == grown
        # The source of a merge lacks some columns, and has one that is new.
        source = spark.sql(
            "select id, 'tue' as day, timestamp'2024-01-01 00:00:00' as seen from values (1), (3) as v(id)"
        )
        merge = acid.merge(source, "t.id = s.id", merge_schema=True).when_matched_update_all()
        report = merge.when_not_matched_insert_all().execute()
        assert (report.rows_updated, report.rows_inserted) == (1, 1)
        assert types_of(client, name) == grown | {"seen": "timestamp"}
        rows = acid.to_df().selectExpr(
            "id", "string(amount)", "name", "tags", "string(since)", "string(seen)", "day"
        )
        assert rows_of(rows) == [
            (1, "1.500", "a", None, None, "2024-01-01 00:00:00", "tue"),
            (2, "12345.678", "b", {"k": [1]}, "2024-02-29", None, "mon"),
            (3, None, None, None, None, "2024-01-01 00:00:00", "tue"),
        ]
        # Of columns that clauses name only these are taken.
        other = spark.sql("select 1 as id, true as flag, 'x' as unwanted")
        merge = acid.merge(other, "t.id = s.id", merge_schema=True)
        merge.when_matched_update({"flag": "s.flag"}).execute()
        assert list(types_of(client, name))[-2:] == ["seen", "flag"]
        # Files of all these columns become one.
        seen = rows_of(acid.to_df())
        assert {result.outcome for result in report_of_compaction(acid, "major").partitions} == {
            "compacted"
        }
        assert rows_of(acid.to_df()) == seen
        # Nothing is new, so nothing is changed; the overwritten rows may be an input.
        enriched = acid.to_df().selectExpr("*", "id * 2 as twice")
        acid.overwrite(enriched, merge_schema=True)
        assert rows_of(acid.to_df().select("id", "twice", "flag")) == [
            (1, 2, True),
            (2, 4, None),
            (3, 6, None),
        ]
    assert left_behind(client) == []


@pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)
def test_control_columns_are_not_part_of_the_row(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> None:
    name = f"{database}.t"
    create(client, name, {"id": "int", "seq": "bigint", "name": "string"})
    said = Said()
    with AcidTable(name, hms.uri, spark=spark, run_in="spark", observers=[said]) as acid:
        rows = spark.sql("select 1 as id, 7L as seq, 'a' as name, 'I' as op, true as flag")
        report = acid.append(rows, merge_schema=True, exclude=["OP"])
        assert report.columns_added == report.tables[0].columns_added == ("flag",)
        assert f"merge_schema adds columns of {name}: flag boolean" in said.notes
        feed = spark.sql(
            "select id, seq, op, name, 1.5D as score from values (1, 8L, 'U', 'b'), (2, 8L, 'I', 'c'),"
            " (3, 8L, 'D', 'd') as v(id, seq, op, name)"
        )
        # A column of the table that is excluded is not taken either.
        merge = acid.merge(feed, "t.id = s.id", merge_schema=True, exclude=["op", "Seq"])
        merge = merge.when_matched_update_all("s.op = 'U'")
        assert merge.when_not_matched_insert_all("s.op <> 'D'").execute().columns_added == (
            "score",
        )
        merge = acid.merge(feed.drop("score", "seq"), "t.id = s.id", exclude=["op"])
        with pytest.raises(UnknownColumn, match=r"has no seq, flag, score\. .*merge_schema=True"):
            merge.when_matched_update_all().execute()
        merge = acid.merge(
            feed.selectExpr("*", "true as flag"), "t.id = s.id", exclude=["op", "seq"]
        )
        assert merge.when_matched_update_all().execute().columns_added == ()
        overwritten = acid.to_df().selectExpr("*", "1 as n")
        assert rows_of(overwritten) == [
            (1, 7, "b", True, 1.5, 1),
            (2, None, "c", True, 1.5, 1),
        ]
        acid.overwrite(overwritten, exclude=["n", "name"])
        assert rows_of(acid.to_df()) == [(1, 7, None, True, 1.5), (2, None, None, True, 1.5)]
        unknown = r"excludes o, but the source has no such column\."
        for change in (
            lambda: acid.append(rows, exclude=["o"]),
            lambda: acid.append(rows, merge_schema=True, exclude=["o"]),
            lambda: (
                acid.merge(feed, "t.id = s.id", exclude=["o"])
                .when_matched_update({"name": "s.op"})
                .execute()
            ),
        ):
            with pytest.raises(UnknownColumn, match=unknown):
                change()
        with pytest.raises(InvalidJob, match="exclude finds columns by name"):
            acid.append(rows, by_position=True, exclude=["op"])
    assert list(types_of(client, name)) == ["id", "seq", "name", "flag", "score"]
    assert left_behind(client) == []


REFUSED: list[tuple[str, type[HiveAcidError], str]] = [
    ("1 as id, 1 as `a-b`", UnknownColumn, "gets no column 'a-b'"),
    ("1 as id, null as new", TypeMismatch, "Column new of the source has type void"),
    ("1 as id, interval '1' day as new", TypeMismatch, "Column new .* which Hive lacks"),
    ("1.5D as id, 1 as new", TypeMismatch, "Column id .* is int, the source has double"),
    ("1 as id, 1 as new, cast(1 as decimal(38,1)) as amount", TypeMismatch, "holds both"),
    ("1 as id, 1 as new, array(1) as name", TypeMismatch, "cannot be stored in column name"),
    ("1 as id, 1 as new, map(date'2024-01-01', 1) as m", UnsupportedTable, "Spark loses entries"),
]


@pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)
def test_a_write_that_is_refused_leaves_the_columns_alone(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> None:
    name = f"{database}.t"
    table = create(client, name, COLUMNS)
    with AcidTable(name, hms.uri, spark=spark, run_in="spark") as acid:
        for select, error, message in REFUSED:
            with pytest.raises(error, match=message):
                acid.append(spark.sql(f"select {select}"), merge_schema=True)
            merge = acid.merge(spark.sql(f"select {select}"), "t.id = s.id", merge_schema=True)
            with pytest.raises(error, match=message):
                merge.when_matched_update_all().execute()
        source = spark.sql("select 1 as id, 1 as new")
        merge = acid.merge(source, "t.nope = s.id", merge_schema=True)
        with pytest.raises(HiveAcidError, match="nope"):
            merge.when_not_matched_insert_all().execute()
    assert types_of(client, name) == COLUMNS
    assert files(table) == []
    assert left_behind(client) == []


@pytest.mark.sampled(1)
def test_two_writers_at_once_add_every_column_once(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> None:
    name = f"{database}.t"
    # Hive marks the tables that it has created, and the metastore checks it.
    accurate = {"COLUMN_STATS_ACCURATE": '{"BASIC_STATS":"true","COLUMN_STATS":{"id":"true"}}'}
    table = create(client, name, COLUMNS, {"day": "string"}, parameters=accurate)
    client.add_partitions(table.ref, [HivePartition.new(table, ["mon"])])
    ready = threading.Barrier(2)

    def write(number: int) -> int:
        query = f"select {number} as id, 'x' as shared, {number} as own_{number}, 'mon' as day"
        job = InsertJob(
            target=name, metastore=hms.options, source=QuerySource(query), merge_schema=True
        )
        ready.wait(60)
        report = run(spark, job)
        assert isinstance(report, RunReport)
        return report.rows_inserted

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(write, (1, 2))) == [1, 1]
    added = {"shared": "string", "own_1": "int", "own_2": "int"}
    assert types_of(client, name) == COLUMNS | added
    with AcidTable(name, hms.uri, spark=spark, run_in="spark") as acid:
        rows = acid.to_df().select("id", *added)
        assert rows_of(rows) == [(1, "x", 1, None), (2, "x", None, 2)]
    assert left_behind(client) == []
