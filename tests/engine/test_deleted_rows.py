"""The row ids of delete events, found in the driver."""

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from airflow_hiveacid.engine.read import deleted_rows
from airflow_hiveacid.engine.read.acid_snapshot import KEY, TOUCHED
from airflow_hiveacid.engine.read.deleted_rows import DeletedRows

LARGE = 2**62


def rows(ids: list[tuple[int, ...]], touched: list[bool]) -> pa.Table:
    columns = list(zip(*ids, strict=True)) or [()] * len(KEY)
    arrays = [pa.array(column, pa.int64()) for column in columns]
    return pa.table({**dict(zip(KEY, arrays, strict=True)), TOUCHED: pa.array(touched, pa.bool_())})


def events(ids: list[tuple[int, ...]]) -> DeletedRows:
    columns = np.array(ids, np.int64).reshape(len(ids), len(KEY)).T
    return DeletedRows(tuple(columns))


@pytest.mark.parametrize("longest", [LARGE, 50, 1])
@pytest.mark.parametrize("widest", [2**40, 1])
@pytest.mark.parametrize("seed", range(20))
def test_only_the_very_row_id_counts(monkeypatch, longest, widest, seed):
    monkeypatch.setattr(deleted_rows, "_LONGEST_CODE", longest)
    monkeypatch.setattr(deleted_rows, "_WIDEST_PART", widest)
    random = Random(seed)

    def some(count: int) -> list[tuple[int, ...]]:
        parts = [(1, 2, 7, LARGE, -(2**63)), (536870912, 536936448, -3), range(12), (0, 1, 2)]
        return [tuple(random.choice(part) for part in parts) for _ in range(count)]

    gone, given = some(random.choice([0, 1, 60])), some(random.choice([0, 1, 300]))
    touched = [random.random() < 0.8 for _ in given]
    found = events(gone).among(rows(given, touched)).tolist()
    expected = [
        is_touched and row in set(gone) for row, is_touched in zip(given, touched, strict=True)
    ]
    assert found == expected
