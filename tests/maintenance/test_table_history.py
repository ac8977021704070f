"""What the folders of a table tell of its past."""

import json
import shutil

import pytest

from airflow_hiveacid.acid.names import Base, Delta
from airflow_hiveacid.acid.run_notes import digest_of
from airflow_hiveacid.acid.schema import TableKind
from airflow_hiveacid.errors import NotTransactional
from airflow_hiveacid.maintenance.history_entries import DirectoryState
from airflow_hiveacid.maintenance.table_history import table_history
from tests.maintenance.acid_folders import AcidFolders

TIME = "2026-11-20T12:00:00+00:00"
SECONDS = 1795176000.0
FILE_BYTES = len("no rows")

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)


@pytest.fixture
def folders(client, database):
    return AcidFolders.create(client, f"{database}.t")


def history(folders, **options):
    return table_history(folders.client, folders.ref, **options)


def note(write_id, **more):
    """What a run of ours writes of itself, in each directory and beside the table."""
    report = {"rows_inserted": 5, "rows_updated": 2, "rows_deleted": 1, "files": 1, "bytes": 70}
    return {
        "run_token": f"dag/run-{write_id}/merge/-1",
        "operation": "merge",
        "txn_id": 40 + write_id,
        "write_id": write_id,
        "time": TIME,
        "user": "ann",
        "report": report,
    } | more


def leave_run_note(folders, write_id, *, marked=True, token=None, files=1):
    """What a run of ours writes beside the table, and marks after its commit."""
    said = note(write_id)
    report = said["report"] | {"job": "merge", "target": folders.ref.full_name, "files": files}
    token = token or said["run_token"]
    content = said | {
        "format": 1,
        "run_token": token,
        "write_ids": {folders.ref.full_name: write_id},
        "report": report,
    }
    runs = folders.root / "_hiveacid_runs"
    runs.mkdir(exist_ok=True)
    name = f"{digest_of(token)}.{said['txn_id']}{'.committed' * marked}.json"
    (runs / name).write_text(json.dumps(content))


def test_every_directory_is_an_entry_with_its_state(folders):
    first, second = folders.insert(), folders.insert()
    base = folders.compact(Base(2))
    lost = folders.compact(Delta(1, 2), commit=False)
    txn = folders.client.open_txn("writer", "localhost", None)
    open_ = folders.make(Delta(folders.client.allocate_write_id(txn, folders.ref), 3, 0).name)
    entries = {entry.directory: entry for entry in history(folders)}
    folders.client.abort_txn(txn)
    after = {entry.directory: entry for entry in history(folders)}
    assert {name: entry.state.value for name, entry in entries.items()} == {
        open_: "open",
        base: "current",
        # Of version 3 the names tell nothing of transactions.
        lost: "obsolete" if "_v" not in lost else "aborted",
        second: "obsolete",
        first: "obsolete",
    }
    assert after[open_].state is DirectoryState.ABORTED
    kinds = {name: (entry.kind, entry.compaction) for name, entry in entries.items()}
    assert kinds[first] == ("insert", False)
    assert kinds[base] == ("major", True)
    assert kinds[lost] == ("minor", True)
    assert (entries[base].min_write_id, entries[base].max_write_id) == (0, 2)
    assert entries[first].bytes == FILE_BYTES
    assert entries[first].time is not None
    assert entries[first].operation is None


def test_the_newest_come_first_and_a_compaction_after_what_it_took_in(folders):
    names = [folders.insert() for _ in range(3)]
    base = folders.compact(Base(2))
    order = [names[2], base, names[1], names[0]]
    assert [entry.directory for entry in history(folders)] == order
    assert [entry.directory for entry in history(folders, limit=2)] == order[:2]


def test_notes_of_jobs_tell_who_wrote_what_and_when(folders):
    name = folders.insert()
    (folders.root / name / "_hiveacid.json").write_text(json.dumps(note(1)))
    half = folders.insert()
    (folders.root / half / "_hiveacid.json").write_text('{"run_tok')
    unknown, entry = history(folders)
    assert (entry.operation, entry.rows, entry.time) == ("merge", 8, SECONDS)
    assert (entry.run_token, entry.txn_id, entry.user) == ("dag/run-1/merge/-1", 41, "ann")
    assert (unknown.operation, unknown.rows, unknown.run_token) == (None, None, None)
    assert unknown.time is not None


def test_runs_whose_directories_are_gone_are_told_by_their_notes(folders):
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
    assert [(entry.max_write_id, entry.state.value, entry.directory) for entry in entries] == [
        (3, "current", Delta(3, 3, 0).name),
        (2, "current", base),
        (2, "cleaned", None),
        (1, "cleaned", None),
    ]
    gone = entries[-1]
    assert (gone.kind, gone.bytes, gone.rows) == ("insert", 70, 8)
    assert gone.run_token == "dag/run-1/merge/-1"


def test_partitions_are_told_apart_wherever_they_lie(client, database, tmp_path):
    parted = AcidFolders.create(client, f"{database}.parted", ["p=1"])
    parted.add("p=far", location=f"file:{tmp_path}/far")
    parted.insert("p=1")
    (write_id,) = (entry.max_write_id for entry in history(parted))
    parted.make(Delta(write_id, write_id, 0).name, folder=tmp_path / "far")
    assert {entry.partition for entry in history(parted)} == {"p=1", "p=far"}


def test_an_empty_table_has_no_history_and_a_plain_one_never(client, database, folders):
    assert history(folders) == []
    plain = AcidFolders.create(client, f"{database}.plain", kind=TableKind.NOT_ACID)
    with pytest.raises(NotTransactional, match="plain"):
        history(plain)
