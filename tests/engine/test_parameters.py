"""Parameters of conditions, values and queries, and SQL that is refused unless it is trusted."""

import datetime as dt
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.errors import InvalidJob
from hiveacid.jobs.job_json import from_json, to_json
from hiveacid.jobs.sources import QuerySource, TableSource
from hiveacid.jobs.write_jobs import DeleteJob, InsertJob, MergeJob, UpdateJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.parser.script import to_script
from hiveacid.rules.merge import MatchedUpdate, NotMatchedInsert
from hiveacid.spark.run import run
from hiveacid.spark.statements.conditions import bound_expression, bound_query
from hiveacid.spark.statements.refused_sql import check_expression, check_query
from tests.engine.acid_tables import create, rows_of
from tests.spark_versions.versions import NEEDS_SPARK_4_0, NEEDS_SPARK_4_1

FAKE = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
BOTH = pytest.mark.parametrize("hms", ["4.0.1", "3.1.3"], indirect=True)
HOSTILE = "x' OR 1 = 1 --"


@pytest.fixture
def table(
    spark: SparkSession, hms: EmbeddedMetastore, database: str, client: MetastoreClient
) -> Iterator[AcidTable]:
    create(client, f"{database}.t", {"id": "int", "name": "string"}, {"d": "string"})
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as opened:
        opened.append(spark.sql("SELECT id, concat('n', id) name, 'a' d FROM range(4)"))
        yield opened


@BOTH
def test_jobs_bind_their_parameters(
    spark: SparkSession, hms: EmbeddedMetastore, database: str, table: AcidTable
) -> None:
    target, options = f"{database}.t", hms.options
    query = QuerySource(
        "SELECT id + :more AS id, :name AS name, d FROM o WHERE id = :id",
        {"o": TableSource(target)},
        params={"more": 10, "name": HOSTILE, "id": 3},
    )
    jobs = [
        InsertJob(target=target, source=query, metastore=options),
        UpdateJob(
            target=target,
            set={"name": "concat(:new, name)"},
            where="t.id = :id AND d = :d",
            params={"new": "it's ", "id": 1, "d": "a"},
            metastore=options,
        ),
        DeleteJob(target=target, where="name = :n", params={"n": "n0"}, metastore=options),
        # The text of the value is a condition that is true for every row.
        DeleteJob(
            target=target, where="name = :n", params={"n": "n1' OR '1'='1"}, metastore=options
        ),
        MergeJob(
            target=target,
            source=QuerySource("SELECT :id AS id, :id AS other", params={"id": 2}),
            on="t.id = s.id AND t.d = :d",
            when=[
                MatchedUpdate({"name": ":name"}, "t.id > :least"),
                NotMatchedInsert({"id": "s.id", "name": ":name", "d": ":d"}),
            ],
            params={"d": "a", "name": "merged", "least": 0},
            metastore=options,
        ),
    ]
    for job in jobs:
        run(spark, from_json(to_json(job)))
    assert rows_of(table.to_df()) == [
        (1, "it's n1", "a"),
        (2, "merged", "a"),
        (3, "n3", "a"),
        (13, HOSTILE, "a"),
    ]


@FAKE
def test_methods_bind_their_parameters(table: AcidTable) -> None:
    table.update({"name": ":n"}, "id = :id", params={"n": HOSTILE, "id": 1})
    table.delete("id IN (:a, :b)", params={"a": 0, "b": 2})
    merge = table.merge(
        QuerySource("SELECT :id AS id", params={"id": 3}), "t.id = s.id", params={"n": "m"}
    )
    merge.when_matched_update({"name": ":n"}).execute()
    assert rows_of(table.to_df()) == [(1, HOSTILE, "a"), (3, "m", "a")]
    assert rows_of(table.to_df("name = :n", ["id"], params={"n": HOSTILE})) == [(1,)]
    assert rows_of(table.to_df("d = :d", ["id"], params={"d": "a' OR d = 'a"})) == []


@FAKE
def test_sql_binds_its_parameters(
    spark: SparkSession, hms: EmbeddedMetastore, database: str, table: AcidTable
) -> None:
    script = to_script(
        """
        INSERT INTO t PARTITION (d = :day) SELECT id, :name FROM t WHERE id = :id;
        DELETE FROM t WHERE id < :id AND d = :old;
        MERGE INTO t USING (SELECT :id AS id) s ON t.id = s.id AND t.d = :old
          WHEN MATCHED THEN UPDATE SET name = :name
        """,
        database,
        {"day": "2026-01-01", "name": HOSTILE, "id": 3, "old": "a"},
    )
    run(spark, replace(script, metastore=hms.options))
    assert sorted(rows_of(table.to_df())) == [(3, HOSTILE, "2026-01-01"), (3, HOSTILE, "a")]


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, 7, -7, 2**62, 1.5, -1.5e300, "", HOSTILE, "\\' \" ` \n\t\\", "ü€😀", ":id"),
        *(Decimal("1.50"), Decimal("-1E+3"), Decimal("0.001"), dt.date(2026, 1, 31)),
        dt.datetime(2026, 1, 31, 12, 0, 0, 5),
    ],
)
def test_a_value_stays_what_it_is(spark: SparkSession, value: object) -> None:
    text = bound_query(spark, "SELECT :v AS v, /* :v */ ':v' AS t", {"v": value})
    (row,) = spark.sql(text).collect()
    assert tuple(row) == (value, ":v")
    bound = bound_expression(spark, "named_struct('v', :v).v", {"v": value})
    assert spark.range(1).selectExpr(bound).collect()[0][0] == value


