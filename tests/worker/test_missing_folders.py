"""Folders that were removed by hand: an error with its remedy wherever rows are expected."""

import shutil
from pathlib import Path

import pytest

from hiveacid.cli.main import main
from hiveacid.errors import DirectoryMissing
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import TableRef
from hiveacid.upkeep.survey import Survey
from tests.erasure.persons import INSERT_ONLY, Warehouse

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
MISSING = "does not exist, although the metastore has a table or a partition there"


@pytest.fixture
def warehouse(client: MetastoreClient, database: str, tmp_path: Path) -> Warehouse:
    return Warehouse(client, database, tmp_path)


@pytest.mark.parametrize("kind", ["", INSERT_ONLY])
@pytest.mark.parametrize("lost", ["p=1", ""])
def test_a_removed_folder_is_an_error_of_all_but_a_drop(
    warehouse: Warehouse, kind: str, lost: str, capsys: pytest.CaptureFixture[str]
) -> None:
    keys, rows = (" PARTITIONED BY (p int)", "(1, 1), (2, 2)") if lost else ("", "(1), (2)")
    insert = f"INSERT INTO t VALUES {rows}"
    warehouse.sql(f"CREATE TABLE t (id int){keys}{kind}; {insert}; {insert}")
    gone = warehouse.place() / lost
    shutil.rmtree(gone)

    def run(*arguments: str) -> tuple[int, str]:
        capsys.readouterr()
        status = main([*arguments, "--metastore", warehouse.client.options.uris])
        return status, "".join(capsys.readouterr())

    t, worker = warehouse.t, ("--database", warehouse.database, "--run-in", "worker")
    commands = [
        ("cat", t),
        ("sql", "SELECT * FROM t", *worker),
        ("sql", "SELECT count(*), max(id) FROM t", *worker),
        ("sql", "ANALYZE TABLE t COMPUTE STATISTICS", *worker),
        ("sql", insert, *worker),
        ("compact", t, "--type", "major", "--run-in", "worker"),
        ("clean", t),
    ]
    if not kind:
        commands += [("sql", "DELETE FROM t WHERE id = 1", *worker)]
    for command in commands:
        status, said = run(*command)
        assert (status, MISSING in said) == (DirectoryMissing.exit_code, True), (command, said)
        assert "Bring it back" in said or command[0] == "compact", command
        assert not gone.exists(), command
    for command in (("plan", t), ("compact", t, "--run-in", "worker")):
        _, said = run(*command)
        assert f"It cannot be read: The directory file:{gone}".rstrip("/") in said, command
    if lost:
        warehouse.sql("ALTER TABLE t DROP PARTITION (p = 1)")
        assert warehouse.rows() == [{"id": 2, "p": 2}] * 2
        shutil.rmtree(warehouse.place() / "p=2")
    warehouse.sql("DROP TABLE t")


@pytest.mark.parametrize("kind", ["", INSERT_ONLY])
def test_a_new_partition_is_empty_and_an_overwritten_one_has_its_new_rows(
    warehouse: Warehouse, kind: str
) -> None:
    warehouse.sql(f"CREATE TABLE t (id int) PARTITIONED BY (p int){kind}")
    warehouse.sql("ALTER TABLE t ADD PARTITION (p = 1)")
    assert warehouse.rows() == []
    warehouse.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
    shutil.rmtree(warehouse.place() / "p=1")
    warehouse.sql("INSERT OVERWRITE TABLE t VALUES (3, 1)")
    assert warehouse.rows() == [{"id": 3, "p": 1}, {"id": 2, "p": 2}]


@pytest.mark.parametrize("kind", ["", INSERT_ONLY])
@pytest.mark.parametrize("lost", ["a folder", "the files of a directory"])
def test_a_lost_partition_is_never_healthy(
    warehouse: Warehouse, kind: str, lost: str, capsys: pytest.CaptureFixture[str]
) -> None:
    warehouse.sql(f"CREATE TABLE t (id int) PARTITIONED BY (p int){kind}")
    warehouse.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
    partition = warehouse.place() / "p=1"
    if lost == "a folder":
        shutil.rmtree(partition)
    else:
        for file in partition.glob("delta_*/0*" if kind else "delta_*/bucket_*"):
            file.unlink()
    options = ("--metastore", warehouse.client.options.uris)
    for command, shown in (
        ("tables", "p=1: "),
        ("plan", "It cannot be read: "),
        ("metrics", f'hiveacid_table_unreadable_partitions{{table="{warehouse.t}"}} 1'),
    ):
        capsys.readouterr()
        status = main([command, warehouse.t, *options])
        said = "".join(capsys.readouterr())
        assert shown in said, (command, said)
        assert status == (0 if command == "metrics" else DirectoryMissing.exit_code), command
    (decision, _) = Survey(warehouse.client).survey([TableRef.parse(warehouse.t)])
    assert partition.name in (decision.size.problem or "")
