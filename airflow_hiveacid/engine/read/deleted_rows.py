"""Delete events in the driver, for callers that fetch few row ids and compare them there.

Otherwise all tasks receive all events and look up every row they read. If only the rows found by a
merge are of interest, comparing them afterwards takes milliseconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from airflow_hiveacid.engine.read.acid_snapshot import KEY, TOUCHED, AcidSnapshot
from airflow_hiveacid.engine.read.delete_events import MOST_EVENTS, Ids, read_events

# Numbers up to the first limit, multiplied by the number of events, are below the second.
_WIDEST_PART, _LONGEST_CODE = 1 << 40, 1 << 62


@dataclass(frozen=True)
class DeletedRows:
    """Row ids in delete events.

    Attributes:
        parts: Their parts, in the order of KEY.
    """

    parts: tuple[Ids, ...]

    @classmethod
    def of(cls, snapshot: AcidSnapshot) -> "DeletedRows | None":
        """The deleted rows of a snapshot; None if they are many, or not the same for all files."""
        deletes = snapshot.deletes()
        if deletes is None:
            return None
        if (
            sum(tail.rows for tail in snapshot.tails.of([file for _, file in deletes]))
            > MOST_EVENTS
        ):
            return None
        return cls(read_events(deletes, snapshot.write_ids))

    def among(self, rows: pa.Table) -> NDArray[np.bool_]:
        """Return a mask of the deleted rows.

        Args:
            rows: KEY and TOUCHED.
        """
        touched = np.asarray(rows[TOUCHED])
        theirs = [np.asarray(rows[name]).astype(np.int64)[touched] for name in KEY]
        deleted = np.zeros(len(touched), bool)
        deleted[touched] = are_in(self.parts, theirs)
        return deleted


def are_in(known: Sequence[Ids], given: Sequence[Ids]) -> NDArray[np.bool_]:
    """Return a mask of the given row ids that are known.

    Args:
        known: The parts of the known row ids.
        given: The same parts of the row ids to look up.
    """
    possible = np.full(len(given[0]), len(known[0]) > 0)
    if not len(known[0]):
        return possible
    codes, wanted, count = np.zeros(len(known[0]), np.int64), np.zeros(len(given[0]), np.int64), 1
    for ours, theirs in zip(known, given, strict=True):
        first, last = int(ours.min()), int(ours.max())
        if last - first < _WIDEST_PART:
            width, parts, others = last - first + 1, ours - first, theirs - first
            possible &= (theirs >= first) & (theirs <= last)
        else:
            parts, others, is_value, width = _densely(ours, theirs)
            possible &= is_value
        if count * width > _LONGEST_CODE:
            codes, wanted, is_code, count = _densely(codes, wanted)
            possible &= is_code
        codes, wanted = codes * width + parts, wanted * width + others
        count *= width
    _, is_known = _places(np.sort(codes), wanted)
    return possible & is_known


def _densely(ours: Ids, theirs: Ids) -> tuple[Ids, Ids, NDArray[np.bool_], int]:
    """Map values to consecutive numbers; also return the mask of known values and their count."""
    values, numbers = np.unique(ours, return_inverse=True)
    at, is_value = _places(values, theirs)
    return numbers, at, is_value, len(values)


def _places(values: Ids, wanted: Ids) -> tuple[Ids, NDArray[np.bool_]]:
    """The positions of numbers in a sorted array, and the mask of numbers that are present."""
    at = np.minimum(np.searchsorted(values, wanted), len(values) - 1)
    return at, values[at] == wanted
