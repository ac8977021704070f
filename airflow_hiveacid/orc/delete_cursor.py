"""Delete events and rows, both in the order of their row ids, walked through side by side."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from airflow_hiveacid.acid.row_id import RowId
from airflow_hiveacid.orc.key_stream import KeySet, position_behind
from airflow_hiveacid.orc.keys import Keys


class DeleteCursor:
    """Tells which rows are deleted. It must be asked in the order of the row ids.

    However many events there are, no more than a batch of them is held.
    """

    def __init__(self, deletes: Iterable[Keys]) -> None:
        self._batches = (keys for keys in deletes if len(keys))
        self._events = next(self._batches, None)

    def reaches(self, first: RowId, last: RowId) -> bool:
        """Whether an event names a row within a range, be it there or not."""
        before_first = first._replace(row=first.row - 1)
        while self._events is not None:
            passed = position_behind(self._events, before_first)
            if passed < len(self._events):
                self._events = self._events[passed:]
                return self._events.row_id(0) <= last
            self._events = next(self._batches, None)
        return False

    def hits(self, keys: Keys) -> NDArray[np.bool_]:
        """For each of some ascending rows whether an event names it."""
        first, last = keys.row_id(0), keys.row_id(-1)
        hit = np.zeros(len(keys), dtype=np.bool_)
        while self._events is not None and self.reaches(first, last):
            upto = position_behind(self._events, last)
            hit |= KeySet(self._events[:upto]).contains(keys)
            if upto < len(self._events):
                break
            self._events = next(self._batches, None)
        return hit
