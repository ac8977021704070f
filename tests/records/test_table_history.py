"""The history of a table in its folders."""

import json
import os
import shutil
import sys
from dataclasses import fields
from datetime import UTC, datetime, timedelta

import pytest

from hiveacid.errors import VersionUnknown, WrongTableKind
from hiveacid.jobs import codec
from hiveacid.metastore.compactions import CompactionTransaction
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.records import table_history as module
from hiveacid.records.proofs import digest_of
from hiveacid.records.run_notes import RunNote
from hiveacid.records.table_history import (
    table_history,
    version_directories,
    version_of,
)
from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.names import Base, Delta
from hiveacid.rules.schema import TableKind
from hiveacid.rules.write_ids import AsOf
from hiveacid.storage.listing import DirectorySizes
from tests.upkeep.acid_folders import AcidFolders

TIME = "2026-11-20T12:00:00+00:00"
SECONDS = 1795176000.0
FILE_BYTES = len("no rows")

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)


def history(folders, **options):
    return table_history(folders.client, folders.ref, **options)


def note(write_id, **more):
    """The note of a run of ours, in each directory and beside the table."""
    report = {
        "rows_inserted": 5,
        "rows_updated": 2,
        "rows_deleted": 1,
        "files": 1,
        "bytes": 70,
        "seconds": {"read": 0.5, "write": 1.0},
    }
    return {
        "run_token": f"dag/run-{write_id}/merge/-1",
        "operation": "merge",
        "txn_id": 40 + write_id,
        "write_id": write_id,
        "time": TIME,
        "user": "ann",
        "report": report,
    } | more


def leave_run_note(folders, write_id, *, marked=True, token=None, files=1, **more):
    """Write the note of a run of ours beside the table, marked as after its commit."""
    said = note(write_id, **more)
    report = said["report"] | {"job": "merge", "target": folders.ref.full_name, "files": files}
    token = token or said["run_token"]
    known = {field.name for field in fields(RunNote)}
    content = {key: value for key, value in said.items() if key in known} | {
        "format": 1,
        "run_token": token,
        "write_id": write_id,
        "identity": codec.encode(folders.table.identity),
        "report": report,
    }
    runs = folders.root / "_hiveacid_runs"
    runs.mkdir(exist_ok=True)
    name = f"{digest_of(token)}.{said['txn_id']}{'.committed' * marked}.json"
    (runs / name).write_text(json.dumps(content))
    return runs / name


def test_writes_and_compactions_have_a_state(folders):
    first, second = folders.insert(), folders.insert()
    base = folders.compact(Base(2))
    lost = folders.compact(Delta(1, 2), commit=False)
    txn = folders.client.open_txn("writer", "localhost", None)
    folders.make(Delta(folders.client.allocate_write_id(txn, folders.ref), 3, 0).name)
    entries = history(folders)
    folders.client.abort_txn(txn)
    after = history(folders)
    # In version 3 the names contain no transactions.
    gone = "aborted" if "_v" in lost else "merged"
    compactions = [("minor", gone), ("major", "current")]
    if "_v" not in lost:
        compactions.reverse()  # It may have merged the other one.
    assert [(entry.write_id, entry.operation, entry.state.value) for entry in entries] == [
        (3, None, "open"),
        *((None, *compaction) for compaction in compactions),
        (2, None, "merged"),
        (1, None, "merged"),
    ]
    assert (after[0].write_id, after[0].state.value) == (3, "aborted")
    (major,) = [entry for entry in entries if entry.operation == "major"]
    write = entries[4]
    assert [each.name for each in major.directories] == [base]
    assert [entry.directories[0].name for entry in entries[3:]] == [second, first]
    assert (major.first_write_id, major.last_write_id, major.merged) == (0, 2, ((1, 2),))
    assert (write.bytes, write.kinds, write.rows_inserted) == (FILE_BYTES, ("insert",), None)
    assert write.time is not None
    # A complete listing of the folder differs from the listing for some entries.
    assert history(folders, limit=sys.maxsize) == after
    assert history(folders, limit=3) == after[:3]
    assert history(folders, limit=0) == []


