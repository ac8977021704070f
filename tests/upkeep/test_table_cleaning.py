"""The directories that a cleaning removes from a table, and the readers that it waits for."""

import os
import shutil
import time
from datetime import timedelta

import pytest

from hiveacid.errors import (
    InvalidJob,
    TableNotFound,
    TableReplaced,
    WrongTableKind,
)
from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.metastore.thrift import idl
from hiveacid.metastore.thrift.answers import TxnType
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.progress import Phase, PhaseClock, PhaseObserver
from hiveacid.records.proofs import note_readers, possible_readers, read_reader_note
from hiveacid.rules.locks import (
    DataOperation,
    LockComponent,
    LockLevel,
    LockType,
    Operation,
    Target,
)
from hiveacid.rules.names import READER_NOTE_FILE, Base, Delta
from hiveacid.rules.schema import TableKind
from hiveacid.storage.folder import Storage
from hiveacid.upkeep.table_cleaning import clean
from tests.clocks import set_clock
from tests.upkeep.acid_folders import AcidFolders, kept, removed

# Only locks without a transaction are ever unlocked.
UNLOCK_REQUEST = idl.struct("UnlockRequest", "1:i64 lockid")
UNLOCK = idl.call("unlock", "1:UnlockRequest rqst")


@pytest.fixture
def compacted(folders):
    """A table with two deltas and the base that they became; the names of all three."""
    return [folders.insert(), folders.insert(), folders.compact(Base(2))]


def test_obsolete_directories_are_removed_without_readers(folders, compacted):
    *old, base = compacted
    newer = folders.insert()
    report = folders.clean()
    assert removed(report) == old
    assert {directory.why for directory in report.removed} == {f"{base} holds its content."}
    assert report.bytes == sum(directory.bytes for directory in report.removed) == 16
    assert (report.kept, report.warnings) == ((), ())
    assert folders.directories() == [base, newer]
    assert folders.clean().removed == ()


def test_a_minor_compaction_is_cleaned_after_too(folders):
    old = [folders.insert(), folders.insert()]
    new = folders.compact(Delta(1, 2))
    assert removed(folders.clean()) == old
    assert folders.directories() == [new]


def test_a_reader_that_began_before_is_never_hurt(folders):
    old = [folders.insert(), folders.insert()]
    with folders.reading() as reader:
        base = folders.compact(Base(2))
        note_readers(
            possible_readers(folders.client, folders.ref), Storage.of(folders.table.folder), base
        )
        report = folders.clean()
        assert report.removed == ()
        assert sorted(kept(report)) == old
        assert f"{base} holds its content" in kept(report)[old[0]]
        assert f"transaction {reader.txn_id} of " in kept(report)[old[0]]
        assert folders.directories() == sorted([*old, base])
    assert removed(folders.clean()) == old


def test_a_later_reader_blocks_nothing(folders, compacted):
    *old, base = compacted
    note_readers(
        possible_readers(folders.client, folders.ref), Storage.of(folders.table.folder), base
    )
    with folders.reading():
        assert removed(folders.clean()) == old


@pytest.mark.parametrize("kind", [TxnType.DEFAULT, TxnType.READ_ONLY])
def test_an_old_transaction_that_locks_nothing_here_is_waited_for(folders, kind):
    old = [folders.insert(), folders.insert()]
    txn = folders.client.open_txn("somebody", "elsewhere", None, kind)
    folders.compact(Base(2))
    report = folders.clean()
    assert report.removed == ()
    assert f"transaction {txn} of somebody" in kept(report)[old[0]]
    folders.client.abort_txn(txn)
    assert removed(folders.clean()) == old


def test_a_lock_without_a_transaction_is_waited_for(folders):
    old = [folders.insert(), folders.insert()]
    lock = LockComponent(
        type=LockType.SHARED_READ,
        level=LockLevel.TABLE,
        database=folders.ref.database,
        table=folders.ref.name,
        partition=None,
        operation=DataOperation.SELECT,
        is_transactional=True,
        is_dynamic_partition_write=False,
    )
    held = folders.client.lock([lock], 0, "somebody", "elsewhere", None)
    base = folders.compact(Base(2))
    note_readers(
        possible_readers(folders.client, folders.ref), Storage.of(folders.table.folder), base
    )
    report = folders.clean()
    assert report.removed == ()
    assert f"lock {held.lock_id} of somebody" in kept(report)[old[0]]
    folders.client.call(UNLOCK, UNLOCK_REQUEST(lockid=held.lock_id))
    assert removed(folders.clean()) == old


def test_the_first_cleaning_remembers_who_is_there_for_the_next(folders, compacted):
    *old, base = compacted
    with folders.reading() as earlier:
        assert folders.clean().removed == ()
        note = read_reader_note(Storage.of(folders.table.folder), base)
        assert note.high_watermark >= earlier.txn_id
    # Without the note, this reader would be in the way as well.
    with folders.reading():
        assert removed(folders.clean()) == old


def test_half_a_note_is_written_again(folders, compacted):
    *old, base = compacted
    (folders.root / base / READER_NOTE_FILE).write_text('{"high_wat')
    with folders.reading():
        assert folders.clean().removed == ()
    with folders.reading():
        assert removed(folders.clean()) == old


