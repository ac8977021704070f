"""An unreadable note on a run is not a missing one: other evidence decides, or a person."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hiveacid.errors import PermissionRefused, UnprovenRun
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.records.earlier_attempts import AlreadyApplied, EarlierAttempts
from hiveacid.records.proofs import NoteName, RunOutcome, digest_of
from hiveacid.records.run_notes import RunNoteFolder, mark_committed
from hiveacid.rules.names import RUN_NOTES, SIDECAR_FILE, TableRef
from hiveacid.rules.notes import MERGED_WRITES
from hiveacid.storage.folder import LocalStorage, ReadOnlyStorage, Storage
from tests.engine.killed_load import LATER, MAIN, OTHER, Load
from tests.fakes.metastore import REAL_AND_FAKE

FAKES = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
LARGE = b" " * (2 << 20)


def _as_directory(note: Path) -> None:
    note.unlink()
    note.mkdir()


def _with(content: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def damage(note: Path) -> None:
        note.write_bytes(content(note.read_bytes()))

    return damage


DAMAGES = {
    "empty": _with(lambda _: b""),
    "an object without fields": _with(lambda _: b"{}"),
    "cut off": _with(lambda content: content[:-20]),
    "too large": _with(lambda content: content + LARGE),
    "another type": _with(lambda content: content.replace(b'"files": 1', b'"files": "1"')),
    "another run": _with(lambda content: content.replace(b'"d/r/t/-1@', b'"d/r/u/-1@')),
    "a directory": _as_directory,
}
EACH_DAMAGE = pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
empty = DAMAGES["empty"]


def _notes(load: Load) -> list[Path]:
    assert load.job.token is not None
    digest = digest_of(load.job.token)
    folders = (load.folder(ref) / RUN_NOTES for ref in (load.main, load.other))
    return [note for folder in folders for note in folder.glob(f"{digest}*")]


def _damage(load: Load, damage: Callable[[Path], None]) -> None:
    for note in _notes(load):
        before = note.read_bytes()
        damage(note)
        assert note.is_dir() or note.read_bytes() != before


def _directories(load: Load, ref: TableRef) -> list[Path]:
    return [*load.folder(ref).glob("p=*/[bd]*")]


def _compact(load: Load) -> None:
    """Replace all directories of both tables by outputs of compactions."""
    for ref in (load.main, load.other):
        load.compact_and_clean(ref)
        assert [path.name[:5] for path in _directories(load, ref)] == ["base_"]


def _rows(load: Load) -> tuple[list[object], list[object]]:
    return load.rows(load.main), load.rows(load.other)


@EACH_DAMAGE
@REAL_AND_FAKE
def test_the_notes_of_directories_prove_a_run_with_unreadable_notes(load, kill, damage):
    kill("mark_committed")
    _damage(load, damage)
    again = load.run()
    assert again.already_done
    assert {*again.write_ids} == {str(load.main), str(load.other)}
    assert (again.rows_inserted, again.txn_id) == (2, int(_notes(load)[0].name.split(".")[1]))
    assert any("cannot be read" in warning for warning in again.warnings)
    assert _rows(load) == ([MAIN], [OTHER])


@FAKES
def test_a_readable_note_of_another_table_proves_the_run_with_its_whole_report(load, kill):
    kill("mark_committed")
    empty(_notes(load)[0])
    again = load.run()
    assert (again.already_done, again.rows_inserted) == (True, 2)
    assert _rows(load) == ([MAIN], [OTHER])


@FAKES
def test_an_unreadable_marked_note_is_proved_by_directories_too(load):
    first = load.run()
    _damage(load, empty)
    assert (load.run().already_done, load.run().txn_id) == (True, first.txn_id)
    for ref in (load.main, load.other):
        for directory in _directories(load, ref):
            shutil.rmtree(directory)
    with pytest.raises(UnprovenRun, match="its note is unreadable"):
        load.run()


@REAL_AND_FAKE
def test_without_other_evidence_an_unreadable_note_is_for_a_person(load, kill):
    kill("mark_committed")
    _damage(load, empty)
    for ref in (load.main, load.other):
        for directory in _directories(load, ref):
            (directory / SIDECAR_FILE).unlink()
    with pytest.raises(UnprovenRun, match="its note is unreadable") as unproven:
        load.run()
    assert all(note.name in unproven.value.what for note in _notes(load))
    assert "delete the note" in unproven.value.remedy
    assert _rows(load) == ([MAIN], [OTHER])
    for note in _notes(load):
        note.unlink()
    assert not load.run().already_done


@REAL_AND_FAKE
def test_the_notes_of_compactions_prove_the_writes_that_they_merged(load, kill):
    load.job = load.of([OTHER], [OTHER])
    kill("mark_committed")
    _damage(load, empty)
    _compact(load)
    again = load.run()
    assert (again.already_done, again.rows_inserted) == (True, 2)
    assert _rows(load) == ([OTHER, LATER], [OTHER, LATER])


@FAKES
def test_a_compaction_proves_no_run_whose_report_is_needed(load, kill, client):
    load.job = load.of([OTHER], [OTHER])
    kill("mark_committed")
    _damage(load, empty)
    _compact(load)
    assert load.job.token is not None
    attempts = [
        EarlierAttempts(client, [load.main, load.other], load.job.token, needs_report=needed)
        for needed in (True, False)
    ]
    with pytest.raises(UnprovenRun):
        attempts[0].end()
    with pytest.raises(AlreadyApplied):
        attempts[1].end()


@FAKES
def test_a_compaction_without_facts_proves_nothing(load, kill):
    load.job = load.of([OTHER], [OTHER])
    kill("mark_committed")
    _damage(load, empty)
    _compact(load)
    for ref in (load.main, load.other):
        for directory in _directories(load, ref):
            note = json.loads((directory / SIDECAR_FILE).read_bytes())
            note.pop(MERGED_WRITES, None)
            note.pop("run_token", None)
            (directory / SIDECAR_FILE).write_text(json.dumps(note))
    with pytest.raises(UnprovenRun):
        load.run()


@pytest.mark.parametrize("aborts", [True, False])
@EACH_DAMAGE
@FAKES
def test_an_aborted_attempt_is_repeated_in_spite_of_its_unreadable_notes(
    load, kill, client, damage, aborts
):
    """Also one whose transaction only the retry itself aborts."""
    kill("send_write_events")
    _damage(load, damage)
    if aborts:
        client.abort_txn(int(_notes(load)[0].name.split(".")[1]))
    assert not load.run().already_done
    assert load.run().already_done
    assert _rows(load) == ([MAIN], [OTHER])


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_an_abort_that_is_forgotten_is_not_guessed(load, kill, client, hms):
    """Version 3.1 forgets no abort without Hive's own cleaner."""
    load.job = load.of([OTHER], [OTHER])
    kill("send_write_events")
    notes = _notes(load)
    txn_id = NoteName.parse(notes[0].name).txn_id
    client.abort_txn(txn_id)
    for ref in (load.main, load.other):
        load.tables.run(load.tables.insert(ref, [LATER]))
        load.compact_and_clean(ref)
    hms.keep_house()
    assert txn_id not in Snapshot.take(client, []).txns.aborted
    for note in notes:
        note.write_bytes(b"")
    with pytest.raises(UnprovenRun):
        load.run()


