"""The history in names of directories, and in the readers' notes."""

from datetime import UTC, datetime

import pytest

from hiveacid.records.history_entries import (
    History,
    Overwrites,
    compaction_entry,
    directories_of,
    later_than,
    traces_of,
    write_entry,
)
from hiveacid.rules.directory import FileStatus, acid_state
from hiveacid.rules.names import CONVERTED_BASE
from hiveacid.rules.notes import WriteFacts
from hiveacid.rules.write_ids import ValidTxnList, ValidWriteIdList

NOW = ValidWriteIdList.parse("a.t:9:9223372036854775807::")


def told(*names, now=NOW, markers=None, noted=(), notes=None, times=None, facts=None, limit=100):
    """The entries that some directories of a table make."""
    files = [FileStatus(f"{name}/", 0) for name in names]
    files += [FileStatus(f"{name}/_metadata_acid", 1) for name in markers or {}]
    state = acid_state(files, now, ValidTxnList(300), metadata_acid=markers)
    sizes = dict.fromkeys(names, 5)
    found = directories_of(None, state, sizes, markers=markers, noted=noted, times=times)
    overwrites = Overwrites(found)
    return [
        compaction_entry(trace, (notes or {}).get(trace.directories[0].name), overwrites)
        if trace.write_id is None
        else write_entry(trace, (facts or {}).get(trace.write_id), now, overwrites)
        for trace in traces_of(found, now, limit)
    ]


def test_a_write_is_one_entry_however_many_directories_it_has():
    (update, insert) = told(
        "delta_0000002_0000002_0000", "delete_delta_0000002_0000002_0000",
        "delta_0000001_0000001_0000", "delta_0000001_0000001_0001",
    )  # fmt: skip
    assert (update.write_id, update.kinds, update.bytes) == (2, ("delete", "insert"), 10)
    assert (insert.write_id, insert.kinds, insert.directory_count) == (1, ("insert",), 2)
    assert (insert.operation, insert.rows_inserted, insert.time) == (None, None, None)


def test_the_base_of_an_overwrite_is_a_write_and_that_of_a_compaction_none():
    (overwrite,) = told("base_0000007")
    assert (overwrite.write_id, overwrite.kinds) == (7, ("base",))
    (compacted,) = told("base_0000007", markers={"base_0000007": "compacted"})
    assert (compacted.write_id, compacted.operation, compacted.merged) == (None, "major", ((1, 7),))
    (truncated,) = told("base_0000007", markers={"base_0000007": "truncated"})
    assert (truncated.write_id, truncated.kinds, truncated.merged) == (7, ("truncated",), ())
    (converted,) = told(f"base_{CONVERTED_BASE}_v0000009")
    assert (converted.last_write_id, converted.txn_id, converted.merged) == (0, 9, ())


def test_a_minor_compaction_is_one_entry_with_both_of_its_directories():
    first, *writes = told(
        "delta_0000001_0000002_v0000009", "delete_delta_0000001_0000002_v0000009",
        "delta_0000001_0000001_0000", "delete_delta_0000002_0000002_0000",
    )  # fmt: skip
    assert (first.write_id, first.operation, first.directory_count) == (None, "minor", 2)
    assert [(entry.write_id, entry.state.value) for entry in writes] == [
        (2, "merged"),
        (1, "merged"),
    ]


def test_overwritten_directories_are_not_merged():
    entries = told("base_0000003", "delta_0000002_0000002_0000", "base_0000001_v0000009")
    states = [(entry.write_id, entry.state.value) for entry in entries]
    assert states == [(3, "current"), (2, "overwritten"), (None, "overwritten")]


def test_open_and_aborted_writes_are_marked():
    now = ValidWriteIdList.parse("a.t:4:3:3:2")
    entries = told(*(f"delta_000000{n}_000000{n}_0000" for n in range(1, 6)), now=now)
    states = [(entry.write_id, entry.state.value) for entry in entries]
    assert states == [(5, "open"), (4, "current"), (3, "open"), (2, "aborted"), (1, "current")]


