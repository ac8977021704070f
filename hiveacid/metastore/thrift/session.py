"""Calls with several hosts, reconnection, and conversion of errors."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import Any, TypeVar
from weakref import WeakSet, ref

from thrift.Thrift import TApplicationException
from thrift.transport.TTransport import TTransportException

from hiveacid.errors import (
    AnswerLost,
    AuthenticationFailed,
    HiveAcidError,
    MetastoreCallFailed,
    MetastoreError,
    MetastoreTroubled,
    MetastoreUnreachable,
    TableNotFound,
    TransactionAborted,
    UnsupportedMetastore,
    WriteConflict,
)
from hiveacid.jobs.options import KERBEROS, NO_PROOF, MetastoreOptions
from hiveacid.metastore.endpoint import Endpoint
from hiveacid.metastore.sasl.channel import Status, opening, read_message, spoken
from hiveacid.metastore.thrift import idl_tables, idl_txns
from hiveacid.metastore.thrift.idl import Call, ServerException
from hiveacid.metastore.thrift.probes import Probes
from hiveacid.metastore.thrift.repeating import Outage, Repeating
from hiveacid.metastore.thrift.transport import (
    IDENTIFICATION_SECONDS,
    Connection,
    Deadline,
    acting_user,
    open_socket,
)
from hiveacid.rules.features import Features, is_known_release, may_name_conflicts
from hiveacid.rules.metastore_version import MetastoreVersion

_MOST_CONNECTIONS = 8
# The metastores that have answered this process: their addresses are right.
_REACHED: set[str] = set()
# Whether they name conflicts, and their features, by address, stated release, and stated profile.
_Key = tuple[str, str, str]
_IDENTIFIED: dict[_Key, bool] = {}
_FEATURES: dict[_Key, Features] = {}
_OF_THREAD = threading.local()
_Answer = TypeVar("_Answer")
_CONFLICT = re.compile(
    r"Aborting \[txnid:(?P<own>\d+),.*due to a write conflict on (?P<what>.+)"
    r" committed by \[txnid:(?P<other>\d+),"
)


class Session:
    """Makes calls on the first host that answers.

    A host that has not answered becomes the last one. No host gets all of the time while others are
    available, because a host may hang without reporting it.

    Every thread has its own connection, because a connection carries one call at a time: a
    heartbeat never waits behind a long call of another thread. A forked process opens its own. A
    thread that makes no call soon hands its connection back for the next one.

    Attributes:
        outage: The current outage, and the patience for it.
    """

    def __init__(self, options: MetastoreOptions) -> None:
        self._options = options
        self.outage = Outage()
        self._endpoints = Endpoint.parse(options.uris)
        self._local = threading.local()
        self._connections: WeakSet[Connection] = WeakSet()
        # Those that were handed back, each with the release of its server.
        self._spare: list[tuple[Connection, str]] = []
        # Whose database the ids of this session are.
        self._database: str | None = None
        # True after any host has answered with the configured authentication.
        self._has_connected = False

    def call(
        self,
        call: Call,
        *arguments: Any,
        about: str = "",
        read: Callable[[Any], Any] = lambda answer: answer,
    ) -> Any:
        """Make a call; retry it once after a lost answer, or wait for the end of an outage, if it may be.

        Args:
            call: The call.
            arguments: The call's arguments in their order.
            about: The table or database that an error should name.
            read: Converts the answer; an answer that it cannot read counts as lost.
        """

        def attempt() -> Any:
            return self._invoke(call, *arguments, deadline=self._deadline(), read=read)

        try:
            return self._after_outage(attempt) if call.after_outage else attempt()
        except (ServerException, TApplicationException) as failure:
            raise _translate(failure, call, about) from failure

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Limit the total time of all calls of this thread in the body of a with statement."""
        outer: Deadline | None = getattr(self._local, "limit", None)
        self._local.limit = Deadline(seconds) if outer is None else outer.within(seconds)
        try:
            yield
        finally:
            self._local.limit = outer

    @property
    def features(self) -> Features:
        """The features of the metastore, which are probed once by this process.

        Raises:
            UnsupportedMetastore: The stated profile contradicts the metastore.
        """
        connection = self._after_outage(lambda: self._connect(self._deadline()))
        key = self._key(self._local.release)
        if key not in _FEATURES:
            _, *release_facts = key
            _FEATURES[key] = Features.of_release(*release_facts) or Features.of_probes(
                self._after_outage(lambda: self._probed(connection)), key[-1]
            )
        return _FEATURES[key]

    @property
    def version(self) -> MetastoreVersion:
        """The generation of the connected server, by a call that Hive 3.1 does not have."""
        self._after_outage(lambda: self._connect(self._deadline()))
        return MetastoreVersion(4 if _IDENTIFIED[self._key(self._local.release)] else 3)

    @property
    def user(self) -> str:
        """The caller: from the options, or as authenticated by the ticket or the token."""
        if self._options.user is None and self._options.auth_mechanism != NO_PROOF:
            proved = self._after_outage(lambda: self._connect(self._deadline())).user
            assert proved is not None
            return proved
        return acting_user(self._options)

    def close(self) -> None:
        """Close the connections of all threads."""
        for connection in list(self._connections):
            connection.close()

    def hand_back(self) -> None:
        """Leave the connection of this thread to another one."""
        connection = vars(self._local).pop("connection", None)
        if connection is not None and connection.is_open():
            _OF_THREAD.connections = [
                reference for reference in _OF_THREAD.connections if reference() is not connection
            ]
            self._spare.append((connection, self._local.release))

    def _deadline(self) -> Deadline:
        """Until when a call that begins now must be over."""
        limit: Deadline | None = getattr(self._local, "limit", None)
        seconds = self._options.read_timeout_seconds
        return Deadline(seconds) if limit is None else limit.within(seconds)

    def _after_outage(self, attempt: Callable[[], _Answer]) -> _Answer:
        """Repeat an attempt while no host takes a connection and the patience lasts."""
        while True:
            try:
                return attempt()
            except MetastoreUnreachable as error:
                limit: Deadline | None = getattr(self._local, "limit", None)
                remaining_seconds = float("inf") if limit is None else limit.remaining
                if self._options.uris not in _REACHED or not self.outage.wait(
                    error, remaining_seconds
                ):
                    raise

    def _invoke(self, call: Call, *arguments: Any, deadline: Deadline, read: Any) -> Any:
        unsafe = call.repeating is Repeating.UNSAFE
        attempts = 1 if unsafe or len(self._endpoints) == 1 else 2
        first = deadline.within(deadline.remaining / attempts)
        connection = self._connect(first)
        try:
            return self._use(connection, call, *arguments, deadline=first, read=read)
        except AnswerLost:
            if unsafe or deadline.remaining <= 0:
                raise
        second_connection = self._connect(deadline)
        return self._use(second_connection, call, *arguments, deadline=deadline, read=read)

    def _use(self, connection: Connection, call: Call, *arguments: Any, **options: Any) -> Any:
        try:
            return connection.invoke(call, *arguments, **options)
        except ServerException:
            raise
        except BaseException as error:
            if isinstance(error, AnswerLost):
                self._put_last(connection.endpoint)
            # An interrupted call leaves its answer behind, which no other call may read; and after
            # an internal error the server often closes the connection without a word.
            connection.close()
            raise

    def _connect(self, deadline: Deadline) -> Connection:
        connection: Connection | None = getattr(self._local, "connection", None)
        if connection is not None and connection.is_open():
            return connection
        with suppress(IndexError):
            while True:
                connection, release = self._spare.pop()
                if connection.is_open():
                    return self._keep(connection, release)
        failures: list[MetastoreError] = []
        doubtful: Endpoint | None = None
        # A host that accepts a connection and then breaks it may be busy or restarting; a host that
        # refuses the connection is down.
        hosts = list(self._endpoints)
        for number, endpoint in enumerate(hosts):
            turn = deadline.within(deadline.remaining / (len(hosts) - number))
            try:
                connection = Connection(endpoint, self._options, turn)
                release = self._identify(connection, turn.within(IDENTIFICATION_SECONDS))
            except MetastoreError as failure:
                failures.append(
                    _unserved(endpoint, failure) if isinstance(failure, AnswerLost) else failure
                )
                self._put_last(endpoint)
                if isinstance(failure, AnswerLost | UnsupportedMetastore):
                    doubtful = endpoint
                if self._may_retry_host(failure) and len(hosts) < 2 * len(self._endpoints):
                    hosts.append(endpoint)
                continue
            self._has_connected = True
            _REACHED.add(self._options.uris)
            self.outage.end()
            self._connections.add(connection)
            return self._keep(connection, release)
        reason = (
            mismatch(doubtful, self._options, deadline)
            if doubtful and not self._has_connected
            else None
        )
        raise reason or _no_host(failures)

    def _keep(self, connection: Connection, release: str) -> Connection:
        """Make a connection that of this thread."""
        self._local.connection, self._local.release = connection, release
        _limit_connections(connection)
        return connection

    def _may_retry_host(self, failure: MetastoreError) -> bool:
        """Return whether the same host may take the next connection."""
        if isinstance(failure, AnswerLost):
            return True
        # Tickets in memory may be for keys that were replaced; the keytab provides new ones.
        return type(failure) is AuthenticationFailed and self._options.kerberos_keytab is not None

    def _put_last(self, endpoint: Endpoint) -> None:
        other_endpoints = [
            other_endpoint for other_endpoint in self._endpoints if other_endpoint != endpoint
        ]
        self._endpoints = (*other_endpoints, endpoint)

    def _identify(self, connection: Connection, deadline: Deadline) -> str:
        """Return the release that the server states; one call if this process knows the server."""
        try:
            release = _release(connection, deadline)
            key = self._key(release)
            if key not in _IDENTIFIED:
                _IDENTIFIED[key] = is_known_release(release) or _names_conflicts(
                    connection, deadline, may_name_conflicts(*key[1:])
                )
            # An authenticated caller cannot claim another name.
            if connection.endpoint.scheme == "thrift" and connection.user is None:
                user = acting_user(self._options)
                connection.invoke(idl_tables.set_ugi, user, [], deadline=deadline)
            if len(self._endpoints) > 1:
                self._require_same_database(connection, deadline)
        except AnswerLost as lost:
            connection.close()
            if not lost.garbled:
                raise
            raise UnsupportedMetastore(
                lost.what,
                remedy="Check that the uri names the metastore's own port and its transport"
                " (thrift, TLS or http).",
            ) from lost
        except (ServerException, TApplicationException) as failure:
            connection.close()
            raise _translate(failure, idl_tables.set_ugi, "") from failure
        except BaseException:
            connection.close()
            raise
        return release

    def _key(self, release: str) -> _Key:
        return self._options.uris, release, self._options.metastore_profile

    def _probed(self, connection: Connection) -> dict[str, bool]:
        """Ask the server about its features, unless it is one of Hive 3.1."""
        probed_features = {"names_conflicts": _IDENTIFIED[self._key(self._local.release)]}
        if probed_features["names_conflicts"]:
            connect = partial(Connection, connection.endpoint, self._options)
            probed_features |= Probes(
                connect, self._deadline(), acting_user(self._options)
            ).features()
        return probed_features

    def _require_same_database(self, connection: Connection, deadline: Deadline) -> None:
        """Reject a host with a different database, where ids refer to different transactions."""
        try:
            database_id = connection.invoke(idl_tables.get_metastore_db_uuid, deadline=deadline)
        except ServerException:
            return
        except TApplicationException as failure:
            if failure.type == TApplicationException.UNKNOWN_METHOD:
                return  # Some services keep it to themselves.
            raise
        if self._database not in (None, database_id):
            raise UnsupportedMetastore(
                f"The metastore at {connection.endpoint} has another database than the one that"
                " answered before.",
                remedy="Name addresses of one metastore only: instances that share a database.",
            )
        self._database = database_id


