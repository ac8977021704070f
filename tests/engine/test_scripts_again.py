"""Scripts that are tried again: rows are changed once, whatever becomes of the script's own tables."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from hiveacid.errors import InvalidJob, UnknownColumn, UnprovenRun
from hiveacid.jobs.report import ScriptReport
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.owner import Owner, Snapshot, open_transaction
from hiveacid.parser.script import to_script
from hiveacid.progress import FAULT_VARIABLE, InjectedFault, PhaseObserver
from hiveacid.rules.names import TableRef
from hiveacid.spark.run import run
from tests.rows import rows_of

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
Sql = Callable[..., ScriptReport]
Rows = Callable[[str], list[tuple]]
TOKEN = "d/r/t/-1"
# Moves the rows of a source by a table of its own.
MOVE = """
    CREATE TABLE IF NOT EXISTS own (n int);
    INSERT OVERWRITE TABLE own SELECT n FROM source;
    DELETE FROM source USING own WHERE source.n = own.n;
    INSERT INTO t SELECT n FROM own;
    DROP TABLE IF EXISTS own
"""


@pytest.fixture
def sql(spark: SparkSession, client: MetastoreClient, database: str) -> Sql:
    """Run a script as each attempt of a task does."""

    def run_sql(text: str, run_token: str | None = TOKEN) -> ScriptReport:
        script = replace(to_script(text, database), metastore=client.options, run_token=run_token)
        report = run(spark, script)
        assert isinstance(report, ScriptReport)
        return report

    return run_sql


@pytest.fixture
def rows(client: MetastoreClient, database: str) -> Rows:
    """The rows of a table."""

    def read(name: str) -> list[tuple]:
        found = rows_of(client.options.uris, f"{database}.{name}")
        return sorted(tuple(row.values()) for row in found)

    return read


def done(report: ScriptReport) -> list[bool]:
    return [statement.report.already_done for statement in report.statements]


class Killed(BaseException):
    """The process ends between two statements."""


class Kill(PhaseObserver):
    """Ends the process after so many statements."""

    def __init__(self, after: int) -> None:
        self.left = after

    def statement(self) -> None:
        if not self.left:
            raise Killed
        self.left -= 1


@pytest.mark.parametrize("after", range(6))
def test_rows_are_moved_once_by_a_table_that_is_dropped_at_the_end(
    spark: SparkSession, sql: Sql, rows: Rows, client, database, after: int
) -> None:
    """An attempt is killed after so many statements, and others add a row before the next one."""
    sql(
        "CREATE TABLE source (n int); INSERT INTO source VALUES (1), (2); CREATE TABLE t (n int)",
        None,
    )
    script = replace(to_script(MOVE, database), metastore=client.options, run_token=TOKEN)
    with suppress(Killed):
        run(spark, script, [Kill(after)])
    sql("INSERT INTO source VALUES (3)", None)
    for _ in range(2):
        sql(MOVE)
        assert sorted([*rows("t"), *rows("source")]) == [(1,), (2,), (3,)]
        assert sorted(client.get_tables(database)) == ["source", "t"]


@pytest.mark.parametrize("fault", ["publish:raise", "commit:raise:after"])
def test_a_table_of_a_query_is_filled_once_and_made_again_after_its_drop(
    sql: Sql, rows: Rows, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    sql("CREATE TABLE t (n int); INSERT INTO t VALUES (0)", None)
    script = """
        CREATE TABLE IF NOT EXISTS own AS SELECT n + 1 AS n FROM t;
        INSERT INTO t SELECT n FROM own;
        DROP TABLE IF EXISTS own
    """
    with monkeypatch.context() as patch:
        patch.setenv(FAULT_VARIABLE, fault)
        with pytest.raises(InjectedFault):
            sql(script)
    for _ in range(2):
        report = sql(script)
        assert rows("t") == [(0,), (1,)]
    assert done(report) == [False, True, False]


def test_a_drop_before_the_use_of_a_table_is_refused(sql: Sql, client, database) -> None:
    sql("CREATE TABLE t (n int); CREATE TABLE own (n int)", None)
    with pytest.raises(InvalidJob, match="would destroy the result of statement 2"):
        sql("DROP TABLE IF EXISTS own; CREATE TABLE IF NOT EXISTS own AS SELECT n FROM t")
    assert sorted(client.get_tables(database)) == ["own", "t"]


def test_statements_of_rows_are_known_by_what_they_do(sql: Sql, rows: Rows) -> None:
    sql("CREATE TABLE t (n int)", None)
    one, two = "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)"
    with pytest.raises(UnknownColumn, match="Statement 2 of 3"):
        sql(f"{one}; INSERT INTO t VALUES (2, 3); {two}")
    for changed in (two, "INSERT INTO t VALUES (7)"):
        with pytest.raises(UnprovenRun, match=r"has applied another statement, insert, to .*\.t"):
            sql(changed)
    assert done(sql(f"{one}; {one}; {two}")) == [True, False, False]
    assert done(sql(f"{two}; {one}; {one}")) == [True, True, True]
    with pytest.raises(UnprovenRun):
        sql(f"{one}; {two}")
    # Another run has applied nothing.
    assert done(sql(two, "d/r2/t/-1")) == [False]
    assert rows("t") == [(1,), (1,), (2,), (2,)]


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
        with pytest.raises(UnprovenRun, match="cannot be part of a statement"):
            sql("INSERT INTO t VALUES (3)")
    assert rows("t") == [(2,)]
    assert done(sql("INSERT INTO t VALUES (2)")) == [True]
    assert rows("t") == [(2,)]


def test_the_transaction_of_a_changed_statement_is_aborted(
    sql: Sql, client: MetastoreClient, database: str
) -> None:
    """The driver of the earlier attempt is still at work."""
    sql("CREATE TABLE t (n int); CREATE TABLE u (n int)", None)
    left = []
    for token, table in ((TOKEN, "t"), (TOKEN, "u"), ("d/r2/t/-1", "t")):
        script = replace(to_script(f"INSERT INTO {table} VALUES (1)", database), run_token=token)
        (job,) = script.runs()
        left.append(open_transaction(client, Owner.of(job.token, "ann")))
    sql("INSERT INTO t VALUES (2)")
    txns = Snapshot.take(client, [TableRef(database, "t")]).txns
    assert [txn in txns.aborted for txn in left] == [True, False, False]
    for txn in left[1:]:
        client.abort_txn(txn)
