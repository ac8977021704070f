"""Exports to a catalog: each takes place once, and a failed one leaves nothing behind."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField

from hiveacid.errors import (
    CommitUncertain,
    IcebergRefused,
    InvalidJob,
    SharedLocation,
    SoftwareMissing,
    TableExists,
    TableNotFound,
    UnsupportedTable,
)
from hiveacid.iceberg.catalogs import checked_options
from hiveacid.iceberg.guarded_catalog import DatabaseCatalog
from hiveacid.jobs.iceberg_job import IcebergExportJob
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.progress import Phase, PhaseObserver
from hiveacid.rules.names import TableRef
from tests.iceberg.case import ExportCase
from tests.iceberg.lakes import opened_as

KILLED = -9
NOTE = "_attempt.json"
STEPS = (Phase.OPEN, Phase.LOCK, Phase.READ, Phase.REGISTER, Phase.WRITE, Phase.COMMIT, Phase.CLEAN)


class Broken(Exception):
    pass


class BreaksAt(PhaseObserver):
    def __init__(self, phase: Phase, edge: str) -> None:
        self._phase, self._edge = phase, edge

    def enter(self, phase: Phase) -> None:
        if (phase, self._edge) == (self._phase, "before"):
            raise Broken

    def leave(self, phase: Phase, seconds: float) -> None:
        if (phase, self._edge) == (self._phase, "after"):
            raise Broken


class AnswersAreLost(DatabaseCatalog):
    """A catalog whose commits fail after, or before, they have taken effect."""

    takes_effect = True

    def commit_table(self, *arguments: Any) -> Any:
        if self.takes_effect:
            super().commit_table(*arguments)
        raise ConnectionError("The answer was lost.")


class NothingArrives(AnswersAreLost):
    takes_effect = False


def test_the_table_has_the_rows_and_the_snapshot_names_their_origin(case: ExportCase) -> None:
    before = case.hive_files()
    report = case.run(run_token="dag/run/task/-1")
    assert case.rows() == case.expected
    assert report.rows == len(case.expected)
    assert report.target == case.target
    assert not report.already_done
    assert case.hive_files() == before
    assert case.files() == case.used_files()
    table = case.table()
    assert table is not None
    (snapshot,) = table.metadata.snapshots
    assert snapshot.snapshot_id == report.snapshot_id
    assert table.metadata.format_version == 2
    assert table.properties["write.format.default"] == "parquet"
    summary = snapshot.summary.additional_properties
    identity = case.client.get_table(TableRef.parse(case.target)).identity
    assert summary["hiveacid.table"] == case.target
    assert summary["hiveacid.table-id"] == identity.text
    assert summary["hiveacid.write-id"] == str(report.write_id)
    assert summary["hiveacid.write-ids"].startswith(case.target)
    assert summary["hiveacid.run"].startswith("dag/run/task/-1@")
    assert len(report.columns) == len(table.schema().fields)


def test_a_retry_finds_the_snapshot_of_an_earlier_attempt(case: ExportCase) -> None:
    first = case.run(run_token="run")
    again = case.run(run_token="run")
    assert again.already_done
    assert (again.snapshot_id, again.rows) == (first.snapshot_id, first.rows)
    assert case.rows() == case.expected
    for token in ("another run", None):
        report = case.run(run_token=token)
        assert (report.outcome, report.snapshot_id) == ("unchanged", first.snapshot_id)
    assert case.files() == case.used_files()


def test_a_table_that_no_export_has_created_is_refused(case: ExportCase) -> None:
    case.catalog.create_table("ns.t", Schema(NestedField(1, "id", IntegerType())))
    with pytest.raises(TableExists, match=r"ns\.t exists already, and is no mirror"):
        case.run()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("edge", ["before", "after"])
@pytest.mark.parametrize("phase", STEPS)
def test_a_failure_at_any_step_leaves_no_file_and_the_next_run_exports(
    case: ExportCase, phase: Phase, edge: str
) -> None:
    before = case.hive_files()
    with pytest.raises(Broken):
        case.run(BreaksAt(phase, edge), run_token="run")
    # After a commit, the note on the attempt remains until the next run.
    assert {file for file in case.files() if not file.endswith(NOTE)} == case.used_files()
    report = case.run(run_token="run")
    committed = (phase, edge) in [(Phase.COMMIT, "after"), (Phase.CLEAN, "before")]
    assert report.already_done == (committed or phase is Phase.CLEAN)
    assert case.rows() == case.expected
    assert case.files() == case.used_files()
    assert case.hive_files() == before
    assert not case.client.show_locks()


@pytest.mark.parametrize("fault", ["write:kill:before", "write:kill:after", "commit:kill:before"])
def test_files_of_a_killed_run_are_removed_by_the_next_one(case: ExportCase, fault: str) -> None:
    assert case.command(fault=fault).returncode == KILLED
    assert case.table() is None
    assert case.files()
    case.let_files_age()
    done = case.command("--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == len(case.expected)
    assert case.rows() == case.expected
    assert case.files() == case.used_files()


def test_a_run_that_was_killed_after_its_commit_is_found(case: ExportCase) -> None:
    assert case.command(fault="commit:kill:after").returncode == KILLED
    assert case.rows() == case.expected
    again = case.command("--json")
    assert json.loads(again.stdout)["outcome"] == "unchanged"
    assert case.rows() == case.expected
    assert case.files() == case.used_files()


def test_a_commit_whose_answer_is_lost_is_looked_up(case: ExportCase) -> None:
    with opened_as("sql", AnswersAreLost):
        report = case.run(run_token="run")
    assert report.snapshot_id is not None
    table = case.table()
    assert table is not None
    assert report.metadata_location == table.metadata_location
    assert f"metadata: {report.metadata_location}\n" in case.command().stdout
    assert case.rows() == case.expected
    assert case.files() == case.used_files()


def test_files_remain_while_the_outcome_of_a_commit_is_unknown(case: ExportCase) -> None:
    uncertain = pytest.raises(CommitUncertain, match="Run the job again")
    with opened_as("sql", NothingArrives), uncertain:
        case.run(run_token="run")
    assert case.table() is None
    assert case.files()
    case.let_files_age()
    assert case.run(run_token="run").rows == len(case.expected)
    assert case.files() == case.used_files()


def test_a_program_that_creates_the_table_meanwhile_wins(case: ExportCase) -> None:
    class Rival(PhaseObserver):
        def enter(self, phase: Phase) -> None:
            if phase is Phase.COMMIT:
                case.run(run_token="rival")

    with pytest.raises(Exception, match="was not created"):
        case.run(Rival(), run_token="run")
    assert case.rows() == case.expected
    assert case.files() == case.used_files()


def test_a_dry_run_reports_the_work_and_writes_nothing(case: ExportCase) -> None:
    plan = case.run(dry_run=True)
    assert case.table() is None
    assert case.files() == set()
    done = case.run()
    for name in ("files", "stripes_copied", "bytes_copied", "stripes_encoded", "bytes_encoded"):
        assert getattr(plan, name) >= getattr(done, name)
    assert plan.columns == done.columns
    assert plan.rows is plan.metadata_location is None


@pytest.mark.parametrize("where", ["", "/inside", "/.."])
def test_a_folder_that_both_tables_would_share_is_refused(case: ExportCase, where: str) -> None:
    with pytest.raises(SharedLocation, match="overlap"):
        case.run(location=f"file:{case.source}{where}")
    assert case.table() is None


@pytest.mark.parametrize("where", ["", "/delta_0000001_0000001_0000", "/.."])
def test_no_export_is_written_into_the_folder_of_any_table(case: ExportCase, where: str) -> None:
    """Neither the first one, nor an update of a mirror in a folder that has become a table's."""
    folder = case.folder / "salaries" / "t"
    table = HiveTable.new(
        TableRef("default", "salaries"), [HiveColumn("id", "int")], location=f"file:{folder}"
    )
    case.client.create_table(table)
    with pytest.raises(SharedLocation, match=r"would share files with default\.salaries"):
        case.run(location=f"file:{folder}{where}")
    assert case.table() is None
    assert list(folder.iterdir()) == []
    case.client.drop_table(table.ref)
    case.run(location=f"file:{folder}{where}")
    folder.mkdir(parents=True, exist_ok=True)
    case.client.create_table(table)
    with pytest.raises(SharedLocation, match=r"default\.salaries"):
        case.run(location=f"file:{folder}{where}")
    case.client.drop_table(table.ref, delete_data=False)


