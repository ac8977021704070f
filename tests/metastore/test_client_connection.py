"""The client against real metastores over connections that break, and over TLS and HTTP."""

import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from hiveacid.errors import AnswerLost, InvalidJob, MetastoreUnreachable
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev import embedded
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.thrift import idl_tables
from hiveacid.metastore.thrift.answers import TxnLiveness
from hiveacid.rules.locks import Operation, lock_components
from hiveacid.rules.names import TableRef
from tests.fakes.metastore import FakeMetastore
from tests.forks import forked
from tests.proxy import Proxy


class Relay:
    """Relays between a client and a metastore, and can lose messages."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.uri = f"thrift://127.0.0.1:{self._listener.getsockname()[1]}"
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()
        self.lose_answers_to = b""

    def disconnect(self) -> None:
        for end in self._sockets:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._sockets.clear()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.disconnect()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._target))
            self._sockets += [client, server]
            self._threads.append(threading.Thread(target=self._serve, args=(client, server)))
            self._threads[-1].start()

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        """Pass one request and one answer after the other, as Thrift does."""
        with client, server, suppress(OSError):
            while request := client.recv(1 << 20):
                server.sendall(request)
                answer = server.recv(1 << 20)
                if self.lose_answers_to and self.lose_answers_to in request:
                    self.lose_answers_to = b""
                    return
                client.sendall(answer)


@pytest.fixture
def relay(hms: EmbeddedMetastore) -> Iterator[Relay]:
    relay = Relay(int(hms.uri.rpartition(":")[2]))
    yield relay
    relay.close()


@pytest.fixture
def shaky(relay: Relay) -> Iterator[MetastoreClient]:
    """A client whose connection goes through the relay."""
    with MetastoreClient(MetastoreOptions(uris=relay.uri)) as client:
        yield client


def test_a_harmless_call_is_repeated_when_its_answer_got_lost(
    shaky: MetastoreClient, relay: Relay
) -> None:
    expected = shaky.get_databases()
    relay.lose_answers_to = b"get_all_databases"
    assert shaky.get_databases() == expected
    assert relay.lose_answers_to == b""


def test_a_transaction_is_not_opened_twice(
    shaky: MetastoreClient, relay: Relay, client: MetastoreClient
) -> None:
    before = client.get_open_txns().high_watermark
    shaky.get_databases()
    relay.lose_answers_to = b"open_txns"
    with pytest.raises(AnswerLost, match="open_txns got lost"):
        shaky.open_txn("user", "host", None)
    orphan = client.get_open_txns().high_watermark
    assert orphan == before + 1
    client.abort_txn(orphan)


def test_a_lock_is_not_requested_twice(
    shaky: MetastoreClient, relay: Relay, client: MetastoreClient, database: str
) -> None:
    table = TableRef(database, "t")
    client.create_table(HiveTable.new(table, [HiveColumn("id", "int")]))
    txn = shaky.open_txn("user", "host", None)
    relay.lose_answers_to = b"lock"
    components = lock_components(
        client.features.has_excl_write, Operation.UPDATE, table, partitioned=False
    )
    with pytest.raises(AnswerLost, match="lock got lost"):
        shaky.lock(components, txn, "user", "host", None)
    assert [lock.txn_id for lock in client.show_locks(table)] == [txn]
    client.abort_txn(txn)


def test_a_commit_whose_answer_got_lost_is_left_to_the_caller_to_find_out(
    shaky: MetastoreClient, relay: Relay, client: MetastoreClient
) -> None:
    txn = shaky.open_txn("user", "host", None)
    relay.lose_answers_to = b"commit_txn"
    with pytest.raises(AnswerLost, match="commit_txn got lost"):
        shaky.commit_txn(txn)
    assert client.heartbeat(txn) is TxnLiveness.UNKNOWN
    assert txn not in client.get_open_txns().open_txns


def test_a_connection_that_was_closed_meanwhile_is_opened_again_before_anything_is_sent(
    shaky: MetastoreClient, relay: Relay
) -> None:
    shaky.get_databases()
    relay.disconnect()
    txn = shaky.open_txn("user", "host", None)
    relay.disconnect()
    shaky.commit_txn(txn)


def test_the_next_host_takes_over(hms: EmbeddedMetastore, relay: Relay) -> None:
    uris = f"{relay.uri},{hms.uri}"
    with MetastoreClient(MetastoreOptions(uris=uris)) as client:
        expected = client.get_databases()
        relay.close()
        assert client.get_databases() == expected
    with MetastoreClient(MetastoreOptions(uris=uris)) as client:
        assert client.get_databases() == expected


def test_threads_can_share_a_client(client: MetastoreClient, database: str) -> None:
    names = [f"t{number}" for number in range(4)]
    for name in names:
        client.create_table(HiveTable.new(TableRef(database, name), [HiveColumn(name, "int")]))
    together = threading.Barrier(len(names))

    def look(name: str) -> set[str]:
        together.wait()
        tables = [client.get_table(TableRef(database, name)) for _ in range(25)]
        return {table.columns[0].name for table in tables}

    with ThreadPoolExecutor(len(names)) as threads:
        assert list(threads.map(look, names)) == [{name} for name in names]


def test_a_connection_that_was_handed_back_serves_another_thread(tmp_path: Path) -> None:
    with (
        FakeMetastore("4.0.1", directory=tmp_path) as metastore,
        closing(Proxy(metastore)) as proxy,
        MetastoreClient(MetastoreOptions(uris=proxy.uri)) as client,
    ):

        def ask(hands_back: bool) -> None:
            assert client.get_databases() == ["default"]
            if hands_back:
                client.hand_back()

        threads = [ThreadPoolExecutor(1) for _ in range(5)]
        for thread, hands_back, most in zip(
            threads, (True, True, False, True, True), (1, 1, 1, 2, 2), strict=True
        ):
            thread.submit(ask, hands_back).result()
            assert proxy.most_open == most
        client.close()
        assert client.get_databases() == ["default"]
        client.hand_back()
        client.hand_back()
        for thread in threads:
            thread.shutdown()


def test_a_closed_client_connects_again(client: MetastoreClient) -> None:
    expected = client.get_databases()
    client.close()
    client.close()
    assert client.get_databases() == expected


def test_many_clients_of_a_thread_leave_few_connections(
    tmp_path: Path, eventually: Callable[..., None]
) -> None:
    with (
        FakeMetastore("4.0.1", directory=tmp_path) as metastore,
        closing(Proxy(metastore)) as proxy,
    ):
        clients = [MetastoreClient(MetastoreOptions(uris=proxy.uri)) for _ in range(100)]
        first, *others = clients
        txn = first.open_txn("user", "host", None)
        for each in others:
            assert each.get_databases() == ["default"]
        eventually("the others are closed", lambda: proxy.open <= 8)
        assert proxy.most_open < 20
        # Neither a client nor a transaction depends on its connection.
        assert first.heartbeat(txn) is TxnLiveness.OPEN
        with ThreadPoolExecutor(1) as other_thread:
            assert other_thread.submit(first.get_databases).result() == ["default"]
        assert first.heartbeat(txn) is TxnLiveness.OPEN
        for each in clients:
            each.close()


def test_a_connection_with_a_call_under_way_is_kept(tmp_path: Path) -> None:
    with FakeMetastore("4.0.1", directory=tmp_path) as metastore:
        first, *others = [MetastoreClient(metastore.options) for _ in range(20)]
        read = lambda answer: (list(answer), [each.get_databases() for each in others])  # noqa: E731
        assert first.call(idl_tables.get_all_databases, read=read) == (
            ["default"],
            [["default"]] * len(others),
        )
        assert first._session._local.connection.is_open()
        for each in (first, *others):
            each.close()


@pytest.mark.server
def test_a_client_survives_the_restart_of_the_server(tmp_path: Path) -> None:
    with EmbeddedMetastore("4.0.1", directory=tmp_path) as metastore:
        client = MetastoreClient(metastore.options)
        before = client.open_txn("user", "host", None)
        metastore.kill()
        with pytest.raises(MetastoreUnreachable):
            client.get_databases()
        metastore.start()
        after = client.open_txn("user", "host", None)
        assert {before, after} <= set(client.get_open_txns().open_txns)
        assert {before, after} <= {info.txn_id for info in client.get_open_txns_info()}
        client.commit_txn(before)


def certificate(directory: Path, name: str) -> tuple[Path, Path]:
    """A new key with a certificate signed by itself: Java's key store and the PEM file."""
    store, pem = directory / f"{name}.p12", directory / f"{name}.pem"
    keytool = ["keytool", "-keystore", str(store), "-storepass", "changeit", "-alias", name]
    subject = ["-dname", "CN=localhost", "-ext", "san=ip:127.0.0.1,dns:localhost"]
    for command in (
        ["-genkeypair", "-keyalg", "RSA", "-storetype", "PKCS12", *subject],
        ["-exportcert", "-rfc", "-file", str(pem)],
    ):
        subprocess.run([*keytool, *command], check=True, capture_output=True)
    return store, pem


