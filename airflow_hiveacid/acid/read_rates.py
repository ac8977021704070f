"""Read rates of tables and partitions, from a table property, own runs, and samples of locks.

Readers hold shared locks. By Little's law, the rate of reads is the mean number of held locks
divided by their mean duration. The duration of a lock is the time from its acquisition to the last
sample with it: for reads that are shorter than the time between two samples this is exact if
durations are exponentially distributed, and at most twice the true rate if all are equal.

Samples belong to the creation of a table, not to its name. Numbers are read from a file that any
program may have changed: values outside of the valid range count as missing.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Self

from airflow_hiveacid.acid.table_identity import TableIdentity

READS_PROPERTY = "hiveacid.reads_per_day"
RateSource = Literal["property", "runs", "locks", "assumed"]

# A table without any evidence counts as one that is read every hour.
ASSUMED_PER_HOUR = 1.0
# Fewer samples are no evidence.
FEWEST_SAMPLES = 5
# Samples in quick succession show the same readers.
_LEAST_INTERVAL = 10.0
_HALF_LIFE = 7 * 86_400.0
_SHORTEST, _LONGEST = 1.0, 86_400.0
# The assumed duration of reads that no sample has shown.
_USUAL_DURATION = 30.0
_MOST_PER_HOUR = 1e6
# More readers at once, or more partitions with readers, are not recorded.
_MOST_OPEN = 1000
_MOST_PARTITIONS = 100_000


@dataclass(frozen=True, slots=True)
class ReadRate:
    """Estimated rate of reads, with its source.

    Attributes:
        per_hour: The number of reads in an hour.
        source: The kind of evidence: the table property, own runs, samples of locks, or no
            evidence.
        evidence: The evidence in words.
    """

    per_hour: float
    source: RateSource
    evidence: str


ASSUMED = ReadRate(ASSUMED_PER_HOUR, "assumed", "no evidence")


def rate_of_property(parameters: Mapping[str, str]) -> ReadRate | None:
    """Return the rate that a table's property sets; None without the property.

    An invalid value is reported as the evidence, and counts as no evidence: the compaction of a
    table must not depend on it.

    Args:
        parameters: The parameters of the table.
    """
    text = parameters.get(READS_PROPERTY)
    if text is None:
        return None
    try:
        per_day = float(text)
    except ValueError:
        per_day = math.nan
    if not 0 <= per_day <= 24 * _MOST_PER_HOUR:
        return replace(ASSUMED, evidence=f"{READS_PROPERTY} is not a number of reads: {text!r:.40}")
    return ReadRate(per_day / 24, "property", f"{per_day:g} a day by {READS_PROPERTY}")


def rate_of_runs(runs: int, hours: float) -> ReadRate | None:
    """Return the rate of reads by runs of this package; None without runs.

    Args:
        runs: The number of runs that read a partition.
        hours: The period.
    """
    if runs < 1:
        return None
    hours = max(1.0, hours)
    return ReadRate(
        min(runs / hours, _MOST_PER_HOUR), "runs", f"{runs} own runs in {hours / 24:.1f} days"
    )


def joint_rate(
    by_property: ReadRate | None, by_runs: ReadRate | None, by_locks: ReadRate | None
) -> ReadRate:
    """Combine the evidence on one partition.

    A property has precedence. Own runs hold no shared locks on the tables that they change, so that
    both numbers are added.
    """
    if by_property is not None and by_property.source == "property":
        return by_property
    if by_runs is None or by_locks is None:
        return by_runs or by_locks or by_property or ASSUMED
    larger = max(by_runs, by_locks, key=lambda rate: rate.per_hour)
    return ReadRate(
        by_runs.per_hour + by_locks.per_hour,
        larger.source,
        f"{by_runs.evidence}, {by_locks.evidence}",
    )


@dataclass(frozen=True, slots=True)
class ReadLock:
    """Shared lock at the time of a sample.

    Attributes:
        table: "database.table".
        partition: The name of the partition; None for a lock on the whole table.
        holder: The transaction, or the lock without one.
        acquired: The time of the acquisition, in seconds since 1970.
    """

    table: str
    partition: str | None
    holder: int
    acquired: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """Readers of a partition, or of a whole table; older ones weigh less.

    Attributes:
        held: The number of locks in all samples.
        ended: The number of locks that have ended.
        seconds: Their duration.
        open: The duration of the locks in the last sample, by holder.
    """

    held: float = 0.0
    ended: float = 0.0
    seconds: float = 0.0
    open: Mapping[str, float] = field(default_factory=dict)

    def sampled(self, locks: Mapping[str, float], weight: float) -> Self:
        """Add a sample.

        Args:
            locks: The duration of each lock so far, by holder.
            weight: The weight of the earlier samples.
        """
        gone = [seconds for holder, seconds in self.open.items() if holder not in locks]
        return replace(
            self,
            held=weight * _valid(self.held) + len(locks),
            ended=weight * _valid(self.ended) + len(gone),
            seconds=weight * _valid(self.seconds) + sum(map(_duration, gone)),
            open=locks,
        )

    def per_hour(self, samples: float) -> float:
        """Estimate the rate of reads.

        Args:
            samples: The number of samples.
        """
        held = _valid(self.held)
        count = _valid(self.ended) + len(self.open)
        if not held or not count:
            # The rate at which half a lock would be expected in that many samples, and one more.
            return min(ASSUMED_PER_HOUR, 3600 * 0.5 / (samples + 1) / _USUAL_DURATION)
        seconds = _valid(self.seconds) + sum(map(_duration, self.open.values()))
        mean = min(max(seconds / count, _SHORTEST), _LONGEST)
        return min(3600 * held / samples / mean, _MOST_PER_HOUR)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReads:
    """Samples of the readers of one table.

    Attributes:
        identity: The creation of the table, as text.
        samples: The number of samples; older ones weigh less.
        at: The time of the last one, in seconds since 1970.
        readers: The readers by partition; those of the whole table have the key "".
    """

    identity: str
    samples: float = 0.0
    at: float = 0.0
    readers: Mapping[str, Readers] = field(default_factory=dict)

    def rate(self, partition: str | None) -> ReadRate | None:
        """Estimate the reads of a partition; None without sufficient evidence.

        Args:
            partition: The name; None for a table without partitions.
        """
        samples = _valid(self.samples)
        if samples < FEWEST_SAMPLES:
            return None
        keys = {"", partition or ""}
        known = [self.readers[key] for key in keys if key in self.readers]
        held = sum(_valid(each.held) for each in known)
        per_hour = sum(each.per_hour(samples) for each in known) or Readers().per_hour(samples)
        return ReadRate(per_hour, "locks", f"{held:.0f} locks in {samples:.0f} samples")

    def sampled(self, locks: Mapping[str, Mapping[str, float]], now: float) -> Self:
        """Add a sample, unless the last one was taken just before.

        Args:
            locks: The duration of each lock, by partition and holder.
            now: The time, in seconds since 1970.
        """
        elapsed = now - self.at
        if 0 <= elapsed < _LEAST_INTERVAL:
            return self
        # The clock of another machine may have been ahead.
        weight = 0.5 ** (max(0.0, elapsed) / _HALF_LIFE) if math.isfinite(elapsed) else 1.0
        keys = [*self.readers, *(key for key in locks if key not in self.readers)]
        return replace(
            self,
            samples=weight * _valid(self.samples) + 1,
            at=now,
            readers={
                key: self.readers.get(key, Readers()).sampled(locks.get(key, {}), weight)
                for key in keys[:_MOST_PARTITIONS]
            },
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSamples:
    """Samples of the readers of some tables.

    Attributes:
        tables: The samples by "database.table".
    """

    tables: Mapping[str, TableReads] = field(default_factory=dict)

    def sampled(
        self, locks: Sequence[ReadLock], tables: Mapping[str, TableIdentity], now: float
    ) -> Self:
        """Add a sample of all locks.

        Args:
            locks: The shared locks that are held.
            tables: The surveyed tables by name. Samples of a table with an earlier creation are
                dropped, and those of other tables are kept.
            now: The time, in seconds since 1970.
        """
        by_table: dict[str, dict[str, dict[str, float]]] = {}
        for lock in locks:
            identity = tables.get(lock.table)
            # A lock that is older than the table belongs to another table of that name.
            if identity is not None and lock.acquired >= identity.created:
                held = by_table.setdefault(lock.table, {}).setdefault(lock.partition or "", {})
                if len(held) < _MOST_OPEN:
                    held[str(lock.holder)] = _duration(now - lock.acquired)
        sampled = {}
        for name, identity in tables.items():
            known = self.of(name, identity) or TableReads(identity=identity.text)
            sampled[name] = known.sampled(by_table.get(name, {}), now)
        return replace(self, tables={**self.tables, **sampled})

    def of(self, table: str, identity: TableIdentity) -> TableReads | None:
        """Return the samples of a table; None if they belong to another creation of the name.

        Args:
            table: The name.
            identity: The creation.
        """
        known = self.tables.get(table)
        try:
            is_same = known is not None and TableIdentity.of_text(known.identity).is_same(identity)
        except ValueError:
            is_same = False
        return known if is_same else None


def _valid(number: float) -> float:
    return number if math.isfinite(number) and number > 0 else 0.0


def _duration(seconds: float) -> float:
    return min(max(_valid(seconds), _SHORTEST), _LONGEST)
