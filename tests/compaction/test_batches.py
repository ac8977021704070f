"""Many partitions in one transaction: those that fail leave it, and the others are committed."""

from collections import Counter
from typing import Any

import pytest

from hiveacid.errors import StorageError
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.report import CompactReport, PartitionReport
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import (
    READY_FOR_CLEANING,
    CompactionQueue,
    CompactionTransaction,
)
from hiveacid.metastore.txn.owner import find_open_transactions
from hiveacid.rules.compaction import CompactionType
from hiveacid.storage.staging import StagedDirectories
from hiveacid.tables.scan.table_scan import TableScan
from hiveacid.upkeep.compaction import table as table_compaction
from hiveacid.upkeep.compaction.table import TableCompactor
from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler
from tests.compaction.written_table import WrittenTable

FAKE = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
REAL = pytest.mark.parametrize("hms", ["4.0.1", "3.1.3"], indirect=True)
NAMES = [f"p={number}" for number in range(6)]


@pytest.fixture
def partitions(client: MetastoreClient, database: str) -> list[WrittenTable]:
    """Six partitions with two inserts and a delete each."""
    return made(client, database)


def made(client: MetastoreClient, database: str) -> list[WrittenTable]:
    partitions = WrittenTable.create_partitions(client, f"{database}.t", *NAMES)
    for number, partition in enumerate(partitions):
        first = partition.insert(10 * number, 10 * number + 1)
        partition.insert(10 * number + 2)
        partition.delete((first, 0))
    return partitions


def rows(partitions: list[WrittenTable]) -> list[int]:
    scan = TableScan(str(partitions[0].ref), partitions[0].client.options)
    return sorted(scan.to_arrow().column("id").to_pylist())


EXPECTED = sorted(10 * number + offset for number in range(6) for offset in (1, 2))


def compact(
    partitions: list[WrittenTable], *, processes: bool = False, **options: Any
) -> CompactReport:
    table = partitions[0]
    job = CompactJob(
        target=str(table.ref), type="major", run_in="worker", run_token="batch", **options
    )
    with WorkerScheduler(2, 0 if processes else 1 << 30) as scheduler:
        return TableCompactor(scheduler, table.client, job).run()


def by_name(report: CompactReport) -> dict[str | None, PartitionReport]:
    return {partition.partition: partition for partition in report.partitions}


def hidden(partitions: list[WrittenTable]) -> list[str]:
    return [
        str(path)
        for partition in partitions
        for path in partition.root.iterdir()
        if path.name.startswith("_tmp")
    ]


