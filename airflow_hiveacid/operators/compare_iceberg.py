"""HiveAcidCompareIcebergOperator: an IcebergCompareJob as an Airflow task."""

from typing import TYPE_CHECKING, Any

from airflow_hiveacid.operators.worker import HiveAcidWorkerOperator
from hiveacid.jobs.iceberg_job import IcebergCompareJob
from hiveacid.progress import PhaseClock

if TYPE_CHECKING:
    from airflow.sdk import Context


class HiveAcidCompareIcebergOperator(HiveAcidWorkerOperator[IcebergCompareJob]):
    """Compares a transactional table with its Iceberg table, and fails if their rows differ.

    It reads both tables in the worker, without Spark and Java, and needs the package's extra
    ``iceberg``. The tables do not change, so that the task emits no asset events.

    Example::

        HiveAcidCompareIcebergOperator(
            task_id="compare",
            job=IcebergCompareJob(target="sales.orders", table="lake.orders"),
        )

    :param job: The comparison. Every text in it is a template. (templated)
    :param metastore_conn_id: The metastore of the Hive table, unless the job names one itself.
    :param deferrable: True is refused, because the operator has nothing to wait for.
    """

    job_type = IcebergCompareJob

    def _run(self, job: IcebergCompareJob, context: "Context") -> dict[str, Any]:
        # Thrift and Arrow are heavy, and this module is imported while DAGs are parsed.
        from hiveacid.iceberg.run import compare_with_iceberg
        from hiveacid.metastore.client import MetastoreClient

        with MetastoreClient(job.connection) as client:
            report = compare_with_iceberg(client, job, phases=PhaseClock(self._observers()))
        for warning in report.warnings:
            self.log.warning("%s", warning)
        report.require_equal()
        return report.to_dict()

    def _publish(self, job: IcebergCompareJob, report: dict[str, Any], context: "Context") -> None:
        self._report = report
