"""The options of the command line for a metastore."""

import argparse

import pytest

from hiveacid.cli import target
from hiveacid.cli.main import main
from hiveacid.errors import InvalidJob, UserError

URI = ["--metastore", "thrift://h:1"]


def options(*words: str):
    parser = argparse.ArgumentParser()
    target.add_metastore(parser)
    return target.metastore(parser.parse_args(words))


def test_arguments_ask_for_kerberos():
    given = {
        "auth_mechanism": "GSSAPI",
        "kerberos_service_name": "hms/_HOST@EX",
        "kerberos_principal": "etl@EX",
        "kerberos_keytab": "/k",
        "kerberos_ccache": "DIR:/t",
        "kerberos_min_protection": "privacy",
    }
    words = [
        word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", value)
    ]
    read = options(*URI, *words)
    assert given == {name: getattr(read, name) for name in given}


def test_the_environment_asks_for_kerberos_and_arguments_count_more(monkeypatch):
    monkeypatch.setenv("HIVEACID_AUTH_MECHANISM", "GSSAPI")
    monkeypatch.setenv("HIVEACID_KERBEROS_PRINCIPAL", "etl@EX")
    monkeypatch.setenv("HIVEACID_KERBEROS_KEYTAB", "")
    read = options(*URI, "--kerberos-principal", "ada@EX")
    assert (read.auth_mechanism, read.kerberos_principal) == ("GSSAPI", "ada@EX")
    assert (read.kerberos_keytab, read.kerberos_service_name) == (None, "hive")


def test_the_environment_or_an_argument_states_the_profile_of_the_metastore(monkeypatch):
    assert options(*URI).metastore_profile == "auto"
    monkeypatch.setenv("HIVEACID_METASTORE_PROFILE", "cdp-7.1.9")
    assert options(*URI).metastore_profile == "cdp-7.1.9"
    assert options(*URI, "--metastore-profile", "mr3-3.1").metastore_profile == "mr3-3.1"
    monkeypatch.setenv("HIVEACID_METASTORE_PROFILE", "cdp")
    with pytest.raises(InvalidJob, match="'cdp' is not one of"):
        options(*URI)


def test_a_keytab_without_kerberos_is_a_mistake():
    with pytest.raises(InvalidJob, match='auth_mechanism to "GSSAPI"'):
        options(*URI, "--kerberos-keytab", "/k")


def test_a_connection_describes_its_fields():
    with pytest.raises(UserError, match="need --metastore"):
        options("--conn-id", "c", "--auth-mechanism", "GSSAPI")


@pytest.mark.parametrize("command", ["cat", "changes", "history", "plan", "sql"])
@pytest.mark.parametrize("limit", ["-1", "few", "1.5"])
def test_a_limit_is_a_number_of_at_least_0(
    command: str, limit: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([command, "sales.orders", "--limit", limit])
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.endswith(f"argument --limit: '{limit}' is not a number of at least 0.")