def test_of_a_streaming_writer_every_committed_write_is_an_entry():
    now = ValidWriteIdList.parse("a.t:9:6:6-9:3")
    entries = told("delta_0000001_0000009", now=now, times={"delta_0000001_0000009": 7.0})
    assert [entry.write_id for entry in entries] == [5, 4, 2, 1]
    # The share of each in the file is unknown.
    assert {(entry.bytes, entry.time) for entry in entries} == {(None, 7.0)}
    begun = told("delta_0000006_0000009", now=now)
    assert [(entry.write_id, entry.state.value) for entry in begun] == [(9, "open")]
    endless = told("delta_0000001_9223372036854775807", limit=3)
    assert [entry.write_id for entry in endless] == [9, 8, 7]


@pytest.mark.parametrize(
    "more",
    [
        {"noted": ["delta_0000001_0000004"]},
        {"others": ["delete_delta_0000001_0000004"]},
        {"others": ["delta_0000002_0000002_0000"]},
    ],
    ids=["a note", "deletes", "an input"],
)
def test_a_compaction_of_hive_3_is_distinguished_from_a_stream_by_its_neighbours(more):
    first = told("delta_0000001_0000004", *more.get("others", ()), noted=more.get("noted", ()))[0]
    assert (first.write_id, first.operation) == (None, "minor")


def test_notes_fill_an_entry_and_a_lie_about_its_number_does_not_matter():
    facts = WriteFacts(write_id=1, operation="merge", rows_inserted=3, bytes=99, seconds=1.5)
    (entry,) = told("delta_0000001_0000001_0000", facts={1: facts})
    assert (entry.operation, entry.rows_inserted, entry.rows_deleted) == ("merge", 3, None)
    assert (entry.bytes, entry.seconds) == (99, 1.5)


def at(seconds):
    return datetime.fromtimestamp(seconds, UTC)


def test_a_read_as_of_a_time_sees_earlier_commits():
    entries = told(
        "delta_0000004_0000004_0000", "base_0000003_v0000009",
        facts={4: WriteFacts(write_id=4, time=40.0)},
        notes={"base_0000003_v0000009": {"time": "1970-01-01T00:00:30+00:00"}},
    )  # fmt: skip
    assert later_than(at(40), entries, NOW) == []
    assert later_than(at(39), entries, NOW) == [4]
    # The times of the first three writes are unknown, except that they existed at 30.
    assert later_than(at(30), entries, NOW) == [4]
    assert later_than(at(29), entries, NOW) == [1, 2, 3, 4]


def test_inputs_of_an_older_compaction_existed_by_then():
    entries = told(
        "base_0000003_v0000009", "base_0000002_v0000008",
        times={"base_0000003_v0000009": 30.0, "base_0000002_v0000008": 20.0},
    )  # fmt: skip
    assert later_than(at(20), entries, NOW) == [3]
    assert later_than(at(19), entries, NOW) == [1, 2, 3]


def test_original_files_belong_to_every_version():
    entries = told("delta_0000000_0000000_0000", times={"delta_0000000_0000000_0000": 30.0})
    assert [entry.write_id for entry in entries] == [0]
    assert later_than(at(29), entries, NOW) == []


def test_it_prints_itself_and_nothing_in_it_is_markup():
    facts = WriteFacts(write_id=1, operation="<b>", rows_inserted=3, user="ann", time=0.0)
    history = History("a.t", told("delta_0000001_0000001_0000", facts={1: facts}))
    title, head, line = repr(history).splitlines()
    assert title == "a.t: 1 entry"
    assert head.split()[:3] == ["version", "time", "(UTC)"]
    assert line.split() == ["1", "1970-01-01", "<b>", "current", "+3", "5", "B", "ann"]
    assert "<td>&lt;b&gt;</td>" in history._repr_html_()
    assert "<b>" not in history._repr_html_()
    assert (len(history), history[0].write_id, len(history[1:])) == (1, 1, 0)
    assert repr(History("a.t", [])) == "a.t: 0 entries"
