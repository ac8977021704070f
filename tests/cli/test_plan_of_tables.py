"""`hiveacid plan` on several tables, with a metastore in memory."""

import json
import os
import time

import pytest

from hiveacid.cli.main import main
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.compaction_rank import READS_PROPERTY
from hiveacid.rules.names import TableRef
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
    return [(each["table"], each["type"]) for each in json.loads(printed)["partitions"]]


def test_tables_are_planned_together_and_those_that_are_read_more_come_first(tables, hiveacid):
    status, printed = hiveacid("plan", "default.*", "--json")
    assert status == 0
    assert planned(printed) == [
        ("default.often", "major"),
        ("default.never", "major"),
        ("default.quiet", None),
    ]
    plan = json.loads(printed)
    assert plan["table"] == "default.*"
    often, never, quiet = plan["partitions"]
    assert [each["reads_per_day"] for each in (often, never, quiet)] == [2400, 0, None]
    assert often["forecast"]["encoded_bytes"] > 0
    assert (often["run_in"], quiet["run_in"]) == ("worker", None)


def test_a_plan_of_several_tables_prints_the_first_partitions_with_their_tables(tables, hiveacid):
    arguments = ("plan", "default.*", "--limit")
    status, printed = hiveacid(*arguments, "1")
    title, _, first, rest = printed.splitlines()
    assert status == 0
    assert title.startswith("default.*: 2 of 3 to compact, ")
    assert first.split()[:2] == ["major", "default.often/day=mon"]
    assert rest == "2 more partitions; --limit N shows more."
    assert hiveacid(*arguments, "2")[1].splitlines()[-1].startswith("1 more partition;")
    assert "more partition" not in hiveacid(*arguments, "3")[1]


def test_a_budget_for_several_tables_defers_with_reasons(tables, hiveacid):
    arguments = ("plan", "default.*", "--max-partitions", "1")
    status, printed = hiveacid(*arguments)
    title, _, first, second, third = printed.splitlines()
    assert status == 0
    assert title.startswith("default.*: 1 of 3 to compact, ")
    assert title.endswith(" to read, 1 deferred")
    assert first.split()[:2] == ["major", "default.often/day=mon"]
    assert second.split()[:2] == ["-", "default.never/day=mon"]
    assert second.endswith("It waits: this run's budget of 1 partition is used up.")
    assert third.split()[:2] == ["-", "default.quiet/day=mon"]
    shown = json.loads(hiveacid(*arguments, "--json")[1])["partitions"]
    assert [each["deferred"] for each in shown] == [False, True, False]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--max-wait", "soon"], "--max-wait cannot be 'soon'"),
        (["--max-wait", "0"], "budget.max_wait_hours must be more than 0"),
        (["--max-partitions", "0"], "budget.max_partitions must be at least 1"),
    ],
)
def test_impossible_arguments_are_refused(client, hiveacid, arguments, message):
    create(client, "t", 1)
    status, printed = hiveacid("plan", "default.t", *arguments)
    assert status == 20
    assert message in printed


def test_a_table_whose_files_cannot_be_read_is_still_ranked_among_others(
    client, tables, fake, capsys
):
    root = place_of(client.get_table(TableRef("default", "often")).folder)
    broken = next((root / "day=mon").iterdir()) / "bucket_00000"
    broken.write_bytes(b"not an ORC file")
    assert main(["plan", "default.*", "--json", "--metastore", fake.uri]) == 0
    captured = capsys.readouterr()
    assert planned(captured.out)[:2] == [("default.often", "major"), ("default.never", "major")]
    often, never, _ = json.loads(captured.out)["partitions"]
    assert often["forecast"] is None
    assert never["forecast"] is not None
    assert "warning: the work on default.often is unknown: " in captured.err


def test_overdue_compactions_come_first_by_the_times_of_the_files(client, tables, hiveacid):
    root = place_of(client.get_table(TableRef("default", "never")).folder) / "day=mon"
    days_ago = time.time() - 8 * 24 * 3600
    for file in root.rglob("bucket_00000"):
        os.utime(file, (days_ago, days_ago))
    status, printed = hiveacid("plan", "default.*", "--json")
    assert status == 0
    assert [table for table, _ in planned(printed)][:2] == ["default.never", "default.often"]
    first = json.loads(printed)["partitions"][0]
    assert first["waited_hours"] == pytest.approx(192, abs=0.5)
    later = planned(hiveacid("plan", "default.*", "--json", "--max-wait", "9 days")[1])
    assert [table for table, _ in later][:2] == ["default.often", "default.never"]


def test_the_wait_follows_from_the_times_of_the_files(client, hiveacid):
    ref = create(client, "t", 12)
    root = place_of(client.get_table(ref).folder) / "day=mon"
    oldest = min(root.iterdir()) / "bucket_00000"
    day_ago = time.time() - 24 * 3600
    os.utime(oldest, (day_ago, day_ago))
    (partition,) = json.loads(hiveacid("plan", "default.t", "--json")[1])["partitions"]
    assert partition["oldest_delta_hours"] == pytest.approx(24, abs=0.5)
    assert partition["newest_delta_hours"] == pytest.approx(0, abs=0.5)
    # The eleventh one, if all are evenly spaced.
    assert partition["waited_hours"] == pytest.approx(4, abs=0.5)
