"""`airflow hiveacid`: our commands inside of Airflow's own command line."""

import json
import sys

import pytest
from airflow.cli import cli_parser
from airflow.providers_manager import ProvidersManager

from hiveacid.cli.main import all_commands
from hiveacid.metastore.thrift.answers import TxnLiveness
from tests.upkeep.acid_folders import AcidFolders

pytestmark = [
    pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True),
    pytest.mark.skipif(
        not hasattr(ProvidersManager, "cli_command_functions"),
        reason="this Airflow takes no commands of providers",
    ),
]


@pytest.fixture
def airflow(hms, monkeypatch, capsys):
    """Run a command and return its output."""
    host, port = hms.uri.removeprefix("thrift://").split(":")
    connection = {"conn_type": "hive_acid_metastore", "host": host, "port": int(port)}
    for name in ("HIVE_ACID_DEFAULT", "OTHER"):
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(connection))

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["airflow", *arguments])
        parsed = cli_parser.get_parser().parse_args(arguments)
        capsys.readouterr()
        parsed.func(parsed)
        return capsys.readouterr().out

    return run


def test_every_command_has_its_place_and_its_help(airflow, capsys):
    for command in all_commands():
        with pytest.raises(SystemExit) as ended:
            airflow("hiveacid", command.name, "--help")
        assert ended.value.code == 0
        assert f"airflow hiveacid {command.name}" in capsys.readouterr().out


def test_the_metastore_is_that_of_the_usual_connection(airflow, client, database):
    folders = AcidFolders.create(client, f"{database}.t")
    folders.insert()
    (table,) = json.loads(airflow("hiveacid", "tables", database, "--json"))["tables"]
    assert (table["table"], table["deltas"]) == (folders.ref.full_name, 1)
    (other,) = json.loads(airflow("hiveacid", "tables", database, "--json", "--conn-id", "other"))[
        "tables"
    ]
    assert other["table"] == table["table"]


def test_an_error_is_an_exit_code(airflow, capsys):
    for arguments, code in (
        (("tables", "nowhere"), 20),
        (("locks", "--conn-id", "missing"), 20),
        (("locks", "--metastore", "thrift://127.0.0.1:1"), 40),
    ):
        with pytest.raises(SystemExit) as ended:
            airflow("hiveacid", *arguments)
        assert ended.value.code == code
        assert capsys.readouterr().err.startswith("hiveacid: ")


def test_aborts_of_others_are_audited(airflow, client, monkeypatch):
    from airflow.utils import cli_action_loggers

    noted = []
    monkeypatch.setattr(
        cli_action_loggers, "on_pre_execution", lambda **facts: noted.append(facts["full_command"])
    )
    txn_id = client.open_txn("ann", "here", None)
    airflow("hiveacid", "txns", "abort", str(txn_id), "--reason", "a ghost")
    assert client.heartbeat(txn_id) is TxnLiveness.ABORTED
    (command,) = noted
    assert "txns" in command
    assert "a ghost" in command
    airflow("hiveacid", "locks")
    assert len(noted) == 1


@pytest.mark.parametrize("spelling", [("--param", "x=hidden2"), ("--param=x=hidden2",)])
def test_the_audit_log_has_no_sql(airflow, monkeypatch, spelling):
    from airflow.utils import cli_action_loggers

    noted = []
    monkeypatch.setattr(
        cli_action_loggers, "on_pre_execution", lambda **facts: noted.append(facts["full_command"])
    )
    sql = "SHOW TABLES LIKE 'hidden1'"
    with pytest.raises(SystemExit):
        airflow("hiveacid", "sql", sql, *spelling)
    (command,) = noted
    assert "hidden" not in str(command)
    assert "hiveacid" in str(command)
    assert sys.argv[3] == sql
