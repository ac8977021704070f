"""HiveAcidAnalyzeOperator: an AnalyzeJob as an Airflow task."""

from typing import TYPE_CHECKING, Any

from airflow_hiveacid.operators.worker import HiveAcidWorkerOperator
from hiveacid.jobs.analyze_job import AnalyzeJob

if TYPE_CHECKING:
    from airflow.sdk import Context


class HiveAcidAnalyzeOperator(HiveAcidWorkerOperator[AnalyzeJob]):
    """Stores statistics of a transactional table, for the planners of Hive and Trino.

    It runs in the worker, without Spark: it needs the metastore, and access to the files. The data do
    not change, so that it emits no asset events.

    Example::

        HiveAcidAnalyzeOperator(task_id="analyze", job=AnalyzeJob(target="sales.orders"))

    :param job: The analysis job. Every text in it is a template. (templated)
    :param metastore_conn_id: The metastore, unless the job names one itself.
    :param deferrable: True is refused, because the operator has nothing to wait for.
    """

    job_type = AnalyzeJob

    def _run(self, job: AnalyzeJob, context: "Context") -> dict[str, Any]:
        # Thrift and Arrow are heavy, and this module is imported while DAGs are parsed.
        from hiveacid.metastore.client import MetastoreClient
        from hiveacid.tables.statistics.analyze import analyze

        with MetastoreClient(job.connection) as client:
            report = analyze(client, job, phases=self._phases())
        for warning in report.as_run().warnings:
            self.log.warning("%s", warning)
        return report.to_dict()

    def _publish(self, job: AnalyzeJob, report: dict[str, Any], context: "Context") -> None:
        self._report = report
