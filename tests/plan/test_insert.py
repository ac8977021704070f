"""The rows of an insert: columns by name and by position, partition keys, and defaults."""

from typing import Any

import pytest

from hiveacid.errors import HiveAcidError, InvalidJob, UnknownColumn, UserError
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.plan.insert import InsertedRow, InsertMapping
from hiveacid.rules.constraints import WriteRules
from hiveacid.rules.names import TableRef

TABLE = HiveTable.new(
    TableRef("db", "t"),
    [HiveColumn("id", "int"), HiveColumn("v", "string")],
    partition_keys=[HiveColumn("k", "int"), HiveColumn("day", "date")],
)
RULES = WriteRules("db.t", {}, (), {"v": "'none'"}.get)


def row_of(*source: str, **mapping: Any) -> InsertedRow:
    return InsertMapping(**mapping).row(TABLE, source, RULES)


def test_by_name_each_column_has_that_of_its_name_in_any_case() -> None:
    row = row_of("K", "ID", "day", "v")
    assert row.values == {"id": "`ID`", "v": "`v`", "k": "`K`", "day": "`day`"}
    assert (row.names, row.keys) == (["K", "ID", "day", "v"], {})


def test_an_omitted_column_has_its_default_value_or_null() -> None:
    row = row_of("k", "day", "op", exclude=["OP"])
    assert row.values == {"id": "NULL", "v": "'none'", "k": "`k`", "day": "`day`"}


def test_by_position_the_keys_are_last() -> None:
    row = row_of("a", "b", "c", "d", by_position=True)
    assert row.names == ["id", "v", "k", "day"]
    assert row.values == {"id": "`id`", "v": "`v`", "k": "`k`", "day": "`day`"}


def test_columns_name_the_positions() -> None:
    row = row_of("a", "b", "c", by_position=True, columns=["DAY", "k", "id"])
    assert row.values == {"id": "`id`", "v": "'none'", "k": "`k`", "day": "`day`"}
    assert row.names == ["day", "k", "id"]


@pytest.mark.parametrize(
    "given",
    [
        {"static": {"K": "7", "day": None}},
        {"partitions": [{"K": "7", "day": None}]},
    ],
)
@pytest.mark.parametrize("by_position", [False, True])
def test_keys_of_one_value_are_not_in_the_source(given: dict[str, Any], by_position: bool) -> None:
    row = row_of("id", "v", by_position=by_position, **given)
    assert row.keys == {"k": "7", "day": None}
    assert row.values == {"id": "`id`", "v": "`v`"}


def test_a_key_in_the_rows_counts_for_one_named_partition() -> None:
    row = row_of("id", "v", "k", "day", partitions=[{"k": "7", "day": None}])
    assert row.keys == {}
    assert row.values["k"] == "`k`"


def test_some_rows_get_a_default_value() -> None:
    row = row_of("a", "b", "c", "d", "x", "y", by_position=True, defaults=[1, 0])
    assert row.defaults == {"v": "'none'", "id": "NULL"}
    assert row.wants_default == {"v": 4, "id": 5}


@pytest.mark.parametrize(
    ("source", "mapping", "error", "message"),
    [
        (["id", "w", "k", "day"], {}, UnknownColumn, "sets w"),
        (["id", "k"], {}, UnknownColumn, "no partition column day"),
        (["id", "k"], {"partitions": [{"k": "1"}, {"k": "2"}]}, UnknownColumn, "column day"),
        (
            ["id", "k", "day"],
            {"static": {"K": "1"}},
            UserError,
            "two values for the partition key k",
        ),
        (["id"], {"exclude": ["op"]}, UnknownColumn, "excludes op"),
        (["id", "k", "day"], {"exclude": ["day"]}, UnknownColumn, "no partition column day"),
        (["a"], {"by_position": True}, UnknownColumn, "1 column for 4: id, v, k, day"),
        (["a", "b"], {"by_position": True, "columns": ["id", "x"]}, UnknownColumn, "sets x"),
        (["a", "b"], {"by_position": True, "defaults": [1]}, InvalidJob, "column 1 of 1"),
    ],
)
def test_what_no_source_can_give_is_refused(
    source: list[str], mapping: dict[str, Any], error: type[HiveAcidError], message: str
) -> None:
    with pytest.raises(error, match=message):
        row_of(*source, **mapping)


def test_the_named_partitions() -> None:
    assert InsertMapping(static={"k": "1"}).specified(TABLE) is None
    both = {"k": "1", "day": "2026-01-01"}
    assert InsertMapping(static=both).specified(TABLE) == [both]
    assert InsertMapping(partitions=[both, both]).specified(TABLE) == [both, both]
    assert InsertMapping().specified(TABLE) is None
    with pytest.raises(UserError, match="names the partition keys"):
        InsertMapping(static={"day": "2026-01-01"}, dynamic=["k"]).specified(TABLE)


def test_only_the_default_values_of_omitted_columns_are_evaluated() -> None:
    def default(column: str) -> str:
        raise AssertionError(f"The default value of {column} is not needed.")

    rules = WriteRules("db.t", {}, (), default)
    row = InsertMapping().row(TABLE, ["id", "v", "k", "day"], rules)
    assert row.values["v"] == "`v`"
