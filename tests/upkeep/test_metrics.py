"""The metrics of the metastore and of tables, and their text."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from hiveacid.jobs.sources import ChangesSource
from hiveacid.metastore.compactions import CompactionQueue, QueuedCompaction
from hiveacid.metastore.thrift.answers import (
    HeldLock,
    LockState,
    TxnInfo,
    TxnState,
    TxnType,
)
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.records.consumers import Consumer, known_consumers
from hiveacid.records.history_entries import HistoryEntry, HistoryState
from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.compaction_policy import CompactionPolicy
from hiveacid.rules.locks import LockType, Operation, Target
from hiveacid.rules.names import Delta, TableRef
from hiveacid.upkeep import metrics
from hiveacid.upkeep.compaction_poll import CompactionPoll
from hiveacid.upkeep.health import HealthMeter
from hiveacid.upkeep.metric_collection import (
    consumer_samples,
    last_run_samples,
    lock_samples,
    metastore_samples,
    queue_samples,
    table_samples,
    transaction_samples,
)
from hiveacid.upkeep.metrics import Sample, prometheus_text
from tests.fakes.metastore import REAL_AND_FAKE
from tests.metastore_calls import counted_calls
from tests.upkeep.acid_folders import AcidFolders

FAKE = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
FAKE4 = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
FILE_BYTES = len("no rows")


def ago(seconds):
    return NOW - timedelta(seconds=seconds)


def values(samples):
    return {sample.metric.name: sample.value for sample in samples}


def request(id_, state, partition="p=1", **more):
    return QueuedCompaction(
        id=id_, table=TableRef("db", "t"), partition=partition, type="minor", state=state, **more
    )


def test_the_newest_request_of_a_partition_is_counted():
    queue = [
        request(1, "failed"),
        request(3, "succeeded"),
        request(2, "failed"),
        request(4, "ready for cleaning", "p=2"),
        request(5, "did not initiate", None),
        # Of version 3.
        request(6, "attempted", "p=3"),
    ]
    counts = {name: value for name, value in values(queue_samples(queue, NOW)).items() if value}
    assert counts == {
        "compaction_num_succeeded": 1,
        "compaction_num_ready_for_cleaning": 1,
        "compaction_num_did_not_initiate": 2,
    }


def test_the_oldest_request_in_each_state_has_an_age():
    queue = [
        request(1, "initiated", enqueued_at=ago(50)),
        # A newer request of the same partition hides none of the older ones.
        request(2, "initiated", enqueued_at=ago(20)),
        request(3, "working", enqueued_at=ago(900), started_at=ago(30)),
        request(4, "ready for cleaning", committed_at=ago(70), cleaning_since=ago(10)),
        request(5, "ready for cleaning", committed_at=ago(60)),
        request(6, "succeeded", enqueued_at=ago(9000), started_at=ago(8000)),
    ]
    found = values(queue_samples(queue, NOW))
    assert found["compaction_oldest_enqueue_age_in_sec"] == 50
    assert found["compaction_oldest_working_age_in_sec"] == 30
    assert found["compaction_oldest_cleaning_age_in_sec"] == 10
    assert found["oldest_ready_for_cleaning_age_in_sec"] == 70


def test_an_empty_queue_has_the_age_0():
    found = values(queue_samples([], NOW))
    assert set(found.values()) == {0}
    assert len(found) == 12


def test_an_unknown_age_is_missing():
    found = values(queue_samples([request(1, "ready for cleaning"), request(2, "initiated")], NOW))
    assert "oldest_ready_for_cleaning_age_in_sec" not in found
    assert "compaction_oldest_enqueue_age_in_sec" not in found
    assert found["compaction_oldest_working_age_in_sec"] == 0


def test_a_clock_of_the_metastore_that_is_ahead_makes_no_negative_age():
    found = values(queue_samples([request(1, "initiated", enqueued_at=ago(-9))], NOW))
    assert found["compaction_oldest_enqueue_age_in_sec"] == 0


def test_transactions_and_locks_have_ages():
    def txn(txn_id, state, seconds):
        return TxnInfo(
            txn_id=txn_id,
            state=state,
            user="ann",
            host="h",
            agent_info=None,
            started_at=ago(seconds),
            last_heartbeat=None,
        )

    txns = [txn(7, TxnState.OPEN, 30), txn(8, TxnState.OPEN, 20), txn(3, TxnState.ABORTED, 99)]
    assert values(transaction_samples(txns, 5, NOW)) == {
        "hiveacid_open_txns": 2,
        "hiveacid_oldest_open_txn_id": 5,
        "hiveacid_oldest_open_txn_age_in_sec": 30,
        "num_aborted_transactions": 1,
        "oldest_aborted_txn_age_in_sec": 99,
    }

    def lock(lock_id, state, seconds):
        return HeldLock(
            lock_id=lock_id,
            database="db",
            table=TableRef("db", "t"),
            partition=None,
            state=state,
            type=LockType.SHARED_READ,
            txn_id=None,
            user="ann",
            host="h",
            agent_info=None,
            acquired_at=None if seconds is None else ago(seconds),
            last_heartbeat=None,
        )

    locks = [
        lock(1, LockState.ACQUIRED, 40),
        lock(2, LockState.WAITING, None),
        lock(2, LockState.WAITING, None),
    ]
    assert values(lock_samples(locks, NOW)) == {
        "num_locks": 3,
        "oldest_lock_age_in_sec": 40,
        "hiveacid_waiting_locks": 1,
    }


@REAL_AND_FAKE
def test_a_scrape_takes_four_calls_and_one_for_the_queue(client, database):
    table = AcidFolders.create(client, f"{database}.t")
    CompactionQueue(client).request(table.ref, None, CompactionType.MINOR, run_as="ann")
    with (
        Transaction(client, targets=[Target(table.ref, Operation.INSERT)], user="ann") as txn,
        counted_calls() as calls,
    ):
        samples = metastore_samples(client, datetime.now(UTC))
    assert dict(calls) == {
        "show_compact": 1,
        "get_open_txns_info": 1,
        "get_open_txns": 1,
        "show_locks": 1,
    }
    found = values(samples)
    assert found["hiveacid_metastore_up"] == 1
    assert found["compaction_num_initiated"] >= 1
    assert found["hiveacid_open_txns"] >= 1
    assert 0 < found["hiveacid_oldest_open_txn_id"] <= txn.txn_id
    assert found["num_locks"] >= 1
    # The real metastores of the tests keep the requests and transactions of other tests.
    assert {sample.metric for sample in samples} <= {*metrics.METASTORE}


@pytest.mark.parametrize("hms", ["4.0.1", "fake 4.0.1"], indirect=True)
def test_a_committed_compaction_waits_for_its_cleaning(client, database):
    table = AcidFolders.create(client, f"{database}.t")
    table.insert()
    queue = CompactionQueue(client)
    queue.request(table.ref, None, CompactionType.MINOR, pool=database, run_as="ann")
    claimed = queue.claim("tests-1", database)
    assert claimed is not None
    found = values(queue_samples(queue.show(table.ref), datetime.now(UTC)))
    assert (found["compaction_num_working"], found["oldest_ready_for_cleaning_age_in_sec"]) == (
        1,
        0,
    )
    txn_id = client.open_txn("tests", "localhost", None, TxnType.COMPACTION)
    queue.record(claimed, txn_id, 1, "ann")
    queue.compacted(claimed)
    client.commit_txn(txn_id)
    later = datetime.now(UTC) + timedelta(hours=1)
    found = values(queue_samples(queue.show(table.ref), later))
    assert found["compaction_num_ready_for_cleaning"] == 1
    assert 3500 < found["oldest_ready_for_cleaning_age_in_sec"] < 4000
    # Hive's own cleaner does not run.
    assert found["compaction_oldest_cleaning_age_in_sec"] == 0


@FAKE
def test_a_table_has_all_its_metrics(client, database):
    folders = AcidFolders.create(client, f"{database}.t")
    for _ in range(12):
        folders.insert()
    folders.make(Delta(12, 12, 1, is_delete=True).name)
    (health,) = HealthMeter(client).measure(tables=[folders.ref.full_name])
    samples = [*table_samples(health)]
    assert {sample.metric for sample in samples} == {*metrics.SURVEYED, *metrics.OTHERS_OF_TABLES}
    assert {sample.labels["table"] for sample in samples} == {folders.ref.full_name}
    found = values(samples)
    assert found["compaction_num_active_deltas"] == found["hiveacid_table_max_deltas"] == 13
    assert found["hiveacid_table_delta_bytes"] == 13 * FILE_BYTES
    assert found["hiveacid_table_delete_ratio"] == round(1 / 13, 4)
    assert found["hiveacid_table_needed_compactions"] == 1
    assert found["hiveacid_table_oldest_txn_age_in_sec"] == 0
    assert found["hiveacid_table_score"] == health.score < 100


@FAKE
def test_an_unmeasurable_table_has_no_sizes(client, database):
    (health,) = HealthMeter(client).measure(tables=[f"{database}.missing"])
    assert health.error is not None
    found = values(table_samples(health))
    assert found["hiveacid_table_unreadable_partitions"] == 1
    assert found.keys().isdisjoint(
        metric.name for metric in metrics.SURVEYED if metric is not metrics.PROBLEMS
    )


@FAKE
def test_a_poll_has_the_metrics_of_whole_tables(client, database, hms):
    folders = AcidFolders.create(client, f"{database}.t", ["p=1", "p=2"])
    for partition in ("p=1", "p=1", "p=2"):
        folders.insert(partition)
    poll = CompactionPoll(hms.options, CompactionPolicy(max_deltas=1))
    samples = poll.survey([folders.ref.full_name]).samples
    assert {sample.metric for sample in samples} == {*metrics.SURVEYED}
    found = values(samples)
    assert found["compaction_num_active_deltas"] == 3
    assert found["hiveacid_table_max_deltas"] == 2
    assert found["hiveacid_table_needed_compactions"] == 1
    # A part of the table would look like a table that has become smaller.
    assert poll.survey([folders.ref.full_name], ["p=1"]).samples == ()


@FAKE
def test_a_poll_emits_no_zeros_for_an_unreadable_table(client, database, hms):
    folders = AcidFolders.create(client, f"{database}.t")
    folders.make("delta_wrong")
    AcidFolders.create(client, f"{database}.u")
    poll = CompactionPoll(hms.options, CompactionPolicy())
    samples = poll.survey([f"{database}.t", f"{database}.missing", f"{database}.u"]).samples
    by_table: dict[str, set[str]] = {}
    for sample in samples:
        by_table.setdefault(sample.labels["table"], set()).add(sample.metric.name)
    assert by_table[f"{database}.u"] == {metric.name for metric in metrics.SURVEYED}
    assert f"{database}.missing" not in by_table


def test_the_last_visible_run_of_each_operation_is_measured():
    def entry(write_id, operation, state=HistoryState.CURRENT, **more):
        return HistoryEntry(
            write_id=write_id,
            first_write_id=write_id,
            last_write_id=write_id,
            operation=operation,
            state=state,
            **more,
        )

    entries = [
        entry(5, "merge", HistoryState.ABORTED, seconds=1),
        entry(4, "merge", seconds=2.5, bytes=10, rows_inserted=1, rows_deleted=2, time=99.0),
        entry(3, "merge", seconds=9),
        entry(2, "insert", HistoryState.MERGED, bytes=7),
        entry(1, None),
    ]
    found = [
        (sample.metric, sample.labels["operation"], sample.value)
        for sample in last_run_samples("db.t", entries)
    ]
    assert found == [
        (metrics.LAST_RUN_SECONDS, "merge", 2.5),
        (metrics.LAST_RUN_BYTES, "merge", 10),
        (metrics.LAST_RUN_ROWS, "merge", 3),
        (metrics.LAST_RUN_AT, "merge", 99.0),
        (metrics.LAST_RUN_BYTES, "insert", 7),
    ]


def test_the_text_is_prometheus_s():
    hostile = 'a"b\\c\nd.e'
    text = prometheus_text(
        [
            Sample(metrics.DELTAS, 3, {"table": hostile}),
            Sample(metrics.UP, 1),
            Sample(metrics.DELETE_RATIO, 1e-05, {"table": "db.t"}),
            Sample(metrics.DELTAS, 4, {"table": "db.t"}),
            Sample(metrics.DELTAS, 5, {"table": "db.t"}),
        ]
    )
    assert [line for line in text.splitlines() if not line.startswith("#")] == [
        r'compaction_num_active_deltas{table="a\"b\\c\nd.e"} 3',
        'compaction_num_active_deltas{table="db.t"} 5',
        "hiveacid_metastore_up 1",
        'hiveacid_table_delete_ratio{table="db.t"} 1e-05',
    ]
    assert text.count("# TYPE compaction_num_active_deltas gauge\n") == 1
    assert text.endswith("\n")


def test_metrics_have_valid_and_different_names():
    names = [metric.name for metric in metrics.ALL]
    assert len(names) == len({*names})
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in names)
    # Of a description only one line is allowed.
    assert all(metric.help.endswith(".") and "\n" not in metric.help for metric in metrics.ALL)
    # Labels that Prometheus itself sets.
    assert not {"job", "instance"} & {label for metric in metrics.ALL for label in metric.labels}
    defined = [value for value in vars(metrics).values() if isinstance(value, metrics.Metric)]
    assert {*defined, *metrics.STATES.values()} == {*metrics.ALL}


@FAKE
def test_a_consumer_is_behind_by_versions_and_by_the_age_of_the_oldest(client, database):
    folders = AcidFolders.create(client, f"{database}.t")
    for _ in range(4):
        folders.insert()
    name = folders.ref.full_name
    consumer = Consumer(client, name, "log", ["d.copy"])
    consumer.begin(0)
    consumer.advance(2)
    assert consumer.behind(ChangesSource(name, after="0")) == 2
    write_ids = Snapshot.take(client, [folders.ref]).write_ids[name]
    (known,) = known_consumers(folders.table, write_ids, None)
    then = NOW.timestamp()
    entries = [
        HistoryEntry(
            write_id=write_id,
            first_write_id=write_id,
            last_write_id=write_id,
            operation="insert",
            state=HistoryState.CURRENT,
            time=then - 10 * (5 - write_id),
        )
        for write_id in (4, 3, 2, 1)
    ]
    lag = {"hiveacid_consumer_versions_behind": 2, "hiveacid_consumer_lag_in_sec": 20}
    assert values(consumer_samples(name, known, entries, NOW)) == lag
    # Without the times of these versions, the age is unknown.
    assert values(consumer_samples(name, known, entries[2:], NOW)).keys() == {*lag} - {
        "hiveacid_consumer_lag_in_sec"
    }
    done = replace(known, version=4, behind=0)
    assert values(consumer_samples(name, done, entries, NOW)) == dict.fromkeys(lag, 0)
