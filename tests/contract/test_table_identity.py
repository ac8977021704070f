"""The identity of a table survives alterations with any content, and differs from any other
creation's."""

from collections.abc import Callable
from typing import Any

import pytest

from hiveacid.errors import TableReplaced
from hiveacid.jobs.definition_jobs import RenameTableJob
from hiveacid.metastore.alteration import DDL_TIME
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import require_same_table
from hiveacid.metastore.thrift import idl_tables
from hiveacid.metastore.txn.transaction import ExclusiveTable
from hiveacid.rules.names import TableIdentity, TableRef
from hiveacid.tables.definitions.run import run_ddl
from tests.fakes.metastore import REAL_AND_FAKE

pytestmark = REAL_AND_FAKE


@pytest.fixture
def table(client: MetastoreClient, database: str) -> TableRef:
    ref = TableRef(database, "events")
    client.create_table(HiveTable.new(ref, [HiveColumn("id", "bigint")]))
    return ref


def identity(client: MetastoreClient, ref: TableRef) -> TableIdentity:
    return client.get_table(ref).identity


def test_an_alteration_without_a_creation_time_changes_no_identity(
    client: MetastoreClient, table: TableRef
) -> None:
    """Trino sends none."""
    before = identity(client, table)
    assert before.created > 0
    raw: Any = client.get_table(table).raw
    raw.createTime, raw.id = 0, None
    raw.parameters["altered"] = "yes"
    context = idl_tables.EnvironmentContext({"DO_NOT_UPDATE_STATS": "true"})
    call = idl_tables.alter_table_with_environment_context
    client.call(call, table.database, table.name, raw, context)
    assert client.get_table(table).parameters["altered"] == "yes"
    assert identity(client, table) == before


def test_a_table_with_another_name_keeps_its_identity(
    client: MetastoreClient, table: TableRef
) -> None:
    before, renamed = identity(client, table), TableRef(table.database, "renamed")
    run_ddl(
        client,
        RenameTableJob(target=str(table), new_name=str(renamed), metastore=client.options),
    )
    assert identity(client, renamed) == before


def test_a_number_that_only_one_description_has_makes_no_other_table(
    client: MetastoreClient, table: TableRef
) -> None:
    """The metastore may become one of version 4 meanwhile."""
    before = client.get_table(table)
    before.raw.id = None
    assert require_same_table(client, before).identity.is_same(before.identity)


def test_a_table_that_is_created_again_has_another_identity(
    client: MetastoreClient, table: TableRef, eventually: Callable[..., None]
) -> None:
    before = identity(client, table)

    def is_another() -> bool:
        client.drop_table(table)
        client.create_table(HiveTable.new(table, [HiveColumn("id", "bigint")]))
        return not identity(client, table).is_same(before)

    eventually("the creation has another second", is_another)


def test_a_table_that_was_created_again_does_not_get_the_name_of_the_earlier_one(
    client: MetastoreClient, table: TableRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The metastore compares the time of the last change, also after the last check of the job."""
    if not client.features.compares_definitions:
        pytest.skip("This metastore renames without a condition.")

    def replace_it(held: ExclusiveTable) -> None:
        client.drop_table(table)
        again = HiveTable.new(table, [HiveColumn("id", "bigint")])
        again.raw.parameters[DDL_TIME] = "1"
        client.create_table(again)

    monkeypatch.setattr(ExclusiveTable, "confirm_alive", replace_it)
    job = RenameTableJob(target=str(table), new_name=f"{table.database}.other")
    with pytest.raises(TableReplaced):
        run_ddl(client, job)
    assert client.get_tables(table.database) == [table.name]
