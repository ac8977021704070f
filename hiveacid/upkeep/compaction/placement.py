"""The choice of the processes that run a compaction: those of the worker, or executors of Spark."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hiveacid.errors import DataError, SparkNeeded, StorageError
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.reports.report import CompactReport, PartitionReport
from hiveacid.metastore.catalog import HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compaction.queue import INITIATED, CompactionQueue
from hiveacid.metastore.txn.snapshot import Snapshot
from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.compaction_decision import Decision
from hiveacid.rules.compaction_forecast import Forecast
from hiveacid.rules.compaction_rank import rank
from hiveacid.rules.names import TableRef
from hiveacid.storage.threads import in_threads
from hiveacid.upkeep.compaction.forecast import forecast, most_work, reason_for_spark
from hiveacid.upkeep.compaction.table import joint_report
from hiveacid.upkeep.survey import Survey, compactable, compaction_of


@dataclass(frozen=True, slots=True)
class _Request:
    """A compaction that a job may run."""

    partition: str | None
    type: CompactionType
    bytes: int


def why_spark(client: MetastoreClient, job: CompactJob) -> str | None:
    """Return why a job runs on Spark; None if it runs in the worker.

    Args:
        client: The metastore.
        job: The compaction job.

    Raises:
        SparkNeeded: The job is limited to the worker, and requires Spark.
    """
    if job.run_in == "spark":
        return "The job asks for it with run_in='spark'."
    ref = TableRef.parse(job.target)
    if job.type == CompactionType.REBALANCE:
        reason: str | None = f"The rows of {ref} must be sorted."
    else:
        reason = _why_spark(client, ref, job)
    if reason is not None and job.run_in == "worker":
        raise SparkNeeded(reason)
    return reason


def compact(
    client: MetastoreClient,
    job: CompactJob,
    in_worker: Callable[[CompactJob], CompactReport],
    on_spark: Callable[[CompactJob, str], CompactReport],
) -> CompactReport:
    """Compact a table in the worker or on Spark, as its job and its size require.

    Args:
        client: The metastore.
        job: The compaction job.
        in_worker: Runs the job in the worker.
        on_spark: Runs a job on Spark, for a reason.
    """
    reason = why_spark(client, job)
    if reason is not None:
        return on_spark(job, reason)
    report = in_worker(job)
    rest = rest_for_spark(job, report)
    if rest is None:
        return report
    return joined(report, on_spark(*rest))


def rest_for_spark(job: CompactJob, report: CompactReport) -> tuple[CompactJob, str] | None:
    """Return a job for the partitions that need Spark, as became clear in the worker, and the reason.

    Args:
        job: The job that ran in the worker.
        report: Its report.

    Returns:
        None without such partitions, or if the job must not run on Spark. Of a queue, the requests
        for them were refused.
    """
    left = [each for each in report.partitions if needs_spark(each)]
    if not left or job.run_in != "auto" or job.mode == "worker":
        return None
    names = sorted(each.partition for each in left if each.partition is not None)
    return replace(job, run_in="spark", partitions=names or None), left[0].reason


def joined(in_worker: CompactReport, on_spark: CompactReport) -> CompactReport:
    """Combine the reports of a compaction that began in the worker and ended on Spark.

    Args:
        in_worker: The report of the worker.
        on_spark: The report of the partitions that need Spark, or of all partitions again.
    """
    compacted = {each.partition for each in in_worker.partitions if each.outcome == "compacted"}
    later = [
        each
        for each in on_spark.partitions
        if each.outcome != "skipped" or each.partition not in compacted
    ]
    replaced = {each.partition for each in later} - compacted
    earlier = [
        each
        for each in in_worker.partitions
        if each.partition not in replaced and not needs_spark(each)
    ]
    return joint_report(TableRef.parse(in_worker.target), [*earlier, *later])


def needs_spark(report: PartitionReport) -> bool:
    """Whether a partition needs Spark, as became clear in the worker."""
    return report.error is not None and report.error.id == SparkNeeded.__name__


def forecasts_of(
    client: MetastoreClient, table: HiveTable, decisions: Sequence[Decision]
) -> list[Forecast | None]:
    """Predict the work of the compactions that were decided for; None for the others."""
    requests = [
        _Request(each.size.partition, each.type, each.bytes) for each in decisions if each.type
    ]
    done = iter(_forecasts(client, table, requests))
    return [None if decision.type is None else next(done) for decision in decisions]


def _why_spark(client: MetastoreClient, ref: TableRef, job: CompactJob) -> str | None:
    try:
        if job.mode == "worker":
            return _why_queue_needs_spark(client, ref, job)
        table, job = compaction_of(client, job)
        return _why_requests_need_spark(client, table, _requests(client, table, job), job)
    except (DataError, StorageError) as error:
        if job.run_in == "worker":
            return None  # The compaction reports it.
        # Executors may have credentials that the worker lacks, or report it better.
        return f"The files could not be examined here: {error.what}"


def _why_queue_needs_spark(client: MetastoreClient, ref: TableRef, job: CompactJob) -> str | None:
    """Return why the requests that wait in the queue need Spark.

    The oldest request of a pool is served first, also that of another table.
    """
    waiting = [
        entry
        for entry in CompactionQueue(client).show()
        if entry.state == INITIATED and entry.pool == job.pool
    ]
    for other in waiting:
        if other.type not in (CompactionType.MINOR, CompactionType.MAJOR):
            return f"{str(other)[:1].upper()}{str(other)[1:]}."
    for other_ref in dict.fromkeys(entry.table for entry in waiting):
        table = compactable(client, other_ref)
        sizes = _sizes(client, table, None, job)
        requests = [
            _Request(entry.partition, CompactionType(entry.type), sizes.get(entry.partition, 0))
            for entry in waiting
            if entry.table == other_ref
        ]
        reason = _why_requests_need_spark(client, table, requests, job)
        if reason is not None:
            return reason
    return None


def _requests(client: MetastoreClient, table: HiveTable, job: CompactJob) -> list[_Request]:
    if job.type is None:
        survey = Survey(client, job.policy).survey([table.ref], job.partitions)
        return [
            _Request(each.size.partition, each.type, each.bytes)
            for each in rank(survey, job.budget)
            if each.type is not None
        ]
    type_ = CompactionType(job.type)
    sizes = _sizes(client, table, job.partitions, job)
    return [_Request(name, type_, size) for name, size in sizes.items()]


def _sizes(
    client: MetastoreClient, table: HiveTable, partitions: Sequence[str] | None, job: CompactJob
) -> dict[str | None, int]:
    survey = Survey(client, job.policy).survey([table.ref], partitions)
    return {each.size.partition: each.size.base_bytes + each.size.delta_bytes for each in survey}


def _why_requests_need_spark(
    client: MetastoreClient, table: HiveTable, requests: Sequence[_Request], job: CompactJob
) -> str | None:
    partitions = _partitions(client, table, requests)
    for request in requests:
        reason = reason_for_spark(table, partitions.get(request.partition), request.type)
        if reason is not None:
            return reason
    if job.run_in == "worker":
        return None
    size, limits = sum(request.bytes for request in requests), job.worker
    if size > limits.max_copied_bytes + limits.max_encoded_bytes:
        return Forecast(copied_bytes=size).excess(limits)
    if size <= min(limits.max_encoded_bytes, limits.max_copied_bytes):
        try:
            most = sum(_forecasts(client, table, requests, most_work), Forecast())
        except (DataError, StorageError):
            return None  # The compaction reports it.
        if most.excess(limits) is None:
            return None
    return sum(_forecasts(client, table, requests), Forecast()).excess(limits)


def _forecasts(
    client: MetastoreClient,
    table: HiveTable,
    requests: Sequence[_Request],
    predicted: Callable[..., Forecast] = forecast,
) -> list[Forecast]:
    if not requests:
        return []
    snapshot = Snapshot.take(client, [table.ref])
    partitions = _partitions(client, table, requests)

    def predict(request: _Request) -> Forecast:
        partition = partitions.get(request.partition)
        return predicted(client.version, table, partition, request.type, snapshot)

    return in_threads(predict, requests)


def _partitions(
    client: MetastoreClient, table: HiveTable, requests: Sequence[_Request]
) -> dict[str | None, HivePartition]:
    names = [request.partition for request in requests if request.partition is not None]
    if not names:
        return {}
    return {partition.name: partition for partition in client.get_partitions(table, names)}
