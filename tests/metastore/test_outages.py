"""Clients that wait for a metastore that restarts."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from hiveacid.errors import AnswerLost, MetastoreUnreachable
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift import repeating, session, transport
from hiveacid.metastore.thrift.repeating import Repeating
from hiveacid.metastore.txn.owner import Outcome, outcome
from hiveacid.metastore.txn.transaction import ExclusiveTable, Transaction
from hiveacid.rules.locks import Operation, Target
from hiveacid.rules.names import TableRef
from tests.proxy import Proxy

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)

PATIENCE = 600


class Outages:
    """A metastore that takes no connection for a while, by a clock that only pauses move.

    Attributes:
        pauses: The pauses of all clients.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = self._until = 0.0
        self.pauses: list[float] = []
        connect = session.Connection.__init__

        def connection(new: Any, endpoint: Any, *arguments: Any) -> None:
            if self.now < self._until:
                raise MetastoreUnreachable(f"{endpoint} does not answer.")
            connect(new, endpoint, *arguments)

        monkeypatch.setattr(session.Connection, "__init__", connection)
        monkeypatch.setattr(repeating, "monotonic", lambda: self.now)
        monkeypatch.setattr(repeating, "sleep", self._sleep)
        # Limits are of the same clock.
        clock = SimpleNamespace(monotonic=lambda: time.monotonic() + self.now)
        monkeypatch.setattr(transport, "time", clock)

    def begin(self, client: MetastoreClient, seconds: float) -> None:
        self._until = self.now + seconds
        client.close()

    def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


@pytest.fixture
def outages(monkeypatch: pytest.MonkeyPatch) -> Outages:
    return Outages(monkeypatch)


@pytest.fixture
def writer(client: MetastoreClient, database: str) -> Iterator[MetastoreClient]:
    ref = TableRef(database, "t")
    client.create_table(HiveTable.new(ref, [HiveColumn("id", "int")]))
    with MetastoreClient(client.options).patient() as writer:
        assert writer.get_table(ref).ref == ref
        yield writer


def begun(client: MetastoreClient, database: str) -> Transaction:
    return Transaction(client, targets=[Target(TableRef(database, "t"), Operation.UPDATE)])


def test_a_writer_waits_at_every_step_until_the_metastore_is_back(
    writer: MetastoreClient, outages: Outages, database: str
) -> None:
    ref = TableRef(database, "t")
    steps: list[Callable[[Transaction], object]] = [
        lambda txn: writer.get_table(ref),
        lambda txn: txn.confirm_alive(),
        lambda txn: writer.allocate_write_id(txn.txn_id, ref),
        lambda txn: writer.show_locks(ref),
        lambda txn: txn.commit(),
    ]
    outages.begin(writer, 300)
    with begun(writer, database) as txn:
        assert 300 <= outages.now < 320
        for step in steps:
            outages.begin(writer, 60)
            before = outages.now
            step(txn)
            assert 60 <= outages.now - before < 80
    assert outcome(writer, txn.txn_id, {ref: txn.write_ids[str(ref)]}) is Outcome.COMMITTED
    assert max(outages.pauses) <= 10


def test_patience_counts_from_the_beginning_of_an_outage(
    writer: MetastoreClient, outages: Outages, database: str
) -> None:
    ref = TableRef(database, "t")
    outages.begin(writer, 10 * PATIENCE)
    with pytest.raises(MetastoreUnreachable):
        writer.get_table(ref)
    assert outages.now == PATIENCE
    # What follows, such as an abort, does not wait again.
    with pytest.raises(MetastoreUnreachable):
        writer.abort_txn(1)
    assert outages.now == PATIENCE
    outages.now += 10 * PATIENCE
    writer.get_table(ref)
    # The next outage has all of it again.
    outages.begin(writer, PATIENCE - 60)
    writer.get_table(ref)


