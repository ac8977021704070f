"""The notes in directories: those of older versions, our own, and invalid ones."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hiveacid.rules.directory import FileStatus
from hiveacid.rules.names import LARGEST_NOTE
from hiveacid.rules.notes import (
    WriteFacts,
    WrittenFile,
    directory_note,
    disagreements,
    parse_note,
    replacing,
    written_at,
    written_files,
)
from hiveacid.rules.write_ids import ValidWriteIdList

NOTES = Path(__file__).parents[1] / "data" / "notes"
FILES = (WrittenFile("bucket_00000", 5, 1234), WrittenFile("bucket_00001", 0, 567))


def test_a_note_round_trips():
    note = parse_note(directory_note({"operation": "insert"}, FILES))
    assert note is not None
    assert note["operation"] == "insert"
    assert written_files(note) == FILES


@pytest.mark.parametrize("name", ["write", "compaction"])
def test_notes_of_earlier_versions_are_read_and_list_no_file(name):
    note = parse_note((NOTES / f"{name}.json").read_bytes())
    assert note is not None
    facts = WriteFacts.of_note(note, 7, "shop.orders")
    assert (facts.user, facts.txn_id) == ("ann", note["txn_id"])
    assert written_files(note) is None


def test_notes_of_format_1_are_read_and_written_again_byte_by_byte():
    golden = (NOTES / "format_1.json").read_bytes()
    note = parse_note(golden)
    assert note is not None
    assert written_files(note) == FILES
    told = {name: value for name, value in note.items() if name not in ("format", "files")}
    assert directory_note(told, FILES) == golden.rstrip(b"\n")
    assert written_files(note | {"unknown": 1, "txn_id": "?"}) == FILES


@pytest.mark.parametrize(
    "files",
    [
        None,
        [],
        {"": {"rows": 1, "bytes": 1}},
        {"../x": {"rows": 1, "bytes": 1}},
        {"bucket_00000": 1},
        {"bucket_00000": {"rows": 1}},
        {"bucket_00000": {"rows": -1, "bytes": 1}},
        {"bucket_00000": {"rows": True, "bytes": 1}},
        {"bucket_00000": {"rows": 1.0, "bytes": 1}},
        {"bucket_00000": {"rows": "1", "bytes": 1}},
    ],
)
def test_an_invalid_list_is_ignored(files):
    assert written_files({"format": 1, "files": files}) is None


def test_the_list_of_a_later_format_is_none():
    note = json.loads(directory_note({"operation": "insert"}, FILES)) | {"format": 2}
    assert written_files(note) is None
    assert WriteFacts.of_note(note, 7, "shop.orders").operation == "insert"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b'{"run_tok',
        b"[1]",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"a": ' + b"9" * 5000 + b"}",
        b"{" + b" " * LARGEST_NOTE + b"}",
    ],
    ids=["empty", "half", "list", "null", "no text", "deep", "long number", "large"],
)
def test_garbage_is_no_note(text):
    assert parse_note(text) is None


def test_a_list_that_would_make_the_note_too_large_is_left_out():
    many = [WrittenFile(f"bucket_{number:05d}", 1, 1) for number in range(30_000)]
    note = parse_note(directory_note({"operation": "insert"}, many))
    assert note is not None
    assert (note["operation"], written_files(note)) == ("insert", None)


def test_the_writes_of_others_are_left_out_before_the_list():
    many = [WrittenFile(f"bucket_{number:05d}", 1, 1) for number in range(15_000)]
    writes = [{"user": "ann" * 50}] * 3000
    note = parse_note(directory_note({"operation": "major", "writes": writes}, many))
    assert note is not None
    assert "writes" not in note
    assert len(written_files(note) or ()) == len(many)


@pytest.mark.parametrize(
    ("large", "left"),
    [
        ({"report": {"warnings": ["w" * LARGEST_NOTE]}}, {"run_token": "d/r/t/-1"}),
        ({"run_token": "r" * LARGEST_NOTE}, {}),
        ({"replaces": ["delta"] * LARGEST_NOTE}, {"run_token": "d/r/t/-1"}),
    ],
)
def test_the_transaction_is_noted_regardless_of_the_size_of_the_rest(large, left):
    whole = {"run_token": "d/r/t/-1", "user": "ann", "txn_id": 7, "write_id": 3, **large}
    assert parse_note(directory_note(whole, FILES)) == {
        "format": 1,
        "txn_id": 7,
        "write_id": 3,
        **left,
    }


def test_present_files_are_compared_with_written_ones():
    there = [FileStatus("d/bucket_00000", 1234), FileStatus("d/bucket_00001", 567)]
    assert disagreements("d", FILES, there) == []
    assert disagreements("d", FILES, there[:1]) == [
        "d/bucket_00001 of 567 bytes and 0 rows is missing."
    ]
    cut = [there[0], FileStatus("d/bucket_00001", 0), FileStatus("d/bucket_00002", 9)]
    assert disagreements("d", FILES, cut) == [
        "d/bucket_00001 has 0 bytes, and was written with 567.",
        "d/bucket_00002 was written by another client.",
    ]


def test_an_aborted_overwrite_has_replaced_nothing():
    write_ids = ValidWriteIdList("db.t", 9, aborted=(3, 6))
    told = replacing(
        ["delta_3_3_0000", "delta_4_4_0000", "delta_5_7", "base_2", "0_0"], write_ids, {}
    )
    assert told == {"replaces": ["delta_4_4_0000", "delta_5_7", "base_2", "0_0"], "aborted": [6]}
    assert replacing(["delta_5_7_v0000010"], write_ids, {})["aborted"] == []
    # On Hive 3 only its note identifies it as a compaction's, without aborted rows.
    ours = {"delta_5_7": {"format": 1, "replaces": ["delta_5_5_0000", "delta_7_7_0000"]}}
    assert replacing(["delta_5_7"], write_ids, ours) == {"replaces": ["delta_5_7"], "aborted": []}
    # Of one that has left out all there was a cleaner keeps nothing, and no version needs it.
    empty = {"delta_3_3": {"format": 1, "replaces": []}}
    assert replacing(["delta_3_3"], write_ids, empty) == {"replaces": [], "aborted": []}


@pytest.mark.parametrize("time", [None, 7, "", "yesterday", "2026-13-01"])
def test_a_time_that_makes_no_sense_is_none(time):
    assert written_at({"time": time}) is None
    assert written_at({}) is None


def test_a_time_without_a_zone_is_in_utc():
    told = datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert written_at({"time": "2026-03-01T12:00:00"}) == told
    assert written_at({"time": "2026-03-01T13:00:00.000+01:00"}) == told
