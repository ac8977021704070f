"""Files that no compaction can take: it names them, and leaves the table as it was."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hiveacid.errors import DiskFull
from hiveacid.jobs.run_options import Place
from hiveacid.progress import Phase
from hiveacid.storage.folder import Storage
from tests.engine.acid_tables import everything, folder, left_behind
from tests.engine.compaction_case import LEFT, Case
from tests.observers import At


@pytest.fixture(params=["worker", "spark"])
def run_in(request: pytest.FixtureRequest) -> Place:
    return request.param


Damage = Callable[[Path], Path]


def truncated(root: Path) -> Path:
    file = root / "delta_0000002_0000002_0000" / "bucket_00000"
    file.write_bytes(file.read_bytes()[:-7])
    return file


def not_orc(root: Path) -> Path:
    file = root / "delta_0000002_0000002_0000" / "bucket_00000"
    file.write_bytes(b"id,v,p\n" * 100)
    return file


def other_schema(root: Path) -> Path:
    from pyarrow import Table, orc

    from hiveacid.orc.copying.transplant import transplant
    from hiveacid.rules.row_id import encode_bucket

    file = root / "delta_0000002_0000002_0000" / "bucket_00000"
    flat = root.parent / "flat.orc"
    orc.write_table(Table.from_pydict({"id": ["not a number"]}), flat)
    file.unlink()
    with flat.open("rb") as source, file.open("wb") as sink:
        transplant([source], sink, write_id=2, bucket=encode_bucket(0))
    return file


def unknown_file(root: Path) -> Path:
    file = root / "delta_0000002_0000002_0000" / "part-00000.orc"
    shutil.copy(file.parent / "bucket_00000", file)
    return file


def half_published(root: Path) -> Path:
    file = root / "delta_0000002_0000002_0000" / "bucket_00000.0123abcd"
    file.write_bytes(b"")
    return file


def overlapping(root: Path) -> Path:
    shutil.copytree(root / "delta_0000002_0000002_0000", root / "delta_0000002_0000003")
    shutil.copytree(root / "delta_0000001_0000001_0000", root / "delta_0000001_0000002")
    return root / "delta_0000002_0000003"


def broken_delete(root: Path) -> Path:
    file = root / "delete_delta_0000004_0000004_0000" / "bucket_00000"
    file.write_bytes(file.read_bytes()[:50])
    return file


@pytest.mark.parametrize("type_", ["minor", "major"])
@pytest.mark.parametrize("hms", ["4.0.1"], indirect=True)
@pytest.mark.parametrize(
    "damage",
    [
        truncated,
        not_orc,
        other_schema,
        unknown_file,
        half_published,
        overlapping,
        broken_delete,
    ],
)
def test_a_partition_that_cannot_be_compacted_stays_as_it_is(
    busy: Case, damage: Damage, type_: str
) -> None:
    table = busy.client.get_table(busy.ref)
    damaged = damage(folder(table))
    before = everything(table)
    report = busy.compact(type_)
    (done,) = report.partitions
    assert done.outcome == "failed", done
    assert done.error is not None
    assert damaged.name in done.error.message
    assert everything(table) == before
    assert left_behind(busy.client) == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("phase", [Phase.WRITE, Phase.REGISTER, Phase.PUBLISH, Phase.COMMIT])
def test_a_full_disk_leaves_nothing_behind(busy: Case, phase: Phase) -> None:
    def full() -> None:
        raise DiskFull("There is no space left.")

    table = busy.client.get_table(busy.ref)
    before = everything(table)
    (done,) = busy.compact("major", At(phase, full)).partitions
    assert done.outcome == "failed"
    assert busy.rows() == LEFT
    if busy.client.features.hides_compactions or phase is not Phase.COMMIT:
        assert everything(table) == before
    assert left_behind(busy.client) == []
    (done,) = busy.compact("major").partitions
    assert busy.rows() == LEFT


@pytest.mark.parametrize("hms", ["3.1.3"], indirect=True)
def test_hive_3_is_never_shown_half_a_base(busy: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Storage, "renames_at_once", False)
    before = everything(busy.client.get_table(busy.ref))
    (done,) = busy.compact("major").partitions
    assert done.outcome == "failed"
    assert "file by file" in done.reason
    assert everything(busy.client.get_table(busy.ref)) == before
