"""The negotiation of SASL and its frames, against servers that follow a script."""

import struct
from collections.abc import Sequence

import pytest

from hiveacid.errors import AuthenticationFailed, MetastoreError
from hiveacid.metastore.sasl.channel import Protection, SaslChannel, Status

START, OK, BAD, ERROR, COMPLETE = Status


def message(status: int, payload: bytes = b"") -> bytes:
    return struct.pack(">BI", status, len(payload)) + payload


def frame(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


class Script:
    """A channel whose other side has sent all messages beforehand, in pieces."""

    def __init__(self, *said: bytes, piece: int = 1 << 20) -> None:
        self._said = b"".join(said)
        self._piece = piece
        self.sent: list[bytes] = [b""]
        self.largest = 0

    def read(self, size: int) -> bytes:
        self.largest = max(self.largest, size)
        data, self._said = (part := min(size, self._piece)) and (
            self._said[:part],
            self._said[part:],
        )
        return data

    def write(self, data: bytes) -> None:
        self.sent[-1] += data

    def flush(self) -> None:
        self.sent.append(b"")


class Rot:
    """A mechanism that is done after so many challenges, and protects by turning bits around."""

    name = "ROT"
    user = "alice"

    def __init__(self, steps: int, protection: Protection = Protection.AUTH) -> None:
        self._steps = steps
        self.done = False
        self.protection = protection
        self.challenges: list[bytes] = []

    def step(self, challenge: bytes) -> bytes:
        self.challenges.append(challenge)
        self.done = len(self.challenges) > self._steps
        return f"answer {len(self.challenges)}".encode()

    def refused(self, said: str) -> MetastoreError:
        return AuthenticationFailed(f"refused: {said}")

    def wrap(self, data: bytes) -> bytes:
        return bytes(byte ^ 255 for byte in data)

    unwrap = wrap


def negotiated(said: Sequence[bytes], mechanism: Rot, piece: int = 1 << 20) -> Script:
    script = Script(*said, piece=piece)
    SaslChannel(script, mechanism, "h:1").negotiate()
    return script


@pytest.mark.parametrize("piece", [1, 4, 1 << 20])
def test_both_sides_speak_in_turn_until_both_are_done(piece: int) -> None:
    mechanism = Rot(2)
    said = [message(OK, b"one"), message(OK, b"two"), message(COMPLETE)]
    script = negotiated(said, mechanism, piece)
    assert mechanism.challenges == [b"", b"one", b"two"]
    assert script.sent == [
        message(START, b"ROT") + message(OK, b"answer 1"),
        message(OK, b"answer 2"),
        message(COMPLETE, b"answer 3"),
        b"",
    ]


def test_the_last_challenge_may_come_with_the_end() -> None:
    mechanism = Rot(1)
    negotiated([message(COMPLETE, b"proof")], mechanism)
    assert mechanism.challenges == [b"", b"proof"]


@pytest.mark.parametrize("said", [b"", b"one"])
def test_a_server_without_proof_of_identity_is_rejected(said: bytes) -> None:
    with pytest.raises(AuthenticationFailed, match="h:1 did not prove that it is the metastore"):
        negotiated([message(COMPLETE, said)], Rot(2))


@pytest.mark.parametrize("status", [BAD, ERROR])
def test_a_refusal_contains_the_server_s_message(status: int) -> None:
    with pytest.raises(AuthenticationFailed, match="refused: GSS initiate failed"):
        negotiated([message(status, b"GSS initiate failed")], Rot(2))


def test_a_long_refusal_is_shortened_to_one_line() -> None:
    with pytest.raises(AuthenticationFailed) as caught:
        negotiated([message(BAD, b"no\n\x1b[31m" + b"!" * 100_000)], Rot(2))
    assert len(str(caught.value)) < 600
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 400 Bad Request",
        b"\x15\x03\x01\x00\x02\x02\x46",  # TLS.
        b"\x80\x01\x00\x03\x00\x00\x00\x01",  # Thrift.
        message(START),
        message(0),
        struct.pack(">BI", OK, 1 << 31),
    ],
)
def test_servers_without_sasl_are_recognised_by_their_first_bytes(said: bytes) -> None:
    script = Script(said)
    with pytest.raises(AuthenticationFailed, match="h:1 does not answer as a server with SASL"):
        SaslChannel(script, Rot(2), "h:1").negotiate()
    assert script.largest <= 5


@pytest.mark.parametrize("said", [b"", message(OK, b"one")[:-1]])
def test_a_connection_that_ends_is_no_answer(said: bytes) -> None:
    with pytest.raises(EOFError):
        negotiated([said], Rot(2))


def channel(script: Script, protection: Protection) -> SaslChannel:
    return SaslChannel(script, Rot(0, protection), "h:1")


@pytest.mark.parametrize("protection", Protection)
def test_every_flush_is_a_frame(protection: Protection) -> None:
    script = Script()
    written = channel(script, protection)
    for part in (b"one", b" call"):
        written.write(part)
    written.flush()
    written.flush()
    plain = protection is Protection.AUTH
    assert script.sent[:2] == [
        frame(b"one call" if plain else Rot(0).wrap(b"one call")),
        frame(b""),
    ]


@pytest.mark.parametrize("piece", [1, 3, 1 << 20])
@pytest.mark.parametrize("protection", Protection)
def test_frames_need_not_end_where_answers_do(protection: Protection, piece: int) -> None:
    parts = [b"", b"an", b"", b" answer"]
    if protection is not Protection.AUTH:
        parts = [Rot(0).wrap(part) for part in parts]
    read = channel(Script(*map(frame, parts), piece=piece), protection)
    assert read.readAll(9) == b"an answer"
    with pytest.raises(EOFError):
        read.read(1)


def test_no_room_is_made_for_a_frame_that_cannot_be_one() -> None:
    script = Script(b"\xff\xff\xff\xff")
    with pytest.raises(ValueError, match="a frame of 4294967295 bytes"):
        channel(script, Protection.AUTH).read(1)
    assert script.largest == 4
