"""Columns with a database name the same table for Spark as in the statement."""

import re
from collections.abc import Iterator
from random import Random

import duckdb
import pytest

from hiveacid.errors import SqlError
from hiveacid.jobs.sources import QuerySource, TableSource
from hiveacid.jobs.write_jobs import DeleteJob, InsertJob, MergeJob, UpdateJob
from hiveacid.parser.script import to_jobs
from hiveacid.parser.views import view_query
from tests.samples import random_of_commit

STATEMENTS = 40
# A relation, and how its columns can be written.
RELATIONS = [
    ("prod.orders", ("prod.orders", "orders")),
    ("staging.orders", ("staging.orders", "orders")),
    ("orders", ("staging.orders", "orders")),
    ("staging.orders AS orders", ("orders",)),
    ("(SELECT * FROM prod.orders WHERE prod.orders.a < 3) AS orders", ("orders",)),
    ("(SELECT orders.* FROM staging.orders) AS s", ("s",)),
    ("items", ("staging.items", "items")),
    ("prod.items AS orders", ("orders",)),
]


@pytest.mark.parametrize(
    ("where", "for_spark"),
    [
        (
            "EXISTS (SELECT 1 FROM staging.orders WHERE staging.orders.id = prod.orders.id)",
            "EXISTS (SELECT 1 FROM `staging__orders` AS _orders_1 WHERE _orders_1.id = _orders_2.id)",
        ),
        (
            "EXISTS (SELECT 1 FROM orders TABLESAMPLE (9 ROWS) WHERE `Orders`.id = prod.orders.s.id)",
            "EXISTS (SELECT 1 FROM `staging__orders` TABLESAMPLE (9 ROWS) AS _orders_1"
            " WHERE _orders_1.id = _orders_2.s.id)",
        ),
        (
            "id IN (WITH orders AS (SELECT 1 AS id) SELECT orders.* FROM orders"
            " WHERE id = prod.orders.id)",
            "id IN (WITH orders AS (SELECT 1 AS id) SELECT _orders_1.* FROM orders AS _orders_1"
            " WHERE id = _orders_2.id)",
        ),
        (
            "EXISTS (SELECT 1 FROM s LATERAL VIEW explode(l) orders AS x WHERE orders.x = prod.orders.id)",
            "EXISTS (SELECT 1 FROM `staging__s` AS `s` LATERAL VIEW explode(l) _orders_1 AS x"
            " WHERE _orders_1.x = _orders_2.id)",
        ),
    ],
)
def test_relations_with_equal_names_get_unique_names(where: str, for_spark: str) -> None:
    (job,) = to_jobs(f"DELETE FROM prod.orders WHERE {where}", "staging")
    assert isinstance(job, DeleteJob)
    assert (job.where, job.target_alias) == (for_spark, "_orders_2")


def test_unique_names_are_new_in_the_statement() -> None:
    (job,) = to_jobs(
        "DELETE FROM prod.orders WHERE EXISTS"
        " (SELECT _orders_1 FROM staging.orders WHERE staging.orders.id = prod.orders.id)"
    )
    assert isinstance(job, DeleteJob)
    assert job.target_alias == "_orders_3"


@pytest.mark.parametrize(
    "where",
    [
        "EXISTS (SELECT 1 FROM staging.orders WHERE orders.id = 1 AND id = 2)",
        "EXISTS (SELECT 1 FROM staging.orders AS s WHERE s.id = orders.id)",
    ],
)
def test_relations_keep_their_names_unless_a_column_has_a_database(where: str) -> None:
    (job,) = to_jobs(f"DELETE FROM prod.orders WHERE {where}")
    assert isinstance(job, DeleteJob)
    assert job.target_alias == "orders"
    assert "_orders_" not in str(job.where).replace("__orders", "")


def test_a_table_that_a_column_does_not_see_changes_no_name() -> None:
    (job,) = to_jobs(
        "INSERT INTO t SELECT prod.orders.id FROM prod.orders"
        " JOIN (SELECT staging.orders.id FROM staging.orders) s ON s.id = prod.orders.id"
    )
    assert isinstance(job, InsertJob)
    assert job.query is not None
    assert job.query.sql == (
        "SELECT orders.id FROM `prod__orders` AS `orders`"
        " JOIN (SELECT orders.id FROM `staging__orders` AS `orders`) s ON s.id = orders.id"
    )


def test_the_source_of_a_merge_can_have_the_name_of_the_target() -> None:
    (job,) = to_jobs(
        "MERGE INTO prod.orders USING staging.orders ON prod.orders.id = staging.orders.id"
        " WHEN MATCHED THEN UPDATE SET prod.orders.a = staging.orders.a"
    )
    (same,) = to_jobs(
        "UPDATE prod.orders SET a = staging.orders.a FROM staging.orders"
        " WHERE prod.orders.id = staging.orders.id"
    )
    assert isinstance(job, MergeJob)
    assert job == same
    assert job.on == f"{job.target_alias}.id = {job.source_alias}.id"
    assert job.when[0].set == {"a": f"{job.source_alias}.a"}


