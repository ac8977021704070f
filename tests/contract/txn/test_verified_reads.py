"""The end of a read verifies that its transaction was open until then."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from hiveacid.errors import TransactionAborted
from hiveacid.metastore.catalog import HivePartition
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.live_transaction import CONFIRMED_SECONDS
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.names import TableRef
from hiveacid.tables.scan.table_scan import TableScan
from tests.contract.txn.transactions import INSERT, SELECT
from tests.fakes.metastore import REAL_AND_FAKE, FakeMetastore
from tests.metastore_calls import counted_calls
from tests.proxy import Harm, Proxy

pytestmark = REAL_AND_FAKE

Begin = Callable[..., Transaction]


def test_a_read_that_the_metastore_has_aborted_raises_at_its_end(
    client: MetastoreClient, begin: Begin
) -> None:
    with (
        pytest.raises(TransactionAborted, match=r"fewer or older rows.*read again"),
        begin(SELECT) as txn,
    ):
        client.abort_txn(txn.txn_id)


def test_a_write_that_ends_without_a_commit_verifies_its_reads(
    client: MetastoreClient, table: TableRef, begin: Begin
) -> None:
    described = client.get_table(table)

    def read() -> None:
        with begin(INSERT) as txn:
            txn.definitions.current(described)
            client.abort_txn(txn.txn_id)

    with pytest.raises(TransactionAborted):
        read()


def test_an_error_of_the_work_stays_the_error(client: MetastoreClient, begin: Begin) -> None:
    def interrupted() -> None:
        with begin(SELECT) as txn:
            client.abort_txn(txn.txn_id)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()


@pytest.mark.parametrize("arrives", [True, False])
@pytest.mark.parametrize("harm", [Harm.LOSE, Harm.FAIL])
def test_an_end_without_an_answer_is_verified_or_an_error(
    hms: FakeMetastore, client: MetastoreClient, table: TableRef, harm: Harm, arrives: bool
) -> None:
    proxy = Proxy(hms, "commit_txn", arrives=arrives, harm=harm)
    options = replace(client.options, uris=proxy.uri)
    with MetastoreClient(options) as own:
        txn = Transaction(own, reads=[table])
        if arrives:
            # It cannot be told from an abort that is forgotten.
            with pytest.raises(TransactionAborted), txn:
                pass
        else:
            with txn:
                pass
    proxy.close()
    assert client.show_locks(table) == []


def test_a_verified_read_takes_no_more_calls(client: MetastoreClient, table: TableRef) -> None:
    client.add_partitions(table, [HivePartition.new(client.get_table(table), ["1"])])
    scan = TableScan(table.full_name, client.options)
    with counted_calls() as calls:
        assert scan.to_arrow().num_rows == 0
    # Before the transaction, and at its end.
    assert calls["get_table_req"] + calls["get_table"] == 2
    assert calls["commit_txn"] == 1
    assert "heartbeat_txn_range" not in calls


def test_a_confirmation_counts_for_many_acts_until_it_is_old(
    client: MetastoreClient, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = 1000.0
    monkeypatch.setattr("time.clock_gettime", lambda _: seconds)

    def act_often() -> None:
        nonlocal seconds
        with begin(INSERT) as txn:
            with counted_calls() as calls:
                for _ in range(3):
                    txn.confirm_lately()
                assert calls["heartbeat_txn_range"] == 1
                seconds += CONFIRMED_SECONDS
                txn.confirm_lately()
                assert calls["heartbeat_txn_range"] == 2
            client.abort_txn(txn.txn_id)
            txn.confirm_lately()
            seconds += CONFIRMED_SECONDS
            txn.confirm_lately()

    with pytest.raises(TransactionAborted):
        act_often()
