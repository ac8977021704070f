"""The choice of the processes that run a compaction: those of the worker, or executors of Spark."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from hiveacid.dataclass import dataclass
from hiveacid.errors import (
    DataError,
    NothingToCompact,
    OutOfOrder,
    SparkNeeded,
    StorageError,
    UnsupportedFile,
)
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.report import CompactReport, PartitionReport, RunReport
from hiveacid.metastore.catalog import HivePartition, HiveTable, StorageFormat
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import INITIATED, CompactionQueue
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.orc.format.layout import Layout
from hiveacid.rules.compaction import CompactionType, Forecast
from hiveacid.rules.compaction_decision import Decision
from hiveacid.rules.compaction_rank import rank
from hiveacid.rules.features import Features
from hiveacid.rules.names import Delta, TableRef, may_delete
from hiveacid.rules.write_ids import CompactorWriteIdList, Range
from hiveacid.storage.file_columns import orc_row_types
from hiveacid.storage.filesystems import in_threads
from hiveacid.storage.listing import DataFile, read_tail
from hiveacid.upkeep.compaction.insert_only import format_of
from hiveacid.upkeep.compaction.partition import PlannedCompaction, Planner
from hiveacid.upkeep.compaction.table import joint_report
from hiveacid.upkeep.compaction.tasks import BucketInputs, InputFile, stated_codec, stripes_of
from hiveacid.upkeep.survey import Survey, compactable, compaction_of

# Forecast of the work of a compaction, read from the footers and row ids of its input files


# The operation, the original and the current write id, the bucket, and the row.
_ROW_ID_COLUMNS = 5


def reason_for_spark(
    table: HiveTable, partition: HivePartition | None, type_: CompactionType
) -> str | None:
    """Return why any compaction of this type requires Spark, without a look at its files."""
    name = table.ref.full_name if partition is None else f"{table.ref}/{partition.name}"
    if type_ is CompactionType.REBALANCE:
        return f"The rows of {name} must be sorted."
    form = format_of(table, partition)
    if form is not StorageFormat.ORC:
        return f"The rows of {name} are stored as {form.value}."
    return None


def forecast(
    features: Features,
    table: HiveTable,
    partition: HivePartition | None,
    type_: CompactionType,
    snapshot: Snapshot,
) -> Forecast:
    """Predict the work of the compaction of a partition, without writing.

    Args:
        features: The features of the metastore.
        table: The table.
        partition: The partition; None for a table without partitions.
        type_: The type of the compaction.
        snapshot: A snapshot of the table.
    """
    reason = reason_for_spark(table, partition, type_)
    if reason is not None:
        return Forecast(spark_reason=reason)
    planner = _planner(features, table, partition, snapshot)
    try:
        compaction = planner.plan(type_)
    except NothingToCompact:
        return Forecast()
    return _flat(planner, compaction) if planner.is_flat else _acid(planner, compaction)


def most_work(
    features: Features,
    table: HiveTable,
    partition: HivePartition | None,
    type_: CompactionType,
    snapshot: Snapshot,
) -> Forecast:
    """Return a bound of the work of a compaction, from the footers of its files alone.

    Args:
        features: The features of the metastore.
        table: The table.
        partition: The partition; None for a table without partitions.
        type_: The type of the compaction.
        snapshot: A snapshot of the table.
    """
    planner = _planner(features, table, partition, snapshot)
    try:
        compaction = planner.plan(type_)
    except NothingToCompact:
        return Forecast()
    if planner.is_flat:
        return Forecast(copied_bytes=sum(file.size for file in planner.flat_files(compaction)))
    files = planner.acid_files(compaction)
    tails = in_threads(lambda file: read_tail(planner.storage, file.path, file.size), files)
    deletes = [tail.rows for file, tail in zip(files, tails, strict=True) if _holds_deletes(file)]
    rows = sum(tail.rows for tail in tails) - sum(deletes)
    return Forecast(
        encoded_bytes=sum(file.size for file in files),
        delete_events=sum(deletes),
        encoded_rows=rows,
        encoded_values=rows * _values_of_a_row(planner),
    )


def _planner(
    features: Features,
    table: HiveTable,
    partition: HivePartition | None,
    snapshot: Snapshot,
) -> Planner:
    write_ids = CompactorWriteIdList.of(snapshot.write_ids[table.ref.full_name])
    # A forecast may miss hidden files, which the compaction puts back.
    return Planner(table, partition, features, write_ids, snapshot.txns, None)


def _values_of_a_row(planner: Planner) -> int:
    """Count the columns of a row, also nested ones, and those of its row id."""
    return len(orc_row_types(planner.table)) + _ROW_ID_COLUMNS


def _flat(planner: Planner, compaction: PlannedCompaction) -> Forecast:
    """Predict the work on an insert-only partition: all stripes are copied, or Spark is needed."""
    files = planner.flat_files(compaction)
    reason = None
    try:
        tails = in_threads(lambda file: read_tail(planner.storage, file.path), files)
        for tail in tails:
            tail.check_movable()
            layout = Layout.joint([("", tails[0]), ("", tail)], like=tails[0])
            if different := layout.differences(tail):
                reason = f"Its files differ in {', '.join(different)}."
    except UnsupportedFile as error:
        reason = error.what
    return Forecast(copied_bytes=sum(file.size for file in files), spark_reason=reason)


def _acid(planner: Planner, compaction: PlannedCompaction) -> Forecast:
    files = planner.acid_files(compaction)
    deletes = [file for file in files if _holds_deletes(file)]
    rows = [file for file in files if not _holds_deletes(file)]
    tails = in_threads(lambda file: read_tail(planner.storage, file.path, file.size), deletes)
    total = Forecast(
        # Files without row ids are copied twice: with row ids, and into their bucket.
        copied_bytes=sum(file.size for file in files if file.raw or file in deletes),
        delete_events=sum(tail.rows for tail in tails),
    )
    applied_deletes = deletes if compaction.plan.type is CompactionType.MAJOR else []
    inputs = partial(
        BucketInputs,
        planner.storage.location,
        aborted=planner.write_ids.aborted,
        types=orc_row_types(planner.table),
        columns=planner.table.mapped_columns,
        codec=stated_codec(planner.table, planner.features),
    )
    values = _values_of_a_row(planner)
    for bucket in sorted({file.bucket for file in rows if file.bucket is not None}):
        of_bucket = [file for file in rows if file.bucket == bucket]
        if any(file.raw for file in of_bucket):
            # Their row ids do not exist yet. A delete may hit any stripe.
            size = sum(file.size for file in of_bucket)
            if applied_deletes:
                count = sum(in_threads(partial(_rows_of, planner), of_bucket))
                total += Forecast(
                    encoded_bytes=size, encoded_rows=count, encoded_values=count * values
                )
            else:
                total += Forecast(copied_bytes=size)
            continue
        hitting = sorted(
            (
                file
                for file in applied_deletes
                if may_delete(file.bucket, bucket, clustered=planner.clustered)
            ),
            key=lambda file: file.bucket or 0,
        )
        total += _bucket(
            inputs(bucket, inserts=_inputs(planner, of_bucket), deletes=_inputs(planner, hitting)),
            values,
        )
    return total


def _rows_of(planner: Planner, file: DataFile) -> int:
    return read_tail(planner.storage, file.path, file.size).rows


def _bucket(inputs: BucketInputs, values: int) -> Forecast:
    try:
        groups = stripes_of(inputs).groups
    except OutOfOrder as error:
        return Forecast(spark_reason=f"Bucket {inputs.bucket} must be sorted: {error.what}")
    encoded_groups = [group for group in groups if not group.copy]
    rows = sum(group.rows for group in encoded_groups)
    return Forecast(
        copied_bytes=sum(group.bytes for group in groups if group.copy),
        encoded_bytes=sum(group.bytes for group in encoded_groups),
        encoded_rows=rows,
        encoded_values=rows * values,
    )


def _inputs(planner: Planner, files: Sequence[DataFile]) -> tuple[InputFile, ...]:
    return tuple(
        InputFile(
            file.path,
            file.size,
            file.directory,
            planner.aborted(file.directory) is Range.NONE,
            file.cut_off,
        )
        for file in files
        if file.directory is not None
    )


def _holds_deletes(file: DataFile) -> bool:
    return isinstance(file.directory, Delta) and file.directory.is_delete


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
    remainder = rest_for_spark(job, report)
    if remainder is None:
        return report
    return joined(report, on_spark(*remainder))


def rest_for_spark(job: CompactJob, report: CompactReport) -> tuple[CompactJob, str] | None:
    """Return a job for the partitions that need Spark, as became clear in the worker, and the reason.

    Args:
        job: The job that ran in the worker.
        report: Its report.

    Returns:
        None without such partitions, or if the job must not run on Spark. Of a queue, the requests
        for them were refused.
    """
    partitions = [partition for partition in report.partitions if needs_spark(partition)]
    if not partitions or job.run_in != "auto" or job.mode == "serve":
        return None
    names = sorted(
        partition.partition for partition in partitions if partition.partition is not None
    )
    return replace(job, run_in="spark", partitions=names or None), partitions[0].reason


def joined(in_worker: CompactReport, on_spark: CompactReport) -> CompactReport:
    """Combine the reports of a compaction that began in the worker and ended on Spark.

    Args:
        in_worker: The report of the worker.
        on_spark: The report of the partitions that need Spark, or of all partitions again.
    """
    compacted = {
        partition.partition
        for partition in in_worker.partitions
        if partition.outcome == "compacted"
    }
    spark_partitions = [
        partition
        for partition in on_spark.partitions
        if partition.outcome != "skipped" or partition.partition not in compacted
    ]
    replaced_names = {partition.partition for partition in spark_partitions} - compacted
    earlier = [
        partition
        for partition in in_worker.partitions
        if partition.partition not in replaced_names and not needs_spark(partition)
    ]
    return joint_report(TableRef.parse(in_worker.target), [*earlier, *spark_partitions])


def needs_spark(report: PartitionReport | RunReport) -> bool:
    """Whether a partition or a statement needs Spark, as became clear in the worker."""
    return report.error is not None and report.error.id == SparkNeeded.__name__


def forecasts_of(
    client: MetastoreClient, table: HiveTable, decisions: Sequence[Decision]
) -> list[Forecast | None]:
    """Predict the work of the compactions that were decided for; None for the others."""
    requests = [
        _Request(decision.size.partition, decision.type, decision.bytes)
        for decision in decisions
        if decision.type
    ]
    forecasts = iter(_forecasts(client, table, requests))
    return [None if decision.type is None else next(forecasts) for decision in decisions]


def _why_spark(client: MetastoreClient, ref: TableRef, job: CompactJob) -> str | None:
    try:
        if job.mode == "serve":
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
    for request in waiting:
        if request.type not in (CompactionType.MINOR, CompactionType.MAJOR):
            return f"{str(request)[:1].upper()}{str(request)[1:]}."
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
            _Request(decision.size.partition, decision.type, decision.bytes)
            for decision in rank(survey, job.budget)
            if decision.type is not None
        ]
    type_ = CompactionType(job.type)
    sizes = _sizes(client, table, job.partitions, job)
    return [_Request(name, type_, size) for name, size in sizes.items()]


def _sizes(
    client: MetastoreClient, table: HiveTable, partitions: Sequence[str] | None, job: CompactJob
) -> dict[str | None, int]:
    survey = Survey(client, job.policy).survey([table.ref], partitions)
    return {
        decision.size.partition: decision.size.base_bytes + decision.size.delta_bytes
        for decision in survey
    }


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
            total = sum(_forecasts(client, table, requests, most_work), Forecast())
        except (DataError, StorageError):
            return None  # The compaction reports it.
        if total.excess(limits) is None:
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
        return predicted(client.features, table, partition, request.type, snapshot)

    return in_threads(predict, requests)


def _partitions(
    client: MetastoreClient, table: HiveTable, requests: Sequence[_Request]
) -> dict[str | None, HivePartition]:
    names = [request.partition for request in requests if request.partition is not None]
    if not names:
        return {}
    return {partition.name: partition for partition in client.get_partitions(table, names)}
