"""`hiveacid sql`, as far as it needs no Spark; what statements do is tested elsewhere."""

import json

import pytest

from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.acid.schema import TableKind
from tests.maintenance.acid_folders import AcidFolders

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)


def test_tables_are_created(hiveacid, client, database) -> None:
    sql = "CREATE TABLE t (id int); CREATE TABLE IF NOT EXISTS t (id int)"
    status, said = hiveacid("sql", sql, "--database", database)
    assert (status, said.splitlines()) == (
        0,
        [f"1. create_table {database}.t: done", f"2. create_table {database}.t: done"],
    )
    assert client.get_table(TableRef(database, "t")).kind is TableKind.FULL_ACID


def test_statements_come_from_a_file(hiveacid, client, database, tmp_path) -> None:
    file = tmp_path / "tables.sql"
    file.write_text(f"-- all of them\nCREATE TABLE {database}.t (id int)")
    status, said = hiveacid("sql", "--file", str(file), "--json")
    assert status == 0
    (statement,) = json.loads(said)["statements"]
    assert statement["run"]["target"] == f"{database}.t"


def test_questions_are_answered_without_spark(hiveacid, client, database) -> None:
    folders = AcidFolders.create(client, f"{database}.t")
    for _ in range(3):
        folders.insert()
    shown = hiveacid("sql", f"SHOW HISTORY {database}.t LIMIT 2;")
    assert shown == hiveacid("history", f"{database}.t", "--limit", "2")
    assert shown[1].startswith(f"{database}.t: 2 entries")
    status, told = hiveacid("sql", "describe detail t", "--database", database, "--json")
    assert (status, json.loads(told)["newest_version"]) == (0, 3)
    status, told = hiveacid("sql", f"DESC DETAIL {database}.t")
    assert ["newest", "version", "3"] in [line.split() for line in told.splitlines()]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["SHOW TABLES"], "Line 1, column 6: Expected HISTORY before 'TABLES'"),
        (["SHOW HISTORY t LIMIT 1.5"], "1.5 is no number of lines"),
        (["DESCRIBE DETAIL t x"], "Expected the end before 'X'"),
        (["DROP TABLE t"], "Line 1, column 1: DROP is not supported"),
        ([], "Give the statements as an argument, or a file with --file"),
        (["DELETE FROM t", "--file", "x.sql"], "Give the statements as an argument, or"),
        (["--file", "/nowhere/x.sql"], "/nowhere/x.sql cannot be read"),
    ],
)
def test_what_cannot_be_run_is_told(hiveacid, arguments, message) -> None:
    status, said = hiveacid("sql", *arguments)
    assert status == 20
    assert message in said
