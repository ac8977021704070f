"""Names of columns that no table has, found without Spark; in doubt, Spark decides."""

import pytest

from hiveacid.parser.known_columns import (
    columns_of_query,
    misspelt_function,
    unknown_name,
    unknown_name_of_condition,
)

TABLES = {"s": ["id", "a", "st"], "u": ["id", "b"], "files": None}


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("SELECT nope FROM s", "nope"),
        ("SELECT ID, `Nope` FROM s", "Nope"),
        ("SELECT s.nope FROM s", "s.nope"),
        ("SELECT x.nope FROM s AS x", "x.nope"),
        ("SELECT x.id FROM s", "x.id"),
        ("SELECT s.nope.field FROM s", "s.nope.field"),
        ("SELECT upper(name) AS name FROM s", "name"),
        ("SELECT id FROM s WHERE zz = 1 GROUP BY id ORDER BY max(a)", "zz"),
        ("SELECT a FROM s SORT BY nope", "nope"),
        ("SELECT id FROM s JOIN u ON s.id = u.idd", "u.idd"),
        ("SELECT id FROM s WHERE EXISTS (SELECT 1 FROM u WHERE u.id = s.aa)", "s.aa"),
        ("SELECT id FROM s WHERE a IN (SELECT b FROM u UNION SELECT c FROM u)", "c"),
        ("SELECT y FROM (SELECT id AS x FROM s) q", "y"),
        ("SELECT x FROM (SELECT * FROM s) q", "x"),
        ("SELECT nope FROM s q(x, y, z)", "nope"),
        ("WITH c AS (SELECT nope FROM s) SELECT * FROM c", "nope"),
        ("WITH c AS (SELECT id FROM s) SELECT nope FROM c", "nope"),
        ("WITH c(k) AS (SELECT id FROM s) SELECT c.id FROM c JOIN u ON c.k = u.id", "c.id"),
        ("WITH c AS (SELECT * FROM s), d AS (SELECT a FROM c) SELECT aa FROM c", "aa"),
        ("SELECT nope, c FROM s LATERAL VIEW explode(st) t AS c", "nope"),
        ("SELECT t.d FROM s LATERAL VIEW explode(st) t AS c", "t.d"),
        ("SELECT transform(st, y -> y + w) FROM s", "w"),
        ("SELECT sum(id) OVER (PARTITION BY q) FROM s", "q"),
        ("SELECT CASE WHEN nope THEN CAST(a AS int) END FROM s", "nope"),
    ],
)
def test_a_name_that_means_no_column_is_found(query: str, name: str) -> None:
    found = unknown_name(query, TABLES)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1",
        "SELECT *",
        "SELECT id, S.A, `St` FROM s",
        "SELECT st.field, s.st.field.deeper, st['k'], st[0], st:k FROM s",
        "SELECT nope FROM files",
        "SELECT nope FROM elsewhere",
        "SELECT nope FROM db.s",
        "SELECT nope FROM s JOIN files ON true",
        "SELECT nope FROM s, range(5)",
        "SELECT id FROM VALUES (1) AS v(id)",
        "SELECT id FROM s JOIN u USING (id)",
        "SELECT id AS z, z + 1 FROM s ORDER BY z",
        "SELECT st.f, f FROM s",
        "SELECT count(id) c FROM s GROUP BY a HAVING c > 1",
        "SELECT max(a) FROM s ORDER BY `max(a)`",
        "SELECT posexplode(st) FROM s ORDER BY pos",
        "SELECT stack(2, id, a) AS (p, q) FROM s ORDER BY p",
        "SELECT max(a) FROM s HAVING max(a) > (SELECT max(b) FROM u WHERE u.id = zz)",
        "SELECT c FROM s LATERAL VIEW explode(st) t AS c",
        "SELECT k FROM s, LATERAL explode(st) AS t(k)",
        "SELECT k FROM s, LATERAL (SELECT s.id + 1 AS k) l",
        "SELECT b FROM s PIVOT (max(id) FOR a IN ('x' AS b))",
        "SELECT a FROM s UNION SELECT b FROM u ORDER BY c",
        "SELECT id FROM s WHERE id IN ((SELECT a FROM s) ORDER BY z)",
        "WITH s AS (SELECT 1 AS nope) SELECT nope FROM s",
        "WITH c AS (SELECT *, 1 AS n FROM s) SELECT n FROM c",
        "WITH c AS (SELECT id FROM s), d AS (SELECT nope FROM c) SELECT id FROM d JOIN files",
        "WITH s AS (SELECT *, 1 AS nope FROM s) SELECT nope FROM s",
        "SELECT x.b FROM (WITH s AS (SELECT b FROM u) SELECT b FROM s) x JOIN s ON st = nope",
        "SELECT key FROM s LATERAL VIEW explode(st) t",
        "SELECT id FROM s WHERE EXISTS (SELECT 1 FROM u WHERE u.id = s.a AND b = a)",
        "SELECT (SELECT k FROM (SELECT b AS k FROM u) i WHERE k = s.id) FROM s",
        "SELECT current_date, CURRENT_TIMESTAMP, user, :p FROM s",
        "SELECT extract(DAY FROM a), dateadd(DAY, 1, a), timestampadd(SQL_TSI_DAY, 1, a) FROM s",
        "SELECT trim(BOTH 'x' FROM a), f(x => 1), a COLLATE UTF8_LCASE FROM s",
        "SELECT aggregate(st, 0, (acc, x) -> acc + x, acc -> acc.y) FROM s",
        "SELECT sum(id) OVER w FROM s WINDOW w AS (PARTITION BY a)",
        "SELECT id, grouping__id FROM s GROUP BY ALL ORDER BY ALL",
        "SELECT /*+ BROADCAST(s), REPARTITION(3, zz) */ id FROM s",
        "SELECT _metadata.file_path, s._metadata FROM s",
        "SELECT window.start FROM s GROUP BY window(a, '1 day')",
        "SELECT session_window.start FROM s GROUP BY session_window(a, '1 day')",
        "SELECT * EXCEPT (a) FROM s TABLESAMPLE (5 PERCENT)",
        "FROM s |> EXTEND id + 1 AS k |> WHERE k > 1",
        'SELECT id FROM s WHERE a = "nope"',
        "SELECT nope FROM s WHERE a >>>> 1",
        "SELECT nope FROM (s JOIN u ON true)",
    ],
)
def test_a_name_that_may_mean_a_column_is_left_to_spark(query: str) -> None:
    assert unknown_name(query, TABLES) is None


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("SELECT * FROM rnge(10)", ("rnge", "Did you mean range?")),
        ("SELECT * FROM TABLE_CHANGE('db.t', 1)", ("TABLE_CHANGE", "Did you mean table_changes?")),
        ("SELECT c FROM s LATERAL VIEW explod(st) t AS c", ("explod", None)),
        ("SELECT * FROM s, LATERAL explod(st)", ("explod", None)),
        ("SELECT * FROM Range(10), stack(1, 2)", None),
        ("SELECT * FROM my_own(10)", None),
        ("SELECT * FROM db.rnge(10)", None),
        ("SELECT rnge(10) FROM s", None),
        ("SELECT FROM FROM", None),
    ],
)
def test_a_misspelt_table_function_is_found(
    query: str, found: tuple[str, str | None] | None
) -> None:
    known = misspelt_function(query)
    assert (known and known[0]) == (found and found[0])
    if found and found[1]:
        assert known == found


