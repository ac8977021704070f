"""Partitions that Trino would misread are found in files named like Hive's, and repaired."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.compaction_policy import CompactionPolicy
from hiveacid.rules.names import SIDECAR_FILE, parse_directory
from hiveacid.spark.compaction import compact_table
from hiveacid.upkeep.survey import Survey
from tests.engine.acid_tables import folder
from tests.engine.compaction_case import LEFT, Case

FOR_TRINO = CompactionPolicy(
    max_deltas=None,
    max_delta_ratio=None,
    max_aborted=None,
    max_aborted_age_hours=None,
    right_for="trino",
)
# The problem of each partition, and its repair.
WRONG = {
    "deletes": "minor",
    "deletes_on_base": "minor",
    "updates_on_base": "major",
    "emptied": "major",
    "truncated": "major",
    "aborted": "major",
}
RIGHT = ("emptied_and_cleaned", "not_of_hive", "plain")


def directories(root: Path, kind: str) -> list[Path]:
    return sorted(path for path in root.iterdir() if path.name.startswith(kind))


def name_like_hive(directory: Path) -> None:
    """Hive adds the attempt to the names of its files, and leaves no note."""
    (directory / SIDECAR_FILE).unlink()
    for file in directory.glob("bucket_*"):
        file.rename(file.with_name(f"{file.name}_0"))


def empty_like_hive(base: Path, side_file: str, content: str) -> None:
    shutil.rmtree(base)
    base.mkdir()
    (base / side_file).write_text(content)


@pytest.fixture
def strange(make: Callable[..., Case]) -> tuple[Case, Path]:
    case = make(keys={"p": "string"})
    root = folder(case.client.get_table(case.ref))
    names = [*WRONG, *RIGHT]
    for id_ in (1, 2):
        case.append(*((id_, "a", name) for name in names))
    txn_id = case.client.open_txn("writer", "localhost", None)
    lost = case.client.allocate_write_id(txn_id, case.ref)
    case.client.abort_txn(txn_id)

    empty = ("emptied", "truncated", "emptied_and_cleaned")
    case.change(lambda table: table.delete(f"p in {empty}"))
    bases = [*empty, "deletes_on_base", "updates_on_base"]
    case.compact("major", partitions=[f"p={name}" for name in bases])
    case.change(
        lambda table: table.delete("id = 1 and p in ('deletes', 'deletes_on_base', 'not_of_hive')")
    )
    case.change(lambda table: table.update({"v": "'b'"}, "id = 1 and p = 'updates_on_base'"))

    for name in ("deletes", "deletes_on_base", "updates_on_base", "plain"):
        for delta in directories(root / f"p={name}", "del"):
            name_like_hive(delta)
    for name in ("emptied", "emptied_and_cleaned"):
        (base,) = directories(root / f"p={name}", "base_")
        empty_like_hive(base, "_orc_acid_version", "2")
    for old in directories(root / "p=emptied_and_cleaned", "del"):
        shutil.rmtree(old)
    (base,) = directories(root / "p=truncated", "base_")
    marker = '{"thisFileVersion":"0","dataFormat":"truncated"}'
    truncated = base.rename(base.with_name(base.name.partition("_v")[0]))
    empty_like_hive(truncated, "_metadata_acid", marker)
    _, second = directories(root / "p=aborted", "delta_")
    name_like_hive(second)
    second.rename(second.with_name(f"delta_{lost - 1:07d}_{lost:07d}"))
    return case, root


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_exactly_what_trino_reads_wrongly_is_compacted(strange: tuple[Case, Path]) -> None:
    case, root = strange
    rows = case.rows()

    def called_for() -> dict[str, str]:
        decisions = Survey(case.client, FOR_TRINO).survey([case.ref])
        assert not any(decision.size.problem for decision in decisions)
        return {
            decision.size.partition.removeprefix("p="): decision.type.value
            for decision in decisions
            if decision.size.partition and decision.type
        }

    assert called_for() == WRONG

    before = set(case.directories())
    job = CompactJob(target=case.name, policy=FOR_TRINO)
    report = compact_table(lambda: case.spark, case.client, job)
    assert report.error is None
    assert {
        (result.partition or "").removeprefix("p="): result.type
        for result in report.partitions
        if result.outcome == "compacted"
    } == WRONG
    assert case.rows() == rows
    assert called_for() == {}

    made = sorted(set(case.directories()) - before)
    assert {name.partition("/")[0] for name in made} == {f"p={name}" for name in WRONG}
    for name in made:
        # Every directory that Trino chooses has a file with a name that Trino expects.
        assert all(re.fullmatch("bucket_[0-9]{5}", file.name) for file in (root / name).glob("b*"))
        assert list((root / name).glob("bucket_*"))
        parsed = parse_directory(Path(name).name)
        assert parsed is not None
        assert parsed.visibility_txn > 0


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_a_range_that_a_killed_compaction_has_left_is_not_made_again(busy: Case) -> None:
    root = folder(busy.client.get_table(busy.ref))
    txn_id = busy.client.open_txn("compactor", "localhost", None)
    busy.client.abort_txn(txn_id)
    inserts = directories(root, "delta_")
    left = root / f"delta_0000001_0000004_v{txn_id:07d}"
    shutil.copytree(inserts[0], left)
    # Killed between its rows and its deletes: Trino shows none of the deletes.
    (decision,) = Survey(busy.client, FOR_TRINO).survey([busy.ref])
    assert decision.size.misread.halves == (left.name,)

    (done,) = busy.compact("minor").partitions
    assert (done.type, done.published) == ("major", (f"base_0000004_v{done.txn_id:07d}",))
    assert left.name in done.warnings[0]
    assert busy.rows() == LEFT
    (decision,) = Survey(busy.client, FOR_TRINO).survey([busy.ref])
    assert not decision.size.misread


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_rows_that_trino_shows_twice_are_found_and_repaired(busy: Case) -> None:
    (done,) = busy.compact("minor").partitions
    root = folder(busy.client.get_table(busy.ref))
    txn_id = busy.client.open_txn("compactor", "localhost", None)
    busy.client.abort_txn(txn_id)
    for name in done.published:
        shutil.copytree(root / name, root / f"{name.partition('_v')[0]}_v{txn_id:07d}")
    busy.append((5, "e", "y"))
    (decision,) = Survey(busy.client, FOR_TRINO).survey([busy.ref])
    assert decision.type is CompactionType.MAJOR
    assert {name.partition("_v")[0] for name in decision.size.misread.copies} == {
        "delta_0000001_0000004"
    }
    assert busy.rows() == [*LEFT, (5, "e", "y")]

    job = CompactJob(target=busy.name, policy=FOR_TRINO)
    report = compact_table(lambda: busy.spark, busy.client, job)
    assert [result.outcome for result in report.partitions] == ["compacted"]
    assert busy.rows() == [*LEFT, (5, "e", "y")]
    (decision,) = Survey(busy.client, FOR_TRINO).survey([busy.ref])
    assert (decision.type, bool(decision.size.misread)) == (None, False)
