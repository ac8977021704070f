"""Order of required compactions, and the choice of those within a budget."""

from collections.abc import Sequence
from dataclasses import replace

from airflow_hiveacid.acid.compaction import CompactionType
from airflow_hiveacid.acid.compaction_decision import Decision
from airflow_hiveacid.acid.compaction_policy import Budget
from airflow_hiveacid.acid.compaction_selection import Candidate, select
from airflow_hiveacid.acid.compaction_value import (
    CompactionValue,
    CostRates,
    hours_worth,
    value_of,
)
from airflow_hiveacid.acid.read_rates import ASSUMED
from airflow_hiveacid.text.quantities import bytes_in_words


def choose(
    decisions: Sequence[Decision], budget: Budget, rates: CostRates | None = None
) -> list[Decision]:
    """Order necessary compactions, and postpone those beyond the budget.

    Without a limit of core-seconds, the order is that of the excess over the thresholds, else that of
    the benefit per cost.

    Args:
        decisions: The decisions.
        budget: The limits.
        rates: The cost of the work.

    Returns:
        All decisions: first the compactions to run now, in this order; then all others, those
        beyond the budget with this reason.
    """
    if budget.max_core_seconds is not None:
        return _by_value(decisions, budget, rates or CostRates())
    called = [decision for decision in decisions if decision.type is not None]
    now: list[Decision] = []
    later: dict[int, Decision] = {}
    total = 0
    for decision in sorted(called, key=lambda candidate: -candidate.benefit):
        over = None
        if budget.max_partitions is not None and len(now) >= budget.max_partitions:
            over = f"{budget.max_partitions} partition{'' if budget.max_partitions == 1 else 's'}"
        elif budget.max_bytes is not None and now and total + decision.bytes > budget.max_bytes:
            over = bytes_in_words(budget.max_bytes)
        if over is None:
            now.append(decision)
            total += decision.bytes
        else:
            reason = f"{decision.reason} It waits: this run's budget of {over} is used up."
            later[id(decision)] = replace(decision, type=None, reason=reason)
    others = [
        later.get(id(decision), decision)
        for decision in decisions
        if decision.type is None or id(decision) in later
    ]
    return now + others


def in_threshold_order(decisions: Sequence[Decision], max_core_seconds: float) -> list[Decision]:
    """Take compactions in the order of the thresholds, as long as they fit into the budget.

    Required ones come first, and are not subject to the limit. The first one always runs, as with
    the other limits. This is the order with which the one by value is compared.

    Args:
        decisions: Decisions with values.
        max_core_seconds: The limit.
    """
    taken: list[Decision] = []
    room = max_core_seconds
    for decision in sorted(decisions, key=lambda each: (not each.required, -each.benefit)):
        cost = 0.0 if decision.required or decision.value is None else decision.value.cost
        if cost <= room or not taken:
            room -= cost
            taken.append(decision)
    return taken


def valued(decision: Decision, rates: CostRates | None = None) -> CompactionValue | None:
    """Return the benefit and the cost of a necessary compaction; None for another decision."""
    if decision.type is None:
        return None
    return value_of(
        decision.size,
        decision.type,
        decision.size.reads or ASSUMED,
        decision.hours_until_due,
        decision.work,
        rates,
    )


def _by_value(decisions: Sequence[Decision], budget: Budget, rates: CostRates) -> list[Decision]:
    called = [
        (decision, value)
        for decision in decisions
        if (value := valued(decision, rates)) is not None
    ]
    selection = select(
        [
            Candidate(
                benefit=value.benefit,
                cost=value.cost,
                bytes=decision.bytes,
                waited_hours=decision.waited_hours,
                worth_hours=hours_worth(
                    decision.size,
                    value,
                    # That of a minor one grows with the deltas, that of a major one is mostly that of the base.
                    rates.start if decision.type is CompactionType.MINOR else value.cost,
                ),
                required=decision.required,
            )
            for decision, value in called
        ],
        budget,
    )
    now = []
    for number in selection.taken:
        decision, value = called[number]
        now.append(replace(decision, value=value))
    later = []
    for number in sorted(selection.waiting, key=lambda number: -called[number][1].ratio):
        decision, value = called[number]
        reason = f"{decision.reason} {selection.waiting[number]}"
        later.append(replace(decision, type=None, reason=reason, value=value))
    return [*now, *later, *(decision for decision in decisions if decision.type is None)]
