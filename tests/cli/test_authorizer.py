"""The authorizer decides on the reads and changes of commands and programs, and fails closed."""

import getpass
import json

import pytest

from hiveacid.errors import AccessRefused
from hiveacid.tables.scan.table_scan import TableScan
from tests.upkeep.acid_folders import AcidFolders

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)

ASKED = []
USER = f"os:{getpass.getuser()}"


def allow(*, user, table, columns, action):
    ASKED.append((user, table.partition(".")[2], columns, action))
    return True


def refuse_secret(*, table, **_):
    return not table.endswith(".secret")


def refuse_changes(*, action, **_):
    return action in ("read", "show")


@pytest.fixture
def use(monkeypatch):
    def use(name):
        ASKED.clear()
        monkeypatch.setenv("AIRFLOW__HIVE_ACID__AUTHORIZER", f"{__name__}.{name}")

    return use


@pytest.fixture
def tables(client, database):
    return [AcidFolders.create(client, f"{database}.{name}") for name in ("open", "secret")]


@pytest.mark.parametrize(
    ("command", "action"),
    [
        ("cat {} --directories", "read"),
        ("history {}", "read"),
        ("history {} --apply-again run", "read"),
        ("plan {}", "read"),
        ("cat {}", "read"),
        ("locks {}", "read"),
        ("clean {}", "clean"),
        ("compact {}", "compact"),
        ("consumers list {}", "read"),
        ("consumers forget {} c", "read"),
        ("mirrors list {}", "read"),
        ("mirrors forget {} lake.t", "read"),
    ],
)
def test_commands_on_a_table_ask_before_they_begin(
    hiveacid, tables, database, use, command, action
):
    use("refuse_secret")
    status, printed = hiveacid(*command.format(f"{database}.secret").split())
    assert (status, f"{USER} may not {action} {database}.secret" in printed) == (20, True), printed


@pytest.mark.parametrize(
    ("sql", "accesses"),
    [
        ("SELECT id FROM {}.open", [("open", None, "read")]),
        ("DESCRIBE {}.open", [("open", None, "read")]),
        ("SHOW COLUMNS IN {}.open", [("open", None, "read")]),
        ("DROP TABLE {}.open", [("open", None, "drop_table")]),
        (
            "ANALYZE TABLE {0}.open COMPUTE STATISTICS; DESCRIBE DETAIL {0}.open",
            [("open", None, "analyze"), ("open", None, "read")],
        ),
    ],
)
def test_sql_asks_for_all_statements_before_the_first(
    hiveacid, tables, database, use, sql, accesses
):
    use("allow")
    status, printed = hiveacid("sql", sql.format(database))
    assert status == 0, printed
    seen = [access[1:] for access in dict.fromkeys(ASKED) if access[0] == USER]
    assert seen == accesses
    use("refuse_secret")
    status, _ = hiveacid(
        "sql", f"CREATE TABLE {database}.new (id int); SELECT id FROM {database}.secret"
    )
    assert status == 20
    assert "new" not in tables[0].client.get_tables(database)


def test_a_list_of_tables_shows_permitted_ones(hiveacid, tables, database, use):
    use("refuse_secret")
    status, printed = hiveacid("tables", database, "--json")
    assert status == 0
    assert [row["table"] for row in json.loads(printed)["tables"]] == [f"{database}.open"]


@pytest.mark.parametrize("name", ["missing", "ASKED"])
def test_an_authorizer_that_cannot_be_asked_refuses_commands(hiveacid, tables, database, use, name):
    use(name)
    assert hiveacid("history", f"{database}.open")[0] == 20


def test_the_configuration_file_of_airflow_names_the_authorizer(
    hiveacid, tables, database, monkeypatch, tmp_path
):
    """Neither the command line nor a notebook loads Airflow."""
    monkeypatch.delenv("AIRFLOW__HIVE_ACID__AUTHORIZER", raising=False)
    monkeypatch.delenv("AIRFLOW_CONFIG", raising=False)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    (tmp_path / "airflow.cfg").write_text(
        f"[core]\nfernet_key = %1\n[hive_acid]\nauthorizer = {__name__}.refuse_secret\n"
    )
    assert hiveacid("history", f"{database}.open")[0] == 0
    assert hiveacid("history", f"{database}.secret")[0] == 20
    (tmp_path / "broken.cfg").write_text("authorizer")
    monkeypatch.setenv("AIRFLOW_CONFIG", str(tmp_path / "broken.cfg"))
    status, printed = hiveacid("history", f"{database}.open")
    assert (status, "broken.cfg cannot be read" in printed) == (20, True)


def test_a_scan_asks_for_its_task_or_its_user(hms, tables, database, use, monkeypatch):
    use("allow")
    TableScan(f"{database}.open", hms.uri)
    monkeypatch.setenv("AIRFLOW_CTX_DAG_ID", "d")
    TableScan(f"{database}.open", hms.uri)
    assert [access[0] for access in ASKED] == [USER, "dag:d"]
    use("refuse_secret")
    with pytest.raises(AccessRefused, match=r"dag:d may not read \w+\.secret"):
        TableScan(f"{database}.secret", hms.uri)


def test_a_run_is_applied_again_only_with_an_access_of_its_own(hiveacid, tables, database, use):
    use("refuse_changes")
    status, printed = hiveacid("history", f"{database}.open", "--apply-again", "run")
    assert (status, f"{USER} may not apply_again {database}.open" in printed) == (20, True), printed