def test_a_condition_names_its_table_and_the_inputs_of_subqueries() -> None:
    def unknown(text: str) -> str | None:
        found = unknown_name_of_condition(text, "t", ["id", "st"], {**TABLES, "t": ["ref"]})
        return found and found.name

    assert unknown("t.id = 1 AND st.x = 2 -- a comment") is None
    assert unknown("id = nope") == "nope"
    assert unknown("id IN (SELECT ref FROM t)") is None
    assert unknown("id IN (SELECT ref FROM t WHERE t.nope)") == "t.nope"
    assert unknown("exists(st, t -> t.x = id)") is None


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("SELECT * FROM s", ["id", "a", "st"]),
        ("SELECT a AS x, s.id FROM s WHERE st = 1", ["x", "id"]),
        ("SELECT * FROM (SELECT id AS k FROM s) q", ["k"]),
        ("SELECT id FROM s UNION ALL SELECT b FROM u", ["id"]),
        ("SELECT a + 1 FROM s", None),
        ("SELECT s.* FROM s", None),
        ("SELECT * FROM s JOIN u ON true", None),
        ("SELECT * FROM files", None),
        ("SELECT * EXCEPT (a) FROM s", None),
        ("VALUES (1, 2)", None),
        ("SELECT * FROM s LATERAL VIEW explode(st) t AS c", None),
    ],
)
def test_the_columns_of_a_query(query: str, columns: list[str] | None) -> None:
    assert columns_of_query(query, TABLES) == columns
