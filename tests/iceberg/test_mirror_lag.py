"""The lag of a mirror: from both tables, and from the notes in the folder of the Hive table."""

import json
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField

from hiveacid.errors import (
    IcebergRefused,
    MetastoreUnreachable,
    SoftwareMissing,
    StorageError,
    TableExists,
    TableNotFound,
    VersionUnknown,
)
from hiveacid.iceberg.guarded_catalog import DatabaseCatalog
from hiveacid.iceberg.run import lag_of_mirror
from hiveacid.jobs import codec
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.progress import Phase
from hiveacid.records.mirror_notes import KnownMirror, MirrorNote, forget_mirror, known_mirrors
from hiveacid.rules.lag import MirrorLag
from hiveacid.rules.names import LARGEST_NOTE, MIRROR_NOTES
from hiveacid.rules.write_ids import ValidWriteIdList
from hiveacid.storage.folder import LocalStorage
from hiveacid.upkeep.table_detail import table_detail
from tests.compaction.written_table import WrittenTable
from tests.iceberg.lakes import opened_as
from tests.iceberg.test_export import BreaksAt, Broken
from tests.iceberg.test_mirror import Mirror

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)


class Followed(Mirror):
    """A mirror whose lag is read."""

    def lag(self, version: int | None = None, **fields: Any) -> MirrorLag:
        return lag_of_mirror(self.client, self.job(**fields), version)

    def behind(self, version: int | None = None) -> tuple[int, int, int]:
        lag = self.lag(version)
        return lag.version, lag.newest, lag.versions

    def known(self) -> tuple[KnownMirror, ...]:
        return table_detail(self.client, self.hive.ref).mirrors

    def noted(self) -> list[tuple[str, int, int]]:
        """The mirrors in the details of the table: names, versions, and missing versions."""
        return [(one.name, one.lag.version, one.lag.versions) for one in self.known()]

    def notes(self) -> list[Path]:
        return sorted((self.hive.root / MIRROR_NOTES).rglob("*.json"))

    @staticmethod
    def note(path: Path) -> MirrorNote:
        return codec.read_obligation(MirrorNote, path.read_bytes(), "note")

    def open_write(self) -> int:
        """Begin a write without rows."""
        txn = self.client.open_txn("user", "host", None)
        self.client.allocate_write_id(txn, self.hive.ref)
        return txn


@pytest.fixture
def mirror(client: MetastoreClient, database: str, tmp_path: Path) -> Followed:
    table = WrittenTable.create(client, f"{database}.t")
    table.insert(1, 2)
    found = Followed(table, tmp_path)
    found.run(run_token="dag/run/task/-1")
    return found


def test_the_lag_counts_versions_until_the_next_run(mirror: Followed) -> None:
    assert mirror.behind() == (1, 1, 0)
    assert mirror.lag().seconds == 0
    assert mirror.noted() == [("ns.t", 1, 0)]
    mirror.hive.insert(3)
    mirror.hive.delete((1, 0))
    assert mirror.behind() == (1, 3, 2)
    assert mirror.behind(version=2) == (1, 2, 1)
    assert mirror.behind(version=1) == (1, 1, 0)
    assert mirror.noted() == [("ns.t", 1, 2)]
    shown = repr(table_detail(mirror.client, mirror.hive.ref))
    assert "ns.t at version 1, 2 versions behind for at most" in shown
    mirror.update()
    assert mirror.behind() == (3, 3, 0)
    assert mirror.noted() == [("ns.t", 3, 0)]
    assert len(mirror.notes()) == 1


def test_open_and_aborted_writes_are_no_lag_and_late_commits_are(mirror: Followed) -> None:
    late, lost = mirror.open_write(), mirror.open_write()
    mirror.hive.insert(3)
    assert mirror.behind() == (1, 4, 1)
    mirror.update()
    assert mirror.behind() == (4, 4, 0)
    mirror.client.abort_txn(lost)
    assert mirror.behind() == (4, 4, 0)
    mirror.client.commit_txn(late)
    assert mirror.behind() == (4, 4, 1)
    assert mirror.behind(version=1) == (4, 1, 0)
    assert mirror.noted() == [("ns.t", 4, 1)]


