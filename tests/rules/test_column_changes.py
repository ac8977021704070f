"""Changes of columns that are safe for the files of a table, and those that are not."""

import pytest

from hiveacid.errors import HiveAcidError, InvalidJob, UnknownColumn, UnsupportedTable
from hiveacid.rules.schema import ChangeRules, Column, ColumnChange, is_wider, parse_type

COLUMNS = [Column("id", "int", "the key"), Column("n", "int"), Column("v", "varchar(5)")]
BY_POSITION = ChangeRules("db.t", by_position=True, keys=["day"])
BY_NAME = ChangeRules("db.t", by_position=False, keys=["day"])


@pytest.mark.parametrize(
    ("rules", "change", "expected"),
    [
        (BY_POSITION, ColumnChange("N", name="M"), [COLUMNS[0], Column("m", "int"), COLUMNS[2]]),
        (
            BY_NAME,
            ColumnChange("n", type="bigint", comment="c"),
            [COLUMNS[0], Column("n", "bigint", "c"), COLUMNS[2]],
        ),
        (BY_NAME, ColumnChange("id", comment=""), [Column("id", "int", ""), *COLUMNS[1:]]),
        (BY_NAME, ColumnChange("v", first=True), [COLUMNS[2], *COLUMNS[:2]]),
        (BY_NAME, ColumnChange("id", after="v"), [*COLUMNS[1:], COLUMNS[0]]),
        (BY_POSITION, ColumnChange("id", first=True), COLUMNS),
        (BY_POSITION, ColumnChange("v", after="n"), COLUMNS),
    ],
)
def test_a_column_is_changed(
    rules: ChangeRules, change: ColumnChange, expected: list[Column]
) -> None:
    assert rules.changed(COLUMNS, change) == expected


@pytest.mark.parametrize(
    ("rules", "change", "error", "message"),
    [
        (BY_NAME, ColumnChange("n", name="m"), UnsupportedTable, "by name, and the values"),
        (BY_POSITION, ColumnChange("v", first=True), UnsupportedTable, "v cannot be moved"),
        (
            BY_POSITION,
            ColumnChange("n", type="smallint"),
            UnsupportedTable,
            "cannot become smallint",
        ),
        (BY_POSITION, ColumnChange("day", type="string"), UnsupportedTable, "is a partition key"),
        (BY_POSITION, ColumnChange("n", name="day"), InvalidJob, "has the column day already"),
        (BY_POSITION, ColumnChange("n", name="ID"), InvalidJob, "has the column id already"),
        (BY_POSITION, ColumnChange("m", name="x"), UnknownColumn, "has no column m"),
        (
            ChangeRules("db.t", by_position=True, buckets=["n"]),
            ColumnChange("n", type="bigint"),
            UnsupportedTable,
            "distributed by the column n",
        ),
        (
            ChangeRules("db.t", by_position=True, constrained=["n"]),
            ColumnChange("n", comment="c"),
            UnsupportedTable,
            "the column n has a constraint",
        ),
    ],
)
def test_a_change_that_loses_or_moves_values_is_refused(
    rules: ChangeRules, change: ColumnChange, error: type[HiveAcidError], message: str
) -> None:
    with pytest.raises(error, match=message):
        rules.changed(COLUMNS, change)


def test_the_list_of_columns_is_replaced_by_a_longer_and_wider_one() -> None:
    wanted = [Column("ID", "bigint"), COLUMNS[1], Column("v", "string"), Column("w", "date")]
    assert BY_POSITION.replaced(COLUMNS, wanted) == [Column("id", "bigint"), *wanted[1:]]
    assert BY_NAME.replaced(COLUMNS, COLUMNS[::-1]) == COLUMNS[::-1]


@pytest.mark.parametrize(
    ("rules", "wanted", "message"),
    [
        (BY_POSITION, COLUMNS[:2], "would drop the column v"),
        (BY_POSITION, [*COLUMNS[:2], Column("w", "int")], "would drop the column v"),
        (BY_POSITION, COLUMNS[::-1], "would move columns"),
        (BY_NAME, [Column("w", "int"), *COLUMNS], "would move columns"),
        (BY_NAME, [*COLUMNS, Column("day", "int")], "has the partition key day"),
        (BY_NAME, [Column("id", "tinyint"), *COLUMNS[1:]], "id cannot become tinyint"),
    ],
)
def test_a_list_of_columns_that_drops_or_moves_one_is_refused(
    rules: ChangeRules, wanted: list[Column], message: str
) -> None:
    with pytest.raises(HiveAcidError, match=message):
        rules.replaced(COLUMNS, wanted)


@pytest.mark.parametrize(
    ("old", "new", "is_wide_enough"),
    [
        ("tinyint", "bigint", True),
        ("bigint", "int", False),
        ("float", "double", True),
        ("bigint", "double", False),
        ("decimal(5,2)", "decimal(7,3)", True),
        ("decimal(5,2)", "decimal(6,4)", False),
        ("int", "decimal(12,2)", True),
        ("int", "decimal(10,2)", False),
        ("varchar(5)", "varchar(6)", True),
        ("varchar(5)", "string", True),
        ("string", "varchar(6)", False),
        ("char(3)", "char(4)", True),
        ("char(3)", "string", False),
        ("int", "string", False),
        ("date", "timestamp", False),
        ("array<int>", "array<bigint>", False),
    ],
)
def test_a_wider_type_has_all_values_of_the_other_one(
    old: str, new: str, is_wide_enough: bool
) -> None:
    assert is_wider(parse_type(old), parse_type(new)) is is_wide_enough
