"""The works of a warehouse, one after the other: append, merge, delete, read, compact."""

from functools import partial
from typing import ClassVar

from course import READS, Course
from engines import ChangingEngine


class Works(Course):
    """One table from its first rows to its compaction."""

    name: ClassVar[str] = "works"

    def _go(self) -> None:
        self._time("append", partial(self.engine.append, self.batches.all))
        if self.engine.does("append"):
            self.figures["megabytes"] = self.engine.megabytes()
        self._read("")
        self._look("appended")
        if isinstance(self.engine, ChangingEngine):
            self._change(self.engine)
        else:
            # Flat files cannot be changed: the others are compared with reading all rows.
            self.seconds |= {f"{read}_after": self.seconds[read] for read in READS}

    def _change(self, engine: ChangingEngine) -> None:
        self._time("merge_spread", partial(engine.upsert, self.batches.spread))
        self._time("merge_neighbours", partial(engine.upsert, self.batches.neighbours))
        self._time("delete", partial(engine.delete, self.batches.listed))
        self._read("", "_after")
        self._look("changed")
        self._time("compact", engine.compact)
        self._look("compacted")
