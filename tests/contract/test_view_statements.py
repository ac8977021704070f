"""Views in the metastore, once Spark has found the columns of their queries."""

from dataclasses import replace

import pytest

from hiveacid.api.explained import tables_read
from hiveacid.errors import TableExists, TableNotFound, UnsupportedTable
from hiveacid.jobs.definition_jobs import CreateViewJob
from hiveacid.jobs.sources import TableSource
from hiveacid.metastore.catalog import HiveColumn
from hiveacid.metastore.client import MetastoreClient
from hiveacid.parser.questions import ShowViews
from hiveacid.parser.script import to_jobs, to_steps
from hiveacid.rules.names import TableRef
from hiveacid.tables.definitions.answers import answer
from hiveacid.tables.definitions.run import run_ddl
from hiveacid.tables.definitions.views import create_view
from tests.fakes.metastore import REAL_AND_FAKE
from tests.stored_views import store_view

COLUMNS = [HiveColumn("a", "int"), HiveColumn("b", "varchar(5)")]


def define(client: MetastoreClient, database: str, sql: str, **options: object) -> tuple[str, ...]:
    """Create or replace the view of a statement, with the columns of its query."""
    (job,) = to_jobs(sql, database)
    assert isinstance(job, CreateViewJob)
    ref = TableRef.parse(job.target)
    return create_view(client, ref, replace(job, **options), COLUMNS, job.expanded)


@REAL_AND_FAKE
def test_a_view_is_kept_replaced_shown_and_dropped(client, database) -> None:
    view = TableRef(database, "v")
    run_ddl(client, to_jobs("CREATE TABLE t (a int, b string)", database)[0])
    with pytest.raises(TableNotFound, match=r"does not exist\. CREATE VIEW creates it"):
        define(client, database, "ALTER VIEW v AS SELECT * FROM t")
    assert define(client, database, "CREATE VIEW v COMMENT 'c' AS SELECT * FROM t") == ()
    described = client.get_table(view)
    assert described.is_view
    assert list(described.columns) == COLUMNS
    assert described.view_text == f"SELECT * FROM `{database}`.t"
    assert described.raw.viewOriginalText == "SELECT * FROM t"
    assert described.parameters["comment"] == "c"
    with pytest.raises(TableExists):
        define(client, database, "CREATE VIEW v AS SELECT a, b FROM t")
    (kept,) = define(client, database, "CREATE VIEW IF NOT EXISTS v AS SELECT a, b FROM t")
    assert "left as it was" in kept
    assert client.get_table(view).raw.viewOriginalText == "SELECT * FROM t"
    for sql in (
        "CREATE OR REPLACE VIEW v AS SELECT b, a FROM t",
        "ALTER VIEW v AS SELECT a, 1 AS b",
    ):
        define(client, database, sql)
        assert client.get_table(view).raw.viewOriginalText == sql.partition(" AS ")[2]
    (question,) = to_steps(f"SHOW VIEWS IN {database}")
    assert isinstance(question, ShowViews)
    assert answer(client, question).rows == [("v",)]
    with pytest.raises(UnsupportedTable, match=r"is a view, and no table\. Write DROP VIEW"):
        run_ddl(client, to_jobs("DROP TABLE v", database)[0])
    with pytest.raises(UnsupportedTable, match=r"is a table, and no view\. Write DROP TABLE"):
        run_ddl(client, to_jobs("DROP VIEW t", database)[0])
    with pytest.raises(UnsupportedTable, match="is a table, and no view"):
        define(client, database, "CREATE OR REPLACE VIEW t AS SELECT 1 AS a, 2 AS b")
    run_ddl(client, to_jobs("DROP VIEW v", database)[0])
    assert answer(client, question).rows == []
    with pytest.raises(TableNotFound, match="There is no view"):
        run_ddl(client, to_jobs("DROP VIEW v", database)[0])
    assert client.show_locks(view) == []


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_another_query_has_no_parameters_of_the_query_that_spark_stored(client, database) -> None:
    ref = TableRef(database, "v")
    stored = {"view.query.out.col.0": "x", "spark.sql.sources.schema": "{}", "owner": "olga"}
    store_view(client, ref, "SELECT 1 AS x", COLUMNS, stored)
    define(client, database, "ALTER VIEW v AS SELECT 1 AS a, 'x' AS b")
    parameters = client.get_table(ref).parameters
    assert parameters["owner"] == "olga"
    assert not {"view.query.out.col.0", "spark.sql.sources.schema"} & {*parameters}


@pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
def test_another_try_finds_the_view_that_the_first_one_has_created(client, database) -> None:
    sql, token = "CREATE VIEW v AS SELECT 1 AS a, 'x' AS b", "d/r/t/-1"
    assert define(client, database, sql, run_token=token) == ()
    assert "created by an earlier attempt" in define(client, database, sql, run_token=token)[0]


@REAL_AND_FAKE
def test_the_tables_below_a_view_of_spark_are_those_of_its_current_database(
    client, database
) -> None:
    run_ddl(client, to_jobs("CREATE TABLE t (a int, b string)", database)[0])
    view = TableRef("default", f"v_{database}")
    current = {
        "view.catalogAndNamespace.part.0": "spark_catalog",
        "view.catalogAndNamespace.part.1": database,
    }
    store_view(client, view, "SELECT a, b FROM t", COLUMNS, current)
    try:
        read = tables_read(client, [TableSource(view.full_name)])
    finally:
        client.drop_table(view)
    assert [table.ref for table in read] == [view, TableRef(database, "t")]
