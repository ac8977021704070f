"""Partitions that others drop or move between the start of a compaction and its lock."""

from collections.abc import Callable
from pathlib import Path

import pytest

from hiveacid.errors import TableReplaced
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.report import PartitionReport
from hiveacid.metastore.catalog import HivePartition
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift import idl_tables
from hiveacid.upkeep.compaction.table import TableCompactor
from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler
from tests.compaction.written_table import WrittenTable
from tests.metastore_calls import acting_before

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)


@pytest.fixture
def partition(client: MetastoreClient, database: str) -> WrittenTable:
    """A partition with enough deltas for a minor compaction."""
    (partition,) = WrittenTable.create_partitions(client, f"{database}.t", "p=1")
    for number in range(12):
        partition.insert(number)
    return partition


def compacted_after(partition: WrittenTable, change: Callable[[], None]) -> PartitionReport:
    job = CompactJob(target=str(partition.ref), type="minor", run_in="worker")
    with WorkerScheduler() as scheduler, acting_before("lock", change):
        (report,) = TableCompactor(scheduler, partition.client, job).run().partitions
    return report


def test_a_dropped_partition_is_named_as_the_reason(partition: WrittenTable) -> None:
    def drop() -> None:
        partition.client.drop_partitions(partition.ref, ["p=1"], lambda: None)

    report = compacted_after(partition, drop)
    assert report.outcome == "failed"
    assert report.error is not None
    assert report.error.id == TableReplaced.__name__
    assert report.error.retryable
    assert "p=1" in report.reason
    assert "dropped meanwhile" in report.reason
    assert not partition.root.exists()


def test_a_partition_that_was_added_again_is_not_compacted(
    partition: WrittenTable, tmp_path: Path
) -> None:
    table = partition.client.get_table(partition.ref)
    (before,) = partition.client.get_partitions(table, ["p=1"])

    def move() -> None:
        partition.client.drop_partitions(partition.ref, ["p=1"], lambda: None)
        moved = HivePartition.new(table, ["1"])
        moved.raw.sd.location = f"file:{tmp_path}/elsewhere"
        partition.client.add_partitions(partition.ref, [moved])

    report = compacted_after(partition, move)
    assert report.error is not None
    assert report.error.id == TableReplaced.__name__
    assert "moved" in report.reason
    assert str(before.location) in report.reason


def test_a_moved_partition_keeps_its_files(partition: WrittenTable, tmp_path: Path) -> None:
    files = partition.files()
    (moved,) = partition.client.get_partitions(partition.client.get_table(partition.ref), ["p=1"])
    moved.raw.sd.location = f"file:{tmp_path}/elsewhere"

    def move() -> None:
        call = idl_tables.alter_partitions_with_environment_context
        context = idl_tables.EnvironmentContext({"DO_NOT_UPDATE_STATS": "true"})
        ref = partition.ref
        partition.client.call(call, ref.database, ref.name, [moved.raw], context)

    report = compacted_after(partition, move)
    assert report.error is not None
    assert report.error.id == TableReplaced.__name__
    assert partition.files() == files
