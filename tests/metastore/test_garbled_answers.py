"""Answers that are cut, forged or endless: lost at worst, and never believed."""

import random
import resource
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.Thrift import TApplicationException, TMessageType
from thrift.transport.TTransport import TMemoryBuffer

from hiveacid.errors import AnswerLost, HiveAcidError, MetastoreError
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift import idl_tables, idl_txns
from hiveacid.metastore.thrift.idl import Call

STOP = b"\x00"
UNKNOWN_EXCEPTION = b"\x0c\x00\x09\x0b\x00\x01\x00\x00\x00\x02no" + STOP + STOP
# A list of integers in field 1 of the struct in field 0, that claims to be of the greatest length.
ENDLESS_LIST = b"\x0c\x00\x00\x0f\x00\x01\x0a" + struct.pack("!i", 2**31 - 1)
ENDLESS_STRING = b"\x0b\x00\x63" + struct.pack("!i", 2**31 - 1)
DEEP = b"\x0c\x00\x63" * 100_000
GREETING = {
    call.name: (call, answer)
    for call, answer in (
        (idl_tables.get_version, "4.0.1"),
        (idl_tables.set_ugi, []),
        (idl_txns.get_latest_txnid_in_conflict, 0),
    )
}


def message(name: str, sequence: int, body: bytes = STOP, kind: int = TMessageType.REPLY) -> bytes:
    buffer = TMemoryBuffer()
    TBinaryProtocolAccelerated(buffer).writeMessageBegin(name, kind, sequence)
    return bytes(buffer.getvalue()) + body


def encoded(value: Any) -> bytes:
    buffer = TMemoryBuffer()
    value.write(TBinaryProtocolAccelerated(buffer))
    return bytes(buffer.getvalue())


def success(call: Call, value: Any) -> bytes:
    result = call.result()
    result.success = value
    return encoded(result)


# Far more than anything takes on a busy machine.
READ_TIMEOUT = 60


class Forger:
    """A server that greets like version 4, and answers everything else as a test wants it.

    Attributes:
        answer: Makes the bytes of the answer from the name and the number of the call; None sends
            nothing at all.
        asked: The names of the calls that were not greetings.
    """

    def __init__(self, port: int) -> None:
        self.options = MetastoreOptions(
            uris=f"thrift://127.0.0.1:{port}", read_timeout_seconds=READ_TIMEOUT
        )
        self.answer: Callable[[str, int], bytes | None] = message
        self.asked: list[str] = []
        self.greetings_to_lose = 0

    def serve(self, connection: socket.socket) -> None:
        if self.greetings_to_lose:
            self.greetings_to_lose -= 1
            connection.recv(65536)
            return
        while request := connection.recv(65536):
            length = int.from_bytes(request[4:8], "big")
            name = request[8 : 8 + length].decode()
            sequence = int.from_bytes(request[8 + length : 12 + length], "big")
            if name in GREETING:
                connection.sendall(message(name, sequence, success(*GREETING[name])))
                continue
            self.asked.append(name)
            answer = self.answer(name, sequence)
            if answer is None:
                connection.settimeout(READ_TIMEOUT)
                connection.recv(65536)
                return
            connection.sendall(answer)
            if not answer.endswith(STOP):
                return


@pytest.fixture
def forger() -> Iterator[Forger]:
    with serving() as forger:
        yield forger


@contextmanager
def serving() -> Iterator[Forger]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        forger = Forger(listener.getsockname()[1])

        def talk(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                forger.serve(connection)

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=talk, args=[connection], daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield forger
        listener.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def client(forger: Forger) -> Iterator[MetastoreClient]:
    with MetastoreClient(forger.options) as client:
        yield client


GARBLED = {
    "wrong number": lambda name, sequence: message(name, sequence + 1),
    "wrong name": lambda name, sequence: message("abort_txn", sequence),
    "a call": lambda name, sequence: message(name, sequence, kind=TMessageType.CALL),
    "another protocol": lambda name, sequence: b"HTTP/1.1 502 Bad Gateway\r\n\r\n\x00",
    "noise": lambda name, sequence: b"\xff" * 64,
    "deep": lambda name, sequence: message(name, sequence, b"\x0c\x00\x01" + DEEP),
    "negative length": lambda name, sequence: b"\x80\x01\x00\x02\xff\xff\xff\xff" + STOP,
}


@pytest.mark.parametrize("answer", GARBLED.values(), ids=GARBLED)
def test_a_garbled_answer_to_a_commit_is_a_lost_one(
    forger: Forger, client: MetastoreClient, answer: Callable[[str, int], bytes]
) -> None:
    forger.answer = answer
    with pytest.raises(AnswerLost) as lost:
        client.commit_txn(1)
    assert lost.value.retryable
    assert forger.asked == ["commit_txn"]  # And it is not sent again without asking.


def test_a_cut_answer_to_a_commit_is_a_lost_one(forger: Forger, client: MetastoreClient) -> None:
    whole = message("commit_txn", 3)
    for length in range(1, len(whole)):
        forger.answer = lambda name, sequence, to=length: message(name, sequence)[:to]
        with pytest.raises(AnswerLost), client.within(0.2):
            client.commit_txn(1)


def test_an_exception_that_only_newer_servers_declare_is_no_success(
    forger: Forger, client: MetastoreClient
) -> None:
    forger.answer = lambda name, sequence: message(name, sequence, UNKNOWN_EXCEPTION)
    with pytest.raises(MetastoreError, match="exception 9"):
        client.commit_txn(1)
    with pytest.raises(MetastoreError, match="empty"):
        client.get_open_txns()


@pytest.mark.parametrize(
    ("call", "body"),
    [
        (lambda client: client.open_txn("u", "h", None), success(idl_txns.open_txns, idl_txns.OpenTxnsResponse([]))),
        (lambda client: client.lock([], 1, "u", "h", None), success(idl_txns.lock, idl_txns.LockResponse(1, 77))),
        (lambda client: client.get_open_txns(), success(idl_txns.get_open_txns, idl_txns.GetOpenTxnsResponse())),
    ],
    ids=["open", "lock", "read"],
)  # fmt: skip
def test_an_answer_without_a_required_field_is_garbled(
    forger: Forger, client: MetastoreClient, call: Callable[[MetastoreClient], Any], body: bytes
) -> None:
    forger.answer = lambda name, sequence: message(name, sequence, body)
    with pytest.raises(AnswerLost) as lost:
        call(client)
    assert lost.value.garbled
    # Only calls without changes are repeated.
    assert len(forger.asked) == 1 + (forger.asked[0] == "get_open_txns")


@pytest.mark.parametrize("body", [ENDLESS_LIST, ENDLESS_STRING], ids=["list", "string"])
def test_room_is_made_for_what_has_come_and_not_for_what_was_announced(
    forger: Forger, client: MetastoreClient, body: bytes
) -> None:
    client.latest_conflicting_txn(0)
    forger.answer = lambda name, sequence: message(name, sequence, body)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (256 << 20), limits[1]))
    try:
        with pytest.raises(AnswerLost), client.within(0.3):
            client.get_open_txns()
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def test_a_server_that_never_answers_is_given_up_in_time(
    forger: Forger, client: MetastoreClient
) -> None:
    forger.answer = lambda name, sequence: None
    started = time.monotonic()
    with pytest.raises(AnswerLost, match="timed out"), client.within(0.3):
        client.get_open_txns()
    assert time.monotonic() - started < READ_TIMEOUT


