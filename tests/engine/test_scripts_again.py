"""Scripts that change rows and are tried again: every statement is applied once, or is an error."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from airflow_hiveacid.engine.run import run
from airflow_hiveacid.errors import ScriptChanged, UnknownColumn
from airflow_hiveacid.jobs.reports.script_report import ScriptReport
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.progress import FAULT_VARIABLE, InjectedFault
from airflow_hiveacid.sql.script import to_script
from tests.rows import rows_of

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
Sql = Callable[..., ScriptReport]
Rows = Callable[[str], list[tuple]]


@pytest.fixture
def sql(spark: SparkSession, client: MetastoreClient, database: str) -> Sql:
    """Run a script as each attempt of a task does."""

    def run_sql(text: str, run_token: str | None = "d/r/t/-1") -> ScriptReport:
        script = replace(to_script(text, database), metastore=client.options, run_token=run_token)
        report = run(spark, script)
        assert isinstance(report, ScriptReport)
        return report

    return run_sql


@pytest.fixture
def rows(client: MetastoreClient, database: str) -> Rows:
    """The rows of a table."""

    def read(name: str) -> list[tuple]:
        return [tuple(row.values()) for row in rows_of(client.options.uris, f"{database}.{name}")]

    return read


def done(report: ScriptReport) -> list[bool]:
    return [statement.report.already_done for statement in report.statements]


def test_a_table_that_is_built_beside_and_swapped_in_is_swapped_once(
    sql: Sql, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql("CREATE TABLE t (n int); INSERT INTO t VALUES (0)", None)
    swap = """
        CREATE TABLE t_new AS SELECT n + 1 AS n FROM t;
        ALTER TABLE t RENAME TO t_old;
        ALTER TABLE t_new RENAME TO t;
        DROP TABLE t_old
    """
    with monkeypatch.context() as patch:
        patch.setenv(FAULT_VARIABLE, "commit:raise:after")
        with pytest.raises(InjectedFault):
            sql(swap)
    for _ in range(2):
        report = sql(swap)
        assert rows("t") == [(1,)]
    assert done(report) == [True] * 4
    assert report.statements[0].report.rows_inserted == 1


def test_statements_of_rows_are_known_by_what_they_do(sql: Sql, rows: Rows) -> None:
    sql("CREATE TABLE t (n int)", None)
    one, two = "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)"
    with pytest.raises(UnknownColumn, match="Statement 2 of 3"):
        sql(f"{one}; INSERT INTO t VALUES (2, 3); {two}")
    for changed in (two, f"{two}; {one}", "INSERT INTO t VALUES (7)"):
        with pytest.raises(ScriptChanged, match=r"Statement 1 .* insert of"):
            sql(changed)
    assert done(sql(f"{one}; {one}; {two}")) == [True, False, False]
    assert done(sql(f"{one}; {one}; {two}")) == [True, True, True]
    assert rows("t") == [(1,), (1,), (2,)]


def test_text_that_differs_in_each_try_is_applied_once(
    sql: Sql, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql("CREATE TABLE t (attempt int)", None)
    with monkeypatch.context() as patch:
        patch.setenv(FAULT_VARIABLE, "publish:raise")
        with pytest.raises(InjectedFault):
            sql("INSERT INTO t VALUES (1)")
        patch.setenv(FAULT_VARIABLE, "commit:raise:after")
        with pytest.raises(InjectedFault):
            sql("INSERT INTO t VALUES (2)")
    for _ in range(2):
        with pytest.raises(ScriptChanged, match=r"begun another statement .*\.t, or may"):
            sql("INSERT INTO t VALUES (3)")
    assert rows("t") == [(2,)]
    assert done(sql("INSERT INTO t VALUES (2)")) == [True]
    assert rows("t") == [(2,)]
