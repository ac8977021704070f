"""Delegation token of a metastore: represents a user on a machine without that user's ticket."""

import binascii
import hmac
import re
import struct
from base64 import b64encode, urlsafe_b64decode
from dataclasses import field
from hashlib import md5
from secrets import token_bytes
from typing import Self

from hiveacid.dataclass import dataclass
from hiveacid.errors import AuthenticationFailed, InvalidJob, MetastoreError, NoTicket
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.kept_tokens import token_of
from hiveacid.metastore.sasl.channel import Protection

# DIGEST-MD5 (RFC 2831), the mechanism of a Hive Metastore for delegation tokens.
#
# Maintained libraries support it without integrity and privacy, which a metastore may require. Of
# the ciphers for privacy, RC4 is the only one that every such server offers and that needs no
# library. These algorithms are outdated, but no others are available; a secret of twenty random
# bytes lives for days.


_FIELD = re.compile(r'\s*([\w-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^,\s]*))\s*(?:,|$)')
_CIPHER = "rc4"
_MOST_BYTES = (1 << 24) - 1
# Message type 1 and the number follow each frame.
_TYPE = b"\x00\x01"
_MAC_BYTES = 10


class Digest:
    """The values that both sides compute from the exchanged messages and the secret."""

    def __init__(
        self,
        *,
        user: str,
        password: bytes,
        realm: str,
        nonce: str,
        client_nonce: str,
        uri: str,
        protection: Protection,
    ) -> None:
        """Compute them.

        Args:
            user: The user to authenticate.
            password: The secret.
            realm: The realm that the server sent.
            nonce: The nonce that the server sent.
            client_nonce: The client's own.
            uri: The service.
            protection: The protection to negotiate.
        """
        credentials = b":".join((user.encode(), realm.encode(), password))
        secret = md5(credentials).digest()
        self._hash = md5(b":".join((secret, nonce.encode(), client_nonce.encode()))).digest()
        self._asked = f"{nonce}:00000001:{client_nonce}:{protection}:"
        self._uri = uri if protection is Protection.AUTH else f"{uri}:{'0' * 32}"

    @property
    def response(self) -> str:
        """The proof that the client knows the secret."""
        return self._prove("AUTHENTICATE")

    @property
    def answer(self) -> str:
        """The proof that the server knows the secret."""
        return self._prove("")

    def key(self, purpose: str) -> bytes:
        """Return a key for one direction and purpose, as named in the RFC."""
        return md5(self._hash + purpose.encode()).digest()

    def _prove(self, method: str) -> str:
        request_hash = md5(f"{method}:{self._uri}".encode()).hexdigest()
        return md5(f"{self._hash.hex()}:{self._asked}{request_hash}".encode()).hexdigest()


class Frames:
    """Protects the frames that one side sends."""

    def __init__(self, digest: Digest, sender: str, protection: Protection) -> None:
        """Make the keys.

        Args:
            digest: The values that both sides share.
            sender: "client-to-server" or "server-to-client".
            protection: The negotiated protection.
        """
        magic = "key magic constant"
        self._key = digest.key(f"Digest session key to {sender} signing {magic}")
        self._cipher = None
        if protection is Protection.PRIVACY:
            self._cipher = Rc4(digest.key(f"Digest H(A1) to {sender} sealing {magic}"))
        self._number = 0

    def wrap(self, data: bytes) -> bytes:
        """Protect the next frame."""
        number = struct.pack(">I", self._number)
        self._number += 1
        body = data + self._mac(number, data)
        return (self._cipher.apply(body) if self._cipher else body) + _TYPE + number

    def unwrap(self, frame: bytes) -> bytes:
        """Check and open the next frame.

        Raises:
            ValueError: The frame was modified on the way.
        """
        body, end = frame[:-6], frame[-6:]
        if self._cipher:
            body = self._cipher.apply(body)
        data, mac = body[:-_MAC_BYTES], body[-_MAC_BYTES:]
        number = struct.pack(">I", self._number)
        self._number += 1
        if end != _TYPE + number or not hmac.compare_digest(mac, self._mac(number, data)):
            raise ValueError("it was changed on the way")
        return data

    def _mac(self, number: bytes, data: bytes) -> bytes:
        return hmac.digest(self._key, number + data, "md5")[:_MAC_BYTES]


class Rc4:
    """The cipher RC4: a stream of bytes that continues from one frame to the next."""

    def __init__(self, key: bytes) -> None:
        state, position = list(range(256)), 0
        for index in range(256):
            position = (position + state[index] + key[index % len(key)]) & 255
            state[index], state[position] = state[position], state[index]
        self._state, self._first, self._second = state, 0, 0

    def apply(self, data: bytes) -> bytes:
        """Encrypt, or decrypt, which is the same."""
        state, first, second = self._state, self._first, self._second
        stream = bytearray(len(data))
        for index in range(len(data)):
            first = (first + 1) & 255
            first_value = state[first]
            second = (second + first_value) & 255
            second_value = state[second]
            state[first], state[second] = second_value, first_value
            stream[index] = state[(first_value + second_value) & 255]
        self._first, self._second = first, second
        mixed = int.from_bytes(stream, "big") ^ int.from_bytes(data, "big")
        return mixed.to_bytes(len(data), "big")


