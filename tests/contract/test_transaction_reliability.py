"""Transactions on metastores that die, connections that break and hearts that stop."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_hiveacid.cluster.spark_run import abort_transactions
from hiveacid.errors import CommitUncertain, MetastoreTroubled, TransactionAborted
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.thrift.transport import MOST_COMMITS
from hiveacid.metastore.txn.heartbeat import Heartbeat
from hiveacid.metastore.txn.locks import leave_queues, queue_of
from hiveacid.metastore.txn.owner import Outcome, find_open_transactions, outcome
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.locks import DataOperation, Operation, Target, lock_components
from hiveacid.rules.names import TableRef
from tests.proxy import Harm, Proxy
from tests.versions import REAL

TIMEOUT_SECONDS = 4
TABLE = TableRef("default", "events")
TOKEN = "run"


@pytest.fixture(scope="module", params=REAL)
def hms(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedMetastore]:
    """A metastore of this module's own: one that soon gives up on the silent, and may be killed."""
    directory = tmp_path_factory.mktemp("impatient")
    with EmbeddedMetastore(
        request.param, directory=directory, txn_timeout_seconds=TIMEOUT_SECONDS
    ) as metastore:
        create_table(metastore)
        yield metastore


@pytest.fixture(params=REAL)
def patient(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EmbeddedMetastore]:
    """A metastore that waits for its callers longer than its own restart takes."""
    with EmbeddedMetastore(request.param, directory=tmp_path) as metastore:
        create_table(metastore)
        yield metastore


def create_table(metastore: EmbeddedMetastore) -> None:
    with MetastoreClient(metastore.options) as client:
        client.create_table(HiveTable.new(TABLE, [HiveColumn("id", "bigint")]))


def begin(client: MetastoreClient, operation: Operation = Operation.UPDATE) -> Transaction:
    return Transaction(client, targets=[Target(TABLE, operation)], run_token=TOKEN)


def is_committed(client: MetastoreClient, transaction: Transaction) -> bool:
    became = outcome(client, transaction.txn_id, {TABLE: transaction.write_ids[str(TABLE)]})
    return became is Outcome.COMMITTED


@pytest.mark.sampled(1)
def test_heartbeats_keep_a_transaction_alive_that_outlasts_others(
    client: MetastoreClient, eventually: Callable[..., None]
) -> None:
    with begin(client) as transaction:
        for _ in range(2):  # Each of these lives as long as the server's time-out.
            silent = client.open_txn("somebody", "host", None)
            eventually(
                "the silent transaction is aborted",
                lambda txn=silent: outcome(client, txn, {}) is Outcome.ABORTED,
            )
        transaction.check_alive()
        transaction.commit()
    assert is_committed(client, transaction)


def test_a_reader_is_kept_alive_as_well(
    client: MetastoreClient, eventually: Callable[..., None]
) -> None:
    with Transaction(client, reads=[TABLE], run_token=TOKEN) as reader:
        silent = client.open_txn("somebody", "host", None)
        eventually(
            "the silent transaction is aborted",
            lambda: outcome(client, silent, {}) is Outcome.ABORTED,
        )
        assert [lock.txn_id for lock in client.show_locks(TABLE)] == [reader.txn_id]
    assert client.show_locks(TABLE) == []


@pytest.mark.parametrize("arrives", [True, False])
def test_a_reader_leaves_no_lock_when_its_commit_gets_lost(
    hms: EmbeddedMetastore, client: MetastoreClient, arrives: bool
) -> None:
    proxy = Proxy(hms, "commit_txn", arrives=arrives, harm=Harm.LOSE)
    options = replace(client.options, uris=proxy.uri)
    # The metastore knows as little of a committed reader as of one that it has aborted.
    unknown = pytest.raises(TransactionAborted, match=r"unknown whether transaction .* read again")
    with (
        MetastoreClient(options) as unlucky,
        unknown if arrives else nullcontext(),
        Transaction(unlucky, reads=[TABLE], run_token=TOKEN) as reader,
    ):
        pass
    proxy.close()
    assert (client.show_locks(TABLE), reader.warnings) == ([], [])


