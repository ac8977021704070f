"""The input of a write is evaluated once: deletes, new rows and counts are consistent."""

import json
import os
import random
import re
import subprocess
import sys
import uuid
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.functions import expr

from hiveacid.api.table import AcidTable
from hiveacid.api.transaction import AcidTransaction
from hiveacid.errors import HiveAcidError, TypeMismatch
from hiveacid.jobs.sources import PathSource, QuerySource
from hiveacid.parser.script import to_jobs
from hiveacid.plan.scope import ChangeScope
from hiveacid.progress import Phase
from hiveacid.rules.names import STAGING_PREFIX
from hiveacid.spark.read.kept_rows import keep_rows
from hiveacid.spark.read.pruning import matching_partitions
from hiveacid.spark.run import run
from hiveacid.spark.spark_versions import FILES_HOLD_VOID
from tests.engine.acid_tables import (
    create,
    everything,
    folder,
    left_behind,
    problems_of_keys,
    rows_of,
)
from tests.observers import At
from tests.spark_versions.versions import NEEDS_SPARK_4_0

HIVE4 = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
BOTH = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)

COLUMNS = {"id": "int", "mark": "string"}
DAYS = ("mon", "tue", "wed")


class Restless:
    """A source of two partitions that never returns the same rows twice, and records its results."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self.path = path
        place = str(path)

        def rows(batches):
            for batch in batches:
                task = TaskContext.get().partitionId()
                ids = random.Random().sample(range(task, 400, 2), batch.num_rows)
                marks = [uuid.uuid4().hex for _ in ids]
                days = [DAYS[id_ % 3] for id_ in ids]
                with open(place, "a") as seen:
                    for row in zip(ids, marks, days, strict=True):
                        seen.write(json.dumps([task, *row]) + "\n")
                yield pa.RecordBatch.from_pydict({"id": ids, "mark": marks, "day": days})

        self.frame = spark.range(0, 200, 1, 2).mapInArrow(rows, "id long, mark string, day string")

    @property
    def given(self) -> list[tuple[int, str, str]]:
        """The rows of the one evaluation that there was."""
        seen = [json.loads(line) for line in self.path.read_text().splitlines()]
        assert Counter(task for task, *_ in seen) == {0: 100, 1: 100}, "evaluated again"
        return [(id_, mark, day) for _, id_, mark, day in seen]


class LosingCaches(At):
    """Lets Spark forget, at the beginning of a phase, all that it was asked to remember."""

    def __init__(self, spark: SparkSession, phase: Phase) -> None:
        super().__init__(phase, spark.catalog.clearCache, times=9)


@pytest.mark.parametrize(
    ("hms", "partitioned"),
    [("fake 4.0.1", False), ("fake 4.0.1", True), ("fake 3.1.3", True)],
    indirect=["hms"],
)
def test_a_merge_knows_its_source_from_one_evaluation(
    spark, hms, client, database, tmp_path, partitioned
):
    day = {"day": "string"}
    table = create(
        client,
        f"{database}.t",
        COLUMNS if partitioned else COLUMNS | day,
        day if partitioned else None,
    )
    source = Restless(spark, tmp_path / "seen")
    losing = [LosingCaches(spark, phase) for phase in (Phase.OPEN, Phase.READ, Phase.WRITE)]
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark", observers=losing) as acid:
        old = [(id_, "old", DAYS[id_ % 3]) for id_ in range(200)]
        acid.append(spark.createDataFrame(old, "id int, mark string, day string"))
        report = (
            acid.merge(source.frame, "t.id = s.id and t.day = s.day")
            .when_matched_delete("s.id < 50")
            .when_matched_update({"mark": "s.mark"}, "s.id < 150 or rand() < 0.5")
            .when_not_matched_insert_all()
            .execute()
        )
        rows = {id_: (mark, day) for id_, mark, day in rows_of(acid.to_df())}
    given = {id_: (mark, day) for id_, mark, day in source.given}
    wanted = {id_: (mark, day) for id_, mark, day in old} | given
    by_chance = {i for i in given if 150 <= i < 200 and rows[i][0] == "old"}
    wanted |= {i: ("old", DAYS[i % 3]) for i in by_chance}
    gone = {i for i in given if i < 50}
    assert rows == {id_: row for id_, row in wanted.items() if id_ not in gone}
    assert report.rows_deleted == len(gone)
    assert report.rows_inserted == sum(id_ >= 200 for id_ in given)
    assert report.rows_updated == sum(50 <= id_ < 200 for id_ in given) - len(by_chance)
    assert problems_of_keys(table) == []
    assert list(folder(table).glob(f"{STAGING_PREFIX}*")) == []
    assert left_behind(client) == []


@HIVE4
@pytest.mark.parametrize(
    ("shape", "overwrite"), [("plain", False), ("partitioned", True), ("bucketed", False)]
)
def test_an_insert_evaluates_its_source_once(
    spark, hms, client, database, tmp_path, shape, overwrite
):
    more = {"bucket_columns": ["id"], "num_buckets": 2} if shape == "bucketed" else {}
    keys = None if shape == "plain" else {"day": "string"}
    create(client, f"{database}.t", COLUMNS | ({} if keys else {"day": "string"}), keys, **more)
    source = Restless(spark, tmp_path / "seen")
    losing = [LosingCaches(spark, phase) for phase in (Phase.READ, Phase.WRITE)]
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark", observers=losing) as acid:
        insert = acid.overwrite if overwrite else acid.append
        named = [{"day": day} for day in DAYS] if keys else None
        assert insert(source.frame, named).rows_inserted == 200
        assert rows_of(acid.to_df()) == sorted(source.given)


@BOTH
def test_an_update_deletes_the_rows_that_it_writes_anew(spark, hms, client, database, tmp_path):
    table = create(client, f"{database}.t", COLUMNS)
    wanted = tmp_path / "wanted.json"

    def want(*ids: int) -> None:
        wanted.write_text("".join(json.dumps({"id": id_}) + "\n" for id_ in ids))

    def lose() -> None:
        spark.catalog.clearCache()
        want(3, 4, 5)

    want(1, 2)
    inputs = {"wanted": PathSource(str(wanted), "json", schema="id int")}
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        acid.append(
            spark.createDataFrame([(id_, "old") for id_ in range(6)], "id int, mark string")
        )
    with AcidTable(
        f"{database}.t", hms.uri, spark=spark, run_in="spark", observers=[At(Phase.WRITE, lose)]
    ) as acid:
        where = "t.id in (select id from wanted)"
        report = acid.update({"mark": "concat('new ', id)"}, where, inputs=inputs)
        assert report.rows_updated == 2
        new = {1: "new 1", 2: "new 2"}
        assert rows_of(acid.to_df()) == [(id_, new.get(id_, "old")) for id_ in range(6)]
    assert problems_of_keys(table) == []
    assert list(folder(table).glob(f"{STAGING_PREFIX}*")) == []


@pytest.mark.every_spark
@pytest.mark.sampled(1)
@pytest.mark.server
@HIVE4
@pytest.mark.parametrize("change", ["insert", "merge"])
def test_a_stage_that_gives_other_rows_when_it_is_computed_again_ends_the_write(
    hms, client, database, tmp_path, change
):
    table = create(client, f"{database}.t", COLUMNS | {"day": "string"})
    program = [sys.executable, "-m", "tests.engine.lost_stage"]
    given = [hms.uri, f"{database}.t", change, str(tmp_path)]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "TZ": "UTC"}
    done = subprocess.run(
        [*program, *given], env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    told = json.loads(done.stdout.splitlines()[-1])
    # Spark 4.1 ends the job by itself.
    assert re.search("indeterminate|lost the output of a stage", told.pop("error"))
    assert told == {"retryable": True, "struck": True, "rows": 0}
    assert everything(table) == []


@HIVE4
def test_chance_excludes_no_partition(spark, client, database):
    table = create(client, f"{database}.t", COLUMNS, {"day": "string"})
    names = [f"day={day}" for day in DAYS]
    chance, sure = "t.day = uuid()", "t.day > 'mon'"

    def matching(condition):
        scope = ChangeScope(table, "t")
        return matching_partitions(spark, condition, scope, names)

    assert matching(chance) == matching("1 = 1") == names
    assert matching(f"{chance} and {sure}") == matching(sure) == ["day=tue", "day=wed"]


class Owner:
    """A transaction that holds files for as long as the test takes."""

    txn_id = 1

    def __init__(self) -> None:
        self.remove = []

    def own_temporarily(self, remove, what) -> None:
        self.remove.append(remove)


NESTED_NULL = "null" if FILES_HOLD_VOID else "cast(null as int)"
STRANGE = {
    "nothing": "null",
    "Same": "cast(id as int)",
    "sAME": "'other'",
    'a.b `c` "d", é': "id",
    "": "-id",
    "first moment": "timestamp'0001-01-01 00:00:00.000001'",
    "last moment": "timestamp'9999-12-31 23:59:59.999999'",
    "between calendars": "date'1582-10-10'",
    "moment between": "timestamp'1582-10-10 01:02:03.000004'",
    "no zone": "timestamp_ntz'1500-02-28 00:00:00.000001'",
    "zero": "double('-0.0')",
    "nan": "float('NaN')",
    "infinite": "double('-Infinity')",
    "decimal": "cast('-12345678901234567890.123456789012345678' as decimal(38,18))",
    "bytes": "x'00ff80'",
    "empty": "''",
    "text": "concat('a ', char(0), 'ß𝄞  ')",
    "months": "interval '-1-2' year to month",
    "seconds": "interval '1 02:03:04.5' day to second",
    "variant": 'parse_json(\'{"a": [1.50, null, "x"]}\')',
    "collated": "'a' collate UTF8_LCASE",
    "by date": "map(date'2020-01-01', 1, date'2020-01-02', null)",
    "moments": "array(timestamp'1582-10-10 00:00:00', null)",
    "deep": f"array(named_struct('x', 1, 'X', map('k', array(named_struct('a b', id, 'é', {NESTED_NULL})))))",
    **({"none of it": "array()"} if FILES_HOLD_VOID else {}),
    "maybe": "case when id > 0 then named_struct('v', case when id > 1 then id end) end",
}


@HIVE4
def test_a_column_without_values_is_kept_and_still_evaluated(spark, client, database):
    table = create(client, f"{database}.t", COLUMNS)
    frame = spark.sql("SELECT id, null AS x, null AS X FROM range(3)")
    kept = keep_rows(frame, spark, table, Owner(), "The rows")
    assert kept.frame.dtypes == [("id", "bigint"), ("x", "void"), ("X", "void")]
    assert sorted(map(tuple, kept.frame.collect())) == [(n, None, None) for n in range(3)]
    failing = spark.sql("SELECT raise_error('stop') AS x FROM range(3)")
    with pytest.raises(HiveAcidError, match="stop"):
        keep_rows(failing, spark, table, Owner(), "The rows")
    nested = spark.sql("SELECT array() AS x")
    if FILES_HOLD_VOID:
        assert keep_rows(nested, spark, table, Owner(), "The rows").frame.collect() == [([],)]
    else:
        with pytest.raises(TypeMismatch, match="array<void> of column x"):
            keep_rows(nested, spark, table, Owner(), "The rows")


@NEEDS_SPARK_4_0
@HIVE4
@pytest.mark.parametrize("rows", [3, 0])
def test_kept_rows_are_the_same_in_every_bit(spark, client, database, rows):
    table = create(client, f"{database}.t", COLUMNS)
    session = spark.newSession()
    for key, value in {
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS",
        "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
        "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
        "spark.sql.parquet.writeLegacyFormat": "true",
        "spark.sql.parquet.compression.codec": "gzip",
        "spark.sql.session.timeZone": "UTC",
    }.items():
        session.conf.set(key, value)
    frame = session.range(rows).select(*[expr(sql) for sql in STRANGE.values()])
    frame = frame.toDF(*[name.strip() or "Same" for name in STRANGE])
    owner = Owner()
    kept = keep_rows(frame, spark, table, owner, "The rows")

    def seen(frame):
        texts = [f"cast(c{i} as string)" for i in range(len(STRANGE))]
        named = frame.toDF(*[f"c{i}" for i in range(len(STRANGE))])
        texts[list(STRANGE).index("bytes")] = f"hex(c{list(STRANGE).index('bytes')})"
        return sorted(map(str, named.selectExpr(*texts).collect()))

    assert seen(kept.frame) == seen(frame)
    assert kept.frame.columns == frame.columns
    assert [f.dataType for f in kept.frame.schema] == [
        f.dataType for f in spark.createDataFrame([], frame.schema).schema
    ] or kept.frame.dtypes == frame.dtypes
    assert kept.rows == rows
    assert kept.frame.count() == rows
    (staged,) = folder(table).glob(f"{STAGING_PREFIX}{owner.txn_id}_*")
    owner.remove[0]()
    assert not staged.exists()


@NEEDS_SPARK_4_0
@HIVE4
def test_types_that_no_file_can_store_are_refused(spark, client, database):
    table = create(client, f"{database}.t", COLUMNS)
    for given in ("make_interval(1, 2)", "array(named_struct())"):
        frame = spark.range(1).selectExpr("id", f"{given} as odd")
        with pytest.raises(TypeMismatch, match="column odd"):
            keep_rows(frame, spark, table, Owner(), "The source")
    assert list(folder(table).glob(f"{STAGING_PREFIX}*")) == []


@HIVE4
def test_several_inserts_share_one_evaluation_of_the_rows_before_them(spark, hms, client, database):
    for name in ("low", "high", "feed"):
        create(client, f"{database}.{name}", {"id": "int", "chance": "double"})
    with AcidTable(f"{database}.feed", hms.uri, spark=spark, run_in="spark") as feed:
        feed.append(spark.range(100).selectExpr("cast(id as int) as id"))
    losing = [LosingCaches(spark, phase) for phase in (Phase.READ, Phase.WRITE)]
    text = """
        WITH f AS (SELECT id FROM feed)
        FROM (SELECT id, rand() AS chance FROM f) AS s JOIN (SELECT max(id) AS last FROM f) AS m
        INSERT INTO low SELECT s.id, chance WHERE chance < 0.5 OR id = last
        INSERT INTO high SELECT s.id, chance WHERE NOT (chance < 0.5 OR id = last)
    """
    (job,) = to_jobs(text, database)
    report = run(spark, replace(job, metastore=hms.options), losing)
    assert report.rows_inserted == 100
    rows = {}
    for name in ("low", "high"):
        with AcidTable(f"{database}.{name}", hms.uri, spark=spark, run_in="spark") as table:
            rows[name] = rows_of(table.to_df())
        assert list(folder(client.get_table(table.ref)).glob(f"{STAGING_PREFIX}*")) == []
    assert sorted(id_ for pairs in rows.values() for id_, _ in pairs) == list(range(100))
    assert all(chance < 0.5 for id_, chance in rows["low"] if id_ != 99)
    assert all(chance >= 0.5 for _, chance in rows["high"])
    assert 0 < len(rows["high"]) < 100


@HIVE4
def test_a_file_that_arrives_between_two_inserts_is_read_by_both_or_by_none(
    spark, hms, client, database, tmp_path
):
    for name in ("a", "b"):
        create(client, f"{database}.{name}", {"id": "int"})

    def arrive(name: str) -> None:
        (tmp_path / name).write_text('{"id": 1}\n{"id": 2}\n')

    arrive("first")
    feed = {"feed": PathSource(str(tmp_path), "json", schema="id int")}
    late = At(Phase.WRITE, lambda: arrive("second"))
    with AcidTransaction(hms.uri, spark=spark, run_in="spark", observers=[late]) as txn:
        for name, which in (("a", "="), ("b", "<>")):
            query = QuerySource(f"select id from feed where id {which} 1", feed)
            txn.table(f"{database}.{name}").append(query)
    assert (tmp_path / "second").exists()
    assert [table.rows_inserted for table in txn.report.tables] == [1, 1]
