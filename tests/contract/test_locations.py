"""The locations of all tables and partitions, from real metastores of both versions."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hiveacid.errors import MetastoreCallFailed, MetastoreTroubled
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore import locations
from hiveacid.metastore import table_rules as many_tables
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.locations import (
    Locations,
    Warehouse,
    all_locations,
    other_locations,
)
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from tests.fakes.metastore import REAL_AND_FAKE
from tests.metastore_calls import counted_calls
from tests.proxy import Harm, Proxy

pytestmark = REAL_AND_FAKE

COLUMNS = [HiveColumn("id", "bigint")]


def test_every_kind_of_table_of_every_database_is_there(
    client: MetastoreClient, database: str, tmp_path: Path
) -> None:
    elsewhere = tmp_path.as_uri()
    full, insert_only, plain = (
        TableRef(database, name) for name in ("full", "insert_only", "plain")
    )
    client.create_table(HiveTable.new(full, COLUMNS))
    client.create_table(HiveTable.new(insert_only, COLUMNS, kind=TableKind.INSERT_ONLY))
    external = HiveTable.new(plain, COLUMNS, kind=TableKind.NOT_ACID, location=elsewhere)
    external.raw.tableType = "EXTERNAL_TABLE"
    client.create_table(external)
    view = HiveTable.new(TableRef(database, "view"), COLUMNS, kind=TableKind.NOT_ACID)
    view.raw.tableType, view.raw.sd.location = "VIRTUAL_VIEW", None
    view.raw.viewOriginalText = view.raw.viewExpandedText = "SELECT 1"
    client.create_table(view)
    other = TableRef("default", f"of_{database}")
    client.create_table(HiveTable.new(other, COLUMNS))
    try:
        found = dict(other_locations(client, client.get_table(full)))
        for ref in (insert_only, other):
            assert found[ref.full_name] == client.get_table(ref).location
    finally:
        client.drop_table(other)
    assert found[plain.full_name].rstrip("/") == elsewhere.replace("file:///", "file:/")
    assert {full.full_name, view.ref.full_name}.isdisjoint(found)


def test_partitions_of_other_tables_are_there(
    client: MetastoreClient, database: str, tmp_path: Path
) -> None:
    ref, own = TableRef(database, "days"), TableRef(database, "own")
    keys = [HiveColumn("day", "string"), HiveColumn("hour", "int")]
    for each in (ref, own):
        client.create_table(HiveTable.new(each, COLUMNS, partition_keys=keys))
    table = client.get_table(ref)
    inside, outside = (HivePartition.new(table, ["2026-11-20", hour]) for hour in ("1", "2"))
    outside.raw.sd.location = tmp_path.as_uri()
    client.add_partitions(ref, [inside, outside])
    found = dict(other_locations(client, client.get_table(own)))
    assert found[f"{ref}/day=2026-11-20/hour=1"] == f"{table.location}/day=2026-11-20/hour=1"
    elsewhere = found[f"{ref}/day=2026-11-20/hour=2"]
    assert elsewhere.rstrip("/").replace("file:///", "file:/") == f"file:{tmp_path}"


def test_tables_and_databases_that_vanish_meanwhile_are_nowhere(
    client: MetastoreClient, database: str
) -> None:
    keys = [HiveColumn("day", "string")]
    later = f"{database}_z"
    client.create_database(later)
    refs = [TableRef(database, "t1"), TableRef(database, "t2"), TableRef(later, "t3")]
    for ref in refs:
        client.create_table(HiveTable.new(ref, COLUMNS, partition_keys=keys))
        client.add_partitions(ref, [HivePartition.new(client.get_table(ref), ["1"])])
    found = []
    for name, _ in all_locations(client):
        found.append(name)
        if name == refs[0].full_name:  # Its partitions are about to be listed.
            client.drop_table(refs[0])
            client.drop_database(later, cascade=True)
    assert [name for name in found if name.startswith(database)] == [
        refs[0].full_name,
        refs[1].full_name,
        f"{refs[1]}/day=1",
    ]


def test_a_table_that_vanishes_while_others_are_described_is_nowhere(
    client: MetastoreClient, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Releases may fail to describe the others."""
    refs = [TableRef(database, name) for name in ("t1", "t2", "t3")]
    for ref in refs:
        client.create_table(HiveTable.new(ref, COLUMNS))
    vanishing, describe = refs[1:], locations.projected_tables

    def fail(client: MetastoreClient, described: str, names: list[str]) -> Iterator[Any]:
        if described == database and vanishing:
            client.drop_table(vanishing.pop())
            raise MetastoreCallFailed("A table is gone.")
        return describe(client, described, names)

    monkeypatch.setattr(locations, "projected_tables", fail)
    found = [name for name, _ in all_locations(client) if name.startswith(f"{database}.")]
    assert found == [refs[0].full_name]


