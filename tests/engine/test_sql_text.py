"""Spark parses the generated SQL like the author's own."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from hiveacid.parser.script import to_jobs
from tests.spark_versions.versions import NEEDS_SPARK_4_0, NEEDS_SPARK_4_1

VALUES = [
    r"'a\'b', 'tab\t', 'nl\n', '\\', '\\\\', 'per\%cent', '\u00e9', 'a' 'b', ''",
    r"r'raw\n', 'x' || 'y', concat('a', NULL, 'b'), length('\\d')",
    '"double", "it\'s", "say \\"no\\""',
    "1, 1L, 2S, 3Y, 1.5, 1.5BD, 1.5D, 1.5F, 1e3, 1e3D, -1, - -1, +1, .5, 5.",
    "X'1F', true, NOT false, NULL, current_date() = current_date",
    "7 / 2, 7 div 2, 7 % 2, mod(7, 2), 2 * 3 + 4, 2 * (3 + 4), -(3), 7 & 3, 7 | 8, 7 ^ 1, ~7",
    "shiftleft(1, 3), shiftright(8, 1)",
    pytest.param("1 << 3, 8 >> 1", marks=NEEDS_SPARK_4_0),
    "1 = 1, 1 == 1, 1 <> 2, 1 != 2, NULL <=> NULL, 1 IS DISTINCT FROM NULL",
    "true AND NOT false OR false, NOT (true AND false), !true, 1 BETWEEN 0 AND 2",
    "1 NOT BETWEEN 0 AND 2, 1 IN (1, 2), 1 NOT IN (1, 2), NULL IS NULL, 1 IS NOT NULL, true IS TRUE",
    "'abc' LIKE 'a%', 'a%c' LIKE 'a!%c' ESCAPE '!', 'abc' RLIKE 'b.', 'ABC' ILIKE 'a%'",
    "'abc' NOT LIKE 'b%', 'abc' LIKE ANY ('x', 'a%'), regexp_replace('a1b2', '[0-9]', '#')",
    "DATE '2020-02-29', TIMESTAMP '2020-01-01 01:02:03.456', TIMESTAMP_NTZ '2020-01-01 00:00:00'",
    "CAST('2020-01-01' AS TIMESTAMP), CAST('1.25' AS DECIMAL(5, 2)), CAST(1.9 AS INT)",
    "CAST('x' AS STRING), CAST(1 AS BOOLEAN), CAST('ab' AS BINARY), TRY_CAST('x' AS INT)",
    pytest.param("'5' :: int", marks=NEEDS_SPARK_4_0),
    "DATE '2020-01-01' + INTERVAL 1 DAY, DATE '2020-01-31' + INTERVAL '1' MONTH",
    "TIMESTAMP '2020-01-01 00:00:00' + INTERVAL '1 02:03:04' DAY TO SECOND",
    "TIMESTAMP '2020-01-01 00:00:00' - INTERVAL 90 MINUTES, DATE '2020-01-01' + INTERVAL '1-2' YEAR TO MONTH",
    "date_add(DATE '2020-01-01', 1), datediff(DATE '2020-03-01', DATE '2020-02-01')",
    "date_format(DATE '2020-03-01', 'yyyy/MM'), trunc(DATE '2020-03-05', 'MM')",
    "date_trunc('hour', TIMESTAMP '2020-01-01 01:02:03'), unix_timestamp('2020-01-01 00:00:00')",
    "to_date('2020-01-02'), to_date('02.01.2020', 'dd.MM.yyyy'), to_timestamp('2020-01-02')",
    "from_unixtime(0), year(DATE '2020-01-02'), month('2020-03-01'), dayofweek('2020-03-01')",
    "EXTRACT(YEAR FROM DATE '2020-01-02'), date_part('week', DATE '2020-01-02')",
    "months_between('2020-03-01', '2020-01-01'), add_months('2020-01-31', 1), last_day('2020-02-01')",
    "substring('hello', 2, 3), substr('hello', -2), substring('hello' FROM 2 FOR 3), left('ab', 1)",
    "trim('  a '), trim(BOTH 'x' FROM 'xax'), ltrim('x', 'xa'), overlay('abc' PLACING 'z' FROM 2)",
    "position('l' IN 'hello'), locate('l', 'hello', 4), instr('hello', 'l'), split('a,b', ',')",
    "array(1, 2)[0], array(1, 2, 3)[2], map('k', 1)['k'], named_struct('a', 1).a, struct(1, 2)",
    "transform(array(1, 2), x -> x + 1), filter(array(1, 2), x -> x > 1), exists(array(1), x -> x > 1)",
    "aggregate(array(1, 2), 0, (acc, x) -> acc + x), sort_array(array(2, 1)), size(array(1))",
    "map_from_arrays(array('a'), array(1)), element_at(array(1, 2), -1), array_contains(array(1), 1)",
    "CASE WHEN 1 > 2 THEN 'a' WHEN 2 > 1 THEN 'b' END, CASE 1 WHEN 1 THEN 'x' ELSE 'y' END",
    "IF(1 > 2, 'a', 'b'), nvl(NULL, 1), coalesce(NULL, 2), nullif(1, 1), ifnull(NULL, 3)",
    "decode(2, 1, 'a', 2, 'b'), char(65), ascii('A'), chr(66), initcap('ab cd'), md5('a')",
    "round(2.5), round(-2.567, 2), bround(2.5), ceil(1.2), floor(-1.2), log(2, 8), ln(1), power(2, 3)",
    "greatest(1, 2), least(1, 2), pmod(-7, 3), hex(255), conv('ff', 16, 10), format_number(1234.5, 1)",
    "get_json_object('{\"a\": 1}', '$.a'), to_json(named_struct('a', 1)), from_json('{\"a\":1}', 'a INT')",
]
AGGREGATES = [
    "approx_count_distinct(n), sum(DISTINCT n), count(DISTINCT n, g), count(*), avg(n), max_by(g, n)",
    "sum(n) FILTER (WHERE n > 1), percentile_approx(n, 0.5), percentile(n, 0.5), stddev(n), collect_set(1)",
    "first(g, true), any_value(1), bool_and(n > 0)",
    pytest.param("listagg(g) WITHIN GROUP (ORDER BY g)", marks=NEEDS_SPARK_4_0),
]
QUERIES = [
    "SELECT n, row_number() OVER (PARTITION BY g ORDER BY n DESC) FROM v ORDER BY n",
    "SELECT n, lag(n, 1, 0) OVER (ORDER BY n), sum(n) OVER w FROM v WINDOW w AS (ORDER BY n) ORDER BY n",
    "SELECT n, sum(n) OVER (ORDER BY n ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM v ORDER BY n",
    "SELECT g, count(*) FROM v GROUP BY g HAVING count(*) > 1",
    "SELECT g, n, count(*) FROM v GROUP BY g, n GROUPING SETS ((g), (n), ()) ORDER BY g, n",
    "SELECT g, sum(n) FROM v GROUP BY ROLLUP (g) ORDER BY g",
    "SELECT g, sum(n) AS s FROM v GROUP BY ALL ORDER BY s",
    "SELECT * FROM v ORDER BY n DESC NULLS FIRST, g ASC NULLS LAST LIMIT 2 OFFSET 1",
    "SELECT * FROM v ORDER BY g DESC, n LIMIT 3",
    "SELECT n, x FROM v LATERAL VIEW explode(array(1, 2)) e AS x WHERE n < 3 ORDER BY n, x",
    "SELECT n, x FROM v LATERAL VIEW OUTER explode(array()) e AS x ORDER BY n",
    "SELECT n, p, x FROM v LATERAL VIEW posexplode(array('a')) e AS p, x ORDER BY n",
    "SELECT * FROM v PIVOT (sum(n) FOR g IN ('a' AS x, 'b')) ORDER BY 1",
    "SELECT a.n FROM v a LEFT SEMI JOIN v b ON a.n = b.n + 1 ORDER BY 1",
    "SELECT a.n FROM v a LEFT ANTI JOIN v b ON a.n = b.n + 1 ORDER BY 1",
    "SELECT a.n, b.n FROM v a FULL OUTER JOIN v b ON a.n = b.n + 1 ORDER BY 1, 2",
    "SELECT n FROM v JOIN v w USING (n, g) ORDER BY n",
    "SELECT count(*) FROM v CROSS JOIN v w",
    "SELECT n FROM v WHERE (n, g) IN (SELECT n, g FROM v WHERE n > 1) ORDER BY n",
    "SELECT n FROM v WHERE n > 3 OR EXISTS (SELECT 1 FROM v w WHERE w.n = v.n + 3)",
    "SELECT n FROM v a WHERE n = (SELECT max(n) FROM v b WHERE b.g = a.g) ORDER BY n",
    "SELECT n FROM v EXCEPT ALL SELECT 1 ORDER BY n",
    "SELECT n FROM v INTERSECT SELECT 2",
    "SELECT n FROM v MINUS SELECT 1 ORDER BY n",
    "SELECT 1 UNION SELECT 1 UNION ALL SELECT 1",
    "WITH a AS (SELECT 1 AS x), b AS (SELECT x + 1 AS x FROM a) SELECT * FROM a, b",
    "SELECT * FROM (WITH a AS (SELECT 1 AS x) SELECT * FROM a) p, (WITH a AS (SELECT 2 AS y) SELECT * FROM a) q",
    pytest.param(
        "WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM r WHERE x < 3) SELECT * FROM r ORDER BY x",
        marks=NEEDS_SPARK_4_1,
    ),
    "SELECT * FROM VALUES (1, 'a'), (2, NULL) AS t(x, `y z`)",
    "SELECT stack(2, 1, 'a', 2, 'b') AS (x, y)",
    "SELECT * FROM range(3) ORDER BY id DESC",
    "SELECT DISTINCT g FROM v DISTRIBUTE BY g SORT BY g",
    "SELECT /*+ BROADCAST(w) */ v.n FROM v JOIN v w ON v.n = w.n ORDER BY 1",
    "FROM v SELECT g WHERE n = 1",
    pytest.param("SELECT * EXCEPT (g) FROM v ORDER BY n", marks=NEEDS_SPARK_4_0),
]


@pytest.fixture(scope="module")
def ours(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    rows = session.sql("SELECT * FROM VALUES (1, 'a'), (2, 'a'), (3, 'b'), (4, NULL) AS v(n, g)")
    rows.createOrReplaceTempView("v")
    return session


def as_written(query: str) -> str:
    """The query as a statement gives it to Spark."""
    (job,) = to_jobs(f"INSERT INTO t {query}")
    return str(job.source.sql).replace("`default__v`", "v")


def same(spark: SparkSession, query: str) -> bool:
    """Return whether Spark does the same for both texts; comparing plans is faster than running
    them."""
    frames = [spark.sql(text) for text in (query, as_written(query))]
    plans: list[Any] = [frame._jdf.queryExecution().optimizedPlan() for frame in frames]
    if plans[0].sameResult(plans[1]):
        return True
    types = [[field.dataType for field in frame.schema] for frame in frames]
    return types[0] == types[1] and frames[0].collect() == frames[1].collect()


@pytest.mark.parametrize("values", VALUES)
def test_values_stay_what_they_are(ours: SparkSession, values: str) -> None:
    assert same(ours, f"SELECT {values}")


@pytest.mark.parametrize("values", AGGREGATES)
def test_aggregates_stay_what_they_are(ours: SparkSession, values: str) -> None:
    assert same(ours, f"SELECT {values} FROM v")


@pytest.mark.parametrize("query", QUERIES)
def test_queries_stay_what_they_are(ours: SparkSession, query: str) -> None:
    assert same(ours, query)
