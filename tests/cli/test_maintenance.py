"""The commands that look after a table, on a table of two partitions with deltas."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hiveacid.cli.main import main
from hiveacid.errors import AccessRefused, DataError
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.rules.locks import matrix_rows
from hiveacid.rules.names import TableRef
from tests.cli.acid_files import ids, write_events
from tests.engine.acid_tables import ONLY_HIVE4
from tests.engine.definitions import replace_definition

pytestmark = pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)

ID = HiveColumn("id", "int")
DAY = HiveColumn("day", "string")


def spend_write_id(client, ref):
    txn = client.open_txn("tests", "localhost", "tests")
    write_id = client.allocate_write_id(txn, ref)
    client.commit_txn(txn)
    return write_id


@pytest.fixture
def table(client, database):
    """Twelve deltas of one row each in one partition, one delta in the other."""
    ref = TableRef(database, "t")
    client.create_table(
        HiveTable.new(ref, [ID], partition_keys=[DAY], parameters={"hiveacid.retention": "0"})
    )
    table = client.get_table(ref)
    client.add_partitions(ref, [HivePartition.new(table, [day]) for day in ("mon", "tue")])
    root = Path(table.folder.removeprefix("file:"))
    for day in ["mon"] * 12 + ["tue"]:
        write_id = spend_write_id(client, ref)
        delta = f"day={day}/delta_{write_id:07d}_{write_id:07d}_0000"
        write_events(root / delta / "bucket_00000", [(write_id, 0, write_id)], ids(write_id))
        (root / delta / "_orc_acid_version").write_text("2")
    return ref, root


def directories(root, day):
    return sorted(path.name for path in (root / f"day={day}").iterdir())


def test_a_plan_shows_overlapping_writers_on_request(table, hiveacid):
    printed = hiveacid("plan", str(table[0]), "--conflicts")[1].splitlines()
    assert [line.split() for line in printed[-6:]] == [
        " ".join(line).split() for line in matrix_rows()
    ]
    shown = json.loads(hiveacid("plan", str(table[0]), "--conflicts", "--json")[1])
    assert shown["conflicts"]["minor"] == ["append", "change", "major", "overwrite"]
    assert hiveacid("plan", "--conflicts")[1].splitlines() == printed[-len(matrix_rows()) - 1 :]
    assert json.loads(hiveacid("plan", "--conflicts", "--json")[1]) == {
        "conflicts": shown["conflicts"]
    }
    status, message = hiveacid("plan")
    assert (status, message) == (20, "hiveacid: hiveacid plan needs a table, or --conflicts.\n")


def test_a_plan_has_a_reason_for_every_partition(table, hiveacid):
    status, printed = hiveacid("plan", str(table[0]))
    title, head, first, second, codec = printed.splitlines()
    assert status == 0
    assert codec.startswith(f"{table[0]} states no codec.")
    assert head.split() == ["type", "partition", "to", "read", "run", "in", "reason"]
    assert title.startswith(f"{table[0]}: 1 of 2 to compact, ")
    assert first.split()[:2] == ["major", "day=mon"]
    assert "12 deltas (limit 10)" in first
    assert second.split()[:2] == ["-", "day=tue"]
    assert "1 delta (limit 10)" in second
    assert first.index("12 delta") == second.index("1 delta")


def test_a_plan_prints_the_first_partitions_and_all_unreadable_ones(table, hiveacid, hms, capsys):
    ref, root = table
    status, printed = hiveacid("plan", str(ref), "--limit", "1")
    _, _, first, more, _ = printed.splitlines()
    assert status == 0
    assert first.split()[:2] == ["major", "day=mon"]
    assert more == "1 more partition; --limit N shows more."
    listed = json.loads(hiveacid("plan", str(ref), "--limit", "1", "--json")[1])
    assert len(listed["partitions"]) == 2
    (root / "day=tue" / "base_x").mkdir()
    (root / "day=tue" / "base_x" / "bucket_00000").write_text("x")
    assert main(["plan", str(ref), "--limit", "0", "--metastore", hms.uri]) == 30
    assert [row.split()[1] for row in capsys.readouterr().out.splitlines()[2:-2]] == ["day=tue"]


def test_a_plan_as_json_has_all_figures(table, hiveacid):
    arguments = ("plan", str(table[0]), "--json", "--partition", "day=tue", "--max-deltas", "1")
    status, printed = hiveacid(*arguments)
    assert status == 0
    plan = json.loads(printed)
    assert plan["table"] == str(table[0])
    (partition,) = plan["partitions"]
    assert partition["partition"] == "day=tue"
    assert partition["type"] is None
    assert partition["deltas"] == ["delta_0000013_0000013_0000"]
    assert partition["delta_bytes"] > 0


def test_a_plan_with_a_budget_lists_waiting_partitions(table, hiveacid):
    low = ("--max-deltas", "1", "--max-ratio", "0")
    spare = hiveacid("plan", str(table[0]), *low, "--max-bytes", "1", "--max-partitions", "1")
    assert spare[1].startswith(f"{table[0]}: 1 of 2 to compact")


def test_a_partition_that_cannot_be_read_is_a_line_and_an_exit_code(table, hiveacid):
    ref, root = table
    (root / "day=tue" / "base_x").mkdir()
    (root / "day=tue" / "base_x" / "bucket_00000").write_text("x")
    status, _ = hiveacid("plan", str(ref))
    assert status == 30


def test_cleaning_reports_removed_and_kept_directories(table, hiveacid):
    ref, root = table
    aborted = root / "day=tue" / "_tmp_hiveacid_1_0"
    aborted.mkdir()
    (aborted / "part-0").write_text("12345")
    (root / "day=tue" / "strange").mkdir()
    (root / "day=tue" / "strange" / "file").write_text("x")
    status, dry = hiveacid("clean", str(ref), "--dry-run")
    assert status == 0
    assert dry.startswith(f"{ref}: 1 to remove, 5 B; 1 kept\n  All versions can be read.\n")
    assert any(
        line.split()[:3] == ["to", "remove", "day=tue/_tmp_hiveacid_1_0"]
        for line in dry.splitlines()
    )
    assert aborted.exists()
    status, printed = hiveacid("clean", str(ref), "--json", "--partition", "day=tue")
    report = json.loads(printed)
    assert [entry["path"] for entry in report["removed"]] == ["day=tue/_tmp_hiveacid_1_0"]
    assert [entry["path"] for entry in report["kept"]] == ["day=tue/strange"]
    assert not aborted.exists()
    assert (root / "day=tue" / "strange" / "file").exists()


def test_a_table_is_compacted_and_cleaned_by_the_program(table, hms, hiveacid):
    ref, root = table
    before = sorted(hiveacid("cat", str(ref))[1].splitlines())

    def program(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "hiveacid.cli.main", *arguments, "--metastore", hms.uri],
            check=True,
            capture_output=True,
            encoding="utf-8",
            env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"},
        )

    done = program("compact", str(ref), "--master", "local[1]", "--json")
    report = json.loads(done.stdout)
    assert {partition["partition"]: partition["outcome"] for partition in report["partitions"]} == {
        "day=mon": "compacted",
        "day=tue": "skipped",
    }
    compacted = report["partitions"][0]
    assert (compacted["type"], compacted["rows"], len(compacted["replaced"])) == ("major", 12, 12)
    assert "/day=mon: publish the files ..." in done.stderr
    assert sorted(hiveacid("cat", str(ref))[1].splitlines()) == before
    assert "hiveacid: clean ... (0 removed)" in program("clean", str(ref)).stderr
    assert directories(root, "mon") == compacted["published"]
    assert sorted(hiveacid("cat", str(ref))[1].splitlines()) == before


def test_a_compaction_is_reported_in_lines_and_a_failure_by_its_exit_code(
    table, hiveacid, spark, monkeypatch
):
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "")
    ref, root = table
    status, printed = hiveacid("compact", str(ref), "--type", "minor")
    assert status == 0
    title, *lines = printed.splitlines()
    assert title == f"{ref}: 1 compacted, 1 skipped"
    shown = [line.split() for line in lines]
    assert shown[0] == ["outcome", "type", "partition", "reason"]
    assert shown[1][:3] == ["compacted", "minor", "day=mon"]
    assert shown[2][:3] == ["skipped", "-", "day=tue"]
    assert shown[4][:5] == ["partition", "became", "of", "rows", "deletes"]
    assert shown[5][1].startswith("delta_0000001_0000012_v")
    assert shown[5][:1] + shown[5][2:5] == ["day=mon", "12", "12", "0"]
    broken = root / "day=tue" / "delta_0000013_0000013_0000" / "bucket_00000"
    broken.write_bytes(broken.read_bytes()[:-20])
    other = root / "day=tue" / "delta_0000012_0000012_0000" / "bucket_00000"
    write_events(other, [(12, 0, 12)], ids(12))
    status, said = hiveacid("compact", str(ref), "--type", "major", "--partition", "day=tue")
    assert status == 30
    assert "1 of 1 failed" in said
    assert str(broken) in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plan", "orders"], "'orders'"),
        (["plan", "db.t", "--partition", "mon"], "mon"),
        (["plan", "db.t", "--quiet-hours", "at night"], "'at night' cannot be read"),
        (["compact", "db.t", "--mode", "serve", "--type", "major"], "Omit both fields"),
        (["compact", "db.t", "--parallel", "0"], "parallel"),
        (["clean", "db.t", "--keep-notes-days", "-1"], "keep_notes_days"),
        (["clean", "nowhere.t"], "nowhere"),
        (["plan", "nowhere.t"], "nowhere"),
    ],
)
def test_contradictory_requests_are_reported_before_any_work(hiveacid, arguments, message):
    status, said = hiveacid(*arguments)
    assert status == 20
    assert message in said


def test_all_tables_of_a_pattern_are_maintained(table, database, hiveacid):
    ref, root = table
    status, printed = hiveacid("maintain", f"{database}.*")
    assert status == 0
    assert "tables: 1 surveyed, partitions: 1 compacted, " in printed
    assert f"{ref}" in printed
    assert [len(directories(root, day)) for day in ("mon", "tue")] == [1, 1]
    assert "Versions can be read" not in printed
    assert "Versions can be read since 12, of 20" in hiveacid("clean", str(ref))[1]
    again = json.loads(hiveacid("maintain", f"{database}.*", "--json")[1])
    assert (again["surveyed"], again["tables"], again["skipped"]) == (1, [], [])


def test_a_maintenance_lists_what_is_kept_for_earlier_versions(table, database, hiveacid, client):
    replace_definition(client, table[0], lambda raw: raw.parameters.pop("hiveacid.retention"))
    status, printed = hiveacid("maintain", f"{database}.*")
    assert status == 0
    (kept,) = [line for line in printed.splitlines() if line.split()[:1] == ["kept"]]
    assert kept.split()[1] == str(table[0])
    assert "All versions can be read. " in kept
    assert kept.endswith(" are kept for earlier ones.")


def test_a_failed_table_of_a_pattern_is_reported(table, database, hiveacid):
    ref, root = table
    next(root.rglob("day=mon/*/bucket_00000")).write_bytes(b"no ORC file")
    status, printed = hiveacid("maintain", f"{database}.*")
    assert status == DataError.exit_code
    assert f"1 of 1 tables failed ({ref})" in printed
    assert len(directories(root, "mon")) == 12


def refuse(**_):
    return False


def test_the_authorizer_decides_which_tables_are_maintained(table, database, hiveacid, monkeypatch):
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__AUTHORIZER", f"{__name__}.refuse")
    status, printed = hiveacid("maintain", f"{database}.*")
    assert status == AccessRefused.exit_code
    assert f"may not compact {table[0]}" in printed
    assert len(directories(table[1], "mon")) == 12