@pytest.mark.parametrize("type_", ["minor", "major"])
def test_compactions_and_cleanings_are_no_lag(mirror: Followed, type_: str) -> None:
    mirror.hive.insert(3)
    mirror.update()
    mirror.compact(type_)
    mirror.hive.clean()
    assert mirror.behind() == (2, 2, 0)
    assert mirror.noted() == [("ns.t", 2, 0)]


def test_the_age_is_that_of_the_last_run_with_all_versions(mirror: Followed) -> None:
    before = time.time()
    assert mirror.run().outcome == "unchanged"
    after = time.time()
    mirror.hive.insert(3)
    lag = mirror.lag()
    assert 0 <= lag.seconds <= time.time() - before
    (known,) = mirror.known()
    assert before - 0.001 <= known.complete_at <= after
    # Without the note, the snapshot has a time: that of the run that created it.
    shutil.rmtree(mirror.hive.root / MIRROR_NOTES)
    assert mirror.lag().seconds > lag.seconds
    assert mirror.known() == ()


def test_a_note_of_a_version_that_the_mirror_no_longer_has_is_ignored(mirror: Followed) -> None:
    first = mirror.iceberg.metadata.current_snapshot_id
    assert first is not None
    mirror.hive.insert(3)
    mirror.update()
    mirror.iceberg.manage_snapshots().rollback_to_snapshot(first).commit()
    lag, age = mirror.lag(), time.time() - mirror.known()[0].complete_at
    assert lag.versions == 1
    assert lag.seconds > age


def test_each_mirror_has_a_note_with_its_run(mirror: Followed, tmp_path: Path) -> None:
    (first,) = mirror.known()
    assert (first.catalog, first.location) == ("lake", mirror.iceberg.location())
    assert first.run_token == "dag/run/task/-1"
    mirror.hive.insert(3)
    mirror.run(table="ns.other")
    assert mirror.noted() == [("ns.other", 2, 0), ("ns.t", 1, 1)]
    # Of the same name, in another catalog of the same name.
    other = Followed(mirror.hive, tmp_path / "elsewhere")
    other.run(table="ns.other")
    mirror.run(table="ns.other")
    assert mirror.noted() == [("ns.other", 2, 0), ("ns.other", 2, 0), ("ns.t", 1, 1)]


def test_a_table_that_is_created_elsewhere_replaces_the_note(mirror: Followed) -> None:
    mirror.catalog.drop_table("ns.t")
    mirror.run(location=f"file://{mirror.folder}/elsewhere")
    assert [each.location for each in mirror.known()] == [f"file://{mirror.folder}/elsewhere"]


def test_a_dry_run_and_a_failed_run_leave_no_note(mirror: Followed) -> None:
    before = {path: path.read_bytes() for path in mirror.notes()}
    mirror.hive.insert(3)
    mirror.run(dry_run=True)
    with pytest.raises(Broken):
        mirror.run(BreaksAt(Phase.COMMIT, "before"))
    assert {path: path.read_bytes() for path in mirror.notes()} == before
    assert mirror.noted() == [("ns.t", 1, 1)]


def test_the_lag_is_known_after_a_kill_before_the_note(mirror: Followed) -> None:
    mirror.hive.insert(3)
    mirror.kill("commit:kill:after")
    assert mirror.behind() == (2, 2, 0)
    # Overstated, until the next run.
    assert mirror.noted() == [("ns.t", 1, 1)]
    assert mirror.run().outcome == "unchanged"
    assert mirror.noted() == [("ns.t", 2, 0)]


