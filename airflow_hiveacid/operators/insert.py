"""HiveAcidInsertOperator: an InsertJob as an Airflow task."""

from airflow_hiveacid.operators.spark import HiveAcidSparkOperator
from hiveacid.jobs.write_jobs import InsertJob


class HiveAcidInsertOperator(HiveAcidSparkOperator[InsertJob]):
    """Appends rows to an ACID table, or overwrites the table or partitions of it.

    Example::

        HiveAcidInsertOperator(
            task_id="load_orders",
            job=InsertJob(
                target="sales.orders",
                source=PathSource(path="/landing/orders", format="parquet"),
            ),
        )
    """

    job_type = InsertJob
