"""The reported blockers."""

import pytest

from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.thrift.answers import TxnType
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.locks import Operation, Target
from hiveacid.rules.names import TableRef
from hiveacid.upkeep.survey import blockers_of


@pytest.fixture
def table(client, database):
    ref = TableRef(database, "t")
    client.create_table(HiveTable.new(ref, [HiveColumn("id", "int")]))
    return ref


def test_the_holder_of_a_lock_is_named_with_run_and_time(client, table):
    token = "nightly/scheduled__2026-01-02/merge/3"
    with Transaction(
        client, targets=[Target(table, Operation.INSERT)], run_token=token, user="ann"
    ) as txn:
        (blocker,) = blockers_of(client, table)
    assert (blocker.txn_id, blocker.user, blocker.run) == (txn.txn_id, "ann", token)
    assert blocker.since is not None
    assert blocker.lock_id is not None
    assert blockers_of(client, table) == []


def test_of_others_only_the_open_transactions_count_and_only_when_asked_for(client, table):
    reader = client.open_txn("bob", "elsewhere", None, TxnType.READ_ONLY)
    writer = client.open_txn("eve", "elsewhere", None)
    ended = client.open_txn("eve", "elsewhere", None)
    client.abort_txn(ended)
    own = client.open_txn("me", "here", None)
    assert blockers_of(client, table) == []
    blockers = blockers_of(client, table, everywhere=True, besides=own)
    assert [(blocker.txn_id, blocker.user, blocker.run) for blocker in blockers] == [
        (reader, "bob", None),
        (writer, "eve", None),
    ]
    for txn in (reader, writer, own):
        client.abort_txn(txn)
    assert blockers_of(client, table, everywhere=True) == []
