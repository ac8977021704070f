"""The order of due compactions, and those that wait for the budget of a later run."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.rules.compaction import CompactionType, PartitionSize
from hiveacid.rules.compaction_decision import Decision, decide
from hiveacid.rules.compaction_policy import Budget, CompactionPolicy
from hiveacid.rules.compaction_rank import (
    READS_PROPERTY,
    priority,
    rank,
    reads_per_day,
    saved_bytes,
)
from hiveacid.rules.trino import Misread

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
HIVE = CompactionPolicy()
MINOR, MAJOR, _ = CompactionType
MB, OPEN = 10**6, 4 << 20
DELETES = tuple(f"delete_delta_{n:07d}_{n:07d}_0000" for n in range(100, 200))


def deltas(count):
    return tuple(f"delta_{n:07d}_{n:07d}_0000" for n in range(1, count + 1))


def size(count=3, deletes=0, name="d=1", **facts):
    given_ = {"base": "base_0000000", "base_bytes": 1000, "delta_bytes": 10} | facts
    names = {"deltas": deltas(count) + DELETES[:deletes]}
    return PartitionSize(table="sales.orders", partition=name, **(names | given_))


def due(type_=MINOR, *, waited_hours=0.0, required=False, **facts):
    """A compaction that is due."""
    read = facts.get("delta_bytes", 10) + (facts.get("base_bytes", 1000) if type_ is MAJOR else 0)
    return Decision(
        size=size(**facts),
        type=type_,
        reason="It is due.",
        bytes=read,
        required=required,
        waited_hours=waited_hours,
    )


def decisions(*measured):
    return [
        decide(replace(partition, partition=str(n)), HIVE, now=NOON)
        for n, partition in enumerate(measured)
    ]


def chosen(called, budget=None):
    return [
        (decision.size.partition, decision.type is not None)
        for decision in rank(called, budget or Budget())
    ]


def order(*called, budget=None):
    """The names of the compactions to run now, in this order."""
    return [name for name, now in chosen(called, budget) if now]


def test_the_most_useful_compactions_come_first_and_all_others_keep_their_order():
    called = decisions(size(3), size(11), size(50), size(4), size(11, delta_bytes=600))
    everything = [("2", True), ("4", True), ("1", True), ("0", False), ("3", False)]
    assert chosen(called) == everything
    assert sorted(map(id, rank(called, Budget()))) == sorted(map(id, called))


def test_a_minor_compaction_saves_the_opening_of_files_only():
    assert saved_bytes(due(count=12)) == 11 * OPEN
    assert saved_bytes(due(count=12, deletes=3, delete_bytes=9)) == 13 * OPEN
    assert saved_bytes(due(count=1)) == 0


def test_a_major_compaction_also_saves_the_deletes_and_the_lookup_of_deleted_rows():
    assert saved_bytes(due(MAJOR, count=12)) == 12 * OPEN
    assert saved_bytes(due(MAJOR, count=12, base=None, base_bytes=0)) == 11 * OPEN
    hit = due(MAJOR, count=1, deletes=1, base_bytes=3900, delta_bytes=200, delete_bytes=100)
    assert saved_bytes(hit) == 2 * OPEN + 100 + 4000 / 4


def test_a_compaction_that_rewrites_less_for_the_same_savings_comes_first():
    large = due(name="large", count=12, delta_bytes=500 * MB)
    small = due(name="small", count=12, delta_bytes=5 * MB)
    assert order(large, small) == ["small", "large"]
    # More files to open outweigh a few more bytes.
    many = due(name="many", count=40, delta_bytes=6 * MB)
    assert order(large, small, many) == ["many", "small", "large"]


def test_deletes_outweigh_the_same_number_of_inserts():
    facts = {"base_bytes": 100 * MB, "delta_bytes": 20 * MB}
    inserts = due(MAJOR, name="inserts", count=3, **facts)
    deletes = due(MAJOR, name="deletes", count=2, deletes=1, delete_bytes=MB, **facts)
    assert order(inserts, deletes) == ["deletes", "inserts"]


def test_the_benefit_does_not_explode_where_the_base_is_tiny():
    many, tiny = decisions(size(40, delta_bytes=900), size(1, base_bytes=1, delta_bytes=90))
    assert priority(many) > priority(tiny)


def test_tables_that_are_read_more_often_come_first():
    rare = due(name="rare", count=30, reads_per_day=1.0)
    usual = due(name="usual", count=30)
    often = due(name="often", count=30, reads_per_day=100.0)
    assert order(rare, usual, often) == ["often", "usual", "rare"]
    # Without the property, a table counts as one that is read every hour.
    assert priority(usual) == priority(due(count=30, reads_per_day=24.0))
    assert priority(often) == pytest.approx(100 * priority(rare))


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        (None, None),
        ("240", 240.0),
        ("0", 0.0),
        ("0.5", 0.5),
        ("-1", None),
        ("often", None),
        ("nan", None),
        ("inf", None),
        ("1e300", None),
        ("", None),
    ],
)
def test_only_a_number_of_reads_is_a_weight(text, reads):
    assert reads_per_day({} if text is None else {READS_PROPERTY: text}) == reads


def test_the_weight_doubles_with_each_day_of_waiting():
    assert priority(due(count=12, waited_hours=48)) == pytest.approx(4 * priority(due(count=12)))
    better = due(name="better", count=31)
    waiting = due(name="waiting", count=11, waited_hours=37)
    assert order(better, waiting) == ["better", "waiting"]
    assert order(better, replace(waiting, waited_hours=40)) == ["waiting", "better"]


def test_overdue_compactions_come_first_and_the_longest_waiting_of_them():
    better = due(name="better", count=1000)
    late = due(name="late", count=20, waited_hours=169)
    latest = due(name="latest", count=11, waited_hours=170, reads_per_day=0.0)
    assert order(better, late, latest) == ["latest", "late", "better"]
    longer = Budget(max_wait_hours=10_000)
    assert order(better, late, latest, budget=longer)[0] == "late"


@pytest.mark.parametrize("facts", [{}, {"reads_per_day": 0.0}, {"delta_bytes": 10**15}])
def test_nothing_waits_forever_in_an_overloaded_warehouse(facts):
    """Each run brings more better compactions than its budget takes."""
    fresh = [due(name="fresh", count=1000, reads_per_day=1e9) for _ in range(3)]
    for budget in (Budget(max_partitions=2), Budget(max_bytes=20, max_wait_hours=1e9)):
        hours = 0.0
        while "waiting" not in order(
            *fresh, due(name="waiting", count=11, waited_hours=hours, **facts), budget=budget
        ):
            hours += 1
            assert hours < 100 * 24


def test_compactions_that_correct_what_readers_see_come_before_all_others():
    policy = replace(HIVE, right_for="trino")
    wrong = size(2, name="wrong", misread=Misread(deletes=("delete_delta_1",)))
    aborted = size(
        2,
        name="aborted",
        aborted=("delta_0000009_0000009_0000",),
        aborted_write_ids=5,
        oldest_abort_hours=100.0,
    )
    often = size(900, name="often", reads_per_day=1e6)
    overdue = due(name="overdue", count=11, waited_hours=1000)
    called = [decide(each, policy, now=NOON) for each in (often, aborted, wrong)]
    first = order(overdue, *called)
    assert sorted(first[:2]) == ["aborted", "wrong"]
    assert first[2:] == ["overdue", "often"]


def test_partitions_beyond_the_budget_wait_with_a_reason():
    called = decisions(size(20, delta_bytes=40), size(11, delta_bytes=30), size(12, delta_bytes=70))
    by_number = rank(called, Budget(max_partitions=1))
    assert [decision.type for decision in by_number] == [MINOR, None, None]
    assert [decision.deferred for decision in by_number] == [False, True, True]
    assert by_number[1].size is called[1].size
    assert by_number[1].reason.startswith("11 deltas")
    assert by_number[1].reason.endswith("It waits: this run's budget of 1 partition is used up.")
    # The second by priority is too large, the third fits.
    by_bytes = rank(called, Budget(max_bytes=70))
    assert [(decision.size.partition, decision.type) for decision in by_bytes] == [
        ("0", MINOR),
        ("1", MINOR),
        ("2", None),
    ]
    assert "budget of 70 B" in by_bytes[2].reason


def test_what_needs_no_compaction_is_not_deferred():
    (quiet,) = rank(decisions(size(3)), Budget(max_partitions=1))
    assert (quiet.type, quiet.deferred) == (None, False)


def test_a_compaction_larger_than_the_budget_runs_when_it_is_the_most_useful():
    called = decisions(size(20, delta_bytes=90), size(11, delta_bytes=30))
    assert chosen(called, Budget(max_bytes=50)) == [("0", True), ("1", False)]


AGES = {"oldest_delta_hours": 24.0, "newest_delta_hours": 2.0}


@pytest.mark.parametrize(
    ("measured", "hours"),
    [
        # The eleventh of 22 deltas between 24 and 2 hours ago.
        (size(22, **AGES), 24 - 10 / 22 * 22),
        (size(12, oldest_delta_hours=5.0, newest_delta_hours=5.0), 5.0),
        # Half of the deltas exceed a tenth of the base.
        (size(4, delta_bytes=200, **AGES), 24 - 0.5 * 22),
        (size(12), 0.0),
    ],
)
def test_the_wait_begins_with_the_delta_that_exceeded_a_threshold(measured, hours):
    assert decide(measured, HIVE, now=NOON).waited_hours == pytest.approx(hours)


ANY = st.builds(
    due,
    st.sampled_from([MINOR, MAJOR]),
    count=st.integers(0, 30),
    deletes=st.integers(0, 30),
    base_bytes=st.integers(0, 10**13),
    delta_bytes=st.integers(0, 10**13),
    delete_bytes=st.integers(0, 10**13),
    reads_per_day=st.none() | st.floats(0, 1e9),
    waited_hours=st.floats(0, 1e6),
    required=st.booleans(),
)


@given(st.lists(ANY, max_size=20), st.integers(1, 5), st.integers(1, 10**13))
def test_any_compactions_are_ranked_within_all_limits(called, partitions, most):
    result = rank(called, Budget(max_partitions=partitions, max_bytes=most))
    taken = [decision for decision in result if decision.type is not None]
    waiting = [decision for decision in result if decision.deferred]
    assert len(taken) + len(waiting) == len(called)
    assert len(taken) <= partitions
    assert sum(decision.bytes for decision in taken) <= most or len(taken) == 1
    assert all("It waits: " in decision.reason for decision in waiting)
    assert all(0 <= priority(decision) < float("inf") for decision in called)
