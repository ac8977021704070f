"""A Hive Metastore in memory that answers over Thrift as versions 3.1.3 and 4.0.1 do.

It is as fast as the wire, so a test can afford thousands of transactions. The contract tests
compare its answers with the real servers. Nothing in it ever times out.
"""

import socketserver
import threading
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TApplicationException, TMessageType, TType
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.dev.embedded import free_port
from hiveacid.metastore.thrift import idl_tables, idl_txns
from hiveacid.metastore.thrift.idl import Call, ServerException
from hiveacid.rules.metastore_version import MetastoreVersion
from tests.fakes.catalog import Catalog
from tests.fakes.compactions import Compactions
from tests.fakes.constraints import Constraints
from tests.fakes.renaming import rename_table
from tests.fakes.tokens import Tokens
from tests.fakes.transactions import Transactions
from tests.fakes.write_events import WriteEvents
from tests.versions import REAL

# Marks the tests that hold the fakes against the real servers.
REAL_AND_FAKE = pytest.mark.parametrize("hms", [*REAL, "fake 4.0.1", "fake 3.1.3"], indirect=True)

_CALLS = {
    call.name: call
    for module in (idl_tables, idl_txns)
    for call in vars(module).values()
    if isinstance(call, Call)
}
_ONLY_VERSION_4 = frozenset(
    {
        "get_latest_txnid_in_conflict",
        "add_write_ids_to_min_history",
        "add_write_notification_log_in_batch",
        "create_table_req",
        "translate_table_dryrun",
        "get_all_table_constraints",
        "alter_table_req",
        "alter_partitions_req",
        "get_partitions_with_specs",
        "find_next_compact2",
        "update_compactor_state",
        "mark_compacted",
        "mark_cleaned",
        "mark_failed",
        "mark_refused",
    }
)
_SETTINGS = {"hive.txn.timeout": "300s"}


class FakeMetastore:
    """The server; it listens from the moment it is entered.

    Attributes:
        version: The version whose answers it gives, "4.0.1" or "3.1.3".
        warehouse: The default location of its databases.
        settings: Its configuration.
        supports_acid: Whether ACID is switched on; only `translate_table_dryrun` respects it.
        tokens: The delegation tokens it has given out.
        write_events: The events that writers have reported.
    """

    def __init__(self, version: str, *, directory: Path, location: str | None = None) -> None:
        """Describe a metastore; nothing runs before it is entered.

        Args:
            version: The version.
            directory: Has a folder for its tables.
            location: The other location of its databases, on any file system.
        """
        self.version = version
        self.warehouse = directory / "warehouse"
        generation = MetastoreVersion(int(version[0]))
        self._is_4 = generation is MetastoreVersion.HMS4
        transactions = Transactions(generation)
        compactions = Compactions(generation, transactions)

        def forget(database: str, table: str) -> None:
            transactions.forget_table(database, table)
            compactions.forget_table(database, table)

        rename = partial(rename_table, transactions, compactions)
        constraints, place = Constraints(), location or f"file:{self.warehouse}"
        self._catalog = Catalog(generation, place, forget, rename, constraints)
        self.tokens = Tokens()
        self.settings = {**_SETTINGS, "metastore.warehouse.dir": place}
        self.supports_acid = True
        self.write_events = WriteEvents(transactions.is_open)
        self._parts = (
            *(self._catalog, constraints, transactions, compactions),
            *(self.tokens, self.write_events),
        )
        self._forget_empty = transactions.forget_empty
        self.take_over = transactions.take_over
        self._server = _Server(("127.0.0.1", free_port()), partial(_Conversation, self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self.warehouse.mkdir(parents=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def uri(self) -> str:
        return f"thrift://127.0.0.1:{self._server.server_address[1]}"

    @property
    def options(self) -> MetastoreOptions:
        return MetastoreOptions(uris=self.uri)

    def keep_house(self) -> None:
        """Run the periodic housekeeping of the real one."""
        with _CALL:
            self._forget_empty()

    def let_tables_age(self) -> None:
        """Let all tables have been created some seconds earlier.

        Version 3.1 distinguishes two creations only by whole seconds, and tests do not wait for one.
        """
        with _CALL:
            self._catalog.let_tables_age()

    def find(self, name: str) -> Call | None:
        """The declaration of a call, if this version knows it."""
        return None if name in _ONLY_VERSION_4 and not self._is_4 else _CALLS.get(name)

    def answer(self, call: Call, arguments: Any, send: Callable[[Any], None]) -> None:
        """Execute a call and send its answer, before its content can change."""
        values = [getattr(arguments, field) for field in arguments.__slots__]
        result = call.result()
        with _CALL:
            try:
                value = self._carry_out(call.name, values)
                if call.returns:
                    result.success = value
            except ServerException as error:
                setattr(result, _field_of(call, error), error)
            send(result)

    def _carry_out(self, name: str, values: list[Any]) -> Any:
        if name == "get_config_value":
            setting, default = values
            return self.settings.get(setting, default)
        if name == "getVersion":
            return self.version if self._is_4 else "3.0"
        if name == "translate_table_dryrun":
            return self._translated(values[0].table)
        part = next(part for part in self._parts if hasattr(part, name))
        return getattr(part, name)(*values)

    def _translated(self, table: Any) -> Any:
        if not self.supports_acid and table.parameters.get("transactional") == "true":
            raise idl_tables.MetaException(
                "ACID tables are not permitted when the name.of.the.setting property is set to false"
            )
        return table


# One call at a time: that is how every call comes to be a transaction of the database.
_CALL = threading.Lock()


def _field_of(call: Call, error: ServerException) -> str:
    """Return the field of an exception in the answer of a call."""
    declared: Mapping[type, str] = {
        entry[3][0]: entry[2]
        for entry in call.result.thrift_spec
        if entry is not None and entry[2] in call.throws
    }
    return declared[type(error)]


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


class _Conversation(socketserver.BaseRequestHandler):
    """One connection: calls and answers in turn until the client hangs up."""

    def __init__(self, metastore: FakeMetastore, *arguments: Any) -> None:
        self._metastore = metastore
        super().__init__(*arguments)

    def handle(self) -> None:
        channel = TSocket()
        channel.setHandle(self.request)
        protocol = TBinaryProtocolAccelerated(TBufferedTransport(channel), strictRead=True)
        try:
            while True:
                self._answer_next(protocol)
                protocol.trans.flush()
        except (TTransportException, TProtocolException, OSError):
            return

    def _answer_next(self, protocol: Any) -> None:
        name, _, sequence = protocol.readMessageBegin()
        call = self._metastore.find(name)

        def send(answer: Any, kind: int = TMessageType.REPLY) -> None:
            protocol.writeMessageBegin(name, kind, sequence)
            answer.write(protocol)
            protocol.writeMessageEnd()

        if call is None:
            protocol.skip(TType.STRUCT)
            text = f"Invalid method name: '{name}'"
            failure = TApplicationException(TApplicationException.UNKNOWN_METHOD, text)
            return send(failure, TMessageType.EXCEPTION)
        arguments = call.arguments()
        arguments.read(protocol)
        try:
            self._metastore.answer(call, arguments, send)
        except Exception:  # noqa: BLE001 - the server goes on, as the real one does
            traceback.print_exc()
            text = f"Internal error processing {name}"
            failure = TApplicationException(TApplicationException.INTERNAL_ERROR, text)
            send(failure, TMessageType.EXCEPTION)
