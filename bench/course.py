"""The works of an engine in one round, with the seconds and Spark jobs of each."""

import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import ClassVar

from batches import Batches
from engines import ChangingEngine, Engine
from lineitem import TYPES
from pyspark.sql import DataFrame
from session import jobs_so_far, seconds_of

READS = ("sum", "key", "all")
# The number of repetitions of each; the median counts.
REPETITIONS = 3

Shown = tuple[int, int]


class Course(ABC):
    """Works that every engine does, one after the other, on tables of its own.

    Attributes:
        warm_up: Its results are discarded, so that it may skip long works.
        seconds: The duration of each work; the median of repeated ones.
        figures: Other numbers, by their labels.
        shown: The number of visible rows at some points, and a hash of all of them.
    """

    name: ClassVar[str]
    kind: ClassVar[type[Engine]] = Engine
    # The type of the partition column.
    key: ClassVar[str | None] = None

    def __init__(self, engine: Engine, batches: Batches, table: str, *, warm_up: bool) -> None:
        self.engine, self.batches, self.table = engine, batches, table
        self.warm_up = warm_up
        self.seconds: dict[str, float] = {}
        self.figures: dict[str, float] = {}
        self.shown: dict[str, Shown] = {}
        engine.create(table, self.key)
        try:
            self._go()
        finally:
            engine.drop()

    @abstractmethod
    def _go(self) -> None:
        """Do the works on the new and empty table."""

    def _time(self, work: str, doing: Callable[[], object]) -> None:
        if not self.engine.does(work):
            doing()
            return
        before = jobs_so_far(self.engine.spark)
        self.seconds[work] = self._seconds_of(doing)
        self.figures[f"jobs_{work}"] = jobs_so_far(self.engine.spark) - before

    def _seconds_of(self, doing: Callable[[], object]) -> float:
        """Measure a work, without the garbage of others."""
        self.engine.spark._jvm.System.gc()  # type: ignore[union-attr]
        return seconds_of(doing)

    def _read(self, prefix: str, suffix: str = "") -> None:
        """Read one column, one key and everything."""
        reads: list[Callable[[], object]] = [
            lambda: self.engine.column("l_quantity").agg({"l_quantity": "sum"}).collect(),
            lambda: self.engine.only(self.batches.rows // 3).collect(),
            lambda: every_value(self.engine.frame()),
        ]
        for name, read in zip(READS, reads, strict=True):
            if not self.engine.does(name):
                continue
            taken = [seconds_of(read) for _ in range(REPETITIONS)]
            self.seconds[f"{prefix}{name}{suffix}"] = statistics.median(taken)

    def _look(self, moment: str, columns: Iterable[str] = TYPES) -> None:
        """Record the visible rows, to compare them with the others."""
        values = self.engine.frame().selectExpr(
            "count(*) as rows", f"bit_xor(xxhash64({', '.join(columns)})) as hash"
        )
        row = values.collect()[0]
        self.shown[moment] = row.rows, row.hash


class ChangingCourse(Course):
    """Works for engines that can change rows."""

    kind = ChangingEngine
    engine: ChangingEngine


def every_value(frame: DataFrame) -> int:
    """Have Spark make all rows, and do nothing with them; a write to "noop" is refused by Delta."""
    return frame._jdf.queryExecution().toRdd().count()