@pytest.mark.parametrize(
    ("patience", "patient"), [(0, True), (PATIENCE, False)], ids=["no patience", "not a writer"]
)
def test_others_fail_at_once(
    client: MetastoreClient, outages: Outages, patience: float, patient: bool
) -> None:
    with MetastoreClient(replace(client.options, patience_seconds=patience)) as other:
        if patient:
            other.patient()
        other.get_databases()
        outages.begin(other, 60)
        with pytest.raises(MetastoreUnreachable):
            other.get_databases()
    assert outages.pauses == []


def test_the_end_of_a_failed_transaction_is_not_waited_for(
    writer: MetastoreClient, outages: Outages, database: str
) -> None:
    transaction = begun(writer, database)

    def work() -> None:
        with transaction:
            outages.begin(writer, 10 * PATIENCE)
            raise ValueError("of the work")

    with pytest.raises(ValueError, match="of the work"):
        work()
    assert outages.now <= 15
    assert "does not answer" in transaction.warnings[0]
    outages.now += 10 * PATIENCE
    writer.abort_txn(transaction.txn_id)


def test_a_wrong_address_fails_at_once(client: MetastoreClient, outages: Outages) -> None:
    wrong = replace(client.options, uris="thrift://127.0.0.1:1")
    with MetastoreClient(wrong).patient() as writer, pytest.raises(MetastoreUnreachable):
        writer.get_databases()
    assert outages.pauses == []


def test_a_new_client_waits_for_a_metastore_that_this_process_has_reached(
    writer: MetastoreClient, outages: Outages
) -> None:
    with MetastoreClient(writer.options).patient() as second:
        outages.begin(second, 60)
        assert second.version == 4
    assert outages.pauses


def test_the_limit_of_a_block_holds(writer: MetastoreClient, outages: Outages) -> None:
    outages.begin(writer, 60)
    with writer.within(0.001), pytest.raises(MetastoreUnreachable):
        writer.get_databases()
    assert sum(outages.pauses) < 1


def test_a_change_of_definitions_is_not_sent_after_an_outage(
    writer: MetastoreClient, outages: Outages, database: str
) -> None:
    """Its lock may have expired, and another client may have replaced the table."""
    ref = TableRef(database, "t")
    with ExclusiveTable(writer, ref, None, 10):
        outages.begin(writer, 60)
        with pytest.raises(MetastoreUnreachable):
            writer.drop_table(ref)
        outages.now += 60
    assert outages.pauses == []
    assert writer.get_table(ref)


@pytest.mark.parametrize("call", ["open_txns", "lock", "commit_txn"])
def test_a_call_whose_answer_is_lost_is_resolved_and_not_repeated(
    hms: Any, writer: MetastoreClient, outages: Outages, database: str, call: str
) -> None:
    ref = TableRef(database, "t")
    proxy = Proxy(hms, call)
    options = replace(writer.options, uris=proxy.uri)
    with MetastoreClient(options).patient() as unlucky:
        with begun(unlucky, database) as txn:
            txn.commit()
        assert outcome(unlucky, txn.txn_id, {ref: txn.write_ids[str(ref)]}) is Outcome.COMMITTED
    proxy.close()
    assert proxy.cuts == 1
    assert writer.get_open_txns().min_open is None
    assert outages.pauses == []


def test_an_answer_that_is_always_lost_is_no_outage(
    hms: Any, writer: MetastoreClient, outages: Outages
) -> None:
    proxy = Proxy(hms, "get_all_databases", times=99)
    with (
        MetastoreClient(replace(writer.options, uris=proxy.uri)).patient() as unlucky,
        pytest.raises(AnswerLost),
    ):
        unlucky.get_databases()
    proxy.close()
    assert (proxy.cuts, outages.pauses) == (2, [])


def test_calls_that_wait_are_declared(hms: Any) -> None:
    for call in repeating._WITHIN_TRANSACTIONS:
        assert Repeating.of(call) is not Repeating.READS
    for call in ("abort_txn", "commit_txn", "drop_partitions_req", "unlock"):
        assert not Repeating.after_outage(call)
