"""Links that lead nowhere in the place of files: no row is doubled, and none is missing silently."""

from pathlib import Path

import pytest

from hiveacid.cli.main import main
from hiveacid.errors import NotAFile
from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.jobs.sources import QuerySource
from hiveacid.jobs.write_jobs import InsertJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.upkeep.table_cleaning import clean
from hiveacid.worker.run import change_rows
from tests.erasure.persons import INSERT_ONLY, Warehouse

FAKE = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)


@pytest.fixture
def warehouse(client: MetastoreClient, database: str, tmp_path: Path) -> Warehouse:
    return Warehouse(client, database, tmp_path)


def _replace_by_link(path: Path) -> None:
    path.rename(path.parent / "_elsewhere")
    path.symlink_to("nowhere")


@FAKE
@pytest.mark.parametrize("of_folder", [False, True])
def test_a_link_in_place_of_a_note_doubles_no_row(warehouse: Warehouse, of_folder: bool) -> None:
    warehouse.sql("CREATE TABLE t (id int)")
    job = InsertJob(
        target=warehouse.t,
        source=QuerySource("VALUES (1)"),
        by_position=True,
        run_token="dag.task.2026-11-30",
        run_in="worker",
        metastore=warehouse.client.options,
    )
    change_rows(warehouse.client, job)
    [note] = (warehouse.place() / "_hiveacid_runs").iterdir()
    _replace_by_link(note.parent if of_folder else note)
    if of_folder:
        with pytest.raises(NotAFile, match="_hiveacid_runs is not a directory"):
            change_rows(warehouse.client, job)
    else:  # The notes in the directories prove the commit.
        assert change_rows(warehouse.client, job).already_done
    assert warehouse.rows() == [{"id": 1}]


@FAKE
@pytest.mark.parametrize("kind", ["", INSERT_ONLY])
def test_a_link_in_place_of_a_folder_is_not_an_empty_folder(
    warehouse: Warehouse, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    warehouse.sql(f"CREATE TABLE t (id int) PARTITIONED BY (p int){kind}")
    warehouse.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
    _replace_by_link(warehouse.place() / "p=1")
    uris = warehouse.client.options.uris
    for command in (
        ["cat", warehouse.t],
        ["compact", warehouse.t, "--type", "major", "--run-in", "worker"],
    ):
        status = main([*command, "--metastore", uris])
        assert status == NotAFile.exit_code, command
        assert "p=1 is neither a file nor" in (said := "".join(capsys.readouterr())) or (
            "p=1 is not a directory" in said
        )


@FAKE
@pytest.mark.parametrize("kind", ["", INSERT_ONLY])
@pytest.mark.parametrize("pattern", ["delta_*", "delta_*/*_0*"])
def test_a_link_in_place_of_rows_is_an_error_of_every_reader_and_of_a_cleaning(
    warehouse: Warehouse, kind: str, pattern: str, capsys: pytest.CaptureFixture[str]
) -> None:
    warehouse.sql(f"CREATE TABLE t (id int){kind}; INSERT INTO t VALUES (1)")
    first = next(iter(warehouse.place().glob(pattern)))
    warehouse.sql("INSERT INTO t VALUES (2)")
    _replace_by_link(first)
    read = main(["cat", warehouse.t, "--metastore", warehouse.client.options.uris])
    assert read == NotAFile.exit_code
    assert f"{first.name} is neither a file nor a directory" in capsys.readouterr().err
    with pytest.raises(NotAFile):
        clean(warehouse.client, CleanJob(target=warehouse.t, metastore=warehouse.client.options))
