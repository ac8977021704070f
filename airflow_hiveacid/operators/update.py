"""HiveAcidUpdateOperator: an UpdateJob as an Airflow task."""

from airflow_hiveacid.operators.spark import HiveAcidSparkOperator
from hiveacid.jobs.write_jobs import UpdateJob


class HiveAcidUpdateOperator(HiveAcidSparkOperator[UpdateJob]):
    """Updates the rows of a full-ACID table that meet a condition.

    Example::

        HiveAcidUpdateOperator(
            task_id="close_orders",
            job=UpdateJob(
                target="sales.orders",
                set={"status": "'closed'"},
                where="delivered_at < date '2026-01-01'",
            ),
        )
    """

    job_type = UpdateJob
