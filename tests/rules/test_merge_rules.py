import pytest

from hiveacid.errors import InvalidJob
from hiveacid.rules.merge import (
    MatchedDelete,
    MatchedUpdate,
    MergePlan,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
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


def test_clauses_keep_their_order_within_their_kind():
    first, second = MatchedDelete("a"), MatchedUpdate(None, "b")
    plan = MergePlan.of([first, INSERT, second, EXPIRE])
    assert plan.matched == (first, second)
    assert plan.not_matched == (INSERT,)
    assert plan.not_matched_by_source == (EXPIRE,)


@pytest.mark.parametrize(
    ("when", "inserts"),
    [
        ([UPDATE], True),
        ([DELETE], False),
        ([INSERT], True),
        ([EXPIRE], False),
        ([NotMatchedBySourceUpdate({"a": "1"})], True),
    ],
)
def test_possible_results_of_a_merge(when, inserts):
    assert MergePlan.of(when).inserts_rows is inserts
