"""The constraints of tables: declared, and read again."""

from dataclasses import replace

from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.constraints import (
    all_constraints,
    as_structs,
    constraints_on_writes,
)
from hiveacid.rules.constraints import Check, Default, Key, NotNull, TableConstraints
from hiveacid.rules.names import TableRef
from hiveacid.tables.definitions.answers import create_statement
from tests.contract.test_catalog_statements import run
from tests.fakes.metastore import REAL_AND_FAKE

COLUMNS = [HiveColumn("id", "int"), HiveColumn("v", "string"), HiveColumn("k", "int")]


@REAL_AND_FAKE
def test_constraints_are_read_as_they_were_declared(client: MetastoreClient, database: str) -> None:
    ref = TableRef(database, "t")
    declared = TableConstraints(
        (NotNull(column="id", name="nn1"), NotNull(column="v", name="nn2", enabled=False)),
        (Check(expression="`k` > 0", column="k", name="ck1"), Check(expression="k > id", name="c")),
        (Default(column="v", value="'dflt'", name="df1", rely=False),),
        (
            Key(type="primary", columns=["id", "v"], name="pk1", rely=True),
            Key(type="unique", columns=["k"], name="uq1"),
        ),
    )
    client.create_table(
        HiveTable.new(ref, COLUMNS, partition_keys=[HiveColumn("p", "string")]),
        as_structs(ref, declared.all),
    )
    other = TableRef(database, "other")
    foreign = Key(
        type="foreign",
        columns=["k", "v"],
        name="fk1",
        references=ref.full_name,
        referenced_columns=["id", "v"],
    )
    client.create_table(HiveTable.new(other, COLUMNS), as_structs(other, [foreign]))

    found = all_constraints(client, ref)
    assert set(found.all) == set(declared.all)
    assert found.same_rules(declared)
    assert not found.same_rules(replace(found, not_null=()))
    assert constraints_on_writes(client, ref).same_rules(declared)
    assert all_constraints(client, other) == TableConstraints(keys=(foreign,))


@REAL_AND_FAKE
def test_constraints_without_names_get_some_and_a_plain_table_has_none(
    client: MetastoreClient, database: str
) -> None:
    plain, ref = TableRef(database, "plain"), TableRef(database, "t")
    client.create_table(HiveTable.new(plain, COLUMNS))
    client.create_table(
        HiveTable.new(ref, COLUMNS),
        as_structs(
            ref, [NotNull(column="ID"), Check(expression="k > 0"), Default(column="v", value="1")]
        ),
    )
    assert all_constraints(client, plain) == TableConstraints()
    found = all_constraints(client, ref)
    assert [each.column for each in found.not_null] == ["id"]
    assert len({each.name for each in found.all} - {None}) == 3
    client.drop_table(ref)
    client.create_table(HiveTable.new(ref, COLUMNS))
    assert all_constraints(client, ref) == TableConstraints()


@REAL_AND_FAKE
def test_several_checks_without_names_of_one_table_are_declared(
    client: MetastoreClient, database: str
) -> None:
    # The names that a metastore chooses contain the millisecond, and none of the condition.
    for number in range(4):
        ref = TableRef(database, f"t{number}")
        client.create_table(
            HiveTable.new(ref, COLUMNS),
            as_structs(ref, [Check(expression=f"k > {n}") for n in range(12)]),
        )
        found = all_constraints(client, ref).checks
        assert {each.expression for each in found} == {f"k > {n}" for n in range(12)}
        assert len({each.name for each in found}) == 12


@REAL_AND_FAKE
def test_a_create_statement_declares_the_same_constraints_again(
    client: MetastoreClient, database: str
) -> None:
    run(client, f"CREATE TABLE {database}.other (id int, PRIMARY KEY (id) DISABLE NOVALIDATE)")
    run(
        client,
        f"""
        CREATE TABLE {database}.t (
            id int CONSTRAINT nn NOT NULL ENABLE NOVALIDATE RELY COMMENT 'DEFAULT 1, ',
            v string DEFAULT 'a, ) COMMENT', b bigint DEFAULT -5 NOT NULL,
            m map<string,array<array<int>>> NOT NULL DISABLE,
            k decimal(5,2) CHECK (k > 0 AND length(`v`) < 5) ENABLE, u int REFERENCES
            {database}.other (id) DISABLE NOVALIDATE RELY,
            CHECK (k >= 1 OR id < 3), PRIMARY KEY (id) DISABLE NOVALIDATE RELY,
            CONSTRAINT uq UNIQUE (id, v) DISABLE NOVALIDATE
        ) PARTITIONED BY (day date)
        """,
    )
    table = TableRef(database, "t")
    found = all_constraints(client, table)
    assert [(each.column, each.enabled, each.rely) for each in found.not_null] == [
        ("id", True, True),
        ("b", True, True),
        ("m", False, False),
    ]
    assert [(each.column, each.value) for each in found.defaults] == [
        ("v", "'a, ) COMMENT'"),
        ("b", "cast(-5 as bigint)"),
    ]
    assert [(each.column, each.expression) for each in found.checks] == [
        ("k", "k > 0 AND length(`v`) < 5"),
        (None, "k >= 1 OR id < 3"),
    ]
    assert [(each.type, each.columns, each.rely) for each in found.keys] == [
        ("primary", ("id",), True),
        ("unique", ("id", "v"), False),
        ("foreign", ("u",), True),
    ]
    written = create_statement(client.get_table(table), found)
    # The metastore refuses a constraint of a name that it knows already.
    for name in ("t", "nn", "uq"):
        written = written.replace(f"`{name}`", f"`{name}2`")
    run(client, written)
