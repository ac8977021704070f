"""`hiveacid purge`: what it removes from a table, what it leaves, and when it refuses."""

import contextlib
import json
import time

import pytest

from hiveacid.errors import (
    ConflictError,
    LockTimeout,
    MetastoreError,
    SharedLocation,
    StorageError,
    UserError,
)
from hiveacid.metastore.alteration import send_definition
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.locks import Operation, Target
from hiveacid.rules.names import TableIdentity
from hiveacid.storage.folder import Storage
from hiveacid.storage.hidden_folder import HiddenFolder, Removal
from hiveacid.upkeep import table_cleaning
from hiveacid.upkeep.purge import leftovers, purge
from tests.metastore_calls import acting_after_answer, counted_calls
from tests.upkeep.acid_folders import AcidFolders, tree

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)

OWN = ("_hiveacid_runs/a.json", "_hiveacid_streams/s/1.json", "_hiveacid_consumers/c/7.json")
OF_DIRECTORY = ("_hiveacid.json", "_hiveacid_since.json", "_unfinished_0a__hiveacid_since.json")
PROPERTIES = {"hiveacid.retention": "7 days", "hiveacid.run_token": "d/r/t/-1"}


# Version 3 cannot compare definitions, so that a lost lock is another error.
ENDS = (ConflictError, MetastoreError)


def write(root, *paths):
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("{}")


def set_properties(folders, properties):
    raw = folders.table.raw
    raw.parameters |= properties
    send_definition(folders.client, folders.ref, raw)


def with_leftovers(folders):
    """Leave everything that jobs leave in a table; the tree from before."""
    name = folders.insert()
    foreign = ("_tmp_of_hive/x", ".hive-staging/x", "_unknown", f"{name}/_metadata_acid")
    write(folders.root, *foreign)
    before = folders.tree()
    txn = folders.client.open_txn("writer", "localhost", None)
    staged = f"{HiddenFolder(folders.table.folder, txn).name}/ready/delta_0000009_0000009/x"
    folders.client.abort_txn(txn)
    write(folders.root, *OWN, staged, *(f"{name}/{note}" for note in OF_DIRECTORY))
    write(folders.root, "_hiveacid_mirrors/m/1.json")
    set_properties(folders, {**PROPERTIES, "comment": "of users"})
    return before


def test_nothing_of_this_package_remains_and_nothing_of_hive_is_touched(folders, hiveacid):
    before = with_leftovers(folders)
    with_them = folders.tree()
    status, listed = hiveacid("purge", folders.ref.full_name)
    assert (status, folders.tree()) == (0, with_them)
    assert listed.splitlines()[0] == f"{folders.ref}: 8 to remove"
    assert "retries of earlier runs apply their work again" in listed
    assert "*/_hiveacid.json" in listed
    status, printed = hiveacid("purge", folders.ref.full_name, "--yes", "--json")
    assert status == 0
    removed = json.loads(printed)
    assert (removed["removed"], len(removed["leftovers"])) == (True, 8)
    assert folders.tree() == before
    parameters = folders.table.parameters
    assert not [name for name in parameters if name.startswith("hiveacid.")]
    assert parameters["comment"] == "of users"
    assert hiveacid("purge", folders.ref.full_name)[1] == f"{folders.ref}: 0 to remove\n"


def test_a_store_without_renames_is_purged_as_well(folders, monkeypatch):
    before = with_leftovers(folders)
    monkeypatch.setattr(Storage, "renames_at_once", False)
    assert len(purge(folders.client, folders.ref)) == 8
    assert folders.tree() == before


def test_leftovers_that_appear_meanwhile_are_an_error(folders, monkeypatch):
    with_leftovers(folders)
    monkeypatch.setattr(Removal, "delete", lambda *_: write(folders.root, OWN[0]))
    with pytest.raises(StorageError, match="were not removed"):
        purge(folders.client, folders.ref)


def test_partitions_are_purged_wherever_they_are(client, database, tmp_path):
    folders = AcidFolders.create(client, f"{database}.t", ["p=a"])
    elsewhere = tmp_path / "elsewhere"
    folders.add("p=b", location=f"file:{elsewhere}")
    trees = []
    for root in (folders.root / "p=a", elsewhere):
        folders.make("delta_0000001_0000001_0000", folder=root)
        trees.append(tree(root))
        write(root, "delta_0000001_0000001_0000/_hiveacid.json", "_tmp_hiveacid_0_a/x")
    write(folders.root, "_hiveacid_runs/a.json")
    found = purge(client, folders.ref)
    assert [each.path for each in found] == [
        "p=a/_tmp_hiveacid_0_a",
        "p=a/*/_hiveacid.json",
        f"file:{elsewhere}/_tmp_hiveacid_0_a",
        f"file:{elsewhere}/*/_hiveacid.json",
        "_hiveacid_runs",
    ]
    assert trees == [tree(folders.root / "p=a"), tree(elsewhere)]
    assert sorted(path.name for path in folders.root.iterdir()) == ["p=a"]


