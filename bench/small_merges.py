"""Cost of many small merges, one after the other in the same driver."""

import statistics
from functools import partial
from typing import ClassVar

from course import ChangingCourse
from session import seconds_of

MERGES, ROWS = 100, 100


class SmallMerges(ChangingCourse):
    """A hundred merges of a hundred rows each, without a compaction between them."""

    name: ClassVar[str] = "small"

    def _go(self) -> None:
        self.engine.append(self.batches.all)
        count = MERGES // 10 if self.warm_up else MERGES
        taken = []
        for number in range(count):
            source = self.batches.kept("small", self.batches.mixed(ROWS, seed=number))
            taken.append(seconds_of(partial(self.engine.upsert, source)))
        tenth = count // 10
        self.seconds["small_merge"] = statistics.median(taken)
        self.seconds["small_merge_first_tenth"] = statistics.median(taken[:tenth])
        self.seconds["small_merge_last_tenth"] = statistics.median(taken[-tenth:])
        self._look("merged")
