"""Columns, fields and aliases with names of internal columns, or with equal names."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from hiveacid.errors import InvalidJob, UnknownColumn
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.parser.questions import Select
from hiveacid.parser.script import to_script, to_steps
from hiveacid.spark.run import query_rows, run
from tests.engine.acid_tables import left_behind
from tests.rows import rows_of

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)

Sql = Callable[[str], list[Any]]


@pytest.fixture
def sql(spark: SparkSession, hms: EmbeddedMetastore, database: str) -> Sql:
    """Run statements, or return the rows of a query in their order."""

    def run_sql(text: str) -> list[Any]:
        step, *_ = to_steps(text, database)
        if isinstance(step, Select):
            rows = query_rows(spark, hms.options, step.query, 100).to_pylist()
            return sorted(tuple(row.values()) for row in rows)
        run(spark, replace(to_script(text, database), metastore=hms.options))
        return []

    return run_sql


# The fixed parts of the names of internal columns, and Spark's column with the path of a file.
INTERNAL = """
    write_id bucket row partition path clause source_row touched fate bucket_number key times inserted
    updates is_pair count deleted_by source_0 default_0 line
"""
NAMES = [*(f"_acid_{name}" for name in INTERNAL.split()), "_metadata"]


def test_columns_have_any_internal_name(
    sql: Sql, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> None:
    columns = ", ".join(f"{name} int" for name in NAMES)
    numbers = ", ".join("7" for _ in NAMES)
    sql(
        f"CREATE TABLE t (id int, {columns}) PARTITIONED BY (_acid_partition_number string);"
        f"INSERT INTO t VALUES (1, {numbers}, 'a'), (2, {numbers}, 'a'), (3, {numbers}, 'b');"
        "CREATE TABLE u AS SELECT * FROM t WHERE id > 1;"
        f"INSERT INTO u VALUES (5, {numbers}, 'a'), (6, {numbers}, 'c');"
        "DELETE FROM t WHERE _acid_row = 7 AND id = 2;"
        "UPDATE t SET _acid_row = _acid_row + 10, _acid_fate = 0 WHERE _acid_partition_number = 'b';"
        # The rows of the source, of which some are never written, then those of the target.
        "MERGE INTO t USING u ON t.id = u.id AND t._acid_partition_number = u._acid_partition_number"
        " WHEN MATCHED AND u._acid_clause = 7 THEN UPDATE SET *"
        " WHEN NOT MATCHED AND u.id <> 6 THEN INSERT *;"
        "MERGE INTO t USING u ON t.id = u.id"
        " WHEN MATCHED THEN UPDATE SET _acid_path = t._acid_path + u._acid_path"
        " WHEN NOT MATCHED THEN INSERT *"
    )
    rows = rows_of(hms.uri, f"{database}.t")
    assert [(row["id"], row["_acid_partition_number"]) for row in rows] == [
        (1, "a"),
        (2, "a"),
        (3, "b"),
        (5, "a"),
        (6, "c"),
    ]
    assert {row["_acid_path"] for row in rows if row["id"] in (2, 3, 5)} == {14}
    others = {row[name] for row in rows for name in NAMES if name != "_acid_path"}
    assert others == {7}
    assert left_behind(client) == []


def test_expressions_do_not_see_internal_columns(sql: Sql) -> None:
    sql("CREATE TABLE t (id int, v string); INSERT INTO t VALUES (1, 'a')")
    for text in (
        "UPDATE t SET v = to_json(struct(*)) WHERE id = 1",
        "DELETE FROM t WHERE hash(t.*) <> 0",
        "MERGE INTO t USING (SELECT 1 AS id) s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET v = to_json(struct(s.*))",
    ):
        with pytest.raises(InvalidJob, match=r"names all columns by \*"):
            sql(text)
    with pytest.raises(UnknownColumn, match=r"following\? \[`id`, `v`\]"):
        sql("UPDATE t SET v = 'b' WHERE _acid_row = 0")
    # The columns of a subquery are not affected.
    sql("UPDATE t SET v = (SELECT count(*) * 2 FROM t) WHERE id * 1 = 1")
    assert sql("SELECT * FROM t") == [(1, "2")]


def test_clauses_for_rows_without_a_source_see_only_the_target(sql: Sql) -> None:
    sql(
        "CREATE TABLE t (id int, v int, st struct<a:int>);"
        "CREATE TABLE s (id int, v int, st struct<a:int>);"
        "INSERT INTO t SELECT id, v, named_struct('a', v) FROM VALUES (1, 10), (2, 20), (3, 0)"
        " AS r(id, v);"
        "INSERT INTO s SELECT id, v, named_struct('a', v) FROM VALUES (1, 5), (4, 6) AS r(id, v)"
    )
    merge = "MERGE INTO t USING s ON t.id = s.id"
    with pytest.raises(UnknownColumn, match=r"`s`\.`v`"):
        sql(f"{merge} WHEN NOT MATCHED BY SOURCE AND s.v IS NULL THEN DELETE")
    with pytest.raises(UnknownColumn, match=r"`s`\.`v`"):
        sql(f"{merge} WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = s.v")
    # The new rows depend on the target; the first clause would fail for a row that matches.
    sql(
        f"{merge} WHEN MATCHED THEN UPDATE SET v = t.v + s.v WHEN NOT MATCHED THEN INSERT *"
        " WHEN NOT MATCHED BY SOURCE AND 1 / (id - 1) = 1 AND st.a = 20 THEN UPDATE SET v = v + id"
        " WHEN NOT MATCHED BY SOURCE THEN DELETE"
    )
    assert sql("SELECT id, v FROM t") == [(1, 15), (2, 22), (4, 6)]
    # They depend only on the source.
    sql(f"{merge} WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED BY SOURCE AND v = 22 THEN DELETE")
    assert sql("SELECT id, v FROM t") == [(1, 5), (4, 6)]


@pytest.fixture
def struct_tables(sql: Sql, client: MetastoreClient, database: str) -> Iterator[str]:
    """The name of a database with tables, and of a table with a struct."""
    other = f"{database}_other"
    client.create_database(other)
    sql(
        f"CREATE TABLE {other} (id int, b struct<a:int>);"
        f"CREATE TABLE {other}.b (a int, k int); CREATE TABLE {other}.c (k int, b struct<a:int>);"
        f"INSERT INTO {other} SELECT 1, named_struct('a', 8);"
        f"INSERT INTO {other}.b VALUES (1, 2); INSERT INTO {other}.c SELECT 2, named_struct('a', 9)"
    )
    yield other
    client.drop_database(other, cascade=True)


def test_a_name_with_dots_is_a_table_of_a_database_or_a_field(sql: Sql, struct_tables: str) -> None:
    d = struct_tables
    assert sql(f"SELECT {d}.b.a FROM {d}") == [(8,)]
    assert sql(f"SELECT d1.b.a FROM {d} AS d1") == [(8,)]
    assert sql(f"SELECT {d}.b.a FROM {d}, {d}.b") == [(1,)]
    assert sql(f"SELECT {d}.b.a FROM {d}, {d}.b AS q") == [(8,)]
    assert sql(f"SELECT {d}.b.a FROM {d}, {d}.c") == [(8,)]
    assert sql(f"SELECT id FROM {d} WHERE EXISTS (SELECT 1 FROM {d}.b WHERE {d}.b.a = 1)") == [(1,)]


def test_an_outer_table_is_not_a_struct_of_an_inner_one(sql: Sql, struct_tables: str) -> None:
    d = struct_tables
    inner = f"SELECT 1 FROM {d}.c AS x WHERE {d}.b.a"
    # Its struct b has the field a, too.
    assert sql(f"SELECT k FROM {d}.b WHERE EXISTS ({inner} = 1)") == [(2,)]
    assert sql(f"SELECT k FROM {d}.b WHERE EXISTS ({inner} = 9)") == []
    sql(f"DELETE FROM {d}.b WHERE EXISTS ({inner} = 9)")
    assert sql(f"SELECT k FROM {d}.b") == [(2,)]
    sql(f"DELETE FROM {d}.b USING {d}.c WHERE b.k = c.k AND b.a = 9")
    assert sql(f"SELECT k FROM {d}.b") == [(2,)]
    sql(f"DELETE FROM {d}.b USING {d}.c WHERE b.k = c.k AND b.a = 1")
    assert sql(f"SELECT k FROM {d}.b") == []


def test_joined_tables_and_common_queries_have_any_name(sql: Sql) -> None:
    sql(
        "CREATE TABLE _joined (id int, v int, w int); INSERT INTO _joined VALUES (1, 0, 0);"
        "CREATE TABLE a (id int, b__c int); INSERT INTO a VALUES (1, 10);"
        "CREATE TABLE a__b (id int, c int); INSERT INTO a__b VALUES (1, 20);"
        "UPDATE _joined SET v = a.b__c, w = a__b.c FROM a JOIN a__b ON a.id = a__b.id"
        " WHERE _joined.id = a.id"
    )
    assert sql("SELECT * FROM _joined") == [(1, 10, 20)]
    sql(
        "WITH _common_1 AS (SELECT 5 AS id) FROM (SELECT 2 AS v) q CROSS JOIN _common_1 z"
        " INSERT INTO a SELECT z.id, q.v INSERT INTO a__b SELECT z.id, q.v"
    )
    assert sql("SELECT * FROM a") == [(1, 10), (5, 2)]
    assert sql("SELECT * FROM a__b") == [(1, 20), (5, 2)]
