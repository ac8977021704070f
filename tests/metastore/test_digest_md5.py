"""DIGEST-MD5 and tokens, by the RFCs' own vectors and against a server that knows the secret."""

import os
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from hiveacid.errors import (
    AuthenticationFailed,
    InvalidJob,
    NoTicket,
)
from hiveacid.jobs.options import PROTECTIONS, MetastoreOptions
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.sasl.channel import Protection
from hiveacid.metastore.sasl.delegation_token import DelegationToken, Digest, DigestMd5, Frames, Rc4
from tests.fakes.metastore import FakeMetastore
from tests.fakes.sasl import SaslFront

# As a metastore issued it for alice; it has long expired.
OWNER = b"alice@EXAMPLE.COM"
IDENTIFIER = (
    b"\x00\x11"
    + OWNER
    + b"\x05alice\x00\x8a\x01\x9a\xa2\x8c\x1c\xb0\x8a\x01\x9a\xc6\x98\xa0\xb0\x8f\x80\x01"
)
PASSWORD = bytes(range(20))


def token(identifier: bytes = IDENTIFIER, password: bytes = PASSWORD) -> str:
    """The text of a token, as Hadoop writes it."""
    kind = b"HIVE_DELEGATION_TOKEN"
    parts = (identifier, password, kind, b"")
    raw = b"".join(bytes([len(part)]) + part for part in parts)
    return urlsafe_b64encode(raw).decode().rstrip("=")


def test_the_example_of_the_rfc() -> None:
    digest = Digest(
        user="chris",
        password=b"secret",
        realm="elwood.innosoft.com",
        nonce="OA6MG9tEQGm2hh",
        client_nonce="OA6MHXh6VqTrRk",
        uri="imap/elwood.innosoft.com",
        protection=Protection.AUTH,
    )
    assert digest.response == "d388dad90d4bbd760a152321f2143af7"
    assert digest.answer == "ea40f60335c427b5527b84dbabcdfffd"


@pytest.mark.parametrize(
    ("key", "data", "encrypted"),
    [
        (b"Key", b"Plaintext", "bbf316e8d940af0ad3"),
        (b"Wiki", b"pedia", "1021bf0420"),
        (b"Secret", b"Attack at dawn", "45a01f645fc35b383552544b9bf5"),
    ],
)
def test_rc4(key: bytes, data: bytes, encrypted: str) -> None:
    assert Rc4(key).apply(data).hex() == encrypted
    pieces = Rc4(key)
    assert (pieces.apply(data[:2]) + pieces.apply(data[2:])).hex() == encrypted


@pytest.fixture(params=[Protection.INTEGRITY, Protection.PRIVACY])
def frames(request: pytest.FixtureRequest) -> Callable[[], Frames]:
    def make(protection: Protection = request.param) -> Frames:
        digest = Digest(
            user="u",
            password=b"p",
            realm="r",
            nonce="n",
            client_nonce="c",
            uri="null/default",
            protection=protection,
        )
        return Frames(digest, "client-to-server", protection)

    return make


def test_frames_come_out_as_they_went_in(frames: Callable[[], Frames]) -> None:
    sent, received = frames(), frames()
    for data in (b"", b"a", os.urandom(70_000), b"a"):
        assert received.unwrap(sent.wrap(data)) == data


@pytest.mark.parametrize("byte", [0, 3, 14, -5, -1])
def test_a_frame_that_was_changed_is_refused(frames: Callable[[], Frames], byte: int) -> None:
    sent, received = frames(), frames()
    frame = bytearray(sent.wrap(b"data"))
    frame[byte] ^= 1
    with pytest.raises(ValueError, match="changed on the way"):
        received.unwrap(bytes(frame))


def test_a_frame_that_comes_twice_is_refused(frames: Callable[[], Frames]) -> None:
    sent, received = frames(), frames()
    frame = sent.wrap(b"drop")
    received.unwrap(frame)
    with pytest.raises(ValueError, match="changed on the way"):
        received.unwrap(frame)


def test_a_token_contains_its_owner() -> None:
    read = DelegationToken.parse(token())
    assert (read.identifier, read.password, read.owner) == (IDENTIFIER, PASSWORD, "alice")
    assert PASSWORD.hex() not in repr(read)
    assert str(PASSWORD) not in repr(read)


def test_a_long_identifier_is_read() -> None:
    long = b"\x00\x8f\xc8" + b"a" * 200 + b"\x00\x00\x01\x8e\x01\x00"
    text = urlsafe_b64encode(b"\x8f" + bytes([len(long)]) + long + b"\x02pw").decode()
    read = DelegationToken.parse(text)
    assert (read.owner, read.last_day, read.password) == ("a" * 200, 256, b"pw")


