"""The compaction queue of HMS 4: the assignment of requests, and their results."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hiveacid.errors import MetastoreCallFailed
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import (
    CompactionQueue,
    QueuedCompaction,
    own_pool,
    own_worker,
)
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.thrift.answers import TxnType
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.rules.names import TableRef
from tests.contract.compactions import DAY, MAJOR, MINOR, needs_pools, states, write
from tests.fakes.compactions import Compactions
from tests.fakes.metastore import FakeMetastore

pytestmark = needs_pools


@pytest.fixture(
    params=[
        "hms4",
        "fake4",
        *[pytest.param(newer, marks=pytest.mark.metastores) for newer in ("hms41", "hms42")],
    ]
)
def hms(request: pytest.FixtureRequest) -> EmbeddedMetastore | FakeMetastore:
    """Version 3 has no such queue."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def queue(client: MetastoreClient) -> Iterator[CompactionQueue]:
    """The queue, which is left without unfinished requests."""
    queue = CompactionQueue(client)
    yield queue
    for entry in queue.live():
        queue.failed(entry, "the test is over")


@pytest.fixture
def pool(table: TableRef) -> str:
    """A pool that no other test looks into."""
    return f"pool of {table.database}"


def compact(client: MetastoreClient, queue: CompactionQueue, claimed: QueuedCompaction) -> int:
    """Make the calls of a worker after a successful compaction."""
    txn = client.open_txn("alice", "there", None, TxnType.COMPACTION)
    queue.record(claimed, txn, watermark(client, claimed.table), "alice")
    queue.compacted(claimed)
    client.commit_txn(txn)
    return txn


def watermark(client: MetastoreClient, ref: TableRef) -> int:
    return Snapshot.take(client, [ref]).write_ids[ref.full_name].high_watermark


def is_open(client: MetastoreClient, txn: int) -> bool:
    return txn in Snapshot.take(client, []).txns.open


def test_a_request_goes_to_a_worker_of_its_pool_and_is_shown_all_the_way(
    client: MetastoreClient, queue: CompactionQueue, table: TableRef, pool: str
) -> None:
    answer = queue.request(table, DAY, MAJOR, pool=pool, run_as="alice")
    assert answer.accepted
    (asked,) = queue.show(table)
    assert (asked.id, asked.table, asked.partition, asked.type) == (answer.id, table, DAY, "major")
    assert (asked.state, asked.pool, asked.run_as) == ("initiated", pool, "alice")
    assert asked.enqueued_at is not None

    assert queue.claim("stranger", "another pool") is None
    claimed = queue.claim("worker-1", pool)
    assert claimed is not None
    assert (claimed.id, claimed.table, claimed.partition) == (answer.id, table, DAY)
    assert claimed.type == "major"
    assert queue.claim("worker-2", pool) is None
    (working,) = queue.show(table)
    assert (working.state, working.worker_id) == ("working", "worker-1")
    assert working.started_at is not None

    txn = compact(client, queue, claimed)
    (done,) = queue.show(table)
    assert (done.state, done.txn_id) == ("ready for cleaning", txn)
    assert done.highest_write_id == watermark(client, table)
    assert done.next_txn_id is not None
    assert done.next_txn_id >= txn

    queue.cleaned(done)
    assert states(queue, table) == ["succeeded"]


@pytest.fixture
def compacted(
    client: MetastoreClient, queue: CompactionQueue, table: TableRef, pool: str
) -> QueuedCompaction:
    """A request that is ready for cleaning."""
    queue.request(table, DAY, MAJOR, pool=pool)
    claimed = queue.claim("worker-1", pool)
    assert claimed is not None
    compact(client, queue, claimed)
    (ready,) = queue.show(table)
    return ready


def test_the_cleaning_of_a_dropped_table_is_accepted(
    client: MetastoreClient, queue: CompactionQueue, compacted: QueuedCompaction
) -> None:
    client.drop_table(compacted.table)
    assert queue.show(compacted.table) == []
    queue.cleaned(compacted)


