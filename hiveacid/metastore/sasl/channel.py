"""SASL below Thrift, as in a Hive Metastore: first authentication, then calls in frames.

During authentication, a message is a status byte, four bytes of length and a payload. Afterwards
every flush is one frame, of four bytes of length and a payload with the negotiated protection.
"""

import struct
from collections.abc import Callable
from enum import IntEnum, StrEnum
from io import BytesIO
from typing import Any, Protocol

from thrift.transport.TTransport import TTransportBase

from hiveacid.errors import AuthenticationFailed, MetastoreError

# Longer messages are invalid: a ticket with all groups of a user has some 64 KB.
_LONGEST_MESSAGE = 1 << 20
# Limit for text from a server, which is not authenticated.
_LONGEST_MESSAGE = 500
# As long as the longest answer that is read.
_LONGEST_FRAME = 256 << 20


class Status(IntEnum):
    """The first byte of a message of the negotiation."""

    START = 1
    OK = 2
    BAD = 3
    ERROR = 4
    COMPLETE = 5


class Protection(StrEnum):
    """SASL's quality of protection, the weakest first."""

    AUTH = "auth"
    INTEGRITY = "auth-int"
    PRIVACY = "auth-conf"


class Mechanism(Protocol):
    """An authentication mechanism.

    Attributes:
        name: Its SASL name.
        done: Whether both sides are authenticated.
        user: The caller's name in the metastore, once done.
        protection: The negotiated protection of the frames, once done.
    """

    name: str
    done: bool
    user: str
    protection: Protection

    def step(self, challenge: bytes) -> bytes:
        """Answer a message of the server; the first challenge is empty."""

    def refused(self, message: str) -> MetastoreError:
        """Return the error for a server that has rejected the authentication."""

    def wrap(self, data: bytes) -> bytes:
        """Protect a frame."""

    def unwrap(self, data: bytes) -> bytes:
        """Check and open a protected frame."""


class SaslChannel(TTransportBase):  # type: ignore[misc]
    """A channel between two authenticated sides."""

    def __init__(self, channel: Any, mechanism: Mechanism, where: str) -> None:
        """Describe the channel.

        Args:
            channel: The underlying channel; it is open.
            mechanism: The authentication mechanism.
            where: The other side, for errors.
        """
        self._channel = channel
        self._mechanism = mechanism
        self._where = where
        self._out = BytesIO()
        self._in = BytesIO()

    def negotiate(self) -> None:
        """Authenticate both sides.

        Raises:
            AuthenticationFailed: One side does not accept the identity of the other; or the other
                side does not support SASL.
        """
        mechanism = self._mechanism
        # Before anything is sent: this fails without a ticket.
        answer = mechanism.step(b"")
        self._channel.write(_message(Status.START, mechanism.name.encode()))
        self._send(Status.OK, answer)
        while True:
            status, payload = self._receive()
            if status in (Status.BAD, Status.ERROR):
                raise mechanism.refused(spoken(payload))
            if status is Status.COMPLETE:
                if payload and not mechanism.done:
                    mechanism.step(payload)
                if not mechanism.done:
                    raise AuthenticationFailed(
                        f"{self._where} did not prove that it is the metastore.",
                        remedy="Another server may answer there: check the metastore uri.",
                    )
                return
            answer = mechanism.step(payload)
            self._send(Status.COMPLETE if mechanism.done else Status.OK, answer)

    def isOpen(self) -> bool:  # noqa: N802
        """Return whether the connection is still open on the other side."""
        return bool(self._channel.isOpen())

    def close(self) -> None:
        """Close it."""
        self._channel.close()

    def write(self, data: bytes) -> None:
        """Add to the frame."""
        self._out.write(data)

    def flush(self) -> None:
        """Send the frame."""
        frame, self._out = self._out.getvalue(), BytesIO()
        if self._mechanism.protection is not Protection.AUTH:
            frame = self._mechanism.wrap(frame)
        self._channel.write(struct.pack(">I", len(frame)) + frame)
        self._channel.flush()

    def read(self, size: int) -> bytes:
        """Read from the frame, or from the next one after its end."""
        data = self._in.read(size)
        while not data:
            (length,) = struct.unpack(">I", self._exactly(4))
            if length > _LONGEST_FRAME:
                raise ValueError(f"it is a frame of {length} bytes")
            frame = self._exactly(length)
            if self._mechanism.protection is not Protection.AUTH:
                frame = self._mechanism.unwrap(frame)
            self._in = BytesIO(frame)
            data = self._in.read(size)
        return data

    def _send(self, status: Status, payload: bytes) -> None:
        self._channel.write(_message(status, payload))
        self._channel.flush()

    def _receive(self) -> tuple[Status, bytes]:
        message = read_message(self._exactly)
        if message is None:
            raise AuthenticationFailed(
                f"{self._where} does not answer as a server with SASL does.",
                remedy="Check the port, and whether TLS has to be on; without Kerberos, set "
                "auth_mechanism to NONE.",
            )
        return message

    def _exactly(self, length: int) -> bytes:
        data = bytearray()
        while len(data) < length:
            piece = self._channel.read(length - len(data))
            if not piece:
                raise EOFError("the connection was closed")
            data += piece
        return bytes(data)


def spoken(payload: bytes) -> str:
    """Convert text from a server for use in a message."""
    text = payload[:_LONGEST_MESSAGE].decode(errors="replace")
    return "".join(char if char.isprintable() else " " for char in text).strip().rstrip(".")


def opening(mechanism: str) -> bytes:
    """The first message of a client without credentials."""
    return _message(Status.START, mechanism.encode()) + _message(Status.OK, b"")


def read_message(exactly: Callable[[int], bytes]) -> tuple[Status, bytes] | None:
    """Read a message of the negotiation, unless it is invalid.

    Args:
        exactly: Reads the given number of bytes.
    """
    status, length = struct.unpack(">BI", exactly(5))
    if status not in tuple(Status)[1:] or length > _LONGEST_MESSAGE:
        return None
    return Status(status), exactly(length)


def _message(status: Status, payload: bytes) -> bytes:
    return struct.pack(">BI", status, len(payload)) + payload
