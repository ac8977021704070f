"""The directories that a cleaning keeps for readers of earlier versions, and the time until then."""

import os
import time
from datetime import UTC, datetime, timedelta

import pytest

from hiveacid.errors import InvalidJob, StorageError
from hiveacid.jobs.maintenance_jobs import versions_in_words
from hiveacid.records.consumers import Consumer, forget_consumer
from hiveacid.records.table_history import OldestVersion, oldest_version
from hiveacid.rules.names import SIDECAR_FILE, Base, Delta
from hiveacid.rules.notes import WrittenFile, directory_note
from hiveacid.rules.schema import TableKind
from hiveacid.upkeep.table_detail import table_detail
from tests.upkeep.acid_folders import AcidFolders, kept, removed

FAKE = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
# Those of a directory of AcidFolders.
FILES = [WrittenFile("bucket_00000", 0, 7)]


@pytest.fixture
def compacted(folders):
    """A table with two deltas and the base that they became; the names of all three."""
    return [folders.insert(), folders.insert(), folders.compact(Base(2))]


def tell(folders, name, replaced, *, days=0.0, told=0.0):
    """Leave a note in a directory, as our compactions and overwrites do.

    Args:
        days: Its age by the clock of the storage.
        told: Its age by the clock of the writer.
    """
    told = datetime.now(UTC) - timedelta(days=told)
    note = {"replaces": replaced, "aborted": [], "time": told.isoformat()}
    (folders.root / name / SIDECAR_FILE).write_bytes(directory_note(note, FILES))
    then = time.time() - 86_400 * days
    for file in (folders.root / name).iterdir():
        os.utime(file, (then, then))


@pytest.mark.parametrize("owner", ["job", "table"])
def test_directories_of_versions_are_kept_for_the_retention(client, database, owner):
    told = {"job": "1 h", "table": "7 days", owner: "7 days"}
    folders = AcidFolders.create(
        client, f"{database}.r", parameters={"hiveacid.retention": told["table"]}
    )
    options = {"retention": told["job"]} if owner == "job" else {}
    old = [folders.insert(), folders.insert()]
    base = folders.compact(Base(2))
    tell(folders, base, old, days=6.9, told=30)
    for dry_run in (True, False):
        report = folders.clean(dry_run=dry_run, **options)
        assert report.removed == ()
        assert [(kept.bytes, kept.retained) for kept in report.kept] == [(8, True)] * 2
        assert report.bytes_retained == 16
    tell(folders, base, old, days=7)
    report = folders.clean(**options)
    assert (removed(report), report.kept, report.bytes_retained) == (old, (), 0)


@FAKE
@pytest.mark.parametrize(
    ("option", "by_table", "job", "kept_days"),
    [
        (None, None, None, 1),
        ("", None, None, 1),
        ("0", None, None, 0),
        ("2 days", None, None, 2),
        ("0", "3 days", None, 3),
        ("2 days", "0", None, 0),
        ("2 days", "3 days", "0", 0),
        ("0", "0", "4 days", 4),
    ],
)
def test_the_table_precedes_the_option_and_a_job_both(
    client, database, monkeypatch, option, by_table, job, kept_days
):
    if option is not None:
        monkeypatch.setenv("AIRFLOW__HIVE_ACID__RETENTION", option)
    parameters = {} if by_table is None else {"hiveacid.retention": by_table}
    folders = AcidFolders.create(client, f"{database}.r", parameters=parameters)
    old = [folders.insert(), folders.insert()]
    base = folders.compact(Base(2))
    for days, names in ((kept_days - 0.1, []), (kept_days + 0.1, old)):
        if days > 0:
            tell(folders, base, old, days=days)
            assert removed(folders.clean(dry_run=True, retention=job)) == names


@FAKE
def test_an_invalid_option_is_named(folders, compacted, monkeypatch):
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__RETENTION", "a day")
    with pytest.raises(InvalidJob, match=r"option retention of \[hive_acid\] cannot be 'a day'"):
        folders.clean()
    assert removed(folders.clean(retention="0", dry_run=True)) == compacted[:2]


