"""Row ids are found among others, and two files share a row only where their ranges meet."""

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.orc.row_keys import row_id_set
from hiveacid.orc.row_keys.row_id_set import KeyRange, RowIds, RowIdSet, contained

KEYS = st.lists(st.tuples(*[st.integers(-3, 3)] * 3), max_size=4)
NUMBERS = st.one_of(st.integers(0, 3), st.integers(-(1 << 63), (1 << 63) - 1))
IDS = st.lists(
    st.tuples(NUMBERS, st.sampled_from([-5, 536870912, 536870913]), NUMBERS), max_size=40
)

Ids = Sequence[tuple[int, ...]]


def row_ids(ids: Ids) -> RowIds:
    return RowIds(*np.array(ids, np.int64).reshape(len(ids), 3).T)


def range_of(keys: Ids) -> KeyRange:
    total = KeyRange(0)
    for key in keys:
        total = total.joined(KeyRange(1, *[(part, part) for part in key]))
    return total


@given(KEYS, KEYS)
def test_files_with_a_common_row_may_share_one(one, other):
    shared = range_of(one).may_share(range_of(other))
    assert shared == range_of(other).may_share(range_of(one))
    if set(one) & set(other):
        assert shared
    for part in range(3):
        if max((k[part] for k in one), default=-9) < min((k[part] for k in other), default=9):
            assert not shared


@given(KEYS, KEYS)
def test_the_range_of_two_files_holds_the_rows_of_both(one, other):
    both = range_of(one).joined(range_of(other))
    assert both == range_of([*one, *other]) == KeyRange.of_ids(row_ids([*one, *other]))
    assert both.rows == len(one) + len(other)
    assert all(both.may_share(range_of([key])) for key in [*one, *other])


@given(parts=st.lists(IDS, max_size=3), others=IDS)
def test_a_set_contains_its_row_ids_and_no_other(parts, others):
    members = [key for part in parts for key in part]
    asked = others + members[:9]
    row_id_set = RowIdSet(map(row_ids, parts))
    assert len(row_id_set) == len(members)
    assert row_id_set.contains(row_ids(asked)).tolist() == [key in members for key in asked]
    several = [RowIdSet([row_ids(part)]) for part in parts]
    assert contained(row_ids(asked), several).tolist() == [key in members for key in asked]


@pytest.mark.parametrize("rows_of_a_run", [0, 1 << 20])
@pytest.mark.parametrize("seed", range(20))
def test_long_and_short_runs_are_looked_up_alike(monkeypatch, rows_of_a_run, seed):
    monkeypatch.setattr(row_id_set, "_ROWS_OF_A_RUN", rows_of_a_run)
    random = Random(seed)

    def some(count: int) -> list[tuple[int, ...]]:
        values = [(1, 2, 7, 2**62, -(2**63)), (536870912, 536936448, -3), range(12)]
        ids = [tuple(random.choice(part) for part in values) for _ in range(count)]
        return sorted(set(ids)) if random.random() < 0.5 else ids

    members, asked = some(random.choice([0, 1, 60])), some(random.choice([0, 1, 300]))
    mask = RowIdSet([row_ids(members)]).contains(row_ids(asked))
    assert mask.tolist() == [key in set(members) for key in asked]


@given(members=IDS, low=st.tuples(*[NUMBERS] * 3), high=st.tuples(*[NUMBERS] * 3))
def test_a_range_with_a_member_may_share_one(members, low, high):
    bounds = [(min(ends), max(ends)) for ends in zip(low, high, strict=True)]
    inside = [
        key
        for key in members
        if all(low <= part <= high for part, (low, high) in zip(key, bounds, strict=True))
    ]
    assert RowIdSet([row_ids(members)]).may_share(KeyRange(1, *bounds)) == bool(inside)
