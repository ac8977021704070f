"""The locations of all tables and partitions, from real metastores of both versions."""

from pathlib import Path

import pytest

from airflow_hiveacid.acid.names import TableRef
from airflow_hiveacid.acid.schema import TableKind
from airflow_hiveacid.metastore import many_tables
from airflow_hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.locations import RecentLocations, other_locations
from tests.fakes.metastore import REAL_AND_FAKE
from tests.metastore_calls import counted_calls

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


def test_cleanings_never_use_a_list_of_locations_from_before(
    client: MetastoreClient, database: str
) -> None:
    recent = RecentLocations(client)
    refs = [TableRef(database, f"t{number}") for number in range(3)]
    for ref in refs[:2]:
        client.create_table(HiveTable.new(ref, COLUMNS))
    tables = [client.get_table(ref) for ref in refs[:2]]
    for own, other in (tables, tables[::-1]):
        partitions, others = recent.now(own)
        assert dict(others)[other.ref.full_name] == other.location
        assert own.ref.full_name not in dict(others)
        assert partitions == {}
    client.create_table(HiveTable.new(refs[2], COLUMNS))
    others = dict(recent.now(tables[0])[1])
    assert others == dict(other_locations(client, tables[0]))
    assert refs[2].full_name in others


def test_cleanings_that_ask_at_the_same_time_share_a_list_of_locations(
    client: MetastoreClient, database: str
) -> None:
    ref = TableRef(database, "days")
    keys = [HiveColumn("day", "string")]
    client.create_table(HiveTable.new(ref, COLUMNS, partition_keys=keys))
    table = client.get_table(ref)
    client.add_partitions(ref, [HivePartition.new(table, ["1"])])
    recent = RecentLocations(client, clock=lambda: 1.0)
    with counted_calls() as calls:
        for _ in range(4):
            assert recent.now(table)[0] == {"day=1": f"{table.location}/day=1"}
    assert calls["get_all_databases"] == 1


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
