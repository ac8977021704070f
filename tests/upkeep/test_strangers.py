"""The effects of a user of one table on users that read all of them."""

import json
import os
import tracemalloc
from dataclasses import replace

import pytest

from hiveacid.errors import (
    AccessRefused,
    HiveAcidError,
    InvalidJob,
    StorageError,
)
from hiveacid.metastore.client import MetastoreClient
from hiveacid.records.table_history import table_history
from hiveacid.rules.compaction_policy import CompactionPolicy
from hiveacid.rules.location import AllowedLocations
from hiveacid.rules.names import Delta
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.upkeep.compaction_poll import CompactionPoll
from hiveacid.upkeep.health import HealthMeter
from tests.upkeep.acid_folders import AcidFolders

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)

FORGED = [
    b"[1, 2]",
    b"null",
    b"[" * 100_000,
    b"\xff\xfe",
    b"9" * 10_000,
    json.dumps({"report": 5, "time": 7, "txn_id": "x", "user": {}, "operation": []}).encode(),
    json.dumps({"report": {"rows_inserted": "x"}, "time": "9999999-1", "txn_id": 10**40}).encode(),
    json.dumps({"user": "\ud800", "time": "0001-01-01", "run_token": "x" * 10_000}).encode(),
]


@pytest.fixture
def others(client, database):
    """Two tables without any operations."""
    tables = [AcidFolders.create(client, f"{database}.{name}") for name in ("a", "z")]
    for table in tables:
        for _ in range(11):
            table.insert()
    return tables


@pytest.fixture
def bad(client, database):
    table = AcidFolders.create(client, f"{database}.m")
    for _ in range(11):
        table.insert()
    return table


def bad_name(table):
    (table.root / Delta(1, 1, 0).name).mkdir(exist_ok=True)
    open(os.fsencode(table.root / Delta(1, 1, 0).name) + b"/bucket_\xff\xfe", "wb").close()


def bad_directory(table):
    os.mkdir(os.fsencode(table.root) + b"/delta_\xff")


def bad_number(table):
    (table.root / f"base_{'9' * 200}").mkdir()


@pytest.mark.parametrize("spoil", [bad_name, bad_directory, bad_number])
def test_one_table_with_a_bad_name_hides_no_other(client, database, hms, others, bad, spoil):
    spoil(bad)
    healths = {health.table: health for health in HealthMeter(client).measure(database)}
    assert [healths[other.ref.full_name].error for other in others] == [None, None]
    assert all(healths[other.ref.full_name].needs for other in others)
    shown = healths[bad.ref.full_name]
    assert shown.score < 100
    assert shown.error is not None or "cannot be read" in shown.verdict
    poll = CompactionPoll(hms.options, CompactionPolicy()).survey([f"{database}.*"])
    assert {need.table for need in poll.needs} == {other.ref.full_name for other in others}
    (problem,) = poll.problems
    assert problem.startswith(bad.ref.full_name)


def test_a_table_that_breaks_the_measuring_itself_hides_no_other(
    client, database, others, bad, monkeypatch
):
    walk = ReadOnlyStorage.walk

    def broken(storage, path=""):
        if storage.location == bad.table.location:
            raise KeyError("nobody has thought of this")
        return walk(storage, path)

    monkeypatch.setattr(ReadOnlyStorage, "walk", broken)
    healths = {health.table: health for health in HealthMeter(client).measure(database)}
    assert "nobody has thought of this" in healths[bad.ref.full_name].error.message
    assert [healths[other.ref.full_name].error for other in others] == [None, None]


@pytest.mark.parametrize("content", FORGED, ids=range(len(FORGED)))
def test_a_forged_note_is_ignored(client, bad, content):
    directory = Delta(1, 1, 0).name
    (bad.root / directory / "_hiveacid.json").write_bytes(content)
    entries = table_history(client, bad.ref)
    (entry,) = [entry for entry in entries if entry.directories[0].name == directory]
    assert (entry.rows_inserted, entry.run_token, entry.txn_id) == (None, None, None)
    json.dumps([str(entry) for entry in entries]).encode()


def test_notes_of_any_size_are_read_in_little_memory(client, bad):
    for number in range(1, 4):
        with open(bad.root / Delta(number, number, 0).name / "_hiveacid.json", "wb") as note:
            note.truncate(600 << 20)
    with open(bad.root / Delta(4, 4, 0).name / "_metadata_acid", "wb") as marker:
        marker.truncate(600 << 20)
    tracemalloc.start()
    assert len(table_history(client, bad.ref)) == 11
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 << 20


def test_a_slow_history_is_an_error(client, database, tmp_path):
    table = AcidFolders.create(client, f"{database}.t", ["p=1"])
    table.add("p=2", location=f"file:{tmp_path}/elsewhere")
    with pytest.raises(StorageError, match="in time"):
        table_history(client, table.ref, seconds=0)


def test_only_locations_that_are_allowed_are_opened(client, database, others, bad, monkeypatch):
    opened = []
    of = ReadOnlyStorage.of
    monkeypatch.setattr(ReadOnlyStorage, "of", lambda place: opened.append(place) or of(place))
    options = replace(client.options, allowed_locations="hdfs://nn:8020, s3a")
    with MetastoreClient(options) as limited:
        for health in HealthMeter(limited).measure(database):
            assert health.error.id == "AccessRefused"
            assert "page_locations" in health.error.remedy
        with pytest.raises(AccessRefused):
            table_history(limited, bad.ref)
    assert opened == []


@pytest.mark.parametrize(
    ("rules", "location", "fine"),
    [
        ("", "hdfs://anywhere/x", True),
        ("hdfs://nn:8020, s3a", "hdfs://nn:8020/x", True),
        ("hdfs://nn:8020, s3a", "HDFS://NN:8020/x", True),
        ("hdfs://nn:8020, s3a", "hdfs://nn:80201/x", False),
        ("hdfs://nn:8020, s3a", "hdfs://nn:8020@evil/x", False),
        ("hdfs://nn:8020, s3a", "s3a://any/x", True),
        ("hdfs://nn:8020, s3a", "s3://any/x", False),
        ("hdfs://nn:8020, s3a", "/etc", False),
        ("hdfs://nn:8020, s3a", "file:/etc", False),
        ("file", "/warehouse/t", True),
        ("s3a://bucket", "s3a://bucket.evil/t", False),
    ],
)
def test_a_rule_names_a_scheme_and_maybe_a_host(hms, rules, location, fine):
    allowed = AllowedLocations.parse(rules)
    if fine:
        allowed.require(location)
    else:
        with pytest.raises(AccessRefused):
            allowed.require(location)


def test_an_invalid_rule_is_refused(hms):
    with pytest.raises(InvalidJob, match="does not define allowed locations"):
        AllowedLocations.parse("hdfs://nn/path")


def test_a_name_that_no_file_can_have_is_an_error_of_ours(hms, tmp_path):
    storage = ReadOnlyStorage.of(str(tmp_path))
    for name in ("a\0b", "\ud800", "../x"):
        with pytest.raises(HiveAcidError):
            storage.exists(name)
        with pytest.raises(HiveAcidError):
            storage.read_small(name)
