"""Cost rates of compactions, fitted to the reports of earlier ones.

Reports come from files that other programs can change, and a busy machine makes single runs slow:
every rate is a median, stays within a factor of its default, and needs several runs.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from airflow_hiveacid.acid.compaction_forecast import Forecast
from airflow_hiveacid.acid.compaction_value import CostRates

# Fewer runs are no evidence.
FEWEST_RUNS = 5
# The newest runs, in case of many.
MOST_RUNS = 500
_MOST_FACTOR = 20.0
# A part of the cost is fitted to runs in which it has at least this share.
_SHARE = 0.25
_ROUNDS = 4
_LONGEST_SECONDS = 7 * 86_400.0
_MOST_BYTES = 2**50


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """Compaction of one partition in the past.

    Attributes:
        work: Its work.
        directories: The number of directories that it replaced.
        seconds: Its core-seconds.
    """

    work: Forecast
    directories: int
    seconds: float

    @property
    def is_valid(self) -> bool:
        """Whether it did any work, and all numbers are possible."""
        work = self.work
        counts = (work.copied_bytes, work.encoded_bytes, work.delete_events, self.directories)
        return (
            0 < self.seconds <= _LONGEST_SECONDS
            and all(0 <= count <= _MOST_BYTES for count in counts)
            and any(counts)
        )


def fitted_rates(runs: Iterable[PastRun], default: CostRates | None = None) -> CostRates:
    """Fit the rates to earlier runs; those without sufficient evidence keep their defaults.

    Args:
        runs: The runs, the newest first. Invalid ones are ignored.
        default: The rates without evidence.
    """
    default = default or CostRates()
    known = [run for run in runs if run.is_valid][:MOST_RUNS]
    rates = default
    for _ in range(_ROUNDS):
        for name in CostRates.__slots__:
            rates = replace(rates, **{name: _fitted(name, known, rates, getattr(default, name))})
    return rates


def _fitted(name: str, runs: Sequence[PastRun], rates: CostRates, default: float) -> float:
    """Fit one rate, with the current values of all others."""
    now: float = getattr(rates, name)
    found = []
    for run in runs:
        amount = _amount(name, run)
        predicted = rates.seconds(run.work, run.directories)
        if amount and now * amount >= _SHARE * predicted:
            found.append((run.seconds - (predicted - now * amount)) / amount)
    if len(found) < FEWEST_RUNS:
        return now
    fitted = median(found)
    if not math.isfinite(fitted):
        return now
    return min(max(fitted, default / _MOST_FACTOR), default * _MOST_FACTOR)


def _amount(name: str, run: PastRun) -> int:
    if name == "start":
        return 1
    if name == "directory":
        return run.directories
    amounts = {
        "copied_byte": run.work.copied_bytes,
        "encoded_byte": run.work.encoded_bytes,
        "delete_event": run.work.delete_events,
    }
    return amounts[name]
