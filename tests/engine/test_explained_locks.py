"""EXPLAIN shows the locks that the engine acquires."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from hiveacid.cli.main import main
from hiveacid.jobs.sources import TableSource
from hiveacid.jobs.write_jobs import MergeJob
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.txn.locks import queue_of
from hiveacid.parser.script import to_script
from hiveacid.plan.merge import MergeChange
from hiveacid.plan.partitions import selected_partitions
from hiveacid.plan.scope import ChangeScope
from hiveacid.plan.ties import equalities, tells_partitions, ties_of
from hiveacid.progress import Phase
from hiveacid.rules.merge import (
    Clause,
    MatchedDelete,
    MatchedUpdate,
    NotMatchedBySourceDelete,
    NotMatchedInsert,
)
from hiveacid.rules.names import TableRef
from hiveacid.spark.read.pruning import (
    children,
    conjuncts,
    kind,
    matching_partitions,
    parsed,
    tied_partition_columns,
)
from hiveacid.spark.run import run
from tests.observers import At
from tests.samples import random_of_commit

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
        (TIED, [MatchedUpdate({"n": "s.n + 0"})], False),
    ],
)
def test_a_merge_locks_the_explained_partitions(
    spark: SparkSession, on: str, when: list[Clause], told: bool | None
) -> None:
    job = MergeJob(target="db.t", source=TableSource("db.s"), on=on, when=when)
    assert tells_partitions(MergeChange.of(job, TABLE, [*SOURCE]), SOURCE) is told
    if told is not None:
        assert locks_partitions(spark, job) is told
    # Of a query or of files the types are not known before.
    assert tells_partitions(MergeChange.of(job, TABLE, None), None) in (told, None)


def locks_partitions(spark: SparkSession, job: MergeJob) -> bool:
    schema: Any = ", ".join(f"{name} {type_}" for name, type_ in SOURCE.items())
    source = spark.createDataFrame([], schema)
    ties = ties_of(MergeChange.of(job, TABLE, source.columns))
    return ties is not None and tied_partition_columns(source.alias("s"), ties, TABLE) is not None


def test_a_name_without_an_alias_may_be_of_either_side() -> None:
    for on, told in (
        ("day = s.day AND t.n = s.n", False),
        ("t.day = d AND t.n = s.n", False),
        ("t.day = concat(a, x) AND t.n = s.n", False),
        ("t.day = s.day AND t.n = x + 1", None),
        ("t.id = id", False),
    ):
        job = MergeJob(target="db.t", source=TableSource("db.s"), on=on, when=[MatchedDelete()])
        assert tells_partitions(MergeChange.of(job, TABLE, [*SOURCE]), SOURCE) is told
        assert tells_partitions(MergeChange.of(job, TABLE, None), None) is None


def test_the_parts_of_conditions_are_those_that_spark_finds(spark: SparkSession) -> None:
    draw = random_of_commit("parts of conditions")
    operands = [
        "t.a",
        "s.`b c`",
        "1",
        "'x = 1'",
        "f(s.a, t.b = 1)",
        "(s.a + 1)",
        "-s.a % 2",
        "s.a || 'y'",
    ]
    signs = [
        "=",
        "==",
        "=",
        "=",
        "<=>",
        "<",
        ">=",
        "<>",
        "!=",
        "LIKE",
        "NOT LIKE",
        "IS DISTINCT FROM",
    ]

    def condition(depth: int) -> str:
        one, other, third = draw.choices(operands, k=3)
        if depth == 0:
            forms = [f"{one} {draw.choice(signs)} {other}"] * 6
            forms += [f"{one} BETWEEN {other} AND {third}", f"{one} IN ({other})", f"{one} IS NULL"]
            forms += [f"CASE WHEN {one} = 1 AND true THEN {other} END = {third}"]
            return draw.choice(forms)
        parts = [condition(draw.randrange(depth)) for _ in range(draw.randint(1, 4))]
        joined = f" {draw.choice(['AND', 'AND', 'and', 'OR'])} ".join(parts)
        return draw.choice(["{}", "{}", "({})", "(({}))", "NOT {}", "NOT ({})"]).format(joined)

    found = 0
    for _ in range(600):
        text = condition(3)
        parts = [each for each in conjuncts(parsed(spark, text)) if kind(each) == "EqualTo"]
        theirs = [[side.sql() for side in children(part)] for part in parts]
        ours = [[parsed(spark, side).sql() for side in pair] for pair in equalities(text)]
        assert ours == theirs, text
        found += len(ours)
    assert found > 150


KEYED = HiveTable.new(
    TableRef("db", "t"),
    [HiveColumn("id", "int")],
    partition_keys=[HiveColumn("day", "date"), HiveColumn("n", "int"), HiveColumn("s", "string")],
)
PARTITIONS = [
    f"day={day}/n={n}/s={s}"
    for day in ("2026-01-01", "2026-01-02", "__HIVE_DEFAULT_PARTITION__")
    for n in ("-1", "02", "10", "__HIVE_DEFAULT_PARTITION__")
    for s in ("2", "10", "é", "Z", "__HIVE_DEFAULT_PARTITION__")
]


@pytest.mark.parametrize(
    "condition",
    [
        "n = 2 AND id > 0",
        "n = '2' OR s > 'Z'",
        "n < -0 AND s <= '2'",
        "n > 2 AND day = '2026-01-02'",
        "day < DATE '2026-01-02' OR n IN (2, 10)",
        "n NOT IN (2, 10)",
        "n NOT IN (2, NULL)",
        "NOT (n BETWEEN 2 AND 9 OR s IS NULL)",
        "s IN ('é', '10') AND n IS NOT NULL",
        "n <=> NULL OR NOT day >= '2026-01-02'",
        "NOT s <=> 'Z' AND t.n IS DISTINCT FROM 10",
        "3 > n AND (day = '2026-01-01') AND (id = 1 OR n = 7)",
        "n != 10 OR s <> '2' AND day IS NULL",
    ],
)
def test_partitions_are_selected_as_by_spark(spark: SparkSession, condition: str) -> None:
    scope = ChangeScope(KEYED, "t")
    selected = selected_partitions(condition, scope, PARTITIONS)
    assert selected.certain
    assert selected.names == matching_partitions(spark, condition, scope, PARTITIONS)


ON_FAKE = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
# Table, kind of lock, and partition.
Locks = set[tuple[str, str, str | None]]
Explain = Callable[[str], dict[str, Any]]


@pytest.fixture
def sql(spark: SparkSession, hms: EmbeddedMetastore, database: str) -> Callable[[str], Locks]:
    """Run statements; return the locks that are held when the last one begins to work."""

    def run_sql(text: str) -> Locks:
        held: Locks = set()

        def look() -> None:
            with MetastoreClient(hms.options) as client:
                held.clear()
                held.update(
                    (lock.table.name, lock.type.name, lock.partition)
                    for lock in client.show_locks()
                    if lock.table is not None
                    and lock.table.database == database
                    and lock.table != queue_of(TableRef(database, "t"))
                )

        script = replace(to_script(text, database, all_rows=True), metastore=hms.options)
        run(spark, script, [At(Phase.SNAPSHOT, look, times=99)])
        return held

    return run_sql


@pytest.fixture
def explain(hms: EmbeddedMetastore, database: str, capsys: pytest.CaptureFixture[str]) -> Explain:
    def run_explain(statement: str) -> dict[str, Any]:
        database_and_all = ["--database", database, "--json", "--metastore", hms.uri]
        assert main(["sql", f"EXPLAIN {statement}", *database_and_all]) == 0
        told: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
        return told

    return run_explain


def locks_in(told: dict[str, Any]) -> Locks:
    """The locks that an explanation lists."""
    locks: Locks = set()
    for table, text in told["locks"].items():
        kind, _, where = text.partition(" on the ")
        partitions: list[str | None] = [None]
        if where == "partitions below":
            partitions = [row["partition"] for row in told["rows"]]
        elif where != "table":
            partitions = [*where.removeprefix("partitions ").split(", ")]
        locks |= {(table.partition(".")[2], kind, partition) for partition in partitions}
    return locks


TABLES = """
    CREATE TABLE t (id int, a string) PARTITIONED BY (p int, s string);
    CREATE TABLE u (id int, a string, p int, s string);
    CREATE VIEW v AS SELECT * FROM u;
    INSERT INTO t VALUES (1, 'a', 1, 'x'), (2, 'b', 1, 'y'), (3, 'c', 2, 'x');