class TlsMetastore(EmbeddedMetastore):
    """A metastore with a certificate of its own."""

    def _settings(self, distribution: object) -> dict[str, str]:
        store, self.certificate = certificate(self._directory, "hms")
        return super()._settings(distribution) | {  # type: ignore[arg-type]
            "metastore.use.SSL": "true",
            "metastore.keystore.path": str(store),
            "metastore.keystore.password": "changeit",
            "metastore.keystore.type": "PKCS12",
        }

    @property
    def options(self) -> MetastoreOptions:
        return MetastoreOptions(uris=self.uri, tls_ca_file=str(self.certificate))


@pytest.mark.server
def test_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, stranger = certificate(tmp_path, "stranger")
    with TlsMetastore("4.0.1", directory=tmp_path) as metastore:
        client = MetastoreClient(metastore.options)
        assert client.get_databases() == ["default"]
        own = client._session._local.connection
        forked(client.close)  # It tells the server nothing.
        assert client.get_databases() == ["default"]
        assert client._session._local.connection is own
        wary = replace(metastore.options, tls_ca_file=str(stranger))
        with pytest.raises(MetastoreUnreachable, match="certificate verify failed"):
            MetastoreClient(wary).get_databases()
        system = replace(metastore.options, tls_ca_file=None, tls=True)
        with pytest.raises(MetastoreUnreachable, match="certificate verify failed"):
            MetastoreClient(system).get_databases()
        # Represents the system's authorities.
        monkeypatch.setenv("SSL_CERT_FILE", str(metastore.certificate))
        assert MetastoreClient(system).get_databases() == ["default"]


