"""Calls with several hosts, reconnecting, and errors in our own words."""

import re
import threading
from typing import Any
from weakref import WeakSet

from thrift.Thrift import TApplicationException  # noqa: TID253

from airflow_hiveacid.acid.errors import (
    AnswerLost,
    HiveAcidError,
    MetastoreCallFailed,
    MetastoreError,
    MetastoreUnreachable,
    TableNotFound,
    TransactionAborted,
    UnsupportedMetastore,
    WriteConflict,
)
from airflow_hiveacid.acid.locks import MetastoreVersion
from airflow_hiveacid.jobs.options import MetastoreOptions
from airflow_hiveacid.metastore import idl_tables, idl_txns
from airflow_hiveacid.metastore.idl import Call, ServerException
from airflow_hiveacid.metastore.transport import Connection, Endpoint, acting_user

_CONFLICT = re.compile(
    r"Aborting \[txnid:(?P<own>\d+),.*due to a write conflict on (?P<what>.+)"
    r" committed by \[txnid:(?P<other>\d+),"
)


class Session:
    """Makes calls on the first host that answers.

    Every thread has its own connection, because a connection carries one call at a time: a
    heartbeat never waits behind a long call of another thread.
    """

    def __init__(self, options: MetastoreOptions) -> None:
        self._options = options
        self._endpoints = Endpoint.parse(options.uris)
        self._local = threading.local()
        self._connections: WeakSet[Connection] = WeakSet()

    def call(self, call: Call, *arguments: Any, about: str = "") -> Any:
        """Make a call; a repeatable one is tried a second time when its answer got lost.

        Args:
            call: What to call.
            arguments: The call's arguments in their order.
            about: The table or database that an error should name.
        """
        try:
            return self._invoke(call, *arguments)
        except (ServerException, TApplicationException) as failure:
            raise _translate(failure, call, about) from failure

    @property
    def version(self) -> MetastoreVersion:
        """The version of the connected server, found out by a call that only version 4 knows."""
        self._connect()
        version: MetastoreVersion = self._local.version
        return version

    def close(self) -> None:
        """Close the connections of all threads."""
        for connection in list(self._connections):
            connection.close()

    def _invoke(self, call: Call, *arguments: Any) -> Any:
        connection = self._connect()
        try:
            return self._use(connection, call, *arguments)
        except AnswerLost:
            if not call.repeatable:
                raise
        return self._use(self._connect(), call, *arguments)

    def _use(self, connection: Connection, call: Call, *arguments: Any) -> Any:
        try:
            return connection.invoke(call, *arguments)
        except ServerException:
            raise
        except BaseException:
            # An interrupted call leaves its answer behind, which no other call may read; and after
            # an internal error the server often closes the connection without a word.
            connection.close()
            raise

    def _connect(self) -> Connection:
        connection: Connection | None = getattr(self._local, "connection", None)
        if connection is not None and connection.is_open():
            return connection
        failures: list[MetastoreError] = []
        for endpoint in self._endpoints:
            try:
                connection = Connection(endpoint, self._options)
                self._local.version = self._greet(connection)
            except MetastoreError as failure:
                failures.append(failure)
                continue
            self._local.connection = connection
            self._connections.add(connection)
            return connection
        raise _no_host(failures)

    def _greet(self, connection: Connection) -> MetastoreVersion:
        """Find out who is there; the first call on a connection is one that only version 4 knows."""
        try:
            version = MetastoreVersion.HMS4
            if not self._knows(connection, idl_txns.get_latest_txnid_in_conflict, 0):
                version = MetastoreVersion.HMS3
                request = idl_txns.GetValidWriteIdsRequest(fullTableNames=[], validTxnList="0:0::")
                if not self._knows(connection, idl_txns.get_valid_write_ids, request):
                    raise UnsupportedMetastore(
                        f"The metastore at {connection.endpoint} is older than version 3.",
                        remedy="ACID tables with write ids need Hive Metastore 3.1 or newer.",
                    )
            if connection.endpoint.scheme == "thrift":
                connection.invoke(idl_tables.set_ugi, acting_user(self._options), [])
        except (ServerException, TApplicationException) as failure:
            connection.close()
            raise _translate(failure, idl_tables.set_ugi, "") from failure
        except BaseException:
            connection.close()
            raise
        return version

    @staticmethod
    def _knows(connection: Connection, call: Call, argument: Any) -> bool:
        try:
            connection.invoke(call, argument)
        except TApplicationException as failure:
            if failure.type == TApplicationException.UNKNOWN_METHOD:
                return False
            raise
        except ServerException:
            pass  # It knows the call and dislikes the argument.
        return True


def _no_host(failures: list[MetastoreError]) -> MetastoreError:
    """One error for all hosts; an unsuitable server is worse news than one that is down."""
    tried = " ".join(failure.what for failure in failures)
    for failure in failures:
        if not isinstance(failure, AnswerLost | MetastoreUnreachable):
            return type(failure)(tried, remedy=failure.remedy)
    return MetastoreUnreachable(tried)


def _translate(failure: Exception, call: Call, about: str) -> HiveAcidError:
    message = getattr(failure, "message", None) or str(failure)
    match failure:
        case idl_tables.NoSuchObjectException():
            return TableNotFound(f"{about} does not exist: {message.rstrip('.')}.")
        case idl_txns.TxnAbortedException() if conflict := _CONFLICT.search(message):
            database, _, rest = conflict["what"].partition("/")
            table, _, partition = rest.partition("/")
            where = f"{database}.{table}" + (f" partition {partition}" if partition else "")
            return WriteConflict(
                f"Transaction {conflict['own']} lost {where} to transaction {conflict['other']},"
                " which committed first."
            )
        case idl_txns.TxnAbortedException() | idl_txns.NoSuchTxnException():
            return TransactionAborted(f"{message.rstrip('.')}.")
        case idl_txns.NoSuchLockException():
            return TransactionAborted(f"The lock has expired: {message.rstrip('.')}.")
    return MetastoreCallFailed(f"{call.name} failed{f' for {about}' if about else ''}: {message}")
