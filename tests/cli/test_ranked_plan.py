"""`hiveacid plan --budget` on three tables, with a metastore in memory."""

import json
import os
import time

import pytest

from airflow_hiveacid.acid.locks import read_lock_components
from airflow_hiveacid.acid.names import TableRef
from airflow_hiveacid.acid.read_rates import READS_PROPERTY
from airflow_hiveacid.cli.main import main
from airflow_hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from tests.cli.acid_files import ids, write_events
from tests.fakes.metastore import FakeMetastore
from tests.places import place_of

ID, DAY = HiveColumn("id", "int"), HiveColumn("day", "string")


@pytest.fixture
def fake(tmp_path):
    with FakeMetastore("4.0.1", directory=tmp_path / "fake") as metastore:
        yield metastore


@pytest.fixture
def client(fake):
    with MetastoreClient(fake.options) as client:
        yield client


@pytest.fixture
def hiveacid(fake, capsys):
    def run(*arguments):
        status = main([*arguments, "--metastore", fake.uri])
        captured = capsys.readouterr()
        return status, captured.out if status == 0 else captured.err

    return run


def create(client, name, deltas, reads=None):
    """A table with deltas of one row each in one partition."""
    ref = TableRef("default", name)
    parameters = {} if reads is None else {READS_PROPERTY: str(reads)}
    client.create_table(HiveTable.new(ref, [ID], partition_keys=[DAY], parameters=parameters))
    table = client.get_table(ref)
    client.add_partitions(ref, [HivePartition.new(table, ["mon"])])
    root = place_of(table.folder)
    for _ in range(deltas):
        txn = client.open_txn("tests", "localhost", "tests")
        write_id = client.allocate_write_id(txn, ref)
        client.commit_txn(txn)
        delta = root / "day=mon" / f"delta_{write_id:07d}_{write_id:07d}_0000"
        write_events(delta / "bucket_00000", [(write_id, 0, write_id)], ids(write_id))
        (delta / "_orc_acid_version").write_text("2")
    return ref


@pytest.fixture
def tables(client):
    """One table that is read often, one that is never read, and one that needs no compaction."""
    create(client, "never", 30, reads=0)
    create(client, "often", 12, reads=2400)
    create(client, "quiet", 1)


def planned(printed):
    return [
        (each["table"], each["type"], each["rank"]) for each in json.loads(printed)["partitions"]
    ]


def test_tables_are_ranked_by_reading_time_for_each_core_second(tables, hiveacid):
    status, printed = hiveacid("plan", "default.*", "--budget", "10m", "--json")
    assert status == 0
    assert planned(printed) == [
        ("default.often", "major", 1),
        ("default.never", None, None),
        ("default.quiet", None, None),
    ]
    often, never, quiet = json.loads(printed)["partitions"]
    assert often["value"]["reads"] == {
        "per_hour": 100.0,
        "source": "property",
        "evidence": "2400 a day by hiveacid.reads_per_day",
    }
    assert often["value"]["benefit"] > 0
    assert often["work"]["encoded_bytes"] > 0
    assert never["value"]["benefit"] == 0
    assert "saves readers only 0 s until the next one is due" in never["reason"]
    assert quiet["value"] is None


def test_a_plan_with_a_budget_prints_the_first_partitions(tables, hiveacid):
    arguments = ("plan", "default.*", "--budget", "10m", "--limit")
    status, printed = hiveacid(*arguments, "1")
    title, _, first, rest = printed.splitlines()
    assert status == 0
    assert title.startswith("default.*: 1 of 3 to compact ")
    assert first.split()[:3] == ["1", "major", "default.often/day=mon"]
    assert rest == "2 more partitions; --limit N shows more."
    assert hiveacid(*arguments, "2")[1].splitlines()[-1].startswith("1 more partition;")
    assert "more partition" not in hiveacid(*arguments, "3")[1]


def test_a_small_budget_defers_with_reasons_and_the_thresholds_would_choose_others(
    tables, hiveacid
):
    arguments = ("plan", "default.*", "--budget", "1s", "--shadow")
    shown = json.loads(hiveacid(*arguments, "--json", "--max-partitions", "1")[1])
    assert planned(json.dumps(shown))[:2] == [
        ("default.often", "major", 1),
        ("default.never", None, None),
    ]
    status, printed = hiveacid(*arguments, "--max-partitions", "1")
    lines = printed.splitlines()
    assert status == 0
    assert lines[0].startswith("default.*: 1 of 3 to compact within 1 s, 1 deferred. Readers save ")
    assert lines[1].split()[:6] == ["rank", "threshold", "rank", "type", "partition", "benefit"]
    assert lines[2].split()[:4] == ["1", "2", "major", "default.often/day=mon"]
    assert lines[3].split()[:4] == ["-", "1", "-", "default.never/day=mon"]
    assert "budget of 1 partition is used up. Reads: 0 a day by hiveacid.reads_per_day." in lines[3]
    assert lines[4].split()[:3] == ["-", "-", "-"]
    assert lines[5].startswith("In the order of the thresholds: 2. Readers save ")
    assert shown["shadow"]["partitions"] == [
        ["default.never", "day=mon"],
        ["default.often", "day=mon"],
    ]


