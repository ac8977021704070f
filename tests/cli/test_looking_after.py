"""The commands that show the health of tables and active users, and the one that aborts a
transaction."""

import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hiveacid.cli.main import main
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.thrift.answers import TxnLiveness, TxnType
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.records.consumers import Consumer
from hiveacid.rules.locks import Operation, Target
from hiveacid.rules.names import Base, TableRef
from hiveacid.upkeep.table_detail import table_detail
from tests.cli.acid_files import ids, write_events
from tests.engine.acid_tables import ONLY_HIVE4
from tests.places import place_of
from tests.upkeep.acid_folders import AcidFolders

HIVE_WRITTEN = Path(__file__).parents[1] / "data" / "hive-written"
TOKEN = "nightly/scheduled__2026-01-02/merge/-1"

FAKE = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
REAL = pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)


@pytest.fixture
def folders(client, database):
    folders = AcidFolders.create(client, f"{database}.t")
    for _ in range(12):
        folders.insert()
    return folders


@FAKE
def test_tables_are_listed_the_worst_first(client, database, folders, hiveacid):
    AcidFolders.create(client, f"{database}.a")
    status, printed = hiveacid("tables", database)
    assert status == 0
    head, first, second = printed.splitlines()
    assert head.split()[:2] == ["score", "table"]
    assert first.split()[:3] == ["90", folders.ref.full_name, "12"]
    assert first.endswith(" 12 deltas (limit 10).")
    assert second.split()[:3] == ["100", f"{database}.a", "0"]
    assert first.index("12 deltas (") == second.index("Nothing to do.")
    assert max(map(len, printed.splitlines())) <= 80


@FAKE
def test_a_verdict_never_contradicts_the_score(client, database, folders, hiveacid):
    cleaned = AcidFolders.create(client, f"{database}.compacted")
    for _ in range(3):
        cleaned.insert()
    cleaned.compact(Base(3))
    status, printed = hiveacid("tables", cleaned.ref.full_name)
    assert (status, printed.splitlines()[1].split()[0]) == (0, "90")
    assert printed.endswith(" 21 B wait for a cleaning.\n")
    (table,) = json.loads(hiveacid("tables", cleaned.ref.full_name, "--json")[1])["tables"]
    assert table["verdict"].startswith("21 B wait for a cleaning. No compaction: 0 deltas")
    assert "Nothing to do" not in table["verdict"]


@FAKE
def test_tables_as_json_have_all_figures(client, database, folders, hiveacid):
    with Transaction(
        client, targets=[Target(folders.ref, Operation.INSERT)], run_token=TOKEN, user="ann"
    ) as txn:
        status, printed = hiveacid("tables", folders.ref.full_name, "--json")
    assert status == 0
    (table,) = json.loads(printed)["tables"]
    assert (table["table"], table["deltas"], table["score"]) == (folders.ref.full_name, 12, 90)
    assert table["oldest_txn"]["txn_id"] == txn.txn_id
    assert table["oldest_txn"]["run_token"] == TOKEN
    assert [penalty["points"] for penalty in table["penalties"]] == [10]
    assert [need["type"] for need in table["needs"]] == ["major"]


@FAKE
def test_a_table_that_cannot_be_measured_is_an_exit_code(database, hiveacid):
    assert hiveacid("tables", f"{database}.missing")[0] == 30
    assert hiveacid("tables", "nowhere")[0] == 20
    assert hiveacid("tables", database) == (0, "No transactional table.\n")


@FAKE
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ((), "1 delta (limit 10)"),
        (("--type", "major"), "delta_0000001_0000001_0000 is the only directory."),
        (("--type", "minor"), "delta_0000001_0000001_0000 is the only delta."),
    ],
)
def test_a_compaction_with_nothing_to_do_starts_no_spark(
    client, database, hiveacid, monkeypatch, options, reason
):
    folders = AcidFolders.create(client, f"{database}.t")
    folders.insert()
    monkeypatch.delattr("hiveacid.cli.local_spark.run_on_spark")
    status, printed = hiveacid("compact", folders.ref.full_name, *options, "--json")
    (partition,) = json.loads(printed)["partitions"]
    assert (status, partition["outcome"]) == (0, "skipped")
    assert reason in partition["reason"]
    assert client.show_locks(folders.ref) == []