@pytest.mark.parametrize(
    "call", ["get_partitions_with_specs", "get_partitions_pspec", "get_table_objects_by_name_req"]
)
def test_what_cannot_be_listed_is_not_nowhere(
    client: MetastoreClient, database: str, call: str
) -> None:
    if client.features.takes_requests is (call == "get_partitions_pspec"):
        pytest.skip("This version has another call.")
    ref = TableRef(database, "t1")
    client.create_table(HiveTable.new(ref, COLUMNS, partition_keys=[HiveColumn("day", "string")]))
    with closing(Proxy(Behind(client), call, harm=Harm.FAIL)) as failing:
        options = MetastoreOptions(uris=failing.uri)
        with MetastoreClient(options) as troubled, pytest.raises(MetastoreTroubled):
            list(all_locations(troubled))


class Behind:
    """The address of a metastore."""

    def __init__(self, client: MetastoreClient) -> None:
        self.uri = client.options.uris


def test_one_list_has_the_partitions_of_each_table_and_the_locations_of_all_others(
    client: MetastoreClient, database: str
) -> None:
    refs = [TableRef(database, f"t{number}") for number in range(3)]
    keys = [HiveColumn("day", "string")]
    for ref in refs:
        client.create_table(HiveTable.new(ref, COLUMNS, partition_keys=keys))
    tables = [client.get_table(ref) for ref in refs]
    client.add_partitions(refs[0], [HivePartition.new(tables[0], ["1"])])
    listed = Locations(client)
    with counted_calls() as calls:
        found = [listed.of(table) for table in tables]
    assert calls["get_all_databases"] == 1
    assert [own for own, _ in found] == [{"day=1": f"{tables[0].location}/day=1"}, {}, {}]
    for table, (_, others) in zip(tables, found, strict=True):
        assert dict(others) == dict(other_locations(client, table))


def test_a_database_of_more_tables_than_fit_into_one_call_is_complete(
    client: MetastoreClient, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(many_tables, "TABLES_PER_CALL", 2)
    refs = {TableRef(database, f"t{number}") for number in range(5)}
    for ref in refs:
        client.create_table(HiveTable.new(ref, COLUMNS))
    own = TableRef(database, "own")
    client.create_table(HiveTable.new(own, COLUMNS))
    others = other_locations(client, client.get_table(own))
    found = {name for name, _ in others if name.startswith(f"{database}.")}
    assert found == {ref.full_name for ref in refs}


def test_thousands_of_names_can_be_asked_for(client: MetastoreClient, database: str) -> None:
    ref = TableRef(database, "there")
    client.create_table(HiveTable.new(ref, COLUMNS))
    # Those that are not there make the same query in the metastore's database.
    names = [*(f"missing_{number}" for number in range(2000)), ref.name]
    (table,) = many_tables.projected_tables(client, database, names, ["tableName"])
    assert table.tableName == ref.name


def test_a_warehouse_chooses_the_folders_of_tables_without_a_location(
    client: MetastoreClient, database: str, tmp_path: Path
) -> None:
    other, default = f"{database}_other", TableRef("default", f"of_{database}")
    refs = [TableRef(database, "t"), TableRef(other, "t"), default]
    client.create_database(other, location=tmp_path.as_uri())
    try:
        for ref in refs:
            client.create_table(HiveTable.new(ref, COLUMNS))
        tables = [client.get_table(ref) for ref in refs]
        warehouse = Warehouse(client)
        # Version 4 has no transactional tables in the location of a database.
        is_inside = [tmp_path.name in table.folder for table in tables]
        assert [not warehouse.chooses(table.ref, table.location) for table in tables] == is_inside
        assert is_inside[::2] == [False, False]
    finally:
        client.drop_table(default)
        client.drop_database(other, cascade=True)
