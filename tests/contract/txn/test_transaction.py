"""The contract of transactions with each other, on real metastores of both versions."""

import re
from collections.abc import Callable

import pytest

from hiveacid.errors import (
    LockTimeout,
    SnapshotMoved,
    TransactionAborted,
    WriteConflict,
)
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn import locks
from hiveacid.metastore.txn.heartbeat import is_of_this_process
from hiveacid.metastore.txn.owner import abort_open_transactions, find_open_transactions
from hiveacid.metastore.txn.transaction import ExclusiveTable, Transaction
from hiveacid.progress import Phase
from hiveacid.rules.locks import DataOperation, Operation, Target
from hiveacid.rules.names import TableRef
from tests.contract.other_engines import OtherEngine
from tests.contract.txn.transactions import (
    DELETE,
    INSERT,
    MERGE,
    OVERWRITE,
    SELECT,
    UPDATE,
    own,
    run,
)
from tests.fakes.metastore import REAL_AND_FAKE
from tests.observers import At

pytestmark = REAL_AND_FAKE


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
def test_waits_of_writers_of_one_partition(
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


def test_a_change_without_a_lock_is_a_conflict(
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


def test_heartbeats_end_with_a_transaction_whose_abort_is_interrupted(
    begin: Callable[..., Transaction], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with (
        monkeypatch.context() as patch,
        pytest.raises(KeyboardInterrupt),
        begin(UPDATE) as transaction,
    ):
        patch.setattr(transaction._client, "abort_txn", interrupt)
    assert not is_of_this_process(transaction._client, transaction.txn_id)
    transaction._client.abort_txn(transaction.txn_id)


def test_committed_files_are_kept(begin: Callable[..., Transaction], table: TableRef) -> None:
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


def test_a_failure_under_locks_only_leaves_no_aborted_transaction(
    begin: Callable[..., Transaction], client: MetastoreClient, table: TableRef
) -> None:
    """A bare metastore of version 3 never removes aborted transactions, which every reader gets."""
    with pytest.raises(KeyError), begin(SELECT) as reader:
        raise KeyError
    with pytest.raises(LockTimeout), begin(OVERWRITE), begin(SELECT):
        pass
    with pytest.raises(KeyError), ExclusiveTable(client, table, None, 0) as exclusive:
        raise KeyError
    left = [txn for txn in client.get_open_txns_info() if txn.txn_id >= reader.txn_id]
    assert len(left) == 1, "only the writer is aborted"
    assert client.show_locks(table) == []
    assert [*reader.warnings, *exclusive.warnings] == []


def test_a_change_of_a_definition_names_whom_it_waits_for(
    client, table, begin, monkeypatch, caplog
):
    monkeypatch.setattr(locks, "REPORT_SECONDS", 0.0)
    with (
        begin(SELECT) as reader,
        pytest.raises(LockTimeout),
        ExclusiveTable(client, table, None, 1),
    ):
        pass
    beginning = f"The lock of {table.full_name}: waiting for transaction {reader.txn_id} of "
    # The first answer of the metastore names nobody.
    assert caplog.messages[-1].startswith(beginning)
