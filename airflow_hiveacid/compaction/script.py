"""Scripts of definitions and small compactions, which run in the worker, without Spark."""

from collections.abc import Sequence

from airflow_hiveacid.compaction.placement import partitions_for_spark, why_spark
from airflow_hiveacid.compaction.scheduling import Scheduler
from airflow_hiveacid.compaction.table import TableCompactor
from airflow_hiveacid.ddl.run import run_ddl
from airflow_hiveacid.ddl.script_progress import run_script
from airflow_hiveacid.errors import SparkNeeded, TableNotFound
from airflow_hiveacid.jobs.definitions.ddl_jobs import CatalogJob
from airflow_hiveacid.jobs.job import ScriptedJob
from airflow_hiveacid.jobs.maintenance_jobs import CompactJob
from airflow_hiveacid.jobs.reports.report import CompactReport, RunReport
from airflow_hiveacid.jobs.reports.script_report import ScriptReport
from airflow_hiveacid.jobs.script_job import ScriptJob
from airflow_hiveacid.maintenance.idle_compaction import idle_report
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.progress import PhaseObserver


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

    Raises:
        SparkNeeded: A compaction requires Spark, as became clear during its work. The completed
            statements are not repeated if the script then runs on Spark.
    """

    def run_one(job: ScriptedJob, _: int) -> RunReport | CompactReport:
        if isinstance(job, CatalogJob):
            return run_ddl(client, job)
        assert isinstance(job, CompactJob)
        report = idle_report(client, job) or TableCompactor(scheduler, client, job, observers).run()
        left = partitions_for_spark(report)
        reasons = (each.reason for each in report.partitions if each.partition in left)
        if (reason := next(reasons, None)) is not None:
            raise SparkNeeded(reason)
        return report

    # Only Spark can determine the writes of a transaction.
    return run_script(client, script, run_one, lambda _: True, observers)
