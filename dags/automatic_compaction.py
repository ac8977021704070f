"""Every hour: compact the partitions that need it, then clean.

Needs two connections: `hive_acid_default` (the metastore) and `spark_default` (for example with
`local[*]` as its host). The parameters determine which partitions need a compaction; a table may set its own
thresholds (`compactorthreshold.hive.compactor.delta.num.threshold` and `...delta.pct.threshold`) or
disable compactions (`no_auto_compaction`). The log contains the reason for every table and partition.

Try it with `make quickstart`.
"""

from datetime import datetime, timedelta
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param, task

from airflow_hiveacid import HiveAcidCleanOperator, HiveAcidCompactOperator
from airflow_hiveacid.sensors import HiveAcidCompactionNeededSensor

with DAG(
    dag_id="automatic_compaction",
    schedule="@hourly",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=5)},
    # The sensor's thresholds are numbers, not texts.
    render_template_as_native_obj=True,
    params={
        "table": Param("default.*", type="string", description="A table, or a pattern of names"),
        "max_deltas": Param(10, type="integer", description="Minor compaction above this"),
        "max_delta_ratio": Param(0.1, type="number", description="Major compaction above this"),
        "major_after_hours": Param(
            168, type=["number", "null"], description="Major compaction of an older base"
        ),
        "quiet_hours": Param(
            "22:00-05:00", type=["string", "null"], description="Hours for such compactions, in UTC"
        ),
        "max_partitions": Param(
            100, type="integer", description="Maximum number of partitions in one run"
        ),
        "max_bytes": Param(
            None, type=["integer", "null"], description="Maximum number of bytes to read in one run"
        ),
    },
    doc_md=__doc__,
    tags=["hive-acid", "example"],
):
    needed = HiveAcidCompactionNeededSensor(
        task_id="needed",
        table="{{ params.table }}",
        policy={
            "max_deltas": "{{ params.max_deltas }}",
            "max_delta_ratio": "{{ params.max_delta_ratio }}",
            "major_after_hours": "{{ params.major_after_hours }}",
            "quiet_hours": "{{ params.quiet_hours }}",
        },
        budget={
            "max_partitions": "{{ params.max_partitions }}",
            "max_bytes": "{{ params.max_bytes }}",
        },
        deferrable=True,
        poke_interval=300,
        # An hour without work is not a failure.
        timeout=50 * 60,
        soft_fail=True,
    )

    @task
    def one_of_each_table(needs: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
        """Clean whole tables: files that readers needed after an earlier run may be removable now."""
        return list({group[0]["table"]: group[0] for group in needs}.values())

    tables = one_of_each_table(needed.output)
    compact = HiveAcidCompactOperator.partial(
        task_id="compact",
        max_active_tis_per_dagrun=2,
        map_index_template="{{ task.need[0].type }} {{ task.need[0].table }}",
    ).expand(need=needed.output)
    clean = HiveAcidCleanOperator.partial(
        task_id="clean",
        max_active_tis_per_dagrun=2,
        map_index_template="{{ task.need.table }}",
        # Completed compactions are cleaned even if others failed.
        trigger_rule="all_done",
    ).expand(need=tables)
    compact >> clean
    # Without this last task, the run would succeed although a compaction failed.
    [compact, tables] >> EmptyOperator(task_id="compacted", trigger_rule="none_failed")