@FAKE
def test_the_default_keeps_neither_aborted_directories_nor_what_no_cleanup_protects(
    client, database
):
    protected = {"no_cleanup": "true"}
    folders = AcidFolders.create(client, f"{database}.r")
    old = [folders.insert(), folders.insert()]
    aborted = folders.insert(commit=False)
    tell(folders, folders.compact(Base(2)), old)
    report = folders.clean()
    assert (removed(report), sorted(kept(report))) == ([aborted], old)
    folders = AcidFolders.create(client, f"{database}.p", parameters=protected)
    old = [folders.insert(), folders.insert()]
    tell(folders, folders.compact(Base(2)), old, days=2)
    assert set(kept(folders.clean()).values()) == {"The table has the property no_cleanup."}


def test_a_job_can_override_the_retention_of_the_table(client, database):
    week = {"hiveacid.retention": "7 days"}
    folders = AcidFolders.create(client, f"{database}.r", parameters=week)
    old = [folders.insert(), folders.insert()]
    tell(folders, folders.compact(Base(2)), old)
    assert removed(folders.clean(retention="0")) == old


@FAKE
def test_unread_changes_are_kept_until_the_consumer_has_read_them(client, folders, compacted):
    *old, base = compacted
    tell(folders, base, old, days=29.9)
    name = folders.ref.full_name
    Consumer(client, name, "log", ["d.copy"]).begin(1)
    for dry_run in (True, False):
        report = folders.clean(dry_run=dry_run)
        assert removed(report) == []
        assert all("log (at version 1)" in reason for reason in kept(report).values())
        assert report.bytes_retained == 16
    assert removed(folders.clean(dry_run=True, consumer_retention="29 days")) == old
    Consumer(client, name, "log", ["d.copy"]).advance(2)
    assert removed(folders.clean()) == old


@FAKE
def test_an_abandoned_consumer_is_awaited_for_the_table_s_retention(client, database):
    week = {"hiveacid.consumer_retention": "7 days"}
    folders = AcidFolders.create(client, f"{database}.r", parameters=week)
    old = [folders.insert(), folders.insert()]
    base = folders.compact(Base(2))
    Consumer(client, folders.ref.full_name, "log", ["d.copy"]).advance(1)
    tell(folders, base, old, days=6.9)
    assert removed(folders.clean()) == []
    tell(folders, base, old, days=7.1)
    assert removed(folders.clean()) == old


@FAKE
def test_files_kept_for_a_consumer_are_removed_after_it_is_forgotten(client, folders, compacted):
    *old, base = compacted
    tell(folders, base, old)
    Consumer(client, folders.ref.full_name, "log", ["d.copy"]).advance(1)
    assert removed(folders.clean(retention="0")) == []
    assert forget_consumer(client, folders.ref, "log")
    assert removed(folders.clean(retention="0")) == old


@FAKE
@pytest.mark.parametrize(
    ("written", "instead"),
    [('"version": 2', '"version": 3'), ("}", ""), ('"created": ', '"created": 1')],
    ids=["another version", "half a file", "another creation"],
)
def test_all_is_kept_for_a_consumer_with_an_invalid_cursor(
    client, folders, compacted, written, instead
):
    *old, base = compacted
    tell(folders, base, old)
    Consumer(client, folders.ref.full_name, "log", ["d.copy"]).advance(2)
    (cursor,) = (folders.root / "_hiveacid_consumers" / "log").iterdir()
    cursor.write_text(cursor.read_text().replace(written, instead))
    report = folders.clean(retention="0")
    assert removed(report) == []
    assert all("log (at version 0)" in reason for reason in kept(report).values())
    assert removed(folders.clean(retention="0", consumer_retention="0")) == old


@pytest.mark.parametrize(("days", "stays"), [(30, False), (1, True), (-3650, True)])
def test_a_note_of_the_future_is_not_believed(folders, compacted, days, stays):
    *old, base = compacted
    tell(folders, base, old, days=days, told=-3650)
    report = folders.clean(retention="7 days")
    assert removed(report) == ([] if stays else old)
    unknown = ["unknown since when" in reason for reason in kept(report).values()]
    assert unknown == ([days < 0] * 2 if stays else [])


def test_directories_of_no_version_are_not_kept(folders, compacted):
    assert removed(folders.clean(retention="7 days")) == compacted[:2]


