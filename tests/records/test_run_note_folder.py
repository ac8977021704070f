"""The folder of the notes on runs."""

from pathlib import Path

import pytest

from hiveacid.errors import StorageError
from hiveacid.jobs import codec
from hiveacid.records.run_notes import NoteFile, RunNote, mark_committed, write_note
from hiveacid.storage.folder import Storage

GOLDEN = Path(__file__).parents[1] / "data" / "records" / "run_note.json"


@pytest.fixture
def note() -> NoteFile:
    return NoteFile.new(codec.read_obligation(RunNote, GOLDEN.read_bytes(), "note"))


def test_a_note_that_another_process_has_marked_is_marked(note: NoteFile, tmp_path: Path) -> None:
    """A cleaning, or another attempt of the run, marks the same note at the same time."""
    storage = Storage.of(str(tmp_path))
    write_note(storage, note)
    mark_committed(storage, note)
    (marked,) = storage.list_files(recursive=True)
    mark_committed(storage, note)
    write_note(storage, note)
    mark_committed(storage, note)
    assert storage.list_files(recursive=True) == [marked]


def test_a_note_that_is_gone_cannot_be_marked(note: NoteFile, tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        mark_committed(Storage.of(str(tmp_path)), note)
