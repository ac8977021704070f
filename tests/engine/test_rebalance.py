"""A rebalance gives rows another order and other row ids, beside appends and never beside changes."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pyarrow import orc

from hiveacid.api.table import AcidTable
from hiveacid.errors import (
    LockTimeout,
    OverlapRefused,
    UnknownColumn,
    UnsupportedMetastore,
    UnsupportedTable,
    VersionGone,
)
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.report import PartitionReport
from hiveacid.metastore.compactions import CompactionQueue
from hiveacid.metastore.thrift import idl_txns
from hiveacid.progress import Phase
from hiveacid.spark.compaction import compact_table
from hiveacid.writes.statement import WriteOptions
from tests.engine.acid_tables import folder, left_behind, row_ids
from tests.engine.compaction_case import LEFT, Case, report_of_compaction
from tests.observers import At

FAKE4 = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
BOTH = pytest.mark.parametrize("hms", ["fake 4.0.1", "4.0.1"], indirect=True)


def rebalance(case: Case, *observers: At, wait: float = 30, **more: Any) -> PartitionReport:
    with case.open(*observers, wait=wait) as table:
        (done,) = report_of_compaction(
            table, "rebalance", **{"order_by": ["p", "ID"], **more}
        ).partitions
    return done


def in_order(case: Case, base: str) -> list[int]:
    """The ids of the rows as they lie in a base of one file."""
    path = folder(case.client.get_table(case.ref)) / base / "bucket_00000"
    rows = orc.ORCFile(str(path)).read(columns=["rowId", "row"]).to_pylist()
    numbers = [row["rowId"] for row in rows]
    assert numbers == sorted(set(numbers))
    return [row["row"]["id"] for row in rows]


@BOTH
def test_rows_are_sorted_and_get_row_ids_that_no_row_has_had(busy: Case) -> None:
    busy.change(lambda table: table.update({"p": "'a'"}, "id = 4"))
    table = busy.client.get_table(busy.ref)
    before = set(row_ids(table, "delta"))
    done = rebalance(busy)
    assert (done.outcome, done.type, done.rows) == ("compacted", "rebalance", 3), done
    assert done.published == (f"base_0000005_v{done.txn_id:07d}",)
    assert in_order(busy, done.published[0]) == [4, 1, 3]
    after = set(row_ids(table, "base"))
    assert len(after) == 3
    assert not before & after
    assert busy.rows() == [(1, "a", "x"), (3, "c", "y"), (4, "d", "a")]
    assert busy.problems() == []
    assert left_behind(busy.client) == []
    # Rows can be changed as before, and compacted again.
    busy.change(lambda table: table.delete("id = 3"))
    busy.append((0, "z", "z"))
    assert in_order(busy, rebalance(busy, order_by=["id"]).published[0]) == [0, 1, 4]
    assert rebalance(busy).outcome == "skipped"


@FAKE4
def test_without_columns_rows_keep_their_order_and_write_ids(busy: Case) -> None:
    done = rebalance(busy, order_by=())
    assert in_order(busy, done.published[0]) == [1, 3, 4]
    kept = row_ids(busy.client.get_table(busy.ref), "base")
    assert sorted(key[1] for key in kept) == [1, 2, 3]


@FAKE4
def test_each_partition_is_rebalanced_by_itself(make: Callable[..., Case]) -> None:
    case = make(keys={"p": "string"})
    case.append((2, "b", "x"), (1, "a", "x"), (3, "c", "y"))
    with case.open() as table:
        done = report_of_compaction(table, "rebalance", order_by=["id"]).partitions
    assert [each.outcome for each in done] == ["compacted", "compacted"], done
    assert case.rows() == [(1, "a", "x"), (2, "b", "x"), (3, "c", "y")]
    case.change(lambda table: table.update({"v": "'B'"}, "id = 2"))
    assert case.rows() == [(1, "a", "x"), (2, "B", "x"), (3, "c", "y")]


@BOTH
def test_appends_continue_while_changes_wait(busy: Case) -> None:
    refused = []

    def meanwhile() -> None:
        busy.append((5, "e", "a"))
        with busy.open(wait=1) as table, pytest.raises(LockTimeout) as timeout:
            table.delete("id = 1")
        refused.append(timeout.value)

    done = rebalance(busy, At(Phase.WRITE, meanwhile))
    assert (done.outcome, done.rows, len(refused)) == ("compacted", 3, 1), done
    busy.change(lambda table: table.delete("id = 1"))
    assert busy.rows() == [*LEFT[1:], (5, "e", "a")]


@FAKE4
def test_a_rebalance_waits_for_changes(busy: Case) -> None:
    done = []
    during = At(Phase.WRITE, lambda: done.append(rebalance(busy, wait=1)))
    with busy.open(during) as table:
        table.delete("id = 1")
    ((failed,),) = [done]
    assert failed.error is not None
    assert failed.error.id == "LockTimeout"
    assert busy.rows() == LEFT[1:]
    assert left_behind(busy.client) == []


@BOTH
def test_a_change_that_was_opened_before_a_rebalance_begins_again(busy: Case) -> None:
    with busy.open(At(Phase.LOCK, lambda: rebalance(busy))) as table:
        report = table.update({"v": "'new'"}, "id = 1")
    assert report.rows_updated == 1
    assert busy.rows() == [(1, "new", "x"), *LEFT[1:]]


@BOTH
def test_a_rebalance_that_was_opened_before_a_change_begins_again(busy: Case) -> None:
    change = At(Phase.LOCK, lambda: busy.change(lambda table: table.delete("id = 1")))
    done = rebalance(busy, change)
    assert (done.outcome, done.rows) == ("compacted", 2), done
    assert busy.rows() == LEFT[1:]


@FAKE4
def test_deletes_above_an_open_write_keep_their_rows(busy: Case) -> None:
    txn = busy.client.open_txn("someone", "somewhere", None)
    busy.client.allocate_write_id(txn, busy.ref)
    busy.change(lambda table: table.delete("id = 1"))
    failed = rebalance(busy)
    assert failed.error is not None
    assert failed.error.id == "SnapshotMoved"
    assert busy.rows() == LEFT[1:]
    busy.client.abort_txn(txn)
    assert rebalance(busy).rows == 2
    assert busy.rows() == LEFT[1:]


@FAKE4
def test_a_change_worked_out_beside_it_is_refused(busy: Case) -> None:
    options = WriteOptions(lock_wait_seconds=30, conflict_policy="rows")
    between = At(Phase.WRITE, lambda: rebalance(busy))
    args = {"spark": busy.spark, "options": options, "observers": [between]}
    with AcidTable(busy.name, busy.uri, **args) as table:
        with pytest.raises(OverlapRefused, match="row ids that may have changed"):
            table.update({"v": "'new'"}, "id = 1")
        table.update({"v": "'new'"}, "id = 1")
    assert between.times == 0
    assert busy.rows() == [(1, "new", "x"), *LEFT[1:]]


@BOTH
def test_row_ids_of_compacted_rows_are_not_used_again(make: Callable[..., Case]) -> None:
    case = make()
    case.append(*[(number, "old", "x") for number in range(1, 7)])
    table = case.client.get_table(case.ref)
    used = set(row_ids(table, "delta"))
    case.change(lambda table: table.delete("id = 6"))
    case.compact("major")
    for number in (7, 8):
        case.append((number, "old", "x"))
        used |= set(row_ids(table, "delta"))
        rebalance(case, order_by=())
        new = set(row_ids(table, f"base_{number - 4:07d}"))
        assert new
        assert not used & new
        used |= new


@BOTH
def test_a_row_id_that_was_worked_out_before_names_no_other_row(make: Callable[..., Case]) -> None:
    case = make()
    old = [(number, "old", "x") for number in range(1, 7)]
    case.append(*old)

    def meanwhile() -> None:
        case.change(lambda table: table.delete("id = 6"))
        case.append((6, "again", "x"))
        case.compact("major")
        case.append((7, "old", "x"))
        assert rebalance(case, order_by=()).outcome == "compacted"

    options = WriteOptions(lock_wait_seconds=30, conflict_policy="rows")
    args = {"spark": case.spark, "options": options, "observers": [At(Phase.WRITE, meanwhile)]}
    with (
        AcidTable(case.name, case.uri, **args) as table,
        pytest.raises(OverlapRefused, match="row ids that may have changed"),
    ):
        table.update({"v": "'new'"}, "id = 6")
    assert case.rows() == [*old[:5], (6, "again", "x"), (7, "old", "x")]


@BOTH
def test_a_key_that_an_ordered_rebalance_has_hidden_is_not_inserted_again(
    make: Callable[..., Case],
) -> None:
    """The rows get the newest write id, which the merge has seen before it saw the key."""
    case = make()
    case.append((1, "old", "x"))
    is_open, may_commit = threading.Event(), threading.Event()

    def pause() -> None:
        is_open.set()
        assert may_commit.wait(300)

    def append_late() -> None:
        with case.open(At(Phase.COMMIT, pause)) as table:
            table.append(case.frame((10, "late", "x")))

    late = threading.Thread(target=append_late)
    late.start()
    assert is_open.wait(300)
    case.append((11, "old", "x"))

    def meanwhile() -> None:
        may_commit.set()
        late.join()
        assert rebalance(case, order_by=["id"]).outcome == "compacted"

    options = WriteOptions(lock_wait_seconds=30, conflict_policy="rows")
    args = {"spark": case.spark, "options": options, "observers": [At(Phase.WRITE, meanwhile)]}
    source = case.frame((10, "mine", "x"))
    try:
        with (
            AcidTable(case.name, case.uri, **args) as table,
            pytest.raises(OverlapRefused, match="row ids that may have changed"),
        ):
            table.merge(source, "t.id = s.id").when_not_matched_insert_all().execute()
    finally:
        may_commit.set()
        late.join()
    assert case.rows() == [(1, "old", "x"), (10, "late", "x"), (11, "old", "x")]


@FAKE4
def test_changes_across_it_are_right_or_gone(busy: Case) -> None:
    def told(then: int) -> list[tuple[Any, ...]]:
        with busy.open() as table:
            rows = table.changes(then).collect()
        return sorted((row["_write_id"], row["_change_type"], row["id"]) for row in rows)

    inserts = [(1, "insert", 1), (1, "insert", 2), (2, "insert", 3), (3, "insert", 4)]
    steps = [*inserts, (4, "delete", 2)]
    rebalance(busy)
    assert told(0) == steps
    busy.append((5, "e", "a"))
    assert told(0) == [*steps, (5, "insert", 5)]
    busy.change(lambda table: table.delete("id = 1"))
    with pytest.raises(VersionGone, match="other row ids"):
        told(0)
    assert told(4) == [(5, "insert", 5), (6, "delete", 1)]
    with busy.open() as table:
        earlier = sorted(tuple(row) for row in table.to_df(as_of_write_id=2).collect())
    assert earlier == [(1, "a", "x"), (2, "b", "x"), (3, "c", "y")]


def ask(case: Case, order_by: str | None, files: int | None = None) -> str:
    """Request a rebalance as Hive does; return its pool."""
    pool = f"pool of {case.name}"
    request = idl_txns.CompactionRequest(
        dbname=case.ref.database,
        tablename=case.ref.name,
        type=3,
        poolName=pool,
        orderByClause=order_by,
        numberOfBuckets=files,
    )
    case.client.call(idl_txns.compact2, request)
    return pool


def serve(case: Case, pool: str) -> list[PartitionReport]:
    job = CompactJob(target=case.name, mode="serve", pool=pool, lock_wait_seconds=1)
    return list(compact_table(lambda: case.spark, case.client, job).partitions)


@pytest.mark.parametrize(
    "hms",
    ["fake 4.0.1", pytest.param("4.0.1", marks=pytest.mark.conflicts)],
    indirect=True,
)
def test_requests_of_hive_s_users_are_served(busy: Case) -> None:
    (done,) = serve(busy, ask(busy, "order by `id` desc nulls last", files=1))
    assert (done.outcome, done.type) == ("compacted", "rebalance"), done
    assert in_order(busy, done.published[0]) == [4, 3, 1]
    (entry,) = CompactionQueue(busy.client).show(busy.ref)
    assert (entry.type, entry.state) == ("rebalance", "ready for cleaning")


@FAKE4
def test_invalid_sort_orders_are_reported_in_the_queue(busy: Case) -> None:
    (failed,) = serve(busy, ask(busy, "order by length(p), id"))
    assert failed.error is not None
    assert failed.error.id == "InvalidJob"
    (entry,) = CompactionQueue(busy.client).show(busy.ref)
    assert entry.state == "failed"
    assert "only columns can be sorted by" in (entry.error or "")
    assert not any("base_" in name for name in busy.directories())


@FAKE4
def test_an_order_that_got_lost_is_not_taken_for_none(
    busy: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = ask(busy, "order by id desc")
    claim = CompactionQueue.claim
    monkeypatch.setattr(
        CompactionQueue, "claim", lambda *args: replace(claim(*args), order_by=None)
    )
    (failed,) = serve(busy, pool)
    assert failed.error is not None
    assert failed.error.id == "AnswerLost"
    assert not any("base_" in name for name in busy.directories())


@FAKE4
def test_impossible_rebalances_are_reported(make: Callable[..., Case]) -> None:
    plain, bucketed = make("plain"), make("b", num_buckets=2, bucket_columns=["id"])
    with plain.open() as table, pytest.raises(UnknownColumn, match="no column nr"):
        table.compact("rebalance", order_by=["nr"])
    with bucketed.open() as table, pytest.raises(UnsupportedTable, match="has buckets"):
        table.compact("rebalance")
    # Nor is it mistaken for a major compaction where Hive's users have asked for it.
    bucketed.append((1, "a", "x"))
    (failed,) = serve(bucketed, ask(bucketed, None))
    assert "has buckets" in failed.reason
    assert not any("base_" in name for name in bucketed.directories())


@pytest.mark.parametrize("hms", ["fake 3.1.3"], indirect=True)
def test_hive_3_has_nothing_that_keeps_changes_apart(make: Callable[..., Case]) -> None:
    case = make()
    with case.open() as table, pytest.raises(UnsupportedMetastore, match="row ids"):
        table.compact("rebalance", order_by=["id"])


@FAKE4
def test_a_restore_deletes_no_row_by_a_row_id_that_it_has_no_more(busy: Case) -> None:
    rebalance(busy)
    busy.append((5, "e", "a"))
    with busy.open() as table:
        assert [(each.inserted, each.deleted) for each in table.diff(2)] == [(2, 1)]
        with pytest.raises(VersionGone, match="would have to be deleted to restore version 2"):
            table.restore(2)
        # The base contains none of the changes after version 3 except the delete of a row.
        assert (table.restore(3).rows_inserted, busy.rows()) == (
            1,
            [(1, "a", "x"), (2, "b", "x"), *LEFT[1:]],
        )
        table.restore(4)
    assert busy.rows() == LEFT
