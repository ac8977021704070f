"""Reads and changes of a table with many partitions: after an append, a delete of rows in all of them,
and a merge and a compaction.
"""

import statistics
from collections.abc import Callable
from typing import ClassVar

from course import REPETITIONS, Course, every_value
from engines import KEY, PARTITION, ChangingEngine
from pyspark.sql import DataFrame

FIRST_DAY, DAYS = "2024-01-01", 396
# Sales by month select a twelfth of the days, as many months are in the table.
MONTHS = 12
READS = {
    "frame": "making the frame",
    "sum": "sum of one column",
    "all": "all columns",
    "key": "one key",
    "part": "sum of one partition",
    "join": "join with a twelfth of the partitions",
}
STATES = {"new": "appended", "deleted": "rows deleted"}


class Partitioned(Course):
    """One table with a partition for each day, of one file each."""

    name: ClassVar[str] = "partitions"
    key: ClassVar[str | None] = "date"
    days: ClassVar[int] = DAYS

    def _go(self) -> None:
        rows = self.batches.kept("by_day", self._by_day(self.batches.all))
        self._time("partitions_append", lambda: self.engine.append(rows.repartition(PARTITION)))
        self._months = self.batches.kept("months", self._calendar())
        self._states("new")
        self._look("new")
        if isinstance(self.engine, ChangingEngine):
            engine = self.engine
            self._time("partitions_delete", lambda: engine.delete(self.batches.listed))
            self._states("deleted")
            self._look("deleted")
            changes = self.batches.kept("changes_by_day", self._by_day(self.batches.spread))
            self._time("partitions_merge", lambda: engine.upsert(changes))
            self._look("merged")
            self._time("partitions_compact", engine.compact)
            self._look("compacted")
        else:
            for read in READS:
                seconds = self.seconds[f"partitions_new_{read}"]
                self.seconds[f"partitions_deleted_{read}"] = seconds

    def _by_day(self, rows: DataFrame) -> DataFrame:
        day = f"date_add(date'{FIRST_DAY}', cast(pmod({KEY}, {self.days}) as int)) as {PARTITION}"
        return rows.selectExpr("*", day)

    def _calendar(self) -> DataFrame:
        days = self.engine.spark.range(self.days)
        return days.selectExpr(
            f"date_add(date'{FIRST_DAY}', cast(id as int)) as {PARTITION}",
            f"id % {MONTHS} as month",
        )

    def _states(self, state: str) -> None:
        frame, months = self.engine.frame, self._months.where("month = 3")
        day = f"{PARTITION} = date_add(date'{FIRST_DAY}', {self.days // 2})"
        total = "sum(l_quantity)"
        reads: dict[str, Callable[[], object]] = {
            "frame": frame,
            "sum": lambda: frame().selectExpr(total).collect(),
            "all": lambda: every_value(frame()),
            "key": lambda: frame().where(f"{KEY} = {self.batches.rows // 3}").collect(),
            "part": lambda: frame().where(day).selectExpr(total).collect(),
            "join": lambda: frame().join(months, PARTITION).selectExpr(total).collect(),
        }
        for name, read in reads.items():
            taken = [self._seconds_of(read) for _ in range(REPETITIONS)]
            self.seconds[f"partitions_{state}_{name}"] = statistics.median(taken)
