"""The file with the progress of a script, written by two attempts at once."""

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_hiveacid.errors import ScriptOvertaken
from airflow_hiveacid.records.script_note import ScriptNote
from airflow_hiveacid.records.script_notes import ScriptNoteFile

NOTE = ScriptNote(run_token="d/r/t/-1", attempt="first")


@pytest.mark.parametrize("ahead", [1, 2, 3])
def test_a_try_that_was_paused_before_its_write_undoes_no_progress_of_another_one(
    tmp_path: Path, ahead: int
) -> None:
    first, second = (ScriptNoteFile(f"file:{tmp_path}", NOTE.run_token) for _ in range(2))
    first.write(NOTE)
    assert first.read() == second.read() == NOTE
    progress = replace(NOTE, attempt="second")
    for _ in range(ahead):
        second.write(progress)
    with pytest.raises(ScriptOvertaken, match="Another attempt has written"):
        first.write(NOTE)
    assert second.read() == progress
    (file,) = tmp_path.rglob("*.json")
    assert str(file) in second.location


def test_scripts_in_one_folder_keep_their_progress_apart(tmp_path: Path) -> None:
    notes = [replace(NOTE, run_token=f"d/r/{name}/-1") for name in "ab"]
    for _ in range(2):
        for note in notes:
            file = ScriptNoteFile(f"file:{tmp_path}", note.run_token)
            file.read()
            file.write(note)
    files = [ScriptNoteFile(f"file:{tmp_path}", note.run_token) for note in notes]
    assert [file.read() for file in files] == notes
