"""Scripts of definitions that are tried again: each attempt runs the whole script."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest

from hiveacid.errors import InvalidJob, TableNotFound
from hiveacid.jobs.report import ScriptReport
from hiveacid.metastore.client import MetastoreClient
from hiveacid.parser.script import to_jobs, to_script
from hiveacid.rules.names import TableRef
from hiveacid.tables.definitions.run import run_ddl, run_script_of_ddl
from tests.fakes.metastore import REAL_AND_FAKE

FAKE = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
SCRIPT = """
    CREATE DATABASE IF NOT EXISTS {0}_2;
    CREATE TABLE IF NOT EXISTS {0}_2.kept (a int) PARTITIONED BY (day string);
    ALTER TABLE {0}_2.kept ADD IF NOT EXISTS PARTITION (day = '1') PARTITION (day = '2');
    CREATE TABLE IF NOT EXISTS own LIKE {0}_2.kept;
    ALTER TABLE {0}_2.kept UNSET TBLPROPERTIES IF EXISTS ('a');
    ALTER TABLE {0}_2.kept DROP IF EXISTS PARTITION (day = '1');
    DROP TABLE IF EXISTS own;
    DROP TABLE IF EXISTS old;
"""


class Killed(BaseException):
    """The process ends, and nothing is cleaned up that a kill would leave."""


class Scripts:
    """Runs scripts in a database, each as an attempt of the same task."""

    def __init__(self, client: MetastoreClient, database: str) -> None:
        self.client = client
        self.database = database

    def make(self, sql: str) -> None:
        """Run statements that belong to no task."""
        for job in to_jobs(sql, self.database):
            run_ddl(self.client, job)

    def run(self, sql: str, token: str | None = "d/r/t/-1") -> ScriptReport:
        """Run a script as each attempt of a task does."""
        script = to_script(sql.format(self.database), self.database)
        script = replace(
            script, metastore=self.client.options, run_token=token, lock_wait_seconds=20
        )
        return run_script_of_ddl(self.client, script)

    @contextmanager
    def killed_at(self, nth: int, patch: pytest.MonkeyPatch, *, after: bool) -> Iterator[list[str]]:
        """End the process at a call of the metastore, before or after it is carried out."""
        really, calls = self.client.call, []

        def call(declared: Any, *arguments: Any, **about: Any) -> Any:
            calls.append(declared.name)
            if len(calls) > nth or (len(calls) == nth and not after):
                raise Killed
            done = really(declared, *arguments, **about)
            if len(calls) == nth:
                raise Killed
            return done

        with patch.context() as within:
            within.setattr(self.client, "call", call)
            with suppress(Killed):
                yield calls

    def require_result(self) -> None:
        """Check what the script leaves."""
        kept = TableRef(f"{self.database}_2", "kept")
        assert self.client.get_tables(self.database) == []
        assert self.client.get_tables(kept.database) == ["kept"]
        assert self.client.get_partition_names(kept) == ["day=2"]


@pytest.fixture
def scripts(client: MetastoreClient, database: str) -> Iterator[Scripts]:
    yield Scripts(client, database)
    client.drop_database(f"{database}_2", cascade=True)


@REAL_AND_FAKE
def test_a_script_that_is_tried_again_after_its_end_changes_nothing(scripts: Scripts) -> None:
    scripts.make("CREATE TABLE old (a int)")
    for token in ("d/r/t/-1", "d/r/t/-1", "d/r2/t/-1", None):
        scripts.run(SCRIPT, token)
        scripts.require_result()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@FAKE
def test_a_script_that_is_killed_at_any_call_is_completed_by_the_next_try(
    scripts: Scripts, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    for nth in range(1, 300):
        token = f"d/{nth}/t/-1"
        scripts.make("CREATE TABLE old (a int)")
        with scripts.killed_at(nth, monkeypatch, after=after) as calls:
            scripts.run(SCRIPT, token)
        scripts.run(SCRIPT, token)
        scripts.require_result()
        scripts.make(f"DROP DATABASE {scripts.database}_2 CASCADE")
        if len(calls) < nth:
            scripts.run(SCRIPT, token)
            return
    raise AssertionError("There is no end of calls.")


@FAKE
def test_a_script_that_cannot_run_again_is_refused_before_any_statement(scripts: Scripts) -> None:
    scripts.run("CREATE DATABASE IF NOT EXISTS {0}_2; DROP TABLE IF EXISTS t")
    with pytest.raises(
        InvalidJob, match=r"Statement 2 of 2, drop_table of .*\.t, cannot run again"
    ):
        scripts.run("CREATE TABLE IF NOT EXISTS u (a int); DROP TABLE t")
    with pytest.raises(InvalidJob, match="would destroy the result of statement 2"):
        scripts.run("DROP TABLE IF EXISTS t; CREATE TABLE IF NOT EXISTS t (a int)")
    assert scripts.client.get_tables(scripts.database) == []
    # Without a run token nothing is tried again.
    scripts.run("CREATE TABLE t (a int); ALTER TABLE t RENAME TO u", None)
    assert scripts.client.get_tables(scripts.database) == ["u"]


@FAKE
def test_a_single_definition_reports_what_a_retry_finds(scripts: Scripts) -> None:
    scripts.make(f"CREATE DATABASE {scripts.database}_2")
    for warning in ((), (f"{scripts.database}.t was created by an earlier attempt.",)):
        assert scripts.run("CREATE TABLE t (a int)").warnings == warning
    scripts.run("DROP TABLE t")
    with pytest.raises(TableNotFound, match=r"^Statement 1 of 1: .*DROP TABLE IF EXISTS"):
        scripts.run("DROP TABLE t")


@FAKE
def test_a_statement_that_fails_is_named_by_its_number(scripts: Scripts) -> None:
    scripts.make(f"CREATE DATABASE {scripts.database}_2")
    with pytest.raises(TableNotFound, match=r"^Statement 2 of 3: "):
        scripts.run(
            "CREATE TABLE IF NOT EXISTS t (a int); CREATE TABLE IF NOT EXISTS u LIKE gone;"
            "DROP TABLE IF EXISTS w"
        )
    assert scripts.client.get_tables(scripts.database) == ["t"]
