"""Connections and transactions belong to the process that opened them."""

import os
from pathlib import Path

import pytest

from hiveacid.errors import UserError
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import CompactionTransaction
from hiveacid.metastore.thrift import idl_txns
from hiveacid.metastore.thrift.answers import TxnLiveness
from hiveacid.metastore.thrift.transport import Connection
from hiveacid.metastore.txn.heartbeat import is_of_this_process
from hiveacid.metastore.txn.live_transaction import LiveTransaction
from hiveacid.metastore.txn.locks import queue_of
from hiveacid.metastore.txn.transaction import ExclusiveTable, Transaction
from hiveacid.progress import PhaseClock, PhaseObserver
from hiveacid.rules.locks import Operation, Target
from hiveacid.rules.names import TableRef
from tests.contract.compactions import DAY, MAJOR, write
from tests.fakes.metastore import REAL_AND_FAKE
from tests.forks import Child, forked, signals

pytestmark = REAL_AND_FAKE


@pytest.fixture
def table(client: MetastoreClient, database: str) -> TableRef:
    ref = TableRef(database, "events")
    keys = [HiveColumn("day", "string")]
    client.create_table(HiveTable.new(ref, [HiveColumn("id", "bigint")], partition_keys=keys))
    write(client, ref)
    return ref


def _socket_of(client: MetastoreClient) -> tuple[str, int]:
    """Return the address of this thread's connection, at this side."""
    channel = client._session._local.connection._channel._channel
    name: tuple[str, int] = channel.handle.getsockname()
    return name


def test_two_children_never_take_the_answers_of_each_other(client, monkeypatch):
    """Their calls have equal names and numbers, and the second one waits for an answer first."""
    client.get_databases()
    answer = Connection._answer
    with signals(2) as (asked, answered):

        def open_first() -> int:
            def wait(connection, call):
                if call is idl_txns.open_txns:  # Not to identify the server of a new connection.
                    asked.send()
                    answered.wait()
                return answer(connection, call)

            monkeypatch.setattr(Connection, "_answer", wait)
            return client.open_txn("first", "host", None)

        def open_second() -> int:
            asked.wait()
            txn_id = client.open_txn("second", "host", None)
            answered.send()
            return txn_id

        children = [Child(open_first), Child(open_second)]
        opened = [child.result() for child in children]
    owners = {txn.txn_id: txn.user for txn in client.get_open_txns_info()}
    assert [owners[txn_id] for txn_id in opened] == ["first", "second"]
    for txn_id in opened:
        client.abort_txn(txn_id)


def test_a_child_opens_its_own_connection_and_leaves_that_of_its_parent(client):
    client.get_databases()
    own = _socket_of(client)

    def work() -> tuple[str, int]:
        client.get_databases()
        other = _socket_of(client)
        client.close()
        client.get_databases()
        client.close()
        return other

    assert forked(work) != own
    client.get_databases()
    assert _socket_of(client) == own
    forked(client.close)
    client.get_databases()
    assert _socket_of(client) == own


def _leave(txn: LiveTransaction) -> None:
    """Leave a with statement like a forked process that ends by an exception."""
    error = SystemExit(0)
    txn.__exit__(SystemExit, error, None)
    txn.__exit__(None, None, None)


@pytest.mark.parametrize("kind", ["write", "read", "exclusive", "compaction"])
def test_a_child_does_not_end_a_transaction_of_its_parent(client, table, tmp_path: Path, kind):
    made: LiveTransaction
    if kind == "compaction":
        made = CompactionTransaction(client, table, DAY, MAJOR, lock_wait_seconds=0)
    elif kind == "exclusive":
        made = ExclusiveTable(client, table, None, 0)
    elif kind == "read":
        made = Transaction(client, reads=[table])
    else:
        made = Transaction(client, targets=[Target(table, Operation.UPDATE, True, [DAY])])
    removed = tmp_path / "removed"
    with made as txn:
        txn.own(removed.touch, "a file")
        txn.own_temporarily(removed.touch, "a file")
        forked(lambda: _leave(txn))
        assert not removed.exists()
        assert client.heartbeat(txn.txn_id) is TxnLiveness.OPEN
        assert len(client.show_locks(table)) > 0
        txn.confirm_alive()
        if isinstance(txn, Transaction):
            txn.commit()
    assert removed.exists()


def test_a_child_cannot_continue_a_transaction_of_its_parent(client, table):
    targets = [Target(table, Operation.INSERT, True, [DAY])]
    with Transaction(client, targets=targets) as txn:
        assert is_of_this_process(client, txn.txn_id)
        for act in (
            txn.commit,
            txn.confirm_alive,
            txn.check_alive,
            lambda: txn.commit_alone([table], 0),
            lambda: txn.register_partitions(table, [DAY]),
        ):

            def refused(act=act) -> str:
                with pytest.raises(UserError) as error:
                    act()
                return str(error.value)

            message = forked(refused)
            assert f"Transaction {txn.txn_id} belongs to process {os.getpid()}" in message
        assert not forked(lambda: is_of_this_process(client, txn.txn_id))
        assert not forked(lambda: txn.give_up(UserError("The child has failed.")))
        txn.confirm_alive()
        txn.commit()


def test_a_child_begins_a_transaction_of_its_own_with_the_client_of_its_parent(client, table):
    targets = [Target(table, Operation.INSERT, True, [DAY])]
    described = Transaction(client, targets=targets)

    def work() -> int:
        with described as txn:
            txn.commit()
        return txn.txn_id

    with Transaction(client, targets=targets) as txn:
        other = forked(work)
        assert client.heartbeat(other) is not TxnLiveness.OPEN
        txn.commit()
    assert txn.txn_id != other


def test_a_child_does_not_leave_the_queue_of_writers_for_its_parent(client, table):
    """It ends while its parent still waits for the locks of the table."""
    targets = [Target(table, Operation.UPDATE, True, [DAY])]
    held = ExclusiveTable(client, table, None, 0)
    seen: list[int] = []

    class Waiting(PhaseObserver):
        def note(self, _: str) -> None:
            if seen:
                return
            seen.append(len(client.show_locks(queue_of(table))))

            def end() -> None:
                writer._writer_queue.end()
                _leave(writer)

            forked(end)
            seen.append(len(client.show_locks(queue_of(table))))
            held.__exit__(None, None, None)

    held.__enter__()
    writer = Transaction(client, targets=targets, phases=PhaseClock((Waiting(),)))
    with writer:
        writer.commit()
    assert seen == [1, 1]