@pytest.mark.parametrize("text", ["", "x", "!!", token()[:40], "Bearer abc", "____"])
def test_invalid_tokens_are_refused_without_being_shown(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIVEACID_TOKEN_TEST", text)
    options = MetastoreOptions(
        uris="thrift://h:1", auth_mechanism="DIGEST-MD5", token_env="HIVEACID_TOKEN_TEST"
    )
    with pytest.raises(InvalidJob, match=r"HIVEACID_TOKEN_TEST (is not|holds no)") as caught:
        DelegationToken.of(options)
    assert not text or text not in str(caught.value)


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"garbage",
        b'nonce="n",qop="auth-zip"',
        b'qop="auth"',
        b'nonce="n",algorithm=sha',
        b"\xff",
    ],
)
def test_a_challenge_that_offers_nothing_is_refused(challenge: bytes) -> None:
    mechanism = DigestMd5(IDENTIFIER, PASSWORD, "alice", "h:1")
    assert mechanism.step(b"") == b""
    if challenge:
        with pytest.raises(AuthenticationFailed, match="h:1 offers nothing"):
            mechanism.step(challenge)
    assert not mechanism.done


def test_privacy_needs_a_cipher_that_is_known() -> None:
    mechanism = DigestMd5(IDENTIFIER, PASSWORD, "alice", "h:1")
    mechanism.step(b'nonce="n",qop="auth-int,auth-conf",cipher="3des,des"')
    assert mechanism.protection is Protection.INTEGRITY


def test_a_server_that_does_not_know_the_secret_is_an_impostor() -> None:
    mechanism = DigestMd5(IDENTIFIER, PASSWORD, "alice", "h:1")
    mechanism.step(b'nonce="n",qop="auth"')
    with pytest.raises(AuthenticationFailed, match="h:1 does not know the secret"):
        mechanism.step(b"rspauth=ea40f60335c427b5527b84dbabcdfffd")
    assert not mechanism.done


@pytest.fixture(params=list(Protection))
def front(request: pytest.FixtureRequest, fake4: FakeMetastore) -> Iterator[SaslFront]:
    front = SaslFront(fake4.uri, {IDENTIFIER: PASSWORD}.get, request.param)
    yield front
    front.close()


@pytest.fixture
def options(front: SaslFront, monkeypatch: pytest.MonkeyPatch) -> MetastoreOptions:
    monkeypatch.setenv("HIVEACID_TOKEN_TEST", token())
    return MetastoreOptions(
        uris=front.uri,
        auth_mechanism="DIGEST-MD5",
        token_env="HIVEACID_TOKEN_TEST",
        read_timeout_seconds=10,
    )


def test_calls_go_over_every_protection(options: MetastoreOptions, front: SaslFront) -> None:
    with MetastoreClient(options) as client:
        assert client.user == "alice"
        name = f"sasl_{front.uri.rpartition(':')[2]}"
        client.create_database(name, comment="ü" * 100_000)
        assert name in client.get_databases()
        client.drop_database(name)
    assert front.accepted == 1


def test_a_connection_that_is_protected_too_little_is_refused(
    options: MetastoreOptions, request: pytest.FixtureRequest
) -> None:
    agreed = request.node.callspec.params["front"]
    for place, least in enumerate(PROTECTIONS):
        client = MetastoreClient(replace(options, kerberos_min_protection=least))
        if place <= list(Protection).index(agreed):
            with client:
                assert client.user == "alice"
        else:
            with pytest.raises(AuthenticationFailed, match=f"kerberos_min_protection is {least}"):
                client.get_databases()


def test_a_wrong_secret_is_refused_with_the_server_s_message(
    options: MetastoreOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIVEACID_TOKEN_TEST", token(password=b"x" * 20))
    with pytest.raises(NoTicket, match=r"token of alice.*Mismatched response\. Run"):
        MetastoreClient(options).get_databases()


def test_a_caller_without_credentials_learns_that_they_are_required(
    options: MetastoreOptions,
) -> None:
    plain = replace(options, auth_mechanism="NONE")
    with pytest.raises(AuthenticationFailed, match="requires authentication other than Kerberos"):
        MetastoreClient(plain).get_databases()


def test_a_metastore_without_authentication_is_distinguished_from_one_that_is_down(
    options: MetastoreOptions, fake4: FakeMetastore
) -> None:
    asking = replace(options, uris=fake4.uri, read_timeout_seconds=3)
    with pytest.raises(AuthenticationFailed, match="has no Kerberos"):
        MetastoreClient(asking).get_databases()
