"""The contract of compactions with each other and all other clients, on real metastores of both
versions."""

from collections.abc import Callable

import pytest

from hiveacid.errors import (
    AlreadyCompacting,
    CorruptFile,
    LockTimeout,
    StorageError,
    TransactionAborted,
)
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import CompactionQueue, CompactionTransaction
from hiveacid.metastore.thrift import idl_txns
from hiveacid.metastore.txn.owner import (
    Outcome,
    find_open_transactions,
    outcome,
)
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.progress import Phase, PhaseClock
from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.locks import Operation
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from tests.contract.compactions import (
    DAY,
    MAJOR,
    MINOR,
    begin_write,
    finish,
    only_hms4,
    states,
    write,
)
from tests.fakes.metastore import REAL_AND_FAKE


@REAL_AND_FAKE
def test_a_compaction_leaves_nothing_but_a_request_for_cleaning(
    client: MetastoreClient,
    queue: CompactionQueue,
    table: TableRef,
    begin: Callable[..., CompactionTransaction],
) -> None:
    with begin(run_token="nightly", run_as="root") as compaction:
        assert find_open_transactions(client, "nightly") == [compaction.txn_id]
        finish(compaction)
    assert compaction.warnings == []
    assert outcome(client, compaction.txn_id, {}) is Outcome.COMMITTED
    assert client.show_locks() == []
    if client.features.has_pools:
        assert compaction.visibility_txn == compaction.txn_id
        (entry,) = queue.show(table)
        assert (entry.state, entry.type, entry.run_as) == ("ready for cleaning", "major", "root")
        assert (entry.txn_id, entry.highest_write_id) == (compaction.txn_id, 1)
    else:
        hidden = client.features.hides_compactions
        assert compaction.visibility_txn == (compaction.txn_id if hidden else 0)
        assert queue.show(table) == []


@REAL_AND_FAKE
def test_it_reads_up_to_the_smallest_open_write_id(
    client: MetastoreClient, table: TableRef, begin: Callable[..., CompactionTransaction]
) -> None:
    with begin_write(client, table) as aborted:
        pass
    write(client, table)
    with begin_write(client, table) as open_one:
        write(client, table)
        with begin() as compaction:
            assert compaction.write_ids.high_watermark == open_one.write_ids[table.full_name] - 1
            assert compaction.write_ids.aborted == (aborted.write_ids[table.full_name],)
            assert not compaction.txns.is_valid(open_one.txn_id)


@REAL_AND_FAKE
def test_of_two_compactors_of_a_partition_the_second_is_turned_away_at_once(
    client: MetastoreClient, table: TableRef, begin: Callable[..., CompactionTransaction]
) -> None:
    with begin(type_=MINOR) as first:
        with pytest.raises(AlreadyCompacting) as error, begin(lock_wait_seconds=300):
            pass
        assert error.value.retryable
        assert f":{first.txn_id}." in str(error.value) or f" {first.txn_id} " in str(error.value)
        with begin("day=2") as elsewhere:
            finish(elsewhere)
        finish(first)
    write(client, table)
    with begin() as second:
        finish(second)


@REAL_AND_FAKE
def test_only_overwrites_of_its_inputs_wait_for_a_compaction(
    client: MetastoreClient, table: TableRef, begin: Callable[..., CompactionTransaction]
) -> None:
    with begin() as compaction:
        for operation in (Operation.INSERT, Operation.MERGE):
            with begin_write(client, table, operation) as writer:
                writer.commit()
        with Transaction(client, reads=[table], lock_wait_seconds=0):
            pass
        with (
            pytest.raises(LockTimeout, match=f"transaction {compaction.txn_id} "),
            begin_write(client, table, Operation.OVERWRITE),
        ):
            pass
        finish(compaction)
    with begin_write(client, table, Operation.OVERWRITE) as overwrite:
        overwrite.commit()


@REAL_AND_FAKE
def test_a_table_that_is_dropped_meanwhile_leaves_nothing_behind(
    client: MetastoreClient, table: TableRef, begin: Callable[..., CompactionTransaction]
) -> None:
    removed: list[str] = []
    with begin(run_token="nightly") as compaction:
        compaction.own(lambda: removed.append("base"), "base")
        client.drop_table(table)
    assert removed == ["base"]
    assert find_open_transactions(client, "nightly") == []
    assert client.show_locks() == []
    assert CompactionQueue(client).live(table) == []


