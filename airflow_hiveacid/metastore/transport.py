"""One connection to one metastore host: binary Thrift over TCP, over TLS, or over HTTP(S)."""

import getpass
import http.client
import os
import socket
import ssl
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlsplit

from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated  # noqa: TID253
from thrift.protocol.TProtocol import TProtocolException  # noqa: TID253
from thrift.Thrift import TApplicationException, TMessageType  # noqa: TID253
from thrift.transport.THttpClient import THttpClient  # noqa: TID253
from thrift.transport.TSocket import TSocket  # noqa: TID253
from thrift.transport.TSSLSocket import TSSLSocket  # noqa: TID253
from thrift.transport.TTransport import TBufferedTransport, TTransportException  # noqa: TID253

from airflow_hiveacid.acid.errors import (
    AnswerLost,
    InvalidJob,
    MetastoreCallFailed,
    MetastoreUnreachable,
    UnsupportedMetastore,
)
from airflow_hiveacid.jobs.options import MetastoreOptions
from airflow_hiveacid.metastore.idl import Call

_DEFAULT_PORTS = {"thrift": 9083, "http": 9001, "https": 9001}
_BROKEN = (TTransportException, http.client.HTTPException, EOFError, OSError)


@dataclass(frozen=True)
class Endpoint:
    """One host of a metastore."""

    scheme: str
    host: str
    port: int
    path: str

    @classmethod
    def parse(cls, uris: str) -> tuple[Self, ...]:
        """Read ``thrift://a:9083,thrift://b:9084`` or ``https://a:9001/metastore``."""
        endpoints = []
        for uri in filter(None, (item.strip() for item in uris.split(","))):
            try:
                parts = urlsplit(uri if "://" in uri else f"thrift://{uri}")
                port = parts.port
            except ValueError as error:
                raise InvalidJob(f"The metastore uri {uri!r} is malformed: {error}.") from None
            if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
                raise InvalidJob(
                    f"The metastore uri {uri!r} is malformed.",
                    remedy="Write thrift://host:9083 or http(s)://host:9001/metastore.",
                )
            path = parts.path if parts.path not in ("", "/") else "/metastore"
            port = port or _DEFAULT_PORTS[parts.scheme]
            endpoints.append(cls(parts.scheme, parts.hostname, port, path))
        if not endpoints:
            raise InvalidJob("The metastore uri is empty.")
        return tuple(endpoints)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def acting_user(options: MetastoreOptions) -> str:
    """Who the metastore is told is calling: chosen as Hadoop's own clients do."""
    return options.user or os.environ.get("HADOOP_USER_NAME") or getpass.getuser()


