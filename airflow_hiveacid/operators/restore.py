"""HiveAcidRestoreOperator: a RestoreJob as an Airflow task."""

from airflow_hiveacid.operators.spark import HiveAcidSparkOperator
from hiveacid.jobs.write_jobs import RestoreJob


class HiveAcidRestoreOperator(HiveAcidSparkOperator[RestoreJob]):
    """Writes a new version of a table that is equal to an earlier one.

    Only the rows that differ are deleted and inserted; no version is lost.

    Example::

        HiveAcidRestoreOperator(
            task_id="undo_today",
            job=RestoreJob(target="sales.orders", as_of="{{ data_interval_start }}"),
        )
    """

    job_type = RestoreJob