class HttpMetastore(EmbeddedMetastore):
    """A metastore that speaks HTTP."""

    def _settings(self, distribution: object) -> dict[str, str]:
        mode = {"metastore.server.thrift.transport.mode": "http"}
        return super()._settings(distribution) | mode  # type: ignore[arg-type]

    @property
    def uri(self) -> str:
        return super().uri.replace("thrift:", "http:") + "/metastore"


@pytest.mark.server
def test_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # It has no setting for the address of HTTP: nobody but this test starts one.
    monkeypatch.setattr(embedded, "require_loopback", lambda *_: None)
    with HttpMetastore("4.0.1", directory=tmp_path) as metastore:
        client = MetastoreClient(metastore.options)
        assert client.version == 4
        table = TableRef("default", "t")
        client.create_table(HiveTable.new(table, [HiveColumn("id", "int")]))
        assert client.get_table(table).columns == (HiveColumn("id", "int"),)
        txn = client.open_txn("user", "host", None)
        client.commit_txn(txn)


@pytest.mark.parametrize("host", ["\udc80", "a" * 64 + ".example", "a..b"])
@pytest.mark.parametrize("scheme", ["thrift", "http", "https"])
def test_a_host_that_cannot_be_one_is_refused(scheme: str, host: str) -> None:
    with pytest.raises(InvalidJob, match="name of a host"):
        MetastoreClient(MetastoreOptions(uris=f"{scheme}://{host}:1")).get_databases()
