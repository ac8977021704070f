"""One connection to one metastore host: binary Thrift over TCP, over TLS, or over HTTP(S)."""

import base64
import getpass
import io
import logging
import os
import socket
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote, urlsplit

from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.Thrift import TApplicationException, TMessageType, TType
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportBase, TTransportException

from hiveacid.errors import (
    AnswerLost,
    AuthenticationFailed,
    HiveAcidError,
    InvalidJob,
    MetastoreCallFailed,
    MetastoreUnreachable,
    UnsupportedMetastore,
)
from hiveacid.jobs.options import DELEGATION_TOKEN, KERBEROS, PROTECTIONS, MetastoreOptions
from hiveacid.metastore.endpoint import Endpoint
from hiveacid.metastore.kept_tokens import token_of
from hiveacid.metastore.sasl.channel import Mechanism, Protection, SaslChannel
from hiveacid.metastore.thrift.idl import Call, ServerException

# Most connections need neither TLS, nor HTTP, nor an authentication, whose modules are heavy.
if TYPE_CHECKING:
    from http.client import HTTPConnection
    from ssl import SSLContext

# Time limits for the metastore, including all limits that users cannot set.
#
# Of the two settings of users, `connect_timeout_seconds` limits the time for one host to accept a
# connection, and `read_timeout_seconds` limits one call as a whole: connecting to one host after
# the other, the answer, and a retry. After a lost answer, the outcome of a commit is queried for
# as long as the metastore keeps a silent transaction, or for `patience_seconds` if that is longer,
# so a commit succeeds or fails within all of these times together.


# Limit for authentication by a host that has accepted a connection; then the next host is tried.
IDENTIFICATION_SECONDS = 30
# Limit for a machine to acknowledge sent data, even if the metastore on it is busy.
SILENT_MACHINE_SECONDS = 60
# Pause between two checks of the outcome of a commit, initially and at most.
OUTCOME_PAUSE_SECONDS = 0.5
LONGEST_OUTCOME_PAUSE_SECONDS = 10
# Limit for sending a commit that the metastore answers with an internal failure, for example of its
# database, and has not executed.
MOST_COMMITS = 5
# Means no limit: sockets accept no longer time than a clock can represent.
_FOREVER = 1e9


class Deadline:
    """The time limit of an operation."""

    def __init__(self, seconds: float) -> None:
        """Set it.

        Args:
            seconds: From now on.
        """
        self._at = time.monotonic() + min(seconds, _FOREVER)

    @property
    def remaining(self) -> float:
        """The seconds that are left; 0 when it has passed."""
        return max(0.0, self._at - time.monotonic())

    def within(self, seconds: float) -> Self:
        """Return this limit, or one in the given number of seconds if that is earlier."""
        return type(self)(min(seconds, self.remaining))


log = logging.getLogger(__name__)
# It logs a traceback of each host that refuses a connection; the error names the hosts.
logging.getLogger(TSocket.__module__).addFilter(lambda record: record.levelno > logging.INFO)

_BROKEN = (TTransportException, EOFError, OSError)
# An answer that claims more is garbled. A string has Thrift's own limit, 16 MB.
_MOST_ELEMENTS = 1 << 22
_MOST_BYTES = 256 << 20
_MOST_AT_ONCE = 1 << 20
_KEEP_ALIVE = {
    "TCP_KEEPIDLE": SILENT_MACHINE_SECONDS // 2,
    "TCP_KEEPINTVL": SILENT_MACHINE_SECONDS // 6,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": SILENT_MACHINE_SECONDS * 1000,
}


def acting_user(options: MetastoreOptions) -> str:
    """Return the user name sent to the metastore, chosen like in Hadoop's own clients."""
    return options.user or os.environ.get("HADOOP_USER_NAME") or getpass.getuser()


def _as_it_is(answer: Any) -> Any:
    return answer


