"""The client against metastores that ask for Kerberos, of both versions and all protections."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from hiveacid.errors import (
    AuthenticationFailed,
    MetastoreError,
    NoTicket,
)
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.thrift.answers import TxnState
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.locks import Operation, Target
from hiveacid.rules.names import TableRef
from tests.metastore.test_client_connection import TlsMetastore
from tests.secure.kdc import Kdc
from tests.versions import VERSIONS

pytestmark = pytest.mark.secure

TABLE = TableRef("kerberos", "orders")
TICKET_SECONDS = 15


@pytest.fixture
def table(alice: MetastoreClient) -> HiveTable:
    if TABLE.database not in alice.get_databases():
        alice.create_database(TABLE.database)
        alice.create_table(HiveTable.new(TABLE, [HiveColumn("id", "int")]))
    return alice.get_table(TABLE)


def test_a_keytab_logs_in(alice: MetastoreClient, secured: EmbeddedMetastore) -> None:
    assert "default" in alice.get_databases()
    assert alice.version.value == int(secured.version[0])
    assert alice.user == "alice"


def test_the_metastore_sees_who_has_logged_in(alice: MetastoreClient, table: HiveTable) -> None:
    assert table.owner == "alice"
    with Transaction(alice, targets=[Target(TABLE, Operation.UPDATE, False, None)]) as txn:
        (lock,) = alice.show_locks(TABLE)
        infos = {info.txn_id: info for info in alice.get_open_txns_info()}
        assert (lock.user, infos[txn.txn_id].user) == ("alice", "alice")
        assert infos[txn.txn_id].state is TxnState.OPEN


def test_long_calls_and_answers_go_through(alice: MetastoreClient) -> None:
    name = "long_one"
    alice.create_database(name, parameters={f"p{number}": "ü" * 1500 for number in range(300)})
    try:
        assert len(alice.get_database(name).parameters) == 300
    finally:
        alice.drop_database(name)


def test_threads_log_in_side_by_side(alices: MetastoreOptions) -> None:
    with ThreadPoolExecutor(8) as threads, MetastoreClient(alices) as client:
        together = threading.Barrier(8)

        def look(_: int) -> str:
            together.wait()
            client.get_databases()
            return client.user

        assert set(threads.map(look, range(8))) == {"alice"}


def test_a_ticket_authenticates_its_owner(
    secured: EmbeddedMetastore, kdc: Kdc, cache: Path
) -> None:
    with MetastoreClient(secured.options) as client, pytest.raises(NoTicket, match=str(cache)):
        client.get_databases()
    kdc.log_in("bob", cache)
    with MetastoreClient(secured.options) as client:
        assert client.user == "bob"
    named = replace(secured.options, kerberos_ccache=f"FILE:{cache}")
    with MetastoreClient(named) as client:
        assert client.user == "bob"
    # A ticket of another user is rejected.
    others = replace(secured.options, kerberos_principal=kdc.principal("alice"))
    with MetastoreClient(others) as client, pytest.raises(NoTicket, match="alice@EXAMPLE"):
        client.get_databases()


def test_connections_outlive_tickets_and_new_ones_want_new_tickets(
    secured: EmbeddedMetastore,
    alices: MetastoreOptions,
    kdc: Kdc,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    eventually: Callable[..., None],
) -> None:
    monkeypatch.setenv("KRB5_CONFIG", str(kdc.short_tickets(TICKET_SECONDS)))
    kdc.log_in("alice", cache)
    begun = time.monotonic()
    short = replace(alices, kerberos_ccache=f"MEMORY:short-{secured.uri}")
    with MetastoreClient(secured.options) as old, MetastoreClient(short) as keytab:
        txn = old.open_txn(old.user, "host", None)
        keytab.get_databases()

        def expired() -> bool:
            with MetastoreClient(secured.options) as new:
                try:
                    new.get_databases()
                except NoTicket:
                    return True
            return False

        eventually("the ticket expires", expired, seconds=90)
        assert time.monotonic() - begun > TICKET_SECONDS - 5
        # Open connections continue.
        old.heartbeat(txn)
        old.commit_txn(txn)
        # A keytab gets another ticket automatically, and so does a renewed cache.
        keytab.close()
        assert keytab.user == "alice"
        kdc.log_in("alice", cache)
        old.close()
        assert old.user == "alice"


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"kerberos_principal": "carol@EXAMPLE.COM"}, NoTicket, "klist -kt"),
        ({"kerberos_principal": "alice@OTHER.COM"}, NoTicket, "klist -kt"),
        ({"kerberos_keytab": "/no/such/file"}, NoTicket, "/no/such/file"),
        ({"kerberos_service_name": "hdfs"}, AuthenticationFailed, "GSS initiate failed"),
        ({"kerberos_service_name": "nobody"}, AuthenticationFailed, "first part"),
        ({"kerberos_service_name": "hive/_HOST@OTHER.COM"}, AuthenticationFailed, "OTHER"),
    ],
)
def test_mistakes_have_distinct_errors(
    alices: MetastoreOptions, fields: dict[str, str], error: type[Exception], message: str
) -> None:
    wrong = replace(alices, **fields)
    with MetastoreClient(wrong) as client, pytest.raises(error, match=message) as caught:
        client.get_databases()
    assert type(caught.value) is error


def test_an_address_is_no_name(alices: MetastoreOptions) -> None:
    uris = alices.uris.replace("localhost", "127.0.0.1")
    wrong = replace(alices, uris=uris, kerberos_service_name="hive/_HOST@EXAMPLE.COM")
    with MetastoreClient(wrong) as client, pytest.raises(AuthenticationFailed, match="address"):
        client.get_databases()


def test_a_caller_without_credentials_learns_that_kerberos_is_required(
    secured: EmbeddedMetastore,
) -> None:
    plain = MetastoreOptions(uris=secured.uri)
    with (
        MetastoreClient(plain) as client,
        pytest.raises(AuthenticationFailed, match=r'asks for Kerberos.*"GSSAPI"'),
    ):
        client.get_databases()


class TlsMetastoreWithKerberos(TlsMetastore):
    """A metastore that has a certificate, too."""

    @property
    def options(self) -> MetastoreOptions:
        return replace(super().options, auth_mechanism="GSSAPI")


@pytest.mark.parametrize("version", VERSIONS)
def test_kerberos_runs_inside_of_tls(version: str, kdc: Kdc, tmp_path: Path) -> None:
    with TlsMetastoreWithKerberos(
        version, directory=tmp_path, kerberized=kdc.kerberized("integrity")
    ) as metastore:
        options = replace(
            metastore.options,
            kerberos_principal=kdc.principal("bob"),
            kerberos_keytab=str(kdc.keytab),
        )
        with MetastoreClient(options) as client:
            assert client.user == "bob"
            assert "default" in client.get_databases()
        with (
            MetastoreClient(replace(options, tls_ca_file=None)) as client,
            pytest.raises(MetastoreError),
        ):
            client.get_databases()
        plain = MetastoreOptions(uris=options.uris, tls_ca_file=options.tls_ca_file)
        with MetastoreClient(plain) as client, pytest.raises(AuthenticationFailed):
            client.get_databases()
