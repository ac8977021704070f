"""Answers of a metastore, cut, garbled and made up, through the client's own reading of them."""

import contextlib
import io

import pytest
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.Thrift import TApplicationException, TMessageType
from thrift.transport.TTransport import TBufferedTransport, TMemoryBuffer, TTransportBase

from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import CompactionQueue
from hiveacid.metastore.locations import partition_locations
from hiveacid.metastore.thrift.idl import ServerException
from hiveacid.metastore.thrift.transport import _MOST_ELEMENTS, Connection, Deadline
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.locks import Operation, Target
from hiveacid.rules.names import TableRef
from tests.fuzz.driver import INPUTS, Source, fuzz


class _Canned(TTransportBase):
    """A connection on which an answer waits."""

    def __init__(self, data):
        self._data = io.BytesIO(data)

    def isOpen(self):  # noqa: N802
        return True

    def read(self, size):
        return self._data.read(size)

    def write(self, data):
        pass

    def flush(self):
        pass

    def begin(self, deadline):
        pass


def _as_bytes(call, answer):
    memory = TMemoryBuffer()
    protocol = TBinaryProtocolAccelerated(memory)
    protocol.writeMessageBegin(call.name, TMessageType.REPLY, 1)
    result = call.result()
    if call.returns:
        result.success = answer
    result.write(protocol)
    protocol.writeMessageEnd()
    return memory.getvalue()


@pytest.fixture
def answers(hms, monkeypatch):
    """Calls as the client makes them, with the bytes of their answers."""
    seen = {}
    invoke = Connection.invoke

    def recording(self, call, *arguments, deadline, read=lambda answer: answer):
        def keep(answer):
            seen.setdefault(call.name, (call, arguments, read, _as_bytes(call, answer)))
            return read(answer)

        return invoke(self, call, *arguments, deadline=deadline, read=keep)

    monkeypatch.setattr(Connection, "invoke", recording)
    with MetastoreClient(hms.options) as client:
        client.create_database("fuzzed")
        ref = TableRef("fuzzed", "t")
        keys, columns = (
            [HiveColumn("day", "string")],
            [HiveColumn("id", "int"), HiveColumn("s", "array<int>")],
        )
        client.create_table(HiveTable.new(ref, columns, partition_keys=keys))
        table = client.get_table(ref)
        client.add_partitions(
            ref, [HivePartition.new(table, ["1"]), HivePartition.new(table, ["2"])]
        )
        client.get_partitions(table)
        partition_locations(client, table)
        aborted = client.open_txn("somebody", "somewhere", "agent")
        client.allocate_write_id(aborted, ref)
        client.abort_txn(aborted)
        with Transaction(
            client, targets=[Target(ref, Operation.INSERT, True)], run_token="d/r/t/0"
        ):
            client.show_locks(ref)
            client.get_open_txns_info()
            Snapshot.take(client, [ref])
        CompactionQueue(client).show()
        client.get_databases(), client.get_tables("fuzzed"), client.get_database("fuzzed")
        client.drop_database("fuzzed", cascade=True)
    monkeypatch.undo()
    assert len(seen) > 15
    return list(seen.values())


@INPUTS
@pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
def test_answers(answers, inputs):
    everything = [data for _, _, _, data in answers]

    def read(given):
        (call, arguments, read_answer, _), data = given
        connection = Connection.__new__(Connection)
        connection.endpoint = "metastore:9083"
        connection._sequence = 0
        connection._channel = _Canned(data)
        connection._transport = TBufferedTransport(connection._channel)
        connection._protocol = TBinaryProtocolAccelerated(
            connection._transport, strictRead=True, container_length_limit=_MOST_ELEMENTS
        )
        # An error of the server: the session translates it.
        with contextlib.suppress(ServerException, TApplicationException):
            connection.invoke(call, *arguments, deadline=Deadline(60), read=read_answer)

    def make(source: Source):
        chosen = source.random.choice(answers)
        seeds = [chosen[3]] if source.random.random() < 0.9 else everything
        data = source.data(seeds)
        if source.random.random() < 0.7:
            data = chosen[3][:20] + data[20:]  # The head decides on everything that follows.
        return chosen, data

    fuzz(read, make, inputs)
