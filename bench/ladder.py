"""Cost of reading in each shape of a table, from flat files to deltas with deletes.

The shapes are those of usual comparisons of readers of Hive's transactional tables.
"""

from typing import ClassVar

from course import READS, Course
from engines import ChangingEngine

SHAPES = ("base", "deletes", "deltas", "deltas_deletes", "compacted")
DELTAS = 8


class Ladder(Course):
    """Read a table in each of the shapes; flat files have but one, which all compare with."""

    name: ClassVar[str] = "ladder"

    def _go(self) -> None:
        if isinstance(self.engine, ChangingEngine):
            self._climb(self.engine)
        else:
            self.engine.append(self.batches.all)
            self._rung("base")
            for shape in SHAPES[1:]:
                for read in READS:
                    seconds = self.seconds[f"ladder_base_{read}"]
                    self.seconds[f"ladder_{shape}_{read}"] = seconds

    def _climb(self, engine: ChangingEngine) -> None:
        engine.append(self.batches.all)
        engine.compact()
        self._rung("base")
        engine.delete(self.batches.listed)
        self._rung("deletes")
        engine.drop()
        engine.create(f"{self.table}_deltas")
        step = self.batches.rows // DELTAS
        for first in range(0, self.batches.rows, step):
            engine.append(self.batches.some(first, step))
        self._rung("deltas")
        engine.delete(self.batches.listed)
        self._rung("deltas_deletes")
        engine.compact()
        self._rung("compacted")

    def _rung(self, shape: str) -> None:
        self._read(f"ladder_{shape}_")
        self._look(shape)
