"""Time of a small merge by the size of its table."""

import statistics
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from batches import NEIGHBOURS
from course import ChangingCourse
from engines import KEY
from session import jobs_so_far, seconds_of

MERGES = 3
# Appends after these make the table only larger; a merge reads no more of it than keys.
REAL = 10
KINDS = ("neighbours", "spread")


class Growth(ChangingCourse):
    """The same merges into a table of one append, and into tables of many of that size.

    Attributes:
        sizes: The number of appends in the tables; the first one is the reference for the others.
    """

    name: ClassVar[str] = "growth"
    sizes: ClassVar[Sequence[int]] = (1, 10)

    def _go(self) -> None:
        sizes = self.sizes[:1] if self.warm_up else self.sizes
        for times in sizes:
            self._grow(times)
            self._merges(times)
            if times != sizes[-1]:
                self.engine.drop()
                self.engine.create(f"{self.table}_then_{times}")

    def _grow(self, times: int) -> None:
        rows = self.batches.rows
        for number in range(times):
            make = self.batches.some if number < REAL else self.batches.fillers
            self.engine.append(make(number * rows, rows))

    def _merges(self, times: int) -> None:
        every = range(MERGES)
        rows = self.batches.rows
        sources = [
            [self.batches.neighbours_from(rows * (n + 1) // 5) for n in every],
            [self.batches.mixed(NEIGHBOURS, 50 + n, times) for n in every],
        ]
        for kind, frames in zip(KINDS, sources, strict=True):
            taken = []
            work = f"growth_{kind}_{times}"
            for number, frame in enumerate(frames):
                source = self.batches.kept(f"{kind}{number}", frame)
                before = jobs_so_far(self.engine.spark)
                taken.append(seconds_of(partial(self.engine.upsert, source)))
                self.figures[f"jobs_{work}"] = jobs_so_far(self.engine.spark) - before
            self.seconds[work] = statistics.median(taken)
            first = self.seconds[f"growth_{kind}_{self.sizes[0]}"]
            self.figures[work] = self.seconds[work] / first
        # The changed columns and the key: all columns of the large ones would take minutes.
        self._look(f"{times} appends", (KEY, "l_quantity"))
