"""The note on the readers of replaced directories: our own, older ones, and missing ones."""

from pathlib import Path

import pytest

from hiveacid.errors import NewerRecord
from hiveacid.rules.cleaning import ReaderNote

NOTES = Path(__file__).parents[1] / "data" / "reader_notes"
NOTE = ReaderNote(30, (7, 9))


def test_the_golden_note_is_read_and_written_again_byte_by_byte():
    golden = (NOTES / "format_1.json").read_text()
    assert ReaderNote.parse(golden) == NOTE
    assert NOTE.to_json() == golden.rstrip("\n")


@pytest.mark.parametrize(
    "text",
    [
        '{"format": 1, "high_watermark": 30, "locks": [7, 9], "new": {"a": 1}}',
        '{"format": 2, "high_watermark": 30, "locks": [7, 9]}',
    ],
)
def test_a_note_of_a_newer_version_is_refused(text):
    with pytest.raises(NewerRecord, match="A note on readers has the format"):
        ReaderNote.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"high_watermark": 30, "locks": [7, 9]}',
        '{"format": "1", "high_watermark": 30, "locks": [7, 9]}',
        '{"format": null, "high_watermark": 30, "locks": [7, 9]}',
        '{"high_wat',
        "",
        "[]",
        "null",
        '"text"',
        '{"format": 1, "high_watermark": "x", "locks": []}',
        '{"format": 1, "high_watermark": 1e400, "locks": []}',
        '{"format": 1, "high_watermark": 1, "locks": 7}',
        "[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_invalid_content_counts_as_no_note(text):
    assert ReaderNote.parse(text) is None
