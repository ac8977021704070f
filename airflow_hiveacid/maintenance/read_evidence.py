"""Evidence on the reads of tables: shared locks, and the notes on runs of this package."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from airflow_hiveacid.acid.compaction_decision import Decision
from airflow_hiveacid.acid.locks import LockType
from airflow_hiveacid.acid.read_rates import (
    ReadLock,
    ReadRate,
    ReadSamples,
    joint_rate,
    rate_of_runs,
)
from airflow_hiveacid.metastore.catalog import HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.thrift.answers import LockState
from airflow_hiveacid.metastore.txn.snapshot import Snapshot
from airflow_hiveacid.records.run_note_folder import RunNoteFolder
from airflow_hiveacid.storage.folder import ReadOnlyStorage

# These operations read the table that they change.
_READING = ("merge", "update", "delete", "transaction")
_PERIOD_HOURS = 7 * 24.0
_MOST_NOTES = 500


def read_locks(client: MetastoreClient) -> list[ReadLock]:
    """Return the shared locks on tables and partitions that are held now.

    Inserts hold such locks as well, and cannot be distinguished from reads.
    """
    return [
        ReadLock(
            lock.table.full_name,
            lock.partition,
            lock.txn_id or -lock.lock_id,
            lock.acquired_at.timestamp(),
        )
        for lock in client.show_locks()
        if lock.type is LockType.SHARED_READ
        and lock.state is LockState.ACQUIRED
        and lock.table is not None
        and lock.acquired_at is not None
    ]


def with_sample(
    samples: ReadSamples, client: MetastoreClient, decisions: Sequence[Decision]
) -> ReadSamples:
    """Add a sample of the locks on the tables of some decisions."""
    tables = {
        each.size.table: each.size.identity for each in decisions if each.size.identity is not None
    }
    return samples.sampled(read_locks(client), tables, time.time())


def with_rate(decision: Decision, samples: ReadSamples, runs: "RunReads | None" = None) -> Decision:
    """Add the rate of reads to a decision, from all evidence.

    Args:
        decision: The decision, with the rate that the table's property sets.
        samples: Samples of locks.
        runs: The runs of this package on the table.
    """
    size = decision.size
    known = None if size.identity is None else samples.of(size.table, size.identity)
    rate = joint_rate(
        size.reads,
        None if runs is None else runs.rate(size.partition),
        None if known is None else known.rate(size.partition),
    )
    return replace(decision, size=replace(size, reads=rate))


@dataclass(frozen=True, slots=True)
class RunReads:
    """Reads of one table by runs of this package.

    Attributes:
        hours: The period.
        all_partitions: The number of runs that may have read any partition.
        by_partition: The number of the other runs by partition.
    """

    hours: float
    all_partitions: int = 0
    by_partition: Mapping[str, int] = field(default_factory=dict)

    def rate(self, partition: str | None) -> ReadRate | None:
        """Return the rate for a partition; None without runs.

        Args:
            partition: The name; None for a table without partitions.
        """
        own = 0 if partition is None else self.by_partition.get(partition, 0)
        return rate_of_runs(self.all_partitions + own, self.hours)


def run_reads(client: MetastoreClient, table: HiveTable) -> RunReads:
    """Count the runs of the last week that read a table and changed it, by their notes.

    A note counts if it is about this creation of the table, and its transaction was committed.

    Args:
        client: The metastore.
        table: The table.
    """
    now, name = time.time(), table.ref.full_name
    # No run read the table before it was created.
    hours = min(_PERIOD_HOURS, max(0.0, (now - table.identity.created) / 3600))
    snapshot = Snapshot.take(client, [table.ref])
    folder = RunNoteFolder(client, ReadOnlyStorage.of(table.folder), table)
    notes = folder.committed(
        snapshot.txns, snapshot.write_ids[name], _MOST_NOTES, since=now - 3600 * hours
    )
    everywhere, by_partition = 0, Counter[str]()
    for note in notes:
        if note.operation not in _READING:
            continue
        report = note.report
        own = [each.partitions for each in report.tables if each.table == name]
        partitions = set(own[0] if own else report.partitions)
        if partitions and table.partition_keys:
            by_partition.update(partitions)
        else:
            everywhere += 1
    return RunReads(hours, everywhere, by_partition)