def test_the_queue_identifies_foreign_bases_of_rebalances(folders):
    folders.insert()
    if not folders.client.features.hides_compactions:
        folders.compact(Base(1))
        assert [entry.operation for entry in history(folders)] == ["major", None]
        return
    rebalance = CompactionTransaction(
        folders.client, folders.ref, None, CompactionType.REBALANCE, lock_wait_seconds=0
    )
    with rebalance:
        rebalance.record(1)
        folders.make(Base(1, rebalance.txn_id).name)
        rebalance.commit()
    folders.insert()
    folders.compact(Base(2))
    told = [entry.operation for entry in history(folders)]
    assert told == ["major", None, "rebalance", None]


def test_a_compaction_whose_directory_is_removed_meanwhile_is_no_entry(folders, monkeypatch):
    """The names are listed first, and the content of the newest ones later."""
    folders.insert()
    folders.compact(Delta(1, 1))
    folders.insert()
    list_contents = DirectorySizes.list_contents

    def removed_before(sizes, names):
        wanted = list(names)
        for path in folders.root.glob("delta_0000001_*"):
            shutil.rmtree(path)
        list_contents(sizes, wanted)

    monkeypatch.setattr(DirectorySizes, "list_contents", removed_before)
    entries = history(folders)
    assert [(entry.write_id, entry.state.value, entry.bytes) for entry in entries] == [
        (2, "current", FILE_BYTES),
        (1, "cleaned", None),
    ]


def test_notes_of_jobs_contain_writer_operation_and_time(folders):
    name = folders.insert()
    (folders.root / name / "_hiveacid.json").write_text(json.dumps(note(1)))
    half = folders.insert()
    (folders.root / half / "_hiveacid.json").write_text('{"run_tok')
    other = folders.insert()
    once = note(3, run_token="dag/2026-11-20/merge/-1", run_id="manual__7")
    (folders.root / other / "_hiveacid.json").write_text(json.dumps(once))
    named, unknown, entry = history(folders)
    assert (named.run_token, named.run_id) == ("dag/2026-11-20/merge/-1", "manual__7")
    assert entry.run_id is None
    assert (entry.operation, entry.time, entry.seconds) == ("merge", SECONDS, 1.5)
    assert (entry.rows_inserted, entry.rows_updated, entry.rows_deleted) == (5, 2, 1)
    assert (entry.run_token, entry.txn_id, entry.user) == ("dag/run-1/merge/-1", 41, "ann")
    assert (unknown.operation, unknown.rows_inserted, unknown.run_token) == (None, None, None)
    assert unknown.time is not None


def test_a_write_over_several_partitions_is_one_entry_with_true_counts_below(client, database):
    parted = AcidFolders.create(client, f"{database}.parted", ["p=1", "p=2"])
    parted.insert("p=1")
    (write_id,) = (entry.write_id for entry in history(parted))
    name = parted.make(Delta(write_id, write_id, 0).name, "p=2")
    for partition, rows in (("p=1", 3), ("p=2", 4)):
        files = {"bucket_00000": {"rows": rows, "bytes": FILE_BYTES}}
        told = note(write_id) | {"format": 1, "files": files}
        (parted.root / partition / name / "_hiveacid.json").write_text(json.dumps(told))
    (entry,) = history(parted, directories=True)
    assert (entry.rows_inserted, entry.bytes, entry.partition_count) == (5, 70, 2)
    rows = {each.partition: each.rows for each in entry.directories}
    assert rows == {"p=1": 3, "p=2": 4}
    assert version_directories(client, parted.ref, write_id) == list(entry.directories)
    assert version_directories(client, parted.ref, write_id + 1) == []