def test_a_silent_transaction_is_refused_clearly_when_it_commits(
    client: MetastoreClient, eventually: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Heartbeat, "send", lambda self, client: None)
    removed: list[str] = []

    def work() -> None:
        with begin(client) as transaction:
            transaction.own(lambda: removed.append("delta"), "delta")
            eventually(
                "the transaction is aborted",
                lambda: outcome(client, transaction.txn_id, {}) is Outcome.ABORTED,
            )
            transaction.commit()

    with pytest.raises(
        TransactionAborted, match=f"{TIMEOUT_SECONDS} s without a heartbeat"
    ) as late:
        work()
    assert late.value.retryable
    assert removed == ["delta"]


def test_the_heartbeat_notices_an_abort_from_outside(
    client: MetastoreClient, eventually: Callable[..., None]
) -> None:
    with begin(client) as transaction:
        client.abort_txn(transaction.txn_id)

        def is_dead() -> bool:
            try:
                transaction.check_alive()
            except TransactionAborted:
                return True
            return False

        eventually("the heartbeat notices", is_dead)
        with pytest.raises(TransactionAborted, match=f"{transaction.txn_id} was aborted"):
            transaction.commit()


@pytest.mark.server
@pytest.mark.sampled(1)
def test_a_writer_waits_for_a_metastore_that_was_killed_in_the_middle_of_the_work(
    patient: EmbeddedMetastore,
) -> None:
    with MetastoreClient(patient.options) as client:
        with begin(client) as transaction:
            patient.restart()
            transaction.commit()
        assert transaction.restarts == 0
        assert is_committed(client, transaction)

        back = threading.Timer(2, patient.start)
        with MetastoreClient(client.options).patient() as writer, begin(writer) as transaction:
            patient.kill()
            back.start()
            try:
                assert writer.get_table(TABLE).ref == TABLE
                transaction.confirm_alive()
                transaction.commit()
            finally:
                back.join()
        assert is_committed(client, transaction)


@pytest.mark.sampled(1)
def test_a_metastore_that_stays_away_leaves_the_commit_unsettled(
    hms: EmbeddedMetastore, client: MetastoreClient
) -> None:
    removed: list[str] = []

    def work() -> None:
        with begin(client) as transaction:
            transaction.own(lambda: removed.append("delta"), "delta")
            hms.kill()
            transaction.commit()

    try:
        with pytest.raises(CommitUncertain) as error:
            work()
    finally:
        hms.start()
    assert error.value.retryable
    assert removed == []  # They may be the only copy of committed rows.
    # Otherwise its locks would last until its timeout, during the next tests.
    abort_transactions(client.options, [TOKEN])


@pytest.mark.parametrize(
    ("call", "operation", "arrives"),
    [
        # All pairs.
        *(("open_txns", Operation.INSERT, True), ("open_txns", Operation.MERGE, False)),
        *(("lock", Operation.MERGE, True), ("lock", Operation.INSERT, False)),
        *(("commit_txn", Operation.INSERT, True), ("commit_txn", Operation.MERGE, False)),
    ],
)
def test_a_lost_answer_neither_loses_nor_doubles_anything(
    hms: EmbeddedMetastore,
    client: MetastoreClient,
    call: str,
    operation: Operation,
    arrives: bool,
) -> None:
    removed: list[str] = []
    proxy = Proxy(hms, call, arrives=arrives)
    far = MetastoreClient(replace(client.options, uris=proxy.uri))
    with far, begin(far, operation) as transaction:
        transaction.own(lambda: removed.append("delta"), "delta")
        transaction.commit()
    proxy.close()
    assert proxy.cuts == 1
    assert is_committed(client, transaction)
    # A lock that was granted is found again; everything else before the work begins again.
    again = call == "open_txns" or (call == "lock" and not arrives)
    assert transaction.restarts == int(again)
    assert find_open_transactions(client, TOKEN) == []
    assert client.show_locks(TABLE) == []
    assert removed == []


