"""HiveAcidMergeOperator: a MergeJob as an Airflow task."""

from airflow_hiveacid.operators.spark import HiveAcidSparkOperator
from hiveacid.jobs.write_jobs import MergeJob


class HiveAcidMergeOperator(HiveAcidSparkOperator[MergeJob]):
    """Merges a source into a full-ACID table by ordered clauses.

    Example::

        HiveAcidMergeOperator(
            task_id="merge_orders",
            job=MergeJob(
                target="sales.orders",
                source=PathSource(path="/feeds/orders/{{ ds }}", format="json"),
                on="t.id = s.id",
                when=(
                    MatchedDelete(condition="s.op = 'delete'"),
                    MatchedUpdate(),
                    NotMatchedInsert(condition="s.op <> 'delete'"),
                ),
            ),
        )
    """

    job_type = MergeJob