@FAKE
def test_the_history_of_a_table_is_shown(folders, hiveacid):
    recently = (datetime.now(UTC) - timedelta(days=2)).isoformat()
    sidecar = {"operation": "merge", "time": recently, "run_token": TOKEN}
    (folders.root / "delta_0000012_0000012_0000" / "_hiveacid.json").write_text(json.dumps(sidecar))
    status, printed = hiveacid("history", folders.ref.full_name, "--limit", "2")
    assert status == 0
    title, head, newest, older = printed.splitlines()
    assert title == f"{folders.ref}: 2 entries"
    assert head.split() == ["version", "time", "(UTC)", "did", "state", "rows", "size", "by"]
    day, clock = sidecar["time"][5:10], sidecar["time"][11:16]
    assert newest.split()[:5] == ["12", day, clock, "merge", "current"]
    assert newest.endswith(" nightly.merge")
    assert older.split()[0::3][:2] == ["11", "insert"]
    assert max(len(head), len(newest), len(older)) <= 80
    status, printed = hiveacid("history", folders.ref.full_name, "--limit", "1", "--directories")
    _, _, _, directory, _, run = printed.splitlines()
    assert directory.split()[:2] == ["delta_0000012_0000012_0000", "current"]
    assert run.split() == ["run", TOKEN]
    # A moment that is before the first year by another clock.
    sidecar["time"] = "0001-01-01T00:00:00+14:00"
    (folders.root / "delta_0000012_0000012_0000" / "_hiveacid.json").write_text(json.dumps(sidecar))
    status, printed = hiveacid("history", folders.ref.full_name, "--limit", "1")
    assert status == 0
    entries = json.loads(hiveacid("history", folders.ref.full_name, "--json")[1])["history"]
    assert [entry["write_id"] for entry in entries] == list(range(12, 0, -1))
    assert (entries[0]["state"], entries[0]["directories"]) == ("current", [])


@FAKE
def test_consumers_are_shown_and_forgotten(client, folders, hiveacid):
    name = folders.ref.full_name
    assert hiveacid("consumers", "list", name) == (0, f"{name}: 0 consumers\n")
    Consumer(client, name, "log", ["d.copy"]).advance(9)
    Consumer(client, name, "new", ["d.copy"]).begin(0)
    status, printed = hiveacid("consumers", name)
    rows = [line.split() for line in printed.splitlines()[1:]]
    assert (status, rows) == (
        0,
        [["consumer", "version", "behind"], ["log", "9", "3"], ["new", "0", "12"]],
    )
    described = json.loads(hiveacid("consumers", "list", name, "--json")[1])["consumers"]
    assert described[0] == {"name": "log", "version": 9, "behind": 3, "problem": ""}
    detail = table_detail(client, folders.ref)
    assert repr(detail).endswith("log at version 9, 3 behind; new at version 0, 12 behind")
    assert hiveacid("consumers", "forget", name, "log")[0] == 0
    assert [one.name for one in table_detail(client, folders.ref).consumers] == ["new"]
    assert hiveacid("consumers", "forget", name, "log")[0] == 20


@REAL
def test_locks_are_shown_with_their_holders(client, database, hiveacid):
    folders = AcidFolders.create(client, f"{database}.t")
    name = folders.ref.full_name
    assert hiveacid("locks", name) == (0, "No locks.\n")
    with Transaction(
        client, targets=[Target(folders.ref, Operation.UPDATE)], run_token=TOKEN, user="ann"
    ) as txn:
        _, printed = hiveacid("locks", name)
        (lock,) = json.loads(hiveacid("locks", name, "--json")[1])["locks"]
        everything = json.loads(hiveacid("locks", "--json")[1])["locks"]
    head, shown = printed.splitlines()
    assert head.split()[:4] == ["lock", "txn", "type", "state"]
    assert shown.split()[-2:] == ["nightly.merge", "scheduled__2026-01-02"]
    assert shown.split()[1:4] == [str(txn.txn_id), "excl_write", "acquired"]
    assert name in shown
    assert "ann@" in printed
    assert (lock["txn_id"], lock["user"], lock["state"]) == (txn.txn_id, "ann", "acquired")
    assert (lock["database"], lock["table"]) == (database, "t")
    assert lock in everything


