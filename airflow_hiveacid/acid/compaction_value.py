"""Value of a compaction: the reading time that it saves until the next one is due, and its cost."""

import math
from dataclasses import dataclass, replace
from typing import Self

from airflow_hiveacid.acid.compaction import CompactionType
from airflow_hiveacid.acid.compaction_forecast import (
    COPIED_BYTE,
    DELETE_EVENT,
    ENCODED_BYTE,
    Forecast,
)
from airflow_hiveacid.acid.partition_size import PartitionSize
from airflow_hiveacid.acid.read_rates import ReadRate

_DELETES = "delete_delta_"
# The size of a row, of a delete event, and of a stripe in docs/benchmarks.md.
_ROW_BYTES = 35
_EVENT_BYTES = 1.3
_STRIPE_BYTES = 4_400_000
# Smaller stripes beside each other are joined, and hence encoded.
_SMALL_STRIPE = 1 << 20
# The footer and the statistics of a file of delete events.
_FOOTER_BYTES = 1000
_SHORTEST_HOURS, _LONGEST_HOURS = 1.0, 30 * 24.0
# The CPU time of a Spark application without work.
_SPARK_START = 20.0
# For directories without a known time.
_USUAL_HOURS = 24.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRates:
    """Core-seconds of the parts of a compaction, as docs/benchmarks.md has measured them.

    Attributes:
        start: Its transaction, plan, and publication.
        directory: Opening one directory that it replaces.
        copied_byte: A byte of a stripe that is copied.
        encoded_byte: A byte of a stripe that is decoded and written again.
        delete_event: A delete event that is read.
    """

    start: float = 0.1
    directory: float = 0.004
    copied_byte: float = COPIED_BYTE
    encoded_byte: float = ENCODED_BYTE
    delete_event: float = DELETE_EVENT

    def seconds(self, work: Forecast, directories: int) -> float:
        """Return the core-seconds of a compaction.

        Args:
            work: Its work.
            directories: The number of directories that it replaces.
        """
        return (
            self.start
            + self.directory * directories
            + self.copied_byte * work.copied_bytes
            + self.encoded_byte * work.encoded_bytes
            + self.delete_event * work.delete_events
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCosts:
    """Reader-seconds that a compaction can save in one read, as docs/benchmarks.md has measured them.

    Attributes:
        directory: Opening the files of one more directory.
        row: Looking up one row among the delete events.
        byte: Reading a byte.
    """

    directory: float = 0.01
    row: float = 0.5 / 4e6
    byte: float = 1 / 70e6


_COST_RATES, _READ_COSTS = CostRates(), ReadCosts()


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionValue:
    """Benefit and cost of a compaction.

    Attributes:
        benefit: The reader-seconds that it saves until the next one is due.
        cost: Its core-seconds.
        seconds_per_read: The seconds that it saves in each read.
        reads: The rate of reads.
        hours: The time until the next compaction is due.
    """

    benefit: float
    cost: float
    seconds_per_read: float
    reads: ReadRate
    hours: float

    @property
    def ratio(self) -> float:
        """The reader-seconds that a core-second saves."""
        return self.benefit / self.cost


def value_of(
    size: PartitionSize,
    type_: CompactionType,
    reads: ReadRate,
    hours: float,
    work: Forecast | None = None,
    rates: CostRates | None = None,
    costs: ReadCosts | None = None,
) -> CompactionValue:
    """Predict the benefit and the cost of a compaction.

    Args:
        size: The measurements of the partition.
        type_: The type of the compaction.
        reads: The rate of reads.
        hours: The time until the next compaction is due.
        work: The work according to the footers; by default it is estimated from the sizes.
        rates: The cost of the work.
        costs: The cost of reads.
    """
    own = _Input.of(size, type_)
    spark = work is not None and work.spark_reason is not None
    if work is None or spark:
        work = estimated_work(size, type_, own)
    if spark:
        # Spark decodes all rows.
        work = replace(work, copied_bytes=0, encoded_bytes=own.data)
    directories = len(size.deltas) + (type_ is not CompactionType.MINOR and size.base is not None)
    saved = seconds_saved(size, type_, costs or _READ_COSTS, own)
    return CompactionValue(
        benefit=reads.per_hour * hours * saved,
        cost=(rates or _COST_RATES).seconds(work, directories) + _SPARK_START * spark,
        seconds_per_read=saved,
        reads=reads,
        hours=hours,
    )


@dataclass(frozen=True, slots=True)
class _Input:
    """Input of a compaction.

    Attributes:
        inserts: The number of deltas.
        deletes: The number of delete deltas.
        data: The bytes of the rows that it reads.
        events: The estimated number of delete events.
    """

    inserts: int
    deletes: int
    data: int
    events: int

    @classmethod
    def of(cls, size: PartitionSize, type_: CompactionType) -> Self:
        deletes = 0
        if size.delete_bytes:
            deletes = len([name for name in size.deltas if name.startswith(_DELETES)])
        inserted = max(0, size.delta_bytes - size.delete_bytes)
        return cls(
            inserts=len(size.deltas) - deletes,
            deletes=deletes,
            data=inserted + (0 if type_ is CompactionType.MINOR else size.base_bytes),
            events=max(
                deletes, round((size.delete_bytes - deletes * _FOOTER_BYTES) / _EVENT_BYTES)
            ),
        )


def seconds_saved(
    size: PartitionSize, type_: CompactionType, costs: ReadCosts, given: _Input | None = None
) -> float:
    """Return the seconds that each read of a partition takes less after a compaction."""
    own = given or _Input.of(size, type_)
    if type_ is CompactionType.MINOR:
        return costs.directory * (max(0, own.inserts - 1) + max(0, own.deletes - 1))
    gone = max(0, len(size.deltas) + (size.base_bytes > 0) - 1)
    if not own.deletes:
        return costs.directory * gone
    rows = own.data / _ROW_BYTES if size.base_rows is None else size.base_rows
    bytes_gone = size.delete_bytes + min(own.data, _ROW_BYTES * own.events)
    return costs.directory * gone + costs.row * rows + costs.byte * bytes_gone


def estimated_work(
    size: PartitionSize, type_: CompactionType, given: _Input | None = None
) -> Forecast:
    """Estimate the work of a compaction from the sizes of directories, without opening a file.

    Delete events are assumed to be all over the data, which is the most expensive case.
    """
    own = given or _Input.of(size, type_)
    inserted = max(0, size.delta_bytes - size.delete_bytes)
    small = inserted if inserted < _SMALL_STRIPE * own.inserts else 0
    hit = 0.0
    if type_ is not CompactionType.MINOR and own.events:
        stripes = max(1.0, own.data / _STRIPE_BYTES)
        hit = 1.0 if stripes <= 1 else -math.expm1(own.events * math.log1p(-1 / stripes))
    encoded = min(own.data, round(small + hit * (own.data - small)))
    return Forecast(
        copied_bytes=own.data - encoded, encoded_bytes=encoded, delete_events=own.events
    )


def hours_until_due(size: PartitionSize, max_deltas: int | None, max_ratio: float | None) -> float:
    """Predict when a partition needs a compaction again, if writes continue as they did until now.

    The rate of writes includes the time since the last one: a partition that is not written any
    more needs no other compaction for a long time.

    Args:
        size: The measurements.
        max_deltas: The threshold of the number of deltas.
        max_ratio: The threshold of their share of the base.
    """
    if size.oldest_delta_hours is None or not size.deltas:
        return _USUAL_HOURS
    age = max(size.oldest_delta_hours, _SHORTEST_HOURS)
    due = []
    if max_deltas is not None:
        due.append(age * (max_deltas + 1) / len(size.deltas))
    if max_ratio is not None and size.delta_bytes and size.base_bytes:
        base = size.base_bytes + size.delta_bytes
        due.append(age * max_ratio * base / size.delta_bytes)
    return min(max(min(due, default=_LONGEST_HOURS), _SHORTEST_HOURS), _LONGEST_HOURS)


def hours_waited(size: PartitionSize, max_deltas: int | None, max_ratio: float | None) -> float:
    """Estimate how long a partition has needed a compaction, from the ages of its deltas.

    No record of earlier plans is necessary, which could be lost, or belong to an earlier table of
    the same name. The deltas are assumed to be of equal size, and evenly spaced in time.

    Args:
        size: The measurements.
        max_deltas: The threshold of the number of deltas.
        max_ratio: The threshold of their share of the base.
    """
    newest, oldest = size.newest_delta_hours, size.oldest_delta_hours
    if newest is None or oldest is None or not size.deltas:
        return 0.0
    # The share of the deltas that existed when the first threshold was exceeded.
    share = 1.0
    if max_deltas is not None:
        share = min(share, max_deltas / len(size.deltas))
    if max_ratio is not None and size.base_bytes and size.delta_bytes:
        share = min(share, max_ratio * size.base_bytes / size.delta_bytes)
    return oldest - share * (oldest - newest)


def hours_worth(size: PartitionSize, value: CompactionValue, fixed_cost: float) -> float:
    """Estimate how long a compaction has been worth its cost, from the ages of the deltas.

    The benefit, and the cost that is not fixed, are assumed to be proportional to the number of deltas.

    Args:
        size: The measurements.
        value: Its benefit and its cost now.
        fixed_cost: The part of the cost that does not depend on the number of deltas.
    """
    newest, oldest = size.newest_delta_hours, size.oldest_delta_hours
    gain = value.benefit - value.cost
    if newest is None or oldest is None or gain < 0:
        return 0.0
    # A fitted fixed cost can be 0.
    share = fixed_cost / (fixed_cost + gain) if gain else 1.0
    return oldest - share * (oldest - newest)
