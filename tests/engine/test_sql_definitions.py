"""Statements that change definitions, and the rows and versions that Spark reads afterwards."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.errors import (
    InvalidJob,
    SqlError,
    TableExists,
    TableNotFound,
    UnsupportedTable,
    VersionGone,
)
from hiveacid.jobs.report import ScriptReport
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.parser.script import to_script
from hiveacid.rules.names import TableRef
from hiveacid.spark.run import run
from tests.engine.acid_tables import rows_of
from tests.spark_versions.versions import NEEDS_SPARK_4_0

FAKE = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
ON_REAL = pytest.mark.parametrize("hms", ["4.0.1", "3.1.3"], indirect=True)
Sql = Callable[..., ScriptReport]


@pytest.fixture
def rows(sql: Sql, spark: SparkSession, hms: EmbeddedMetastore, database: str):
    """The rows of a table or a view, copied by a statement."""

    def read(name: str) -> list[tuple]:
        sql(f"DROP TABLE IF EXISTS copy; CREATE TABLE copy AS SELECT * FROM {name}")
        with AcidTable(f"{database}.copy", hms.uri, spark=spark) as table:
            return rows_of(table.to_df())

    return read


@FAKE
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT id, id FROM t", [(1, 1), (2, 2)]),
        ("SELECT t.id, u.id FROM t JOIN t AS u ON u.id = t.id + 1", [(1, 2)]),
        ("SELECT count(*), max(id) + 1 FROM t", [(2, 3)]),
        # The names of the query keep their meaning in it.
        ("SELECT n AS id, id AS y FROM t ORDER BY id DESC LIMIT 1", [(20, 1)]),
        ("SELECT id AS a, count(*) FROM t GROUP BY a HAVING a > 1", [(2, 1)]),
        (
            "SELECT id, id FROM t UNION ALL SELECT n, n FROM t -- the end",
            [(1, 1), (2, 2), (10, 10), (20, 20)],
        ),
        ("WITH c AS (SELECT id AS x, n AS x2 FROM t) SELECT * FROM c", [(1, 20), (2, 10)]),
        ("(SELECT DISTINCT CASE WHEN id > 0 THEN 1 END, 'a, b' FROM t)", [(1, "a, b")]),
    ],
)
def test_a_list_of_columns_names_what_a_query_returns(
    sql, rows, client, database, query, expected
) -> None:
    sql("CREATE TABLE t (id int, n int); INSERT INTO t VALUES (1, 20), (2, 10)")
    sql(f"CREATE VIEW v (x COMMENT 'the first', `Y`) COMMENT 'both' AS {query}")
    columns = client.get_table(TableRef(database, "v")).columns
    assert [(each.name, each.comment) for each in columns] == [("x", "the first"), ("y", None)]
    assert rows("v") == expected


@FAKE
def test_columns_behind_a_star_need_different_names(sql, client, database) -> None:
    sql("CREATE TABLE t (id int, n int)")
    with pytest.raises(InvalidJob, match=r"id, n, id, n\. Give each of them a name by AS"):
        sql("CREATE VIEW v (a, b, c, d) AS SELECT * FROM t JOIN t AS u ON t.id = u.id")
    with pytest.raises(InvalidJob, match="needs 2 columns of different names, not id, id"):
        sql("CREATE VIEW v AS SELECT id, id FROM t")
    with pytest.raises(SqlError, match="contains Sample, which is not allowed"):
        sql("CREATE VIEW v AS SELECT id FROM (SELECT * FROM t) TABLESAMPLE (10 PERCENT)")


@NEEDS_SPARK_4_0
@ON_REAL
def test_a_view_is_created_replaced_and_dropped(sql, rows, client, database) -> None:
    view = TableRef(database, "v")
    sql(
        """
        CREATE TABLE t (id int, name varchar(5));
        INSERT INTO t VALUES (1, 'a'), (2, 'b');
        CREATE VIEW v COMMENT 'c' AS SELECT * FROM t
        """
    )
    described = client.get_table(view)
    assert described.is_view
    assert [(each.name, each.type) for each in described.columns] == [
        ("id", "int"),
        ("name", "varchar(5)"),
    ]
    assert described.raw.viewOriginalText == "SELECT * FROM t"
    assert described.parameters["comment"] == "c"
    sql("ALTER TABLE t ADD COLUMNS (more int)")
    assert rows("v") == [(1, "a"), (2, "b")]
    with pytest.raises(TableExists):
        sql("CREATE VIEW v AS SELECT 1 AS a")
    assert "left as it was" in sql("CREATE VIEW IF NOT EXISTS v AS SELECT 1 AS a").warnings[0]
    sql("CREATE OR REPLACE VIEW v (KEY, n) AS SELECT id, count(*) AS c FROM t GROUP BY id")
    assert rows("v") == [(1, 1), (2, 1)]
    sql("ALTER VIEW v AS SELECT upper(name) AS name FROM t WHERE id = 2")
    assert rows("v") == [("B",)]
    assert [each.name for each in client.get_table(view).columns] == ["name"]
    with pytest.raises(UnsupportedTable, match=r"is a view, and no table\. Write DROP VIEW"):
        sql("DROP TABLE v")
    sql("DROP VIEW v")
    with pytest.raises(TableNotFound, match="no view"):
        sql("DROP VIEW v")
    assert len(rows("t")) == 2


@FAKE
def test_unreadable_views_are_refused(sql, client, database) -> None:
    sql("CREATE TABLE t (a int, b int); CREATE VIEW v AS SELECT a FROM t")
    sql("CREATE VIEW w AS SELECT a FROM v")
    with pytest.raises(UnsupportedTable, match="reads itself"):
        sql("ALTER VIEW v AS SELECT a FROM w")
    with pytest.raises(InvalidJob, match="needs 2 columns of different names, not a, a"):
        sql("CREATE VIEW x (a, A) AS SELECT a, b FROM t")
    with pytest.raises(InvalidJob, match="needs 2 columns"):
        sql("CREATE VIEW x (a) AS SELECT a, b FROM t")
    with pytest.raises(TableNotFound):
        sql("ALTER VIEW x AS SELECT a FROM t")
    with pytest.raises(UnsupportedTable, match="is a table, and no view"):
        sql("CREATE OR REPLACE VIEW t AS SELECT 1 AS a")
    with pytest.raises(SqlError, match="cannot be read"):
        sql("CREATE VIEW x AS SELECT * FROM range(3)")
    script = to_script("CREATE VIEW x AS SELECT a FROM t", database)
    (job,) = script.statements
    hidden = replace(script, statements=(replace(job, reads=()),), metastore=client.options)  # type: ignore[call-arg]
    with pytest.raises(InvalidJob, match="reads must name the tables of the query"):
        run(SparkSession.getActiveSession(), hidden)
    assert client.get_table(TableRef(database, "v")).raw.viewOriginalText == "SELECT a FROM t"


@FAKE
def test_a_second_try_finds_the_view_of_the_first(sql) -> None:
    sql("CREATE TABLE t (a int)")
    text = "CREATE VIEW v AS SELECT a FROM t"
    assert sql(text, "d/r/t/-1").warnings == ()
    assert "created by an earlier attempt" in sql(text, "d/r/t/-1").warnings[0]


@FAKE
def test_versions_before_a_dropped_partition_are_an_error(
    sql, rows, client: MetastoreClient, database
) -> None:
    sql(
        """
        CREATE TABLE t (a int) PARTITIONED BY (day string);
        INSERT INTO t VALUES (1, 'x'), (2, 'y');
        INSERT INTO t VALUES (3, 'x'), (4, 'y');
        ALTER TABLE t DROP PARTITION (day = 'x')
        """
    )
    assert rows("t") == [(2, "y"), (4, "y")]
    for read in (
        "t FOR VERSION AS OF 1",
        "t FOR SYSTEM_TIME AS OF '2020-01-01'",
        "TABLE_CHANGES('t', 1)",
    ):
        with pytest.raises(VersionGone, match="dropped in version 3"):
            rows(read)
    with pytest.raises(VersionGone):
        sql("RESTORE TABLE t TO VERSION AS OF 1")
    sql("INSERT INTO t VALUES (5, 'x')")
    assert rows("t FOR VERSION AS OF 3") == [(2, "y"), (4, "y")]
    assert len(rows("TABLE_CHANGES('t', 3)")) == 1
    assert rows("t") == [(2, "y"), (4, "y"), (5, "x")]


@FAKE
def test_rows_of_renamed_and_wider_columns_keep_their_values(sql, rows) -> None:
    sql(
        """
        CREATE TABLE t (id int, n int, v varchar(3)) PARTITIONED BY (day string);
        INSERT INTO t VALUES (1, 10, 'abc', 'x'), (2, 20, 'def', 'y');
        ALTER TABLE t CHANGE n m bigint;
        ALTER TABLE t ALTER COLUMN v TYPE string;
        INSERT INTO t VALUES (3, 3000000000, 'a long text', 'x');
        UPDATE t SET m = m + 1 WHERE id = 2;
        ALTER TABLE t COMPACT 'major'
        """
    )
    assert rows("t") == [
        (1, 10, "abc", "x"),
        (2, 21, "def", "y"),
        (3, 3000000000, "a long text", "x"),
    ]
