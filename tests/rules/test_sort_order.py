"""Columns to sort by, as jobs and Hive's ORDER BY write them."""

import pytest

from hiveacid.errors import InvalidJob
from hiveacid.rules.schema import SortColumn, split_order_by


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("day", SortColumn("day")),
        (" ts  Desc ", SortColumn("ts", True)),
        ("ts asc nulls first", SortColumn("ts", False, False)),
        ("ts nulls LAST", SortColumn("ts", False, True)),
        ("my column desc", SortColumn("my column", True)),
        ("`a desc`", SortColumn("a desc")),
        ("`a``b` desc", SortColumn("a`b", True)),
        ("desc", SortColumn("desc")),
    ],
)
def test_a_column(text, column):
    assert SortColumn.parse(text) == column
    assert SortColumn.parse(str(column)) == column


@pytest.mark.parametrize("text", ["", "  "])
def test_no_column(text):
    with pytest.raises(InvalidJob, match="names no column"):
        SortColumn.parse(text)


@pytest.mark.parametrize(
    ("clause", "columns"),
    [
        ("", ()),
        ("order by name desc", ("name desc",)),
        ("ORDER  BY `a, b` nulls first,\n c", ("`a, b` nulls first", "c")),
        ("a", ("a",)),
    ],
)
def test_a_clause(clause, columns):
    assert split_order_by(clause) == columns


@pytest.mark.parametrize(
    "clause", ["order by", "order by a,", "a,,b", "lower(a)", "a + 1", "t.a", "`a", "1; drop", "a,"]
)
def test_a_clause_that_is_no_list_of_columns(clause):
    with pytest.raises(InvalidJob):
        split_order_by(clause)
