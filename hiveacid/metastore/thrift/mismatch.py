"""Detection of mismatched authentication: only one side uses Kerberos."""

from collections.abc import Callable
from contextlib import closing
from typing import TypeVar

from thrift.transport.TTransport import TTransportException

from hiveacid.errors import AuthenticationMismatch, MetastoreError
from hiveacid.jobs.options.metastore_options import KERBEROS, NO_PROOF, MetastoreOptions
from hiveacid.metastore.sasl.channel import Status, opening, read_message, spoken
from hiveacid.metastore.thrift.deadline import Deadline
from hiveacid.metastore.thrift.endpoint import Endpoint
from hiveacid.metastore.thrift.transport import open_socket

# Limit for the detection; the connection has failed by then, and the caller waits for the reason.
_SECONDS = 2
# A nonexistent call in Thrift's binary protocol, and the beginning of every answer to a call.
_VERSION = b"\x80\x01"
_CALL = _VERSION + b"\x00\x01" + b"\x00\x00\x00\x08hiveacid" + b"\x00\x00\x00\x01" + b"\x00"

_Exactly = Callable[[int], bytes]
_Answer = TypeVar("_Answer")


def mismatch(
    endpoint: Endpoint, options: MetastoreOptions, deadline: Deadline
) -> MetastoreError | None:
    """Call a host that did not answer as expected with the other kind of authentication.

    Args:
        endpoint: The host.
        options: The options of the failed attempt.
        deadline: The time limit.

    Returns:
        The error for a mismatch, unless the cause is another one.
    """
    if endpoint.scheme != "thrift" or deadline.left <= 0:
        return None
    seconds = deadline.within(_SECONDS).left
    if options.auth_mechanism == NO_PROOF:
        answer = asked_by_sasl(endpoint, options, seconds)
        if answer is None:
            return None
        if "Unsupported mechanism" in answer:
            return AuthenticationMismatch(
                f"The metastore at {endpoint} requires authentication other than Kerberos: {answer}.",
                remedy="Passwords are not supported; use Kerberos, or HTTP with a bearer token.",
            )
        return AuthenticationMismatch(
            f"The metastore at {endpoint} asks for Kerberos.",
            remedy='Set auth_mechanism to "GSSAPI" in the connection or the options.',
        )
    if _answers_plainly(endpoint, options, seconds):
        return AuthenticationMismatch(
            f"The metastore at {endpoint} has no Kerberos.",
            remedy='Set auth_mechanism to "NONE", or hive.metastore.sasl.enabled in the metastore.',
        )
    return None


def asked_by_sasl(endpoint: Endpoint, options: MetastoreOptions, seconds: float) -> str | None:
    """Return a host's answer to a SASL client without credentials.

    Args:
        endpoint: The host.
        options: The connection options.
        seconds: The longest wait.

    Returns:
        Its text, which may be empty; null if it does not support SASL.
    """
    answered = _asked(endpoint, options, seconds, opening(KERBEROS), read_message)
    if answered is None:
        return None
    status, payload = answered
    return "" if status is Status.OK else spoken(payload)


def _answers_plainly(endpoint: Endpoint, options: MetastoreOptions, seconds: float) -> bool:
    header = _asked(endpoint, options, seconds, _CALL, lambda exactly: exactly(4))
    return header is not None and header.startswith(_VERSION)


def _asked(
    endpoint: Endpoint,
    options: MetastoreOptions,
    seconds: float,
    question: bytes,
    read: Callable[[_Exactly], _Answer],
) -> _Answer | None:
    """Return a host's answer to a question, if any."""
    try:
        with closing(open_socket(endpoint, options, seconds)) as channel:
            channel.write(question)
            return read(channel.readAll)
    except (TTransportException, EOFError, OSError):
        return None
