"""As soon as a table is worth compacting: compact it, then clean up.

Instead of a schedule, every table is an asset with a watcher. All watchers share one poll in the
triggerer (since Airflow 3.3), which tells of each partition once, until it has been compacted.

Needs two connections: `hive_acid_default` (the metastore) and `spark_default` (for example with
`local[*]` as its host). The tables are listed below. Triggered by hand, the DAG looks for itself.
"""

from datetime import datetime, timedelta
from typing import Any

from airflow.sdk import DAG, Asset, AssetAny, AssetWatcher, Param, task

from airflow_hiveacid import (
    HiveAcidCleanOperator,
    HiveAcidCompactionEventTrigger,
    HiveAcidCompactOperator,
    HiveAcidMetastoreHook,
    compaction_groups,
)

TABLES = ["default.orders", "default.customers"]

# Equal in all but the table, so that they share one poll.
ASSETS = [
    Asset(
        table,
        watchers=[
            AssetWatcher(
                name=f"{table}_needs_compaction",
                trigger=HiveAcidCompactionEventTrigger(table=table, poke_interval=60),
            )
        ],
    )
    for table in TABLES
]

with DAG(
    dag_id="event_driven_compaction",
    schedule=AssetAny(*ASSETS),
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=5)},
    params={
        "table": Param(
            "default.*", type="string", description="What to look at when triggered by hand"
        )
    },
    doc_md=__doc__,
    tags=["hive-acid", "example"],
):

    @task
    def plan(triggering_asset_events: Any, params: dict[str, Any]) -> list[list[dict[str, Any]]]:
        """Take what the events tell, and put the partitions of one table together."""
        needs = [
            need
            for events in triggering_asset_events.values()
            for event in events
            for need in event.extra["payload"]["needs"]
        ]
        if not triggering_asset_events:
            needs = HiveAcidMetastoreHook().compaction_needs(params["table"])
        return compaction_groups(needs)

    @task
    def one_of_each_table(planned: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
        """Clean whole tables: what somebody still read after an earlier run may go by now."""
        return list({group[0]["table"]: group[0] for group in planned}.values())

    planned = plan()
    compact = HiveAcidCompactOperator.partial(
        task_id="compact",
        max_active_tis_per_dagrun=2,
        map_index_template="{{ task.need[0].type }} {{ task.need[0].table }}",
    ).expand(need=planned)
    clean = HiveAcidCleanOperator.partial(
        task_id="clean",
        max_active_tis_per_dagrun=2,
        map_index_template="{{ task.need.table }}",
        # What was compacted can be cleaned, whatever became of the rest.
        trigger_rule="all_done",
    ).expand(need=one_of_each_table(planned))
    compact >> clean
