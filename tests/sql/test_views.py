import re

import pytest

from airflow_hiveacid.errors import SqlError
from airflow_hiveacid.sql.views import view_query


def generated(text: str) -> str:
    return view_query(text, "shop", "shop.v").sql


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("SELECT TRANSFORM(a) USING 'id; cat' AS b FROM t", "QUERYTRANSFORM"),
        ("SELECT * FROM (SELECT TRANSFORM(a) USING 'id; cat' AS b FROM t) x", "QUERYTRANSFORM"),
        ("FROM t MAP a USING 'id; cat' AS b", "cannot be read"),
        ("SELECT reflect('java.lang.System', 'exit') FROM t", "function reflect"),
        ("SELECT `reflect`('java.lang.System', 'exit') FROM t", "function reflect"),
        ("SELECT a FROM t WHERE JAVA_METHOD('a', 'b') = 1", "function JAVA_METHOD"),
        ("SELECT try_reflect('a', 'b') FROM t", "function try_reflect"),
        ("SELECT max(reflect('a', 'b')) OVER (ORDER BY reflect('c', 'd')) FROM t", "reflect"),
        ("SELECT evil(a) FROM t", "function evil"),
        ("SELECT shop.upper(a) FROM t", "function of a database"),
        ("SELECT rand() FROM t", "function rand"),
        ("SELECT input_file_name() FROM t", "function input_file_name"),
        ("SELECT IDENTIFIER('reflect') FROM t", "function IDENTIFIER"),
        ("SELECT * FROM parquet.`/etc/x`", "by their names only"),
        ("SELECT * FROM text.`file:/etc/passwd`", "by their names only"),
        ("SELECT * FROM t WHERE a IN (SELECT value FROM text.`/etc/passwd`)", "by their names"),
        ("WITH c AS (SELECT * FROM csv.`/etc/passwd`) SELECT * FROM c", "by their names only"),
        ("SELECT * FROM spark_catalog.shop.t", "with CATALOG"),
        ("SELECT * FROM range(10)", "by their names only"),
        ("SELECT * FROM read_files('/etc')", "by their names only"),
        ("SELECT * FROM IDENTIFIER('text.`/etc/passwd`')", "by their names only"),
        ("SELECT * FROM t LATERAL VIEW evil(a) x", "function evil"),
        ("SELECT * FROM t LATERAL  FROM t LATERAL  FROM t LATERAL VIEW @ode(a) e AS f", "LATERAL"),
        ("SELECT INTERVAL 1 DAYtext.`/etc/passwd` FROM t", "no unit of time"),
        ("SELECT /*+ a(' */ 1 FROM t", "in a hint does not end"),
        ("SELECT * FROM t, LATERAL (SELECT a) e", "without VIEW and a call"),
        ("SELECT ${hiveconf:x} FROM t", "PARAMETER"),
        ("SELECT * FROM t TABLESAMPLE (10 PERCENT)", "SAMPLE"),
        ("DROP TABLE t", "not a query"),
        ("SELECT 1; DROP TABLE t", "one statement"),
        ("ADD JAR 'http://evil/x.jar'", "It cannot be read at"),
        ("", "one statement"),
        ("SELECT a%2F(b), 'x' FROM t", "cannot be read"),
        ("SELECT 1 FROM t LATERAL VIEW explode(a) `e AS y JOIN u` AS y", "is not allowed"),
        (
            "SELECT 1 FROM t LATERAL VIEW explode(a) e AS x RIGHT JOIN u ON u.b = t.b",
            "another order",
        ),
        (
            "SELECT * FROM (SELECT 1 FROM t LATERAL VIEW explode(a) e AS x JOIN u) v",
            "Put a LATERAL VIEW in front of a JOIN into a subquery.",
        ),
        ("SELECT 'a", "does not end"),
        ("SELECT '\ud800' FROM t", "half of a character"),
        ("SELECT " + "(" * 5000 + "1" + ")" * 5000, "nested more than"),
        ("SELECT " + "NOT " * 5000 + "true", "nested too deeply"),
    ],
)
def test_a_view_that_could_run_or_read_something_else_is_refused(text: str, named: str) -> None:
    with pytest.raises(SqlError, match=re.escape(named)):
        generated(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select /*+ MAPJOIN(t) */ a from t", "SELECT `a` FROM `_shop_v_shop__t` AS `t`"),
        (
            "select upper(a) -- reflect('a', 'b')\nfrom t /* text.`/etc` */",
            "SELECT upper(`a`) FROM `_shop_v_shop__t` AS `t`",
        ),
        (
            "select 'it\\'s /* no */ -- comment', \"say 'x'\" from t",
            "SELECT 'it\\'s /* no */ -- comment', 'say \\'x\\'' FROM `_shop_v_shop__t` AS `t`",
        ),
        (
            "select '\\u0027 || reflect(1)' from t",
            "SELECT '\\' || reflect(1)' FROM `_shop_v_shop__t` AS `t`",
        ),
        ("select `x``y` from t", "SELECT `x``y` FROM `_shop_v_shop__t` AS `t`"),
        (
            "select a as `using 'id'` from t",
            "SELECT `a` AS `using 'id'` FROM `_shop_v_shop__t` AS `t`",
        ),
        ("select current_date from t", "SELECT current_date FROM `_shop_v_shop__t` AS `t`"),
        (
            "select 1 from (select x from t lateral view explode(a) e as x) s join u on b = x",
            "SELECT 1 FROM (SELECT `x` FROM `_shop_v_shop__t` AS `t` LATERAL VIEW EXPLODE(`a`) e AS `x`)"
            " AS `s` JOIN `_shop_v_shop__u` AS `u` ON `b` = `x`",
        ),
        ("from t select a where b = 1", "SELECT `a` FROM `_shop_v_shop__t` AS `t` WHERE `b` = 1"),
        (
            "with c as (select 1 x) select x from c lateral view explode(array(1)) e as y",
            "WITH `c` AS (SELECT 1 AS `x`) SELECT `x` FROM `c` "
            "LATERAL VIEW EXPLODE(ARRAY(1)) e AS `y`",
        ),
    ],
)
def test_spark_gets_what_was_understood_and_not_the_text(text: str, expected: str) -> None:
    assert generated(text).lower() == expected.lower()