def test_columns_that_iceberg_lacks_are_rejected_with_reasons(case: ExportCase) -> None:
    table = HiveTable.new(
        TableRef("default", "odd"),
        [
            HiveColumn("id", "int"),
            HiveColumn("either", "uniontype<int,string>"),
            HiveColumn("code", "struct<c:char(3)>"),
        ],
        location=str(case.folder / "odd"),
    )
    case.client.create_table(table)
    report = case.run(target="default.odd", dry_run=True)
    assert [rejected.name for rejected in report.rejected] == ["either", "code"]
    assert "unions" in report.rejected[0].reason
    assert "blanks" in report.rejected[1].reason
    with pytest.raises(UnsupportedTable, match=r"either .*1 more"):
        case.run(target="default.odd")
    case.client.drop_table(table.ref)


def test_a_missing_table_or_namespace_is_named(case: ExportCase) -> None:
    with pytest.raises(TableNotFound):
        case.run(target="default.none")
    with pytest.raises(IcebergRefused, match="namespace"):
        case.run(table="none.t")
    with pytest.raises(IcebergRefused, match="the type 'unknown'"):
        case.run(catalog_options={"type": "unknown"})


@pytest.mark.parametrize(
    ("options", "problem", "remedy"),
    [
        ({"type": "jdbc", "uri": "postgresql://h/d"}, "the type 'jdbc'", "type=sql"),
        (
            {"type": "sql", "uri": "jdbc:postgresql://h/d?password=secret"},
            "a uri of JDBC",
            "psycopg2",
        ),
    ],
)
def test_catalogs_of_java_only_are_refused_before_the_hive_table_is_read(
    case: ExportCase, options: dict[str, str], problem: str, remedy: str
) -> None:
    with pytest.raises(IcebergRefused, match=f"does not support {problem} for") as raised:
        case.run(target="default.none", catalog_options=options)
    assert remedy in raised.value.remedy
    assert "secret" not in str(raised.value)