class DigestMd5:
    """The mechanism DIGEST-MD5, which authenticates the owner of a delegation token."""

    name = "DIGEST-MD5"

    def __init__(self, identifier: bytes, password: bytes, user: str, where: str) -> None:
        """Describe the caller.

        Args:
            identifier: Names the token.
            password: Its secret.
            user: The represented user.
            where: The server, for errors.
        """
        self.user = user
        self.done = False
        self.protection = Protection.AUTH
        self._name = b64encode(identifier).decode()
        self._password = b64encode(password)
        self._where = where
        self._digest: Digest | None = None

    def step(self, challenge: bytes) -> bytes:
        """Answer the challenge, then check that the server knows the secret, too."""
        if not challenge and self._digest is None:
            return b""  # The server speaks first.
        challenge_fields = _fields(challenge)
        if self._digest is None:
            return self._respond(challenge_fields)
        if not hmac.compare_digest(challenge_fields.get("rspauth", ""), self._digest.answer):
            raise AuthenticationFailed(
                f"{self._where} does not know the secret of the delegation token.",
                remedy="Another server may answer there: check the metastore uri.",
            )
        self._sent = Frames(self._digest, "client-to-server", self.protection)
        self._received = Frames(self._digest, "server-to-client", self.protection)
        self.done = True
        return b""

    def refused(self, message: str) -> MetastoreError:
        """Return the error for a token that the server does not accept, or no longer accepts."""
        return NoTicket(
            f"{self._where} refuses the delegation token of {self.user}: {message}.",
            remedy="Run the task again, which gets a new one, also where it has expired.",
        )

    def wrap(self, data: bytes) -> bytes:
        """Protect a frame."""
        return self._sent.wrap(data)

    def unwrap(self, data: bytes) -> bytes:
        """Check and open a frame."""
        return self._received.unwrap(data)

    def _respond(self, challenge_fields: dict[str, str]) -> bytes:
        offered = [
            protection.strip() for protection in challenge_fields.get("qop", "auth").split(",")
        ]
        common = [protection for protection in Protection if protection in offered]
        nonce = challenge_fields.get("nonce")
        ciphers = [cipher.strip() for cipher in challenge_fields.get("cipher", "").split(",")]
        if common and common[-1] is Protection.PRIVACY and _CIPHER not in ciphers:
            common.pop()
        if not common or not nonce or challenge_fields.get("algorithm", "md5-sess") != "md5-sess":
            raise AuthenticationFailed(
                f"{self._where} offers nothing of DIGEST-MD5 that is known here: {', '.join(offered)}."
            )
        self.protection = common[-1]
        realm, uri, client_nonce = (
            challenge_fields.get("realm", ""),
            "null/default",
            token_bytes(18).hex(),
        )
        self._digest = Digest(
            user=self._name,
            password=self._password,
            realm=realm,
            nonce=nonce,
            client_nonce=client_nonce,
            uri=uri,
            protection=self.protection,
        )
        fields = [
            "charset=utf-8",
            f'username="{self._name}"',
            f'realm="{_quoted(realm)}"',
            f'nonce="{_quoted(nonce)}"',
            "nc=00000001",
            f'cnonce="{client_nonce}"',
            f'digest-uri="{uri}"',
            f"maxbuf={_MOST_BYTES}",
            f"response={self._digest.response}",
            f"qop={self.protection}",
        ]
        if self.protection is Protection.PRIVACY:
            fields.append(f"cipher={_CIPHER}")
        return ",".join(fields).encode()


def _fields(text: bytes) -> dict[str, str]:
    return {
        name.lower(): re.sub(r"\\(.)", r"\1", quoted) or plain
        for name, quoted, plain in _FIELD.findall(text.decode(errors="replace"))
    }


def _quoted(text: str) -> str:
    return re.sub(r'(["\\])', r"\\\1", text)


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token in Hadoop's format.

    Attributes:
        identifier: Its identifier in the metastore.
        password: Its secret.
        owner: The represented user, as named by the metastore.
        first_day: The time of its creation, in milliseconds by the metastore's clock.
        last_day: The end of its renewal period, in milliseconds.
    """

    identifier: bytes
    password: bytes = field(repr=False)
    owner: str
    first_day: int
    last_day: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a token issued by the metastore.

        Raises:
            ValueError: The text is not a token.
        """
        try:
            reader = _Reader(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        except binascii.Error as error:
            raise ValueError("it is not Base64") from error
        identifier, password = reader.block(), reader.block()
        inner = _Reader(identifier)
        inner.number()  # The version of the format.
        owner = inner.block().decode()
        for _ in ("renewer", "real user"):
            inner.block()
        first_day, last_day = inner.number(), inner.number()
        # Like Hadoop without a matching rule of its own.
        short = owner.partition("@")[0].partition("/")[0]
        return cls(identifier, password, short, first_day, last_day)

    @classmethod
    def of(cls, options: MetastoreOptions) -> Self:
        """Read the token from the variable that the options name.

        Raises:
            InvalidJob: The variable holds no valid token.
        """
        name = options.token_env or ""
        text = token_of(name)
        if not text:
            raise InvalidJob(f"The environment variable {name} holds no delegation token.")
        try:
            return cls.parse(text)
        except ValueError as error:
            # Without its value, which is secret.
            raise InvalidJob(f"The value of {name} is not a delegation token: {error}.") from None

    def mechanism(self, where: str) -> DigestMd5:
        """Return the mechanism that authenticates its owner.

        Args:
            where: The metastore, for errors.
        """
        return DigestMd5(self.identifier, self.password, self.owner, where)


class _Reader:
    """Reads the format of Hadoop's Writables."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def block(self) -> bytes:
        """Bytes behind their number."""
        return self._take(self.number())

    def number(self) -> int:
        """Read a number: one small byte, or a byte with the count of the following bytes."""
        (first,) = self._take(1)
        small = first - 256 if first > 127 else first
        if small >= -112:
            return small
        count = -112 - small if small >= -120 else -120 - small
        value = int.from_bytes(self._take(count), "big")
        return value if small >= -120 else ~value

    def _take(self, count: int) -> bytes:
        data = self._data[self._at : self._at + count]
        if count < 0 or len(data) < count:
            raise ValueError("it is cut short")
        self._at += count
        return data
