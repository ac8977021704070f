"""Order of due compactions, and the choice of those within the budget of a run.

Each compaction is ranked by what a read saves afterwards, for each byte that it rewrites. The sizes
of directories suffice: no file is opened.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.compaction_decision import Decision
from hiveacid.rules.compaction_policy import Budget
from hiveacid.rules.texts import bytes_in_words, plural

READS_PROPERTY = "hiveacid.reads_per_day"

# A table without the property counts as one that is read every hour, and no table as one that is
# read less than once a day: its compactions would wait forever.
_USUAL_READS, _FEWEST_READS, _MOST_READS = 24.0, 1.0, 1e9
# Opening a file costs readers as much as reading this many bytes, as Spark assumes, too. A compaction
# has a fixed cost of the same order.
_OPEN_BYTES = 4 << 20
# Looking up rows among delete events takes about this share of the time to read them.
_LOOKUP_SHARE = 0.25
# The weight doubles in this time, up to a limit that keeps numbers finite.
_DOUBLED_HOURS, _MOST_DOUBLINGS = 24.0, 500.0
_DELETES = "delete_delta_"


def rank(decisions: Sequence[Decision], budget: Budget) -> list[Decision]:
    """Order due compactions, and postpone those beyond the budget.

    Those that correct what readers see come first. Then come those that have waited for longer than
    the budget permits, the longest first; then all others by ``priority``.

    Args:
        decisions: The decisions.
        budget: The limits.

    Returns:
        All decisions: first the compactions to run now, in this order; then all others, those
        beyond the budget with this reason.
    """
    now: list[Decision] = []
    deferred: dict[int, Decision] = {}
    total = 0
    due = [decision for decision in decisions if decision.type is not None]
    for decision in sorted(due, key=lambda decision_to_sort: _position(decision_to_sort, budget)):
        over = None
        if budget.max_partitions is not None and len(now) >= budget.max_partitions:
            over = plural(budget.max_partitions, "partition")
        elif budget.max_bytes is not None and now and total + decision.bytes > budget.max_bytes:
            over = bytes_in_words(budget.max_bytes)
        if over is None:
            now.append(decision)
            total += decision.bytes
        else:
            reason = f"{decision.reason} It waits: this run's budget of {over} is used up."
            deferred[id(decision)] = replace(decision, type=None, reason=reason, deferred=True)
    decisions_without_work = [
        deferred.get(id(decision), decision)
        for decision in decisions
        if decision.type is None or id(decision) in deferred
    ]
    return now + decisions_without_work


def priority(decision: Decision) -> float:
    """Return the bytes that reads save in a day for each byte rewritten, weighted by the wait.

    Args:
        decision: The decision for a compaction.
    """
    reads = decision.size.reads_per_day
    per_day = _USUAL_READS if reads is None else max(reads, _FEWEST_READS)
    saved = per_day * saved_bytes(decision) / (decision.bytes + _OPEN_BYTES)
    doublings = min(decision.waited_hours / _DOUBLED_HOURS, _MOST_DOUBLINGS)
    return saved * math.exp2(doublings)


def saved_bytes(decision: Decision) -> float:
    """Return the bytes that each read saves after a compaction, with files to open as bytes.

    A major compaction that removes delete events also saves looking up the rows among them.

    Args:
        decision: The decision for a compaction.
    """
    size = decision.size
    deletes = sum(name.startswith(_DELETES) for name in size.deltas)
    inserts = len(size.deltas) - deletes
    if decision.type is CompactionType.MINOR:
        return _OPEN_BYTES * (max(0, inserts - 1) + max(0, deletes - 1))
    opens = _OPEN_BYTES * max(0, len(size.deltas) + (size.base_bytes > 0) - 1)
    if not deletes:
        return opens
    rows = size.base_bytes + size.delta_bytes - size.delete_bytes
    return opens + size.delete_bytes + _LOOKUP_SHARE * max(0, rows)


def reads_per_day(parameters: Mapping[str, str]) -> float | None:
    """Return the rate of reads that a table's property sets.

    Args:
        parameters: The parameters of the table.

    Returns:
        None without the property, or with one that is not a number of reads: no compaction depends
        on it.
    """
    try:
        reads = float(parameters[READS_PROPERTY])
    except (KeyError, ValueError):
        return None
    return reads if 0 <= reads <= _MOST_READS else None


def _position(decision: Decision, budget: Budget) -> tuple[int, float]:
    if decision.required:
        return 0, -priority(decision)
    if decision.waited_hours > budget.max_wait_hours:
        return 1, -decision.waited_hours
    return 2, -priority(decision)
