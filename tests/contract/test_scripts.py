"""Scripts of definitions that are tried again: a completed statement is never done once more."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from airflow_hiveacid.acid.names import SCRIPT_NOTES, TableRef
from airflow_hiveacid.acid.table_identity import TableIdentity
from airflow_hiveacid.ddl.run import run_ddl, run_script_of_ddl
from airflow_hiveacid.errors import (
    ScriptChanged,
    ScriptOvertaken,
    StorageError,
    TableNotFound,
    UnprovenRun,
)
from airflow_hiveacid.jobs.definitions.catalog_jobs import DropTableJob
from airflow_hiveacid.jobs.maintenance_jobs import CleanJob
from airflow_hiveacid.jobs.reports.script_report import ScriptReport
from airflow_hiveacid.maintenance.table_cleaning import clean
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.sql.script import to_jobs, to_script
from tests.fakes.metastore import REAL_AND_FAKE

FAKE = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
SWAP = """
    CREATE TABLE t_new (b int);
    ALTER TABLE t RENAME TO t_old;
    ALTER TABLE t_new RENAME TO t;
    DROP TABLE t_old
"""


class Killed(BaseException):
    """The process ends, and nothing is cleaned up that a kill would leave."""


class Scripts:
    """Runs scripts in a database, each as an attempt of the same task.

    Attributes:
        folder: The folder of the database.
    """

    def __init__(self, client: MetastoreClient, database: str) -> None:
        self.client = client
        self.database = database
        found = client.get_database(database)
        self.folder = Path(urlsplit(found.managed_location or found.location or "").path)

    def make(self, sql: str) -> None:
        """Run statements that belong to no task."""
        for job in to_jobs(sql, self.database):
            run_ddl(self.client, job)

    def run(self, sql: str, token: str = "d/r/t/-1") -> ScriptReport:
        """Run a script as each attempt of a task does."""
        script = to_script(sql, self.database)
        script = replace(
            script, metastore=self.client.options, run_token=token, lock_wait_seconds=20
        )
        return run_script_of_ddl(self.client, script)

    def kill(self, sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """End a try when its first statement is begun, before it has done anything."""

        def die(*_: Any) -> None:
            raise Killed

        with monkeypatch.context() as patch, suppress(Killed):
            patch.setattr("airflow_hiveacid.ddl.run.run_ddl", die)
            self.run(sql)

    def columns(self) -> dict[str, str]:
        """The first column of each table."""
        names = sorted(self.client.get_tables(self.database))
        tables = {name: self.client.get_table(TableRef(self.database, name)) for name in names}
        return {name: table.columns[0].name for name, table in tables.items()}

    def identity(self, name: str) -> TableIdentity:
        """The identity of a table."""
        return self.client.get_table(TableRef(self.database, name)).identity

    def note(self) -> Path:
        (path,) = (self.folder / SCRIPT_NOTES).glob("*.json")
        return path

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


@pytest.fixture
def scripts(client: MetastoreClient, database: str) -> Scripts:
    return Scripts(client, database)


@REAL_AND_FAKE
def test_a_swap_of_tables_that_is_tried_again_after_its_end_changes_nothing(
    scripts: Scripts,
) -> None:
    scripts.make("CREATE TABLE t (a int)")
    first = scripts.run(SWAP)
    assert scripts.columns() == {"t": "b"}
    before = scripts.identity("t")
    second = scripts.run(SWAP)
    assert (scripts.columns(), scripts.identity("t")) == ({"t": "b"}, before)
    assert (first.already_done, second.already_done) == (False, True)
    assert len(second.statements) == 4
    # Another run is another one.
    scripts.run(SWAP, token="d/r2/t/-1")
    assert scripts.columns() == {"t": "b"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@FAKE
def test_a_swap_that_is_killed_at_any_call_is_completed_once_by_the_next_try(
    scripts: Scripts, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    scripts.make("CREATE TABLE base (a int)")
    for nth in range(1, 200):
        token = f"d/{nth}/t/-1"
        scripts.make("CREATE TABLE t LIKE base")
        scripts.make("ALTER TABLE t ADD COLUMNS (again int)")
        with scripts.killed_at(nth, monkeypatch, after=after) as calls:
            scripts.run(SWAP, token)
        scripts.run(SWAP, token)
        assert scripts.columns() == {"base": "a", "t": "b"}, f"{nth}: {calls[nth - 1 : nth]}"
        kept = scripts.identity("t")
        scripts.run(SWAP, token)
        assert (scripts.columns(), scripts.identity("t")) == ({"base": "a", "t": "b"}, kept)
        scripts.make("DROP TABLE t")
        if len(calls) < nth:
            return
    raise AssertionError("There is no end of calls.")


@REAL_AND_FAKE
def test_a_rename_that_is_killed_before_its_note_is_known_by_the_table_itself(
    scripts: Scripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts.make("CREATE TABLE t (a int)")
    before, call = scripts.identity("t"), scripts.client.call

    def call_and_die(declared: Any, *arguments: Any, **about: Any) -> Any:
        done = call(declared, *arguments, **about)
        if declared.name == "alter_table_with_environment_context":
            raise Killed
        return done

    script = "ALTER TABLE t RENAME TO u; CREATE TABLE t (b int)"
    with monkeypatch.context() as patch, suppress(Killed):
        patch.setattr(scripts.client, "call", call_and_die)
        scripts.run(script)
    assert scripts.columns() == {"u": "a"}
    report = scripts.run(script)
    assert "was given its name by an earlier attempt" in report.warnings[0]
    assert scripts.columns() == {"t": "b", "u": "a"}
    assert scripts.identity("u") == before


@REAL_AND_FAKE
def test_a_table_that_was_created_since_is_not_dropped_by_another_try(
    scripts: Scripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process ends when the table is dropped and the note does not record it yet."""
    scripts.make("CREATE TABLE t (a int)")
    created = scripts.identity("t").created
    drop = scripts.client.drop_table

    def drop_and_die(ref: TableRef) -> None:
        drop(ref)
        raise Killed

    with monkeypatch.context() as patch, suppress(Killed):
        patch.setattr(scripts.client, "drop_table", drop_and_die)
        scripts.run("DROP TABLE t; CREATE TABLE u (a int)")
    assert scripts.columns() == {}
    later(scripts, "CREATE TABLE t (b int)", created)
    report = scripts.run("DROP TABLE t; CREATE TABLE u (a int)")
    assert "is another one, and stays" in report.warnings[0]
    assert scripts.columns() == {"t": "b", "u": "a"}


