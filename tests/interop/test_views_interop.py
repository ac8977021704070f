"""Views that Hive, Spark and this package have written, read by one another."""

import subprocess
import sys
from dataclasses import replace

import pytest

from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.sources import QuerySource, TableSource
from hiveacid.parser.script import to_script
from hiveacid.rules.names import TableRef
from hiveacid.spark.run import query_rows, run

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

TABLES = """
    DROP TABLE IF EXISTS seen; DROP TABLE IF EXISTS pairs;
    CREATE TABLE seen (id int, name string, ts timestamp, l array<int>);
    CREATE TABLE pairs (id int, n int);
    INSERT INTO seen VALUES (1, 'Ada', TIMESTAMP '2026-03-01 12:00:00', array(1, 2)),
        (2, 'it\\'s', NULL, array());
    INSERT INTO pairs VALUES (1, 10), (1, 20)
"""
SPARK = """
import sys
from pyspark.sql import SparkSession
builder = SparkSession.Builder().master("local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.sql.catalogImplementation", "hive")
builder = builder.config("spark.sql.warehouse.dir", sys.argv[2])
spark = builder.config("spark.hadoop.hive.metastore.uris", sys.argv[1]).getOrCreate()
for statement in sys.argv[3:]:
    spark.sql(statement)
"""


@pytest.fixture
def sql(spark, hive):
    """Run statements of this package."""

    def run_sql(text: str) -> None:
        options = MetastoreOptions(uris=hive.metastore_uri)
        assert run(spark, replace(to_script(text, "default"), metastore=options)).error is None

    return run_sql


def rows_of_view(spark, options: MetastoreOptions, view: str) -> list[tuple[str, ...]]:
    """Return the rows of a view, as texts in the order of their values."""
    name = view if "." in view else f"default.{view}"
    query = QuerySource("SELECT * FROM v", {"v": TableSource(name)})
    table = query_rows(spark, options, query, 100)
    found = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return sorted(tuple("NULL" if each is None else str(each) for each in row) for row in found)


@pytest.fixture
def rows(spark, hive):
    """Read the rows of a view in Hive's metastore."""
    return lambda view: rows_of_view(spark, MetastoreOptions(uris=hive.metastore_uri), view)


HIVE_QUERIES = {
    "of_star": ("", "select * from pairs", [("1", "10"), ("1", "20")]),
    "of_list": (
        "(x comment 'first', y)",
        "select id, count(*) from pairs group by id",
        [("1", "2")],
    ),
    "of_join": (
        "(a, b)",
        "select s.name, m.n from seen s left join pairs m on s.id = m.id and m.n > 10",
        [("Ada", "20"), ("it's", "NULL")],
    ),
    "of_list_elements": (
        "",
        "select id, x from seen lateral view explode(l) e as x",
        [("1", "1"), ("1", "2")],
    ),
    "of_intervals": (
        "",
        "select cast(ts - interval '1' day - interval '12' hour as string) d, name = 'it\\'s' q from seen",
        [("2026-02-28 00:00:00", "False"), ("NULL", "True")],
    ),
    "of_with": (
        "",
        "with c as (select id, max(n) as n from pairs group by id) select n from c union all select 5",
        [("20",), ("5",)],
    ),
}


def test_views_of_hive_are_read_as_by_hive(sql, hive, rows):
    sql(TABLES)
    for name, (columns, query, expected) in HIVE_QUERIES.items():
        hive.sql(f"create view {name} {columns} as {query}")
        assert rows(name) == expected, name
        found = [
            tuple(value.capitalize() if value in ("true", "false") else value for value in row)
            for row in hive.sql(f"select * from {name}")
        ]
        assert sorted(found) == expected, name
        hive.sql(f"drop view {name}")


def test_hive_and_trino_read_lists_of_columns(sql, hive, trino, rows):
    sql(TABLES)
    for query, expected in {
        "SELECT id, id FROM pairs WHERE n > 10": [("1", "1")],
        "SELECT s.id, m.id FROM seen s JOIN pairs m ON s.id = m.id AND n = 20": [("1", "1")],
        "SELECT count(*), max(n) + 1 FROM pairs": [("2", "21")],
        "SELECT id AS n, n AS id FROM pairs ORDER BY id DESC LIMIT 1": [("1", "20")],
    }.items():
        sql(f"CREATE VIEW listed (x COMMENT 'the first', y) COMMENT 'both' AS {query}")
        assert rows("listed") == expected
        assert hive.sql("select x, y from listed") == expected
        assert trino.sql("select x, y from hive.default.listed") == expected
        described = [(row[0].strip(), row[2].strip()) for row in hive.sql("describe listed")]
        assert ("x", "the first") in described
        sql("DROP VIEW listed")


@pytest.mark.parametrize("hms", ["3.1.3"], indirect=True)
def test_views_of_spark_are_read_as_by_spark(spark, hms, client, tmp_path):
    options = MetastoreOptions(uris=hms.uri)

    def sql(text: str) -> None:
        assert run(spark, replace(to_script(text, "default"), metastore=options)).error is None

    sql(TABLES)
    client.create_database("beside")
    sql("CREATE TABLE beside.pairs (id int, n int)")
    views = {
        "spark_star": ("", "SELECT * FROM pairs", [("1", "10"), ("1", "20")]),
        "spark_list": (
            "(x COMMENT 'first', y)",
            "SELECT id, id FROM pairs WHERE n > 10",
            [("1", "1")],
        ),
        "spark_interval": (
            "",
            "SELECT CAST(ts - INTERVAL 1 DAY 12 HOURS AS string) AS d, X '41' AS x, -1::string AS s"
            " FROM seen WHERE id = 1",
            [("2026-02-28 00:00:00", "b'A'", "-1")],
        ),
        "beside.spark_other": ("", "SELECT n FROM pairs", [("10",), ("20",)]),
    }
    try:
        statements = [
            f"CREATE VIEW {name} {columns} AS {query}"
            for name, (columns, query, _) in views.items()
        ]
        arguments = [hms.uri, str(tmp_path), "SET TIME ZONE 'UTC'", "USE default", *statements]
        subprocess.run([sys.executable, "-c", SPARK, *arguments], cwd=tmp_path, check=True)
        for name, (_, _, expected) in views.items():
            assert rows_of_view(spark, options, name) == expected, name
        # A star of Spark selects the columns that were there, by their names.
        sql("ALTER TABLE pairs ADD COLUMNS (added int)")
        assert rows_of_view(spark, options, "spark_star") == [("1", "10"), ("1", "20")]
    finally:
        client.drop_database("beside", cascade=True)
        for name in ("spark_star", "spark_list", "spark_interval", "seen", "pairs"):
            client.drop_table(TableRef("default", name))
