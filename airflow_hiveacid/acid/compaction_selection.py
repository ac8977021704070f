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
    return _Selecting(candidates, budget).selection()


class _Selecting:
    """The steps of one selection; each takes compactions out of the rest of the budget."""

    def __init__(self, candidates: Sequence[Candidate], budget: Budget) -> None:
        self._candidates = candidates
        self._budget = budget
        self._limit = math.inf if budget.max_core_seconds is None else budget.max_core_seconds
        self._aged = [each.aged for each in candidates]
        self._room = _Room(self._limit, budget)

    def selection(self) -> Selection:
        required = [number for number, each in enumerate(self._candidates) if each.required]
        taken = self._take_beyond_budget(required)
        urgent = self._take_urgent()
        before = {*urgent, *required}
        rest = [number for number in range(len(self._candidates)) if number not in before]
        rest.sort(key=self._rank)
        if rest and not urgent and self._runs_alone(rest[0]):
            taken += self._take_beyond_budget(rest[:1])
        else:
            greedy = [number for number in rest if self._take(number)]
            taken += [*urgent, *self._without_costly(urgent, self._swapped(rest, greedy))]
        chosen = set(taken)
        return Selection(
            taken=tuple(taken),
            waiting={
                number: self._reason(number)
                for number in range(len(self._candidates))
                if number not in chosen
            },
        )

    def _rank(self, number: int) -> float:
        """The key that sorts by benefit per cost, the best first."""
        return -self._aged[number] / self._candidates[number].cost

    def _is_worth_its_cost(self, number: int) -> bool:
        return self._aged[number] >= self._candidates[number].cost

    def _take(self, number: int) -> bool:
        return self._room.take(self._candidates[number])

    def _take_beyond_budget(self, numbers: Sequence[int]) -> list[int]:
        """Take compactions without regard to the limit of core-seconds, cheap ones first."""
        order = sorted(numbers, key=lambda number: self._candidates[number].cost)
        return [each for each in order if self._room.take(self._candidates[each], free=True)]

    def _take_urgent(self) -> list[int]:
        """Take compactions for which the budgets of later runs are not sufficient, the last run first."""
        left = {
            number: each.runs_left(self._budget)
            for number, each in enumerate(self._candidates)
            if not each.required and self._is_worth_its_cost(number) and each.cost <= self._limit
        }
        order = sorted(left, key=lambda number: (left[number], self._rank(number)))
        total = needed = overdue = 0.0
        for number in order:
            total += self._candidates[number].cost
            needed = max(needed, total - left[number] * self._limit)
            overdue = total if left[number] == 0 else overdue
        is_overloaded = overdue > _OVERLOADED * self._limit
        share = _OVERLOADED_SHARE * self._limit if is_overloaded else self._limit
        taken: list[int] = []
        spent = 0.0
        for number in order:
            if spent >= needed:
                break
            cost = self._candidates[number].cost
            if spent + cost <= share and self._take(number):
                spent += cost
                taken.append(number)
        return taken

    def _runs_alone(self, number: int) -> bool:
        """Whether a compaction above the whole budget has waited for so long that it runs regardless."""
        own = self._candidates[number]
        has_waited = own.waited_hours >= self._budget.max_wait_hours
        return own.cost > self._limit and has_waited and self._is_worth_its_cost(number)

    def _without_costly(self, urgent: Sequence[int], greedy: Sequence[int]) -> list[int]:
        """Leave out compactions that save less than they cost, and are not needed for most of the benefit.

        Args:
            urgent: Those that run regardless.
            greedy: The others that were taken, the best first.
        """
        enough = _SUFFICIENT * sum(self._aged[number] for number in [*urgent, *greedy])
        reached = sum(self._aged[number] for number in urgent)
        kept = []
        for number in greedy:
            if self._is_worth_its_cost(number) or reached < enough:
                reached += self._aged[number]
                kept.append(number)
            else:
                self._room.put_back(self._candidates[number])
        return kept

    def _swapped(self, rest: Sequence[int], greedy: Sequence[int]) -> list[int]:
        """Replace the worst of the taken compactions by one that did not fit, if this is better.

        Args:
            rest: Those that were examined, the best first.
            greedy: Those of them that were taken, the best first.
        """
        chosen = set(greedy)
        left = [each for each in rest if each not in chosen]
        worst = list(reversed(greedy))
        best, swap = 0.0, None
        for number in nlargest(_SWAPPED, left, key=lambda each: self._aged[each]):
            count, gain = self._least_swap(number, worst)
            if gain > best:
                best, swap = gain, (number, count)
        if swap is None:
            return list(greedy)
        number, count = swap
        for out in worst[:count]:
            self._room.put_back(self._candidates[out])
        self._take(number)
        return sorted([*greedy[: len(greedy) - count], number], key=self._rank)

    def _least_swap(self, number: int, worst: Sequence[int]) -> tuple[int, float]:
        """Return the number of taken compactions to replace by another one, and the gain; 0 without a gain.

        Args:
            number: The other one.
            worst: The taken ones, the worst first.
        """
        own, room = self._candidates[number], self._room
        seconds, size, gain = room.seconds, room.bytes + own.bytes, self._aged[number]
        limit = self._budget.max_bytes
        for count, out in enumerate(worst, 1):
            seconds += self._candidates[out].cost
            size -= self._candidates[out].bytes
            gain -= self._aged[out]
            if gain <= 0:
                break
            # Without any other, the first one exceeds the limit of bytes.
            if own.cost <= seconds and (limit is None or size <= limit or count == room.count):
                return count, gain
        return 0, 0.0

    def _reason(self, number: int) -> str:
        """Return why a compaction waits."""
        own, most = self._candidates[number], self._budget.max_core_seconds
        full = self._room.full(own)
        if full is not None or most is None:
            return f"It waits: this run's budget of {full} is used up."
        limit = duration_in_words(most)
        if own.cost > most:
            return (
                f"It waits: it costs {duration_in_words(own.cost)}, more than the whole budget of"
                f" {limit}. It runs alone when it has waited for long, or in a larger budget."
            )
        if not self._is_worth_its_cost(number):
            return (
                f"It waits: it costs {own.cost:.2g} core-seconds, and saves readers only"
                f" {own.benefit:.2g} s until the next one is due."
            )
        return (
            f"It waits: this run's budget of {limit} is used up by compactions that have waited for longer,"
            " or have more benefit per cost."
        )


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
