"""The note on the readers of replaced directories: our own, older ones, and missing ones."""

from pathlib import Path

import pytest

from hiveacid.rules.cleaning import ReaderNote

NOTES = Path(__file__).parents[1] / "data" / "reader_notes"
NOTE = ReaderNote(30, (7, 9))


def test_the_golden_note_is_read_and_written_again_byte_by_byte():
    golden = (NOTES / "format_1.json").read_text()
    assert ReaderNote.parse(golden) == NOTE
    assert NOTE.to_json() == golden.rstrip("\n")


def test_a_note_of_the_first_versions_has_no_format():
    assert ReaderNote.parse((NOTES / "format_0.json").read_bytes()) == NOTE


def test_unknown_fields_are_passed_over():
    text = '{"format": 1, "high_watermark": 30, "locks": [7, 9], "new": {"a": 1}}'
    assert ReaderNote.parse(text) == NOTE


@pytest.mark.parametrize(
    "text",
    [
        '{"format": 2, "high_watermark": 30, "locks": [7, 9]}',
        '{"format": "1", "high_watermark": 30, "locks": [7, 9]}',
        '{"format": null, "high_watermark": 30, "locks": [7, 9]}',
        '{"high_wat',
        "",
        "[]",
        "null",
        '"text"',
        '{"high_watermark": "x", "locks": []}',
        '{"high_watermark": 1e400, "locks": []}',
        '{"high_watermark": 1, "locks": 7}',
        "[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_a_later_format_and_invalid_content_count_as_no_note(text):
    assert ReaderNote.parse(text) is None