def _release(connection: Connection, deadline: Deadline) -> str:
    """Return the release that a server states; "" if it states none."""
    try:
        return str(connection.invoke(idl_tables.get_version, deadline=deadline))
    except TApplicationException as failure:
        if failure.type == TApplicationException.UNKNOWN_METHOD:
            return ""
        raise


def _names_conflicts(connection: Connection, deadline: Deadline, is_possible: bool) -> bool:
    """Return whether a server has the call for conflicts, which Hive 3.1 does not have."""
    if is_possible and _supports(connection, deadline, idl_txns.get_latest_txnid_in_conflict, 0):
        return True
    request = idl_txns.GetValidWriteIdsRequest(fullTableNames=[], validTxnList="0:0::")
    if not _supports(connection, deadline, idl_txns.get_valid_write_ids, request):
        raise UnsupportedMetastore(
            f"The metastore at {connection.endpoint} is older than version 3.",
            remedy="ACID tables with write ids need Hive Metastore 3.1 or newer.",
        )
    return False


def _supports(connection: Connection, deadline: Deadline, call: Call, argument: Any) -> bool:
    try:
        connection.invoke(call, argument, deadline=deadline)
    except TApplicationException as failure:
        if failure.type == TApplicationException.UNKNOWN_METHOD:
            return False
        raise
    except ServerException:
        pass  # The server supports the call but rejects the argument.
    return True


