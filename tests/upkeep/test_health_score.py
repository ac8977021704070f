"""The reasons for lost points of a table."""

import math
from datetime import UTC, datetime

import pytest

from hiveacid.errors import TableReplaced
from hiveacid.jobs.report import ErrorReport
from hiveacid.rules.compaction import PartitionSize
from hiveacid.rules.compaction_decision import decide
from hiveacid.rules.compaction_policy import CompactionPolicy
from hiveacid.rules.texts import duration_in_words, timestamp_in_words
from hiveacid.upkeep.health_score import BlockingTxn, QueueEntry, TableHealth, score_of

NOW = 1_800_000_000.0
HOUR, DAY = 3600.0, 86400.0


def health(**measured):
    return TableHealth(table="db.t", kind="full_acid", measured_at=NOW, **measured)


def opened(seconds_ago):
    since = None if seconds_ago is None else NOW - seconds_ago
    return BlockingTxn(txn_id=7, user="ann", host="h", opened_at=since)


def request(state, seconds_ago=0.0, error=None):
    return QueueEntry(
        id=3, partition=None, type="major", state=state, since=NOW - seconds_ago, error=error
    )


@pytest.mark.parametrize(
    ("measured", "points"),
    [
        ({}, 0),
        ({"base_bytes": 1000, "obsolete_bytes": 250}, 0),
        ({"base_bytes": 1000, "obsolete_bytes": 251}, 5),
        ({"base_bytes": 1000, "obsolete_bytes": 1001}, 10),
        ({"aborted_directories": 1}, 5),
        ({"oldest_txn": opened(HOUR)}, 0),
        ({"oldest_txn": opened(None)}, 0),
        ({"oldest_txn": opened(HOUR + 1)}, 10),
        ({"oldest_txn": opened(DAY + 1)}, 20),
        ({"queue": (request("initiated", HOUR),)}, 0),
        ({"queue": (request("working", HOUR + 1),)}, 5),
        ({"queue": (request("ready for cleaning", HOUR + 1),)}, 10),
        ({"queue": (request("failed", DAY),)}, 10),
        ({"queue": (request("failed", error="CorruptFile: f"), request("failed", error="g"))}, 60),
        ({"error": ErrorReport.of(TableReplaced("Gone."))}, 100),
    ],
)
def test_each_fault_has_its_points(measured, points):
    score, penalties = score_of(health(**measured), CompactionPolicy())
    assert score == 100 - points
    assert sum(penalty.points for penalty in penalties) == points
    assert len(penalties) == (1 if points else 0)


def measured_partition(count, base, deltas, deletes=0, **more):
    return PartitionSize(
        table="db.t",
        base="base_0000001" if base else None,
        base_bytes=base,
        deltas=tuple(f"delta_{n:07d}_{n:07d}_0000" for n in range(2, count + 2)),
        delta_bytes=deltas,
        delete_bytes=deletes,
        **more,
    )


@pytest.mark.parametrize(
    ("partitions", "points"),
    [
        ([(10, 1000, 10)] * 50, 0),
        ([(11, 1000, 10), (2, 1000, 10)], 10),
        ([(20, 1000, 10)], 20),
        ([(50, 1000, 10)], 30),
        ([(2, 1000, 100)], 0),
        ([(2, 1000, 101)], 10),
        ([(2, 1000, 1001)], 20),
        # One partition is enough, and several that are well make no one that is not.
        ([(2, 1000, 101), (0, 90_000, 0)], 10),
        ([(2, 0, 1001), (2, 1000, 100)], 0),
        ([(2, 0, 1000, 200)], 0),
        ([(2, 0, 1000, 310)], 10),
        ([(11, 1000, 101)], 20),
    ],
)
@pytest.mark.parametrize("auto_off", [False, True])
def test_the_score_follows_what_the_policy_calls_for(partitions, points, auto_off):
    policy = CompactionPolicy()
    sizes = [measured_partition(*partition, auto_off=auto_off) for partition in partitions]
    decisions = [decide(size, policy, now=datetime.now(UTC)) for size in sizes]
    score, penalties = score_of(health(), policy, decisions)
    assert (score, sum(penalty.points for penalty in penalties)) == (100 - points, points)
    called = any(decision.type is not None for decision in decisions)
    assert called == (points > 0 and not auto_off)


def test_faults_add_up_and_the_worst_comes_first():
    worst = health(
        base_bytes=10,
        delta_bytes=1000,
        obsolete_bytes=5000,
        aborted_directories=2,
        oldest_txn=opened(2 * DAY),
        queue=(request("ready for cleaning", DAY), request("failed", error="no space")),
    )
    policy = CompactionPolicy()
    full = decide(measured_partition(60, 10, 1000), policy, now=datetime.now(UTC))
    score, penalties = score_of(worst, policy, [full], ["a: unreadable", "b: unreadable"])
    assert score == 0
    points = [penalty.points for penalty in penalties]
    assert points == sorted(points, reverse=True)
    said = " ".join(penalty.reason for penalty in penalties)
    assert "60 deltas (limit 10)" in said
    assert "Transaction 7 of ann is open for 2 days" in said
    assert "Request 3 is ready for cleaning for 24 h" in said
    assert "(request 3) failed: no space" in said
    assert "a: unreadable And 1 more like this." in said


def test_an_unreadable_partition_makes_the_score_red():
    assert score_of(health(), CompactionPolicy(), [], ["a: unreadable"])[0] == 40


def test_the_thresholds_are_those_of_the_policy():
    def score(policy, *partition):
        decision = decide(measured_partition(*partition), policy, now=datetime.now(UTC))
        return score_of(health(), policy, [decision])[0]

    assert score(CompactionPolicy(max_deltas=5, max_delta_ratio=0.7), 6, 1000, 600) == 90
    assert score(CompactionPolicy(max_deltas=6, max_delta_ratio=None), 6, 1000, 600) == 100
    assert score(CompactionPolicy(max_deltas=None), 11, 1000, 10) == 100
    # With no limit of their number, the usual one counts until there is a base.
    assert score(CompactionPolicy(max_deltas=None), 11, 0, 10) == 90


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-5, "0 s"), (121, "2 min"), (1e300, "11574074 days"), (math.inf, "11574074 days")],
)
def test_any_number_is_a_length_of_time(seconds, words):
    assert duration_in_words(seconds) == words


@pytest.mark.parametrize("seconds", [1e300, -62_135_596_801, math.nan, math.inf, 1 << 62])
def test_a_moment_that_no_calendar_has_is_none(seconds):
    assert timestamp_in_words(seconds) == "?"
    assert timestamp_in_words(NOW) == "2027-01-15 08:00:00"
