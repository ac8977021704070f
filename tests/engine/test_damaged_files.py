"""Lost, emptied or exchanged files: every operation reports them, and none makes the loss
permanent."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyarrow import orc
from pyspark.errors import PySparkException

from hiveacid.cli.main import main
from hiveacid.errors import CorruptFile
from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.jobs.report import CleanReport
from hiveacid.upkeep.table_cleaning import clean
from tests.engine.acid_tables import everything, folder, left_behind
from tests.engine.compaction_case import LEFT, Case

BOTH = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
ROWS = [(number, "a", "x") for number in range(40)]

Damage = Callable[[Path], Path]


def emptied(directory: Path) -> Path:
    file = directory / "bucket_00000"
    file.write_bytes(b"")
    return file


def missing(directory: Path) -> Path:
    file = directory / "bucket_00001"
    file.unlink()
    return file


def exchanged(directory: Path) -> Path:
    """A file as long as it was, with less rows."""
    from hiveacid.orc.copying.transplant import transplant
    from hiveacid.rules.row_id import encode_bucket

    file = directory / "bucket_00001"
    size = file.stat().st_size
    flat = directory.parent / "flat.orc"
    columns = {"id": pa.array([1], pa.int32()), "v": pa.array(["v"]), "p": pa.array(["x"])}
    orc.write_table(pa.table(columns), flat)
    with flat.open("rb") as source, file.open("wb") as sink:
        transplant([source], sink, write_id=1, bucket=encode_bucket(1))
    flat.unlink()
    note = directory / "_hiveacid.json"
    note.write_text(note.read_text().replace(f'"bytes": {size}', f'"bytes": {file.stat().st_size}'))
    return file


def one_more(directory: Path) -> Path:
    return Path(shutil.copy(directory / "bucket_00000", directory / "bucket_00007"))


def all_lost(directory: Path) -> Path:
    for file in directory.glob("bucket_*"):
        file.unlink()
    return directory


@pytest.fixture
def bucketed(make: Callable[..., Case]) -> Case:
    """A delta of two files, and a smaller one."""
    case = make(num_buckets=2, bucket_columns=("id",))
    case.append(*ROWS)
    case.append((100, "b", "x"))
    assert len(list((root(case) / "delta_0000001_0000001_0000").glob("bucket_*"))) == 2
    return case


def root(case: Case) -> Path:
    return folder(case.client.get_table(case.ref))


def cleaned(case: Case) -> CleanReport:
    return clean(
        case.client, CleanJob(target=case.name, metastore=case.client.options, retention="0")
    )


def diagnosed(case: Case, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the doctor's report on the files; "" without problems."""
    capsys.readouterr()
    main(["doctor", "--metastore", case.uri, "--json", "--table", case.name])
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    return "" if checks["files"]["ok"] else str(checks["files"]["found"])


@contextmanager
def damaged(case: Case, name: str, damage: Damage) -> Iterator[Path]:
    """Damage a directory, return its place, and restore it."""
    directory, kept = root(case) / name, root(case) / "_kept"
    shutil.copytree(directory, kept)
    yield damage(directory)
    shutil.rmtree(directory)
    kept.rename(directory)


@BOTH
def test_a_loss_is_reported_and_never_made_final(
    bucketed: Case, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = bucketed.rows()
    assert diagnosed(bucketed, capsys) == ""
    for damage in (emptied, missing, exchanged, one_more, all_lost):
        with damaged(bucketed, "delta_0000001_0000001_0000", damage) as path:
            table = bucketed.client.get_table(bucketed.ref)
            before = everything(table)
            for type_ in ("minor", "major"):
                (done,) = bucketed.compact(type_).partitions
                assert done.outcome == "failed", (damage, done)
                assert done.error is not None
                assert done.error.id == "CorruptFile", (damage, done)
                assert path.name in done.error.message
                assert done.error.remedy
            assert everything(table) == before
            assert path.name in diagnosed(bucketed, capsys)
            if damage in (emptied, all_lost):  # The files of a listing.
                with pytest.raises(CorruptFile, match=path.name) as raised:
                    bucketed.rows()
                assert "copy" in raised.value.remedy
    assert left_behind(bucketed.client) == []
    assert bucketed.rows() == rows


@BOTH
def test_directories_replaced_by_a_damaged_one_are_kept(bucketed: Case) -> None:
    rows = bucketed.rows()
    (done,) = bucketed.compact("major").partitions
    (base,) = done.published
    for damage in (emptied, missing, one_more, all_lost):
        with damaged(bucketed, base, damage) as path:
            kept = cleaned(bucketed)
        assert kept.removed == ()
        assert any(path.name in entry.reason for entry in kept.kept), kept
        assert set(done.replaced) <= set(bucketed.directories())
    assert {entry.path for entry in cleaned(bucketed).removed} == set(done.replaced)
    assert bucketed.rows() == rows


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("delete_delta_0000004_0000004_0000", "delta_0000003_0000003_0000"),
        ("delta_0000003_0000003_0000", "delete_delta_0000004_0000004_0000"),
    ],
)
def test_deletes_among_rows_and_rows_among_deletes_are_rejected(
    busy: Case, source: str, target: str
) -> None:
    """The note would reveal it; this test is about a file of a writer without notes."""
    strange = root(busy) / target / "bucket_00000"
    shutil.copy(root(busy) / source / "bucket_00000", strange)
    (root(busy) / target / "_hiveacid.json").unlink()
    with busy.open() as table:
        with pytest.raises(
            (PySparkException, Py4JError), match=f"{target}/bucket_00000 holds events"
        ):
            table.to_df().collect()
        with pytest.raises(CorruptFile, match=f"{target}/bucket_00000 holds events"):
            table.update({"v": "'n'"}, "id > 0 or id is null")
    for type_ in ("minor", "major"):
        (done,) = busy.compact(type_).partitions
        assert done.error is not None
        assert (done.error.id, target in done.error.message) == ("CorruptFile", True), done


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_an_insert_without_its_row_is_rejected(busy: Case) -> None:
    file = root(busy) / "delta_0000003_0000003_0000" / "bucket_00000"
    events = orc.read_table(file)
    rows = pa.nulls(events.num_rows, events.schema.field("row").type)
    orc.write_table(events.set_column(5, "row", rows), file)
    (file.parent / "_hiveacid.json").unlink()
    with busy.open() as table:
        rejected = pytest.raises(
            (PySparkException, Py4JError), match="holds an event without its row"
        )
        with rejected:
            table.to_df().collect()


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_without_a_readable_note_files_are_treated_like_foreign_ones(
    busy: Case,
) -> None:
    for note, path in zip((b"{", b'{"format": 1, "files": 3}', None), _notes(busy), strict=False):
        path.unlink() if note is None else path.write_bytes(note)
    assert busy.rows() == LEFT
    (done,) = busy.compact("major").partitions
    assert done.outcome == "compacted", done
    assert busy.rows() == LEFT
    for path in _notes(busy):
        path.write_bytes(b"[1]")
    assert len(cleaned(busy).removed) == 4


def _notes(case: Case) -> list[Path]:
    return sorted(root(case).rglob("_hiveacid.json"))
