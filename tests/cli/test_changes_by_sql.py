"""`hiveacid sql --run-in`: changes of rows in this process, and what is left to Spark."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hiveacid.cli import local_spark
from hiveacid.jobs.report import RunReport, ScriptReport
from hiveacid.jobs.script_job import ScriptJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import TableRef
from tests.rows import rows_of

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)


@pytest.fixture
def sql(
    hiveacid: Callable[..., tuple[int, str]], database: str, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str]]:
    """Run statements in the test's database, where no Spark can start."""
    monkeypatch.setattr(local_spark, "a_spark", None)

    def run(text: str, *arguments: str) -> tuple[int, str]:
        return hiveacid("sql", text, "--database", database, *arguments)

    return run


@pytest.fixture
def rows(client: MetastoreClient, database: str) -> Callable[[], list[tuple[Any, ...]]]:
    return lambda: [tuple(r.values()) for r in rows_of(client.options.uris, f"{database}.t")]


@pytest.mark.parametrize("run_in", ["auto", "worker"])
def test_rows_are_changed_without_spark(sql, rows, database: str, run_in: str) -> None:
    change = """
        CREATE TABLE t (id int, v string); CREATE TABLE u (id int, v string);
        INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'); INSERT INTO u SELECT id + 1, v FROM t;
        UPDATE t SET v = :v WHERE id = 2;
        DELETE FROM t WHERE id = 3;
        MERGE INTO t USING u ON t.id = u.id
        WHEN MATCHED THEN UPDATE SET v = u.v WHEN NOT MATCHED THEN INSERT *
    """
    status, said = sql(change, "--param", "v=x", "--run-in", run_in)
    assert status == 0, said
    said = [line.partition(" row")[0] for line in said.splitlines()]
    assert said == [
        f"1. create_table {database}.t: done",
        f"2. create_table {database}.u: done",
        f"3. insert {database}.t: 3",
        f"4. insert {database}.u: 3",
        f"5. update {database}.t: 1",
        f"6. delete {database}.t: 1",
        f"7. merge {database}.t: 2",
    ]
    assert rows() == [(1, "a"), (2, "a"), (3, "b"), (4, "c")]


def test_the_rest_of_a_script_runs_on_spark(
    sql, rows, database: str, client, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    ran: list[ScriptJob] = []

    def on_spark(job: ScriptJob, *_: object) -> ScriptReport:
        ran.append(job)
        reports = [RunReport(job=each.tag, target=each.target) for each in job.runs()]
        return ScriptReport.of(job.target, reports)

    monkeypatch.setattr(local_spark, "run_on_spark", on_spark)
    from hiveacid.cli.main import main

    def said(text: str) -> tuple[str, list[str]]:
        arguments = ["--database", database, "--run-in", "auto", "--json"]
        assert main(["sql", text, *arguments, "--metastore", client.options.uris]) == 0
        printed = capsys.readouterr()
        statements = json.loads(printed.out)["statements"]
        return printed.err, [each["run"]["job"] for each in statements]

    first, update = "INSERT INTO t VALUES (1, 'a')", "UPDATE t SET v = soundex(v) WHERE id = 1"
    assert sql("CREATE TABLE t (id int, v string)")[0] == 0
    told, statements = said(f"{first}; {update}; {first}")
    assert "hiveacid: the rest on Spark: soundex" in told
    assert statements == ["insert", "update", "insert"]
    assert [each.tag for each in ran.pop().runs()] == ["update", "insert"]
    assert rows() == [(1, "a")]
    told, statements = said(update)
    assert "hiveacid: on Spark: soundex" in told
    assert (statements, len(ran)) == (["update"], 1)


def test_rows_are_checked_before_they_become_visible(sql, rows, tmp_path: Path) -> None:
    assert sql("CREATE TABLE t (id int, v string); CREATE TABLE u (id int, v string)")[0] == 0
    checks = tmp_path / "checks.json"
    checks.write_text('[{"kind": "unique", "columns": ["id"]}, {"kind": "row_count", "max": 2}]')
    status, said = sql("INSERT INTO t VALUES (1, 'a'), (1, 'b')", "--checks", str(checks))
    assert status == 30
    assert "CheckFailed: A check fails: unique(id) of" in said
    assert '{"id": 1, "copies": 2}' in said
    assert rows() == []
    both = "INSERT INTO t VALUES (1, 'a'), (2, 'b'); DELETE FROM t WHERE id = 2"
    status, said = sql(both, "--checks", str(checks), "--json")
    assert status == 0, said
    assert [len(each["run"]["checks"]) for each in json.loads(said)["statements"]] == [2, 2]
    assert rows() == [(1, "a")]
    checks.write_text('[{"kind": "not_null", "columns": ["id"], "table": "other.t"}]')
    status, said = sql(both, "--checks", str(checks))
    assert (status, "no statement writes the tables of not_null(id)" in said) == (20, True)
    checks.write_text("- kind: unique")
    assert "is not JSON" in sql(both, "--checks", str(checks))[1]
    assert rows() == [(1, "a")]


def test_what_the_worker_cannot_do_fails_if_it_is_limited_to_it(
    sql, rows, client, database
) -> None:
    assert sql("CREATE TABLE t (id int, v string)")[0] == 0
    for text, message in {
        "UPDATE t SET v = soundex(v) WHERE id = 1": f"The update of {database}.t requires Spark: soundex",
        "INSERT INTO t VALUES (1, 'a'); TRUNCATE TABLE t": "The statement truncate always runs on Spark",
        "EXPLAIN UPDATE t SET v = soundex(v) WHERE id = 1": "soundex",
    }.items():
        status, said = sql(text, "--run-in", "worker")
        assert (status, "run_in='auto'" in said) == (20, True)
        assert message in said
    assert rows() == []
    assert client.show_locks(TableRef(database, "t")) == []


def test_an_explanation_states_where_a_change_runs(sql, client, database: str) -> None:
    assert sql("CREATE TABLE t (id int, v string); CREATE TABLE u (id int)")[0] == 0

    def place(text: str, run_in: str = "auto", section: str = "statement") -> str | None:
        status, said = sql(f"EXPLAIN {text}", "--run-in", run_in, "--json")
        assert status == 0, said
        found: str | None = json.loads(said).get(section, {}).get("runs")
        return found

    before = client.get_open_txns_info()
    delete = "DELETE FROM t WHERE id = 1"
    assert place(delete) == place(delete, "worker") == "in the worker"
    assert place(delete, "spark") is None
    assert str(place("UPDATE t SET v = soundex(v) WHERE id = 1")).startswith("on Spark: soundex")
    several = "FROM t INSERT INTO u SELECT id WHERE id > 1 INSERT INTO t SELECT id, v"
    assert place(several, section="transaction") is not None
    assert place("TRUNCATE TABLE t") is None
    ref = TableRef(database, "t")
    assert (client.get_open_txns_info(), client.show_locks(ref)) == (before, [])