def test_a_joined_source_is_read_by_its_unique_name() -> None:
    (job,) = to_jobs(
        "UPDATE t SET a = orders.a FROM prod.orders JOIN u ON u.id IN"
        " (SELECT id FROM staging.orders WHERE staging.orders.a = prod.orders.a)"
        " WHERE orders.id = t.id"
    )
    assert isinstance(job, MergeJob)
    assert str(job.query.text).startswith(
        "SELECT `_orders_2`.`a` AS `orders__a`, `_orders_2`.`id` AS `orders__id`"
        " FROM `prod__orders` AS _orders_2 JOIN"
    )


def test_several_inserts_from_one_table_name_it_alike() -> None:
    (job,) = to_jobs(
        "FROM prod.orders INSERT INTO a SELECT prod.orders.id WHERE EXISTS"
        " (SELECT 1 FROM staging.orders WHERE staging.orders.id = prod.orders.id)"
    )
    assert isinstance(job, InsertJob)
    assert job.query is not None
    assert job.query.sql.startswith("SELECT _orders_2.id FROM `prod__orders` AS _orders_2 WHERE")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT prod.orders.id, orders.a FROM prod.orders, staging.orders",
        "SELECT orders.id FROM prod.orders LATERAL VIEW explode(prod.orders.l) orders AS x",
        "SELECT 1 FROM prod.orders JOIN s AS orders ON prod.orders.id = orders.id",
    ],
)
def test_a_name_of_several_tables_is_refused(query: str) -> None:
    with pytest.raises(SqlError, match=r"orders may be any of the tables .*prod\.orders"):
        to_jobs(f"INSERT INTO t {query}")


def test_a_column_of_an_invisible_table_keeps_its_database() -> None:
    (job,) = to_jobs("DELETE FROM prod.orders AS o WHERE prod.orders.id = 1")
    assert isinstance(job, DeleteJob)
    assert job.where == "prod.orders.id = 1"


def test_statements_choose_the_same_rows_as_in_a_database() -> None:
    """Random subqueries over tables with equal names, compared with DuckDB."""
    different, compared = [], 0
    chance = random_of_commit("relations")
    with duckdb.connect() as referee:
        _create_tables(referee)
        for _ in range(STATEMENTS):
            where = _Conditions(chance).random([("prod.orders", "orders")], depth=3)
            query = f"SELECT orders.id, orders.a FROM prod.orders WHERE {where}"
            try:
                expected = referee.sql(query).order("ALL").fetchall()
            except duckdb.BinderException:
                continue  # A name is ambiguous.
            for translated in _translated(where, query):
                compared += 1
                if referee.sql(translated).order("ALL").fetchall() != expected:
                    different.append(f"{query} became {translated}")
    assert different == []
    assert compared > STATEMENTS


def _create_tables(referee: duckdb.DuckDBPyConnection) -> None:
    rows = {
        "prod.orders": "(1, 1), (2, 2), (3, 3), (4, 2)",
        "staging.orders": "(2, 20), (4, 1)",
        "prod.items": "(3, 4), (1, 2)",
        "staging.items": "(2, 3), (5, 1)",
    }
    referee.execute(
        "SET threads = 1; CREATE SCHEMA prod; CREATE SCHEMA staging; SET search_path = 'staging,main'"
    )
    for table, values in rows.items():
        name = table.replace(".", "__")
        referee.execute(f"CREATE TABLE {table} AS SELECT * FROM (VALUES {values}) AS v(id, a)")
        for prefix in ("", "_staging_v_"):
            referee.execute(f"CREATE VIEW main.{prefix}{name} AS SELECT * FROM {table}")


def _translated(where: str, query: str) -> Iterator[str]:
    """The texts for Spark of statements that choose rows by a condition, as DuckDB reads them."""
    try:
        delete, update = to_jobs(
            f"DELETE FROM prod.orders WHERE {where};UPDATE prod.orders SET a = 1 WHERE {where}",
            "staging",
        )
        (insert,) = to_jobs(f"INSERT INTO t {query}", "staging")
        queries = [insert.source, view_query(query, "staging", "staging.v")]
    except SqlError as error:
        if "may be any of the tables" not in str(error):
            raise
        return  # DuckDB reads a column of the first of the tables.
    for job in (delete, update):
        assert isinstance(job, DeleteJob | UpdateJob)
        alias = job.target_alias
        yield f"SELECT {alias}.id, {alias}.a FROM prod.orders AS {alias} WHERE {_quoted(job.where)}"
    for source in queries:
        assert isinstance(source, QuerySource)
        yield _quoted(source.sql)


def _quoted(sql: str | None) -> str:
    return re.sub("`", '"', sql or "")


