"""The partition keys that a merge ties to its source, by its text."""

import pytest

from hiveacid.jobs.sources import TableSource
from hiveacid.jobs.write_jobs import MergeJob
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.plan.merge import MergeChange
from hiveacid.plan.ties import (
    compared_columns,
    equalities,
    equals_one_partition,
    tells_partitions,
    ties_of,
)
from hiveacid.rules.merge import Clause, MatchedDelete, MatchedUpdate, NotMatchedInsert
from hiveacid.rules.names import TableRef

TABLE = HiveTable.new(
    TableRef("db", "t"),
    [HiveColumn("id", "int"), HiveColumn("v", "binary")],
    partition_keys=[HiveColumn("day", "date")],
)
SOURCE = {"id": "int", "day": "date", "t": "struct<day:date>", "a": "struct<day:date>"}


def change_of(on: str, *when: Clause, known: bool = True) -> MergeChange:
    job = MergeJob(target="db.t", source=TableSource("db.s"), on=on, when=when)
    return MergeChange.of(job, TABLE, [*SOURCE] if known else None)


@pytest.mark.parametrize(
    ("condition", "sides"),
    [
        ("t.a = s.a", [("t.a", "s.a")]),
        ("t.a == s.a AND t.b = s.b", [("t.a", "s.a"), ("t.b", "s.b")]),
        ("((t.a = s.a) AND (t.b = s.b AND t.c > 1))", [("t.a", "s.a"), ("t.b", "s.b")]),
        ("(t.a) = (s.a + 1)", [("(t.a)", "(s.a + 1)")]),
        ("t.a = s.a OR t.b = s.b", []),
        ("t.c = 1 OR t.a = s.a AND t.b = s.b", []),
        ("(t.c = 1 OR t.a = s.a) AND t.b = s.b", [("t.b", "s.b")]),
        ("NOT t.a = s.a AND t.b = s.b", [("t.b", "s.b")]),
        ("t.c BETWEEN s.a AND s.b AND t.b = s.b", [("t.b", "s.b")]),
        ("t.c BETWEEN s.a = s.d AND s.b", []),
        ("t.a = s.a = t.b", []),
        ("t.a <=> s.a", []),
        ("t.a = s.a IS NULL", []),
        ("t.a = s.a IN (true)", []),
        (
            "CASE WHEN t.a = s.a AND true THEN 1 END = s.b",
            [("CASE WHEN t.a = s.a AND true THEN 1 END", "s.b")],
        ),
        ("t.a = f(s.a, s.b = 1) -- a comment = 1", [("t.a", "f(s.a, s.b = 1)")]),
        ("t.a = 's.a = 1 AND'", [("t.a", "'s.a = 1 AND'")]),
        ("t.`a = b` = s.`AND`", [("t.`a = b`", "s.`AND`")]),
        ("t.a =", []),
        ("= s.a", []),
        ("t.a = 'open", []),
        ("", []),
        ("(" * 2000 + "t.a = s.a" + ")" * 2000, [("t.a", "s.a")]),
        (" AND ".join(["t.a = s.a"] * 3000), [("t.a", "s.a")] * 3000),
    ],
)
def test_the_sides_of_equalities_that_and_connects(
    condition: str, sides: list[tuple[str, str]]
) -> None:
    assert [*equalities(condition)] == sides


@pytest.mark.parametrize(
    ("on", "value", "tie"),
    [
        ("t.day = s.day", "s.day", "s.day"),
        ("(T.`Day`) = (s.day)", "( s.DAY )", "(s.day)"),
        ("t.day = s.day", "t.day", "s.day"),
        ("t.day = s.day AND t.id >>> 2 = 1", "s.day", "s.day"),
        ("t.day = s.day AND t.v = X 'F0'", "s.day", "s.day"),
        ("t.day = s.day AND t.day = s.id", "s.day", "s.day"),
        ("t.day = to_date(s.id)", "to_date(s.id)", "to_date(s.id)"),
        ("t.day = to_date(s.id)", "to_date(s.id, 'y')", None),
        ("t.day = s.day AND t.id >>>> 2 = 1", "s.day", "s.day"),
        ("t.day = s.day", "a >>>> 2", None),
        ("t.day = s.a.day", "s.a.day", "s.a.day"),
        ("t.a.day = s.day", "s.day", None),
        ("t.day = s.t.day", "s.day", None),
        ("t.day = s", "s", None),
        ("t.day = t.id", "s.day", None),
        ("t.day = (SELECT max(day) FROM s)", "s.day", None),
        ("t.day = day", "s.day", None),
    ],
)
def test_a_key_is_tied_if_each_clause_writes_the_value_that_it_equals(
    on: str, value: str, tie: str | None
) -> None:
    change = change_of(on, NotMatchedInsert({"day": value}))
    tied = None if tie is None else {"day": tie}
    if value == "t.day":
        change = change_of(on, MatchedUpdate({"day": value}))
    assert ties_of(change) == tied


def test_only_an_engine_knows_the_type_of_a_field_or_of_a_call() -> None:
    for value, told in (("s.day", True), ("a.day", None), ("s.a.day", None), ("f(s.id)", None)):
        change = change_of(f"t.day = {value}", MatchedDelete())
        assert tells_partitions(change, SOURCE) is told


def test_only_an_engine_knows_the_side_of_a_name_without_an_alias() -> None:
    assert tells_partitions(change_of("day = s.day", MatchedDelete(), known=False), None) is None
    assert tells_partitions(change_of("t.id = s.id", MatchedDelete(), known=False), None) is False


@pytest.mark.parametrize(
    ("given", "key", "one"),
    [
        ("int", "int", True),
        ("bigint", "int", True),
        ("string", "int", True),
        ("date", "date", True),
        ("varchar(3)", "string", True),
        ("string", "char(3)", True),
        ("int", "string", False),
        ("int", "varchar(3)", False),
        ("date", "string", False),
        ("double", "int", False),
        ("double", "double", False),
        ("float", "double", False),
        ("int", "float", False),
    ],
)
def test_the_types_whose_values_equal_one_partition(given: str, key: str, one: bool) -> None:
    assert equals_one_partition(given, key) is one


@pytest.mark.parametrize(
    ("on", "names"),
    [
        ("t.id = s.id", ["id"]),
        ("s.day = T.DAY AND t.id + 1 = s.n", ["id", "day"]),
        ("day = s.day", ["day"]),
        ("s.id = 1", []),
        ("t.id >>>> 2 = s.id", ["id", "v", "day"]),
    ],
)
def test_rows_are_shown_by_the_columns_that_on_names(on: str, names: list[str]) -> None:
    change = MergeChange(TABLE, on, "t", "s", ["id", "n"], [], [], [])
    assert compared_columns(change) == names
