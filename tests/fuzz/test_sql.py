"""Texts of SQL: scripts, views and the queries that lineage and names are taken from."""

from hiveacid.parser.hive_expression import check_as_spark
from hiveacid.parser.script import to_jobs
from hiveacid.parser.views import view_query, with_names
from tests.fuzz.driver import INPUTS, WORDS, fuzz
from tests.parser.test_hive_expression import CHECKS, COLUMNS
from tests.parser.test_sql_errors import UNSUPPORTED
from tests.parser.test_sql_jobs import CASES

SCRIPTS = [case[0] for case in CASES] + [case[0] for case in UNSUPPORTED]
PARTS = (
    *WORDS, "reflect('a','b')", " USING 'id'", "TRANSFORM(a)", "text.`/etc/passwd`", "/*+ X */", "-- x\n",
    "${env:PATH}", "IDENTIFIER('a')", "SELECT", " FROM t", " AS x", " LATERAL VIEW explode(a) x AS y",
    "MAP ", "REDUCE ", "(((((((((((((((((((((((((((((((((((((((((", "NOT " * 2000, " + 1" * 2000, "a.b.c.d.e",
    "CASE WHEN ", " OVER (", " WITHIN GROUP (", "x -> ", "r'", "X'", "N'", "\\u0027", "{", "::", "?", ":a",
    "CAST(a AS ", "struct<a:int>", "INTERVAL ", "@", "#", "$$", " WITH c AS (", "VALUES (1)", "<=>", "||",
)  # fmt: skip
VIEWS = (
    "SELECT upper(a), 'it\\'s', `b``c` FROM t WHERE a IN (SELECT b FROM u) -- comment",
    "WITH c AS (SELECT a FROM t) SELECT c.a AS x, count(*) OVER (PARTITION BY a) FROM c /* x */ JOIN d ON 1 = 1",
    "SELECT TRANSFORM(a) USING 'id; cat' AS b FROM t",
    "SELECT transform(a, x -> x + 1), cast(b AS decimal(10,2)) FROM t LATERAL VIEW explode(a) e AS f",
    "SELECT reflect('java.lang.System', 'exit') FROM text.`/etc/passwd`",
    "SELECT CASE WHEN a THEN \"b\" ELSE INTERVAL 1 DAY END, a.b.c, d['k'][0] FROM t UNION ALL SELECT 1, 2, 3",
)  # fmt: skip


@INPUTS
def test_scripts(inputs):
    fuzz(to_jobs, lambda source: source.text(SCRIPTS, PARTS), inputs)


@INPUTS
def test_columns_of_queries(inputs):
    fuzz(lambda text: with_names(text, ["x"]), lambda source: source.text(SCRIPTS, PARTS), inputs)


@INPUTS
def test_views(inputs):
    fuzz(
        lambda text: view_query(text, "shop", "shop.v"),
        lambda source: source.text(VIEWS, PARTS),
        inputs,
    )


@INPUTS
def test_conditions_of_constraints(inputs):
    fuzz(
        lambda text: check_as_spark(text, COLUMNS),
        lambda source: source.text([*CHECKS], PARTS),
        inputs,
    )