class _Conditions:
    """Random conditions with nested subqueries.

    Args:
        chance: The source of random numbers.
    """

    def __init__(self, chance: Random) -> None:
        self._chance = chance

    def random(self, visible: list[tuple[str, ...]], depth: int) -> str:
        """Return a condition on visible relations, each with the names in front of its columns."""
        if depth == 0 or self._chance.random() < 0.1:
            return self._comparison(visible)
        relation, names = self._chance.choice(RELATIONS)
        inner = [*visible, names]
        source = relation
        if self._chance.random() < 0.3:
            other, more = self._chance.choice(RELATIONS)
            inner.append(more)
            source = f"{relation} JOIN {other} ON {self._comparison([names, more])}"
        where = f"{self._comparison(inner[-2:])} AND {self.random(inner, depth - 1)}"
        column = f"{self._chance.choice(names)}.{self._chance.choice(['id', 'a'])}"
        form = self._chance.choice(
            [
                f"EXISTS (SELECT 1 FROM {source} WHERE {where})",
                f"{self._column(visible)} IN (SELECT {column} FROM {source} WHERE {where})",
                f"{self._column(visible)} <= (SELECT max({column}) FROM {source} WHERE {where})",
                f"EXISTS (WITH orders AS (SELECT * FROM {self._chance.choice(['prod', 'staging'])}.items)"
                f" SELECT 1 FROM {source} WHERE {where})",
            ]
        )
        if self._chance.random() < 0.3:
            return f"({form} OR {self._comparison(visible)})"
        return form if self._chance.random() < 0.8 else f"NOT {form}"

    def _comparison(self, visible: list[tuple[str, ...]]) -> str:
        sign = self._chance.choice(["=", "<", ">="])
        return f"{self._column(visible)} {sign} {self._column(visible)}"

    def _column(self, visible: list[tuple[str, ...]]) -> str:
        name = self._chance.choice(self._chance.choice(visible))
        return f"{name}.{self._chance.choice(['id', 'a'])}"


@pytest.mark.parametrize(
    ("where", "for_spark", "alias"),
    [
        # The other table may have a struct of the name of the target.
        (
            "EXISTS (SELECT 1 FROM items AS i WHERE i.id = prod.orders.id AND orders.day = 1)",
            "EXISTS (SELECT 1 FROM `staging__items` AS i WHERE i.id = _orders_1.id AND _orders_1.day = 1)",
            "_orders_1",
        ),
        # Without a table in between, nothing else has the name.
        (
            "prod.orders.id IN (SELECT id FROM items)",
            "orders.id IN (SELECT id FROM `staging__items` AS `items`)",
            "orders",
        ),
    ],
)
def test_a_correlated_name_with_a_database_is_never_a_struct(
    where: str, for_spark: str, alias: str
) -> None:
    (job,) = to_jobs(f"DELETE FROM prod.orders WHERE {where}", "staging")
    assert isinstance(job, DeleteJob)
    assert (job.where, job.target_alias) == (for_spark, alias)


@pytest.mark.parametrize("word", ["VERSION", "SYSTEM_VERSION", "system_version"])
@pytest.mark.parametrize("before", ["", "FOR "])
def test_a_version_has_the_words_of_spark(before: str, word: str) -> None:
    (job,) = to_jobs(f"INSERT INTO t SELECT o.id FROM orders {before}{word} AS OF 7 AS o", "sales")
    assert isinstance(job, InsertJob)
    assert isinstance(job.source, QuerySource)
    assert [*job.source.inputs.values()] == [TableSource("sales.orders", as_of="7")]
    (merge,) = to_jobs(
        f"MERGE INTO t USING orders {before}{word} AS OF 7 AS o ON t.id = o.id WHEN MATCHED THEN DELETE",
        "sales",
    )
    assert isinstance(merge, MergeJob)
    assert isinstance(merge.source, QuerySource)
    assert [*merge.source.inputs.values()] == [TableSource("sales.orders", as_of="7")]


@pytest.mark.parametrize("before", ["", "FOR "])
@pytest.mark.parametrize("word", ["SYSTEM_TIME", "TIMESTAMP"])
def test_a_time_has_the_words_of_spark(before: str, word: str) -> None:
    time = "2026-03-01 12:00:00+00:00"
    (job,) = to_jobs(f"INSERT INTO t SELECT id FROM orders {before}{word} AS OF '{time}'", "sales")
    assert isinstance(job, InsertJob)
    assert isinstance(job.source, QuerySource)
    assert [*job.source.inputs.values()] == [TableSource("sales.orders", as_of=time)]


def test_columns_of_joined_tables_stay_different() -> None:
    (job,) = to_jobs(
        "UPDATE t AS _joined SET v = a.b__c, w = a__b.c FROM a JOIN a__b ON a.id = a__b.id"
        " WHERE _joined.id = a.id",
        "db",
    )
    assert isinstance(job, MergeJob)
    assert isinstance(job.source, QuerySource)
    assert job.source_alias != job.target_alias
    columns = re.findall(r" AS `(\w+)`(?=,| FROM)", job.source.sql)
    assert len(columns) == len(set(columns)) == 3
