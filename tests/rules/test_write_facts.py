"""The facts on writes in notes, and those that a compaction's note takes over."""

import json

import pytest

from hiveacid.rules.notes import (
    MOST_BYTES,
    MOST_WRITES,
    WriteFacts,
    merged_ranges,
    merged_writes,
    only_write_id,
    taken_over,
)

TABLE = "shop.orders"
TIME = "2026-11-20T12:00:00.250+00:00"


def note(write_id, **more):
    """The note of a write of ours."""
    counts = {"rows_inserted": 5, "rows_updated": 2, "rows_deleted": 1, "files": 2, "bytes": 70}
    return {
        "format": 1,
        "run_token": f"dag/run-{write_id}/merge/-1",
        "operation": "merge",
        "txn_id": 40 + write_id,
        "write_id": write_id,
        "time": TIME,
        "user": "ann",
        "report": {**counts, "partitions": ["p=1", "p=2"], "seconds": {"read": 1.5, "write": 2}},
    } | more


def delta(first, last=None, txn=0):
    suffix = f"_v{txn:07d}" if txn else "_0000"
    return f"delta_{first:07d}_{last or first:07d}{suffix}"


def test_a_write_is_described_by_its_note():
    facts = WriteFacts.of_note(note(7), 7, TABLE)
    assert (facts.rows_inserted, facts.rows_updated, facts.rows_deleted) == (5, 2, 1)
    assert (facts.operation, facts.user, facts.txn_id) == ("merge", "ann", 47)
    assert (facts.seconds, facts.bytes, facts.time) == (3.5, 70, 1795176000.25)
    assert (facts.partitions, facts.partition_count) == (("p=1", "p=2"), 2)
    assert WriteFacts.of_record(json.loads(json.dumps(facts.to_record()))) == WriteFacts(
        **{name: getattr(facts, name) for name in facts.__slots__ if name != "partitions"}
    )


def test_the_note_of_a_directory_counts_the_partitions():
    tables = [
        {"table": "shop.items", "partition_count": 9},
        {"table": TABLE, "partition_count": 3},
    ]
    facts = WriteFacts.of_note(note(7, report={"tables": tables}), 7, TABLE)
    assert (facts.partitions, facts.partition_count) == ((), 3)


def test_of_a_run_over_several_tables_only_one_is_meant():
    tables = [
        {"table": "shop.items", "rows_inserted": 9, "bytes": 1, "partitions": []},
        {"table": TABLE, "rows_inserted": 3, "bytes": 2, "partitions": ["p=5"]},
    ]
    told = note(7, report={"rows_inserted": 12, "bytes": 3, "tables": tables})
    facts = WriteFacts.of_note(told, 7, TABLE)
    assert (facts.rows_inserted, facts.bytes, facts.partitions) == (3, 2, ("p=5",))
    assert facts.rows_deleted is None
    other = WriteFacts.of_note(told, 7, "shop.others")
    assert (other.rows_inserted, other.bytes, other.user) == (None, None, "ann")
    renamed = note(7, report={"rows_inserted": 12, "tables": tables[:1]})
    assert WriteFacts.of_note(renamed, 7, TABLE).rows_inserted == 12


def test_of_writes_without_a_note_the_time_is_handed_on():
    first = taken_over({delta(1): note(1)}, TABLE, {1: 5.0, 2: 7.5})
    assert first["writes"][0] == {"write_id": 2, "time": "1970-01-01T00:00:07.500+00:00"}
    merged = {"format": 1, **first}
    second = taken_over({delta(1, 2, 9): merged}, TABLE, {3: 9.0})
    facts = {each.write_id: each for each in merged_writes("base_0000003_v0000012", second)}
    assert [facts[own].time for own in (1, 2, 3)] == [1795176000.25, 7.5, 9.0]
    assert [facts[own].is_noted for own in (1, 2, 3)] == [True, False, False]
    # Partitions are compacted one by one; a write is committed after the last of its files.
    later = WriteFacts(write_id=2, time=8.0)
    assert facts[2].joined(later) == later.joined(facts[2]) == later
    noted = facts[1]
    other = WriteFacts(write_id=1, time=2e9)
    assert noted.joined(other) == other.joined(noted) == noted


