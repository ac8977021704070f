"""The rules of constraints, and which of them a table can be created with."""

import pytest

from hiveacid.errors import InvalidJob, UnsupportedTable
from hiveacid.jobs.definition_jobs import ColumnSpec, CreateTableJob
from hiveacid.parser.constraint_rules import require_supported, write_rules
from hiveacid.rules.constraints import (
    Check,
    Constraint,
    Default,
    Key,
    NotNull,
    TableConstraints,
    WriteRules,
    typed_default,
    with_defaults,
)
from tests.parser.test_hive_expression import MOMENT

COLUMNS = {"id": "int", "v": "string", "k": "bigint", "s": "varchar(3)"}


def rules(*constraints: Constraint) -> WriteRules:
    of = {
        kind: tuple(each for each in constraints if isinstance(each, kind))
        for kind in (NotNull, Check, Default, Key)
    }
    return write_rules(
        "db.t", COLUMNS, TableConstraints(of[NotNull], of[Check], of[Default], of[Key]), MOMENT
    )


def test_enabled_constraints_are_rules_and_keys_are_none() -> None:
    found = rules(
        NotNull(column="ID", name="nn"),
        NotNull(column="k", enabled=False),
        Check(expression="k > 0", name="ck"),
        Check(expression="my_udf(k)", enabled=False),
        Key(type="primary", columns=["id"]),
    ).rules
    assert [(each.constraint, each.holds) for each in found] == [
        ("nn, NOT NULL of column ID,", "`id` IS NOT NULL"),
        ("ck, CHECK (k > 0),", "(coalesce((`k` > 0), true))"),
    ]


def test_a_rule_that_cannot_be_enforced_names_the_constraint_and_the_table() -> None:
    with pytest.raises(UnsupportedTable, match=r"udf, CHECK \(my_udf\(k\)\), of db.t .* my_udf"):
        rules(Check(expression="my_udf(k)", name="udf"))


def test_the_keyword_default_is_the_default_value_or_null() -> None:
    found = rules(Default(column="V", value="'x'"), Default(column="k", value="1", enabled=False))
    values = {
        "v": " default ",
        "`V`": "DEFAULT",
        "k": "DEFAULT",
        "id": "`default`",
        "s": "defaults",
    }
    assert with_defaults(values, found) == {
        "v": "'x'",
        "`V`": "'x'",
        "k": "NULL",
        "id": "`default`",
        "s": "defaults",
    }


@pytest.mark.parametrize(
    ("column", "value", "stored"),
    [
        ("id", "5", "5"),
        ("id", "-5", "cast(-5 as int)"),
        ("k", "5", "cast(5 as bigint)"),
        ("v", "'x'", "'x'"),
        ("s", "'x'", "cast('x' as varchar(3))"),
        ("v", "current_user()", "current_user()"),
        ("v", "concat('a', 'b')", "concat('a', 'b')"),
    ],
)
def test_hive_gets_default_values_of_the_type_of_the_column(
    column: str, value: str, stored: str
) -> None:
    assert typed_default(Default(column=column, value=value), COLUMNS) == Default(
        column=column, value=stored
    )


REFUSED: dict[str, tuple[list[Constraint], str]] = {
    "VALIDATE": ([NotNull(column="id", validated=True)], "VALIDATE"),
    "enabled keys": ([Key(type="primary", columns=["id"], enabled=True)], "no enabled keys"),
    "keys without columns": ([Key(type="unique", columns=[])], "needs a column"),
    "other keys": ([Key(type="other", columns=["id"])], "'other' is not one of"),
    "half a reference": ([Key(type="foreign", columns=["id"])], "references"),
    "other numbers of columns": (
        [Key(type="foreign", columns=["id"], references="a.b", referenced_columns=["x", "y"])],
        "as many columns",
    ),
    "columns that there are not": ([NotNull(column="z")], "names z, which is no column"),
    # Hive: not allowed with partition columns.
    "partition keys": ([NotNull(column="p")], "no constraints on partition keys such as p"),
    "conditions on partition keys": ([Check(expression="p = 'a'")], "no column p"),
    "two names": ([NotNull(column="id", name="x"), NotNull(column="v", name="X")], "x is declared"),
    "two of a column": ([NotNull(column="id"), NotNull(column="ID")], "ID is declared twice"),
    "two primary keys": (
        [Key(type="primary", columns=["id"]), Key(type="primary", columns=["v"])],
        "primary key is declared twice",
    ),
    "conditions that cannot be enforced": ([Check(expression="my_udf(id)")], "my_udf"),
    "values that cannot be evaluated": ([Default(column="v", value="my_udf()")], "my_udf"),
    "values of other types": ([Default(column="k", value="'x'")], "cast of 'x' to bigint"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_constraints_that_hive_would_refuse_are_not_declared(case: str) -> None:
    declared, message = REFUSED[case]
    job = CreateTableJob(
        target="db.t",
        columns=[ColumnSpec(name, type_) for name, type_ in COLUMNS.items()],
        partition_keys=[ColumnSpec("p", "string")],
        constraints=declared,
    )

    def declare() -> None:
        job.validate()
        require_supported(job)

    with pytest.raises(InvalidJob, match=message):
        declare()
