"""Cleanings by a process whose clock is wrong: ages are those by the clock of the storage."""

import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import SIDECAR_FILE, Base
from hiveacid.rules.notes import WrittenFile, directory_note
from tests.clocks import set_clock
from tests.upkeep.acid_folders import AcidFolders, kept, removed

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
DAY = timedelta(days=1)
CLOCKS = pytest.mark.parametrize(
    "errors",
    [[2 * DAY], [-2 * DAY], [10 * DAY], [-10 * DAY], [-10 * DAY, 10 * DAY]],
    ids=["2 ahead", "2 behind", "10 ahead", "10 behind", "jumps"],
)
DRY_OR_NOT = pytest.mark.parametrize("dry_run", [True, False])


def replaced(
    folders: AcidFolders,
    *,
    days: float,
    told: timedelta = timedelta(),
    partition: str | None = None,
) -> list[str]:
    """Two deltas that a base has replaced some days ago, as a writer with a wrong clock notes it."""
    folder = folders.root / (partition or "")
    old = [folders.insert(partition), folders.insert(partition)]
    base = folder / folders.compact(Base(2), partition)
    note = {"replaces": old, "aborted": [], "time": (datetime.now(UTC) + told).isoformat()}
    (base / SIDECAR_FILE).write_bytes(directory_note(note, [WrittenFile("bucket_00000", 0, 7)]))
    then = time.time() - 86_400 * days
    for file in base.iterdir():
        os.utime(file, (then, then))
    return old


@DRY_OR_NOT
@CLOCKS
def test_a_version_is_kept_for_its_retention(
    folders: AcidFolders,
    monkeypatch: pytest.MonkeyPatch,
    errors: Sequence[timedelta],
    dry_run: bool,
) -> None:
    old = replaced(folders, days=0.9)
    set_clock(monkeypatch.setattr, errors)
    report = folders.clean(dry_run=dry_run)
    assert (removed(report), sorted(kept(report))) == ([], old)
    assert {*folders.directories()} > {*old}


@DRY_OR_NOT
@CLOCKS
def test_a_version_is_removed_after_its_retention(
    folders: AcidFolders,
    monkeypatch: pytest.MonkeyPatch,
    errors: Sequence[timedelta],
    dry_run: bool,
) -> None:
    old = replaced(folders, days=1.1)
    set_clock(monkeypatch.setattr, errors)
    assert removed(folders.clean(dry_run=dry_run)) == old


@pytest.mark.parametrize("told", [-10 * DAY, -2 * DAY, 2 * DAY, 10 * DAY])
@pytest.mark.parametrize(("days", "stays"), [(0.9, True), (1.1, False)])
def test_the_clock_of_the_writer_does_not_count(
    folders: AcidFolders, told: timedelta, days: float, stays: bool
) -> None:
    old = replaced(folders, days=days, told=told)
    assert removed(folders.clean()) == ([] if stays else old)


def test_each_storage_has_a_clock(
    client: MetastoreClient, database: str, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partition elsewhere is judged by the clock of its own storage; nothing is left in either."""
    folders = AcidFolders.create(client, f"{database}.p", ["p=1"])
    folders.add("p=2", location=f"file:{tmp_path}/far")
    replaced(folders, days=0.9, partition="p=1")
    set_clock(monkeypatch.setattr, [2 * DAY])
    before = folders.tree()
    assert removed(folders.clean()) == []
    assert folders.tree() == before


@CLOCKS
def test_notes_expire_by_the_clock_of_the_storage(
    folders: AcidFolders, monkeypatch: pytest.MonkeyPatch, errors: Sequence[timedelta]
) -> None:
    notes = folders.root / folders.make("_hiveacid_runs")
    for name, days in (("newest", 0.0), ("kept", 29.0), ("expired", 31.0), ("future", -300.0)):
        (notes / name).write_text("{}")
        os.utime(notes / name, (time.time() - days * 86_400,) * 2)
    set_clock(monkeypatch.setattr, errors)
    assert removed(folders.clean()) == ["_hiveacid_runs/expired"]
