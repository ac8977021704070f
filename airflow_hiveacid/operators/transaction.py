"""HiveAcidTransactionOperator: changes of several tables as one Airflow task."""

from airflow_hiveacid.jobs.multi_table_job import MultiTableJob
from airflow_hiveacid.operators.spark import HiveAcidSparkOperator


class HiveAcidTransactionOperator(HiveAcidSparkOperator[MultiTableJob]):
    """Changes several tables in one transaction: all of it becomes visible, or nothing.

    All statements read their sources as of one moment, and none sees what another one writes.

    Example::

        HiveAcidTransactionOperator(
            task_id="load_sales",
            job=MultiTableJob(
                statements=(
                    MergeJob(
                        target="dw.customers",
                        source=TableSource("stage.customers"),
                        on="t.id = s.id",
                        when=(MatchedUpdate(), NotMatchedInsert()),
                    ),
                    InsertJob(target="dw.sales", source=TableSource("stage.sales")),
                ),
            ),
        )
    """

    job_type = MultiTableJob
