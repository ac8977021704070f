"""Finding out that a compaction has nothing to do, before anything is started for it."""

from hiveacid.errors import DataError, StorageError
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.report import CompactReport, PartitionReport
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import CompactionQueue
from hiveacid.metastore.txn.owner import abort_open_transactions
from hiveacid.rules.compaction import CompactionType, reason_to_skip
from hiveacid.rules.compaction_decision import Decision
from hiveacid.rules.compaction_rank import rank
from hiveacid.rules.names import TableRef
from hiveacid.upkeep.survey import Survey, compaction_of


def idle_report(client: MetastoreClient, job: CompactJob) -> CompactReport | None:
    """Return the report of a compaction without work.

    Transactions that earlier attempts of the run left open are aborted.

    Args:
        client: The metastore.
        job: The compaction job.

    Returns:
        None if the compaction may have work, or an error may occur.
    """
    ref = TableRef.parse(job.target)
    if job.mode != "auto" and not client.version.has_queue:
        return None
    if job.tokens:
        # No other process would: the heartbeats of a killed process end, but its locks remain.
        abort_open_transactions(client, *job.tokens)
    if job.mode == "worker":
        waiting = CompactionQueue(client).waiting(job.pool, ref)
        return CompactReport(target=ref.full_name) if waiting is None else None
    _, job = compaction_of(client, job)
    try:
        survey = Survey(client, job.policy).survey([ref], job.partitions)
    except (DataError, StorageError):
        return None  # Spark may have credentials that this process lacks, or report it better.
    decisions = rank(survey, job.budget)
    if job.partitions:
        found = {decision.size.partition for decision in decisions}
        if not found.issuperset(job.partitions):
            return None
    reasons = [_reason(job, decision) for decision in decisions]
    if any(reason is None for reason in reasons):
        return None
    return CompactReport(
        target=ref.full_name,
        partitions=tuple(
            PartitionReport(
                table=ref.full_name,
                partition=decision.size.partition,
                outcome="skipped",
                reason=reason or "",
            )
            for decision, reason in zip(decisions, reasons, strict=True)
        ),
    )


def _reason(job: CompactJob, decision: Decision) -> str | None:
    """Return the reason to skip a partition; None if it may need work."""
    size = decision.size
    if size.problem is not None:
        return None
    if job.type is None:
        return decision.reason if decision.type is None else None
    nothing = reason_to_skip(
        CompactionType(job.type), size.base, size.deltas, size.has_originals, size.misread
    )
    return None if nothing is None else nothing.what
