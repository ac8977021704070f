"""The contract of transactions that write several tables, on real metastores of both versions."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from hiveacid.errors import LockTimeout
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.owner import Outcome, Snapshot, outcome
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.progress import Phase, PhaseClock
from hiveacid.rules.locks import LockType, Operation, Target
from hiveacid.rules.names import TableRef
from tests.contract.other_engines import OtherEngine
from tests.fakes.metastore import REAL_AND_FAKE
from tests.observers import At

pytestmark = REAL_AND_FAKE

INSERT, UPDATE, OVERWRITE = Operation.INSERT, Operation.UPDATE, Operation.OVERWRITE


@pytest.fixture
def tables(client: MetastoreClient, database: str) -> tuple[TableRef, TableRef]:
    """A dimension, and facts by day."""
    dimension, facts = TableRef(database, "dimension"), TableRef(database, "facts")
    columns = [HiveColumn("id", "bigint")]
    client.create_table(HiveTable.new(dimension, columns))
    client.create_table(HiveTable.new(facts, columns, partition_keys=[HiveColumn("day", "string")]))
    return dimension, facts


@pytest.fixture
def begin(client: MetastoreClient, tables: tuple[TableRef, TableRef]) -> Callable[..., Transaction]:
    """Describe a transaction that does something to the dimension and to the facts of a day."""

    def describe(
        of_dimension: Operation, of_facts: Operation, *during: At, **options: Any
    ) -> Transaction:
        dimension, facts = tables
        targets = [Target(facts, of_facts, True, ["day=1"]), Target(dimension, of_dimension)]
        options = {"lock_wait_seconds": 0, **options}
        return Transaction(client, targets=targets, phases=PhaseClock(during), **options)

    return describe


def write(client: MetastoreClient, ref: TableRef, operation: Operation = UPDATE) -> int:
    """A write of one table by another user."""
    partitions = ["day=1"] if ref.name == "facts" else None
    return OtherEngine(client, ref, operation, partitions).commit()


def valid(client: MetastoreClient, tables: tuple[TableRef, ...], txn: Transaction) -> set[bool]:
    """Return whether others see the write ids of a transaction."""
    seen = Snapshot.take(client, tables).write_ids
    return {seen[name].is_valid(write_id) for name, write_id in txn.write_ids.items()}


def test_all_tables_are_locked_at_once_and_get_a_write_id_each(
    client: MetastoreClient,
    tables: tuple[TableRef, TableRef],
    begin: Callable[..., Transaction],
) -> None:
    write(client, tables[0])
    with begin(UPDATE, INSERT) as txn:
        assert txn.write_ids == {tables[0].full_name: 2, tables[1].full_name: 1}
        locks = [lock for lock in client.show_locks() if lock.txn_id == txn.txn_id]
        assert len({lock.lock_id for lock in locks}) == 1
        assert {lock.table: lock.type is LockType.SHARED_READ for lock in locks} == {
            tables[0]: False,
            tables[1]: True,
        }
        assert valid(client, tables, txn) == {False}
        txn.commit()
    assert valid(client, tables, txn) == {True}
    written = {ref: txn.write_ids[ref.full_name] for ref in tables}
    assert outcome(client, txn.txn_id, written) is Outcome.COMMITTED


def test_an_abort_takes_all_tables_back(
    client: MetastoreClient,
    tables: tuple[TableRef, TableRef],
    begin: Callable[..., Transaction],
) -> None:
    with begin(INSERT, INSERT) as txn:
        pass
    assert valid(client, tables, txn) == {False}
    written = {ref: txn.write_ids[ref.full_name] for ref in tables}
    assert outcome(client, txn.txn_id, written) is Outcome.ABORTED


@pytest.mark.parametrize("busy", [0, 1])
def test_it_waits_for_each_of_its_tables(
    client: MetastoreClient,
    tables: tuple[TableRef, TableRef],
    begin: Callable[..., Transaction],
    busy: int,
) -> None:
    partitions = ["day=1"] if busy else None
    target = Target(tables[busy], OVERWRITE, bool(busy), partitions)
    with (
        Transaction(client, targets=[target]),
        pytest.raises(LockTimeout) as error,
        begin(INSERT, UPDATE),
    ):
        pass
    assert tables[busy].full_name in str(error.value)


@pytest.mark.parametrize("moved", [0, 1])
@pytest.mark.parametrize("operations", [(UPDATE, UPDATE), (INSERT, UPDATE), (UPDATE, INSERT)])
def test_it_restarts_completely_if_one_of_its_tables_was_changed_before_the_locks(
    client: MetastoreClient,
    tables: tuple[TableRef, TableRef],
    begin: Callable[..., Transaction],
    moved: int,
    operations: tuple[Operation, Operation],
) -> None:
    name = tables[moved].full_name
    change = OVERWRITE if operations[moved] is INSERT else UPDATE
    changes: list[int] = []
    step_in = At(Phase.LOCK, lambda: changes.append(write(client, tables[moved], change)))
    with begin(*operations, step_in) as txn:
        assert txn.restarts == 1
        assert txn.write_ids[name] > changes[0]
        assert txn.snapshot.write_ids[name].is_valid(changes[0])
        txn.commit()
    assert valid(client, tables, txn) == {True}


def test_others_can_append_meanwhile_and_are_not_seen(
    client: MetastoreClient,
    tables: tuple[TableRef, TableRef],
    begin: Callable[..., Transaction],
) -> None:
    with begin(UPDATE, UPDATE) as txn:
        appended = [write(client, table, INSERT) for table in tables]
        seen = [txn.snapshot.write_ids[table.full_name] for table in tables]
        assert [ids.is_valid(write_id) for ids, write_id in zip(seen, appended, strict=True)] == [
            False
        ] * 2
        txn.commit()
    assert txn.restarts == 0


@pytest.mark.parametrize("busy", [0, 1])
def test_after_a_wait_for_one_table_the_snapshots_of_both_are_fresh(
    client: MetastoreClient,
    tables: tuple[TableRef, TableRef],
    begin: Callable[..., Transaction],
    eventually: Callable[..., None],
    busy: int,
) -> None:
    target = Target(tables[busy], UPDATE, bool(busy), ["day=1"] if busy else None)

    def is_waiting() -> bool:
        return any(
            lock.table and lock.table.name.endswith("#writers") for lock in client.show_locks()
        )

    waiter = begin(UPDATE, UPDATE, lock_wait_seconds=60)
    with Transaction(client, targets=[target]) as first, ThreadPoolExecutor(1) as pool:
        entered = pool.submit(waiter.__enter__)
        eventually("the request waits", is_waiting)
        first.commit()
        entered.result()
    try:
        name = tables[busy].full_name
        assert waiter.restarts == 0
        assert waiter.snapshot.write_ids[name].is_valid(first.write_ids[name])
        waiter.commit()
    finally:
        waiter.__exit__(None, None, None)
    assert valid(client, tables, waiter) == {True}


def test_of_two_statements_for_a_table_the_stronger_one_locks_all_their_partitions(
    client: MetastoreClient, tables: tuple[TableRef, TableRef]
) -> None:
    facts = tables[1]
    targets = [
        Target(facts, UPDATE, True, ["day=1"]),
        Target(facts, INSERT, True, ["day=2", "day=1"]),
    ]
    with Transaction(client, targets=targets, reads=[facts]) as txn:
        assert txn.write_ids == {facts.full_name: 1}
        locks = [lock for lock in client.show_locks(facts) if lock.txn_id == txn.txn_id]
        assert sorted(lock.partition or "" for lock in locks) == ["day=1", "day=2"]
        assert all(lock.type is not LockType.SHARED_READ for lock in locks)
