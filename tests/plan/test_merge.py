"""A merge whose names are resolved: the expression of each column, and its errors."""

import pytest

from hiveacid.errors import UnknownColumn
from hiveacid.jobs.sources import TableSource
from hiveacid.jobs.write_jobs import MergeJob
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.plan.merge import MergeChange
from hiveacid.rules.constraints import WriteRules
from hiveacid.rules.merge import (
    Clause,
    MatchedDelete,
    MatchedUpdate,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
)
from hiveacid.rules.names import TableRef

TABLE = HiveTable.new(
    TableRef("db", "t"),
    [HiveColumn("id", "int"), HiveColumn("v", "string")],
    partition_keys=[HiveColumn("k", "int")],
)
RULES = WriteRules("db.t", {}, (), {"v": "'none'"}.get)
ALL = ["id", "V", "k"]
BY_NAME = {"id": "`s`.`id`", "v": "`s`.`V`", "k": "`s`.`k`"}


def change_of(
    *when: Clause, source: list[str] | None = ALL, rules: WriteRules | None = RULES, **given: object
) -> MergeChange:
    job = MergeJob(target="db.t", source=TableSource("db.s"), on="t.id = s.id", when=when, **given)
    return MergeChange.of(job, TABLE, source, rules)


@pytest.mark.parametrize(
    ("clause", "values"),
    [
        (MatchedUpdate(), BY_NAME),
        (MatchedUpdate({"`V`": "s.v", "ID": "s.id + 1"}), {"v": "s.v", "id": "s.id + 1"}),
        (MatchedUpdate({"v": "default", "id": "DEFAULT"}), {"v": "'none'", "id": "NULL"}),
        (MatchedDelete(), None),
        (NotMatchedInsert(), BY_NAME),
        (NotMatchedInsert({"id": "s.id"}), {"id": "s.id", "v": "'none'", "k": "NULL"}),
        (NotMatchedInsert(row=["1", "DEFAULT", "2"]), {"id": "1", "v": "'none'", "k": "2"}),
        (NotMatchedBySourceUpdate({"V": "'gone'"}), {"v": "'gone'"}),
        (NotMatchedBySourceDelete(), None),
    ],
)
def test_each_clause_has_the_expression_of_each_column_that_it_writes(
    clause: Clause, values: dict[str, str] | None
) -> None:
    change = change_of(clause)
    (action,) = (*change.matched, *change.not_matched, *change.not_matched_by_source)
    assert action.values == values


def test_without_rules_a_default_value_is_null() -> None:
    (action,) = change_of(NotMatchedInsert({"id": "s.id"}), rules=None).not_matched
    assert action.values == {"id": "s.id", "v": "NULL", "k": "NULL"}


def test_an_excluded_column_is_kept_by_an_update_and_omitted_by_an_insert() -> None:
    source = [*ALL, "op"]
    change = change_of(MatchedUpdate(), NotMatchedInsert(), source=source, exclude=["op", "V"])
    assert change.matched[0].values == {"id": "`s`.`id`", "k": "`s`.`k`"}
    assert change.not_matched[0].values == {"id": "`s`.`id`", "v": "'none'", "k": "`s`.`k`"}
    assert change.kept_columns == {"v"}


def test_a_source_without_a_column_is_accepted_with_merge_schema_only() -> None:
    with pytest.raises(UnknownColumn, match="has no v"):
        change_of(MatchedUpdate(), source=["id", "k"])
    change = change_of(MatchedUpdate(), NotMatchedInsert(), source=["id", "k"], merge_schema=True)
    assert change.matched[0].values == {"id": "`s`.`id`", "k": "`s`.`k`"}
    assert change.not_matched[0].values == {"id": "`s`.`id`", "v": "'none'", "k": "`s`.`k`"}
    with pytest.raises(UnknownColumn, match="has no k"):
        change_of(MatchedUpdate(), source=["id", "v"], merge_schema=True)


@pytest.mark.parametrize(
    ("clause", "source", "message"),
    [
        (MatchedUpdate({"x": "1"}), ALL, "An update clause of the merge sets x"),
        (NotMatchedBySourceUpdate({"x": "1"}), ALL, "An update clause of the merge sets x"),
        (NotMatchedInsert({"x": "1"}), None, "An insert clause of the merge sets x"),
        (NotMatchedInsert(row=["1", "2"]), None, "has 2 values"),
        (NotMatchedInsert(), ["id"], "which has no v, k"),
        (MatchedDelete(), ["id", "v"], "excludes k"),
    ],
)
def test_unknown_columns_are_refused(
    clause: Clause, source: list[str] | None, message: str
) -> None:
    exclude = ["k"] if isinstance(clause, MatchedDelete) else []
    with pytest.raises(UnknownColumn, match=message):
        change_of(clause, source=source, exclude=exclude)


def test_of_an_unknown_source_each_column_is_expected() -> None:
    change = change_of(MatchedUpdate(), source=None, exclude=["V"])
    assert change.matched[0].values == {"id": "`s`.`id`", "k": "`s`.`k`"}


def test_clauses_keep_their_order_within_their_kind() -> None:
    first, second = MatchedDelete("a"), MatchedUpdate(None, "b")
    change = change_of(first, NotMatchedInsert(), second, NotMatchedBySourceDelete("c"))
    assert [each.condition for each in change.matched] == ["a", "b"]
    assert len(change.not_matched) == len(change.not_matched_by_source) == 1
    assert change.updating == [1]


@pytest.mark.parametrize(
    ("when", "writes", "deletes"),
    [
        ([MatchedUpdate()], True, False),
        ([MatchedDelete()], False, True),
        ([MatchedDelete("a")], False, False),
        ([MatchedDelete("a"), MatchedDelete()], False, False),
        ([MatchedDelete(), NotMatchedInsert()], True, True),
        ([NotMatchedBySourceDelete()], False, False),
        ([NotMatchedBySourceUpdate({"v": "0"})], True, False),
    ],
)
def test_possible_effects(when: list[Clause], writes: bool, deletes: bool) -> None:
    change = change_of(*when)
    assert (change.writes_rows, change.deletes_all_matched) == (writes, deletes)
