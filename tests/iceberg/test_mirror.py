"""Updates of a mirror: they copy only changes, each run once, and other changes are refused."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table import Table
from pyiceberg.types import IntegerType

from hiveacid.errors import CommitUncertain, IcebergRefused, TableReplaced
from hiveacid.iceberg.attempt import Attempt, AttemptNote
from hiveacid.jobs.iceberg_job import IcebergExportReport
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift import idl_tables
from hiveacid.progress import Phase, PhaseObserver
from hiveacid.rules.names import Base
from hiveacid.rules.schema import TableKind
from hiveacid.upkeep.compaction.table import TableCompactor
from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler
from tests.compaction.written_table import WrittenTable
from tests.iceberg.case import LakeCase
from tests.iceberg.lakes import ServedCatalog, opened_as
from tests.iceberg.mirror_history import STEPS
from tests.iceberg.test_export import (
    KILLED,
    NOTE,
    AnswersAreLost,
    BreaksAt,
    Broken,
    NothingArrives,
)

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)


class Mirror(LakeCase):
    """A table with one bucket, and its mirror."""

    def __init__(
        self, table: WrittenTable, folder: Path, server: ServedCatalog | None = None
    ) -> None:
        super().__init__(table.client, str(table.ref), folder, server)
        self.hive = table

    @property
    def iceberg(self) -> Table:
        table = self.table()
        assert table is not None
        return table

    def rows(self) -> list[int]:
        rows: list[int] = self.iceberg.scan().to_arrow().column("id").to_pylist()
        return sorted(rows)

    def update(self, *observers: PhaseObserver, **fields: Any) -> IcebergExportReport:
        """Run the mirror, and check its rows and files."""
        report = self.run(*observers, **fields)
        assert self.rows() == self.hive.rows()
        assert report.rows == len(self.rows())
        assert report.metadata_location == self.iceberg.metadata_location
        assert self.files() == self.used_files()
        return report

    def counts(self, **fields: Any) -> tuple[str, int, int, int]:
        """Run the mirror: its outcome, and the data files that it added, kept, and removed."""
        report = self.update(**fields)
        return report.outcome, report.files, report.files_kept, report.files_removed

    def kill(self, fault: str) -> None:
        """Kill a run, and end its transaction, as its timeout does later."""
        assert self.command(fault=fault).returncode == KILLED
        for lock in self.client.show_locks(self.hive.ref):
            self.client.abort_txn(lock.txn_id)

    def compact(self, type_: str) -> None:
        job = CompactJob(target=self.target, type=type_, run_in="worker")
        with WorkerScheduler() as scheduler:
            (done,) = TableCompactor(scheduler, self.client, job).run().partitions
        assert done.outcome == "compacted", done

    def change_columns(self, *columns: tuple[str, str]) -> None:
        raw = self.client.get_table(self.hive.ref).raw
        raw.sd.cols = [idl_tables.FieldSchema(*column, None) for column in columns]
        self.client.call(
            idl_tables.alter_table_with_environment_context,
            self.hive.ref.database,
            self.hive.ref.name,
            raw,
            idl_tables.EnvironmentContext({"DO_NOT_UPDATE_STATS": "true"}),
            about=self.target,
        )


@pytest.fixture
def mirror(client: MetastoreClient, database: str, tmp_path: Path) -> Mirror:
    table = WrittenTable.create(client, f"{database}.t")
    table.insert(1, 2, 3)
    found = Mirror(table, tmp_path)
    assert found.counts() == ("created", 1, 0, 0)
    return found


def test_inserts_are_added_and_deletes_replace_only_files_with_their_rows(mirror: Mirror) -> None:
    before = mirror.iceberg.current_snapshot()
    second = mirror.hive.insert(4, 5)
    assert mirror.counts() == ("updated", 1, 1, 0)
    mirror.hive.delete((second, 1))
    assert mirror.counts(run_token="run") == ("updated", 1, 1, 1)
    assert mirror.rows() == [1, 2, 3, 4]
    assert mirror.counts() == ("unchanged", 0, 2, 0)
    now = mirror.iceberg.current_snapshot()
    assert before is not None
    assert now is not None
    assert len(mirror.iceberg.metadata.snapshots) == 3
    properties = now.summary.additional_properties if now.summary else {}
    assert properties["hiveacid.write-id"] == "3"
    assert properties["hiveacid.run"].startswith("run@")
    # The earlier version remains readable.
    assert mirror.iceberg.scan(snapshot_id=before.snapshot_id).to_arrow().num_rows == 3


def test_files_joined_with_one_that_has_deleted_rows_are_joined_again(mirror: Mirror) -> None:
    written = [mirror.hive.insert(number, number + 1) for number in (10, 20, 30)]
    assert mirror.counts() == ("updated", 1, 1, 0)
    mirror.hive.delete((written[1], 0))
    assert mirror.counts() == ("updated", 2, 1, 1)
    mirror.hive.delete((written[0], 1), (written[1], 1))
    assert mirror.update().files_removed == 2
    assert mirror.rows() == [1, 2, 3, 10, 30, 31]


def test_a_version_without_changed_rows_is_recorded(mirror: Mirror) -> None:
    mirror.hive.delete((77, 0))
    assert mirror.counts() == ("updated", 0, 1, 0)
    assert mirror.counts() == ("unchanged", 0, 1, 0)


@pytest.mark.parametrize("type_", ["minor", "major"])
def test_a_compaction_of_mirrored_rows_copies_nothing(mirror: Mirror, type_: str) -> None:
    mirror.hive.insert(4, 5)
    mirror.hive.delete((1, 0))
    mirror.update()
    mirror.compact(type_)
    mirror.hive.clean()
    kept = len(list(mirror.iceberg.scan().plan_files()))
    assert mirror.counts() == ("unchanged", 0, kept, 0)
    last = mirror.hive.insert(6)
    assert mirror.counts() == ("updated", 1, kept, 0)
    # The files of the deleted row are gone: their rows are copied from the compacted ones.
    mirror.hive.delete((2, 0))
    assert mirror.update().files_removed == kept
    assert mirror.rows() == [2, 3, 5, 6]
    mirror.hive.delete((last, 0))
    assert mirror.update().files_removed == 1


def test_a_compaction_of_rows_that_are_not_mirrored_yet_copies_the_partition(
    mirror: Mirror,
) -> None:
    mirror.hive.insert(4, 5)
    mirror.compact("major")
    assert mirror.counts() == ("updated", 1, 0, 1)


def test_an_overwrite_replaces_all_files(mirror: Mirror) -> None:
    later = mirror.hive.insert(4)
    folder = mirror.hive.root
    (folder / f"delta_{later:07d}_{later:07d}_0000").rename(folder / Base(later).name)
    assert mirror.counts() == ("updated", 1, 0, 1)
    assert mirror.rows() == [4]


def test_rows_that_were_removed_without_a_write_id_are_removed(mirror: Mirror) -> None:
    mirror.hive.insert(4)
    mirror.update()
    # As version 3 truncates a table.
    for name in mirror.hive.directories():
        shutil.rmtree(mirror.hive.root / name)
    assert mirror.counts() == ("updated", 0, 0, 2)
    assert mirror.rows() == []


def test_insert_only_tables_are_mirrored(
    client: MetastoreClient, database: str, tmp_path: Path
) -> None:
    table = WrittenTable.create(client, f"{database}.t", TableKind.INSERT_ONLY)
    mirror = Mirror(table, tmp_path)
    table.insert(1, 2)
    mirror.update()
    table.insert(3)
    assert mirror.counts() == ("updated", 1, 1, 0)
    mirror.compact("major")
    mirror.hive.clean()
    assert mirror.counts() == ("unchanged", 0, 2, 0)


def test_a_dry_run_reports_the_update(mirror: Mirror) -> None:
    mirror.hive.delete((mirror.hive.insert(4, 5), 0), (1, 1))
    before = mirror.files()
    plan = mirror.run(dry_run=True)
    assert (plan.outcome, plan.files, plan.files_kept, plan.files_removed) == ("updated", 2, 0, 1)
    assert plan.metadata_location == mirror.iceberg.metadata_location
    assert mirror.files() == before
    assert mirror.counts() == ("updated", 2, 0, 1)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("edge", ["before", "after"])
@pytest.mark.parametrize("phase", STEPS)
def test_a_failure_at_any_step_leaves_no_file_and_the_next_run_updates(
    mirror: Mirror, phase: Phase, edge: str
) -> None:
    mirror.hive.delete((mirror.hive.insert(4, 5), 0), (1, 1))
    with pytest.raises(Broken):
        mirror.run(BreaksAt(phase, edge), run_token="run")
    # After a commit, the note on the attempt remains until the next run.
    assert {file for file in mirror.files() if not file.endswith(NOTE)} == mirror.used_files()
    report = mirror.update(run_token="run")
    committed = (phase, edge) in [(Phase.COMMIT, "after"), (Phase.CLEAN, "before")]
    assert report.already_done == (committed or phase is Phase.CLEAN)
    assert len(mirror.iceberg.metadata.snapshots) == 2
    assert not mirror.client.show_locks()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "fault", [f"{step}:kill:{edge}" for step in ("write", "commit") for edge in ("before", "after")]
)
def test_a_killed_run_is_applied_once(mirror: Mirror, fault: str) -> None:
    mirror.hive.delete((mirror.hive.insert(4, 5), 0), (1, 1))
    mirror.kill(fault)
    assert mirror.files() > mirror.used_files()
    mirror.let_files_age()
    done = mirror.command("--json")
    assert done.returncode == 0, done.stderr
    is_applied = fault == "commit:kill:after"
    assert json.loads(done.stdout)["outcome"] == ("unchanged" if is_applied else "updated")
    assert mirror.rows() == mirror.hive.rows()
    assert mirror.files() == mirror.used_files()
    assert len(mirror.iceberg.metadata.snapshots) == 2


def test_the_files_of_a_killed_run_remain_although_its_snapshot_expires(mirror: Mirror) -> None:
    mirror.hive.insert(4)
    mirror.kill("commit:kill:after")
    mirror.hive.insert(5)
    with pytest.raises(Broken):
        mirror.run(BreaksAt(Phase.CLEAN, "before"))
    expired = mirror.iceberg
    first, second, _ = (each.snapshot_id for each in expired.metadata.snapshots)
    expired.maintenance.expire_snapshots().by_ids([first, second]).commit()
    mirror.hive.insert(6)
    assert mirror.run().rows == 6
    assert mirror.rows() == mirror.hive.rows()


@pytest.mark.parametrize("lossy", [AnswersAreLost, NothingArrives])
def test_an_update_whose_answer_is_lost_is_applied_once(mirror: Mirror, lossy: type) -> None:
    mirror.hive.insert(4)
    with opened_as("sql", lossy):
        if lossy is NothingArrives:
            with pytest.raises(CommitUncertain, match="unknown whether"):
                mirror.run(run_token="run")
        else:
            assert mirror.update(run_token="run").outcome == "updated"
    mirror.let_files_age()
    report = mirror.update(run_token="run")
    assert report.already_done == (lossy is AnswersAreLost)
    assert len(mirror.iceberg.metadata.snapshots) == 2


def test_of_two_concurrent_runs_one_updates(mirror: Mirror) -> None:
    class Rival(PhaseObserver):
        def enter(self, phase: Phase) -> None:
            if phase is Phase.COMMIT:
                mirror.hive.insert(5)
                mirror.run(run_token="rival")

    mirror.hive.insert(4)
    with pytest.raises(TableReplaced, match="was not updated"):
        mirror.run(Rival(), run_token="run")
    assert mirror.counts(run_token="run") == ("unchanged", 0, 2, 0)


def begun(mirror: Mirror) -> Attempt:
    """Begin an attempt to follow the current snapshot."""
    metadata = mirror.iceberg.metadata
    note = AttemptNote(
        name=f"lake.{mirror.name}",
        table_id=str(metadata.table_uuid),
        sequence=metadata.next_sequence_number(),
        parent=metadata.current_snapshot_id,
    )
    attempt = Attempt(mirror.iceberg.location(), note)
    attempt.begin()
    return attempt


def test_files_of_a_running_attempt_remain(mirror: Mirror) -> None:
    attempt = begun(mirror)
    assert mirror.run().outcome == "unchanged"
    assert any(str(attempt.id) in file for file in mirror.files())
    mirror.let_files_age()
    mirror.hive.insert(4)
    mirror.update()


def test_added_and_widened_columns_get_ids_in_the_same_step(mirror: Mirror) -> None:
    mirror.change_columns(("id", "bigint"), ("v", "struct<a:int>"))
    assert mirror.counts() == ("updated", 0, 1, 0)
    mirror.change_columns(("id", "bigint"), ("v", "struct<a:bigint,b:string>"), ("w", "string"))
    mirror.hive.insert(4)
    assert mirror.counts() == ("updated", 1, 1, 0)
    found = mirror.iceberg.schema()
    assert [(field.field_id, field.name) for field in found.fields] == [
        (1, "id"),
        (2, "v"),
        (5, "w"),
    ]
    assert mirror.iceberg.scan().to_arrow().column("w").null_count == 4


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([("renamed", "int")], "renamed, moved, or dropped"),
        ([("first", "int"), ("id", "int")], "renamed, moved, or dropped"),
        ([("id", "string")], "from int to string"),
    ],
)
def test_columns_by_which_earlier_rows_change_are_refused(
    mirror: Mirror, columns: list[tuple[str, str]], message: str
) -> None:
    mirror.change_columns(*columns)
    with pytest.raises(IcebergRefused, match=message) as raised:
        mirror.run()
    assert "Drop the Iceberg table" in raised.value.remedy


def test_a_table_that_was_created_again_is_refused(mirror: Mirror) -> None:
    mirror.client.drop_table(mirror.hive.ref)
    mirror.client.create_table(HiveTable.new(mirror.hive.ref, [HiveColumn("id", "int")]))
    with pytest.raises(IcebergRefused, match="rows of another table"):
        mirror.run()


def _changed(table: Table) -> None:
    table.append(table.scan().to_arrow())


def _deleted(table: Table) -> None:
    table.delete(AlwaysTrue())


@pytest.mark.parametrize("change", [_changed, _deleted])
def test_a_mirror_that_another_program_has_changed_is_refused_until_it_is_set_back(
    mirror: Mirror, change: Callable[[Table], None]
) -> None:
    mirror.hive.insert(4)
    own = mirror.iceberg.metadata.current_snapshot_id
    assert own is not None
    change(mirror.iceberg)
    with pytest.raises(IcebergRefused, match="Another program has changed") as raised:
        mirror.run()
    assert f"rollback_to_snapshot('ns.t', {own})" in raised.value.remedy
    mirror.iceberg.manage_snapshots().rollback_to_snapshot(own).commit()
    assert mirror.run().outcome == "updated"
    assert mirror.rows() == mirror.hive.rows()


def test_columns_that_another_program_has_added_are_refused(mirror: Mirror) -> None:
    with mirror.iceberg.update_schema() as update:
        update.add_column("own", IntegerType())
    with pytest.raises(IcebergRefused, match=r"own.* instead of id"):
        mirror.run()
