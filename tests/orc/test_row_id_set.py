"""Ranges of row ids: two files share a row only where their ranges meet in every part."""

from hypothesis import given
from hypothesis import strategies as st

from hiveacid.tables.visible_files import KeyRange

KEYS = st.lists(st.tuples(*[st.integers(-3, 3)] * 3), max_size=4)


def range_of(keys: list[tuple[int, ...]]) -> KeyRange:
    known = KeyRange(0)
    for key in keys:
        known = known.joined(KeyRange(1, *[(part, part) for part in key]))
    return known


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
    assert both == range_of([*one, *other])
    assert both.rows == len(one) + len(other)
    assert all(both.may_share(range_of([key])) for key in [*one, *other])
