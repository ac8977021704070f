"""EXPLAIN shows locks of partitions for a merge only if the engine acquires such locks."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_hiveacid.acid.merge import (
    Clause,
    MatchedDelete,
    MatchedUpdate,
    MergePlan,
    NotMatchedBySourceDelete,
    NotMatchedInsert,
)
from airflow_hiveacid.acid.names import TableRef
from airflow_hiveacid.engine.read.pruning import tied_partition_columns
from airflow_hiveacid.engine.statements.merge_join import MergeJoin
from airflow_hiveacid.jobs.sources import TableSource
from airflow_hiveacid.jobs.write_jobs import MergeJob
from airflow_hiveacid.metastore.catalog import HiveColumn, HiveTable
from airflow_hiveacid.sql.tied_partitions import ties_partitions

KEYS = {"day": "string", "n": "int"}
SOURCE = {"id": "int", "a": "string", "day": "string", "n": "int", "x": "double", "d": "date"}
TIED = "t.id = s.id AND t.day = s.day AND t.n = s.n"
TABLE = HiveTable.new(
    TableRef("db", "t"),
    [HiveColumn("id", "int"), HiveColumn("a", "string")],
    partition_keys=[HiveColumn(*key) for key in KEYS.items()],
)


@pytest.mark.parametrize(
    ("on", "when", "told"),
    [
        (TIED, [MatchedUpdate(), NotMatchedInsert()], True),
        (TIED.upper().replace("T.ID", "t.id"), [MatchedDelete()], True),
        (f"({TIED}) AND t.a > s.a", [MatchedDelete()], True),
        ("s.day = t.day AND (t.n = s.n)", [MatchedDelete()], True),
        ("t.day = 'mon' AND t.n = 7", [MatchedDelete()], True),
        ("t.day = '7' AND t.n = DATE '2026-11-20'", [MatchedDelete()], True),
        ("t.day = DATE '2026-11-20' AND t.n = 1", [MatchedDelete()], False),
        ("t.day = '7' AND t.n = 1e0", [MatchedDelete()], None),
        ("t.day = s.day AND t.n = s.id", [MatchedUpdate({"a": "s.a"})], True),
        ("t.id = s.id", [MatchedDelete()], False),
        ("t.day = s.day", [MatchedDelete()], False),
        ("t.day = s.day OR t.n = s.n", [MatchedDelete()], False),
        ("t.day = s.day AND t.n > s.n", [MatchedDelete()], False),
        ("t.day = t.a AND t.n = s.n", [MatchedDelete()], False),
        ("t.day = s.n AND t.n = s.n", [MatchedDelete()], False),
        ("t.day = 1 AND t.n = s.n", [MatchedDelete()], False),
        ("t.day = s.day AND t.n = s.x", [MatchedDelete()], False),
        (TIED, [MatchedDelete(), NotMatchedBySourceDelete()], False),
        (TIED, [MatchedUpdate({"n": "s.id"})], False),
        (TIED, [MatchedUpdate({"`N`": "s.N"})], True),
        (TIED, [NotMatchedInsert({"id": "s.id", "day": "s.day"})], False),
        (TIED, [NotMatchedInsert({"id": "s.id", "day": "s.day", "n": "s.n"})], True),
        (TIED, [NotMatchedInsert(row=["s.id", "s.a", "s.day", "s.n"])], True),
        (TIED, [NotMatchedInsert(row=["s.id", "s.day", "s.a", "s.n"])], False),
        ("t.day = s.day AND t.n = s.id", [MatchedUpdate()], False),
        # Only Spark knows these.
        ("t.day = cast(s.d AS string) AND t.n = s.n", [MatchedDelete()], None),
        ("t.day = concat(s.a, '') AND t.n = s.n", [MatchedDelete()], None),
        (TIED, [MatchedUpdate({"n": "s.n + 0"})], None),
    ],
)
def test_a_merge_locks_the_explained_partitions(
    spark: SparkSession, on: str, when: list[Clause], told: bool | None
) -> None:
    job = MergeJob(target="db.t", source=TableSource("db.s"), on=on, when=when)
    assert ties_partitions(job, ["id", "a"], KEYS, SOURCE) is told
    if told is not None:
        assert locks_partitions(spark, job) is told
    # Of a query or of files the types are not known before.
    assert ties_partitions(job, ["id", "a"], KEYS, None) in (told, None)


def locks_partitions(spark: SparkSession, job: MergeJob) -> bool:
    schema: Any = ", ".join(f"{name} {type_}" for name, type_ in SOURCE.items())
    source = spark.createDataFrame([], schema)
    join = MergeJoin(spark, TABLE, source, job.on, MergePlan.of(job.when))
    keys = join.partition_keys()
    return keys is not None and tied_partition_columns(source.alias("s"), keys, TABLE) is not None


def test_a_name_without_an_alias_may_be_of_either_side() -> None:
    for on, told in (("day = s.day AND t.n = s.n", None), ("t.id = id", None), ("t.id = 1", False)):
        job = MergeJob(target="db.t", source=TableSource("db.s"), on=on, when=[MatchedDelete()])
        assert ties_partitions(job, ["id", "a"], KEYS, SOURCE) is told
