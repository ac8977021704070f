"""Every hour: maintain all tables of a database in one task; large compactions run on Spark.

Needs two connections: `hive_acid_default` (the metastore) and, if a compaction is too large for the
worker, `spark_default`. One task surveys all tables, compacts the small ones without Spark and Java, and
removes files that no reader needs. With 500 small tables it replaces a thousand tasks of
`automatic_compaction`.

The log contains the reason for all skipped work. A failed table fails the task at its end, after the
others.
"""

from datetime import datetime, timedelta
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param, task

from airflow_hiveacid import HiveAcidCompactOperator, HiveAcidMaintainOperator
from hiveacid.jobs import CompactJob

with DAG(
    dag_id="warehouse_maintenance",
    schedule="@hourly",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=5)},
    # The limits are numbers, not texts.
    render_template_as_native_obj=True,
    params={
        "tables": Param("default.*", type="string", description="A table, or a pattern of names"),
        "max_deltas": Param(10, type="integer", description="Minor compaction above this"),
        "max_delta_ratio": Param(0.1, type="number", description="Major compaction above this"),
        "max_partitions": Param(
            1000, type="integer", description="Maximum number of partitions in one run"
        ),
    },
    doc_md=__doc__,
    tags=["hive-acid", "example"],
):
    maintain = HiveAcidMaintainOperator(
        task_id="maintain",
        tables="{{ params.tables }}",
        policy={
            "max_deltas": "{{ params.max_deltas }}",
            "max_delta_ratio": "{{ params.max_delta_ratio }}",
        },
        budget={"max_partitions": "{{ params.max_partitions }}"},
    )

    # A failed table has no influence on the large compactions of the others.
    @task(trigger_rule="all_done")
    def on_spark(report: dict[str, Any]) -> list[list[dict[str, Any]]]:
        """Return the compactions that the worker leaves for Spark."""
        return list(report["on_spark"])

    # Without this last task, the run would succeed although a table failed.
    maintain >> EmptyOperator(task_id="maintained")
    HiveAcidCompactOperator.partial(
        task_id="compact",
        job=CompactJob(target="{{ task.need[0].table }}", run_in="spark"),
        max_active_tis_per_dagrun=2,
        map_index_template="{{ task.need[0].type }} {{ task.need[0].table }}",
    ).expand(need=on_spark(maintain.output))
