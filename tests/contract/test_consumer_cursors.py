"""Cursors of consumers change no definition, and belong to one creation of a table."""

import shutil
from collections.abc import Callable
from typing import Any

import pytest

from hiveacid.errors import PositionMismatch
from hiveacid.metastore.catalog import HiveColumn
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import located
from hiveacid.metastore.thrift import idl_tables
from hiveacid.records.consumers import Consumer, consumer_versions, forget_consumer
from hiveacid.rules.names import TableRef
from tests.fakes.metastore import REAL_AND_FAKE
from tests.upkeep.acid_folders import AcidFolders

pytestmark = REAL_AND_FAKE


@pytest.fixture
def folders(client: MetastoreClient, database: str) -> AcidFolders:
    folders = AcidFolders.create(client, f"{database}.t")
    for _ in range(3):
        folders.insert()
    return folders


def consumer(client: MetastoreClient, ref: TableRef) -> Consumer:
    return Consumer(client, ref.full_name, "log", ["d.copy"])


def add_column(client: MetastoreClient, ref: TableRef) -> None:
    """Change the definition as other engines do, without a lock."""
    with MetastoreClient(client.options) as other:
        raw = other.get_table(ref).raw
        raw.sd.cols.append(idl_tables.FieldSchema("added", "string", None))
        context = idl_tables.EnvironmentContext({})
        call = idl_tables.alter_table_with_environment_context
        other.call(call, ref.database, ref.name, raw, context, about=ref.full_name)


@pytest.mark.parametrize("move", [Consumer.begin, Consumer.advance])
def test_a_column_that_is_added_while_a_cursor_moves_survives(
    client: MetastoreClient,
    folders: AcidFolders,
    monkeypatch: pytest.MonkeyPatch,
    move: Callable[[Consumer, int], None],
) -> None:
    moving, before = consumer(client, folders.ref), folders.table.raw
    really, sent = client.call, []

    def call(declared: Any, *arguments: Any, **about: Any) -> Any:
        if declared.name.startswith("alter_"):
            if not sent:
                add_column(client, folders.ref)
            sent.append(declared.name)
        return really(declared, *arguments, **about)

    monkeypatch.setattr(client, "call", call)
    move(moving, 2)
    if not sent:
        assert folders.table.raw == before
        add_column(client, folders.ref)
    assert folders.table.columns[1:] == (HiveColumn("added", "string"),)
    assert sent == []
    assert consumer_versions(folders.table) == {"log": 2}


def test_a_cursor_that_outlives_its_table_is_refused(
    client: MetastoreClient, folders: AcidFolders
) -> None:
    consumer(client, folders.ref).advance(3)
    kept, was = folders.root.with_name("kept"), folders.table.identity
    shutil.copytree(folders.root / "_hiveacid_consumers", kept)
    while folders.table.identity.created == was.created:  # In whole seconds.
        client.drop_table(folders.ref)
        AcidFolders.create(client, folders.ref.full_name)
    assert consumer(client, folders.ref).after is None
    shutil.move(kept, folders.root / "_hiveacid_consumers")
    with pytest.raises(PositionMismatch, match="belongs to"):
        consumer(client, folders.ref)
    assert consumer_versions(folders.table) == {"log": 0}
    assert forget_consumer(client, folders.ref, "log")
    assert consumer(client, folders.ref).after is None


def test_two_creations_within_a_second_are_distinguished_by_their_number(
    client: MetastoreClient, folders: AcidFolders
) -> None:
    one = located(folders.table)
    client.drop_table(folders.ref)
    AcidFolders.create(client, folders.ref.full_name)
    other = located(folders.table)
    # Version 3.1 gives no number, and times in whole seconds.
    assert (one.identity.id is None) == (not client.features.has_table_fields)
    assert one.is_same_as(other) == (one.identity == other.identity)
    assert (one.identity == other.identity) <= (not client.features.has_table_fields)