@pytest.mark.parametrize("hms", ["fake4"], indirect=True)
@pytest.mark.parametrize("shown", ["ready for cleaning", "succeeded", None])
def test_only_a_request_that_succeeded_is_known_to_be_cleaned(
    queue: CompactionQueue,
    compacted: QueuedCompaction,
    monkeypatch: pytest.MonkeyPatch,
    shown: str | None,
) -> None:
    def fails(server: Compactions, info: Any) -> None:
        if shown is None:
            server.forget_table(info.dbname, info.tablename)
        else:
            server._entries[info.id].state = shown
        raise RuntimeError("The database has ended the transaction.")

    monkeypatch.setattr(Compactions, "mark_cleaned", fails)
    monkeypatch.setattr("hiveacid.metastore.compactions._PAUSES_OF_CLEANING", ())
    if shown == "succeeded":
        queue.cleaned(compacted)
        return
    what = "is ready for cleaning" if shown else "unknown whether request"
    with pytest.raises(MetastoreCallFailed, match=what):
        queue.cleaned(compacted)


def test_the_queue_is_shown_by_table_and_by_partition(
    queue: CompactionQueue, table: TableRef, pool: str
) -> None:
    queue.request(table, "day=1", MAJOR, pool=pool)
    queue.request(table, "day=2", MINOR, pool=pool)
    assert [entry.type for entry in queue.show(table)] == ["major", "minor"]
    assert [entry.partition for entry in queue.show(table, "day=2")] == ["day=2"]
    assert queue.show(TableRef(table.database, "other")) == []
    assert {entry.table for entry in queue.show()} >= {table}


def test_one_partition_has_one_unfinished_request(
    client: MetastoreClient, queue: CompactionQueue, table: TableRef, pool: str
) -> None:
    first = queue.request(table, DAY, MAJOR, pool=pool)
    second = queue.request(table, DAY, MINOR, pool="another")
    assert not second.accepted
    assert second.message is not None
    assert f"'initiated' and id={first.id}" in second.message
    assert queue.request(table, "day=2", MAJOR, pool="another").accepted

    claimed = queue.claim("worker", pool)
    assert claimed is not None
    assert "'working'" in str(queue.request(table, DAY, MAJOR, pool=pool).message)

    compact(client, queue, claimed)
    assert "'ready for cleaning'" in str(queue.request(table, DAY, MAJOR, pool=pool).message)
    # It is in the way only until something is written, to whichever partition.
    write(client, table, "day=2")
    assert queue.request(table, DAY, MAJOR, pool=pool).accepted


@pytest.mark.parametrize("end", ["failed", "refused"])
def test_failed_actions_have_a_reason_and_release_resources(
    queue: CompactionQueue, table: TableRef, pool: str, end: str
) -> None:
    queue.request(table, DAY, MAJOR, pool=pool)
    claimed = queue.claim("worker", pool)
    assert claimed is not None
    getattr(queue, end)(claimed, "No space left for façade.")
    (entry,) = queue.show(table)
    assert (entry.state, entry.error) == (end, "No space left for façade.")
    assert queue.request(table, DAY, MAJOR, pool=pool).accepted


@pytest.mark.parametrize("end", ["failed", "refused"])
def test_an_ended_request_cannot_continue(
    client: MetastoreClient, queue: CompactionQueue, table: TableRef, pool: str, end: str
) -> None:
    queue.request(table, DAY, MAJOR, pool=pool)
    claimed = queue.claim("worker", pool)
    assert claimed is not None
    getattr(queue, end)(claimed, "why")
    with pytest.raises(MetastoreCallFailed):
        queue.record(claimed, 1, 1, "alice")
    with pytest.raises(MetastoreCallFailed, match="update count was 0"):
        queue.compacted(claimed)
    for again in (queue.failed, queue.refused):
        with pytest.raises(MetastoreCallFailed):
            again(claimed, "another reason")
    (entry,) = queue.show(table)
    assert (entry.state, entry.error) == (end, "why")


