"""Selection of the compactions that save the most reading time within a budget of core-seconds."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest

from airflow_hiveacid.acid.compaction_policy import Budget
from airflow_hiveacid.text.quantities import bytes_in_words, duration_in_words

# If those that must run now cost more than this number of budgets, no order can limit the wait. They
# receive a small share then, as the budget would be spent in the order of age alone.
_OVERLOADED, _OVERLOADED_SHARE = 2, 0.05
# The share of the benefit for which compactions that save less than they cost run.
_SUFFICIENT = 0.95
# After this wait, ten days, a compaction counts twice. A faster growth would lead to an order of age.
_DOUBLED_HOURS = 240.0
# A swap with others changes the sum by less than the swap of one of these.
_SWAPPED = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Compaction that may be selected.

    Attributes:
        benefit: The reader-seconds that it saves.
        cost: Its core-seconds; more than 0.
        bytes: The size of its input.
        waited_hours: The time since it became necessary.
        worth_hours: The time since it became worth its cost.
        required: It corrects what readers see, and is not subject to the limit of core-seconds.
    """

    benefit: float
    cost: float
    bytes: int = 0
    waited_hours: float = 0.0
    worth_hours: float = math.inf
    required: bool = False

    @property
    def aged(self) -> float:
        """The benefit, which grows without limit while the compaction waits."""
        return self.benefit * (1 + self.waited_hours / _DOUBLED_HOURS)

    def runs_left(self, budget: Budget) -> int:
        """Return the number of later runs before it has waited for too long."""
        left = budget.max_wait_hours - min(self.waited_hours, self.worth_hours)
        return max(0, math.floor(left / budget.hours_between_runs))


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Selected compactions, by their positions.

    Attributes:
        taken: Those to run now, in this order.
        waiting: The reasons why each of the others waits.
    """

    taken: tuple[int, ...]
    waiting: Mapping[int, str]


def select(candidates: Sequence[Candidate], budget: Budget) -> Selection:
    """Select compactions: required ones, urgent ones, then those with the most benefit per cost.

    The last step takes them one by one, and then replaces some by one that did not fit if this
    increases the benefit. Those that save less than they cost are left out if almost all of the
    benefit remains. Without urgent ones, the result has at least 0.95 / 2 of the largest possible
    benefit.

    Args:
        candidates: The compactions.
        budget: The limits.
    """
    limit = math.inf if budget.max_core_seconds is None else budget.max_core_seconds
    aged = [each.aged for each in candidates]
    room = _Room(limit, budget)
    required = [number for number, each in enumerate(candidates) if each.required]
    taken = [
        number
        for number in sorted(required, key=lambda number: candidates[number].cost)
        if room.take(candidates[number], free=True)
    ]
    worth = [
        number
        for number, each in enumerate(candidates)
        if not each.required and aged[number] >= each.cost
    ]
    urgent = _urgent(candidates, [n for n in worth if candidates[n].cost <= limit], limit, room)
    before = {*urgent, *required}
    rest = [number for number in range(len(candidates)) if number not in before]
    rest.sort(key=lambda number: -aged[number] / candidates[number].cost)
    if rest and not urgent and _runs_alone(candidates[rest[0]], limit, budget):
        taken += [rest[0]] if room.take(candidates[rest[0]], free=True) else []
    else:
        greedy = [number for number in rest if room.take(candidates[number])]
        greedy = _swapped(candidates, aged, rest, greedy, room)
        enough = _SUFFICIENT * sum(aged[number] for number in [*urgent, *greedy])
        taken += [*urgent, *_without_costly(candidates, aged, urgent, greedy, enough, room)]
    chosen = set(taken)
    return Selection(
        taken=tuple(taken),
        waiting={
            number: _reason(own, aged[number], room, budget)
            for number, own in enumerate(candidates)
            if number not in chosen
        },
    )


def _urgent(
    candidates: Sequence[Candidate], worth: Sequence[int], limit: float, room: "_Room"
) -> list[int]:
    """Take compactions for which the budgets of later runs are not sufficient, the last run first.

    Args:
        candidates: All candidates.
        worth: Those that are worth their cost, and fit into a budget.
        limit: The budget of each run.
        room: The rest of this budget.
    """
    left = {number: candidates[number].runs_left(room.budget) for number in worth}
    order = sorted(worth, key=lambda n: (left[n], -candidates[n].aged / candidates[n].cost))
    total = needed = overdue = 0.0
    for number in order:
        total += candidates[number].cost
        needed = max(needed, total - left[number] * limit)
        overdue = total if left[number] == 0 else overdue
    share = limit if overdue <= _OVERLOADED * limit else _OVERLOADED_SHARE * limit
    taken: list[int] = []
    spent = 0.0
    for number in order:
        if spent >= needed:
            break
        if spent + candidates[number].cost <= share and room.take(candidates[number]):
            spent += candidates[number].cost
            taken.append(number)
    return taken


def _runs_alone(own: Candidate, limit: float, budget: Budget) -> bool:
    """Whether a compaction above the whole budget has waited for so long that it runs regardless."""
    return own.cost > limit and own.waited_hours >= budget.max_wait_hours and own.aged >= own.cost


def _without_costly(
    candidates: Sequence[Candidate],
    aged: Sequence[float],
    urgent: Sequence[int],
    greedy: Sequence[int],
    enough: float,
    room: "_Room",
) -> list[int]:
    """Leave out compactions that save less than they cost, and are not needed for most of the benefit.

    Args:
        candidates: All candidates.
        aged: Their benefits.
        urgent: Those that run regardless.
        greedy: The others that were taken, the best first.
        enough: The benefit that is sufficient.
        room: The rest of the budget.
    """
    reached = sum(aged[number] for number in urgent)
    kept = []
    for number in greedy:
        if aged[number] >= candidates[number].cost or reached < enough:
            reached += aged[number]
            kept.append(number)
        else:
            room.put_back(candidates[number])
    return kept


@dataclass(slots=True)
class _Room:
    """The rest of a budget."""

    seconds: float
    budget: Budget
    bytes: int = 0
    count: int = 0

    def take(self, own: Candidate, *, free: bool = False) -> bool:
        """Take a compaction if it fits; one that is free costs no core-seconds."""
        if not (free or own.cost <= self.seconds) or self.full(own) is not None:
            return False
        self.seconds -= 0.0 if free else own.cost
        self.bytes += own.bytes
        self.count += 1
        return True

    def put_back(self, own: Candidate) -> None:
        """Undo a compaction that was taken."""
        self.seconds += own.cost
        self.bytes -= own.bytes
        self.count -= 1

    def full(self, own: Candidate) -> str | None:
        """Return the limit other than core-seconds that a compaction exceeds; None if it fits."""
        most, size = self.budget.max_partitions, self.budget.max_bytes
        if most is not None and self.count >= most:
            return f"{most} partition{'' if most == 1 else 's'}"
        if size is not None and self.count and self.bytes + own.bytes > size:
            return bytes_in_words(size)
        return None


def _swapped(
    candidates: Sequence[Candidate],
    aged: Sequence[float],
    rest: Sequence[int],
    greedy: Sequence[int],
    room: _Room,
) -> list[int]:
    """Replace the worst of the taken compactions by one that did not fit, if this is better.

    Args:
        candidates: All candidates.
        aged: Their benefits.
        rest: Those that were examined, the best first.
        greedy: Those of them that were taken, the best first.
        room: The rest of the budget.
    """
    chosen = set(greedy)
    left = [each for each in rest if each not in chosen]
    left = nlargest(_SWAPPED, left, key=lambda each: aged[each])
    worst = list(reversed(greedy))
    best, swap = 0.0, None
    for number in left:
        own = candidates[number]
        seconds, size, lost = room.seconds, room.bytes + own.bytes, 0.0
        for count, out in enumerate(worst, 1):
            seconds, size = seconds + candidates[out].cost, size - candidates[out].bytes
            lost += aged[out]
            if lost >= aged[number] - best:
                break
            limit = room.budget.max_bytes
            # Without any other, the first one exceeds the limit of bytes.
            fits = limit is None or size <= limit or count == room.count
            if own.cost <= seconds and fits:
                best, swap = aged[number] - lost, (number, count)
                break
    if swap is None:
        return list(greedy)
    number, count = swap
    for out in worst[:count]:
        room.put_back(candidates[out])
    room.take(candidates[number])
    kept = [*greedy[: len(greedy) - count], number]
    return sorted(kept, key=lambda each: -aged[each] / candidates[each].cost)


def _reason(own: Candidate, aged: float, room: _Room, budget: Budget) -> str:
    """Return why a compaction waits."""
    full = room.full(own)
    if full is not None or budget.max_core_seconds is None:
        return f"It waits: this run's budget of {full} is used up."
    limit = duration_in_words(budget.max_core_seconds)
    if own.cost > budget.max_core_seconds:
        return (
            f"It waits: it costs {duration_in_words(own.cost)}, more than the whole budget of"
            f" {limit}. It runs alone when it has waited for long, or in a larger budget."
        )
    if aged < own.cost:
        return (
            f"It waits: it costs {own.cost:.2g} core-seconds, and saves readers only"
            f" {own.benefit:.2g} s until the next one is due."
        )
    return (
        f"It waits: this run's budget of {limit} is used up by compactions that have waited for longer,"
        " or have more benefit per cost."
    )