def test_a_run_that_was_paused_does_not_replace_the_note_of_a_later_one(
    mirror: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    really, waits = LocalStorage.write_file, [True]

    def write_file(storage: Any, path: str, content: bytes, *, replace: bool = False) -> None:
        if path.startswith(MIRROR_NOTES) and waits:
            waits.clear()
            mirror.hive.insert(4)
            mirror.run()
        really(storage, path, content, replace=replace)

    mirror.hive.insert(3)
    monkeypatch.setattr(LocalStorage, "write_file", write_file)
    mirror.run()
    assert not waits
    assert mirror.noted() == [("ns.t", 3, 0)]
    assert len(mirror.notes()) == 1


def test_a_folder_that_cannot_be_written_is_a_warning(
    mirror: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = LocalStorage.write_file

    def write_file(storage: Any, path: str, content: bytes, *, replace: bool = False) -> None:
        if path.startswith(MIRROR_NOTES):
            raise StorageError("It may not be written.")
        really(storage, path, content, replace=replace)

    mirror.hive.insert(3)
    monkeypatch.setattr(LocalStorage, "write_file", write_file)
    report = mirror.run()
    assert report.outcome == "updated"
    assert any("is not shown" in warning for warning in report.warnings)
    assert mirror.behind() == (2, 2, 0)


def test_a_mirror_of_an_earlier_creation_has_no_version(mirror: Followed) -> None:
    kept, root = mirror.folder / "kept", mirror.hive.root
    shutil.copytree(root / MIRROR_NOTES, kept)
    mirror.client.drop_table(mirror.hive.ref)
    mirror.client.create_table(HiveTable.new(mirror.hive.ref, [HiveColumn("id", "int")]))
    assert mirror.hive.root == root
    shutil.copytree(kept, root / MIRROR_NOTES)
    mirror.client.commit_txn(mirror.open_write())
    assert mirror.noted() == [("ns.t", 0, 1)]
    with pytest.raises(IcebergRefused, match="rows of another table"):
        mirror.lag()


def _corrupt(note: MirrorNote) -> bytes:
    return b"{"


def _of_another_table(note: MirrorNote) -> bytes:
    return codec.to_bytes(replace(note, table=replace(note.table, name="d.other")))


def _of_another_mirror(note: MirrorNote) -> bytes:
    return codec.to_bytes(replace(note, mirror="ns.other"))


def _without_write_ids(note: MirrorNote) -> bytes:
    return codec.to_bytes(replace(note, write_ids="x"))


def _of_no_time(note: MirrorNote) -> bytes:
    return codec.to_bytes(replace(note, complete_at=float("nan")))


def _too_large(note: MirrorNote) -> bytes:
    return codec.to_bytes(replace(note, run_token="x" * LARGEST_NOTE))


def test_the_note_of_another_table_is_ignored(mirror: Followed) -> None:
    (path,) = mirror.notes()
    path.write_bytes(_of_another_table(mirror.note(path)))
    mirror.hive.insert(3)
    assert mirror.noted() == []
    assert mirror.behind() == (1, 2, 1)
    mirror.run()
    assert mirror.noted() == [("ns.t", 2, 0)]


@pytest.mark.parametrize(
    "change", [_corrupt, _of_another_mirror, _without_write_ids, _of_no_time, _too_large]
)
def test_a_note_that_cannot_be_read_is_named_until_the_next_run(
    mirror: Followed, change: Callable[[MirrorNote], bytes]
) -> None:
    (path,) = mirror.notes()
    path.write_bytes(change(mirror.note(path)))
    mirror.hive.insert(3)
    table = mirror.client.get_table(mirror.hive.ref)
    now = ValidWriteIdList(str(mirror.hive.ref), 3)
    (known,) = known_mirrors(table, now, time.time(), None)
    assert (known.name, known.lag.version) == (path.parent.name, 0)
    assert "cannot be read" in known.problem
    assert mirror.behind() == (1, 2, 1)
    mirror.run()
    assert mirror.noted() == [("ns.t", 2, 0)]


def test_a_mirror_is_forgotten_until_it_runs_again(mirror: Followed) -> None:
    assert not forget_mirror(mirror.client, mirror.hive.ref, "ns.other", None)
    assert not forget_mirror(mirror.client, mirror.hive.ref, "ns.t", "other")
    assert forget_mirror(mirror.client, mirror.hive.ref, "ns.t", "lake")
    assert mirror.notes() == []
    assert not forget_mirror(mirror.client, mirror.hive.ref, "ns.t", None)
    mirror.run()
    assert mirror.noted() == [("ns.t", 1, 0)]


def test_a_mirror_that_cannot_follow_has_no_lag(mirror: Followed) -> None:
    with pytest.raises(TableNotFound, match=r"Iceberg table ns\.none does not exist"):
        mirror.lag(table="ns.none")
    mirror.catalog.create_table("ns.own", Schema(NestedField(1, "id", IntegerType())))
    with pytest.raises(TableExists, match="no mirror of a Hive table"):
        mirror.lag(table="ns.own")
    with pytest.raises(TableNotFound):
        mirror.lag(target=f"{mirror.hive.ref.database}.none")
    with pytest.raises(VersionUnknown, match="no version 2: its newest one is 1"):
        mirror.lag(version=2)
    mirror.iceberg.append(mirror.iceberg.scan().to_arrow())
    with pytest.raises(IcebergRefused, match="Another program has changed"):
        mirror.lag()


def test_a_mirror_of_another_table_is_refused(mirror: Followed, database: str) -> None:
    other = WrittenTable.create(mirror.client, f"{database}.other")
    other.insert(1)
    with pytest.raises(IcebergRefused, match="rows of another table"):
        mirror.lag(target=str(other.ref))


class Fails(DatabaseCatalog):
    """A catalog that raises an error."""

    error: Exception = ConnectionError("No route to host")

    def load_table(self, *_: Any) -> Any:
        raise self.error


class Forbids(Fails):
    error = PermissionError("Forbidden")


@pytest.mark.parametrize(
    ("catalog", "error"), [(Fails, MetastoreUnreachable), (Forbids, IcebergRefused)]
)
def test_only_an_unreachable_catalog_may_answer_later(
    mirror: Followed, catalog: type, error: type[Exception]
) -> None:
    for work in (mirror.lag, mirror.run):
        asked = pytest.raises(error, match="cannot be asked")
        with opened_as("sql", catalog), asked as raised:
            work()
        assert raised.value.retryable == (error is MetastoreUnreachable)


def test_a_missing_library_is_an_error(mirror: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SoftwareMissing, match=r"lag of ns\.t requires pyiceberg"):
        mirror.lag()


def test_the_command_lists_and_forgets(
    mirror: Followed, capsys: pytest.CaptureFixture[str]
) -> None:
    from hiveacid.cli.main import main

    def hiveacid(*arguments: str) -> tuple[int, str]:
        status = main(["mirrors", *arguments, "--metastore", mirror.client.options.uris])
        return status, capsys.readouterr().out

    mirror.hive.insert(3)
    status, printed = hiveacid("list", mirror.target)
    title, head, row = printed.splitlines()
    assert (status, title) == (0, f"{mirror.target}: 1 mirror")
    assert head.split()[:4] == ["mirror", "catalog", "version", "behind"]
    assert row.split()[:4] == ["ns.t", "lake", "1", "1"]
    assert (
        main(["metrics", mirror.target, "--runs", "--metastore", mirror.client.options.uris]) == 0
    )
    shown = capsys.readouterr().out
    labels = f'{{table="{mirror.target}",catalog="lake",mirror="ns.t"}}'
    assert f"hiveacid_mirror_versions_behind{labels} 1\n" in shown
    (seconds,) = re.findall(rf"(?m)^hiveacid_mirror_lag_in_sec{re.escape(labels)} (.*)$", shown)
    assert 0 < float(seconds) < 600
    (described,) = json.loads(hiveacid("list", mirror.target, "--json")[1])["mirrors"]
    assert (described["name"], described["lag"]["versions"]) == ("ns.t", 1)
    assert hiveacid("forget", mirror.target, "ns.t", "--catalog", "lake")[0] == 0
    assert hiveacid("forget", mirror.target, "ns.t", "--json")[0] == 20
    assert hiveacid("list", mirror.target) == (0, f"{mirror.target}: 0 mirrors\n")