@pytest.mark.parametrize(
    ("name", "write_id"),
    [
        ("delta_0000005_0000005_0001", 5),
        ("delete_delta_0000005_0000005_0000", 5),
        ("delta_0000005_0000005", None),
        ("delta_0000005_0000005_v0000009", None),
        ("delta_0000001_0000005", None),
        ("base_0000005", None),
        ("day=1", None),
    ],
)
def test_only_some_names_are_those_of_one_write(name, write_id):
    assert only_write_id(name) == write_id


def test_compactions_hand_on_what_they_know_from_one_to_the_next():
    first = taken_over({delta(1): note(1), delta(2): note(2)}, TABLE)
    merged = {"format": 1, "operation": "minor", "replaces": [delta(1), delta(2)], **first}
    second = {"format": 1} | taken_over({delta(1, 2, 9): merged, delta(3): note(3)}, TABLE)
    facts = list(merged_writes("base_0000003_v0000012", second))
    assert [each.write_id for each in facts] == [3, 2, 1]
    assert {(each.rows_inserted, each.seconds, each.bytes, each.user) for each in facts} == {
        (5, 3.5, 70, "ann")
    }
    assert facts[2].run_token == "dag/run-1/merge/-1"
    assert (facts[2].partitions, facts[2].partition_count) == ((), 2)


def test_only_the_newest_are_handed_on_where_there_are_many():
    many = {delta(number): note(number) for number in range(1, 3 * MOST_WRITES)}
    records = taken_over(many, TABLE)["writes"]
    newest = 3 * MOST_WRITES - 1
    assert [record["write_id"] for record in records] == list(
        range(newest, newest - len(records), -1)
    )
    assert 100 < len(records) <= MOST_WRITES
    assert len(json.dumps(records)) < 1.1 * MOST_BYTES
    short = {name: {"write_id": told["write_id"]} for name, told in many.items()}
    assert len(taken_over(short, TABLE)["writes"]) == MOST_WRITES


def test_the_notes_of_others_hand_on_nothing():
    assert taken_over({delta(1): {}, "base_x": note(1), delta(2): note(3)}, TABLE) == {}


@pytest.mark.parametrize(
    "records",
    [
        None,
        5,
        {"write_id": 1},
        [None, 5, "x", [], {}],
        [{"write_id": value} for value in (0, -1, True, "1", 1.0, None, 2**70, 4)],
    ],
)
def test_records_that_make_no_sense_are_none(records):
    assert list(merged_writes(delta(1, 3, 9), {"writes": records})) == []


def test_a_record_counts_once_and_only_what_makes_sense_in_it():
    odd = {"write_id": 2, "time": "yesterday", "seconds": float("nan"), "bytes": -1, "user": 7}
    (facts,) = merged_writes(delta(1, 3, 9), {"writes": [odd, {"write_id": 2, "user": "eve"}]})
    assert facts == WriteFacts(write_id=2)


@pytest.mark.parametrize(
    ("directory", "replaces", "merged"),
    [
        (delta(2, 5, 9), [delta(2), delta(3), delta(5)], ((2, 3), (5, 5))),
        ("base_0000009_v0000012", ["base_0000004_v0000007", delta(5), delta(8)], ((1, 5), (8, 8))),
        ("base_0000009_v0000012", ["base_0000004", delta(9)], ((4, 4), (9, 9))),
        ("base_0000009_v0000012", ["000000_0", delta(9), "base_x"], ((9, 9),)),
        ("base_0000009_v0000012", None, ((1, 9),)),
        ("base_0000000_v0000012", None, ()),
    ],
)
def test_a_compaction_records_its_merged_writes(directory, replaces, merged):
    told = {} if replaces is None else {"format": 1, "replaces": replaces}
    assert merged_ranges(directory, told) == merged


def test_on_hive_3_the_writes_identify_the_merged_base():
    told = {"format": 1, "replaces": ["base_0000004"], "writes": [{"write_id": 2}]}
    assert merged_ranges("base_0000006", told) == ((1, 4),)
