"""HiveAcidToIcebergOperator: an IcebergExportJob as an Airflow task."""

from typing import TYPE_CHECKING, Any

from airflow_hiveacid.operators.worker import HiveAcidWorkerOperator
from hiveacid.jobs.iceberg_job import IcebergCompareJob, IcebergExportJob
from hiveacid.progress import PhaseClock

if TYPE_CHECKING:
    from airflow.sdk import Context

    from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler


class HiveAcidToIcebergOperator(HiveAcidWorkerOperator[IcebergExportJob]):
    """Mirrors a transactional ORC table in an Iceberg table by copying its stripes.

    The first run creates the Iceberg table, and each further run adds the changes since then as one
    snapshot. It runs in the worker, without Spark and Java, and needs the package's extra ``iceberg``.
    A retry finds the snapshot that an earlier attempt has created. The Hive table does not change, so
    that the task emits no asset events.

    Example::

        HiveAcidToIcebergOperator(
            task_id="to_iceberg",
            job=IcebergExportJob(target="sales.orders", table="lake.orders"),
        )

    :param job: The export job. Every text in it is a template. (templated)
    :param metastore_conn_id: The metastore of the Hive table, unless the job names one itself.
    :param deferrable: True is refused, because the operator has nothing to wait for.
    """

    job_type = IcebergExportJob

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._scheduler: WorkerScheduler | None = None

    def _end_work(self) -> None:
        if self._scheduler is not None:
            self._scheduler.stop()
        super()._end_work()

    def _run(self, job: IcebergExportJob, context: "Context") -> dict[str, Any]:
        # Thrift and Arrow are heavy, and this module is imported while DAGs are parsed.
        from hiveacid.iceberg.run import export_to_iceberg
        from hiveacid.metastore.client import MetastoreClient
        from hiveacid.orc.format.process_memory import use_one_heap
        from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler

        use_one_heap()
        with (
            MetastoreClient(job.connection).patient() as client,
            WorkerScheduler() as self._scheduler,
        ):
            phases = PhaseClock(self._observers())
            report = export_to_iceberg(client, job, self._scheduler, phases=phases)
        for warning in report.warnings:
            self.log.warning("%s", warning)
        return report.to_dict()

    def _publish(self, job: IcebergExportJob, report: dict[str, Any], context: "Context") -> None:
        self._report = report


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

        with MetastoreClient(job.connection).patient() as client:
            report = compare_with_iceberg(client, job, phases=PhaseClock(self._observers()))
        for warning in report.warnings:
            self.log.warning("%s", warning)
        report.require_equal()
        return report.to_dict()

    def _publish(self, job: IcebergCompareJob, report: dict[str, Any], context: "Context") -> None:
        self._report = report
