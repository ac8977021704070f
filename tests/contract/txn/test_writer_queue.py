"""Writers that wait to change rows are served in order, on real metastores of both versions."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from hiveacid.errors import AnswerLost, LockTimeout
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift.answers import LockState
from hiveacid.metastore.txn import locks as writer_queue
from hiveacid.metastore.txn.locks import WriterQueue, queue_of
from hiveacid.metastore.txn.owner import Owner
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.progress import Phase, PhaseClock
from hiveacid.rules.locks import DataOperation, Operation, Target, lock_components
from hiveacid.rules.names import TableRef
from tests.contract.other_engines import OtherEngine
from tests.contract.txn.transactions import INSERT, MERGE, OVERWRITE, SELECT, UPDATE, own, run
from tests.fakes.metastore import REAL_AND_FAKE
from tests.observers import At

pytestmark = REAL_AND_FAKE


@pytest.fixture
def waiting(
    client: MetastoreClient, table: TableRef, eventually: Callable[..., None]
) -> Callable[..., AbstractContextManager[Transaction]]:
    """Enter a transaction in a thread and do something as soon as it waits."""

    def is_waiting() -> bool:
        in_line = client.show_locks(queue_of(table))
        return bool(in_line) or any(
            lock.state is LockState.WAITING for lock in client.show_locks(table)
        )

    @contextmanager
    def enter(transaction: Transaction, then: Callable[[], Any]) -> Iterator[Transaction]:
        with ThreadPoolExecutor(1) as pool:
            entered = pool.submit(transaction.__enter__)
            eventually("the request waits", is_waiting)
            then()
            entered.result()
        try:
            yield transaction
        finally:
            transaction.__exit__(None, None, None)

    return enter


@pytest.mark.parametrize("operation", [UPDATE, MERGE, OVERWRITE])
def test_after_a_wait_for_a_change_the_snapshot_is_fresh(
    begin: Callable[..., Transaction],
    waiting: Callable[..., AbstractContextManager[Transaction]],
    table: TableRef,
    operation: Operation,
) -> None:
    with (
        begin(UPDATE) as first,
        waiting(begin(operation, lock_wait_seconds=60), first.commit) as second,
    ):
        assert second.restarts == 0
        assert second.txn_id == first.txn_id + 1
        assert own(second) == own(first) + 1
        assert second.snapshot.write_ids[table.full_name].is_valid(own(first))
        second.commit()


def test_a_wait_without_a_change_needs_no_restart(
    begin: Callable[..., Transaction],
    waiting: Callable[..., AbstractContextManager[Transaction]],
) -> None:
    with (
        begin(UPDATE) as first,
        waiting(begin(MERGE, lock_wait_seconds=60), lambda: first.abort("a test")) as second,
    ):
        assert second.restarts == 0
        second.commit()


def test_waiters_are_served_in_their_order_and_open_one_transaction_each(
    client: MetastoreClient,
    table: TableRef,
    begin: Callable[..., Transaction],
    eventually: Callable[..., None],
) -> None:
    served: list[int] = []
    before = client.get_open_txns().high_watermark

    def work(number: int) -> None:
        # A day of its own for each, and one that all of them want.
        targets = [Target(table, MERGE, True, [f"day=1{number}", "day=1"])]
        with begin(MERGE, targets=targets, lock_wait_seconds=60) as transaction:
            served.append(number)
            transaction.commit()
            assert transaction.restarts == 0

    with ThreadPoolExecutor(5) as pool:
        with begin(MERGE) as first:
            running = []
            for number in range(5):
                running.append(pool.submit(work, number))
                eventually(
                    "the next one is queued",
                    lambda: (
                        len({lock.lock_id for lock in client.show_locks(queue_of(table))})
                        == len(running)
                    ),
                )
            assert client.get_open_txns().high_watermark == before + 1
            first.commit()
        for waiter in running:
            waiter.result()
    assert served == [0, 1, 2, 3, 4]
    assert client.get_open_txns().high_watermark == before + 6
    assert client.show_locks() == []


def test_a_restarted_writer_keeps_its_place(
    client: MetastoreClient,
    table: TableRef,
    begin: Callable[..., Transaction],
    eventually: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    open_txn, opened = MetastoreClient.open_txn, []

    def lose(self: MetastoreClient, *arguments: Any) -> int:
        opened.append(open_txn(self, *arguments))
        if len(opened) == 2:  # That of the one who has waited longest.
            raise AnswerLost("It went away.")
        return opened[-1]

    monkeypatch.setattr(MetastoreClient, "open_txn", lose)
    served: list[tuple[int, int]] = []

    def work(number: int) -> None:
        token = f"waiter {number}"
        with begin(MERGE, run_token=token, lock_wait_seconds=60) as transaction:
            served.append((number, transaction.restarts))
            transaction.commit()

    with ThreadPoolExecutor(2) as pool:
        with begin(MERGE) as first:
            running = []
            for number in range(2):
                running.append(pool.submit(work, number))
                eventually(
                    "the next one is queued",
                    lambda: len(client.show_locks(queue_of(table))) == len(running),
                )
            first.commit()
        for waiter in running:
            waiter.result()
    assert served == [(0, 1), (1, 0)]
    assert client.show_locks() == []


@pytest.mark.parametrize("operation", [INSERT, SELECT])
def test_a_queued_writer_blocks_nothing(
    client: MetastoreClient,
    table: TableRef,
    begin: Callable[..., Transaction],
    waiting: Callable[..., AbstractContextManager[Transaction]],
    operation: Operation,
) -> None:
    def pass_by() -> None:
        with begin(operation), begin(UPDATE, "day=2") as elsewhere:
            assert elsewhere.restarts == 0
        first.commit()

    with (
        begin(UPDATE) as first,
        waiting(begin(MERGE, lock_wait_seconds=60), pass_by) as second,
    ):
        second.commit()


def test_queued_earlier_attempts_of_the_same_run_are_not_awaited(
    client: MetastoreClient, table: TableRef, begin: Callable[..., Transaction]
) -> None:
    (component,) = lock_components(
        client.features.has_excl_write, OVERWRITE, queue_of(table), True, ["day=1"]
    )
    killed = replace(component, operation=DataOperation.NO_TXN, is_transactional=False)
    client.lock([killed], None, "root", "host", "nightly")
    with pytest.raises(LockTimeout, match="run nightly"), begin(UPDATE, run_token="other"):
        pass
    with begin(UPDATE, run_token="nightly", lock_wait_seconds=60) as again:
        again.commit()
    assert client.show_locks() == []


def test_two_live_tries_of_a_run_do_not_remove_each_others_tickets_for_ever(
    client: MetastoreClient, table: TableRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each look sends a heartbeat, and so notices a ticket that is gone.
    monkeypatch.setattr(writer_queue, "_SOON_SECONDS", 0)
    monkeypatch.setattr(writer_queue, "LONGEST_PAUSE_SECONDS", 1e9)

    def queue(run_token: str) -> WriterQueue:
        components = lock_components(
            client.features.has_excl_write, OVERWRITE, table, True, ["day=1"]
        )
        return WriterQueue(client, components, Owner.of(run_token, "root"), PhaseClock())

    def look(queue: WriterQueue) -> None:
        queue.keep()
        with pytest.raises(LockTimeout):
            queue.wait(time.monotonic(), 0)

    other, older, newer = queue("other"), queue("nightly"), queue("nightly")
    other.wait(time.monotonic(), 0)
    tickets = []
    for _ in range(4):
        look(older)
        look(newer)
        tickets.append(sorted(lock.lock_id for lock in client.show_locks(queue_of(table))))
    assert tickets[1:] == [tickets[1]] * 3
    assert len(tickets[1]) == 3
    other.end()
    newer.wait(time.monotonic(), 0)
    look(older)
    newer.end()
    older.wait(time.monotonic(), 0)
    older.end()
    assert client.show_locks() == []


def test_a_writer_that_waits_nevertheless_restarts(
    client: MetastoreClient,
    begin: Callable[..., Transaction],
    other_engine: Callable[[Operation], OtherEngine],
    table: TableRef,
    eventually: Callable[..., None],
) -> None:
    """Other engines do not queue: they request their locks in between."""
    rivals: list[OtherEngine] = []
    during = At(Phase.LOCK, lambda: rivals.append(other_engine(UPDATE)))
    transaction = begin(UPDATE, during=during, lock_wait_seconds=60)
    with ThreadPoolExecutor(1) as pool:
        entered = pool.submit(transaction.__enter__)
        eventually(
            "the request waits",
            lambda: (
                bool(rivals)
                and any(lock.state is LockState.WAITING for lock in client.show_locks(table))
            ),
        )
        rivals[0].commit()
        entered.result()
    try:
        assert transaction.restarts == 1
        assert own(transaction) > rivals[0].write_id
        transaction.commit()
    finally:
        transaction.__exit__(None, None, None)
    assert client.show_locks() == []


def test_another_engine_that_holds_the_table_is_waited_for_without_a_transaction(
    client: MetastoreClient,
    begin: Callable[..., Transaction],
    waiting: Callable[..., AbstractContextManager[Transaction]],
    other_engine: Callable[[Operation], OtherEngine],
) -> None:
    rival = other_engine(UPDATE)
    with waiting(begin(MERGE, lock_wait_seconds=60), rival.commit) as transaction:
        assert transaction.restarts == 0
        assert own(transaction) == rival.write_id + 1
        transaction.commit()


def test_many_changes_of_one_partition_all_get_their_turn(
    begin: Callable[..., Transaction],
) -> None:
    barrier = threading.Barrier(4)

    def work(_: int) -> int:
        barrier.wait()
        # Each of the others can be faster once.
        return run(begin(MERGE, lock_wait_seconds=60, max_restarts=3))

    with ThreadPoolExecutor(4) as pool:
        write_ids = list(pool.map(work, range(4)))
    assert len(set(write_ids)) == 4