class Connection:
    """An open connection; it carries one call at a time.

    It belongs to the process that opened it: two forked processes would number their calls alike,
    so that each would accept an answer to the other one.

    Attributes:
        endpoint: The host.
        user: The authenticated caller, if any.
        is_busy: Whether a call is under way.
    """

    def __init__(self, endpoint: Endpoint, options: MetastoreOptions, deadline: Deadline) -> None:
        """Connect.

        Args:
            endpoint: The host.
            options: The connection options.
            deadline: The time limit.
        """
        self.endpoint = endpoint
        self.user: str | None = None
        self.is_busy = False
        mechanism = _mechanism(endpoint, options)
        if mechanism is None:
            _warn_of_plain(endpoint, options)
        seconds = deadline.within(options.connect_timeout_seconds).remaining
        try:
            if endpoint.scheme == "thrift":
                channel = open_socket(endpoint, options, seconds)
            else:
                channel = HttpChannel(
                    endpoint,
                    _http_headers(endpoint, options),
                    _tls(options),
                    options.connect_timeout_seconds,
                )
                channel.open(seconds)
        except _BROKEN as error:
            raise MetastoreUnreachable(
                f"{endpoint} cannot be reached: {_reason(error)}."
            ) from error
        self._channel = _Bounded(channel)
        if mechanism is None:
            self._transport = TBufferedTransport(self._channel)
        else:
            self._transport = TBufferedTransport(self._proved(mechanism, deadline))
            self._require_protection(mechanism.protection, options)
            self.user = mechanism.user
            _warn_of_plain(endpoint, options, mechanism.protection)
        # strictRead: data of any other protocol is recognised by its first bytes, instead of being
        # interpreted as the length of an endless string.
        self._protocol = TBinaryProtocolAccelerated(
            self._transport, strictRead=True, container_length_limit=_MOST_ELEMENTS
        )
        self._sequence = 0
        self._closed = False
        self._process = os.getpid()

    def _proved(self, mechanism: Mechanism, deadline: Deadline) -> SaslChannel:
        """Return the channel after both sides are authenticated."""
        channel = SaslChannel(self._channel, mechanism, str(self.endpoint))
        self._channel.begin(deadline.within(IDENTIFICATION_SECONDS))
        try:
            channel.negotiate()
        except HiveAcidError:
            self._channel.close()
            raise
        except (*_BROKEN, ValueError) as error:
            self._channel.close()
            raise AnswerLost(
                f"{self.endpoint} did not answer when asked by {mechanism.name}: {_reason(error)}."
            ) from error
        return channel

    def _require_protection(self, agreed: Protection, options: MetastoreOptions) -> None:
        """Refuse a connection that is protected less than the options require."""
        least = options.kerberos_min_protection
        order = list(Protection)
        if least is not None and order.index(agreed) < PROTECTIONS.index(least):
            self._channel.close()
            raise AuthenticationFailed(
                f"{self.endpoint} offers the protection {PROTECTIONS[order.index(agreed)]}, and"
                f" kerberos_min_protection is {least}.",
                remedy="Raise hadoop.rpc.protection of the metastore.",
            )

    def is_open(self) -> bool:
        """Return whether this process opened it, and the other side has kept it open since."""
        return self._is_own and not self._closed and bool(self._transport.isOpen())

    def close(self) -> None:
        """Close the connection; safe to repeat.

        A forked process leaves the connection of its parent open: closing TLS sends a message.
        """
        if self._is_own and not self._closed:
            self._closed = True
            self._transport.close()

    @property
    def _is_own(self) -> bool:
        return self._process == os.getpid()

    def invoke(
        self,
        call: Call,
        *arguments: Any,
        deadline: Deadline,
        read: Callable[[Any], Any] = _as_it_is,
    ) -> Any:
        """Make a call and wait for its answer.

        Args:
            call: The call.
            arguments: The call's arguments in their order.
            deadline: The time limit for the complete answer.
            read: Converts the answer; an answer that it cannot read is garbled.

        Raises:
            AnswerLost: The connection broke, or the received data is no answer to this call; whether
                the call was executed is unknown.
            ServerException: An exception that the call declares, unchanged.
            TApplicationException: The server does not support the call, or had an internal failure.
        """
        self.is_busy = True
        self._sequence += 1
        self._channel.begin(deadline)
        self._protocol.writeMessageBegin(call.name, TMessageType.CALL, self._sequence)
        call.arguments(*arguments).write(self._protocol)
        self._protocol.writeMessageEnd()
        try:
            self._transport.flush()
            return read(self._answer(call))
        except (HiveAcidError, ServerException, TApplicationException):
            raise
        except _BROKEN as error:
            raise AnswerLost(
                f"The answer of {self.endpoint} to {call.name} got lost: {_reason(error)}."
            ) from error
        except Exception as error:
            lost = AnswerLost(
                f"{self.endpoint} did not answer {call.name} as a Hive Metastore does:"
                f" {_reason(error)}.",
                remedy="Check the connection to the metastore, for example proxies.",
            )
            lost.garbled = True
            raise lost from error
        finally:
            self.is_busy = False

    def _answer(self, call: Call) -> Any:
        name, kind, sequence = self._protocol.readMessageBegin()
        if name != call.name or sequence != self._sequence:
            raise ValueError(f"it belongs to {name!r}, number {sequence}")
        if kind == TMessageType.EXCEPTION:
            failure = TApplicationException()
            failure.read(self._protocol)
            raise failure
        if kind != TMessageType.REPLY:
            raise ValueError(f"it is a message of kind {kind}")
        if not call.returns:
            return self._check_done(call)
        result = call.result()
        result.read(self._protocol)
        for field in call.throws:
            failure = getattr(result, field)
            if failure is not None:
                raise failure
        if result.success is None:
            raise TApplicationException(
                TApplicationException.MISSING_RESULT, "The answer is empty."
            )
        return result.success

    def _check_done(self, call: Call) -> None:
        """Read the answer of a call without a result, which is empty or an exception.

        The codec would pass over an exception that only newer servers declare, as if all were well.
        """
        _, kind, number = self._protocol.readFieldBegin()
        if kind == TType.STOP:
            return
        declared = {entry[0]: entry[3][0] for entry in call.result.thrift_spec if entry is not None}
        if kind != TType.STRUCT:
            raise ValueError(f"it holds a value of kind {kind}")
        if number not in declared:
            raise TApplicationException(
                TApplicationException.MISSING_RESULT,
                f"The answer is exception {number}, which is not known here.",
            )
        failure = declared[number]()
        failure.read(self._protocol)
        if self._protocol.readFieldBegin()[1] != TType.STOP:
            raise ValueError("it holds more than an exception")
        raise failure


