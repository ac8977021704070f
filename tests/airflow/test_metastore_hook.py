import json
import os

import pytest

from airflow_hiveacid.hooks import HiveAcidMetastoreHook
from airflow_hiveacid.provider_info import get_provider_info
from hiveacid.errors import InvalidConnection, InvalidJob
from hiveacid.jobs.options import METASTORE_PROFILES
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.kept_tokens import kept_tokens, token_of
from hiveacid.metastore.thrift.answers import TxnState
from hiveacid.rules.locks import Operation
from hiveacid.rules.names import TableRef


@pytest.fixture
def connect(monkeypatch):
    def connect(**fields):
        connection = {"conn_type": "hive_acid_metastore"} | fields
        monkeypatch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", json.dumps(connection))
        return HiveAcidMetastoreHook()

    return connect


@pytest.mark.parametrize(
    ("fields", "uris"),
    [
        ({"host": "h"}, "thrift://h:9083"),
        ({"host": "h", "port": 7}, "thrift://h:7"),
        ({"host": "a, b:8", "port": 7}, "thrift://a:7,thrift://b:8"),
        ({"host": "h", "port": 7, "extra": {"transport": "http"}}, "http://h:7/metastore"),
        (
            {"host": "h", "port": 7, "extra": {"transport": "https", "http_path": "/cli"}},
            "https://h:7/cli",
        ),
        ({"host": "h", "conn_type": "hive_metastore"}, "thrift://h:9083"),
    ],
)
def test_a_connection_names_the_hosts(fields, uris, connect):
    options = connect(**fields).options()
    assert options.uris == uris
    options.validate()


def test_the_form_s_fields_become_options(connect):
    extra = {"connect_timeout_seconds": 3, "read_timeout_seconds": 4, "tls_ca_file": "/ca.pem"}
    options = connect(host="h", login="ada", extra=extra).options()
    assert (options.connect_timeout_seconds, options.read_timeout_seconds) == (3, 4)
    assert (options.user, options.tls_ca_file, options.token_env) == ("ada", "/ca.pem", None)


@pytest.mark.parametrize(
    ("extra", "write_events"),
    [({}, "auto"), ({"write_events": None}, "auto"), ({"write_events": "always"}, "always")],
)
def test_the_form_chooses_write_events(extra, write_events, connect):
    options = connect(host="h", extra=extra).options()
    options.validate()
    assert options.write_events == write_events


def test_airflow_s_settings_choose_write_events_for_connections_that_do_not(connect, monkeypatch):
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__WRITE_EVENTS", "never")
    assert connect(host="h").options().write_events == "never"
    assert connect(host="h", extra={"write_events": "auto"}).options().write_events == "auto"


def test_an_unknown_choice_of_write_events_is_refused(connect):
    with pytest.raises(InvalidConnection, match="write_events 'sometimes'"):
        connect(host="h", extra={"write_events": "sometimes"}).options()


@pytest.mark.parametrize(
    ("given", "on"),
    [(True, True), ("true", True), ("on", True), (False, False), ("off", False), (None, False)],
)
def test_the_form_switches_tls_on(given, on, connect):
    assert connect(host="h", extra={"tls": given}).options().tls is on


@pytest.mark.parametrize(
    ("extra", "configured", "mapping"),
    [
        ({}, None, None),
        ({}, "name", "name"),
        ({"column_mapping": "position"}, "name", "position"),
        ({"column_mapping": None}, "position", "position"),
    ],
)
def test_a_connection_or_the_settings_choose_the_column_mapping(
    extra, configured, mapping, connect, monkeypatch
):
    if configured:
        monkeypatch.setenv("AIRFLOW__HIVE_ACID__COLUMN_MAPPING", configured)
    assert connect(host="h", extra=extra).options().column_mapping == mapping


def test_an_unknown_column_mapping_is_refused(connect):
    hook = connect(host="h", extra={"column_mapping": "names"})
    with pytest.raises(InvalidConnection, match="'names'"):
        hook.options()


def test_a_connection_states_the_profile_of_the_metastore(connect):
    assert connect(host="h").options().metastore_profile == "auto"
    extra = {"metastore_profile": "cdp-7.1.9"}
    assert connect(host="h", extra=extra).options().metastore_profile == "cdp-7.1.9"
    hook = connect(host="h", extra={"metastore_profile": "cdp-6"})
    with pytest.raises(InvalidConnection, match="'cdp-6'"):
        hook.options()


def test_the_form_has_all_profiles():
    (hook,) = get_provider_info()["connection-types"]
    field = hook["conn-fields"]["metastore_profile"]
    assert field["schema"]["enum"] == [*METASTORE_PROFILES, None]


KEYTAB = {"kerberos_principal": "etl@EX", "kerberos_keytab": "/k", "kerberos_ccache": "MEMORY:a"}


def test_the_form_asks_for_kerberos(connect):
    extra = {"auth_mechanism": "GSSAPI", **KEYTAB}
    options = connect(host="h", login="hive", extra=extra).options()
    options.validate()
    assert (options.auth_mechanism, options.kerberos_service_name) == ("GSSAPI", "hive")
    assert options.user is None
    assert {name: getattr(options, name) for name in KEYTAB} == KEYTAB


