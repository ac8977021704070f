"""A server with SASL before another one: it requires DIGEST-MD5 and forwards the later calls."""

import re
import select
import socket
import struct
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable

from hiveacid.metastore.dev.embedded import free_port
from hiveacid.metastore.sasl.channel import Protection, Status
from hiveacid.metastore.sasl.delegation_token import Digest, Frames

NONCE, REALM = "OA6MG9tEQGm2hh", "default"


class SaslFront:
    """Precedes a server without authentication.

    Attributes:
        uri: Its address.
        accepted: The number of successful authentications.
    """

    def __init__(
        self, uri: str, password: Callable[[bytes], bytes | None], protection: Protection
    ) -> None:
        """Listen.

        Args:
            uri: The server.
            password: The secret of a token, by its identifier, if there is one.
            protection: The required protections.
        """
        self._password = password
        self.accepted = 0
        self._protection = protection
        self._behind = ("127.0.0.1", int(uri.rpartition(":")[2]))
        self._listener = socket.create_server(("127.0.0.1", free_port()))
        self.uri = f"thrift://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                inner, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=[inner], daemon=True).start()

    def _serve(self, inner: socket.socket) -> None:
        with inner:
            try:
                digest = self._negotiate(inner)
            except EOFError:
                return
            if digest is not None:
                self.accepted += 1
                self._pass_on(inner, digest)

    def _negotiate(self, inner: socket.socket) -> Digest | None:
        """Negotiate like a Java server, which sends an error, and then nothing more."""
        status, name = _receive(inner)
        if status != Status.START:
            _send(inner, Status.ERROR, f"Invalid status {status}".encode())
            return None
        if name != b"DIGEST-MD5":
            _send(inner, Status.BAD, b"Unsupported mechanism type " + name)
            return None
        assert _receive(inner) == (Status.OK, b"")
        challenge = f'realm="{REALM}",nonce="{NONCE}",qop="{self._protection}",charset=utf-8,'
        _send(inner, Status.OK, (challenge + 'cipher="3des,rc4",algorithm=md5-sess').encode())
        response = _receive(inner)[1].decode()
        given = dict(re.findall(r'([\w-]+)="?([^",]*)', response))
        password = self._password(b64decode(given["username"]))
        if password is None:
            _send(inner, Status.ERROR, b"DIGEST-MD5: IO error acquiring password")
            return None
        digest = Digest(
            user=given["username"],
            password=b64encode(password),
            realm=REALM,
            nonce=NONCE,
            client_nonce=given["cnonce"],
            uri=given["digest-uri"],
            protection=Protection(given["qop"]),
        )
        if (given["response"], given["qop"]) != (digest.response, self._protection):
            _send(inner, Status.ERROR, b"DIGEST-MD5: Mismatched response.")
            return None
        _send(inner, Status.COMPLETE, f"rspauth={digest.answer}".encode())
        return digest

    def _pass_on(self, inner: socket.socket, digest: Digest) -> None:
        received = Frames(digest, "client-to-server", self._protection)
        sent = Frames(digest, "server-to-client", self._protection)
        plain = self._protection is Protection.AUTH
        with socket.create_connection(self._behind) as outer:
            while True:
                for ready in select.select([inner, outer], [], [])[0]:
                    if ready is inner:
                        try:
                            frame = _exactly(inner, *struct.unpack(">I", _exactly(inner, 4)))
                        except (EOFError, OSError):
                            return
                        outer.sendall(frame if plain else received.unwrap(frame))
                        continue
                    data = outer.recv(1 << 16)
                    if not data:
                        return
                    frame = data if plain else sent.wrap(data)
                    inner.sendall(struct.pack(">I", len(frame)) + frame)


def _receive(channel: socket.socket) -> tuple[int, bytes]:
    status, length = struct.unpack(">BI", _exactly(channel, 5))
    # As long as the name of a call: not SASL at all.
    return status, b"" if status > Status.COMPLETE else _exactly(channel, length)


def _send(channel: socket.socket, status: Status, payload: bytes) -> None:
    channel.sendall(struct.pack(">BI", status, len(payload)) + payload)


def _exactly(channel: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        piece = channel.recv(length - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data
