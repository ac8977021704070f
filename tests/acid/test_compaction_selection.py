"""The selection of compactions within a budget, against an exact solution."""

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from airflow_hiveacid.acid.compaction_policy import Budget
from airflow_hiveacid.acid.compaction_selection import Candidate, select
from airflow_hiveacid.errors import InvalidJob

LIMIT = 100.0
BUDGET = Budget(max_core_seconds=LIMIT, max_wait_hours=3.0)
# Nothing is urgent.
LATER = Budget(max_core_seconds=LIMIT, max_wait_hours=1000.0)
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
def test_almost_half_of_the_largest_benefit_is_always_selected(candidates):
    chosen = select(candidates, LATER)
    assert sum(candidates[number].cost for number in chosen.taken) <= LIMIT
    assert benefit(candidates, chosen) >= 0.95 * exact(candidates) / 2 - 1e-6


@given(
    st.lists(st.builds(Candidate, benefit=st.floats(0, 1e6), cost=st.floats(0.1, 10)), max_size=11)
)
def test_small_compactions_fill_the_budget(candidates):
    chosen = select(candidates, replace(LATER, max_core_seconds=30.0))
    # The last one that does not fit costs at most a third of the budget.
    assert benefit(candidates, chosen) >= 0.95 * exact(candidates, 30.0) * 2 / 3 - 1e-6


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
    early = Candidate(benefit=60, cost=50, waited_hours=1.9)
    assert 4 not in select([*better, early], BUDGET).taken
    worthless = Candidate(benefit=0, cost=50, waited_hours=1000)
    assert 4 not in select([*better, worthless], BUDGET).taken


def test_a_compaction_that_becomes_worth_its_cost_late_has_not_waited_for_long():
    better = [Candidate(benefit=1000, cost=50) for _ in range(4)]
    late = Candidate(benefit=60, cost=50, waited_hours=100, worth_hours=1)
    assert 4 not in select([*better, late], BUDGET).taken
    assert select([*better, replace(late, worth_hours=3)], BUDGET).taken[0] == 4


def test_the_time_between_runs_decides_which_run_is_the_last_one_in_time():
    better = [Candidate(benefit=1000, cost=50) for _ in range(4)]
    waiting = Candidate(benefit=60, cost=50, waited_hours=1)
    for hours, urgent in ((1, False), (2, False), (3, True)):
        taken = select([*better, waiting], replace(BUDGET, hours_between_runs=hours)).taken
        assert (4 in taken) == urgent


def test_a_run_takes_beforehand_what_does_not_fit_into_later_ones():
    fresh = [Candidate(benefit=1000, cost=10, waited_hours=0) for _ in range(10)]
    older = [Candidate(benefit=100, cost=10, waited_hours=2) for _ in range(15)]
    taken = select([*older, *fresh], BUDGET).taken
    # Ten of the older ones fit into the next run, the last one in time.
    assert sum(number < 15 for number in taken) == 5
    assert len(taken) == 10


RUN = st.lists(st.floats(1.01, 1000), max_size=9)


def rounds_deferred(arrivals, order, budget):
    """Replay arrivals, and return the largest number of rounds that one was deferred."""
    waiting, longest = [], 0
    for arrived in [*arrivals, *([[]] * 12)]:
        waiting += [(benefit, 0) for benefit in arrived]
        taken = order(
            [
                Candidate(benefit=benefit, cost=1.0, waited_hours=float(rounds))
                for benefit, rounds in waiting
            ],
            budget,
        )
        chosen = set(taken)
        waiting = [
            (benefit, rounds + 1)
            for number, (benefit, rounds) in enumerate(waiting)
            if number not in chosen
        ]
        longest = max([longest, *(rounds for _, rounds in waiting)])
    return longest


def longest_waiting_first(candidates, budget):
    order = sorted(range(len(candidates)), key=lambda number: -candidates[number].waited_hours)
    return order[: int(budget.max_core_seconds)]


def by_value(candidates, budget):
    return select(candidates, budget).taken


@given(st.lists(RUN, max_size=12), st.integers(1, 5))
@example([[2.0] * 8, *([[9.0] * 2] * 3)], 2)
@settings(max_examples=300)
def test_none_waits_too_long_if_the_order_of_age_can_prevent_it(arrivals, limit):
    budget = Budget(max_core_seconds=float(limit), max_wait_hours=3.0)
    assume(rounds_deferred(arrivals, longest_waiting_first, budget) <= 3)
    assert rounds_deferred(arrivals, by_value, budget) <= 3


def test_compactions_that_save_less_than_they_cost_run_only_for_most_of_the_benefit():
    good = Candidate(benefit=90, cost=10)
    little, least = Candidate(benefit=6, cost=10), Candidate(benefit=4, cost=10)
    assert select([good, little, least], LATER).taken == (0, 1)
    assert "saves readers only 4 s" in select([good, little, least], LATER).waiting[2]
    assert select([least], LATER).taken == (0,)


def test_compactions_that_are_worth_their_cost_run_regardless_of_their_share_of_the_benefit():
    assert select(
        [Candidate(benefit=1e6, cost=10), Candidate(benefit=10, cost=10)], LATER
    ).taken == (
        0,
        1,
    )


def test_the_benefit_doubles_in_ten_days_of_waiting():
    better = [Candidate(benefit=99, cost=50) for _ in range(2)]
    waiting = [Candidate(benefit=50, cost=50, waited_hours=hours) for hours in (220, 240)]
    assert select([*better, waiting[0]], LATER).taken == (0, 1)
    assert select([*better, waiting[1]], LATER).taken == (2, 0)


def test_no_small_compaction_waits_forever_in_an_overloaded_warehouse():
    """Each round brings twice as many better ones as fit into the budget."""
    waiting = [Candidate(benefit=90, cost=5, waited_hours=10) for _ in range(41)]
    for round_ in range(41):
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
    # One above the budget runs when its benefit for each core-second has grown to that of the others.
    assert waited == (1000 if alone else 100)
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
    with pytest.raises(InvalidJob, match="hours_between_runs"):
        Budget(hours_between_runs=limit).validate()