class _Bounded(TTransportBase):  # type: ignore[misc]
    """Limits the time and the bytes of one call on a channel."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel

    def begin(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self._bytes = 0

    def isOpen(self) -> bool:  # noqa: N802
        return bool(self._channel.isOpen())

    def close(self) -> None:
        self._channel.close()

    def read(self, size: int) -> bytes:
        self._apply_deadline()
        # Never the full length from garbled data: memory for it would be allocated at once.
        data: bytes = self._channel.read(min(size, _MOST_AT_ONCE))
        self._bytes += len(data)
        if self._bytes > _MOST_BYTES:
            raise ValueError(f"it is longer than {_MOST_BYTES} bytes")
        return data

    def write(self, data: bytes) -> None:
        self._apply_deadline()
        self._channel.write(data)

    def flush(self) -> None:
        self._apply_deadline()
        self._channel.flush()

    def _apply_deadline(self) -> None:
        remaining_seconds = self._deadline.remaining
        if remaining_seconds <= 0:
            raise TTransportException(TTransportException.TIMED_OUT, "timed out")
        self._channel.setTimeout(remaining_seconds * 1000)


def _mechanism(endpoint: Endpoint, options: MetastoreOptions) -> Mechanism | None:
    """The mechanism that authenticates the caller."""
    if options.auth_mechanism == KERBEROS:
        from hiveacid.metastore.sasl.kerberos import Kerberos

        return Kerberos(options, endpoint.host, str(endpoint))
    if options.auth_mechanism == DELEGATION_TOKEN:
        from hiveacid.metastore.sasl.delegation_token import DelegationToken

        return DelegationToken.of(options).mechanism(str(endpoint))
    return None


@cache
def _warn_once(text: str) -> None:
    log.warning("%s", text)


def _warn_of_plain(
    endpoint: Endpoint, options: MetastoreOptions, protection: Protection = Protection.AUTH
) -> None:
    """Warn once about data that is readable on the network."""
    if protection is Protection.PRIVACY:
        return
    if endpoint.scheme != "https" and not (
        options.tls or options.tls_ca_file or _is_local(endpoint)
    ):
        _warn_once(
            f"The connection to {endpoint} is without TLS: others on the network can read"
            f"{'' if protection is Protection.INTEGRITY else ' and change'} what goes over it. Use"
            " TLS or https where that is not a trusted network."
        )


def _is_local(endpoint: Endpoint) -> bool:
    """Return whether the endpoint is this machine."""
    return endpoint.host in ("localhost", "::1") or endpoint.host.startswith("127.")


def open_socket(endpoint: Endpoint, options: MetastoreOptions, seconds: float) -> Any:
    """Connect to a host, by TLS if the options require it.

    Args:
        endpoint: The host.
        options: The connection options.
        seconds: The longest wait.
    """
    if not options.tls and options.tls_ca_file is None:
        channel = TSocket(endpoint.host, endpoint.port, socket_keepalive=True)
    else:
        from thrift.transport.TSSLSocket import TSSLSocket

        channel = TSSLSocket(endpoint.host, endpoint.port, ssl_context=_tls(options))
    channel.setTimeout(seconds * 1000)
    channel.open()
    # A dead machine and a busy metastore are both silent: this distinguishes them.
    for name, value in _KEEP_ALIVE.items():
        if hasattr(socket, name):
            channel.handle.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    channel.handle.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return channel


def _http_headers(endpoint: Endpoint, options: MetastoreOptions) -> dict[str, str]:
    headers = {"x-actor-username": acting_user(options), "Content-Type": "application/x-thrift"}
    if options.token_env is not None:
        if endpoint.scheme == "http" and not _is_local(endpoint):
            raise InvalidJob(
                f"The bearer token would go to {endpoint} without TLS: others on the network"
                " could read and use it.",
                remedy="Use https.",
            )
        token = token_of(options.token_env)
        if not token:
            raise InvalidJob(f"The environment variable {options.token_env} holds no token.")
        if not token.isascii() or not token.isprintable():
            raise InvalidJob(f"The value of {options.token_env} cannot be a token.")
        headers["Authorization"] = f"Bearer {token}"
    return headers


def _tls(options: MetastoreOptions) -> "SSLContext":
    import ssl

    return ssl.create_default_context(cafile=options.tls_ca_file)


def _reason(error: BaseException) -> str:
    """The cause in the words of the innermost error."""
    inner = getattr(error, "inner", None)
    if isinstance(inner, BaseException):
        return _reason(inner)
    if isinstance(error, TTransportException) and error.type == TTransportException.END_OF_FILE:
        return "the connection was closed"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__


# Thrift over HTTP, as Hive Metastore 4 offers it: a call is the body of a request


_MOST_OF_A_RESPONSE = 1 << 16


class HttpChannel:
    """Thrift socket over HTTP; makes a new connection for every call."""

    def __init__(
        self, address: "Endpoint", headers: Mapping[str, str], tls: "SSLContext", connect: float
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
        self._connection: HTTPConnection | None = None
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
        from http.client import HTTPException

        body, self._request = self._request.getvalue(), io.BytesIO()
        deadline = Deadline(self._seconds)
        connection, self._connection = self._connection, None
        if connection is None:
            connection = self._connect(deadline.within(self._connect_seconds).remaining)
        self._connection = connection
        try:
            channel = connection.sock
            channel.settimeout(deadline.remaining)
            connection.request("POST", self._address.path, body, self._headers)
            with connection.getresponse() as response:
                self._check(response.status, response.reason)
                if cookie := response.getheader("Set-Cookie"):
                    self._headers["Cookie"] = cookie
                answer = io.BytesIO()
                while piece := response.read1(_MOST_OF_A_RESPONSE):
                    answer.write(piece)
                    if deadline.remaining <= 0 or answer.tell() > _MOST_BYTES:
                        raise TimeoutError("it does not end")
                    # From Python 3.13 on, the last piece may close it.
                    if not response.isclosed():
                        channel.settimeout(deadline.remaining)
            self._answer = io.BytesIO(answer.getvalue())
        except HTTPException as error:
            raise TTransportException(inner=error) from error
        finally:
            self._drop()

    def _connect(self, seconds: float) -> "HTTPConnection":
        from http.client import HTTPConnection, HTTPSConnection

        address = self._address
        host, port, tunnel = address.host, address.port, None
        if proxy := _proxy(address.scheme, address.host):
            host, port, tunnel = proxy
        connection: HTTPConnection
        if address.scheme == "https":
            connection = HTTPSConnection(host, port, timeout=seconds, context=self._tls)
        else:
            connection = HTTPConnection(host, port, timeout=seconds)
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
    from urllib.request import getproxies, proxy_bypass

    proxy_url = getproxies().get(scheme)
    if not proxy_url or proxy_bypass(host):
        return None
    parts = urlsplit(proxy_url if "://" in proxy_url else f"http://{proxy_url}")
    headers = {}
    if parts.username:
        secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Proxy-Authorization"] = f"Basic {base64.b64encode(secret.encode()).decode()}"
    return parts.hostname or "", parts.port or 80, headers