def test_a_note_never_brings_back_a_directory(folders):
    folders.insert()
    before = folders.tree()
    note_readers(
        possible_readers(folders.client, folders.ref), Storage.of(folders.table.folder), "base_9"
    )
    assert folders.tree() == before


def test_aborted_directories_are_removed_despite_readers(folders):
    with folders.reading():
        aborted, live = folders.insert(commit=False), folders.insert()
        report = folders.clean()
    assert removed(report) == [aborted]
    assert folders.directories() == [live]


@pytest.mark.parametrize("hms", ["4.0.1"], indirect=True)
def test_the_output_of_an_aborted_compaction_goes_when_no_lock_is_left(folders):
    old = [folders.insert(), folders.insert()]
    output = folders.compact(Base(2), commit=False)
    with folders.reading():
        report = folders.clean()
        assert report.removed == ()
        assert "is aborted" in kept(report)[output]
    assert removed(folders.clean()) == [output]
    assert folders.directories() == old


def test_an_open_write_stays_and_the_reason_names_the_writer(folders):
    folders.insert()
    with Transaction(folders.client, targets=[Target(folders.ref, Operation.INSERT)]) as txn:
        (write_id,) = txn.write_ids.values()
        name = folders.make(Delta(write_id, write_id, 0).name)
        report = folders.clean()
        assert report.removed == ()
        assert f"transaction {txn.txn_id} of " in kept(report)[name]


def test_a_dry_run_reports_the_same_and_changes_nothing(folders, compacted, monkeypatch):
    old = compacted[:-1]
    folders.make("_tmp_hiveacid_1_ab12")
    before = folders.tree()
    monkeypatch.setattr(Storage, "of", None)  # The only way to a folder that can be changed.
    txns = folders.client.get_open_txns()
    report = folders.clean(dry_run=True)
    assert folders.tree() == before
    after = folders.client.get_open_txns()
    # The metastore may remove aborted transactions of other tests at any time.
    assert after.high_watermark == txns.high_watermark
    assert set(after.open_txns) <= set(txns.open_txns)
    monkeypatch.undo()
    really = folders.clean()
    assert (report.removed, report.bytes) == (really.removed, really.bytes)
    assert removed(report) == sorted([*old, "_tmp_hiveacid_1_ab12"])
    assert (report.dry_run, really.dry_run) == (True, False)


def test_a_dry_run_leaves_no_note(folders, compacted):
    with folders.reading():
        before = folders.tree()
        report = folders.clean(dry_run=True)
    assert sorted(kept(report)) == compacted[:-1]
    assert folders.tree() == before


def test_only_the_partitions_that_are_asked_for_are_cleaned(client, database):
    folders = AcidFolders.create(client, f"{database}.p", ["p=1", "p=2"])
    for partition in ("p=1", "p=2"):
        folders.insert(partition)
    folders.compact(Base(2), "p=1")
    folders.compact(Base(2), "p=2")
    report = folders.clean(partitions=["p=2", "p=gone"])
    assert removed(report) == ["p=2/delta_0000002_0000002_0000"]
    assert len(folders.directories("p=1")) == 2
    assert removed(folders.clean()) == ["p=1/delta_0000001_0000001_0000"]


def test_a_partition_elsewhere_is_shown_by_its_whole_path(client, database, tmp_path):
    folders = AcidFolders.create(client, f"{database}.p", ["p=1"])
    far = f"file:{tmp_path}/far"
    folders.add("p=2", location=far)
    old = folders.insert("p=1")
    shutil.copytree(folders.root / "p=1" / old, tmp_path / "far" / old)
    folders.compact(Base(1), folder=tmp_path / "far")
    assert removed(folders.clean()) == [f"{far}/{old}"]
    assert folders.directories("p=1") == [old]


def test_staging_folders_and_notes_of_the_past_go(client, database):
    folders = AcidFolders.create(client, f"{database}.p", ["p=1"])
    folders.insert("p=1")
    with Transaction(client, targets=[Target(folders.ref, Operation.INSERT)]) as running:
        mine = f"_tmp_hiveacid_{running.txn_id}_ab12"
        ended = f"_tmp_hiveacid_{running.txn_id - 1}_ab12"
        for name in (mine, ended):
            folders.make(name)
            folders.make(name, "p=1")
        folders.make(".hive-staging_1")
        folders.make("_hiveacid_runs")
        notes = folders.root / "_hiveacid_runs"
        os.utime(notes / "bucket_00000", (0, 0))
        for_ever = folders.clean(keep_notes_days=1e9, dry_run=True)
        assert "_hiveacid_runs/bucket_00000" not in removed(for_ever)
        report = folders.clean()
        assert removed(report) == sorted([ended, f"p=1/{ended}", "_hiveacid_runs/bucket_00000"])
        assert sorted(path.name for path in folders.root.iterdir()) == sorted(
            [".hive-staging_1", "_hiveacid_runs", mine, "p=1"]
        )
        assert [path.name for path in notes.iterdir()] == ["_orc_acid_version"]