@REAL
def test_a_transaction_is_shown_and_aborted_with_a_reason(client, hiveacid):
    txn_id = client.open_txn("ann", f"here~abcdef/{TOKEN}", None)
    listed = json.loads(hiveacid("txns", "--json")[1])
    (shown,) = (txn for txn in listed["open"] if txn["txn_id"] == txn_id)
    assert (shown["user"], shown["host"], shown["run_token"]) == ("ann", "here", TOKEN)
    head, *rows = hiveacid("txns", "list")[1].splitlines()[1:]
    assert head.split()[0] == "txn"
    (row,) = (row.split() for row in rows if row.split()[0] == str(txn_id))
    assert row[-2:] == ["nightly.merge", "scheduled__2026-01-02"]
    status, printed = hiveacid("txns", "abort", str(txn_id), "--reason", "a ghost")
    assert (status, printed) == (0, f"Transaction {txn_id} of ann@here/{TOKEN} is aborted.\n")
    assert client.heartbeat(txn_id) is TxnLiveness.ABORTED
    again = json.loads(hiveacid("txns", "abort", str(txn_id), "--reason", "sure", "--json")[1])
    assert (again["aborted"], again["reason"]) == (False, "sure")
    after = json.loads(hiveacid("txns", "list", "--json")[1])
    assert txn_id not in [txn["txn_id"] for txn in after["open"]]


@REAL
def test_a_transaction_that_only_reads_can_be_aborted_too(client, hiveacid):
    txn_id = client.open_txn("bob", "here", None, TxnType.READ_ONLY)
    status, _ = hiveacid("txns", "abort", str(txn_id), "--reason", "in the way")
    assert status == 0
    assert client.heartbeat(txn_id) is TxnLiveness.ABORTED


@FAKE
def test_impossible_aborts_are_refused(client, hiveacid):
    committed = client.open_txn("ann", "here", None)
    client.commit_txn(committed)
    status, said = hiveacid("txns", "abort", str(committed), "--reason", "why not")
    assert status == 20
    assert f"Transaction {committed} is not open" in said
    open_ = client.open_txn("ann", "here", None)
    status, said = hiveacid("txns", "abort", str(open_), "--reason", " ")
    assert (status, client.heartbeat(open_)) == (20, TxnLiveness.OPEN)
    client.abort_txn(open_)


@REAL
def test_a_doctor_finds_nothing_wrong_where_all_is_well(client, database, hiveacid):
    ref = TableRef(database, "t")
    client.create_table(HiveTable.new(ref, [HiveColumn("a", "int"), HiveColumn("b", "string")]))
    root = place_of(client.get_table(ref).folder)
    shutil.copytree(HIVE_WRITTEN / "hive4", root, dirs_exist_ok=True)
    shutil.rmtree(root / "base_0000003")
    for _ in range(2):
        txn = client.open_txn("tests", "localhost", None)
        client.allocate_write_id(txn, ref)
        client.commit_txn(txn)
    before = sorted(root.rglob("*"))
    status, printed = hiveacid("doctor", "--table", ref.full_name)
    assert status == 0
    lines = [line for line in printed.splitlines() if not line.startswith("        ")]
    assert [line.split()[:2] for line in lines] == [
        ["ok", "packages:"],
        ["ok", "spark:"],
        ["ok", "java:"],
        ["ok", "metastore:"],
        ["ok", "features:"],
        ["ok", "transactions:"],
        ["ok", "HIVE-29567"],
        ["ok", "HIVE-28700"],
        ["ok", "HIVE-29210"],
        ["ok", "HIVE-29186"],
        ["ok", "HIVE-29644"],
        ["ok", "HIVE-29520"],
        ["ok", "HIVE-26704"],
        ["ok", "HIVE-25503"],
        ["ok", "HIVE-27075"],
        ["ok", "HIVE-24291"],
        ["ok", "HIVE-30026"],
        ["ok", "HIVE-29571"],
        ["ok", "HIVE-29572"],
        ["ok", "folder:"],
        ["ok", "files:"],
    ]
    assert lines[-1].endswith(": 3 files are valid")
    assert sorted(root.rglob("*")) == before
    assert hiveacid("doctor")[0] == 0


@pytest.fixture
def diagnose(hms, capsys):
    """Return the failed checks of the doctor, by name, and the exit status."""

    def diagnose(*arguments):
        capsys.readouterr()
        status = main(["doctor", "--metastore", hms.uri, "--json", *arguments])
        checks = json.loads(capsys.readouterr().out)["checks"]
        return status, {check["name"]: check for check in checks if check["exit_code"]}

    return diagnose


