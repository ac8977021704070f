"""The note on the readers of replaced directories, which may be missing or incomplete."""

from pathlib import Path

import pytest

from hiveacid.errors import NewerRecord
from hiveacid.records.proofs import read_reader_note
from hiveacid.rules.cleaning import ReaderNote
from hiveacid.rules.names import READER_NOTE_FILE
from hiveacid.storage.folder import Storage

TEXT = '{"format": 1, "high_watermark": 30, "locks": [7, 9]}'


def read(folder: Path, text: str | bytes) -> ReaderNote | None:
    storage, path = Storage.of(str(folder)), f"base_3/{READER_NOTE_FILE}"
    content = text.encode() if isinstance(text, str) else text
    storage.write_file(path, content, replace=True)
    return read_reader_note(storage, "base_3")


def test_a_missing_note_and_half_of_one_are_none(tmp_path: Path) -> None:
    assert read_reader_note(Storage.of(str(tmp_path)), "base_3") is None
    assert read(tmp_path, TEXT) == ReaderNote(30, (7, 9))
    assert [read(tmp_path, TEXT[:end]) for end in range(len(TEXT))] == [None] * len(TEXT)


@pytest.mark.parametrize(
    "text",
    [TEXT.replace("}", ', "new": {"a": 1}}'), TEXT.replace('"format": 1', '"format": 2')],
)
def test_a_note_of_a_newer_version_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(NewerRecord, match=f"{READER_NOTE_FILE} has the format"):
        read(tmp_path, text)


@pytest.mark.parametrize(
    "text",
    [
        '{"high_watermark": 30, "locks": [7, 9]}',
        '{"format": "1", "high_watermark": 30, "locks": [7, 9]}',
        '{"format": null, "high_watermark": 30, "locks": [7, 9]}',
        "[]",
        "null",
        '"text"',
        '{"format": 1, "high_watermark": "x", "locks": []}',
        '{"format": 1, "high_watermark": null, "locks": []}',
        '{"format": 1, "high_watermark": 1e400, "locks": []}',
        '{"format": 1, "high_watermark": 1, "locks": 7}',
        "[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_invalid_content_counts_as_no_note(tmp_path: Path, text: str | bytes) -> None:
    assert read(tmp_path, text) is None
