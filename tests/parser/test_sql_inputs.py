"""The tables that a statement reads, and their names."""

import pytest

from hiveacid.parser.script import to_jobs
from hiveacid.parser.views import view_query, with_names


def inputs_of(query: str) -> dict[str, str]:
    (job,) = to_jobs(f"INSERT INTO t {query}", "db")
    return {name: source.name for name, source in job.source.inputs.items()}


@pytest.mark.parametrize(
    ("query", "tables"),
    [
        ("SELECT 1", {}),
        ("SELECT * FROM a JOIN other.b USING (id)", {"db.a", "other.b"}),
        ("SELECT * FROM A, a x, db.a y", {"db.a"}),
        ("SELECT * FROM (SELECT * FROM a) WHERE x IN (SELECT y FROM b)", {"db.a", "db.b"}),
        ("WITH a AS (SELECT * FROM b) SELECT * FROM a", {"db.b"}),
        ("WITH a AS (SELECT * FROM a) SELECT * FROM a", {"db.a"}),
        ("WITH a AS (SELECT 1), b AS (SELECT * FROM a) SELECT * FROM b, db.a", {"db.a"}),
        ("SELECT * FROM (WITH a AS (SELECT 1) SELECT * FROM a) x, a", {"db.a"}),
        (
            "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT * FROM r",
            {},
        ),
        ("SELECT * FROM a UNION ALL SELECT * FROM b", {"db.a", "db.b"}),
        ("SELECT * FROM a LATERAL VIEW explode(l) e AS x", {"db.a"}),
        ("SELECT * FROM range(10)", {}),
        ("SELECT * FROM ice.sales.orders", {}),
        ("SELECT * FROM parquet.`/data/x`", {}),
        ("SELECT * FROM `strange name`", {"db.strange name"}),
    ],
)
def test_tables_of_the_metastore_become_inputs(query: str, tables: set[str]) -> None:
    assert set(inputs_of(query).values()) == set(tables)


def test_two_tables_never_share_a_name() -> None:
    inputs = inputs_of("WITH a__b AS (SELECT 1) SELECT * FROM a__b, a.b, `a_`.c, a.`_c`")
    assert sorted(inputs.values()) == ["a._c", "a.b", "a_.c"]
    assert "a__b" not in inputs


def test_columns_are_known_by_the_name_of_their_table() -> None:
    (job,) = to_jobs("INSERT INTO t SELECT orders.id, sales.orders.n FROM sales.orders")
    assert job.source.sql == "SELECT orders.id, orders.n FROM `sales__orders` AS `orders`"


def test_a_with_stays_where_it_is() -> None:
    (job,) = to_jobs(
        "INSERT INTO t SELECT * FROM (WITH a AS (SELECT 1) SELECT * FROM a) x,"
        " (WITH a AS (SELECT 2) SELECT * FROM a) y"
    )
    assert job.source.sql.count("WITH a AS") == 2


def test_a_view_is_read_like_a_query() -> None:
    query = view_query("SELECT `o`.`id` FROM `sales`.`orders` `o`, items", "sales", "sales.v")
    assert {source.name for source in query.inputs.values()} == {"sales.orders", "sales.items"}


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("SELECT a, b + 1 AS x FROM t", "SELECT a AS `c`, b + 1 AS `d` FROM t"),
        (
            "SELECT a, b FROM t UNION ALL SELECT 1, 2",
            "SELECT a AS `c`, b AS `d` FROM t UNION ALL SELECT 1, 2",
        ),
        (
            "(WITH q AS (SELECT 1, 2) SELECT DISTINCT f(a, b), CASE WHEN a THEN b END FROM q) ORDER BY 1",
            "(WITH q AS (SELECT 1, 2) SELECT DISTINCT f(a, b) AS `c`, CASE WHEN a THEN b END AS `d` FROM q)"
            " ORDER BY 1",
        ),
        ("FROM t SELECT -1Y, 'a, b' x -- , c", "FROM t SELECT -1Y AS `c`, 'a, b' `d`"),
        ("WITH q AS (SELECT 1) (SELECT a, b FROM q) UNION SELECT 1, 2", None),
        ("SELECT *, a FROM t", None),
        ("SELECT stack(1, 2, 3) AS (x, y), a FROM t", None),
        ("SELECT * FROM t", None),
        ("SELECT a FROM t", None),
        ("VALUES (1, 2)", None),
    ],
)
def test_the_columns_of_a_query_can_be_named(query: str, named: str | None) -> None:
    assert with_names(query, ["c", "d"]) == named