@pytest.mark.parametrize(
    ("extra", "mechanism"),
    [
        ({}, "GSSAPI"),
        ({"auth_mechanism": None, "kerberos_service_name": "hms"}, "GSSAPI"),
        ({"auth_mechanism": "NOSASL"}, "NONE"),
        ({"authMechanism": "NONE", "kerberos_principal": "left/behind@EX"}, "NONE"),
        ({"transport": "https"}, "NONE"),
    ],
)
def test_airflow_s_own_setting_asks_for_kerberos(extra, mechanism, connect, monkeypatch):
    monkeypatch.setenv("AIRFLOW__CORE__SECURITY", "kerberos")
    options = connect(host="h", extra=extra).options()
    options.validate()
    assert options.auth_mechanism == mechanism


def test_a_timeout_that_is_no_number_is_named(connect):
    with pytest.raises(InvalidConnection, match="read_timeout_seconds"):
        connect(host="h", extra={"read_timeout_seconds": "soon"}).options()


def test_a_form_left_empty_means_the_defaults(connect):
    extra = {"transport": None, "http_path": "", "connect_timeout_seconds": None}
    assert connect(host="h", login="", extra=extra).options() == connect(host="h").options()


def test_the_token_is_named_and_not_shown(connect):
    options = connect(host="h", password="s3cret", extra={"transport": "https"}).options()
    assert token_of(options.token_env) == "s3cret"
    # A triggerer and an API server start processes that must not inherit it.
    assert options.token_env not in os.environ
    assert kept_tokens()[options.token_env] == "s3cret"
    assert "s3cret" not in repr(options)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "names no host"),
        ({"host": "h", "conn_type": "hiveserver2"}, "has type 'hiveserver2'"),
        ({"host": "h", "extra": {"auth_mechanism": "PLAIN"}}, "auth_mechanism 'PLAIN'"),
        ({"host": "h", "extra": {"tls": "maybe"}}, "tls is 'maybe'"),
        ({"host": "h", "extra": {"transport": "http", "http_path": 5}}, "http_path is no text: 5"),
        ({"host": "h", "extra": {"transport": ["http"]}}, r"transport is no text: \['http'\]"),
        ({"host": "h", "extra": {"write_events": {"a": 1}}}, "write_events is no text"),
        # Airflow 3.1 does not find a connection that it cannot read.
        ({"host": "h", "extra": [1]}, "extra is no JSON object|There is no metastore connection"),
    ],
)
def test_a_connection_that_cannot_work_is_refused(fields, message, connect):
    with pytest.raises(InvalidConnection, match=message):
        connect(**fields).options()


def test_a_hook_is_built_without_its_connection():
    hook = HiveAcidMetastoreHook("unknown")
    with pytest.raises(InvalidConnection, match="no metastore connection 'unknown'"):
        hook.options()


def test_an_unreachable_metastore_fails_the_test_of_the_connection(connect):
    fine, message = connect(host="127.0.0.1", port=1).test_connection()
    assert not fine
    assert "127.0.0.1:1" in message


@pytest.fixture
def hook(connect, hms4):
    host, port = hms4.uri.removeprefix("thrift://").split(":")
    return connect(host=host, port=int(port))


@pytest.fixture
def table(hook):
    with hook.get_conn() as client:
        ref = TableRef("hook_test", "t")
        client.create_database(ref.database)
        client.create_table(
            HiveTable.new(
                ref, [HiveColumn("id", "int")], partition_keys=[HiveColumn("p", "string")]
            )
        )
        yield ref.full_name
        client.drop_database(ref.database, cascade=True)


def test_a_valid_connection_reports_the_metastore_s_version(hook):
    fine, message = hook.test_connection()
    assert fine
    assert message.startswith("HMS4")


def test_tables_are_looked_up_by_name(hook, table):
    assert hook.get_table(table).partition_keys[0].name == "p"
    assert hook.get_partition_names(table) == []


def test_a_transaction_holds_its_locks_for_the_body(hook, table):
    with hook.transaction(Operation.UPDATE, table, run_token="d/r/t/-1") as txn:
        assert [lock.txn_id for lock in hook.locks(table)] == [txn.txn_id]
        assert txn.txn_id in [info.txn_id for info in hook.transactions()]
        txn.commit()
    assert hook.locks(table) == []


def test_a_body_that_does_not_commit_is_aborted(hook, table):
    with hook.transaction(Operation.INSERT, table) as txn:
        pass
    states = {info.txn_id: info.state for info in hook.transactions()}
    assert states.get(txn.txn_id, TxnState.ABORTED) is TxnState.ABORTED


def test_an_invalid_entry_of_allowed_locations_is_named_before_the_connection(monkeypatch):
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__ALLOWED_LOCATIONS", "file, s3a//lake")
    with pytest.raises(InvalidJob, match="Entry 2 of allowed_locations, 's3a//lake'"):
        HiveAcidMetastoreHook("missing").options()
