"""Cost of reading the changes of the last transaction."""

from typing import ClassVar

from course import ChangingCourse, every_value
from engines import ChangeTellingEngine
from lineitem import TYPES


class ChangeFeed(ChangingCourse):
    """The changes of one row in a hundred: by the engine's change feed, and by comparing two
    versions."""

    name: ClassVar[str] = "changes"
    kind = ChangeTellingEngine
    engine: ChangeTellingEngine

    def _go(self) -> None:
        self.engine.tell_changes()
        self.engine.append(self.batches.all)
        before = self.engine.version()
        rows = self.batches.rows // 100
        self.engine.upsert(self.batches.kept("hundredth", self.batches.mixed(rows, seed=11)))
        # The first one pays for Java's compilation.
        for _ in range(2):
            self._time("changes", lambda: every_value(self.engine.changes(before)))
        changed = self.engine.changes(before).select(*TYPES)
        compared = self.engine.compared(before).select(*TYPES)
        self._time("compare", lambda: every_value(compared))
        # An update is a row before it and one after it to all of them.
        for moment, frame in (("told", changed), ("compared", compared)):
            row = frame.selectExpr(
                "count(*) AS rows", f"bit_xor(xxhash64({', '.join(TYPES)})) AS hash"
            ).collect()[0]
            self.shown[moment] = row.rows, row.hash
        if self.shown["told"] != self.shown["compared"]:
            raise RuntimeError(f"{self.engine.name} reports wrong changes: {self.shown}.")