@pytest.mark.parametrize("ahead_days", [-400, 0, 400])
def test_notes_expire_by_the_clock_of_the_storage(folders, monkeypatch, ahead_days):
    notes = folders.root / folders.make("_hiveacid_runs")
    now, day = time.time(), 86_400
    for name, age in (("newest", 100), ("kept", 129), ("expired", 131)):
        (notes / name).write_text("{}")
        os.utime(notes / name, (now - age * day,) * 2)
    for name in ("_orc_acid_version", "bucket_00000"):
        (notes / name).unlink()
    set_clock(monkeypatch.setattr, [timedelta(days=ahead_days)])
    assert removed(folders.clean()) == ["_hiveacid_runs/expired"]


def test_a_file_of_the_future_lets_no_note_expire(folders):
    notes = folders.root / folders.make("_hiveacid_runs")
    os.utime(notes / "bucket_00000", (time.time() + 10**8,) * 2)
    assert removed(folders.clean()) == []


def test_a_directory_that_cannot_be_understood_keeps_its_partition_only(client, database):
    folders = AcidFolders.create(client, f"{database}.p", ["p=1", "p=2"])
    folders.insert("p=1")
    folders.insert("p=2")
    for partition in ("p=1", "p=2"):
        folders.compact(Base(2), partition)
    folders.make("delta_x", "p=1")
    before = sorted(folders.directories("p=1"))
    report = folders.clean()
    assert "delta_x" in kept(report)["p=1"]
    assert sorted(folders.directories("p=1")) == before
    assert removed(report) == ["p=2/delta_0000002_0000002_0000"]


@pytest.mark.parametrize("owner", ["table", "partition"])
def test_directories_protected_by_a_property_are_kept(client, database, owner):
    properties = {"table": {}, "partition": {}, owner: {"NO_CLEANUP": "true"}}
    folders = AcidFolders.create(
        client, f"{database}.n", partitions=[], parameters=properties["table"]
    )
    folders.add("p=1", parameters=properties["partition"])
    old = [folders.insert("p=1"), folders.insert("p=1", commit=False)]
    folders.compact(Base(1), "p=1")
    report = folders.clean()
    assert report.removed == ()
    reason = f"The {owner} has the property NO_CLEANUP."
    assert kept(report) == {f"p=1/{name}": reason for name in old}


def test_a_half_removed_directory_is_removed_by_the_next_cleaning(folders, compacted):
    *old, base = compacted
    (folders.root / old[0] / "bucket_00000").unlink()
    shutil.rmtree(folders.root / old[1])
    (folders.root / old[1]).mkdir()
    assert removed(folders.clean()) == old
    assert folders.directories() == [base]


class AfterDeciding(PhaseObserver):
    """An observer with an action between a decision and its execution."""

    def __init__(self, action):
        self.reads, self.action = 0, action

    def leave(self, phase, seconds):
        self.reads += phase is Phase.READ
        if self.reads == 3:  # The first two were for the folders, and for the files beside them.
            self.reads += 1
            self.action()


def test_a_concurrently_recreated_table_is_left_alone(folders, compacted, eventually):
    table = folders.table

    def recreate():
        # The metastore counts in seconds.
        eventually("a new second", lambda: time.time() > table.raw.createTime + 1)
        folders.client.drop_table(folders.ref)
        folders.client.create_table(table)
        for name in compacted:
            folders.make(name)

    with pytest.raises(TableReplaced, match="created again"):
        clean(folders.client, folders.job(), phases=PhaseClock([AfterDeciding(recreate)]))
    assert folders.directories() == sorted(compacted)


def test_nothing_is_removed_without_the_directory_that_replaced_it(folders, compacted):
    *old, base = compacted
    vanish = AfterDeciding(lambda: shutil.rmtree(folders.root / base))
    report = clean(folders.client, folders.job(), phases=PhaseClock([vanish]))
    assert report.removed == ()
    assert f"{base}, which had the same content, was removed" in kept(report)[old[0]]
    assert folders.directories() == old


def test_a_table_that_is_written_meanwhile_is_cleaned_all_the_same(folders, compacted):
    write = AfterDeciding(folders.insert)
    report = clean(folders.client, folders.job(), phases=PhaseClock([write]))
    assert removed(report) == compacted[:-1]


def test_only_transactional_tables_are_cleaned(client, database):
    plain = AcidFolders.create(client, f"{database}.plain", kind=TableKind.NOT_ACID)
    with pytest.raises(WrongTableKind):
        plain.clean()
    with pytest.raises(TableNotFound):
        clean(client, CleanJob(target=f"{database}.gone"))
    with pytest.raises(InvalidJob):
        AcidFolders.create(client, f"{database}.whole").clean(partitions=["p=1"])


def test_half_a_note_in_a_directory_that_is_read_goes(folders, compacted):
    base = compacted[-1]
    assert removed(folders.clean()) == compacted[:-1]
    half = folders.root / base / "_unfinished_0123abcd__hiveacid_since.json"
    half.write_text('{"high')
    assert removed(folders.clean()) == [f"{base}/{half.name}"]
    assert not half.exists()
    assert folders.directories() == [base]
