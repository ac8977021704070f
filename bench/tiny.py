"""Small changes and reads of small tables, with the calls of Java and of the metastore."""

import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from course import ChangingCourse, every_value
from engines import KEY, HiveAcid

from tests.java_calls import counted_java_calls
from tests.metastore_calls import DESCRIBED, counted_calls

SIZES = (1_000, 100_000)
WORKS = {
    "merge": "merge of 1,000 rows, a quarter new",
    "update": "update of 1,000 rows",
    "delete": "delete of 10 rows",
    "compact": "compaction",
    "sum": "sum of one column",
    "key": "one key",
    "all": "all 17 columns",
}
CHANGED, FEW = 1_000, 10


class Tiny(ChangingCourse):
    """The same works on tables of some sizes, which do not depend on the rows of the other courses.

    Attributes:
        times: The number of measurements; the median counts.
    """

    name: ClassVar[str] = "tiny"
    sizes: ClassVar[Sequence[int]] = SIZES
    times: ClassVar[int] = 5

    def _go(self) -> None:
        for rows in self.sizes:
            if rows != self.sizes[0]:
                self.engine.drop()
                self.engine.create(f"{self.table}_{rows}")
            self.engine.append(self.batches.some(0, rows))
            # The first works of a driver run in code that Java has not compiled yet.
            times = 2 if self.warm_up else self.times
            taken: dict[str, list[dict[str, float]]] = {work: [] for work in WORKS}
            for number in range(times):
                for work, doing in self._works(rows, number).items():
                    taken[work].append(self._measured(doing))
            for work, measured in taken.items():
                for figure in measured[0]:
                    median = statistics.median(each[figure] for each in measured)
                    name = f"tiny_{work}_{rows}"
                    if figure == "seconds":
                        self.seconds[name] = median
                    else:
                        self.figures[f"{figure}_{name}"] = median
            self._look(f"{rows} rows")

    def _works(self, rows: int, number: int) -> dict[str, Callable[[], object]]:
        engine, some = self.engine, self.batches.some
        low = number * CHANGED % rows
        new = 100 * rows + number * CHANGED
        changed = some(low, min(CHANGED - CHANGED // 4, rows)).unionByName(some(new, CHANGED // 4))
        source = self.batches.kept(f"tiny{number}", changed)
        few = f"{KEY} >= {low + 5} AND {KEY} < {low + 5 + FEW}"
        return {
            "merge": lambda: engine.upsert(source),
            "update": lambda: engine.update(f"{KEY} >= {low} AND {KEY} < {low + CHANGED}"),
            "delete": lambda: engine.delete_where(few),
            "sum": lambda: engine.column("l_quantity").agg({"l_quantity": "sum"}).collect(),
            "key": lambda: engine.only(rows // 3).collect(),
            "all": lambda: every_value(engine.frame()),
            "compact": engine.compact,
        }

    def _measured(self, doing: Callable[[], object]) -> dict[str, float]:
        self.engine.spark._jvm.System.gc()  # type: ignore[union-attr]
        with counted_java_calls() as java, counted_calls() as metastore:
            started, used = time.perf_counter(), self._processor_seconds()
            doing()
            taken = {"seconds": time.perf_counter() - started}
            taken["cpu"] = self._processor_seconds() - used
        if isinstance(self.engine, HiveAcid):
            taken |= {"java_calls": java.count, "java_seconds": java.seconds}
            taken["metastore_calls"] = metastore.total() - metastore[DESCRIBED]
        return taken

    def _processor_seconds(self) -> float:
        """The processor time of this process and of Spark's, which runs all engines."""
        java = self.engine.spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
        fields = Path(f"/proc/{java}/stat").read_text().rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])
        return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")