"""


@ON_FAKE
@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM t WHERE p = 1",
        "DELETE FROM t WHERE p BETWEEN 2 AND 3 AND id > 0",
        "DELETE FROM t WHERE s = 'y' OR p > 1",
        "DELETE FROM t WHERE p = 1 AND id IN (SELECT id FROM v)",
        "DELETE FROM t WHERE p > 0",
        "DELETE FROM t WHERE p = 7",
        "DELETE FROM t USING u WHERE t.p = u.p",
        "UPDATE t SET a = 'z' WHERE p = 1 AND s = 'y'",
        "UPDATE t SET s = 'z' WHERE p = 1",
        "INSERT INTO t PARTITION (p = 1, s = 'x') SELECT id, a FROM v",
        "INSERT INTO t PARTITION (p = '01', s = 'new') SELECT id, a FROM u",
        "INSERT INTO t PARTITION (p = 1, s) SELECT id, a, s FROM u",
        "INSERT INTO t SELECT * FROM u",
        "INSERT OVERWRITE TABLE t PARTITION (p = 2, s) SELECT id, a, s FROM u",
        "INSERT OVERWRITE TABLE t PARTITION (p = 2, s = 'x') SELECT id, a FROM u",
        "INSERT OVERWRITE TABLE t SELECT * FROM u",
        "TRUNCATE TABLE t PARTITION (p = 1)",
        "TRUNCATE TABLE t",
        "FROM u INSERT INTO t PARTITION (p = 1, s = 'x') SELECT id, a "
        "INSERT INTO t PARTITION (p = 2, s = 'x') SELECT id, a",
        "FROM t INSERT INTO t PARTITION (p = 1, s = 'x') SELECT id, a INSERT INTO u SELECT *",
        "RESTORE TABLE t TO VERSION AS OF 0",
    ],
)
@pytest.mark.sampled(8)
def test_a_statement_acquires_the_explained_locks(
    sql: Callable[[str], Locks], explain: Explain, statement: str
) -> None:
    sql(TABLES)
    explained = locks_in(explain(statement))
    assert sql(statement) == explained


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_locks_that_only_spark_determines_are_explained_as_such(
    sql: Callable[[str], Locks], explain: Explain, database: str
) -> None:
    sql(TABLES)
    told = explain("DELETE FROM t WHERE p >= 1 AND s = concat('x', '')")
    assert "that Spark selects among those below" in told["locks"][f"{database}.t"]
    assert len(told["rows"]) == 3
    held = sql("DELETE FROM t WHERE p >= 1 AND s = concat('x', '')")
    assert held == {("t", "EXCL_WRITE", "p=1/s=x"), ("t", "EXCL_WRITE", "p=2/s=x")}