def later(scripts: Scripts, sql: str, than: int) -> None:
    """Create a table in a later second: the metastore of version 3 knows tables by that alone."""
    table = TableRef.parse(to_jobs(sql, scripts.database)[0].target)
    while True:
        scripts.make(sql)
        if scripts.client.get_table(table).identity.created > than:
            return
        scripts.client.drop_table(table)


@FAKE
def test_completed_statements_that_are_changed_or_removed_are_an_error_before_any_runs(
    scripts: Scripts,
) -> None:
    scripts.make("CREATE TABLE a (x int); CREATE TABLE c (y int)")
    one, two = "ALTER TABLE a RENAME TO b", "ALTER TABLE c RENAME TO d"
    with pytest.raises(TableNotFound, match=r"^Statement 2 of 3"):
        scripts.run(f"{one}; DROP TABLE missing; {two}")
    for changed in (two, f"DROP TABLE c; {two}", f"{two}; {one}"):
        with pytest.raises(ScriptChanged, match=r"Statement 1 .* rename_table of .*\.a,"):
            scripts.run(changed)
    assert scripts.columns() == {"b": "x", "c": "y"}
    # An incomplete statement may be another one now, and more statements may follow.
    report = scripts.run(f"{one}; {two}")
    assert [part.report.already_done for part in report.statements] == [True, False]
    report = scripts.run(f"{one}; {two}; ALTER TABLE d RENAME TO e")
    assert [part.report.already_done for part in report.statements] == [True, True, False]
    assert scripts.columns() == {"b": "x", "e": "y"}
    with pytest.raises(ScriptChanged, match="Statement 3"):
        scripts.run(f"{one}; {two}")


