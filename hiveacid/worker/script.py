"""Scripts of definitions, small changes, and small compactions in the worker, without Spark."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hiveacid.errors import SparkNeeded, TableNotFound
from hiveacid.jobs.definition_jobs import CatalogJob
from hiveacid.jobs.job import ScriptedJob
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.report import CompactReport, ErrorReport, RunReport, ScriptReport
from hiveacid.jobs.script_job import ScriptJob
from hiveacid.jobs.write_jobs import RowJob, TransactionJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.progress import PhaseObserver
from hiveacid.tables.script import run_script
from hiveacid.worker.run import change_rows, may_change_rows

# A change of rows needs neither definitions nor compactions, which take longer to import than to run.
if TYPE_CHECKING:
    from hiveacid.upkeep.compaction.scheduling import Scheduler


def why_script_needs_spark(client: MetastoreClient, script: ScriptJob) -> str | None:
    """Return why a script runs on Spark; None if it runs in the worker.

    Args:
        client: The metastore.
        script: The script.
    """
    for job in script.runs():
        if isinstance(job, CatalogJob):
            continue
        if may_change_rows(job):
            return None  # It reports whether it needs Spark, and so does each statement behind it.
        if not isinstance(job, CompactJob):
            return f"The statement {job.tag} works on rows."
        from hiveacid.upkeep.compaction.placement import why_spark

        try:
            reason = why_spark(client, job)
        except TableNotFound:
            reason = f"{job.target} does not exist yet."
        if reason is not None:
            return reason
    return None


def run_script_in_worker(
    client: MetastoreClient,
    script: ScriptJob,
    scheduler: "Scheduler",
    observers: Sequence[PhaseObserver] = (),
) -> ScriptReport:
    """Run a script, up to a statement that requires Spark.

    Args:
        client: The metastore.
        script: The script.
        scheduler: Runs the tasks of the compactions.
        observers: Observers of every compaction, and of every change of rows.

    Returns:
        The report. It ends with a statement that requires Spark if that became clear during its
        work: see ``rest_of_script``.
    """

    def run_one(job: ScriptedJob, _: int) -> RunReport | CompactReport:
        if isinstance(job, CatalogJob):
            from hiveacid.tables.definitions.run import run_ddl

            return run_ddl(client, job)
        if isinstance(job, CompactJob):
            from hiveacid.upkeep.compaction.table import TableCompactor, idle_report

            idle = idle_report(client, job)
            return idle or TableCompactor(scheduler, client, job, observers).run()
        try:
            if not isinstance(job, RowJob | TransactionJob):
                raise SparkNeeded(f"The statement {job.tag} works on rows.")
            return change_rows(client, job, observers)
        except SparkNeeded as error:
            if getattr(job, "run_in", "spark") == "worker":
                raise
            return RunReport(job=job.tag, target=job.target, error=ErrorReport.of(error))

    return run_script(client, script, run_one, observers)


def rest_of_script(script: ScriptJob, in_worker: ScriptReport) -> tuple[ScriptJob, str] | None:
    """Return the script to run on Spark after the worker, and the reason.

    Args:
        script: The script that ran in the worker.
        in_worker: Its report.

    Returns:
        None if no statement needs Spark.
    """
    report = in_worker.statements[-1].report if in_worker.statements else None
    parts = report.partitions if isinstance(report, CompactReport) else filter(None, [report])
    failed = [part for part in parts if part.error is not None]
    if not failed:
        return None
    from hiveacid.upkeep.compaction.placement import needs_spark

    reasons = [part.error.message for part in failed if needs_spark(part) and part.error]
    if not reasons:
        return None
    # The others remain, as they count for the run tokens of equal statements.
    return replace(script, first=script.first + len(in_worker.statements) - 1), reasons[0]


def joined_script(in_worker: ScriptReport, on_spark: ScriptReport) -> ScriptReport:
    """Combine the reports of a script that began in the worker and ended on Spark.

    Args:
        in_worker: The report of the worker, which ends with a statement that requires Spark.
        on_spark: The report of the rest of the script.
    """
    *completed, last_report = (statement.report for statement in in_worker.statements)
    reports = [statement.report for statement in on_spark.statements]
    if isinstance(last_report, CompactReport):
        if reports and isinstance(reports[0], CompactReport):
            from hiveacid.upkeep.compaction.placement import joined

            reports[0] = joined(last_report, reports[0])
        else:
            reports.insert(0, last_report)
    return ScriptReport.of(in_worker.target, [*completed, *reports], on_spark.error)
