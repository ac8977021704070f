"""The fields of a file that the columns of its table are mapped to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.rules.schema import ColumnMapping, MappedColumns

POSITION, NAME = ColumnMapping
# Columns of the table, names in the file, and the columns found by position and by name.
CASES = {
    "same": ("a b c", "a b c", (0, 1, 2), (0, 1, 2)),
    "other case": ("a b c", "A B C", (0, 1, 2), (0, 1, 2)),
    "added": ("a b c", "a b", (0, 1, None), (0, 1, None)),
    "last dropped": ("a b", "a b c", (0, 1), (0, 1)),
    "renamed": ("a x c", "a b c", (0, 1, 2), (0, None, 2)),
    "swapped": ("a c b", "a b c", (0, 1, 2), (0, 2, 1)),
    "dropped": ("a c", "a b c", (0, 1), (0, 2)),
    "unnamed": ("a b c", "_col0 _col1", (0, 1, None), (0, 1, None)),
    "names that differ in case": ("a b", "B b", (0, 1), (None, 0)),
}


@pytest.mark.parametrize("case", CASES)
def test_columns_are_found_by_position_or_by_name(case):
    columns, stored, by_position, by_name = CASES[case]
    names = tuple(columns.split())
    assert MappedColumns(names, POSITION).fields(stored.split()) == by_position
    assert MappedColumns(names, NAME).fields(stored.split()) == by_name
    ambiguous = MappedColumns(names, NAME).is_ambiguous(stored.split())
    assert ambiguous is (by_position != by_name)


name = st.sampled_from(["a", "A", "b", "B", "c", "d", "_col0", "_col1"])
columns = st.lists(name, max_size=5, unique_by=str.lower).map(
    lambda names: [n.lower() for n in names]
)


@given(columns=columns, stored=st.lists(name, max_size=5), mapping=st.sampled_from(ColumnMapping))
def test_names_by_which_a_lookup_by_name_finds_the_mapped_fields(columns, stored, mapping):
    mapped = MappedColumns(tuple(columns), mapping)
    renamed = mapped.renamed(stored)
    assert len(renamed) == len(stored)
    for column, field in zip(columns, mapped.fields(stored), strict=True):
        places = [n for n, own in enumerate(renamed) if own.lower() == column]
        assert places == ([] if field is None else [field])