def writer(folders, **options):
    return Transaction(folders.client, targets=[Target(folders.ref, Operation.INSERT)], **options)


def test_it_waits_for_no_writer_with_a_lock(folders):
    with_leftovers(folders)
    before = folders.tree()
    with writer(folders), pytest.raises(LockTimeout):
        purge(folders.client, folders.ref, lock_wait_seconds=0)
    assert folders.tree() == before


@pytest.mark.parametrize("act", [leftovers, purge])
def test_an_open_transaction_that_stages_files_is_a_refusal(folders, act):
    txn = folders.client.open_txn("compactor", "localhost", None)
    write(folders.root, f"{HiddenFolder(folders.table.folder, txn).name}/x")
    before = folders.tree()
    with pytest.raises(LockTimeout, match=f"works on {folders.ref}: transaction {txn}"):
        act(folders.client, folders.ref)
    assert folders.tree() == before
    folders.client.abort_txn(txn)
    assert len(act(folders.client, folders.ref)) == 1


def test_an_open_transaction_of_a_run_that_writes_the_table_is_a_refusal(folders):
    job = folders.job(run_token="dag/run/task/-1")
    with (
        Transaction(folders.client, keeps_files=True, run_token=job.token) as txn,
        pytest.raises(LockTimeout, match=f"transaction {txn.txn_id}"),
    ):
        leftovers(folders.client, folders.ref)


def test_a_table_in_the_folder_of_another_one_is_refused(client, database, folders):
    write(folders.root, "_hiveacid_runs/a.json")
    AcidFolders.create(client, f"{database}.other", location=f"{folders.table.folder}/x")
    with pytest.raises(SharedLocation):
        purge(client, folders.ref)
    assert (folders.root / "_hiveacid_runs/a.json").exists()


def test_hidden_rows_of_an_earlier_table_are_left_to_a_cleaning(folders):
    earlier = TableIdentity(created=folders.table.identity.created - 10, id=1)
    assert Removal(Storage.of(folders.table.folder), earlier).hide(folders.insert())
    before = folders.tree()
    with pytest.raises(UserError) as raised:
        purge(folders.client, folders.ref)
    assert f"hiveacid clean {folders.ref}" in raised.value.remedy
    assert folders.tree() == before


def test_links_are_not_followed(folders, tmp_path):
    write(tmp_path, "notes/a.json")
    (folders.root / "_hiveacid_runs").symlink_to(tmp_path / "notes")
    assert purge(folders.client, folders.ref) == []
    assert (tmp_path / "notes" / "a.json").exists()


def test_a_killed_purge_is_completed_by_the_next(folders, monkeypatch):
    before = with_leftovers(folders)

    def die(*_):
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(Removal, "delete", die)
        with pytest.raises(SystemExit):
            purge(folders.client, folders.ref)
    assert folders.tree() != before
    purge(folders.client, folders.ref)
    assert folders.tree() == before


def test_a_table_that_was_created_again_after_any_answer_keeps_its_notes(
    client, database, monkeypatch
):
    monkeypatch.setattr(table_cleaning, "_CONFIRMED_SECONDS", 0)

    def purged_table(number):
        folders = AcidFolders.create(client, f"{database}.t{number}")
        with_leftovers(folders)
        return folders

    folders = purged_table("_counted")
    with counted_calls() as calls:
        assert purge(client, folders.ref)
    # The last answer ends the transaction.
    answers = sum(calls.values()) - 1
    assert answers > 30
    for number in range(answers):
        folders = purged_table(number)
        trees = []

        def meanwhile(folders=folders, trees=trees):
            for lock in client.show_locks(folders.ref):
                client.abort_txn(lock.txn_id)
            table = folders.table
            table.raw.createTime = int(time.time()) + 5
            client.drop_table(folders.ref)
            client.create_table(table)
            with_leftovers(folders)
            trees.append(folders.tree())

        with acting_after_answer(number, meanwhile), contextlib.suppress(*ENDS):
            purge(client, folders.ref)
        assert trees == [folders.tree()], f"after answer {number}"