@FAKE
def test_equal_statements_are_each_run_once(scripts: Scripts) -> None:
    again = "CREATE TABLE t (a int); DROP TABLE t"
    scripts.run(f"{again}; {again}; {again}; CREATE TABLE t (a int)")
    before = scripts.identity("t")
    scripts.run(f"{again}; {again}; {again}; CREATE TABLE t (a int)")
    assert scripts.identity("t") == before


@FAKE
def test_a_try_that_another_one_has_overtaken_runs_no_further_statement(
    scripts: Scripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts.make("CREATE TABLE t (a int)")
    really = run_ddl

    def other_try_first(client: MetastoreClient, job: Any) -> Any:
        report = really(client, job)
        monkeypatch.setattr("airflow_hiveacid.ddl.run.run_ddl", really)
        scripts.run(SWAP)
        return report

    monkeypatch.setattr("airflow_hiveacid.ddl.run.run_ddl", other_try_first)
    with pytest.raises(ScriptOvertaken, match="Another attempt"):
        scripts.run(SWAP)
    assert scripts.columns() == {"t": "b"}


@FAKE
def test_a_try_that_fails_at_what_another_one_has_done_is_overtaken(
    scripts: Scripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "CREATE TABLE u (a int); DROP TABLE t"
    scripts.make("CREATE TABLE t (a int)")
    really = run_ddl

    def other_try_first(client: MetastoreClient, job: Any) -> Any:
        if isinstance(job, DropTableJob):
            monkeypatch.setattr("airflow_hiveacid.ddl.run.run_ddl", really)
            scripts.run(script)
        return really(client, job)

    monkeypatch.setattr("airflow_hiveacid.ddl.run.run_ddl", other_try_first)
    with pytest.raises(ScriptOvertaken, match="Another attempt"):
        scripts.run(script)
    assert scripts.columns() == {"u": "a"}


@pytest.mark.parametrize("what", ["alter_table_with_environment_context", "drop_table"])
@FAKE
def test_a_try_that_is_asleep_before_its_call_changes_nothing_when_it_wakes_up(
    scripts: Scripts, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """It holds its lock; the next try takes that away, and completes the script."""
    scripts.make("CREATE TABLE t (a int)")
    module, last_read = ("ddl.drops", "require_same_table")
    if what.startswith("alter"):
        module, last_read = ("metastore.alteration", "same_creation")
    target = f"airflow_hiveacid.{module}.{last_read}"
    really: Callable[..., Any] = getattr(import_module(f"airflow_hiveacid.{module}"), last_read)

    def asleep(*arguments: Any) -> Any:
        same = really(*arguments)
        monkeypatch.setattr(target, really)
        scripts.run(SWAP)
        return same

    monkeypatch.setattr(target, asleep)
    with pytest.raises(ScriptOvertaken, match="Another attempt") as raised:
        scripts.run(SWAP)
    assert "was aborted" in str(raised.value.__cause__)
    assert scripts.columns() == {"t": "b"}


@FAKE
def test_a_begun_statement_may_be_replaced_unless_it_may_have_been_completed(
    scripts: Scripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts.make("CREATE TABLE a (x int)")
    scripts.kill("DROP TABLE a", monkeypatch)
    scripts.run("ALTER TABLE a RENAME TO b")
    assert scripts.columns() == {"b": "x"}
    drop = scripts.client.drop_table

    def drop_and_die(ref: TableRef) -> None:
        drop(ref)
        raise Killed

    with monkeypatch.context() as patch, suppress(Killed):
        patch.setattr(scripts.client, "drop_table", drop_and_die)
        scripts.run("DROP TABLE b", "d/r2/t/-1")
    with pytest.raises(ScriptChanged, match=r"Statement 1 .*another statement.*\.b"):
        scripts.run("DROP TABLE IF EXISTS c", "d/r2/t/-1")


@FAKE
def test_a_rename_whose_table_is_gone_is_an_error_that_names_it(
    scripts: Scripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts.make("CREATE TABLE a (x int)")
    scripts.kill("ALTER TABLE a RENAME TO b", monkeypatch)
    scripts.make("DROP TABLE a")
    with pytest.raises(UnprovenRun, match=r"Statement 1 of 1: .*\.a was about to be renamed"):
        scripts.run("ALTER TABLE a RENAME TO b")


@FAKE
def test_a_table_that_was_known_without_its_number_is_the_same_table(
    scripts: Scripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The metastore is one of version 4 since the first try."""
    scripts.make("CREATE TABLE a (x int)")
    scripts.kill("DROP TABLE a", monkeypatch)
    identity, note = scripts.identity("a"), scripts.note()
    known = replace(identity, id=None)
    assert f'"{identity.text}"' in note.read_text()
    note.write_text(note.read_text().replace(identity.text, known.text))
    scripts.run("DROP TABLE a")
    assert scripts.columns() == {}


@FAKE
def test_a_database_is_not_dropped_with_tables_that_were_created_since(
    scripts: Scripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = f"{scripts.database}_2"
    scripts.make(f"CREATE DATABASE {other}; CREATE TABLE {other}.t (a int); CREATE TABLE k (a int)")
    script = f"DROP TABLE k; DROP DATABASE {other} CASCADE"
    drop = scripts.client.drop_table

    def drop_and_die(ref: TableRef) -> None:
        drop(ref)
        if ref.database == other:
            raise Killed

    with monkeypatch.context() as patch, suppress(Killed):
        patch.setattr(scripts.client, "drop_table", drop_and_die)
        scripts.run(script)
    scripts.make(f"CREATE TABLE {other}.u (a int)")
    with pytest.raises(UnprovenRun, match=rf"{other}\.u was created since"):
        scripts.run(script)
    scripts.make(f"DROP TABLE {other}.u")
    scripts.run(script)
    assert other not in scripts.client.get_databases()
    scripts.make(f"CREATE DATABASE {other}")
    scripts.run(script)
    assert other in scripts.client.get_databases()
    scripts.make(f"DROP DATABASE {other}")


@FAKE
def test_a_folder_that_cannot_be_written_is_an_error_before_any_statement(
    scripts: Scripts,
) -> None:
    (scripts.folder / SCRIPT_NOTES).write_text("no folder")
    scripts.make("CREATE TABLE t (a int)")
    with pytest.raises(StorageError, match=r"progress of the script .*Give the user"):
        scripts.run("CREATE TABLE u (a int); DROP TABLE t")
    assert scripts.columns() == {"t": "a"}
    # A statement that finds the result of an earlier attempt by itself stores no progress.
    for _ in range(2):
        scripts.run("CREATE TABLE u (a int); ALTER TABLE t ADD COLUMNS (b int)")
    (scripts.folder / SCRIPT_NOTES).unlink()


_OWN = "d/r/t/-1#3f7a1c09b2d4"
_BEGUN = f'{{"token": "{_OWN}", "transaction": "{_OWN}", "taken": {{"d.t": "no identity"}}}}'


@pytest.mark.parametrize(
    "torn",
    [
        "",
        "{",
        '{"run_token": 7}',
        '{"run_token": "other"}',
        f'{{"run_token": "d/r/t/-1", "begun": {_BEGUN}}}',
    ],
)
@FAKE
def test_progress_that_cannot_be_read_is_an_error_before_any_statement(
    scripts: Scripts, torn: str
) -> None:
    scripts.make("CREATE TABLE t (a int)")
    with pytest.raises(TableNotFound):
        scripts.run("DROP TABLE missing")
    scripts.note().write_text(torn)
    with pytest.raises(StorageError, match="progress of"):
        scripts.run("DROP TABLE t")
    assert scripts.columns() == {"t": "a"}


@FAKE
def test_a_cleaning_removes_old_progress_and_no_other(scripts: Scripts) -> None:
    scripts.make("CREATE TABLE t (a int); CREATE TABLE u (a int)")
    scripts.run("DROP TABLE u")
    job = CleanJob(target=f"{scripts.database}.t", metastore=scripts.client.options)
    assert clean(scripts.client, job).removed == ()
    os.utime(note := scripts.note(), (0, 0))
    # By the clock of the storage, which the newest file shows, nothing is old yet.
    assert clean(scripts.client, job).removed == ()
    note.with_name("newer.json").touch()
    (shown,) = clean(scripts.client, replace(job, dry_run=True)).removed
    assert urlsplit(shown.path).path == str(note)
    assert note.exists()
    (removed,) = clean(scripts.client, job).removed
    assert removed == shown
    assert not note.exists()