def test_an_empty_table_has_an_empty_snapshot(case: ExportCase) -> None:
    table = HiveTable.new(
        TableRef("default", "empty"), [HiveColumn("id", "int")], location=str(case.folder / "empty")
    )
    case.client.create_table(table)
    report = case.run(target="default.empty", run_token="run")
    assert (report.rows, report.files) == (0, 0)
    assert case.run(target="default.empty", run_token="run").already_done
    found = case.table()
    assert found is not None
    assert found.scan().to_arrow().num_rows == 0
    case.client.drop_table(table.ref)


def test_an_invalid_location_of_the_configuration_is_named_before_the_options(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__ALLOWED_LOCATIONS", "s3a//lake")
    job = IcebergExportJob(target="a.b", table="a.c", catalog_options={"type": "rest"})
    with pytest.raises(InvalidJob, match="Entry 1 of allowed_locations, 's3a//lake'"):
        checked_options(job)


def test_the_job_is_validated(tmp_path: Path) -> None:
    for fields in (
        {"table": "t"},
        {"table": ""},
        {"table": "a."},
        {"table": "a.t", "catalog_options": {"a": 1}},
        {"table": "a.t", "properties": {"format-version": "3"}},
    ):
        with pytest.raises(InvalidJob):
            IcebergExportJob(target="db.t", **fields).validate()


def test_a_missing_library_is_an_error_with_a_remedy(
    case: ExportCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SoftwareMissing, match="requires pyiceberg") as raised:
        case.run()
    assert "hiveacid[iceberg]" in raised.value.remedy