def test_writes_without_directories_are_found_in_the_notes_of_runs(folders):
    for write_id in (1, 2, 3):
        folders.insert()
        leave_run_note(folders, write_id)
    leave_run_note(folders, 4, marked=False)  # It was never committed.
    leave_run_note(folders, 3, token="empty", files=0)
    (folders.root / "_hiveacid_runs" / f"{'0' * 64}.application.json").write_text('"app"')
    base = folders.compact(Base(2))
    for write_id in (1, 2):
        shutil.rmtree(folders.root / Delta(write_id, write_id, 0).name)
    entries = history(folders)
    assert [(entry.write_id, entry.state.value, entry.directory_count) for entry in entries] == [
        (3, "current", 1),
        (None, "current", 1),
        (2, "cleaned", 0),
        (1, "cleaned", 0),
    ]
    assert entries[1].directories[0].name == base
    gone = entries[-1]
    assert (gone.bytes, gone.rows_inserted, gone.run_token) == (70, 5, "dag/run-1/merge/-1")


def test_a_version_at_a_time_is_found_without_the_notes_of_older_files(folders, monkeypatch):
    """The notes of all runs are read only if no other note than a compaction's describes a write."""
    for day in (1, 11, 21):
        name = folders.insert()
        write_id = int(name.split("_")[1])
        path = folders.root / name / "_hiveacid.json"
        path.write_text(json.dumps(note(write_id, time=at(day).isoformat())))
        run = leave_run_note(folders, write_id, time=at(day).isoformat())
        for file in (*path.parent.iterdir(), run):
            os.utime(file, (at(day).timestamp(),) * 2)
    assert versions_at(folders, monkeypatch, 0, 11, 15, 25) == {
        0: (None, 3),
        11: (2, 2),
        15: (2, 1),
        25: (3, 0),
    }
    folders.compact(Base(2))  # It is much younger.
    shutil.rmtree(folders.root / Delta(1, 1, 0).name)
    assert versions_at(folders, monkeypatch, 0, 15, 25) == {0: (None, 3), 15: (2, 4), 25: (3, 3)}


def at(day):
    return datetime(2026, 3, 1, tzinfo=UTC) + timedelta(days=day)


def versions_at(folders, monkeypatch, *days):
    """The version at the end of each day, if any, and how many notes on writes were read for it."""
    opened = []
    parse = module.WriteFacts.of_note
    now = Snapshot.take(folders.client, [folders.ref]).write_ids[folders.ref.full_name]
    found = {}
    for day in days:
        opened.clear()
        with monkeypatch.context() as patched:
            patched.setattr(
                module.WriteFacts, "of_note", lambda *told: opened.append(told) or parse(*told)
            )
            try:
                version = version_of(folders.client, folders.ref, AsOf(time=at(day)), now)
                found[day] = version.high_watermark, len(opened)
            except VersionUnknown:
                found[day] = None, len(opened)
    return found


def test_and_by_the_notes_of_compactions_as_far_as_they_can_be_true(folders):
    names = [folders.insert() for _ in range(3)]
    base = folders.compact(Base(2))
    for name in names[:2]:
        shutil.rmtree(folders.root / name)
    writes = [{"write_id": number, "user": "ann", "rows_deleted": 7} for number in (3, 2, 9)]
    told = {"format": 1, "replaces": names[:2], "writes": writes, "seconds": {"write": 2.5}}
    (folders.root / base / "_hiveacid.json").write_text(json.dumps(told))
    last, major, gone = history(folders)
    assert (last.write_id, last.user) == (3, None)
    assert (major.merged, major.seconds) == (((1, 2),), 2.5)
    assert (gone.write_id, gone.state.value, gone.user, gone.rows_deleted) == (
        2,
        "cleaned",
        "ann",
        7,
    )
    assert gone.time is None


def test_partitions_are_distinguished_in_any_place(client, database, tmp_path):
    parted = AcidFolders.create(client, f"{database}.parted", ["p=1"])
    parted.add("p=far", location=f"file:{tmp_path}/far")
    parted.insert("p=1")
    (write_id,) = (entry.write_id for entry in history(parted))
    parted.make(Delta(write_id, write_id, 0).name, folder=tmp_path / "far")
    (entry,) = history(parted)
    assert entry.partitions == ("p=1", "p=far")


def test_an_empty_table_has_no_history_and_a_plain_one_never(client, database, folders):
    assert history(folders) == []
    plain = AcidFolders.create(client, f"{database}.plain", kind=TableKind.NOT_ACID)
    with pytest.raises(WrongTableKind, match="plain"):
        history(plain)