def lock(client, ref, partition):
    txn = client.open_txn("reader", "localhost", "reader")
    components = read_lock_components(ref, True, [partition])
    client.lock(components, txn, "reader", "localhost", "reader")


def test_samples_of_locks_are_stored_with_the_creation_of_the_table(client, hiveacid, tmp_path):
    ref = create(client, "t", 12)
    file = tmp_path / "samples.json"
    arguments = ("plan", "default.t", "--budget", "10m", "--json", "--read-samples", str(file))
    lock(client, ref, "day=mon")
    hiveacid(*arguments)
    stored = json.loads(file.read_text())["tables"]["default.t"]
    assert stored["identity"] == client.get_table(ref).identity.text
    assert stored["readers"]["day=mon"]["held"] == 1
    # As if there had been a hundred of them.
    content = json.loads(file.read_text())
    content["tables"]["default.t"]["samples"] = 100
    file.write_text(json.dumps(content))
    (partition,) = json.loads(hiveacid(*arguments)[1])["partitions"]
    assert partition["value"]["reads"]["source"] == "locks"
    assert partition["value"]["reads"]["evidence"] == "1 locks in 100 samples"


def test_a_recreated_table_starts_without_samples(client, hiveacid, tmp_path):
    ref = create(client, "t", 12)
    file = tmp_path / "samples.json"
    arguments = ("plan", "default.t", "--budget", "10m", "--json", "--read-samples", str(file))
    hiveacid(*arguments)
    content = json.loads(file.read_text())
    content["tables"]["default.t"]["samples"] = 100
    content["tables"]["default.t"]["identity"] = "999/1000"
    file.write_text(json.dumps(content))
    (partition,) = json.loads(hiveacid(*arguments)[1])["partitions"]
    assert partition["value"]["reads"]["source"] == "assumed"
    stored = json.loads(file.read_text())["tables"]["default.t"]
    assert (stored["samples"], stored["identity"]) == (1, client.get_table(ref).identity.text)


@pytest.mark.parametrize("content", ["", "[1]", '{"tables": 5}', '{"tables": {"a.b": 1}}', "\xff"])
def test_a_file_without_samples_is_refused_and_left_unchanged(client, hiveacid, tmp_path, content):
    create(client, "t", 12)
    file = tmp_path / "mine.txt"
    file.write_bytes(content.encode("latin-1"))
    status, message = hiveacid("plan", "default.t", "--budget", "10m", "--read-samples", str(file))
    assert status == 20
    assert f"{file} contains no samples of readers" in message
    assert file.read_bytes() == content.encode("latin-1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shadow"], "Set --budget"),
        (["--read-samples", "x"], "Set --budget"),
        (["--budget", "soon"], "--budget cannot be 'soon'"),
        (["--budget", "0"], "budget.max_core_seconds must be more than 0"),
        (["--budget", "10m", "--max-wait", "0"], "budget.max_wait_hours must be more than 0"),
        (["--budget", "10m", "--every", "0"], "budget.hours_between_runs must be more than 0"),
    ],
)
def test_impossible_arguments_are_refused(client, hiveacid, arguments, message):
    create(client, "t", 1)
    status, printed = hiveacid("plan", "default.t", *arguments)
    assert status == 20
    assert message in printed


def test_a_table_whose_evidence_cannot_be_read_is_still_ranked(client, hiveacid, fake):
    ref = create(client, "t", 12)
    root = place_of(client.get_table(ref).folder)
    broken = next((root / "day=mon").iterdir()) / "bucket_00000"
    broken.write_bytes(b"not an ORC file")
    status, printed = hiveacid("plan", "default.t", "--budget", "10m", "--json")
    assert status == 0
    assert planned(printed) == [("default.t", "major", 1)]
    (partition,) = json.loads(printed)["partitions"]
    assert partition["work"] is None


def test_the_time_until_the_next_compaction_follows_from_the_times_of_the_files(client, hiveacid):
    ref = create(client, "t", 12)
    root = place_of(client.get_table(ref).folder) / "day=mon"
    oldest = min(root.iterdir()) / "bucket_00000"
    day_ago = time.time() - 24 * 3600
    os.utime(oldest, (day_ago, day_ago))
    (partition,) = json.loads(hiveacid("plan", "default.t", "--budget", "1h", "--json")[1])[
        "partitions"
    ]
    assert partition["oldest_delta_hours"] == pytest.approx(24, abs=0.5)
    assert partition["newest_delta_hours"] == pytest.approx(0, abs=0.5)
    # Eleven deltas are too many, and twelve were written in a day.
    assert partition["value"]["hours"] == pytest.approx(22, abs=0.5)
    # The eleventh one, if all are evenly spaced.
    assert partition["waited_hours"] == pytest.approx(4, abs=0.5)
