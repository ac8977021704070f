import re

import pytest

from hiveacid.errors import SqlError
from hiveacid.parser.views import view_query


def generated(text: str) -> str:
    return view_query(text, "shop", "shop.v").sql


@pytest.mark.parametrize(
    ("text", "named"),
    [
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
        ("SELECT * FROM t TABLESAMPLE (10 PERCENT)", "SAMPLE"),
        ("DROP TABLE t", "not a query"),
        ("SELECT 1; DROP TABLE t", "one statement"),
        ("ADD JAR 'http://evil/x.jar'", "It cannot be read at"),
        ("", "one statement"),
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
        ("select a from t where b = +'5'", "select a from `_shop_v_shop__t` AS `t` where b = +'5'"),
        ("select /*+ X(t) */ a from t", "select             a from `_shop_v_shop__t` AS `t`"),
        ("select /*+ a(' */ 1 from t u", "select            1 from `_shop_v_shop__t` u"),
        (
            "select '/*+ X */', -1::string -- x, t\nfrom shop.t\n /* u */, u where shop.t.a = u.`b`",
            "select '/*+ X */', -1::string -- x, t\nfrom `_shop_v_shop__t` AS `t`\n /* u */, "
            "`_shop_v_shop__u` AS `u` where t.a = u.`b`",
        ),
        (
            " with t as (select * from t) select ts - interval 1 day 12 hours, X '41' from t; ",
            "with t as (select * from `_shop_v_shop__t` AS `t`) "
            "select ts - interval 1 day 12 hours, X '41' from t;",
        ),
        (
            "select dateadd(DAY, 1, d), -128Y, '${env:X}' from t lateral view explode(l) e as x",
            "select dateadd(DAY, 1, d), -128Y, '${env:X}' from `_shop_v_shop__t` AS `t` "
            "lateral view explode(l) e as x",
        ),
    ],
)
def test_only_tables_and_hints_of_the_text_are_replaced(text: str, expected: str) -> None:
    assert generated(text) == expected


def test_columns_without_a_name_have_the_names_that_hive_gives() -> None:
    text = (
        "SELECT `id` AS `x`, `_c1` AS `y`, `_c2` AS `z` FROM (select `t`.`id`, count(*), `t`.`id` "
        "from `shop`.`t` group by `t`.`id`) `shop.v`"
    )
    assert generated(text) == (
        "SELECT `id` AS `x`, `_c1` AS `y`, `_c2` AS `z` FROM (select `t`.`id`, count(*) AS `_c1`, "
        "`t`.`id` AS `_c2` from `_shop_v_shop__t` AS `t` group by `t`.`id`) `shop.v`"
    )
    own = "SELECT `_c1` FROM (SELECT a AS _c1, b FROM t u) v"
    assert generated(own) == own.replace("t u", "`_shop_v_shop__t` u")


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