@pytest.mark.parametrize("arrives", [True, False])
def test_a_lost_answer_to_a_commit_that_is_refused_is_no_success(
    hms: EmbeddedMetastore, client: MetastoreClient, arrives: bool
) -> None:
    proxy = Proxy(hms, "commit_txn", arrives=arrives)

    def work(far: MetastoreClient) -> None:
        with begin(far) as transaction:
            client.abort_txn(transaction.txn_id)
            transaction.commit()

    far = MetastoreClient(replace(client.options, uris=proxy.uri))
    with far, pytest.raises(TransactionAborted):
        work(far)
    proxy.close()


@pytest.mark.parametrize("harm", [Harm.GARBLE, Harm.FAIL])
@pytest.mark.parametrize("arrives", [True, False])
def test_a_commit_that_is_answered_wrongly_is_asked_about_and_sent_again(
    hms: EmbeddedMetastore,
    client: MetastoreClient,
    arrives: bool,
    harm: Harm,
) -> None:
    removed: list[str] = []
    proxy = Proxy(hms, "commit_txn", arrives=arrives, harm=harm)
    far = MetastoreClient(replace(client.options, uris=proxy.uri))
    with far, begin(far) as transaction:
        transaction.own(lambda: removed.append("delta"), "delta")
        transaction.commit()
    proxy.close()
    assert proxy.cuts == 1
    assert is_committed(client, transaction)
    assert removed == []


def test_a_commit_that_always_fails_inside_is_given_up_and_undone(
    hms: EmbeddedMetastore, client: MetastoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hiveacid.metastore.txn.live_transaction.OUTCOME_PAUSE_SECONDS", 0.01)
    removed: list[str] = []
    proxy = Proxy(hms, "commit_txn", arrives=False, harm=Harm.FAIL, times=100)
    transactions: list[Transaction] = []

    def work(far: MetastoreClient) -> None:
        with begin(far) as transaction:
            transactions.append(transaction)
            transaction.own(lambda: removed.append("delta"), "delta")
            transaction.commit()

    far = MetastoreClient(replace(client.options, uris=proxy.uri))
    with far, pytest.raises(MetastoreTroubled, match="Internal error") as error:
        work(far)
    proxy.close()
    assert error.value.retryable
    assert proxy.cuts == MOST_COMMITS
    assert outcome(client, transactions[0].txn_id, {}) is Outcome.ABORTED
    assert removed == ["delta"]


def test_a_kill_removes_only_its_own_run_from_the_queue(
    client: MetastoreClient,
) -> None:
    (component,) = lock_components(
        client.features.has_excl_write, Operation.OVERWRITE, queue_of(TABLE), partitioned=False
    )
    number = replace(component, operation=DataOperation.NO_TXN, is_transactional=False)
    others = client.lock([number], None, "somebody", "host", "another run")
    client.lock([number], None, "somebody", "host", "killed")

    abort_transactions(client.options, ["killed"])

    assert [lock.lock_id for lock in client.show_locks(queue_of(TABLE))] == [others.lock_id]
    leave_queues(client, "another run")
    assert client.show_locks(queue_of(TABLE)) == []


def test_waiters_keep_their_places_and_a_killed_one_loses_it(
    client: MetastoreClient, eventually: Callable[..., None]
) -> None:
    """They wait longer for it than an unattended place is kept."""
    (component,) = lock_components(
        client.features.has_excl_write, Operation.OVERWRITE, queue_of(TABLE), partitioned=False
    )
    number = replace(component, operation=DataOperation.NO_TXN, is_transactional=False)
    client.lock([number], None, "somebody", "host", "killed")
    served: list[int] = []

    def work(number: int) -> None:
        target = Target(TABLE, Operation.MERGE)
        with Transaction(client, targets=[target], run_token=f"waiter {number}") as transaction:
            served.append(number)
            transaction.commit()
            assert transaction.restarts == 0

    with ThreadPoolExecutor(2) as pool:
        running = []
        for number_of_waiter in range(2):
            running.append(pool.submit(work, number_of_waiter))
            eventually(
                "the next one is queued",
                lambda: len(client.show_locks(queue_of(TABLE))) == 1 + len(running),
            )
        for waiter in running:
            waiter.result()
    assert served == [0, 1]
    assert client.show_locks(queue_of(TABLE)) == []
