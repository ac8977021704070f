"""The row ids of delete events, found in the driver."""

from random import Random

import numpy as np
import pytest

from hiveacid.tables import visible_files as delete_events
from hiveacid.tables.visible_files import are_in

LARGE = 2**62


def parts(ids: list[tuple[int, ...]]) -> list[np.ndarray]:
    return list(np.array(ids, np.int64).reshape(len(ids), 4).T)


@pytest.mark.parametrize("longest", [LARGE, 50, 1])
@pytest.mark.parametrize("widest", [2**40, 1])
@pytest.mark.parametrize("seed", range(20))
def test_only_the_very_row_id_counts(monkeypatch, longest, widest, seed):
    monkeypatch.setattr(delete_events, "_LONGEST_CODE", longest)
    monkeypatch.setattr(delete_events, "_WIDEST_PART", widest)
    random = Random(seed)

    def some(count: int) -> list[tuple[int, ...]]:
        values = [(1, 2, 7, LARGE, -(2**63)), (536870912, 536936448, -3), range(12), (0, 1, 2)]
        return [tuple(random.choice(part) for part in values) for _ in range(count)]

    gone, given = some(random.choice([0, 1, 60])), some(random.choice([0, 1, 300]))
    assert are_in(parts(gone), parts(given)).tolist() == [row in set(gone) for row in given]