@REAL_AND_FAKE
def test_an_error_reverts_everything_and_is_reported_to_the_queue(
    client: MetastoreClient,
    queue: CompactionQueue,
    table: TableRef,
    begin: Callable[..., CompactionTransaction],
) -> None:
    removed: list[str] = []
    compaction = begin()

    def work() -> None:
        with compaction:
            compaction.own(lambda: removed.append("staging"), "staging")
            compaction.own(lambda: removed.append("base"), "base")
            compaction.record(1)
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        work()
    assert removed == ["base", "staging"]
    assert outcome(client, compaction.txn_id, {}) is not Outcome.OPEN
    assert client.show_locks() == []
    if client.features.has_pools:
        (entry,) = queue.show(table)
        assert (entry.state, entry.error) == ("failed", "OSError: the disk is full")
    with begin() as again:
        finish(again)


@REAL_AND_FAKE
def test_a_compaction_whose_transaction_was_aborted_does_not_come_to_be(
    client: MetastoreClient,
    queue: CompactionQueue,
    table: TableRef,
    begin: Callable[..., CompactionTransaction],
) -> None:
    removed: list[str] = []

    def work() -> CompactionTransaction:
        with begin() as compaction:
            compaction.own(lambda: removed.append("base"), "base")
            compaction.record(1)
            client.abort_txn(compaction.txn_id)
            compaction.commit()
        return compaction

    if client.features.hides_compactions:
        with pytest.raises(TransactionAborted):
            work()
        assert removed == ["base"]
        assert states(queue, table) == ["failed"] * client.features.has_pools
    else:
        # There it was visible before the end, so there is nothing to take back.
        compaction = work()
        assert removed == []
        assert len(compaction.warnings) == 1
    write(client, table)
    with begin() as again:
        finish(again)


@REAL_AND_FAKE
def test_nothing_to_do_is_refused_with_a_reason(
    client: MetastoreClient,
    queue: CompactionQueue,
    table: TableRef,
    begin: Callable[..., CompactionTransaction],
) -> None:
    with begin() as compaction:
        compaction.refuse("There is one delta only.")
    assert compaction.warnings == []
    assert client.show_locks() == []
    if client.features.has_pools:
        (entry,) = queue.show(table)
        assert (entry.state, entry.error) == ("refused", "There is one delta only.")
    with begin() as again:
        finish(again)


@REAL_AND_FAKE
def test_a_request_of_another_client_is_not_served_twice(
    client: MetastoreClient, table: TableRef, begin: Callable[..., CompactionTransaction]
) -> None:
    # The request of ALTER TABLE ... COMPACT sends, on either version.
    request = idl_txns.CompactionRequest(table.database, table.name, DAY, 2)
    client.call(idl_txns.compact2, request)
    with pytest.raises(AlreadyCompacting, match="initiated") as error, begin():
        pass
    assert ('mode="serve"' in str(error.value)) == client.features.has_queue
    with begin("day=2") as elsewhere:
        finish(elsewhere)


@only_hms4
def test_until_it_is_cleaned_a_partition_is_compacted_again_only_after_a_write(
    client: MetastoreClient,
    queue: CompactionQueue,
    table: TableRef,
    begin: Callable[..., CompactionTransaction],
) -> None:
    with begin(type_=MINOR) as minor:
        finish(minor)
    with pytest.raises(AlreadyCompacting, match="Clean the table"), begin():
        pass
    queue.cleaned(queue.show(table)[0])
    with begin() as major:
        finish(major)


@only_hms4
def test_a_waiting_request_is_served(
    client: MetastoreClient, queue: CompactionQueue, table: TableRef
) -> None:
    queue.request(table, DAY, MINOR)
    served = CompactionTransaction.serve(client, table=table, run_token="worker")
    assert served is not None
    with served:
        assert (served.ref, served.partition, served.type) == (table, DAY, MINOR)
        assert find_open_transactions(client, "worker") == [served.txn_id]
        finish(served)
    (entry,) = queue.show(table)
    # The request named no owner of the directory, and Hive's cleaner cannot do without.
    assert (entry.state, entry.run_as) == ("ready for cleaning", "olga")
    assert CompactionTransaction.serve(client, table=table) is None


