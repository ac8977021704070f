"""The history of tables that Hive, Trino and streaming writers have written: golden ones."""

import sys
from types import SimpleNamespace

import pytest

from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.records import table_history as module
from hiveacid.records.table_history import table_history
from tests.golden import TABLES, GoldenTable

NAMES = sorted(path.stem for path in TABLES.glob("*.json"))


@pytest.fixture
def history(monkeypatch):
    """Return the history of a golden table as of its newest snapshot."""

    def told(name, limit=500):
        golden = GoldenTable.read(name)
        table, newest = golden.hive_table(), golden.snapshots[-1]
        snapshot = Snapshot(newest.txns, {table.ref.full_name: newest.write_ids})
        locations = {each.name: each.folder for each in golden.hive_partitions()}
        monkeypatch.setattr(module.Snapshot, "take", lambda *_: snapshot)
        monkeypatch.setattr(module, "partition_locations", lambda *_: locations)
        monkeypatch.setattr(module.CompactionQueue, "show", lambda *_: [])
        client = SimpleNamespace(get_table=lambda _: table)
        return table_history(client, table.ref, limit=limit, directories=True), newest.write_ids

    return told


@pytest.mark.parametrize("name", NAMES)
def test_every_write_with_a_directory_is_reported_once_and_no_other(history, name):
    entries, write_ids = history(name)
    # A complete listing of a table differs from the listing for some entries.
    assert entries == history(name, limit=sys.maxsize)[0]
    assert entries[:2] == history(name, limit=2)[0]
    written = [entry.write_id for entry in entries if entry.write_id is not None]
    assert written
    assert written == sorted(set(written), reverse=True)
    for entry in entries:
        counts = (entry.rows_inserted, entry.rows_updated, entry.rows_deleted)
        assert (counts, entry.user, entry.seconds) == ((None, None, None), None, None)
        assert {each.rows for each in entry.directories} == {None}
        if entry.write_id is not None:
            valid = write_ids.is_valid(entry.write_id)
            assert valid == (entry.state.value not in ("open", "aborted"))


def engines(entry):
    return {each.engine for each in entry.directories}


def test_trino_and_hive_are_known_by_their_files(history):
    entries, _ = history("trino_crud")
    writes = {entry.write_id: engines(entry) for entry in entries}
    assert (writes[1], writes[6], writes[7]) == ({"Trino"}, {"Trino"}, {"Hive"})
    assert writes[None] == {"Hive"}


def test_loaded_rows_have_no_transaction(history):
    entries, _ = history("loaded")
    assert engines(next(entry for entry in entries if entry.write_id == 1)) == {None}


def test_each_committed_write_of_a_stream_is_reported(history):
    entries, _ = history("streamed")
    writes = {entry.write_id: entry for entry in entries if entry.write_id is not None}
    assert [number for number in writes if number < 10] == [9, 5, 4, 3, 1]
    assert (writes[9].state.value, writes[5].state.value) == ("aborted", "merged")
    assert {each.name for each in writes[5].directories} == {"delta_0000004_0000006"}
    assert writes[5].bytes is None


def test_truncates_and_dropped_partitions_are_writes(history):
    for name, kind, write_id in (("truncated", "truncated", 2), ("dropped", "dropped", 3)):
        entries, _ = history(name)
        (entry,) = [entry for entry in entries if kind in entry.kinds]
        assert (entry.write_id, entry.merged) == (write_id, ())
        before = next(each for each in entries if each.write_id == 1)
        assert before.state.value == "overwritten"
