"""Consumers of a table's changes, and their cursors in the folder of the table."""

import json

import pytest

from airflow_hiveacid import ChangesSource
from hiveacid.errors import (
    ConflictError,
    CorruptFile,
    InvalidJob,
    PositionMismatch,
    StorageError,
    TableReplaced,
    VersionUnknown,
)
from hiveacid.metastore.thrift import idl_tables
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.records.consumers import Consumer, forget_consumer, known_consumers
from hiveacid.rules.names import Base, TableRef
from hiveacid.storage.folder import LocalStorage
from tests.upkeep.acid_folders import AcidFolders

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
TARGETS = ("d.copy",)


@pytest.fixture
def folders(client, database):
    folders = AcidFolders.create(client, f"{database}.t")
    for _ in range(3):
        folders.insert()
    return folders


def consumer(folders, name="log", targets=TARGETS):
    return Consumer(folders.client, folders.ref.full_name, name, targets)


def known(folders):
    now = Snapshot.take(folders.client, [folders.ref]).write_ids[folders.ref.full_name]
    return [
        (one.name, one.version, one.behind) for one in known_consumers(folders.table, now, None)
    ]


def turn(folders, after="0", name="log"):
    found = consumer(folders, name).range(ChangesSource(folders.ref.full_name, after=after))
    return None if found is None else (found.after, found.up_to)


def files(folders, name="log"):
    return sorted((folders.root / "_hiveacid_consumers" / name).iterdir())


def test_a_consumer_without_copies_begins_at_the_current_start_of_its_job(folders):
    for after in (0, 2, 1):
        assert turn(folders, str(after)) == (after, 3)
        consumer(folders).begin(after)
        assert known(folders) == [("log", after, 3 - after)]
    consumer(folders).advance(2)
    assert turn(folders, "0") == turn(folders, "1") == (2, 3)
    consumer(folders).begin(0)
    consumer(folders).advance(1)
    assert known(folders) == [("log", 2, 1)]
    assert len(files(folders)) == 1


def test_a_new_consumer_can_begin_at_the_oldest_version(folders):
    assert turn(folders, "oldest") == (0, 3)
    folders.compact(Base(2))
    assert turn(folders, "oldest") == (2, 3)
    consumer(folders).begin(2)
    folders.compact(Base(3))
    # Runs before the first copy agree on the registered version, also when it is gone.
    assert turn(folders, "oldest") == (2, 3)
    assert turn(folders, "oldest", name="other") is None
    consumer(folders).advance(3)
    folders.insert()
    assert turn(folders, "oldest") == (3, 4)


@pytest.mark.parametrize("copied", [False, True])
def test_of_two_runs_that_find_other_oldest_versions_one_begins(folders, copied):
    source = ChangesSource(folders.ref.full_name, after="oldest")
    slow = consumer(folders)
    assert slow.next_after(source) == 0
    folders.compact(Base(2))
    fast = consumer(folders)
    fast.begin(fast.next_after(source))
    if copied:
        fast.advance(3)
    with pytest.raises(ConflictError, match="has begun meanwhile"):
        slow.begin(0)
    assert known(folders) == [("log", 3, 0) if copied else ("log", 2, 1)]


def test_runs_of_one_consumer_at_the_same_time_never_set_it_back(folders, monkeypatch):
    """The slower one has found the older cursor, and writes after the faster one."""
    slow, really, written = consumer(folders), LocalStorage.write_file, []

    def write_file(storage, path, content, *, replace=False):
        written.append(path)
        if len(written) == 1:
            consumer(folders).advance(3)
        really(storage, path, content, replace=replace)

    slow.begin(0)
    monkeypatch.setattr(LocalStorage, "write_file", write_file)
    slow.advance(2)
    assert len(written) == 2
    assert (known(folders), slow.after) == ([("log", 3, 0)], 3)
    consumer(folders).advance(3)
    assert [path.name for path in files(folders)] == ["3.json"]


@pytest.mark.parametrize("written", [True, False])
def test_a_lost_answer_is_settled_by_looking(folders, monkeypatch, written):
    really = LocalStorage.write_file

    def write_file(storage, path, content, *, replace=False):
        if written:
            really(storage, path, content, replace=replace)
        raise StorageError("The answer was lost.")

    moving = consumer(folders)
    moving.advance(1)
    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "write_file", write_file)
        if written:
            moving.advance(2)
        else:
            with pytest.raises(StorageError, match="lost"):
                moving.advance(2)
    assert known(folders) == [("log", 2, 1) if written else ("log", 1, 2)]
    moving.advance(2)
    assert known(folders) == [("log", 2, 1)]


def test_leftovers_of_a_kill_are_removed_by_the_next_move(folders):
    consumer(folders).begin(0)
    (begun,) = files(folders)
    for name in ("begin", "1", "3"):
        (begun.parent / f"_unfinished_0123abcd_{name}.json").write_text("{")
    assert turn(folders) == (0, 3)
    consumer(folders).advance(2)
    # The files that another run is about to write remain.
    assert [path.name for path in files(folders)] == ["2.json", "_unfinished_0123abcd_3.json"]