def test_a_consistent_view_is_accepted() -> None:
    text = """
        WITH recent AS (SELECT * FROM orders WHERE day >= date_sub(current_date, 7))
        SELECT c.name, count(DISTINCT r.id) AS n, sum(CASE WHEN r.paid THEN r.amount ELSE 0 END),
               row_number() OVER (PARTITION BY c.name ORDER BY r.day DESC
                                  ROWS BETWEEN 1 PRECEDING AND CURRENT ROW),
               cast(regexp_replace(c.name, '[^a-z]', '') AS varchar(20)), INTERVAL '1' DAY,
               transform(r.tags, x -> upper(x)), r.s.field, r.m['k'], r.list[0], -1.5e3
        FROM recent r LEFT JOIN other.customers c ON r.customer = c.id AND c.name LIKE 'a%'
        LATERAL VIEW OUTER posexplode(r.tags) e AS position, tag
        WHERE r.day BETWEEN DATE '2020-01-01' AND '2021-01-01' AND NOT EXISTS (SELECT 1 FROM gone g)
        GROUP BY c.name WITH ROLLUP HAVING count(*) > 1
        UNION ALL SELECT * FROM archive ORDER BY 1 DESC NULLS LAST LIMIT 5
    """
    inputs = view_query(text, "shop", "shop.v").inputs
    assert sorted(table.name for table in inputs.values()) == [
        "other.customers",
        "shop.archive",
        "shop.gone",
        "shop.orders",
    ]