def test_no_cleanup_with_a_retention_permits_our_cleaning(client, database):
    both = {"hiveacid.retention": "7 days", "no_cleanup": "true"}
    folders = AcidFolders.create(client, f"{database}.r", partitions=[], parameters=both)
    folders.add("p=1")
    folders.add("p=2", parameters={"no_cleanup": "true"})
    for partition in ("p=1", "p=2"):
        folders.insert(partition)
        folders.compact(Base(2), partition)
    report = folders.clean()
    assert removed(report) == ["p=1/delta_0000001_0000001_0000"]
    assert kept(report) == {
        "p=2/delta_0000002_0000002_0000": "The partition has the property no_cleanup."
    }


def test_an_invalid_retention_removes_nothing(client, database):
    folders = AcidFolders.create(
        client, f"{database}.r", parameters={"hiveacid.retention": "7 dayz"}
    )
    folders.insert()
    folders.compact(Base(1))
    before = folders.tree()
    with pytest.raises(InvalidJob, match=f"hiveacid.retention of {database}.r cannot be '7 dayz'"):
        folders.clean()
    assert folders.tree() == before


@FAKE
@pytest.mark.parametrize("merged", [True, False])
def test_a_report_states_the_oldest_version_that_remains(client, database, merged):
    folders = AcidFolders.create(client, f"{database}.r")
    old = [folders.insert(), folders.insert()]
    base = folders.compact(Base(2))
    compacted, committed = datetime.now(UTC) - timedelta(hours=2), datetime(2026, 1, 2, tzinfo=UTC)
    facts = [{"write_id": 2, "time": committed.isoformat()}] if merged else []
    note = {"replaces": old, "aborted": [], "time": compacted.isoformat(), "writes": facts}
    (folders.root / base / SIDECAR_FILE).write_bytes(directory_note(note, FILES))
    kept = folders.clean()
    assert (kept.oldest_version, kept.oldest_version_at, kept.bytes_retained) == (0, None, 16)
    assert versions_in_words(kept) == "All versions can be read. 16 B are kept for earlier ones."
    for dry_run in (True, False):
        done = folders.clean(dry_run=dry_run, retention="0")
        at = committed if merged else compacted
        assert (done.oldest_version, done.oldest_version_at) == (2, at.timestamp())
        assert versions_in_words(done) == f"Versions can be read since 2, of {at:%F %T} UTC."
    detail = table_detail(client, folders.ref)
    assert (detail.oldest_version, detail.oldest_version_at) == (2, at.timestamp())
    assert oldest_version(client, folders.ref) == OldestVersion(2, at.timestamp())


@FAKE
def test_the_oldest_version_is_that_of_the_partition_with_the_fewest(client, database):
    names = [f"p={number}" for number in range(12)]
    folders = AcidFolders.create(client, f"{database}.r", names)
    for name in names[:10]:
        folders.insert(name)
    # Version 4 of a base of Hive, which lists nothing; 9 kept for a day; 12 in an empty folder.
    folders.compact(Base(4), names[3])
    tell(
        folders, f"{names[8]}/{folders.compact(Base(9), names[8])}", ["delta_0000009_0000009_0000"]
    )
    for _ in range(2):
        folders.insert(names[10])
    tell(folders, f"{names[11]}/{folders.compact(Base(12), names[11])}", [])
    report = folders.clean()
    assert removed(report) == ["p=3/delta_0000004_0000004_0000"]
    assert report.oldest_version == 4
    assert abs(report.oldest_version_at - time.time()) < 600
    assert folders.clean(retention="0", partitions=names[:3]).oldest_version is None
    assert folders.clean(retention="0").oldest_version == 9


@FAKE
def test_in_an_insert_only_table_minor_compactions_end_versions(client, database):
    folders = AcidFolders.create(client, f"{database}.f", kind=TableKind.INSERT_ONLY)
    old = [folders.insert(), folders.insert()]
    merged = folders.compact(Delta(1, 2))
    tell(folders, merged, old)
    assert folders.clean().oldest_version == 0
    assert folders.clean(retention="0").oldest_version == 2


@FAKE
def test_a_lost_note_makes_no_failure_of_a_cleaning_that_has_ended(folders, compacted, monkeypatch):
    def fail(*_):
        raise StorageError("lost")

    monkeypatch.setattr("hiveacid.upkeep.table_cleaning.OldestVersion.of", fail)
    report = folders.clean(retention="0")
    assert (removed(report), report.oldest_version) == (compacted[:2], None)
    assert versions_in_words(report) == ""
