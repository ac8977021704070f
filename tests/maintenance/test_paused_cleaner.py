"""A cleaner that sleeps for longer than its lock lives, or that others do not wait for."""

import time

import pytest

from airflow_hiveacid.acid.locks import read_lock_components
from airflow_hiveacid.acid.names import READER_NOTE_FILE, Base
from airflow_hiveacid.errors import ConflictError, TransactionAborted
from airflow_hiveacid.maintenance import table_cleaning
from airflow_hiveacid.maintenance.table_cleaning import clean
from airflow_hiveacid.metastore.thrift import idl_tables
from airflow_hiveacid.metastore.txn.owner import Owner, open_transaction
from airflow_hiveacid.progress import Phase, PhaseClock, PhaseObserver
from tests.fakes.metastore import REAL_AND_FAKE
from tests.maintenance.acid_folders import AcidFolders, kept, removed
from tests.metastore_calls import STORAGE_READ, counted_calls

pytestmark = REAL_AND_FAKE


class Asleep(PhaseObserver):
    """Lets something happen when a phase is entered for the n-th time."""

    def __init__(self, phase, number, meanwhile):
        self.phase, self.left, self.meanwhile = phase, number, meanwhile

    def enter(self, phase):
        self.left -= phase is self.phase
        if phase is self.phase and self.left == 0:
            self.meanwhile()


def clean_asleep(folders, phase, number, meanwhile):
    """Clean with a pause that is longer than the time for which a confirmation counts."""
    phases = PhaseClock([Asleep(phase, number, meanwhile)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_cleaning, "_CONFIRMED_SECONDS", 0)
        return clean(folders.client, folders.job(), phases=phases)


def lose_lock(folders):
    """Abort a silent transaction like the metastore."""
    for lock in folders.client.show_locks(folders.ref):
        folders.client.abort_txn(lock.txn_id)


def recreate(folders, names):
    """Drop the table, create it again, and let directories of the same names hold its rows."""
    table = folders.table
    folders.client.drop_table(folders.ref)
    folders.client.create_table(table)
    for _ in names:
        folders.insert()
    assert folders.directories() == sorted(names)


@pytest.fixture
def folders(client, database):
    return AcidFolders.create(client, f"{database}.t")


@pytest.fixture
def aborted(folders):
    """The directories of two writers that were aborted, before another one was not."""
    names = [folders.insert(commit=False) for _ in range(2)]
    folders.insert()
    return names


def test_a_table_that_was_created_again_when_the_lock_was_lost_keeps_its_rows(folders, aborted):
    def meanwhile():
        lose_lock(folders)
        recreate(folders, aborted)

    with pytest.raises(ConflictError):
        clean_asleep(folders, Phase.CLEAN, 2, meanwhile)
    assert folders.directories() == sorted(aborted)


def test_a_table_that_was_created_again_without_a_lock_keeps_its_rows(folders, aborted, eventually):
    created = folders.table.raw.createTime

    def meanwhile():
        # The metastore counts in seconds.
        eventually("a new second", lambda: time.time() > created + 1)
        recreate(folders, aborted)

    with pytest.raises(ConflictError, match="created again"):
        clean_asleep(folders, Phase.CLEAN, 2, meanwhile)
    assert folders.directories() == sorted(aborted)


def test_nothing_more_is_removed_when_the_lock_is_lost(folders, aborted):
    with pytest.raises(TransactionAborted):
        clean_asleep(folders, Phase.CLEAN, 2, lambda: lose_lock(folders))
    assert folders.directories()[:-1] == aborted[1:]
    assert removed(folders.clean()) == aborted[1:]


def test_a_moved_partition_is_kept_and_others_are_cleaned(client, database, tmp_path):
    folders = AcidFolders.create(client, f"{database}.p", ["p=1", "p=2"])
    first, second, other = (
        folders.insert(partition, commit=False) for partition in ("p=1", "p=1", "p=2")
    )
    folders.insert("p=2")

    def move():
        (partition,) = client.get_partitions(client.get_table(folders.ref), ["p=1"])
        partition.raw.sd.location = f"file:{tmp_path}/far"
        call = idl_tables.alter_partitions_with_environment_context
        context = idl_tables.EnvironmentContext({"DO_NOT_UPDATE_STATS": "true"})
        client.call(call, folders.ref.database, folders.ref.name, [partition.raw], context)

    report = clean_asleep(folders, Phase.CLEAN, 2, move)
    assert removed(report) == sorted([f"p=1/{first}", f"p=2/{other}"])
    assert "dropped or moved" in kept(report)[f"p=1/{second}"]
    assert folders.directories("p=1") == [second]


def test_removals_at_the_same_moment_are_confirmed_together(client, database, monkeypatch):
    monkeypatch.setattr(table_cleaning, "_CONFIRMED_SECONDS", 60)
    names = [f"p={number}" for number in range(8)]
    folders = AcidFolders.create(client, f"{database}.p", names)
    garbage = [f"{name}/{folders.insert(name, commit=False)}" for name in names]
    folders.insert("p=0")
    with counted_calls() as calls:
        assert removed(clean(client, folders.job())) == sorted(garbage)
    # Once by the inspection, and once before the removals.
    assert calls["get_partitions_by_names"] + calls[STORAGE_READ] == 2
    assert calls["heartbeat_txn_range"] == 1


def test_no_note_on_readers_gets_into_a_table_that_was_created_again(folders):
    old = [folders.insert(), folders.insert()]
    base = folders.compact(Base(2))

    def meanwhile():
        lose_lock(folders)
        recreate(folders, old)
        folders.make(base)

    # This one begins before: its directories must remain, and are noted.
    txn = folders.client.open_txn("somebody", "elsewhere", None)
    with pytest.raises(ConflictError):
        clean_asleep(folders, Phase.REGISTER, 1, meanwhile)
    assert not (folders.root / base / READER_NOTE_FILE).exists()
    folders.client.abort_txn(txn)


def begin_and_die(folders, job):
    """Hold the lock of a cleaning whose process no longer exists; return its transaction."""
    client, owner = folders.client, Owner.of(job.token, "alice")
    txn = open_transaction(client, owner)
    client.lock(
        read_lock_components(folders.ref, True), txn, owner.user, owner.host, owner.agent_info
    )
    return txn


def test_the_next_attempt_of_a_run_ends_the_lock_of_a_killed_one(folders):
    killed = begin_and_die(folders, folders.job(run_token="d/r/clean/-1"))
    assert [lock.txn_id for lock in folders.client.show_locks(folders.ref)] == [killed]
    folders.clean(run_token="d/r/clean/-1")
    assert folders.client.show_locks(folders.ref) == []


@pytest.mark.parametrize("token", [None, "d/r/other/-1"])
def test_the_lock_of_another_cleaning_is_left_to_its_owner(folders, token):
    running = begin_and_die(folders, folders.job(run_token=token))
    folders.clean(run_token="d/r/clean/-1")
    folders.clean()
    assert [lock.txn_id for lock in folders.client.show_locks(folders.ref)] == [running]
    folders.client.abort_txn(running)  # As `hiveacid txns abort` does.
    assert folders.client.show_locks(folders.ref) == []
