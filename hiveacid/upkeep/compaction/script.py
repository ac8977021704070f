"""Scripts of definitions and small compactions, which run in the worker, without Spark."""

from collections.abc import Sequence
from dataclasses import replace

from hiveacid.errors import TableNotFound
from hiveacid.jobs.definition_jobs import CatalogJob
from hiveacid.jobs.job import ScriptedJob
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.report import CompactReport, RunReport, ScriptReport
from hiveacid.jobs.script_job import ScriptJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.progress import PhaseObserver
from hiveacid.tables.definitions.run import run_ddl, run_script
from hiveacid.upkeep.compaction.placement import joined, needs_spark, why_spark
from hiveacid.upkeep.compaction.scheduling import Scheduler
from hiveacid.upkeep.compaction.table import TableCompactor, idle_report


def why_script_needs_spark(client: MetastoreClient, script: ScriptJob) -> str | None:
    """Return why a script runs on Spark; None if it runs in the worker.

    Args:
        client: The metastore.
        script: The script.
    """
    for job in script.runs():
        if isinstance(job, CatalogJob):
            continue
        if not isinstance(job, CompactJob):
            return f"The statement {job.tag} works on rows."
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
    scheduler: Scheduler,
    observers: Sequence[PhaseObserver] = (),
) -> ScriptReport:
    """Run a script whose statements change definitions or compact tables.

    Args:
        client: The metastore.
        script: The script.
        scheduler: Runs the tasks of the compactions.
        observers: Observers of every compaction.

    Returns:
        The report. It ends with a compaction that requires Spark if that became clear during its
        work: see ``rest_of_script``.
    """

    def run_one(job: ScriptedJob, _: int) -> RunReport | CompactReport:
        if isinstance(job, CatalogJob):
            return run_ddl(client, job)
        assert isinstance(job, CompactJob)
        return idle_report(client, job) or TableCompactor(scheduler, client, job, observers).run()

    return run_script(client, script, run_one, observers)


def rest_of_script(script: ScriptJob, in_worker: ScriptReport) -> tuple[ScriptJob, str] | None:
    """Return the script to run on Spark after the worker, and the reason.

    Args:
        script: The script that ran in the worker.
        in_worker: Its report.

    Returns:
        None if no compaction needs Spark.
    """
    begun = in_worker.statements[-1].compaction if in_worker.statements else None
    left = [] if begun is None else [each for each in begun.partitions if needs_spark(each)]
    if not left:
        return None
    rest = script.statements[len(in_worker.statements) - 1 :]
    return replace(script, statements=rest), left[0].reason


def joined_script(in_worker: ScriptReport, on_spark: ScriptReport) -> ScriptReport:
    """Combine the reports of a script that began in the worker and ended on Spark.

    Args:
        in_worker: The report of the worker, which ends with a compaction that requires Spark.
        on_spark: The report of the rest of the script.
    """
    *completed, begun = (statement.report for statement in in_worker.statements)
    later = [statement.report for statement in on_spark.statements]
    if later and isinstance(begun, CompactReport) and isinstance(later[0], CompactReport):
        begun, *later = joined(begun, later[0]), *later[1:]
    return ScriptReport.of(in_worker.target, [*completed, begun, *later], on_spark.error)
