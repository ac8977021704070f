import pytest

from hiveacid.errors import InvalidJob
from hiveacid.rules.merge import (
    MatchedDelete,
    MatchedUpdate,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
    columns_taken,
    depends_on_new_rows,
    validate_clauses,
)

UPDATE, DELETE, INSERT = MatchedUpdate(), MatchedDelete(), NotMatchedInsert()
EXPIRE = NotMatchedBySourceDelete()


@pytest.mark.parametrize(
    "when",
    [
        [UPDATE],
        [MatchedDelete("s.gone"), UPDATE, INSERT],
        [INSERT, MatchedUpdate({"a": "1"}, "s.x"), EXPIRE, DELETE],
        [NotMatchedInsert(None, "s.a"), NotMatchedInsert({"a": "s.a"}), UPDATE],
        [NotMatchedBySourceUpdate({"a": "0"}, "t.b"), EXPIRE],
    ],
)
def test_lawful_clauses(when):
    validate_clauses(when)


@pytest.mark.parametrize(
    ("when", "message"),
    [
        ([], "at least one clause"),
        ([UPDATE, DELETE], r"when\[1\] \(MatchedDelete\) can never be reached: when\[0\]"),
        ([INSERT, UPDATE, NotMatchedInsert(None, "s.a")], r"when\[2\].*never.*when\[0\]"),
        ([EXPIRE, NotMatchedBySourceUpdate({"a": "0"})], "never be reached"),
        ([MatchedDelete(" ")], "the condition is empty"),
        ([MatchedUpdate({})], "names no column"),
        ([NotMatchedInsert({})], "names no column"),
        ([MatchedUpdate({"a": "1", "A": "2"})], "names the column 'A' twice"),
        ([MatchedUpdate({"a": ""})], "expression of the column 'a' is empty"),
        ([MatchedUpdate({" ": "1"})], "without a name"),
        (["delete"], "not a clause"),
    ],
)
def test_unlawful_clauses(when, message):
    with pytest.raises(InvalidJob, match=message):
        validate_clauses(when)


@pytest.mark.parametrize(
    ("when", "taken"),
    [
        ([UPDATE], None),
        ([DELETE, EXPIRE], set()),
        ([MatchedUpdate({"`A`": "1"}), NotMatchedInsert(row=["s.a"])], {"a"}),
        ([NotMatchedInsert({"B": "1"}), NotMatchedBySourceUpdate({"c": "1"})], {"b", "c"}),
        ([MatchedUpdate({"a": "1"}), INSERT], None),
    ],
)
def test_the_columns_that_clauses_take(when, taken):
    assert columns_taken(when) == taken


@pytest.mark.parametrize(
    ("when", "depends"),
    [([UPDATE, DELETE], False), ([UPDATE, INSERT], True), ([EXPIRE], True)],
)
def test_more_rows_in_the_target_matter_to_inserts_and_to_rows_without_a_source(when, depends):
    assert depends_on_new_rows(when) is depends
