"""Comparisons of partition keys, as Hive evaluates them."""

import pytest

from hiveacid.errors import UserError
from hiveacid.rules.partitions import (
    KeyComparison,
    matching_partitions,
    values_of_partition,
)

KEYS = {"day": "date", "n": "int", "city": "string", "price": "decimal(5,2)", "ok": "boolean"}


def partition(**values: str | None) -> dict[str, str | None]:
    return {"day": None, "n": None, "city": None, "price": None, "ok": None, **values}


PARTITIONS = {
    "a": partition(day="2025-12-31", n="9", city="x", price="9.5", ok="true"),
    "b": partition(day="2026-01-01", n="10", city="X", price="10.00", ok="false"),
    "null": partition(),
}


def matches(key: str, operator: str, value: str | None, *, is_number: bool = False) -> list[str]:
    comparison = KeyComparison(key, value, operator, is_number)
    (found,) = matching_partitions([[comparison]], KEYS, PARTITIONS)
    return found


@pytest.mark.parametrize(
    ("key", "operator", "value", "expected"),
    [
        ("day", "<", "2026-01-01", ["a"]),
        ("DAY", "<=", "2026-01-01", ["a", "b"]),
        ("n", "<", "10", ["a"]),
        ("n", "=", "010", ["b"]),
        ("n", "!=", "10", ["a"]),
        ("city", "=", "x", ["a"]),
        ("city", ">", "X", ["a"]),
        ("price", ">=", "10", ["b"]),
        ("price", "=", "9.50", ["a"]),
        ("ok", "=", "TRUE", ["a"]),
        ("n", "=", None, ["null"]),
        ("n", "!=", None, ["a", "b"]),
    ],
)
def test_values_compare_by_the_type_of_their_key(
    key: str, operator: str, value: str | None, expected: list[str]
) -> None:
    assert matches(key, operator, value) == expected


def test_a_clause_is_met_by_partitions_that_meet_all_of_its_comparisons() -> None:
    early, small = KeyComparison("day", "2026-06-01", "<"), KeyComparison("n", "10", "<")
    assert matching_partitions([[early, small], [early]], KEYS, PARTITIONS) == [["a"], ["a", "b"]]


@pytest.mark.parametrize(
    ("key", "operator", "value", "is_number", "message"),
    [
        ("dayy", "=", "2026-01-01", False, "dayy is not a partition key. Did you mean day"),
        ("day", "<", "20260101", True, "'20260101' is not a value of the partition key day"),
        ("day", "<", "2026-1-1", False, "is not a value of the partition key day"),
        ("n", "=", "1_0", False, "'1_0' is not a value of the partition key n, which is a int"),
        ("city", "<", "10", True, "city is a text, and a number is not"),
        ("ok", "=", "yes", False, "is not a value"),
        ("n", "<", None, False, "n < NULL is never true"),
    ],
)
def test_a_value_that_could_be_read_in_two_ways_is_refused(
    key: str, operator: str, value: str | None, is_number: bool, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        matches(key, operator, value, is_number=is_number)


# Values that engines read differently, or as null.
UNCERTAIN = [
    ("int", "x"),
    ("int", "5.0"),
    ("tinyint", "300"),
    ("decimal(5,2)", "NaN"),
    ("decimal(5,2)", "1_0"),
    ("date", "2026-1-1"),
]


@pytest.mark.parametrize(("type_", "text"), UNCERTAIN)
def test_a_value_that_is_not_plainly_written_equals_only_its_own_text(
    type_: str, text: str
) -> None:
    good = "2026-01-01" if type_ == "date" else "5"
    keys, stored = {"k": type_}, {"good": {"k": good}, "bad": {"k": text}}
    for value, expected in ((good, ["good"]), (text, ["bad"])):
        assert matching_partitions([[KeyComparison("k", value)]], keys, stored) == [expected]
    # The partition may be in the range or not.
    for operator in ("!=", "<", ">="):
        with pytest.raises(UserError, match=f"'{text}' is not a value of the partition key k"):
            matching_partitions([[KeyComparison("k", good, operator)]], keys, stored)


def test_an_invalid_value_that_no_partition_has_is_an_error_unless_it_may_be_missing() -> None:
    clauses, stored = [[KeyComparison("n", "y")]], {"good": partition(n="5")}
    with pytest.raises(UserError, match="'y' is not a value of the partition key n"):
        matching_partitions(clauses, KEYS, stored)
    assert matching_partitions(clauses, KEYS, stored, lenient=True) == [[]]
    with pytest.raises(UserError, match="'y' is not a value of the partition key n"):
        matching_partitions([[KeyComparison("n", "y", "<")]], KEYS, stored, lenient=True)


@pytest.mark.parametrize("type_", ["binary", "timestamp with local time zone"])
def test_values_of_a_type_without_comparison_are_equal_by_their_texts(type_: str) -> None:
    stored = {"a": {"k": "1"}, "b": {"k": "2"}}
    assert matching_partitions([[KeyComparison("k", "2")]], {"k": type_}, stored) == [["b"]]
    with pytest.raises(UserError, match="is not a value of the partition key k"):
        matching_partitions([[KeyComparison("k", "2", "<")]], {"k": type_}, stored)


def test_a_new_partition_has_the_names_that_engines_give_its_values() -> None:
    clause = [KeyComparison("N", "007", is_number=True), KeyComparison("day", "2026-01-01")]
    assert values_of_partition(clause, {"day": "date", "n": "int"}) == ("2026-01-01", "7")
    assert values_of_partition([KeyComparison("city", None)], {"city": "string"}) == (None,)


@pytest.mark.parametrize(
    ("clause", "message"),
    [
        ([KeyComparison("n", "1", "<")], "not by n < '1'"),
        ([], "The value of the partition key n is missing"),
        ([KeyComparison("n", "1"), KeyComparison("N", "2")], "names a partition key twice"),
        ([KeyComparison("m", "1")], "m is not a partition key"),
    ],
)
def test_a_new_partition_needs_one_value_of_each_key(clause, message: str) -> None:
    with pytest.raises(UserError, match=message):
        values_of_partition(clause, {"n": "int"})