@FAKE
def test_a_doctor_reports_known_problems_without_failing(hms, hiveacid):
    status, printed = hiveacid("doctor")
    assert status == 0
    assert ", 1 database, as " in printed
    found = {line.split()[1]: line.split()[0] for line in printed.splitlines() if "HIVE-" in line}
    assert found["HIVE-25503"] == ("WARN" if hms.version == "3.1.3" else "ok")
    assert "  HIVE-26704 (an open transaction blocks Hive's cleaner for all tables): " in printed
    checks = json.loads(hiveacid("doctor", "--json")[1])["checks"]
    (problem,) = [check for check in checks if check["name"] == "HIVE-25503"]
    assert (problem["ok"], problem["exit_code"]) == (hms.version != "3.1.3", 0)
    assert [check["name"] for check in checks if check["undetermined"]]


@FAKE
def test_a_doctor_finds_a_file_that_contradicts_its_name(folders, diagnose):
    for delta in folders.root.glob("delta_*"):
        shutil.rmtree(delta)
    path = folders.root / "delta_0000001_0000001_0000" / "bucket_00000"
    write_events(path, [(9, 0, 9)], ids(1))
    status, wrong = diagnose("--table", folders.ref.full_name)
    assert (status, list(wrong)) == (30, ["files"])
    assert "problems in 1 file." in wrong["files"]["found"]
    assert str(path) in wrong["files"]["found"]
    path.write_bytes(path.read_bytes()[:-9])
    assert diagnose("--table", folders.ref.full_name)[0] == 30


@FAKE
def test_a_doctor_finds_a_folder_that_cannot_be_written(folders, diagnose):
    shutil.rmtree(folders.root)
    folders.root.write_text("It is a file.")
    status, wrong = diagnose("--table", folders.ref.full_name)
    assert status == 50
    assert str(folders.root) in wrong["folder"]["found"]
    folders.root.unlink()
    folders.root.mkdir()


@FAKE
@pytest.mark.parametrize("folders", [("a", "a"), ("a", "b")], ids=["one folder", "two folders"])
def test_a_doctor_finds_packages_that_overwrite_each_other(
    diagnose, monkeypatch, tmp_path, folders
):
    for folder, package in zip(folders, ("pyspark-4.1.3", "pyspark_client-4.2.0"), strict=True):
        name, _, number = package.partition("-")
        info = tmp_path / folder / f"{package}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Name: {name}\nVersion: {number}\n")
        monkeypatch.syspath_prepend(str(info.parent))
    status, wrong = diagnose()
    if len(set(folders)) == 2:
        assert (status, wrong) == (0, {})
        return
    assert (status, list(wrong)) == (20, ["spark"])
    assert "pyspark 4.1.3 and pyspark-client 4.2.0" in wrong["spark"]["found"]
    assert "pyspark==4.1.3 pyspark-client==4.1.3" in wrong["spark"]["remedy"]


@FAKE
def test_a_doctor_warns_of_a_spark_that_no_test_has_seen(hiveacid, monkeypatch, tmp_path):
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.13-4.9.0.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    status, printed = hiveacid("doctor")
    (line,) = [line for line in printed.splitlines() if "Spark 4.9.0" in line]
    assert (status, line.split()[0]) == (0, "WARN")
    assert "hiveacid doctor --spark" in line


@FAKE
def test_a_doctor_finds_that_java_is_missing(diagnose, monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    status, wrong = diagnose()
    assert (status, list(wrong)) == (20, ["java"])


def test_a_doctor_reports_an_unreachable_metastore(capsys):
    status = main(["doctor", "--metastore", "thrift://127.0.0.1:1", "--json"])
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert status == 40
    assert checks["metastore"]["ok"] is False
    assert "127.0.0.1:1" in checks["metastore"]["found"]
    assert "transactions" not in checks


def test_a_doctor_reports_an_unusable_connection(capsys):
    status = main(["doctor", "--metastore", "thrift:no", "--json"])
    *_, connection = json.loads(capsys.readouterr().out)["checks"]
    assert (status, connection["name"], connection["ok"]) == (20, "connection", False)
    assert "thrift:no" in connection["found"]


def test_a_metastore_must_be_named_in_one_way(capsys, monkeypatch):
    assert main(["locks"]) == 20
    monkeypatch.setenv("HIVEACID_METASTORE", "thrift://127.0.0.1:1")
    assert main(["locks"]) == 40
    assert "127.0.0.1:1" in capsys.readouterr().err
    assert main(["locks", "--metastore", "thrift://h:1", "--conn-id", "hms"]) == 20
    assert "--metastore URI, or --conn-id" in capsys.readouterr().err


def test_the_command_line_loads_nothing_heavy_before_a_command_runs():
    code = (
        "import sys, hiveacid.cli.main\n"
        "print({'airflow', 'pyspark', 'pyarrow', 'numpy', 'thrift'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
