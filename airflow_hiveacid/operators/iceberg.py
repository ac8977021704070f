"""Copies of tables in Iceberg as Airflow tasks."""

from airflow_hiveacid.operators.job import HiveAcidWorkerOperator
from hiveacid.jobs.iceberg_job import IcebergCompareJob, IcebergExportJob


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
    asset_events = False


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
    asset_events = False
