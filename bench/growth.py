"""How the time of a small merge grows with the table it goes into."""

import statistics
from functools import partial
from typing import ClassVar

from batches import NEIGHBOURS
from course import ChangingCourse
from session import jobs_so_far, seconds_of

TIMES = 10
MERGES = 3


class Growth(ChangingCourse):
    """The same merges into a table, and into one after ten appends of the first one's size."""

    name: ClassVar[str] = "growth"

    def _go(self) -> None:
        self._grow(1)
        self._merges("small", times=1)
        self.engine.drop()
        self.engine.create(f"{self.table}_large")
        self._grow(TIMES)
        self._merges("large", times=TIMES)
        for kind in ("neighbours", "spread"):
            small, large = (self.seconds[f"growth_{kind}_{size}"] for size in ("small", "large"))
            self.figures[f"growth_{kind}"] = large / small

    def _grow(self, times: int) -> None:
        rows = self.batches.rows
        for number in range(times):
            self.engine.append(self.batches.some(number * rows, rows))

    def _merges(self, size: str, times: int) -> None:
        every = range(MERGES)
        rows = self.batches.rows
        sources = {
            "neighbours": [self.batches.neighbours_from(rows * (n + 1) // 5) for n in every],
            "spread": [self.batches.mixed(NEIGHBOURS, 50 + n, times) for n in every],
        }
        for kind, frames in sources.items():
            taken = []
            for number, frame in enumerate(frames):
                source = self.batches.kept(f"{kind}{number}", frame)
                before = jobs_so_far(self.engine.spark)
                taken.append(seconds_of(partial(self.engine.upsert, source)))
                self.figures[f"jobs_growth_{kind}_{size}"] = jobs_so_far(self.engine.spark) - before
            self.seconds[f"growth_{kind}_{size}"] = statistics.median(taken)
        self._look(size)
