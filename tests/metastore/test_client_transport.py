"""The connection test. The client against servers that are down, silent, or no metastore at all."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from hiveacid.errors import (
    AnswerLost,
    InvalidJob,
    MetastoreCallFailed,
    MetastoreUnreachable,
    UnsupportedMetastore,
)
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.endpoint import Endpoint
from hiveacid.metastore.thrift.transport import Deadline
from tests.fakes.metastore import FakeMetastore
from tests.proxy import Harm, Proxy

HTTP_400 = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
TLS_ALERT = b"\x15\x03\x01\x00\x02\x02\x46"
SSH = b"SSH-2.0-OpenSSH_9.2p1\r\n"


def http_answer(status: str) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: 4\r\nConnection: close\r\n\r\nnope".encode()


@contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server that treats every connection alike, at the yielded port."""

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                answer(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            # Wakes the accept(), which closing alone does not.
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@contextmanager
def closed_port() -> Iterator[int]:
    """A port that refuses connections, and that no other process uses meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield int(taken.getsockname()[1])


def saying(answer: bytes) -> Callable[[socket.socket], None]:
    def say(connection: socket.socket) -> None:
        if connection.recv(65536):
            connection.sendall(answer)
            connection.recv(65536)

    return say


def client(uris: str, **options: object) -> MetastoreClient:
    return MetastoreClient(MetastoreOptions(uris=uris, read_timeout_seconds=5, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("uris", "expected"),
    [
        ("thrift://a:9084", [("thrift", "a", 9084, "/metastore")]),
        ("thrift://a,thrift://b:1", [("thrift", "a", 9083, "/metastore"), ("thrift", "b", 1, "/metastore")]),
        ("a:1 , b:2", [("thrift", "a", 1, "/metastore"), ("thrift", "b", 2, "/metastore")]),
        ("thrift://[::1]:9083", [("thrift", "::1", 9083, "/metastore")]),
        ("http://a:9001/hms", [("http", "a", 9001, "/hms")]),
        ("https://a", [("https", "a", 443, "/metastore")]),
    ],
)  # fmt: skip
def test_uris(uris: str, expected: list[tuple[str, str, int, str]]) -> None:
    parts = [
        (endpoint.scheme, endpoint.host, endpoint.port, endpoint.path)
        for endpoint in Endpoint.parse(uris)
    ]
    assert parts == expected


@pytest.mark.parametrize(
    "uris",
    ["", ",", "jdbc:hive2://a", "thrift://a:port", "thrift://:1", "http://a\x7f", "http://a/b c"],
)
def test_malformed_uris_are_refused(uris: str) -> None:
    with pytest.raises(InvalidJob, match="metastore uri"):
        Endpoint.parse(uris)


@pytest.mark.parametrize("scheme", ["thrift", "http"])
def test_without_an_open_port_all_hosts_are_named(scheme: str) -> None:
    with closed_port() as first, closed_port() as second:
        uris = f"{scheme}://127.0.0.1:{first},{scheme}://127.0.0.1:{second}"
        with pytest.raises(MetastoreUnreachable) as caught:
            client(uris).get_databases()
    assert f"127.0.0.1:{first} cannot be reached: connection refused" in str(caught.value)
    assert f"127.0.0.1:{second} cannot be reached: connection refused" in str(caught.value)
    assert caught.value.retryable


def test_an_unknown_host_is_unreachable() -> None:
    with pytest.raises(MetastoreUnreachable, match=r"no\.such\.host\.invalid:9083"):
        client("thrift://no.such.host.invalid:9083").get_databases()


@pytest.mark.parametrize("noise", [HTTP_400, TLS_ALERT, SSH, b"\xff" * 64, b"\x00" * 64])
def test_a_server_that_speaks_something_else_is_no_metastore(noise: bytes) -> None:
    with server(saying(noise)) as port, pytest.raises(UnsupportedMetastore) as caught:
        client(f"thrift://127.0.0.1:{port}").get_databases()
    assert f"127.0.0.1:{port}" in str(caught.value)
    assert not caught.value.retryable


def test_a_server_that_hangs_up_is_unreachable() -> None:
    with (
        server(lambda connection: None) as port,
        pytest.raises(MetastoreUnreachable, match=f"127.0.0.1:{port}.*closed|reset"),
    ):
        client(f"thrift://127.0.0.1:{port}").get_databases()


def test_a_silent_server_is_unreachable_after_the_read_timeout() -> None:
    with server(saying(b"")) as port:
        options = MetastoreOptions(uris=f"thrift://127.0.0.1:{port}", read_timeout_seconds=0.1)
        with pytest.raises(MetastoreUnreachable, match="timed out"):
            MetastoreClient(options).get_databases()


@pytest.mark.parametrize("serve", [lambda connection: None, saying(b"")], ids=["closed", "silent"])
def test_a_metastore_whose_threads_are_all_in_use_is_named_with_the_remedy(
    serve: Callable[[socket.socket], None],
) -> None:
    with closed_port() as down, server(serve) as port:
        uris = f"thrift://127.0.0.1:{down},thrift://127.0.0.1:{port}"
        options = MetastoreOptions(uris=uris, read_timeout_seconds=0.5)
        with pytest.raises(MetastoreUnreachable) as caught:
            MetastoreClient(options).get_databases()
    assert f"127.0.0.1:{down} cannot be reached" in caught.value.what
    assert (
        f"127.0.0.1:{port} accepts connections and does not serve them, probably because all of its"
        " threads are in use."
    ) in caught.value.what
    assert "metastore.server.max.threads" in caught.value.remedy
    assert caught.value.retryable


def test_a_metastore_that_has_served_earlier_may_have_no_thread_left(alone: FakeMetastore) -> None:
    proxy = Proxy(alone, None, after=3, times=100)
    with closing(proxy), client(proxy.uri) as one:
        one.get_databases()
        one.close()
        with pytest.raises(MetastoreUnreachable, match="all of its threads are in use"):
            one.get_databases()


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[FakeMetastore]:
    """A metastore without other databases, in which transactions may stay open."""
    directory = tmp_path / "alone"
    directory.mkdir()
    with FakeMetastore("4.0.1", directory=directory) as metastore:
        yield metastore


def test_a_hanging_host_leaves_time_for_the_next_and_becomes_the_last(
    alone: FakeMetastore,
) -> None:
    asked: list[bytes] = []

    def stand_still(connection: socket.socket) -> None:
        asked.append(connection.recv(65536))
        while connection.recv(65536):
            pass

    with server(stand_still) as port:
        uris = f"thrift://127.0.0.1:{port},{alone.uri}"
        with MetastoreClient(MetastoreOptions(uris=uris, read_timeout_seconds=1)) as both:
            assert both.get_databases() == ["default"]
            both.close()
            assert both.get_databases() == ["default"]
    assert len(asked) == 1


@pytest.mark.parametrize(("call", "repeated"), [("get_all_databases", True), ("open_txns", False)])
def test_a_call_at_which_a_host_falls_silent_is_made_at_the_next_if_that_does_no_harm(
    call: str, repeated: bool, alone: FakeMetastore
) -> None:
    silent = Proxy(alone, call, arrives=False, harm=Harm.HOLD)
    uris = f"{silent.uri},{alone.uri}"
    with (
        closing(silent),
        MetastoreClient(MetastoreOptions(uris=uris, read_timeout_seconds=1)) as both,
    ):
        if repeated:
            assert both.get_databases() == ["default"]
        else:
            with pytest.raises(AnswerLost, match="open_txns got lost: timed out"):
                both.open_txn("user", "host", None)
        # The next client begins with the other one.
        silent.calls.clear()
        both.get_open_txns()
        assert silent.calls == []


def test_a_host_with_another_database_does_not_take_over(
    alone: FakeMetastore, tmp_path: Path
) -> None:
    gone = Proxy(alone)
    with (
        FakeMetastore("4.0.1", directory=tmp_path) as other,
        client(f"{gone.uri},{other.uri}") as both,
    ):
        txn = both.open_txn("user", "host", None)
        gone.close()
        both.close()
        # There, it has another owner.
        assert MetastoreClient(other.options).open_txn("user", "host", None) > 0
        with pytest.raises(UnsupportedMetastore, match="another database"):
            both.commit_txn(txn)


def test_a_host_that_accepts_no_connection_is_given_up_after_the_connect_timeout() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        # The queue holds one connection that is never accepted; further ones get no answer at all.
        with socket.create_connection(("127.0.0.1", port)):
            options = MetastoreOptions(
                uris=f"thrift://127.0.0.1:{port}",
                connect_timeout_seconds=0.1,
                read_timeout_seconds=60,
            )
            with pytest.raises(MetastoreUnreachable, match="timed out"):
                MetastoreClient(options).get_databases()


@pytest.mark.parametrize(
    ("status", "error"),
    [
        ("401 Unauthorized", MetastoreCallFailed),
        ("403 Forbidden", MetastoreCallFailed),
        ("404 Not Found", UnsupportedMetastore),
        ("200 OK", UnsupportedMetastore),
        ("503 Service Unavailable", MetastoreUnreachable),
    ],
)
def test_meanings_of_http_statuses(status: str, error: type[Exception]) -> None:
    with server(saying(http_answer(status))) as port, pytest.raises(error, match=str(port)):
        client(f"http://127.0.0.1:{port}/metastore").get_databases()


def test_http_carries_the_user_and_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[bytes] = []

    def listen(connection: socket.socket) -> None:
        requests.append(connection.recv(65536))
        connection.sendall(http_answer("401 Unauthorized"))

    monkeypatch.setenv("METASTORE_TOKEN", "s3cr3t")
    with server(listen) as port:
        actor = client(f"http://127.0.0.1:{port}/hms", user="alice", token_env="METASTORE_TOKEN")
        with pytest.raises(MetastoreCallFailed) as caught:
            actor.get_databases()
    request = b"".join(requests).decode("latin-1").lower()
    assert request.startswith("post /hms ")
    assert "authorization: bearer s3cr3t" in request
    assert "x-actor-username: alice" in request
    assert "s3cr3t" not in str(caught.value)


def test_a_token_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("METASTORE_TOKEN", raising=False)
    with pytest.raises(InvalidJob, match="METASTORE_TOKEN"):
        client("http://127.0.0.1:1", token_env="METASTORE_TOKEN").get_databases()


def test_no_time_is_too_long_for_a_socket():
    with socket.socket() as channel:
        channel.settimeout(Deadline(1e308).remaining)
        assert channel.gettimeout() > 30 * 365 * 86_400