def _no_host(failures: list[MetastoreError]) -> MetastoreError:
    """Combine the errors of all hosts; an unsuitable server takes precedence over one that is down."""
    messages = " ".join(dict.fromkeys(failure.what for failure in failures))
    for failure in failures:
        if not isinstance(failure, MetastoreUnreachable):
            return type(failure)(messages, remedy=failure.remedy)
    remedies = {failure.remedy for failure in failures} - {MetastoreUnreachable.default_remedy}
    return MetastoreUnreachable(messages, remedy=remedies.pop() if remedies else None)


def _unserved(endpoint: Endpoint, failure: AnswerLost) -> MetastoreUnreachable:
    """Describe a host that accepts connections, but does not identify itself."""
    return MetastoreUnreachable(
        f"{endpoint} accepts connections and does not serve them, probably because all of its"
        f" threads are in use. {failure.what}",
        remedy="Close tables whose frames are not needed any more, raise"
        " metastore.server.max.threads, or check that the uri names the metastore's own port and its"
        " transport.",
    )


def _limit_connections(connection: Connection) -> None:
    """Close the oldest connections of this thread; their clients connect again if necessary.

    A program may have one client for each of many tables, but a server has few threads.
    """
    references: list[ref[Connection]] = getattr(_OF_THREAD, "connections", [])
    open_connections = [
        open_connection
        for open_connection in (known_one() for known_one in references)
        if open_connection and open_connection.is_open()
    ]
    for open_connection in open_connections[: 1 - _MOST_CONNECTIONS]:
        # The garbage collector may end a scan, which connects, during a call of this thread.
        if not open_connection.is_busy:
            open_connection.close()
    _OF_THREAD.connections = [
        *map(ref, filter(Connection.is_open, open_connections)),
        ref(connection),
    ]


