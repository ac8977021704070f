"""Consumers of a table's changes, as the metastore knows them."""

import pytest

from airflow_hiveacid import ChangesSource
from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.errors import VersionUnknown
from airflow_hiveacid.maintenance.consumers import Consumer, forget_consumer, known_consumers
from airflow_hiveacid.metastore import alteration
from airflow_hiveacid.metastore.thrift import idl_tables
from airflow_hiveacid.metastore.txn.snapshot import Snapshot
from tests.maintenance.acid_folders import AcidFolders

FAKE = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)


@pytest.fixture
def folders(client, database):
    folders = AcidFolders.create(client, f"{database}.t")
    for _ in range(3):
        folders.insert()
    return folders


def consumer(folders, name="log"):
    return Consumer(folders.client, folders.ref.full_name, name)


def known(folders):
    now = Snapshot.take(folders.client, [folders.ref]).write_ids[folders.ref.full_name]
    return [(one.name, one.version, one.behind) for one in known_consumers(folders.table, now)]


def turn(folders, after="0", name="log"):
    found = consumer(folders, name).range(ChangesSource(folders.ref.full_name, after=after))
    return None if found is None else (found.after, found.up_to)


@FAKE
def test_a_consumer_that_has_copied_nothing_begins_where_its_job_says_by_now(folders):
    for after in (0, 2, 1):
        assert turn(folders, str(after)) == (after, 3)
        consumer(folders).begin(after)
        assert known(folders) == [("log", after, 3 - after)]
    consumer(folders).advance(2)
    assert turn(folders, "0") == turn(folders, "1") == (2, 3)
    consumer(folders).begin(0)
    consumer(folders).advance(1)
    assert known(folders) == [("log", 2, 1)]


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_two_consumers_that_move_at_the_same_time_do_not_set_each_other_back(
    folders, client, monkeypatch
):
    really, sent = alteration._send, []

    def send(client, raw, told, writer):
        sent.append(raw)
        if len(sent) == 1:
            consumer(folders, "second").advance(3)
        really(client, raw, told, writer)

    monkeypatch.setattr(alteration, "_send", send)
    consumer(folders, "first").advance(2)
    assert known(folders) == [("first", 2, 1), ("second", 3, 0)]
    assert len(sent) == 3


@FAKE
def test_a_consumer_that_is_forgotten_is_a_new_one(folders):
    consumer(folders).advance(3)
    consumer(folders, "other").advance(1)
    assert turn(folders) is None
    assert forget_consumer(folders.client, folders.ref, "log")
    assert not forget_consumer(folders.client, folders.ref, "log")
    assert known(folders) == [("other", 1, 2)]
    assert turn(folders) == (0, 3)


@FAKE
def test_of_a_table_with_nothing_but_aborted_and_open_writes_nothing_is_copied(client, database):
    folders = AcidFolders.create(client, f"{database}.t")
    txns = [client.open_txn("writer", "localhost", None) for _ in range(2)]
    for txn in txns:
        client.allocate_write_id(txn, folders.ref)
    assert turn(folders) is None
    client.abort_txn(txns[0])
    folders.insert()
    assert turn(folders) is None
    assert known(folders) == []
    client.abort_txn(txns[1])
    assert turn(folders) == (0, 3)


@FAKE
def test_a_cursor_moves_only_in_the_table_that_it_is_of(client, folders):
    old = consumer(folders)
    old.created -= 1
    old.advance(3)
    assert known(folders) == []


def test_a_consumer_goes_on_in_a_table_that_was_renamed(client, database, folders):
    consumer(folders).advance(2)
    raw, ref = folders.table.raw, TableRef(database, "renamed")
    raw.tableName = ref.name
    call = idl_tables.alter_table_with_environment_context
    context = idl_tables.EnvironmentContext({})
    client.call(call, database, folders.ref.name, raw, context, about=folders.ref.full_name)
    assert turn(AcidFolders(client, ref)) == (2, 3)


@FAKE
def test_a_version_that_the_table_does_not_have_says_how_to_begin_anew(folders):
    with pytest.raises(VersionUnknown, match=r"no version 7.*another name"):
        turn(folders, "7")
