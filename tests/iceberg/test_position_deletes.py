"""Mirrors whose deleted rows stay in their data files, with position delete files."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyiceberg.manifest import ManifestContent
from pyiceberg.table import FileScanTask

from hiveacid.errors import IcebergRefused, InvalidJob, ProofFailed
from hiveacid.iceberg.position_delete_file import data_file_of
from hiveacid.metastore.client import MetastoreClient
from hiveacid.progress import Phase
from tests.compaction.written_table import WrittenTable
from tests.iceberg.mirror_history import STEPS
from tests.iceberg.test_export import NOTE, BreaksAt, Broken
from tests.iceberg.test_mirror import Mirror

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)


class PositionMirror(Mirror):
    """A mirror whose runs write position delete files."""

    deletes = "positions"

    def changes(self, **fields: Any) -> tuple[int, int, int, int]:
        """Run the mirror: the files it added, kept, and removed, and the delete files it added."""
        report = self.update(**fields)
        return report.files, report.files_kept, report.files_removed, report.delete_files

    def scanned(self) -> list[FileScanTask]:
        return list(self.iceberg.scan().plan_files())

    def positions(self) -> list[tuple[str, int]]:
        """The deleted positions of each data file, and its location."""
        return [
            (row["file_path"], row["pos"])
            for task in self.scanned()
            for file in task.delete_files
            for row in parquet.read_table(file.file_path.removeprefix("file://")).to_pylist()
        ]

    def summary(self) -> dict[str, str]:
        snapshot = self.iceberg.current_snapshot()
        assert snapshot is not None
        assert snapshot.summary is not None
        return dict(snapshot.summary.additional_properties)


@pytest.fixture(params=["orc", "parquet"])
def mirror(
    client: MetastoreClient, database: str, tmp_path: Path, request: pytest.FixtureRequest
) -> PositionMirror:
    table = WrittenTable.create(client, f"{database}.t")
    table.insert(1, 2, 3)
    found = PositionMirror(table, tmp_path)
    found.format = request.param
    assert found.changes() == (1, 0, 0, 0)
    return found


def test_deletes_change_no_data_file_and_each_has_one_delete_file(mirror: PositionMirror) -> None:
    second = mirror.hive.insert(4, 5, 6)
    assert mirror.changes() == (1, 1, 0, 0)
    mirror.hive.delete((1, 1))
    assert mirror.changes() == (0, 2, 0, 1)
    mirror.hive.delete((1, 2), (second, 0))
    assert mirror.changes() == (0, 2, 0, 2)
    assert sorted(position for _, position in mirror.positions()) == [0, 1, 2]
    tasks = mirror.scanned()
    assert [len(task.delete_files) for task in tasks] == [1, 1]
    assert {path for path, _ in mirror.positions()} == {task.file.file_path for task in tasks}
    assert mirror.summary()["total-delete-files"] == "2"
    assert mirror.summary()["total-position-deletes"] == "3"
    assert mirror.changes() == (0, 2, 0, 0)


def test_a_data_file_of_several_sources_counts_its_rows_over_all(mirror: PositionMirror) -> None:
    written = [mirror.hive.insert(number, number + 1) for number in (10, 20, 30)]
    mirror.hive.delete((written[0], 1), (written[2], 0))
    assert mirror.changes() == (1, 1, 0, 1)
    assert sorted(position for _, position in mirror.positions()) == [1, 4]
    mirror.hive.delete((written[1], 1))
    assert mirror.changes() == (0, 2, 0, 1)
    assert sorted(position for _, position in mirror.positions()) == [1, 3, 4]


def test_delete_files_have_the_ids_and_bounds_of_the_specification(mirror: PositionMirror) -> None:
    mirror.hive.delete((1, 0), (1, 2))
    mirror.update()
    (task,) = mirror.scanned()
    (file,) = task.delete_files
    stored = parquet.read_schema(file.file_path.removeprefix("file://"))
    assert [
        (field.name, field.type, field.nullable, field.metadata[b"PARQUET:field_id"])
        for field in stored
    ] == [
        ("file_path", pa.string(), False, b"2147483546"),
        ("pos", pa.int64(), False, b"2147483545"),
    ]
    assert file.record_count == 2
    assert file.lower_bounds[2147483546] == file.upper_bounds[2147483546]
    assert file.lower_bounds[2147483546].decode() == task.file.file_path
    snapshot = mirror.iceberg.current_snapshot()
    assert snapshot is not None
    manifests = snapshot.manifests(mirror.iceberg.io)
    (deletes,) = (each for each in manifests if each.content is ManifestContent.DELETES)
    assert (deletes.added_files_count, deletes.added_rows_count) == (1, 2)


def test_deletes_of_missing_rows_add_no_delete_file(mirror: PositionMirror) -> None:
    mirror.hive.delete((1, 77), (88, 0))
    assert mirror.changes() == (0, 1, 0, 0)


@pytest.mark.parametrize("type_", ["minor", "major"])
def test_a_compaction_keeps_the_delete_files_until_the_next_delete(
    mirror: PositionMirror, type_: str
) -> None:
    last = mirror.hive.insert(4, 5)
    mirror.hive.delete((1, 0))
    assert mirror.changes() == (1, 1, 0, 1)
    mirror.compact(type_)
    mirror.hive.clean()
    assert mirror.update().outcome == "unchanged"
    assert len(mirror.positions()) == 1
    mirror.hive.delete((last, 0))
    report = mirror.update()
    assert (report.files_kept, report.files_removed) == (0, 2)
    assert mirror.summary().get("removed-delete-files") == "1"
    assert len(mirror.positions()) == (2 if type_ == "minor" else 1)


def test_data_files_with_applied_deletes_are_replaced_once(mirror: PositionMirror) -> None:
    mirror.hive.delete((1, 0))
    assert mirror.changes(deletes="apply") == (1, 0, 1, 0)
    mirror.hive.delete((1, 1))
    assert mirror.changes() == (1, 0, 1, 1)
    assert len(mirror.positions()) == 2
    mirror.hive.insert(4)
    mirror.hive.delete((1, 2))
    assert mirror.changes() == (1, 1, 0, 1)


def test_applied_deletes_replace_data_files_with_their_delete_files(mirror: PositionMirror) -> None:
    written = [mirror.hive.insert(number, number + 1) for number in (10, 20)]
    mirror.hive.delete((1, 0), (written[0], 0))
    assert mirror.changes() == (1, 1, 0, 2)
    # The rows of the first file remain deleted, although only one of the second is named.
    mirror.hive.delete((written[1], 0))
    assert mirror.update(deletes="apply").files_removed == 1
    assert mirror.rows() == [2, 3, 11, 21]
    assert len(mirror.positions()) == 1


def test_a_removed_partition_removes_its_delete_files(mirror: PositionMirror) -> None:
    mirror.hive.delete((1, 0))
    mirror.update()
    for name in mirror.hive.directories():
        for file in (mirror.hive.root / name).iterdir():
            file.unlink()
        (mirror.hive.root / name).rmdir()
    assert mirror.changes() == (0, 0, 1, 0)
    assert mirror.positions() == []
    assert mirror.summary()["total-delete-files"] == "0"


def test_delete_events_that_have_disappeared_are_refused(mirror: PositionMirror) -> None:
    mirror.hive.delete((1, 0), (1, 1))
    mirror.update()
    (deletes,) = mirror.hive.root.glob("delete_delta_*")
    shutil.rmtree(deletes)
    mirror.hive.delete((1, 2))
    before = mirror.files()
    with pytest.raises(ProofFailed, match="has 2 deleted rows, of which the Hive table names 1"):
        mirror.run()
    assert mirror.files() == before
    assert mirror.rows() == [3]


def test_a_dry_run_counts_the_delete_files(mirror: PositionMirror) -> None:
    mirror.hive.delete((mirror.hive.insert(4, 5), 0), (1, 1))
    before = mirror.files()
    plan = mirror.run(dry_run=True)
    assert (plan.files, plan.files_kept, plan.files_removed, plan.delete_files) == (1, 1, 0, 2)
    assert plan.stripes_encoded == (0 if mirror.format == "orc" else 1)
    assert mirror.files() == before
    assert mirror.changes() == (1, 1, 0, 2)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mirror", ["parquet"], indirect=True)
@pytest.mark.parametrize("edge", ["before", "after"])
@pytest.mark.parametrize("phase", STEPS)
def test_a_failure_at_any_step_leaves_no_file_and_the_next_run_updates(
    mirror: PositionMirror, phase: Phase, edge: str
) -> None:
    mirror.hive.delete((mirror.hive.insert(4, 5), 0), (1, 1))
    with pytest.raises(Broken):
        mirror.run(BreaksAt(phase, edge), run_token="run")
    assert {file for file in mirror.files() if not file.endswith(NOTE)} == mirror.used_files()
    # Also the report of a retry that finds the snapshot counts visible rows.
    assert mirror.update(run_token="run").delete_files == 2
    assert mirror.rows() == [1, 3, 5]


def test_a_delete_file_of_another_program_is_refused(mirror: PositionMirror) -> None:
    mirror.hive.delete((1, 0))
    mirror.update()
    (task,) = mirror.scanned()
    (file,) = task.delete_files
    file.lower_bounds.clear()
    with pytest.raises(IcebergRefused, match="No export has written the delete file"):
        data_file_of(file)


def test_another_way_of_deleting_is_refused(mirror: PositionMirror) -> None:
    with pytest.raises(InvalidJob, match="deletes must be apply or positions, not 'vectors'"):
        mirror.job(deletes="vectors").validate()
