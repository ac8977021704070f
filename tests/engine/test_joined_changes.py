"""Changes of rows by several tables, several columns at once, and queries that WITH defines."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.errors import CheckFailed, HiveAcidError, InvalidJob, JobFailed
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.parser.script import to_script
from hiveacid.spark.run import run
from hiveacid.spark.spark_versions import SPARK_4_0, VERSION
from tests.engine.acid_tables import left_behind, rows_of
from tests.spark_versions.versions import NEEDS_SPARK_4_0

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)

Changed = Callable[[str], list[tuple]]
TABLES = """
CREATE TABLE t (id int, a int, b string) PARTITIONED BY (day string);
CREATE TABLE s (id int, k int, x int, `q r` struct<f:string>);
CREATE TABLE u (k int, y string, day string);
INSERT INTO t VALUES (1, 10, 'a', 'mon'), (2, 20, 'b', 'mon'), (3, 30, 'c', 'tue'), (4, 40, 'd', 'tue');
INSERT INTO s VALUES (1, 7, 100, named_struct('f', 'one')), (2, 8, 200, NULL),
    (3, 7, NULL, named_struct('f', 'three')), (9, 9, 900, NULL);
INSERT INTO u VALUES (7, 'seven', 'mon'), (8, 'eight', 'mon'), (6, 'six', 'tue')
"""
ROWS = [(1, 10, "a", "mon"), (2, 20, "b", "mon"), (3, 30, "c", "tue"), (4, 40, "d", "tue")]


@pytest.fixture
def changed(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> Iterator[Changed]:
    """Run a statement on new tables and return the rows of t that differ from those before."""

    def run_sql(text: str) -> list[tuple]:
        run(spark, replace(to_script(text, database), metastore=hms.options))
        with AcidTable(f"{database}.t", hms.uri, spark=spark) as table:
            return rows_of(table.to_df())

    run_sql(TABLES)
    yield run_sql
    assert left_behind(client) == []


@pytest.mark.parametrize(
    ("statement", "rows"),
    [
        (
            "UPDATE t SET a = t.a + s.x, b = concat(u.y, s.`q r`.f) FROM s, u "
            "WHERE t.id = s.id AND s.k = u.k AND t.a BETWEEN 5 AND 25",
            [(1, 110, "sevenone", "mon"), (2, 220, None, "mon"), *ROWS[2:]],
        ),
        (
            "UPDATE t AS d SET (a, b) = (s.x, u.y) FROM s LEFT JOIN u ON u.k = s.k AND u.day = 'tue' "
            "WHERE d.id = s.id AND d.day = 'tue'",
            [*ROWS[:2], (3, None, None, "tue"), ROWS[3]],
        ),
        (
            "WITH c AS (SELECT k, max(y) AS y FROM u GROUP BY k) "
            "UPDATE t SET b = c.y FROM s JOIN c ON s.k = c.k WHERE s.id = t.id",
            [(1, 10, "seven", "mon"), (2, 20, "eight", "mon"), (3, 30, "seven", "tue"), ROWS[3]],
        ),
        pytest.param(
            "UPDATE t SET (a, b) = (SELECT s.x, s.`q r`.f FROM s WHERE s.id = t.id) WHERE id < 4",
            [(1, 100, "one", "mon"), (2, 200, None, "mon"), (3, None, "three", "tue"), ROWS[3]],
            marks=NEEDS_SPARK_4_0,
        ),
        (
            "WITH c AS (SELECT max(x) AS x FROM s) UPDATE t SET a = (SELECT x FROM c) "
            "WHERE a * 5 < (WITH d AS (SELECT 1 AS one) SELECT x / 4 FROM c, d)",
            [
                (1, 900, "a", "mon"),
                (2, 900, "b", "mon"),
                (3, 900, "c", "tue"),
                (4, 900, "d", "tue"),
            ],
        ),
        ("DELETE FROM t USING s WHERE t.id = s.id AND s.x IS NOT NULL", ROWS[2:]),
        # A row with two partners is deleted once.
        ("DELETE FROM t USING u WHERE t.day = u.day AND u.k > 6", ROWS[2:]),
        ("DELETE FROM t AS d USING s, u WHERE d.id = s.id AND s.k = u.k", ROWS[3:]),
        (
            "WITH c AS (SELECT id FROM s WHERE k = 7) DELETE FROM t USING c WHERE c.id = t.id",
            [ROWS[1], ROWS[3]],
        ),
        ("WITH c AS (SELECT id FROM s) DELETE FROM t WHERE id NOT IN (SELECT id FROM c)", ROWS[:3]),
    ],
)
def test_rows_are_changed_by_other_tables(
    changed: Changed, statement: str, rows: list[tuple]
) -> None:
    assert changed(statement) == rows


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        ("UPDATE t SET a = s.x FROM s, u WHERE s.id = t.id AND u.k > 6", CheckFailed, "id"),
        (
            "UPDATE t SET (a, b) = (SELECT x FROM s WHERE s.id = t.id) WHERE true",
            HiveAcidError,
            ".",
        ),
        (
            "UPDATE t SET (a, b) = (SELECT x, 'y' FROM s) WHERE true",
            InvalidJob,
            "More than one row",
        ),
        (
            "UPDATE t SET b = raise_error('stop it') WHERE true",
            InvalidJob if VERSION >= SPARK_4_0 else JobFailed,
            "stop it",
        ),
        ("UPDATE t SET a = 1 wrong, b = 'x' WHERE true", HiveAcidError, "."),
        ("DELETE FROM t USING s WHERE t.id = s.oops", HiveAcidError, "oops"),
        ("UPDATE t SET a = max(s.x) FROM s, u WHERE s.id = t.id", InvalidJob, "single row"),
    ],
)
def test_mistakes_change_nothing(
    changed: Changed, statement: str, error: type[HiveAcidError], message: str
) -> None:
    with pytest.raises(error, match=message) as raised:
        changed(statement)
    assert "+- " not in str(raised.value)
    assert changed("DELETE FROM t WHERE false") == ROWS
