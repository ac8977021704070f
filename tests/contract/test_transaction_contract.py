"""What transactions promise each other, on real metastores of both versions."""

import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from airflow_hiveacid.acid.locks import (
    DataOperation,
    Operation,
    TableRef,
    Target,
    lock_components,
)
from airflow_hiveacid.errors import (
    LockTimeout,
    SnapshotMoved,
    TransactionAborted,
    WriteConflict,
)
from airflow_hiveacid.metastore.catalog import HiveColumn, HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.thrift.answers import LockState
from airflow_hiveacid.metastore.txn.owner import abort_open_transactions, find_open_transactions
from airflow_hiveacid.metastore.txn.transaction import Transaction
from airflow_hiveacid.metastore.txn.writer_queue import queue_of
from airflow_hiveacid.progress import Phase, PhaseClock
from tests.contract.other_engines import OtherEngine
from tests.fakes.metastore import REAL_AND_FAKE
from tests.observers import At

pytestmark = REAL_AND_FAKE

SELECT, INSERT, OVERWRITE = Operation.SELECT, Operation.INSERT, Operation.OVERWRITE
UPDATE, DELETE, MERGE = Operation.UPDATE, Operation.DELETE, Operation.MERGE


@pytest.fixture
def table(client: MetastoreClient, database: str) -> TableRef:
    ref = TableRef(database, "events")
    keys = [HiveColumn("day", "string")]
    client.create_table(HiveTable.new(ref, [HiveColumn("id", "bigint")], partition_keys=keys))
    return ref


@pytest.fixture
def begin(client: MetastoreClient, table: TableRef) -> Callable[..., Transaction]:
    """Describe a transaction on a partition of the table; by default it never waits."""

    def describe(
        operation: Operation,
        partition: str | None = "day=1",
        during: At | None = None,
        **options: Any,
    ) -> Transaction:
        if operation is SELECT:
            options["reads"] = [table]
        else:
            partitions = None if partition is None else [partition]
            options.setdefault("targets", [Target(table, operation, True, partitions)])
        options = {"lock_wait_seconds": 0, **options}
        phases = PhaseClock([during] if during else [])
        return Transaction(client, phases=phases, **options)

    return describe


@pytest.fixture
def other_engine(client: MetastoreClient, table: TableRef) -> Callable[[Operation], OtherEngine]:
    """Begin a transaction of another engine on the same partition."""
    return lambda operation: OtherEngine(client, table, operation, ["day=1"])


def own(transaction: Transaction) -> int:
    (write_id,) = transaction.write_ids.values()
    return write_id


def run(transaction: Transaction) -> int:
    with transaction:
        transaction.commit()
    return own(transaction)


def open_txns(client: MetastoreClient) -> list[int]:
    return [txn.txn_id for txn in client.get_open_txns_info() if txn.state.name == "OPEN"]


@pytest.mark.parametrize(
    ("first", "second", "waits"),
    [
        (INSERT, INSERT, False),
        (INSERT, UPDATE, False),
        (MERGE, INSERT, False),
        (SELECT, UPDATE, False),
        (UPDATE, SELECT, False),
        (UPDATE, UPDATE, True),
        (MERGE, DELETE, True),
        (INSERT, OVERWRITE, True),
        (OVERWRITE, INSERT, True),
        (OVERWRITE, MERGE, True),
        (SELECT, OVERWRITE, True),
        (OVERWRITE, SELECT, True),
    ],
)
def test_who_waits_for_whom_on_one_partition(
    begin: Callable[..., Transaction], first: Operation, second: Operation, waits: bool
) -> None:
    with begin(first):
        if waits:
            with pytest.raises(LockTimeout), begin(second):
                pass
        else:
            with begin(second) as transaction:
                assert transaction.restarts == 0


@pytest.mark.parametrize("operation", [UPDATE, MERGE, OVERWRITE])
def test_changes_of_different_partitions_run_side_by_side(
    begin: Callable[..., Transaction], operation: Operation
) -> None:
    with begin(operation, "day=1") as one, begin(operation, "day=2") as two:
        # The first commits in the most awkward moment for a third one.
        with begin(operation, "day=3", At(Phase.LOCK, one.commit)) as three:
            two.commit()
            three.commit()
        assert (one.restarts, two.restarts, three.restarts) == (0, 0, 0)