def test_a_time_with_a_zone_is_the_same_moment(spark: SparkSession) -> None:
    zone = dt.timezone(dt.timedelta(hours=9))
    value = dt.datetime(2026, 1, 1, 9, tzinfo=zone)
    text = bound_query(spark, "SELECT unix_seconds(:v)", {"v": value})
    assert spark.sql(text).collect()[0][0] == value.timestamp()


def test_a_negative_value_begins_no_comment(spark: SparkSession) -> None:
    with pytest.raises(InvalidJob, match="blank"):
        bound_expression(spark, "a-:v > 0 AND b = 1", {"v": -1})
    assert spark.sql(bound_query(spark, "SELECT 5 - :v", {"v": -1})).collect()[0][0] == 6


@FAKE
def test_trusted_sql_may_run_a_script(table: AcidTable, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    script = f"SELECT TRANSFORM(1) USING 'touch {ran}; cat' AS (x) FROM VALUES (1) v(x)"
    source = QuerySource(f"SELECT 1 id, ({script}) name, 'a' d", trusted=True)
    table.append(source)
    assert ran.exists()
    call = "reflect('java.lang.System', 'getProperty', 'java.version')"
    assert rows_of(table.to_df(f"{call} <> '' AND id = 0", trusted=True)) == [(0, "n0", "a")]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT sum(x) OVER w FROM t WINDOW w AS (ORDER BY reflect('a', 'b'))", "reflect"),
        ("SELECT IDENTIFIER('ref' || 'lect')('a', 'b')", "IDENTIFIER"),
        ("SELECT IDENTIFIER('reflect')('a', 'b')", "reflect|IDENTIFIER"),
        ("SELECT `JAVA_method`('a', 'b')", "(?i)java_method"),
        ("SELECT system.builtin.try_reflect('a', 'b')", "try_reflect"),
        ("SELECT transform(array(1), x -> reflect('a', x))", "reflect"),
        ("SELECT * FROM t JOIN csv.`/etc/passwd` c ON c._c0 = t.x", "by their path"),
        ("SELECT * FROM t WHERE x IN (SELECT _c0 FROM CSV.`file:/etc/passwd`)", "by their path"),
        ("SELECT * FROM `org.apache.spark.sql.json`.`/x`", "by their path"),
        ("SELECT * FROM t VERSION AS OF (SELECT max(_c0) FROM csv.`/x`)", "by their path|parse"),
        ("SELECT * FROM IDENTIFIER('csv.`/x`')", "IDENTIFIER"),
        ("SELECT * FROM LATERAL (SELECT * FROM text.`/x`)", "by their path"),
        pytest.param(
            "FROM t |> WHERE x = (SELECT max(value) FROM text.`/x`)",
            "by their path",
            marks=NEEDS_SPARK_4_0,
        ),
        ("SELECT * FROM explode(array((SELECT max(value) FROM text.`/x`)))", "by their path"),
        ("FROM t MAP x USING 'sh'", "TRANSFORM"),
        ("FROM t REDUCE x USING 'sh' AS y", "TRANSFORM"),
        ("ADD JAR '/x'", "no part of a query"),
        ("SET a = b", "no part of a query"),
        ("INSERT OVERWRITE DIRECTORY '/x' USING csv SELECT 1", "no part of a query"),
        ("CREATE TEMPORARY FUNCTION f AS 'x.Y'", "no part of a query"),
        ("BEGIN SELECT 1; END", "no part of a query|parse|not supported"),
    ],
)
def test_forbidden_parts_of_a_query(spark: SparkSession, query: str, message: str) -> None:
    with pytest.raises(InvalidJob, match=message):
        check_query(spark, query)


def test_allowed_parts_of_queries_and_expressions(spark: SparkSession) -> None:
    for query in (
        "SELECT * FROM t JOIN u USING (id) LEFT ANTI JOIN db.v ON t.a = v.a",
        "SELECT a, count(*) FROM t GROUP BY CUBE (a) HAVING count(*) > 1 ORDER BY a LIMIT 5 OFFSET 1",
        "SELECT *, rank() OVER w FROM t TABLESAMPLE (10 PERCENT) WINDOW w AS (ORDER BY a)",
        "SELECT * FROM t PIVOT (sum(a) FOR b IN (1, 2))",
        "SELECT * FROM t UNPIVOT (v FOR n IN (a, b))",
        "SELECT /*+ BROADCAST(u) */ * FROM t, u, LATERAL (SELECT t.a), explode(t.b) AS e(x)",
        "SELECT x FROM t LATERAL VIEW explode(b) e AS x DISTRIBUTE BY x SORT BY x",
        "VALUES (1, 'reflect('), (2, 'using')",
        "TABLE t UNION SELECT 1 EXCEPT SELECT 2 INTERSECT SELECT 3",
        "SELECT * FROM spark_catalog.db.t VERSION AS OF 3",
    ):
        check_query(spark, query)
    for expression in (
        "a IN (SELECT b FROM u) AND EXISTS (SELECT 1 FROM v WHERE v.a = t.a)",
        "transform(xs, x -> x + 1) = map_keys(m)",
        "name = 'SELECT TRANSFORM USING'",
        "DEFAULT",
    ):
        check_expression(spark, expression)


@NEEDS_SPARK_4_1
@pytest.mark.parametrize(
    "query",
    [
        "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT * FROM c LIMIT 3",
        "FROM t |> WHERE a > 1 |> AGGREGATE sum(a) GROUP BY b |> SELECT b",
    ],
)
def test_allowed_parts_of_newer_queries(spark: SparkSession, query: str) -> None:
    check_query(spark, query)
