"""HiveAcidDeleteOperator: a DeleteJob as an Airflow task."""

from airflow_hiveacid.operators.spark import HiveAcidSparkOperator
from hiveacid.jobs.write_jobs import DeleteJob


class HiveAcidDeleteOperator(HiveAcidSparkOperator[DeleteJob]):
    """Deletes the rows of a full-ACID table that meet a condition.

    Example::

        HiveAcidDeleteOperator(
            task_id="forget_customer",
            job=DeleteJob(
                target="sales.orders",
                where="customer_id = :id",
                params={"id": "{{ params.customer_id }}"},
            ),
        )
    """

    job_type = DeleteJob
