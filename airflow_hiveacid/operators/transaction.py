"""HiveAcidTransactionOperator: changes of several tables as one Airflow task."""

from airflow_hiveacid.operators.spark import HiveAcidSparkOperator
from hiveacid.jobs.transaction_job import TransactionJob


class HiveAcidTransactionOperator(HiveAcidSparkOperator[TransactionJob]):
    """Changes several tables in one transaction: all of it becomes visible, or nothing.

    All statements read their sources as of one moment, and do not see each other's writes.

    Example::

        HiveAcidTransactionOperator(
            task_id="load_sales",
            job=TransactionJob(
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

    job_type = TransactionJob