def test_a_request_that_is_marked_before_its_transaction_fails_can_still_fail(
    client: MetastoreClient, queue: CompactionQueue, table: TableRef, pool: str
) -> None:
    queue.request(table, DAY, MAJOR, pool=pool)
    claimed = queue.claim("worker", pool)
    assert claimed is not None
    txn = client.open_txn("alice", "there", None, TxnType.COMPACTION)
    client.abort_txn(txn)
    queue.record(claimed, txn, 1, "alice")
    queue.compacted(claimed)
    assert states(queue, table) == ["ready for cleaning"]
    queue.failed(claimed, "aborted")
    assert states(queue, table) == ["failed"]


def test_the_oldest_request_of_a_pool_is_next_whichever_table_it_is_for(
    queue: CompactionQueue, table: TableRef, pool: str
) -> None:
    other = TableRef(table.database, "other")
    queue.request(other, None, MINOR, pool=pool)
    assert queue.waiting(pool, table) is None
    queue.request(table, DAY, MAJOR, pool=pool)
    queue.request(table, "day=2", MAJOR)
    for wanted in (None, table, other):
        waiting = queue.waiting(pool, wanted)
        assert waiting is not None
        assert waiting.table == other
    claimed = queue.claim("worker", pool)
    assert claimed is not None
    assert claimed.id == waiting.id
    assert queue.waiting(pool, other) is None
    unpooled = queue.waiting(None, table)
    assert unpooled is not None
    assert unpooled.partition == "day=2"


def initiated(queue: CompactionQueue, client: MetastoreClient, ref: TableRef, txn: int) -> None:
    queue.request(ref, DAY, MAJOR, pool=own_pool(txn))


def working(queue: CompactionQueue, client: MetastoreClient, ref: TableRef, txn: int) -> None:
    queue.request(ref, DAY, MAJOR, pool=ref.database)
    assert queue.claim(own_worker("some-host-1", txn), ref.database)


@pytest.mark.parametrize("leave", [initiated, working])
def test_leftovers_of_our_dead_compactor_end_after_its_transaction(
    client: MetastoreClient, queue: CompactionQueue, table: TableRef, leave: Callable[..., None]
) -> None:
    txn = client.open_txn("alice", "there", None, TxnType.COMPACTION)
    leave(queue, client, table, txn)
    (live,) = queue.live(table, DAY)
    assert live.partition == DAY

    client.abort_txn(txn)
    assert queue.live(table, DAY) == []
    (ended,) = queue.show(table)
    assert ended.state == "failed"
    assert f"transaction {txn} " in str(ended.error)
    assert queue.request(table, DAY, MAJOR).accepted


def test_foreign_objects_are_left_alone(
    client: MetastoreClient, queue: CompactionQueue, table: TableRef, pool: str
) -> None:
    queue.request(table, "day=1", MAJOR, pool=pool)
    queue.claim("some-host-1", pool)
    queue.request(table, "day=2", MAJOR)
    queue.request(table, "day=3", MAJOR, pool=f"team {pool}")
    ended = client.open_txn("alice", "there", None, TxnType.COMPACTION)
    client.abort_txn(ended)
    # Names that contain the number of an ended transaction by chance.
    queue.request(table, "day=4", MAJOR, pool=f"hiveacid-{ended}")
    queue.request(table, "day=5", MAJOR, pool=f"{pool} 5")
    queue.claim(f"hiveacid-worker-3-{ended}", f"{pool} 5")
    assert [entry.partition for entry in queue.live(table)] == [f"day={n}" for n in range(1, 6)]


def test_tables_with_only_obsolete_directories_are_not_live(
    client: MetastoreClient, queue: CompactionQueue, table: TableRef, pool: str
) -> None:
    queue.request(table, DAY, MAJOR, pool=pool)
    claimed = queue.claim(own_worker("host", 1), pool)
    assert claimed is not None
    compact(client, queue, claimed)
    assert queue.live(table) == []
    assert states(queue, table) == ["ready for cleaning"]