@FAKES
def test_a_forged_note_on_another_run_applies_nothing(load, client):
    """The transaction is committed, and has directories, but they are those of another run."""
    other = load.run()
    assert load.job.token is not None
    forged = NoteName.of("d/forged/t/-1", other.txn_id)
    (load.folder(load.main) / RUN_NOTES / forged.name).write_bytes(b"{}")
    with pytest.raises(UnprovenRun):
        EarlierAttempts(client, [load.main], "d/forged/t/-1").end()


@FAKES
@pytest.mark.parametrize(
    "name", ["{}.json", "{}.json.bak", "{}", "{}.7.done.json", "._hiveacid_a1_{}.7.json"]
)
def test_a_file_without_the_name_of_a_note_is_no_note(load, name):
    assert load.job.token is not None
    folder = load.folder(load.main) / RUN_NOTES
    folder.mkdir()
    (folder / name.format(digest_of(load.job.token))).write_bytes(b"{}")
    assert not load.run().already_done


@FAKES
def test_a_note_that_may_not_be_read_is_unreadable(load, kill, monkeypatch):
    kill("mark_committed")
    read = LocalStorage.open_input

    def refuse(storage, path):
        if path.startswith(RUN_NOTES):
            raise PermissionRefused(f"Access to {path} is refused.")
        return read(storage, path)

    monkeypatch.setattr(LocalStorage, "open_input", refuse)
    monkeypatch.setattr(ReadOnlyStorage, "open_input", refuse)
    assert load.run().already_done
    assert _rows(load) == ([MAIN], [OTHER])


@FAKES
def test_a_note_that_is_marked_between_its_listing_and_its_reading_is_read(
    load, kill, client: MetastoreClient, monkeypatch
):
    kill("mark_committed")
    assert load.job.token is not None
    table = client.get_table(load.main)
    storage = Storage.of(table.folder)
    folder = RunNoteFolder(client, storage, table)
    (file,) = folder.of_run(load.job.token)
    read = Storage.read_small

    def mark_first(self, path, *limit):
        monkeypatch.undo()
        mark_committed(storage, file)
        return read(self, path, *limit)

    monkeypatch.setattr(ReadOnlyStorage, "read_small", mark_first)
    (marked,) = folder.of_run(load.job.token)
    assert marked.name.marked
    snapshot = Snapshot.take(client, [load.main])
    write_ids = snapshot.write_ids[load.main.full_name]
    assert folder.judge(marked, snapshot.txns, write_ids) is RunOutcome.APPLIED
