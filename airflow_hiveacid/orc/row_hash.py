"""A hash of each row id, and a set of them."""

import numpy as np
from numpy.typing import NDArray

from airflow_hiveacid.acid.proof import Tally
from airflow_hiveacid.orc.keys import Keys
from airflow_hiveacid.orc.streams import Integers

Hashes = NDArray[np.uint64]

# So many places for each hash of a set, and at most so many in all.
_PLACES, _MOST_PLACES = 16, 1 << 24
_START = np.uint64(0x9E3779B97F4A7C15)


def hash_row_ids(keys: Keys) -> Hashes:
    """A number for each row id; no two that are likely to meet have the same one."""
    hashes = np.full(1, _START)
    for part in keys.row_ids():
        hashes = _mixed(hashes + _distinct(part))
    return np.broadcast_to(hashes, len(keys))


def tally(keys: Keys, row_hashes: Hashes) -> Tally:
    """Count rows, and sum up what they are: their row ids, and who wrote them.

    Args:
        keys: The key columns of the rows.
        row_hashes: The hashes of their row ids.
    """
    hashes = _mixed(row_hashes + _mixed(_distinct(keys.current_write_ids)))
    return Tally(len(keys), int(hashes.sum(dtype=np.uint64)))


class HashSet:
    """Hashes to look others up in."""

    def __init__(self, hashes: Hashes) -> None:
        self._sorted = np.unique(hashes)
        places = min(1 << (len(self._sorted) * _PLACES).bit_length(), _MOST_PLACES)
        # Most of what is looked up is not there, and one byte of many tells.
        self._mask = np.uint64(places - 1)
        self._seen = np.zeros(places, dtype=np.bool_)
        self._seen[self._sorted & self._mask] = True

    def contains(self, hashes: Hashes) -> NDArray[np.bool_]:
        """For each hash whether it is in the set."""
        found: NDArray[np.bool_] = self._seen[hashes & self._mask]
        if found.any():
            suspects = hashes[found]
            places = np.minimum(np.searchsorted(self._sorted, suspects), len(self._sorted) - 1)
            found[found] = self._sorted[places] == suspects
        return found


def _distinct(values: Integers) -> Hashes:
    """The values; of many equal ones just one."""
    if len(values) and values[0] == values[-1] and (values == values[0]).all():
        values = values[:1]
    return values.astype(np.uint64)


def _mixed(values: Hashes) -> Hashes:
    """Let each bit of the result depend on each bit of the value."""
    mixed = values ^ (values >> np.uint64(30))
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed
