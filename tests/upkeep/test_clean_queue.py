"""Cleaning ends the requests of HMS 4's queue for which nothing is left to be done."""

import shutil
from datetime import UTC, datetime
from functools import partial

import pytest

from hiveacid.errors import (
    MetastoreCallFailed,
    PermissionRefused,
    TableReplaced,
    TransactionAborted,
)
from hiveacid.metastore.compactions import (
    READY_FOR_CLEANING,
    CompactionQueue,
    CompactionTransaction,
)
from hiveacid.metastore.thrift.idl_tables import MetaException
from hiveacid.progress import Phase
from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.names import SIDECAR_FILE, STAGING_PREFIX, Base
from hiveacid.rules.notes import WrittenFile, directory_note
from hiveacid.storage.folder import LocalStorage
from tests.contract.compactions import needs_pools
from tests.fakes.compactions import Compactions
from tests.upkeep.acid_folders import AcidFolders, kept, removed
from tests.upkeep.test_paused_cleaner import clean_asleep, lose_lock, recreate

# Without pools no request of this package is in the queue.
pytestmark = needs_pools
REAL = pytest.mark.parametrize("hms", ["4.0.1"], indirect=True)
FAKE = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
# Those of a directory of AcidFolders.
FILES = [WrittenFile("bucket_00000", 0, 7)]


def begin(folders, partition=None):
    return CompactionTransaction(
        folders.client, folders.ref, partition, CompactionType.MAJOR, run_as="hive"
    )


def compact(folders, partition=None):
    """A major compaction, through the queue; the name of its base."""
    with begin(folders, partition) as compaction:
        last = compaction.write_ids.high_watermark
        name = folders.make(Base(last, compaction.visibility_txn).name, partition)
        compaction.record(last)
        compaction.commit()
    return name


def states(folders):
    return {
        request.id: request.state for request in CompactionQueue(folders.client).show(folders.ref)
    }


@REAL
def test_a_request_succeeds_when_its_directories_are_gone(folders):
    old = [folders.insert(), folders.insert()]
    base = compact(folders)
    (request,) = states(folders)
    report = folders.clean()
    assert removed(report) == old
    assert report.requests_cleaned == (request,)
    assert states(folders) == {request: "succeeded"}
    assert folders.directories() == [base]


@REAL
def test_a_request_waits_for_readers_of_replaced_directories(folders):
    folders.insert()
    folders.insert()
    with folders.reading():
        compact(folders)
        assert folders.clean().requests_cleaned == ()
        assert set(states(folders).values()) == {READY_FOR_CLEANING}
    assert len(folders.clean().requests_cleaned) == 1


@REAL
def test_a_request_does_not_wait_for_what_earlier_versions_need(folders):
    old = [folders.insert(), folders.insert()]
    base = compact(folders)
    note = {"replaces": old, "aborted": [], "time": datetime.now(UTC).isoformat()}
    (folders.root / base / SIDECAR_FILE).write_bytes(directory_note(note, FILES))
    aborted = folders.insert(commit=False)
    report = folders.clean(retention="7 days")
    assert removed(report) == [aborted]
    assert sorted(kept(report)) == old
    assert len(report.requests_cleaned) == 1


@REAL
def test_a_dry_run_leaves_the_queue_alone(folders):
    folders.insert()
    folders.insert()
    compact(folders)
    before = states(folders)
    assert folders.clean(dry_run=True).requests_cleaned == ()
    assert states(folders) == before


@REAL
def test_a_request_that_has_nothing_left_to_clean_succeeds_too(folders):
    old = [folders.insert(), folders.insert()]
    compact(folders)
    for name in old:
        shutil.rmtree(folders.root / name)
    assert len(folders.clean().requests_cleaned) == 1


@REAL
def test_aborted_writes_are_not_forgotten_while_their_directory_is_there(folders):
    folders.insert()
    aborted = folders.insert(commit=False)
    compact(folders)
    outside = folders.root.with_name("outside")
    (folders.root / aborted).rename(outside)
    (folders.root / aborted).symlink_to(outside)
    report = folders.clean()
    assert report.requests_cleaned == ()
    assert "symbolic link" in kept(report)[aborted]
    (folders.root / aborted).unlink()
    assert len(folders.clean().requests_cleaned) == 1


@REAL
def test_later_writes_do_not_hold_up_a_request(folders):
    folders.insert()
    folders.insert()
    compact(folders)
    folders.insert(commit=False)
    folders.insert()
    assert len(folders.clean().requests_cleaned) == 1


@REAL
def test_a_request_whose_compaction_is_not_committed_yet_waits(folders):
    folders.insert()
    folders.insert()
    with begin(folders) as compaction:
        compaction.record(compaction.write_ids.high_watermark)
        (request,) = CompactionQueue(folders.client).show(folders.ref)
        CompactionQueue(folders.client).compacted(request)
        report = folders.clean()
        assert report.requests_cleaned == ()
        assert set(states(folders).values()) == {READY_FOR_CLEANING}


@REAL
def test_no_request_is_ended_when_the_lock_is_lost(folders):
    folders.insert()
    compact(folders)
    with pytest.raises(TransactionAborted):
        clean_asleep(folders, Phase.CLEAN, 1, lambda: lose_lock(folders))
    assert set(states(folders).values()) == {READY_FOR_CLEANING}
    assert len(folders.clean().requests_cleaned) == 1


@REAL
def test_no_request_is_ended_for_a_table_that_was_created_again(folders):
    folders.insert()
    compact(folders)
    with pytest.raises(TableReplaced):
        clean_asleep(folders, Phase.REGISTER, 1, lambda: recreate(folders, []))
    assert "succeeded" not in states(folders).values()


@REAL
def test_only_requests_of_the_cleaned_partitions_are_ended(client, database):
    folders = AcidFolders.create(client, f"{database}.p", ["p=1", "p=2"])
    for partition in ("p=1", "p=2"):
        folders.insert(partition)
        folders.insert(partition)
        compact(folders, partition)
    first, second = states(folders)
    assert folders.clean(partitions=["p=1"]).requests_cleaned == (first,)
    assert states(folders) == {first: "succeeded", second: READY_FOR_CLEANING}


@REAL
def test_aborts_are_kept_while_staged_files_could_appear(client, database, monkeypatch):
    """A writer that was asleep during its abort continues by renaming its staged files."""
    folders = AcidFolders.create(client, f"{database}.parted", ["p=1"])
    folders.insert("p=1")
    folders.insert("p=1")
    asleep = client.open_txn("writer", "localhost", None)
    client.allocate_write_id(asleep, folders.ref)
    staged = folders.root / f"{STAGING_PREFIX}{asleep}_0123abcd"
    staged.mkdir()
    client.abort_txn(asleep)
    compact(folders, "p=1")
    delete = LocalStorage.delete_directory

    def refuse(storage, path):
        if path.startswith(STAGING_PREFIX):
            raise PermissionRefused(f"Access to {path} is refused.")
        delete(storage, path)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "delete_directory", refuse)
        with pytest.raises(PermissionRefused):
            folders.clean()
    assert set(states(folders).values()) == {READY_FOR_CLEANING}
    assert len(folders.clean().requests_cleaned) == 1
    assert not staged.exists()


def answering(monkeypatch, mark):
    """Let the metastore run ``mark`` around each report that a request is cleaned."""
    report = Compactions.mark_cleaned
    monkeypatch.setattr(Compactions, "mark_cleaned", lambda *call: mark(partial(report, *call)))


def refused():
    # The message of version 4.0.1, on PostgreSQL because of a duplicate key of its history.
    raise MetaException("Failed to execute function: markCleaned(...), details: ...")


@FAKE
def test_another_cleaner_may_report_the_same_at_the_same_time(folders, monkeypatch):
    folders.insert()
    folders.insert()
    compact(folders)

    def mark(report):
        report()  # By the other one, whose row the metastore cannot insert again.
        refused()

    answering(monkeypatch, mark)
    assert len(folders.clean().requests_cleaned) == 1
    assert set(states(folders).values()) == {"succeeded"}


@FAKE
def test_a_refused_report_is_repeated(folders, monkeypatch):
    folders.insert()
    folders.insert()
    compact(folders)
    reports = iter([refused, refused])
    answering(monkeypatch, lambda report: next(reports, report)())
    assert len(folders.clean().requests_cleaned) == 1
    assert set(states(folders).values()) == {"succeeded"}


@FAKE
def test_a_report_that_is_always_refused_is_an_error_and_made_by_the_next_cleaning(
    folders, monkeypatch
):
    folders.insert()
    folders.insert()
    base = compact(folders)
    with monkeypatch.context() as patch:
        answering(patch, lambda report: refused())
        with pytest.raises(MetastoreCallFailed, match="is ready for cleaning") as error:
            folders.clean()
    assert "Clean the table again" in error.value.remedy
    assert folders.directories() == [base]
    assert len(folders.clean().requests_cleaned) == 1


@FAKE
def test_a_request_that_failed_meanwhile_is_not_called_cleaned(folders, monkeypatch):
    folders.insert()
    folders.insert()
    compact(folders)

    # Another cleaner, after its last attempt.
    fail = iter([lambda report: Compactions.mark_failed(*report.args)])

    def mark(report):
        next(fail, lambda _: None)(report)
        refused()

    answering(monkeypatch, mark)
    with pytest.raises(MetastoreCallFailed):
        folders.clean()
    assert set(states(folders).values()) == {"failed"}
