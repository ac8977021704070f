"""Compaction of the partitions of a table, by tasks of Spark where they are necessary."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from pyspark.sql import SparkSession

from hiveacid.errors import DataError, StorageError
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.reports.report import CompactReport
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.progress import PhaseClock, PhaseObserver
from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.compaction_policy import WorkerLimits
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.spark.compaction.bucket_sorting import SortingCompactor
from hiveacid.spark.compaction.insert_only import RewritingCompactor
from hiveacid.spark.compaction.sorted_rows import RebalancingCompactor
from hiveacid.spark.compaction.spark_scheduler import SparkScheduler
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.upkeep.compaction.partition import PartitionCompactor
from hiveacid.upkeep.compaction.placement import compact
from hiveacid.upkeep.compaction.scheduling import COPIED_WHILE_ENCODED
from hiveacid.upkeep.compaction.table import TableCompactor
from hiveacid.upkeep.compaction.worker_scheduler import INLINE_BYTES, WorkerScheduler
from hiveacid.upkeep.survey import compactable


class SparkCompactor(TableCompactor):
    """Compacts a table as requested by a job, also where rows must be sorted or rewritten."""

    def compactor(self, table: HiveTable, type_: CompactionType) -> type[PartitionCompactor]:
        """See the base class."""
        if table.kind is TableKind.INSERT_ONLY:
            return RewritingCompactor
        return RebalancingCompactor if type_ is CompactionType.REBALANCE else SortingCompactor


def compact_table(
    spark: Callable[[], SparkSession],
    client: MetastoreClient,
    job: CompactJob,
    observers: Sequence[PhaseObserver] = (),
) -> CompactReport:
    """Compact a table in this process or by tasks of Spark, as its job and its size require.

    Only small inputs are left to this process, a driver of Spark, and copies of local files: others
    would need memory that it may lack, or cores that executors have.

    Args:
        spark: Returns the session; called only if Spark is needed.
        client: The metastore.
        job: The compaction job.
        observers: Observers of the phases.
    """

    def in_worker(job: CompactJob) -> CompactReport:
        with WorkerScheduler() as scheduler:
            return TableCompactor(scheduler, client, job, observers).run()

    def on_spark(job: CompactJob, reason: str) -> CompactReport:
        PhaseClock(observers).note(f"On Spark: {reason}")
        return SparkCompactor(SparkScheduler(spark()), client, job, observers).run()

    if job.run_in == "auto":
        job = replace(job, worker=_limits_here(client, job))
    return compact(client, job, in_worker, on_spark)


def _limits_here(client: MetastoreClient, job: CompactJob) -> WorkerLimits:
    """The limits for a process that also runs a driver of Spark."""
    copied = INLINE_BYTES
    # Requests of a queue may be for any table.
    if job.mode != "worker" and _is_local(client, job):
        copied *= COPIED_WHILE_ENCODED
    limits = job.worker
    return replace(
        limits,
        max_copied_bytes=min(limits.max_copied_bytes, copied),
        max_encoded_bytes=min(limits.max_encoded_bytes, INLINE_BYTES),
    )


def _is_local(client: MetastoreClient, job: CompactJob) -> bool:
    try:
        folder = compactable(client, TableRef.parse(job.target)).folder
        return ReadOnlyStorage.of(folder).is_local
    except (DataError, StorageError):
        return False  # The compaction reports it.