@only_hms4
def test_a_worker_serves_what_it_is_handed_out(
    client: MetastoreClient, queue: CompactionQueue, table: TableRef
) -> None:
    pool = f"pool of {table.database}"
    queue.request(table, "day=1", MINOR, pool=pool)
    queue.request(table, "day=2", MAJOR, pool=pool)
    assert (
        CompactionTransaction.serve(client, pool=pool, table=TableRef(table.database, "other"))
        is None
    )
    one = CompactionTransaction.serve(client, pool=pool)
    two = CompactionTransaction.serve(client, pool=pool)
    three = CompactionTransaction.serve(client, pool=pool)
    assert one is not None
    assert two is not None
    assert three is not None
    with one, two:
        # Both received the same request, which only one of them can have.
        assert (one.partition, one.type) == ("day=1", MINOR)
        assert (two.partition, two.type) == ("day=2", MAJOR)
        with pytest.raises(AlreadyCompacting, match="Another worker"), three:
            pass
        finish(two)
        finish(one)
    assert states(queue, table) == ["ready for cleaning", "ready for cleaning"]


@only_hms4
def test_requests_that_only_hive_can_serve_are_left_to_it(
    client: MetastoreClient, queue: CompactionQueue, table: TableRef
) -> None:
    pool = f"pool of {table.database}"
    clean_up_aborts = idl_txns.CompactionRequest(
        dbname=table.database, tablename=table.name, type=4, poolName=pool
    )
    client.call(idl_txns.compact2, clean_up_aborts)
    queue.request(table, DAY, MAJOR, pool=pool)
    assert CompactionTransaction.serve(client, pool=pool) is None
    assert states(queue, table) == ["initiated", "initiated"]


@only_hms4
def test_the_claim_of_a_rebalance_contains_its_sort_order(
    client: MetastoreClient, queue: CompactionQueue, table: TableRef
) -> None:
    pool = f"pool of {table.database}"
    rebalance = idl_txns.CompactionRequest(
        dbname=table.database,
        tablename=table.name,
        partitionname=DAY,
        type=3,
        poolName=pool,
        orderByClause="order by id desc",
        numberOfBuckets=3,
    )
    client.call(idl_txns.compact2, rebalance)
    served = CompactionTransaction.serve(client, pool=pool, lock_wait_seconds=0)
    assert served is not None
    with served:
        asked = served.request
        assert asked is not None
        assert (asked.type, asked.order_by, asked.files) == ("rebalance", "order by id desc", 3)
        # Writers that change rows wait for it; appends do not.
        write(client, table)
        with pytest.raises(LockTimeout), begin_write(client, table, Operation.UPDATE):
            pass
        finish(served)
    assert states(queue, table) == ["ready for cleaning"]


@REAL_AND_FAKE
def test_a_rebalance_without_row_ids_blocks_nothing(
    client: MetastoreClient, table: TableRef, begin: Callable[..., CompactionTransaction]
) -> None:
    rebalance = begin(type_=CompactionType.REBALANCE, kind=TableKind.INSERT_ONLY)
    with rebalance:
        write(client, table)
        with begin_write(client, table, Operation.UPDATE) as change:
            change.commit()
        finish(rebalance)
    assert client.show_locks() == []


@REAL_AND_FAKE
def test_phases_are_reported_in_order(begin: Callable[..., CompactionTransaction]) -> None:
    phases = PhaseClock()
    with begin(phases=phases) as compaction:
        finish(compaction)
    assert list(phases.seconds) == [Phase.OPEN, Phase.LOCK, Phase.SNAPSHOT, Phase.COMMIT]


@REAL_AND_FAKE
@pytest.mark.parametrize("error", [FileNotFoundError, StorageError, CorruptFile])
def test_files_missing_after_an_abort_are_reported_as_the_abort(
    client: MetastoreClient, begin: Callable[..., CompactionTransaction], error: type[Exception]
) -> None:
    compaction = begin()

    def work() -> None:
        with compaction:
            client.abort_txn(compaction.txn_id)
            raise error("No such file")

    with pytest.raises(TransactionAborted, match="during its work") as aborted:
        work()
    assert aborted.value.retryable
    assert isinstance(aborted.value.__cause__, error)
    assert client.show_locks() == []


@only_hms4
@pytest.mark.parametrize("step", ["record", "commit"])
def test_a_writer_with_an_expired_transaction_gets_the_abort(
    client: MetastoreClient,
    queue: CompactionQueue,
    table: TableRef,
    begin: Callable[..., CompactionTransaction],
    step: str,
) -> None:
    compaction = begin()

    def wake_up() -> None:
        with compaction:
            client.abort_txn(compaction.txn_id)
            assert queue.live(table) == []
            if step == "record":
                compaction.record(1)
            compaction.commit()

    with pytest.raises(TransactionAborted) as aborted:
        wake_up()
    assert aborted.value.retryable
    assert states(queue, table) == ["failed"]