def test_one_name_with_two_targets_is_refused(folders):
    consumer(folders).begin(0)
    with pytest.raises(PositionMismatch, match=r"log of .* writes d\.copy .* not d\.x, d\.y"):
        consumer(folders, targets=["d.y", "D.x"])
    consumer(folders).advance(2)
    with pytest.raises(PositionMismatch, match=r"not file:/feed") as raised:
        consumer(folders, targets=["file:///feed/"])
    assert "after='2'" in raised.value.remedy
    assert turn(folders, name="other") == (0, 3)
    assert known(folders) == [("log", 2, 1)]
    # A read-only consumer has no target.
    assert Consumer(folders.client, folders.ref.full_name, "log").after == 2


def test_targets_are_the_same_however_they_are_spelled(folders):
    consumer(folders, targets=["D.b", "d.A", "d.b", "file:///Lake//feed/"]).begin(0)
    assert consumer(folders, targets=["file:/Lake/feed", "d.a", "d.b"]).after is None


def test_of_two_targets_that_begin_at_the_same_time_one_is_refused(folders, monkeypatch):
    """The second one begins between the look and the write of the first one."""
    really, other = LocalStorage.write_file, consumer(folders, targets=["d.other"])

    def write_file(storage, path, content, *, replace=False):
        monkeypatch.undo()
        other.begin(0)
        really(storage, path, content, replace=replace)

    one = consumer(folders)
    monkeypatch.setattr(LocalStorage, "write_file", write_file)
    with pytest.raises(PositionMismatch, match=r"writes d\.other .* not d\.copy"):
        one.begin(0)
    with pytest.raises(PositionMismatch):
        one.advance(2)
    other.advance(3)
    assert known(folders) == [("log", 3, 0)]


def other_creation(folders, **changes):
    """Change the table that the cursor of "log" names."""
    (path,) = files(folders)
    cursor = json.loads(path.read_text())
    for name, change in changes.items():
        place = cursor["table"] if name in cursor["table"] else cursor["table"]["identity"]
        place[name] = change(place[name])
    path.write_text(json.dumps(cursor))


@pytest.mark.parametrize(
    "changes",
    [
        {"created": lambda time: time - 1},
        {"name": lambda name: f"{name}_old"},
        {"location": lambda folder: f"{folder}_old"},
        {"id": lambda number: (number or 0) + 1},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_cursor_of_another_creation_of_the_table_is_refused(folders, client, changes):
    begun = consumer(folders)
    begun.begin(1)
    other_creation(folders, **changes)
    if "id" in changes and folders.table.raw.id is None:
        assert turn(folders, "1") == (1, 3)  # The record is of a later version of the metastore.
        return
    with pytest.raises(PositionMismatch, match=r"belongs to .*, and the table is now") as raised:
        consumer(folders)
    assert "consumers forget" in raised.value.remedy
    assert "after='1'" in raised.value.remedy
    with pytest.raises(PositionMismatch):
        begun.advance(3)
    assert known(folders) == [("log", 0, 3)]
    assert forget_consumer(client, folders.ref, "log")
    assert turn(folders) == (0, 3)


def test_a_cursor_does_not_move_in_a_table_that_was_created_again(client, folders):
    old = consumer(folders)
    old._described.raw.createTime -= 1
    with pytest.raises(TableReplaced):
        old.advance(3)
    assert known(folders) == []


def test_a_cursor_that_cannot_be_read_is_not_a_new_consumer(folders, client):
    consumer(folders).advance(2)
    files(folders)[0].write_text('{"format": 1')
    with pytest.raises(CorruptFile, match="cannot be read as the cursor of a consumer") as raised:
        consumer(folders)
    assert "forget" in raised.value.remedy
    # Cleanings keep all that it may need.
    assert known(folders) == [("log", 0, 3)]


def test_a_consumer_that_is_forgotten_is_a_new_one(folders, client):
    consumer(folders).advance(3)
    consumer(folders, "other").advance(1)
    assert turn(folders) is None
    assert forget_consumer(client, folders.ref, "log")
    assert not forget_consumer(client, folders.ref, "log")
    assert known(folders) == [("other", 1, 2)]
    assert turn(folders) == (0, 3)
    for name in ("", ".", "../x", "other/"):
        with pytest.raises(InvalidJob):
            forget_consumer(client, folders.ref, name)
    assert known(folders) == [("other", 1, 2)]


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


def test_the_consumer_of_a_table_that_was_renamed_continues_under_another_name(
    client, database, folders
):
    consumer(folders).advance(2)
    raw, ref = folders.table.raw, TableRef(database, "renamed")
    raw.tableName = ref.name
    call = idl_tables.alter_table_with_environment_context
    context = idl_tables.EnvironmentContext({})
    client.call(call, database, folders.ref.name, raw, context, about=folders.ref.full_name)
    renamed = AcidFolders(client, ref)
    with pytest.raises(PositionMismatch, match=r"\.t \(.*\.renamed \(") as raised:
        turn(renamed)
    assert "another name, and after='2'" in raised.value.remedy
    assert turn(renamed, after="2", name="log_2") == (2, 3)


def test_a_missing_version_has_a_remedy(folders):
    with pytest.raises(VersionUnknown, match=r"no version 7.*another name"):
        turn(folders, "7")
