"""Thrift over HTTP, as Hive Metastore 4 offers it: a call is the body of a request."""

import base64
import http.client
import io
import ssl
import urllib.request
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from hiveacid.errors import AnswerLost, MetastoreCallFailed, UnsupportedMetastore
from hiveacid.metastore.thrift.deadline import Deadline

if TYPE_CHECKING:
    from hiveacid.metastore.thrift.endpoint import Endpoint

_MOST_AT_ONCE = 1 << 16
_MOST_BYTES = 256 << 20


class HttpChannel:
    """Thrift socket over HTTP; makes a new connection for every call."""

    def __init__(
        self, address: "Endpoint", headers: Mapping[str, str], tls: ssl.SSLContext, connect: float
    ) -> None:
        """Describe the channel.

        Args:
            address: The address of the server.
            headers: The headers of every request.
            tls: The trusted certificates, for https.
            connect: The limit for a connection, in seconds.
        """
        self._address = address
        self._headers = dict(headers)
        self._tls = tls
        self._connect_seconds = connect
        self._seconds = connect
        self._connection: http.client.HTTPConnection | None = None
        self._request = io.BytesIO()
        self._answer = io.BytesIO()
        self._closed = False

    def open(self, seconds: float) -> None:
        """Connect, so that an unreachable host is detected before any data is sent."""
        self._connection = self._connect(seconds)

    def isOpen(self) -> bool:  # noqa: N802
        """Return whether the channel is open, even without a current connection."""
        return not self._closed

    def close(self) -> None:
        """Close it for good."""
        self._closed = True
        self._drop()

    def setTimeout(self, milliseconds: float) -> None:  # noqa: N802
        """Set how long the whole answer may take."""
        self._seconds = milliseconds / 1000

    def write(self, data: bytes) -> None:
        """Add to the request."""
        self._request.write(data)

    def read(self, size: int) -> bytes:
        """Take from the answer."""
        return self._answer.read(size)

    def flush(self) -> None:
        """Send the request and receive the answer.

        Raises:
            MetastoreCallFailed: The server rejected the user or the token.
            AnswerLost: The server or a proxy failed.
            UnsupportedMetastore: The path leads to no metastore.
        """
        body, self._request = self._request.getvalue(), io.BytesIO()
        deadline = Deadline(self._seconds)
        connection, self._connection = self._connection, None
        if connection is None:
            connection = self._connect(deadline.within(self._connect_seconds).left)
        self._connection = connection
        try:
            channel = connection.sock
            channel.settimeout(deadline.left)
            connection.request("POST", self._address.path, body, self._headers)
            with connection.getresponse() as response:
                self._check(response.status, response.reason)
                if cookie := response.getheader("Set-Cookie"):
                    self._headers["Cookie"] = cookie
                answer = io.BytesIO()
                while piece := response.read1(_MOST_AT_ONCE):
                    answer.write(piece)
                    if deadline.left <= 0 or answer.tell() > _MOST_BYTES:
                        raise TimeoutError("it does not end")
                    # From Python 3.13 on, the last piece may close it.
                    if not response.isclosed():
                        channel.settimeout(deadline.left)
            self._answer = io.BytesIO(answer.getvalue())
        finally:
            self._drop()

    def _connect(self, seconds: float) -> http.client.HTTPConnection:
        address = self._address
        host, port, tunnel = address.host, address.port, None
        if proxy := _proxy(address.scheme, address.host):
            host, port, tunnel = proxy
        connection: http.client.HTTPConnection
        if address.scheme == "https":
            connection = http.client.HTTPSConnection(host, port, timeout=seconds, context=self._tls)
        else:
            connection = http.client.HTTPConnection(host, port, timeout=seconds)
        if tunnel is not None:
            connection.set_tunnel(address.host, address.port, tunnel)
        connection.connect()
        return connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _check(self, status: int, reason: str) -> None:
        address = f"{self._address.host}:{self._address.port}"
        answered = f"{address} answered with HTTP {status} {reason}."
        if status in (401, 403):
            raise MetastoreCallFailed(answered, remedy="Check the user and the access token.")
        if status >= 500:
            raise AnswerLost(answered)
        if status != 200:
            raise UnsupportedMetastore(answered, remedy="Check the path of the metastore uri.")


def _proxy(scheme: str, host: str) -> tuple[str, int, dict[str, str]] | None:
    """The proxy that the environment names, and the headers that it wants."""
    named = urllib.request.getproxies().get(scheme)
    if not named or urllib.request.proxy_bypass(host):
        return None
    parts = urlsplit(named if "://" in named else f"http://{named}")
    headers = {}
    if parts.username:
        secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Proxy-Authorization"] = f"Basic {base64.b64encode(secret.encode()).decode()}"
    return parts.hostname or "", parts.port or 80, headers