def test_a_server_that_dribbles_is_given_up_in_time(
    forger: Forger, client: MetastoreClient
) -> None:
    """Each byte comes soon after the one before; the answer never does."""
    ended = threading.Event()

    def dribble(connection: socket.socket) -> None:
        with suppress(OSError):
            while not ended.wait(0.05):
                connection.sendall(b"\x80")

    serve = forger.serve

    def slow(connection: socket.socket) -> None:
        forger.answer = lambda name, sequence: dribble(connection)  # type: ignore[func-returns-value]
        serve(connection)

    forger.serve = slow  # type: ignore[method-assign]
    forger.answer = lambda name, sequence: None
    started = time.monotonic()
    try:
        with pytest.raises(AnswerLost), client.within(0.5):
            client.get_open_txns()
    finally:
        ended.set()
    assert time.monotonic() - started < READ_TIMEOUT


def test_a_greeting_that_got_lost_is_tried_again(forger: Forger, client: MetastoreClient) -> None:
    forger.greetings_to_lose = 1
    client.commit_txn(1)
    assert forger.asked == ["commit_txn"]


def test_no_noise_leads_out_of_the_tree_of_errors(forger: Forger, client: MetastoreClient) -> None:
    """Answers of all kinds, with some bytes changed, some lost and some added."""
    dice = random.Random(13)
    calls: list[tuple[Call, Any, Callable[[], Any]]] = [
        (
            idl_txns.get_open_txns,
            idl_txns.GetOpenTxnsResponse(9, [1, 2, 3], 1, b"\x02"),
            client.get_open_txns,
        ),
        (
            idl_txns.show_locks,
            idl_txns.ShowLocksResponse(
                [
                    idl_txns.ShowLocksResponseElement(
                        lockid=1, dbname="d", tablename="t", state=1, type=3, txnid=4,
                        lastheartbeat=5, user="u", hostname="h",
                    )
                ]
            ),
            client.show_locks,
        ),
        (
            idl_txns.open_txns,
            idl_txns.OpenTxnsResponse([5]),
            lambda: client.open_txn("u", "h", None),
        ),
    ]  # fmt: skip
    outcomes = set()
    for _ in range(600):
        call, value, make = dice.choice(calls)
        good = success(call, value)

        def noisy(name: str, sequence: int, good: bytes = good) -> bytes:
            answer = bytearray(message(name, sequence, good))
            for _ in range(dice.randrange(1, 4)):
                answer[dice.randrange(len(answer))] = dice.randrange(256)
            # The next bytes let the server close the connection, so that no side waits for more.
            return bytes(answer[: len(answer) - dice.choice([0, 0, 0, 1, 7])]) + b"\xff"

        forger.answer = noisy
        try:
            with client.within(0.5):
                make()
            outcomes.add("read")
        except HiveAcidError as error:
            outcomes.add("garbled" if getattr(error, "garbled", False) else type(error).__name__)
    assert {"read", "AnswerLost", "garbled"} <= outcomes


def test_an_internal_error_may_be_tried_again(forger: Forger, client: MetastoreClient) -> None:
    failure = TApplicationException(TApplicationException.INTERNAL_ERROR, "Internal error")
    forger.answer = lambda name, sequence: message(
        name, sequence, encoded(failure), TMessageType.EXCEPTION
    )
    with pytest.raises(MetastoreError, match="Internal error") as troubled:
        client.commit_txn(1)
    assert troubled.value.retryable
