"""Versions, changes and restores of tables that Hive, Trino and streaming writers have written."""

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hiveacid.errors import VersionGone
from tests.engine.compaction_case import report_of_compaction
from tests.golden import GoldenTable
from tests.golden_versions import (
    FULL_ACID,
    Adopted,
    GoldenVersions,
    adopted,
    in_order,
    is_compacted,
)

HOUR = 3600

ALL = [pytest.param((name, True), id=name) for name in FULL_ACID]
# Hive leaves no version before a major compaction of its own: these are as they were before it.
EARLIER = [
    pytest.param((name, False), id=f"{name}-earlier") for name in filter(is_compacted, FULL_ACID)
]
# One of each kind.
KINDS = [
    pytest.param((name, not is_compacted(name)), id=name)
    for name in ("trino_crud", "part_dyn", "loaded", "originals_bucketed", "streamed", "statements")
]


@pytest.fixture
def golden(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path
) -> Iterator[Adopted]:
    name, compacted = request.param
    with adopted(name, spark, tmp_path, compacted=compacted) as table:
        yield table


@pytest.mark.parametrize("name", FULL_ACID)
def test_the_files_contain_the_rows_of_hive(name: str) -> None:
    versions = GoldenVersions(GoldenTable.read(name))
    for snapshot in versions.golden.snapshots:
        if snapshot.write_ids.open:
            continue  # They were aborted later.
        rows = versions.rows(snapshot.write_ids.high_watermark)
        assert in_order(rows.values()) == in_order(row[1:] for row in snapshot.rows)


@pytest.mark.parametrize("golden", [*ALL, *EARLIER], indirect=True)
def test_every_version_is_what_it_was_or_gone(golden: Adopted) -> None:
    newest = golden.versions.now.high_watermark
    with golden.open() as table:
        assert table.detail().oldest_version == golden.oldest
        for version in golden.versions.numbers:
            if version in golden.readable:
                rows = golden.versions.rows(version).values()
                assert golden.rows(table, version) == in_order(rows), version
                continue
            for ask in (golden.rows, lambda table, version: table.changes(version)):
                with pytest.raises(VersionGone) as gone:
                    ask(table, version)
                left = re.search(r"version is (\d+), the newest (\d+)", str(gone.value))
                assert left
                # That of one partition; another may have a later one.
                assert int(left[1]) in golden.versions.oldest.values()
                assert version < int(left[1])
                assert int(left[2]) == newest


@pytest.mark.parametrize("golden", KINDS, indirect=True)
def test_changes_are_the_difference_of_versions(golden: Adopted) -> None:
    versions = golden.readable
    steps = [
        (later, step)
        for then, later in pairwise(versions)
        for step in golden.versions.steps(then, later)
    ]
    with golden.open() as table:
        told = golden.changes(table.changes(versions[0]))
        assert sorted(told, key=str) == sorted(steps, key=str)


@pytest.mark.parametrize(
    "golden",
    [("trino_crud", True), ("originals_bucketed", False)],
    ids=["trino", "originals"],
    indirect=True,
)
def test_a_version_is_restored(golden: Adopted) -> None:
    version = golden.readable[1]
    with golden.open() as table:
        table.restore(version)
        rows = golden.versions.rows(version).values()
        assert golden.rows(table, table.detail().newest_version) == in_order(rows)


@pytest.mark.parametrize("golden", [("statements", True)], ids=["statements"], indirect=True)
def test_a_compaction_hands_on_when_others_have_written(golden: Adopted) -> None:
    for path in golden.folder.rglob("bucket_*"):
        time = HOUR * int(path.parent.name.rpartition("delta_")[2][:7])
        os.utime(path, (time, time))
    with golden.open() as table:
        (done,) = report_of_compaction(table, "minor").partitions
        assert len(golden.clean().removed) == 8
        assert sorted(path.name for path in golden.folder.glob("del*")) == sorted(done.published)
        writes = [entry for entry in table.history() if entry.write_id is not None]
        assert [(own.write_id, own.time) for own in writes] == [
            (write_id, HOUR * write_id) for write_id in (4, 3, 2, 1)
        ]
        assert {(own.operation, own.bytes, own.rows_inserted) for own in writes} == {
            (None, None, None)
        }
        for write_id in (1, 2, 3, 4):
            moment = datetime.fromtimestamp(HOUR * write_id + 60, UTC)
            rows = golden.versions.rows(write_id).values()
            assert golden.rows(table, moment) == in_order(rows)