def _translate(failure: Exception, call: Call, about: str) -> HiveAcidError:
    message = getattr(failure, "message", None) or str(failure)
    match failure:
        case idl_tables.NoSuchObjectException():
            # The rest of the message mostly repeats this.
            text = message.rstrip(".")
            detail = "" if text.endswith(f"{about} table not found") else f": {text}"
            return TableNotFound(f"{about} does not exist{detail}.")
        case idl_txns.TxnAbortedException() if conflict := _CONFLICT.search(message):
            database, _, remainder = conflict["what"].partition("/")
            table, _, partition = remainder.partition("/")
            where = f"{database}.{table}" + (f" partition {partition}" if partition else "")
            return WriteConflict(
                f"Transaction {conflict['own']} lost {where} to transaction {conflict['other']},"
                " which committed first."
            )
        case idl_txns.TxnAbortedException() | idl_txns.NoSuchTxnException():
            return TransactionAborted(f"{message.rstrip('.')}.")
        case idl_txns.NoSuchLockException():
            return TransactionAborted(f"The lock has expired: {message.rstrip('.')}.")
    summary = f"{call.name} failed{f' for {about}' if about else ''}: {message}"
    if getattr(failure, "type", None) == TApplicationException.INTERNAL_ERROR:
        return MetastoreTroubled(summary)
    return MetastoreCallFailed(summary)


# Detection of mismatched authentication: only one side uses Kerberos


# Limit for the detection; the connection has failed by then, and the caller waits for the reason.
_SECONDS = 2
# A nonexistent call in Thrift's binary protocol, and the beginning of every answer to a call.
_VERSION = b"\x80\x01"
_CALL = _VERSION + b"\x00\x01" + b"\x00\x00\x00\x08hiveacid" + b"\x00\x00\x00\x01" + b"\x00"

_Exactly = Callable[[int], bytes]


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
    if endpoint.scheme != "thrift" or deadline.remaining <= 0:
        return None
    seconds = deadline.within(_SECONDS).remaining
    if options.auth_mechanism == NO_PROOF:
        answer = asked_by_sasl(endpoint, options, seconds)
        if answer is None:
            return None
        if "Unsupported mechanism" in answer:
            return AuthenticationFailed(
                f"The metastore at {endpoint} requires authentication other than Kerberos: {answer}.",
                remedy="Passwords are not supported; use Kerberos, or HTTP with a bearer token.",
            )
        return AuthenticationFailed(
            f"The metastore at {endpoint} asks for Kerberos.",
            remedy='Set auth_mechanism to "GSSAPI" in the connection or the options.',
        )
    if _answers_plainly(endpoint, options, seconds):
        return AuthenticationFailed(
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
    answered = _request(endpoint, options, seconds, opening(KERBEROS), read_message)
    if answered is None:
        return None
    status, payload = answered
    return "" if status is Status.OK else spoken(payload)


def _answers_plainly(endpoint: Endpoint, options: MetastoreOptions, seconds: float) -> bool:
    header = _request(endpoint, options, seconds, _CALL, lambda exactly: exactly(4))
    return header is not None and header.startswith(_VERSION)


def _request(
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
