"""The selection of compactions within a budget, against an exact solution."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_hiveacid.acid.compaction_policy import Budget
from airflow_hiveacid.acid.compaction_selection import Candidate, select
from airflow_hiveacid.errors import InvalidJob

LIMIT = 100.0
BUDGET = Budget(max_core_seconds=LIMIT, max_wait_hours=3.0)
COSTS = st.integers(1, 100).map(float)
FRESH = st.builds(Candidate, benefit=st.floats(0, 1e6), cost=COSTS)
ANY = st.builds(
    Candidate,
    benefit=st.floats(0, 1e6),
    cost=st.integers(1, 300).map(float),
    bytes=st.integers(0, 1000),
    waited_hours=st.floats(0, 100),
    required=st.booleans(),
)


def exact(candidates, limit=LIMIT):
    return max(
        sum(each.benefit for each in chosen)
        for count in range(len(candidates) + 1)
        for chosen in combinations(candidates, count)
        if sum(each.cost for each in chosen) <= limit
    )


def benefit(candidates, selection):
    return sum(candidates[number].benefit for number in selection.taken)


@given(st.lists(FRESH, max_size=10))
def test_at_least_half_of_the_largest_benefit_is_always_selected(candidates):
    chosen = select(candidates, BUDGET)
    assert sum(candidates[number].cost for number in chosen.taken) <= LIMIT
    assert benefit(candidates, chosen) >= exact(candidates) / 2 - 1e-6


@given(
    st.lists(st.builds(Candidate, benefit=st.floats(0, 1e6), cost=st.floats(0.1, 10)), max_size=11)
)
def test_small_compactions_fill_the_budget(candidates):
    chosen = select(candidates, Budget(max_core_seconds=30.0))
    # The last one that does not fit costs at most a third of the budget.
    assert benefit(candidates, chosen) >= exact(candidates, 30.0) * 2 / 3 - 1e-6


@given(st.lists(ANY, max_size=30))
def test_each_candidate_is_either_taken_once_or_has_a_reason_to_wait(candidates):
    chosen = select(candidates, BUDGET)
    assert sorted([*chosen.taken, *chosen.waiting]) == [*range(len(candidates))]
    assert all(reason.startswith("It waits: ") for reason in chosen.waiting.values())


@given(st.lists(ANY, max_size=30))
def test_required_compactions_come_first_and_cost_nothing_of_the_budget(candidates):
    chosen = select(candidates, BUDGET)
    required = [number for number, each in enumerate(candidates) if each.required]
    assert set(chosen.taken[: len(required)]) == set(required)
    others = [each for each in candidates if not each.required]
    paid = [candidates[number] for number in chosen.taken if not candidates[number].required]
    assert sorted(map(repr, paid)) == sorted(
        repr(others[number]) for number in select(others, BUDGET).taken
    )


@given(st.lists(ANY, max_size=30))
def test_only_one_overdue_compaction_may_exceed_the_budget_and_then_alone(candidates):
    paid = [
        candidates[number]
        for number in select(candidates, BUDGET).taken
        if not candidates[number].required
    ]
    assert sum(each.cost for each in paid) <= LIMIT or len(paid) == 1


@given(st.lists(ANY, max_size=20), st.integers(1, 5), st.integers(1, 3000))
def test_the_other_limits_of_a_budget_hold_too(candidates, partitions, size):
    budget = Budget(max_core_seconds=LIMIT, max_partitions=partitions, max_bytes=size)
    taken = [candidates[number] for number in select(candidates, budget).taken]
    assert len(taken) <= partitions
    assert sum(each.bytes for each in taken) <= size or len(taken) == 1


def test_one_large_compaction_replaces_several_small_ones_that_save_less():
    small = [Candidate(benefit=30, cost=10), Candidate(benefit=20, cost=10)]
    large = Candidate(benefit=190, cost=95)
    assert select([*small, large], BUDGET).taken == (2,)


def test_overdue_compactions_that_are_worth_their_cost_come_before_better_ones():
    better = [Candidate(benefit=1000, cost=50) for _ in range(4)]
    overdue = Candidate(benefit=60, cost=50, waited_hours=3)
    assert select([*better, overdue], BUDGET).taken[0] == 4
    early = Candidate(benefit=60, cost=50, waited_hours=2.9)
    assert 4 not in select([*better, early], BUDGET).taken
    worthless = Candidate(benefit=0, cost=50, waited_hours=1000)
    assert 4 not in select([*better, worthless], BUDGET).taken


def test_a_compaction_that_saves_little_becomes_worth_its_cost_by_waiting():
    better = [Candidate(benefit=1000, cost=50) for _ in range(4)]
    little = [Candidate(benefit=5, cost=50, waited_hours=hours) for hours in (269, 271)]
    assert 4 not in select([*better, little[0]], BUDGET).taken
    assert select([*better, little[1]], BUDGET).taken[0] == 4


def test_no_small_compaction_waits_forever_in_an_overloaded_warehouse():
    """Each round brings twice as many better ones as fit into the budget."""
    waiting = [Candidate(benefit=90, cost=5, waited_hours=10) for _ in range(11)]
    for round_ in range(11):
        fresh = [Candidate(benefit=1e6, cost=20) for _ in range(10)]
        taken = select([*waiting, *fresh], BUDGET).taken
        served = [number for number in taken if number < len(waiting)]
        assert served or not waiting, round_
        for number in sorted(served, reverse=True):
            waiting.pop(number)
    assert not waiting


@pytest.mark.parametrize(("cost", "alone"), [(90, False), (400, True)])
def test_no_large_compaction_waits_forever_in_an_overloaded_warehouse(cost, alone):
    fresh = [Candidate(benefit=1000, cost=10) for _ in range(20)]
    for waited in range(0, 10_000, 100):
        large = Candidate(benefit=20 * cost, cost=cost, waited_hours=waited)
        taken = select([*fresh, large], BUDGET).taken
        if 20 in taken:
            break
    # When its benefit has grown to that of the others for each core-second.
    assert 100 <= waited <= 200
    assert (taken == (20,)) == alone


def test_a_compaction_above_the_whole_budget_waits_while_others_save_more():
    fresh = [Candidate(benefit=1000, cost=10) for _ in range(3)]
    huge = Candidate(benefit=5000, cost=400, waited_hours=3)
    chosen = select([*fresh, huge], BUDGET)
    assert chosen.taken == (0, 1, 2)
    assert "more than the whole budget of 100 s" in chosen.waiting[3]


def test_reasons_to_wait_name_the_limit_or_the_cost():
    used = [Candidate(benefit=1000, cost=100), Candidate(benefit=500, cost=100)]
    assert "budget of 100 s is used up by" in select(used, BUDGET).waiting[1]
    costly = [Candidate(benefit=1000, cost=100), Candidate(benefit=5, cost=50)]
    assert "costs 50 core-seconds, and saves readers only 5 s" in select(costly, BUDGET).waiting[1]
    one = Budget(max_core_seconds=LIMIT, max_partitions=1)
    cheap = [Candidate(benefit=2, cost=1), Candidate(benefit=1, cost=1)]
    assert select(cheap, one).waiting[1] == "It waits: this run's budget of 1 partition is used up."


@pytest.mark.parametrize("limit", [0, -1, float("nan"), float("inf")])
def test_an_impossible_limit_of_core_seconds_is_refused(limit):
    with pytest.raises(InvalidJob, match="max_core_seconds"):
        Budget(max_core_seconds=limit).validate()
    with pytest.raises(InvalidJob, match="max_wait_hours"):
        Budget(max_wait_hours=limit).validate()
