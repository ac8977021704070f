"""A cleaner that sleeps for longer than its lock lives, or that others do not wait for."""

import contextlib
import time

import pytest

from hiveacid.errors import ConflictError, TransactionAborted
from hiveacid.metastore.thrift import idl_tables
from hiveacid.metastore.txn.owner import Owner, open_transaction
from hiveacid.progress import Phase, PhaseClock, PhaseObserver
from hiveacid.rules.locks import read_lock_components
from hiveacid.rules.names import READER_NOTE_FILE, Base, TableIdentity, removal_identity
from hiveacid.storage.folder import Storage
from hiveacid.storage.hidden_folder import Removal
from hiveacid.upkeep import table_cleaning
from hiveacid.upkeep.table_cleaning import clean
from tests.fakes.metastore import REAL_AND_FAKE, FakeMetastore
from tests.metastore_calls import DESCRIBED, STORAGE_READ, acting_after_answer, counted_calls
from tests.upkeep.acid_folders import AcidFolders, kept, removed

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


def clean_and_die(folders, phase, number):
    """Clean until the process dies at the beginning of a phase."""

    def die():
        raise SystemExit

    with pytest.raises(SystemExit):
        clean_asleep(folders, phase, number, die)


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


def hidden(folders):
    """The names of hidden folders with files of unfinished removals."""
    return [path.name for path in folders.root.rglob("_*") if removal_identity(path.name)]


@pytest.fixture
def age(hms, eventually):
    """Let a table have been created some time ago: version 3 distinguishes only whole seconds."""

    def age(table):
        if isinstance(hms, FakeMetastore):
            hms.let_tables_age()
        elif table.identity.id is None:
            eventually("a new second", lambda: time.time() > table.identity.created + 1)

    return age


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


def test_a_table_that_was_created_again_without_a_lock_keeps_its_rows(folders, aborted, age):
    def meanwhile():
        age(folders.table)
        recreate(folders, aborted)

    with pytest.raises(ConflictError, match="created again"):
        clean_asleep(folders, Phase.CLEAN, 2, meanwhile)
    assert folders.directories() == sorted(aborted)


@pytest.mark.parametrize("lost", [False, True])
def test_a_table_that_was_created_again_after_any_answer_keeps_its_rows(
    client, database, age, lost
):
    def cleaned_table(number):
        folders = AcidFolders.create(client, f"{database}.t{number}")
        names = [folders.insert(commit=False) for _ in range(2)]
        folders.insert()
        age(folders.table)
        return folders, names

    folders, names = cleaned_table("_counted")
    with counted_calls() as calls:
        assert removed(folders.clean()) == names
    # The last answers end the transaction.
    answers = sum(calls.values()) - calls[DESCRIBED] - 1
    assert answers > 8
    for number in range(answers):
        folders, names = cleaned_table(number)

        def meanwhile(folders=folders, names=names):
            if lost:
                lose_lock(folders)
            recreate(folders, names)

        with acting_after_answer(number, meanwhile), contextlib.suppress(ConflictError):
            folders.clean()
        assert folders.directories() == sorted(names), f"after answer {number}"
        assert removed(folders.clean()) == []


def test_nothing_is_deleted_when_the_lock_is_lost(folders, aborted):
    files = {content for content in folders.tree().values() if content is not None}
    with pytest.raises(TransactionAborted):
        clean_asleep(folders, Phase.CLEAN, 2, lambda: lose_lock(folders))
    assert files <= set(folders.tree().values())
    # Only the number of a table proves that hidden files belong to it.
    numbered = folders.table.identity.id is not None
    assert folders.directories()[:-1] == ([] if numbered else aborted)
    folders.clean()
    assert folders.directories() == sorted({*folders.directories()} - {*aborted})
    assert not hidden(folders)


@pytest.mark.parametrize("number", [2, 3])
def test_the_next_cleaning_completes_that_of_a_killed_process(folders, aborted, number):
    clean_and_die(folders, Phase.CLEAN, number)
    assert hidden(folders)
    folders.clean()
    assert not hidden(folders)
    assert {*folders.directories()}.isdisjoint(aborted)


def test_the_next_cleaning_puts_back_what_was_judged_for_an_earlier_table(folders):
    earlier = TableIdentity(created=folders.table.identity.created - 10, id=1)
    name = folders.insert()
    before = folders.tree()
    removal = Removal(Storage.of(folders.table.folder), earlier)
    assert removal.hide(name)
    assert folders.directories() == []
    assert removed(folders.clean(dry_run=True)) == []
    assert "put back" in " ".join(kept(folders.clean()).values())
    assert folders.tree() == before
    assert (removed(folders.clean()), hidden(folders)) == ([], [])


def test_a_missing_file_leaves_no_hidden_folder(folders):
    before = folders.tree()
    removal = Removal(Storage.of(folders.table.folder), folders.table.identity)
    assert not removal.hide("delta_0000001_0000001_0000")
    assert folders.tree() == before


def test_a_process_that_sleeps_while_another_cleaning_takes_its_files_deletes_nothing_else(
    folders, aborted, age
):
    """It hides rows of the new table after a cleaning has taken its hidden folder."""

    def meanwhile():
        lose_lock(folders)
        folders.clean()
        age(folders.table)
        recreate(folders, aborted)

    with pytest.raises(ConflictError):
        clean_asleep(folders, Phase.CLEAN, 2, meanwhile)
    assert folders.directories() == sorted(aborted)
    assert not hidden(folders)


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
    assert removed(report) == [f"p=2/{other}"]
    assert "dropped or moved" in kept(report)[f"p=1/{second}"]
    assert folders.directories("p=1") == [first, second]


def test_removals_are_verified_together(client, database, monkeypatch):
    monkeypatch.setattr(table_cleaning, "_CONFIRMED_SECONDS", 60)
    names = [f"p={number}" for number in range(8)]
    folders = AcidFolders.create(client, f"{database}.p", names)
    garbage = [f"{name}/{folders.insert(name, commit=False)}" for name in names]
    folders.insert("p=0")
    with counted_calls() as calls:
        assert removed(clean(client, folders.job())) == sorted(garbage)
    # By the inspection.
    assert calls["get_partitions_by_names"] + calls[STORAGE_READ] == 1
    # Before they are hidden, and before they are deleted.
    assert calls["heartbeat_txn_range"] == 2


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
