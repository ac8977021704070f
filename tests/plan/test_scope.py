"""The columns that names mean, in each part that resolves names."""

import pytest

from hiveacid.errors import SparkNeeded
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.plan.scope import ChangeScope, NamedColumn
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import parse_type
from hiveacid.worker.expressions import Scope

# A struct with a field, and a table alias, that are called like the partition key `country`.
ADDRESSES = HiveTable.new(
    TableRef("shop", "people"),
    [HiveColumn("id", "int"), HiveColumn("Addr", "struct<country:string>")],
    partition_keys=[HiveColumn("country", "string")],
)


@pytest.mark.parametrize(
    ("name", "column", "key"),
    [
        ("t.country", NamedColumn("target", "country"), "country"),
        ("T.COUNTRY", NamedColumn("target", "country"), "country"),
        ("t.addr", NamedColumn("target", "addr"), None),
        ("t.addr.country", NamedColumn("target", "addr", ("country",)), None),
        ("addr.country", NamedColumn("target", "addr", ("country",)), None),
        ("t.country.x", NamedColumn("target", "country", ("x",)), None),
        ("s.country", NamedColumn("source", "country"), None),
        ("s.t.country", NamedColumn("source", "t", ("country",)), None),
        ("t.after", NamedColumn("source", "t", ("after",)), None),
        ("day", NamedColumn("source", "day"), None),
        ("country", None, None),
        ("t.unknown.country", NamedColumn("source", "t", ("unknown", "country")), None),
        ("u.country", None, None),
    ],
)
def test_the_field_of_a_struct_is_no_partition_key(
    name: str, column: NamedColumn | None, key: str | None
) -> None:
    scope = ChangeScope(ADDRESSES, "t", "s", ["country", "day", "t"])
    assert scope.column(name.split(".")) == column
    assert scope.key(name.split(".")) == key


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("t.country", NamedColumn("target", "country")),
        ("addr.country", None),
        ("country", None),
        ("s.anything", NamedColumn("source", "anything")),
        ("s.any.field", NamedColumn("source", "any", ("field",))),
    ],
)
def test_columns_of_an_unknown_source_need_its_name(name: str, column: NamedColumn | None) -> None:
    assert ChangeScope(ADDRESSES, "t", "S").column(name.split(".")) == column


def test_a_worker_takes_whole_columns_only() -> None:
    number, struct = parse_type("int"), parse_type("struct<country:string>")
    scope = Scope({"t": {"id": number, "addr": struct}, "s": {"id": number, "n": number}})
    assert scope.column(["T", "Addr"]) == ("t.addr", struct)
    assert scope.column(["n"]) == ("s.n", number)
    for name in ("id", "addr.country", "t.addr.country", "t.n", "unknown"):
        with pytest.raises(SparkNeeded, match=f"the name {name}"):
            scope.column(name.split("."))