class Connection:
    """An open connection; it carries one call at a time."""

    def __init__(self, endpoint: Endpoint, options: MetastoreOptions) -> None:
        self.endpoint = endpoint
        self._http: Any = None
        try:
            if endpoint.scheme == "thrift":
                channel = _open_socket(endpoint, options)
            else:
                channel = self._http = _open_http(endpoint, options)
        except _BROKEN as error:
            raise MetastoreUnreachable(
                f"{endpoint} cannot be reached: {_reason(error)}."
            ) from error
        self._transport = TBufferedTransport(channel)
        # strictRead: whatever is not the metastore's protocol is recognised by its first bytes,
        # instead of being taken for the length of an endless string.
        self._protocol = TBinaryProtocolAccelerated(self._transport, strictRead=True)
        self._sequence = 0
        self._closed = False

    def is_open(self) -> bool:
        """Whether the other side has not closed the connection in the meantime."""
        return not self._closed and bool(self._transport.isOpen())

    def close(self) -> None:
        """Close the connection; safe to repeat."""
        if not self._closed:
            self._closed = True
            self._transport.close()

    def invoke(self, call: Call, *arguments: Any) -> Any:
        """Make a call and wait for its answer.

        Raises:
            AnswerLost: The connection broke; whether the call was carried out is unknown.
            UnsupportedMetastore: The answer is not one that a metastore gives.
            ServerException: What the call declares, as it is.
            TApplicationException: The server knows no such call, or failed inside.
        """
        self._sequence += 1
        self._protocol.writeMessageBegin(call.name, TMessageType.CALL, self._sequence)
        call.arguments(*arguments).write(self._protocol)
        self._protocol.writeMessageEnd()
        try:
            self._transport.flush()
            if self._http is not None:
                self._check_status(call)
            return self._answer(call)
        except (TProtocolException, TypeError, ValueError) as error:
            raise UnsupportedMetastore(
                f"{self.endpoint} did not answer {call.name} as a Hive Metastore does.",
                remedy="Check that the uri names the metastore's own port and its transport"
                " (thrift, TLS or http).",
            ) from error
        except _BROKEN as error:
            raise AnswerLost(
                f"The answer of {self.endpoint} to {call.name} got lost: {_reason(error)}."
            ) from error

    def _answer(self, call: Call) -> Any:
        name, kind, sequence = self._protocol.readMessageBegin()
        if kind == TMessageType.EXCEPTION:
            failure = TApplicationException()
            failure.read(self._protocol)
            raise failure
        if name != call.name or sequence != self._sequence:
            raise ValueError(f"The answer belongs to {name}, number {sequence}.")
        result = call.result()
        result.read(self._protocol)
        for field in call.throws:
            failure = getattr(result, field)
            if failure is not None:
                raise failure
        if not call.returns:
            return None
        if result.success is None:
            raise TApplicationException(
                TApplicationException.MISSING_RESULT, "The answer is empty."
            )
        return result.success

    def _check_status(self, call: Call) -> None:
        status = self._http.code
        answered = f"{self.endpoint} answered {call.name} with HTTP {status} {self._http.message}."
        if status in (401, 403):
            raise MetastoreCallFailed(answered, remedy="Check the user and the access token.")
        if status >= 500:
            raise AnswerLost(answered)
        if status != 200:
            raise UnsupportedMetastore(answered, remedy="Check the path of the metastore uri.")


def _open_socket(endpoint: Endpoint, options: MetastoreOptions) -> Any:
    if options.tls_ca_file is None:
        channel = TSocket(endpoint.host, endpoint.port, socket_keepalive=True)
    else:
        channel = TSSLSocket(endpoint.host, endpoint.port, ssl_context=_tls(options))
    channel.setTimeout(options.connect_timeout_seconds * 1000)
    channel.open()
    channel.setTimeout(options.read_timeout_seconds * 1000)
    return channel


def _open_http(endpoint: Endpoint, options: MetastoreOptions) -> Any:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    channel = THttpClient(
        f"{endpoint.scheme}://{host}:{endpoint.port}{endpoint.path}",
        ssl_context=_tls(options) if endpoint.scheme == "https" else None,
    )
    headers = {"x-actor-username": acting_user(options)}
    if options.token_env is not None:
        token = os.environ.get(options.token_env)
        if not token:
            raise InvalidJob(f"The environment variable {options.token_env} holds no token.")
        headers["Authorization"] = f"Bearer {token}"
    channel.setCustomHeaders(headers)
    channel.setTimeout(options.read_timeout_seconds * 1000)
    if not channel.using_proxy():
        # The channel connects anew for every request, with the read timeout; a host that is down
        # must be known earlier than that, and before anything was sent.
        address = (endpoint.host, endpoint.port)
        socket.create_connection(address, timeout=options.connect_timeout_seconds).close()
    channel.open()
    return channel


def _tls(options: MetastoreOptions) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=options.tls_ca_file)


def _reason(error: BaseException) -> str:
    """What went wrong, in the words of the innermost error."""
    inner = getattr(error, "inner", None)
    if isinstance(inner, BaseException):
        return _reason(inner)
    if isinstance(error, TTransportException) and error.type == TTransportException.END_OF_FILE:
        return "the connection was closed"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__