@FAKE
@pytest.mark.parametrize("processes", [False, True])
def test_partitions_share_a_transaction_and_few_calls(
    client: MetastoreClient,
    partitions: list[WrittenTable],
    processes: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: Counter[str] = Counter()
    call = client.call

    def counted(*arguments: Any, **options: Any) -> Any:
        calls[arguments[0].name] += 1
        return call(*arguments, **options)

    monkeypatch.setattr(client, "call", counted)
    report = compact(partitions, processes=processes)
    assert Counter(partition.outcome for partition in report.partitions) == {"compacted": 6}
    assert [partition.partition for partition in report.partitions] == NAMES
    assert len({partition.txn_id for partition in report.partitions}) == 1
    for partition in report.partitions:
        assert partition.proof is not None
        assert (partition.proof.rows_read, partition.proof.rows_deleted, partition.rows) == (
            3,
            1,
            2,
        )
    per_partition = {name: count for name, count in calls.items() if count >= len(NAMES)}
    assert sum(per_partition.values()) <= 5 * len(NAMES), calls
    assert rows(partitions) == EXPECTED
    assert hidden(partitions) == []
    assert find_open_transactions(client, "batch") == []
    again = compact(partitions)
    assert Counter(partition.outcome for partition in again.partitions) == {"skipped": 6}


@REAL
@pytest.mark.server
def test_the_commit_completes_each_request(client: MetastoreClient, database: str) -> None:
    partitions = made(client, database)
    (txn_id,) = {partition.txn_id for partition in compact(partitions).partitions}
    assert rows(partitions) == EXPECTED
    if client.features.has_pools:
        queue = CompactionQueue(client).show(partitions[0].ref)
        assert [entry.partition for entry in queue] == NAMES
        assert {(entry.state, entry.txn_id) for entry in queue} == {(READY_FOR_CLEANING, txn_id)}
        # By this number, a cleaner decides when no reader needs the replaced files.
        (next_txn_id,) = {entry.next_txn_id for entry in queue}
        assert next_txn_id is None or next_txn_id >= txn_id
    for partition in partitions:
        partition.clean()
        (base,) = partition.directories()
        assert base.startswith("base_"), base
    assert rows(partitions) == EXPECTED


@FAKE
def test_a_damaged_partition_leaves_the_batch(
    client: MetastoreClient, partitions: list[WrittenTable]
) -> None:
    (file,) = partitions[2].root.glob("delta_0000007_*/bucket_00000")
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    report = by_name(compact(partitions))
    assert report["p=2"].outcome == "failed"
    assert str(file) in report["p=2"].reason
    others = [report[name] for name in NAMES if name != "p=2"]
    assert {partition.outcome for partition in others} == {"compacted"}
    assert len({partition.txn_id for partition in others}) == 1
    assert not [name for name in partitions[2].directories() if name.startswith("base")]
    assert hidden(partitions) == []
    if client.features.has_pools:
        states = {
            entry.partition: entry.state
            for entry in CompactionQueue(client).show(partitions[0].ref)
        }
        assert states.pop("p=2") == "failed"
        assert set(states.values()) == {READY_FOR_CLEANING}
    file.write_bytes(content)
    assert by_name(compact(partitions))["p=2"].outcome == "compacted"
    assert rows(partitions) == EXPECTED


@FAKE
def test_a_partition_of_another_compactor_is_skipped(
    client: MetastoreClient, partitions: list[WrittenTable]
) -> None:
    with CompactionTransaction(client, partitions[0].ref, "p=3", CompactionType.MAJOR) as other:
        report = by_name(compact(partitions))
        other.abort("the test is over")
    assert report["p=3"].outcome == "skipped", report["p=3"]
    assert "p=3" in report["p=3"].reason
    assert {report[name].outcome for name in NAMES if name != "p=3"} == {"compacted"}
    assert rows(partitions) == EXPECTED
    assert by_name(compact(partitions))["p=3"].outcome == "compacted"


@FAKE
def test_a_failed_publication_undoes_all_and_each_is_compacted_alone(
    client: MetastoreClient, partitions: list[WrittenTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = StagedDirectories.publish
    published: list[str] = []

    def failing(self: StagedDirectories, final: str, **options: Any) -> None:
        published.append(final)
        if len(published) == 3:
            raise StorageError("The disk is away for a moment.")
        publish(self, final, **options)

    monkeypatch.setattr(StagedDirectories, "publish", failing)
    report = compact(partitions)
    if client.features.hides_compactions:
        assert {partition.outcome for partition in report.partitions} == {"compacted"}
        assert len({partition.txn_id for partition in report.partitions}) == 6
    else:
        # Each rename is a commit.
        outcomes = Counter(partition.outcome for partition in report.partitions)
        assert outcomes == {"compacted": 5, "failed": 1}
    assert rows(partitions) == EXPECTED
    assert hidden(partitions) == []
    for partition in partitions:
        bases = [name for name in partition.directories() if name.startswith("base")]
        assert len(bases) <= 1, bases


@FAKE
def test_partitions_without_time_are_compacted_in_another_transaction(
    client: MetastoreClient, partitions: list[WrittenTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_compaction, "_BATCH_SECONDS", -1.0)
    report = compact(partitions, parallel=1)
    assert {partition.outcome for partition in report.partitions} == {"compacted"}
    assert len({partition.txn_id for partition in report.partitions}) == 6
    assert rows(partitions) == EXPECTED


@FAKE
def test_the_policy_strict_compacts_one_by_one(
    client: MetastoreClient, partitions: list[WrittenTable]
) -> None:
    report = compact(partitions, conflict_policy="strict")
    assert {partition.outcome for partition in report.partitions} == {"compacted"}
    assert len({partition.txn_id for partition in report.partitions}) == 6


@FAKE
def test_a_partition_that_needs_spark_leaves_the_batch(
    client: MetastoreClient, partitions: list[WrittenTable]
) -> None:
    partitions[4].insert_in_disorder()
    report = by_name(compact(partitions, processes=True))
    error = report["p=4"].error
    assert error is not None
    assert error.id == "SparkNeeded"
    assert {report[name].outcome for name in NAMES if name != "p=4"} == {"compacted"}
    assert hidden(partitions) == []
