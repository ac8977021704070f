"""Transactions whose opening is unknown, beside others of the same run."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from hiveacid.errors import AnswerLost
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.thrift.answers import TxnState
from hiveacid.metastore.txn.owner import (
    Outcome,
    Owner,
    find_open_transactions,
    find_transactions,
    open_transaction,
    outcome,
)
from hiveacid.metastore.txn.transaction import ExclusiveTable, Transaction
from hiveacid.rules.locks import Operation
from hiveacid.rules.names import TableRef
from tests.contract.txn.transactions import INSERT, SELECT, UPDATE
from tests.fakes.metastore import REAL_AND_FAKE
from tests.proxy import Harm, Proxy

pytestmark = REAL_AND_FAKE

# The longest that is stored in full, and one that is shortened.
TOKENS = ["run", "d" * 60, f"dag/{'r' * 300}/task/-1#0123456789ab.12@01234567"]

Losing = Callable[..., MetastoreClient]


@pytest.fixture
def losing(hms: EmbeddedMetastore, client: MetastoreClient) -> Iterator[Losing]:
    """Connect a client to which one answer, or the request of it, gets lost."""
    proxies: list[Proxy] = []
    clients: list[MetastoreClient] = []

    def connect(call: str, *, arrives: bool = True) -> MetastoreClient:
        proxies.append(Proxy(hms, call, arrives=arrives, harm=Harm.LOSE))
        unlucky = MetastoreClient(replace(client.options, uris=proxies[-1].uri))
        clients.append(proxies[-1].spare(unlucky))
        return unlucky

    yield connect
    for unlucky in clients:
        unlucky.close()
    for proxy in proxies:
        proxy.close()


@pytest.mark.parametrize(
    ("call", "arrives", "operation"),
    [
        # All pairs.
        *(("open_txns", True, INSERT), ("open_txns", False, UPDATE), ("open_txns", True, SELECT)),
        *(("lock", False, INSERT), ("lock", True, UPDATE), ("lock", False, SELECT)),
    ],
)
def test_a_restart_leaves_the_other_transactions_of_the_run_alone(
    client: MetastoreClient,
    begin: Callable[..., Transaction],
    losing: Losing,
    call: str,
    arrives: bool,
    operation: Operation,
) -> None:
    token = "dag/run/task/-1"
    with Transaction(client, keeps_files=True, run_token=token) as keeper:
        unlucky = losing(call, arrives=arrives)
        with begin(operation, run_token=token, client=unlucky) as restarted:
            assert restarted.restarts == (call == "open_txns" or not arrives)
            assert outcome(client, keeper.txn_id, {}) is Outcome.OPEN
            assert find_open_transactions(client, token) == [keeper.txn_id, restarted.txn_id]


@pytest.mark.parametrize("token", TOKENS)
def test_an_unknown_transaction_is_aborted(
    client: MetastoreClient, losing: Losing, token: str
) -> None:
    owner = replace(Owner.of(token, "ann"), host="h" * 33)
    sibling = open_transaction(client, owner)
    with pytest.raises(AnswerLost):
        open_transaction(losing("open_txns"), owner)
    states = {txn.txn_id: txn.state for txn in find_transactions(client, token)}
    assert states.pop(sibling) is TxnState.OPEN
    assert [*states.values()] in ([TxnState.ABORTED], [])  # Version 3 may have forgotten it.
    (info,) = [txn for txn in client.get_open_txns_info() if txn.txn_id == sibling]
    assert (info.machine, info.token) == ("h" * 33, owner.agent_info)
    client.abort_txn(sibling)


def test_the_unknown_transaction_of_an_exclusive_lock_is_aborted(
    client: MetastoreClient, table: TableRef, losing: Losing
) -> None:
    with (
        pytest.raises(AnswerLost),
        ExclusiveTable(losing("open_txns"), table, "run", lock_wait_seconds=0),
    ):
        pass
    assert find_open_transactions(client, "run") == []