def test_a_whole_table_change_waits_for_a_partition(begin: Callable[..., Transaction]) -> None:
    with begin(UPDATE, "day=1"), pytest.raises(LockTimeout), begin(MERGE, None):
        pass


def test_a_lock_timeout_names_the_holder(
    client: MetastoreClient, table: TableRef, begin: Callable[..., Transaction]
) -> None:
    with begin(UPDATE, run_token="nightly/merge", user="alice") as holder:
        (held,) = client.show_locks(table)
        with pytest.raises(LockTimeout) as error, begin(DELETE, run_token="late"):
            pass
    message = str(error.value)
    for part in (
        f"{held.type.name} on {table}/day=1",
        f"by transaction {holder.txn_id}",
        "user alice",
        f"host {held.host}",
        "run nightly/merge",
    ):
        assert part in message
    assert re.search(r"held since 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC", message)
    assert error.value.retryable
    assert find_open_transactions(client, "late") == []


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
def test_who_waited_for_a_change_begins_on_fresh_data(
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


def test_who_waited_for_nothing_goes_on(
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
                    "the next one stands in line",
                    lambda: (
                        len({each.lock_id for each in client.show_locks(queue_of(table))})
                        == len(running)
                    ),
                )
            assert client.get_open_txns().high_watermark == before + 1
            first.commit()
        for each in running:
            each.result()
    assert served == [0, 1, 2, 3, 4]
    assert client.get_open_txns().high_watermark == before + 6
    assert client.show_locks() == []


@pytest.mark.parametrize("operation", [INSERT, SELECT])
def test_who_stands_in_line_is_in_nobodys_way(
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


def test_nobody_waits_for_an_earlier_try_of_the_same_run_that_stands_in_line(
    client: MetastoreClient, table: TableRef, begin: Callable[..., Transaction]
) -> None:
    (component,) = lock_components(client.version, OVERWRITE, queue_of(table), True, ["day=1"])
    killed = replace(component, operation=DataOperation.NO_TXN, is_transactional=False)
    client.lock([killed], None, "root", "host", "nightly")
    with pytest.raises(LockTimeout, match="run nightly"), begin(UPDATE, run_token="other"):
        pass
    with begin(UPDATE, run_token="nightly", lock_wait_seconds=60) as again:
        again.commit()
    assert client.show_locks() == []


def test_who_waits_all_the_same_begins_anew(
    client: MetastoreClient,
    begin: Callable[..., Transaction],
    other_engine: Callable[[Operation], OtherEngine],
    table: TableRef,
    eventually: Callable[..., None],
) -> None:
    """Other engines stand in no line: they ask for their locks in between."""
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


@pytest.mark.parametrize("operation", [UPDATE, OVERWRITE])
def test_a_change_between_opening_and_locking_is_not_missed(
    begin: Callable[..., Transaction],
    other_engine: Callable[[Operation], OtherEngine],
    table: TableRef,
    operation: Operation,
) -> None:
    changes: list[int] = []
    during = At(Phase.LOCK, lambda: changes.append(other_engine(DELETE).commit()))
    with begin(operation, during=during) as transaction:
        assert transaction.restarts == 1
        assert own(transaction) > changes[0]
        assert transaction.snapshot.write_ids[table.full_name].is_valid(changes[0])
        transaction.commit()


def test_an_insert_is_never_hidden_by_an_overwrite_that_overtook_it(
    begin: Callable[..., Transaction],
) -> None:
    overwrites: list[int] = []
    during = At(Phase.LOCK, lambda: overwrites.append(run(begin(OVERWRITE))))
    assert run(begin(INSERT, during=during)) > overwrites[0]


def test_rows_that_are_seen_have_smaller_write_ids_than_their_deletion(
    client: MetastoreClient, table: TableRef, begin: Callable[..., Transaction]
) -> None:
    older = client.open_txn("somebody", "host", None)  # Takes its write id late, as Hive does.

    def insert() -> None:
        client.allocate_write_id(older, table)
        client.commit_txn(older)

    with begin(DELETE, during=At(Phase.LOCK, insert)) as transaction:
        seen = transaction.snapshot.write_ids[table.full_name]
        assert transaction.restarts == 1
        assert seen.is_valid(own(transaction) - 1)
        transaction.commit()


def test_a_table_that_never_rests_is_an_error(
    client: MetastoreClient,
    begin: Callable[..., Transaction],
    other_engine: Callable[[Operation], OtherEngine],
) -> None:
    during = At(Phase.LOCK, lambda: other_engine(DELETE).commit(), times=3)
    with (
        pytest.raises(SnapshotMoved, match="3 attempts"),
        begin(UPDATE, during=during, max_restarts=2, run_token="restless"),
    ):
        pass
    assert find_open_transactions(client, "restless") == []


def test_a_change_by_somebody_who_takes_no_lock_is_a_conflict(
    client: MetastoreClient, table: TableRef, begin: Callable[..., Transaction]
) -> None:
    removed: list[str] = []

    def work() -> None:
        with begin(UPDATE) as transaction:
            transaction.own(lambda: removed.append("delta"), "delta")
            other = client.open_txn("somebody", "host", None)
            write_id = client.allocate_write_id(other, table)
            client.add_dynamic_partitions(other, write_id, table, ["day=1"], DataOperation.UPDATE)
            client.commit_txn(other)
            transaction.commit()

    with pytest.raises(WriteConflict, match=f"{table} partition day=1") as error:
        work()
    assert error.value.retryable
    assert removed == ["delta"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_failure_removes_what_is_owned_and_then_aborts(
    client: MetastoreClient, begin: Callable[..., Transaction], error: type[BaseException]
) -> None:
    removed: list[tuple[str, bool]] = []
    transaction = begin(INSERT)

    def remove(name: str) -> None:
        removed.append((name, transaction.txn_id in open_txns(client)))

    def fail() -> None:
        raise OSError("read-only file system")

    def work() -> None:
        with transaction:
            transaction.own(lambda: remove("first"), "first")
            transaction.own(fail, "second")
            transaction.own(lambda: remove("third"), "third")
            raise error("the work failed")

    with pytest.raises(error, match="the work failed"):
        work()
    assert removed == [("third", True), ("first", True)]
    assert transaction.warnings == ["Could not remove second: read-only file system"]
    assert transaction.txn_id not in open_txns(client)


def test_what_is_committed_stays(begin: Callable[..., Transaction], table: TableRef) -> None:
    removed: list[str] = []
    transaction = begin(INSERT)

    def work() -> None:
        with transaction:
            transaction.own(lambda: removed.append("delta"), "delta")
            transaction.commit()
            raise ValueError("after the commit")

    with pytest.raises(ValueError, match="after the commit"):
        work()
    assert removed == []
    with begin(SELECT) as reader:
        assert reader.snapshot.write_ids[table.full_name].is_valid(own(transaction))


def test_a_transaction_is_entered_only_once(begin: Callable[..., Transaction]) -> None:
    transaction = begin(INSERT)
    run(transaction)
    with pytest.raises(RuntimeError, match="only once"):
        transaction.__enter__()


def test_sources_are_seen_as_of_the_same_moment(
    client: MetastoreClient, table: TableRef, begin: Callable[..., Transaction]
) -> None:
    source = TableRef(table.database, "source")
    client.create_table(HiveTable.new(source, [HiveColumn("id", "bigint")]))
    before = run(Transaction(client, targets=[Target(source, INSERT)]))
    with begin(MERGE, reads=[source, table]) as transaction:
        after = run(Transaction(client, targets=[Target(source, INSERT)]))
        seen = transaction.snapshot.write_ids
        assert seen[source.full_name].is_valid(before)
        assert not seen[source.full_name].is_valid(after)
        assert seen[table.full_name].is_valid(own(transaction))
        locks = client.show_locks()
        assert {lock.table for lock in locks if lock.txn_id == transaction.txn_id} == {
            source,
            table,
        }


@pytest.mark.parametrize("length", [20, 300])
def test_a_run_finds_and_ends_what_its_earlier_try_left_open(
    client: MetastoreClient, begin: Callable[..., Transaction], length: int
) -> None:
    token = "r" * length
    assert abort_open_transactions(client, token) == []

    def zombie() -> None:
        with begin(MERGE, run_token=token) as mine, begin(INSERT, run_token=token + "s") as other:
            assert find_open_transactions(client, token) == [mine.txn_id]
            assert abort_open_transactions(client, token) == [mine.txn_id]
            other.commit()
            mine.commit()

    with pytest.raises(TransactionAborted, match="run the job again"):
        zombie()
    assert find_open_transactions(client, token) == []
