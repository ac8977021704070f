"""As soon as a table needs a compaction: compact it, then clean it.

Instead of a schedule, every table is an asset with a watcher. All watchers share one poll in the
triggerer (since Airflow 3.3), which reports each partition once, until it has been compacted.

Needs two connections: `hive_acid_default` (the metastore) and `spark_default` (for example with
`local[*]` as its host). The tables are listed below. Triggered manually, the DAG polls the tables itself.
"""

from datetime import datetime, timedelta
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, AssetAny, AssetWatcher, Param, task

from airflow_hiveacid import HiveAcidCleanOperator, HiveAcidCompactOperator, compaction_groups
from airflow_hiveacid.hooks import HiveAcidMetastoreHook
from airflow_hiveacid.triggers import HiveAcidCompactionEventTrigger

TABLES = ["default.orders", "default.customers"]

# Equal except for the table, so that they share one poll.
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
            "default.*", type="string", description="The tables to poll if triggered manually"
        )
    },
    doc_md=__doc__,
    tags=["hive-acid", "example"],
):

    @task
    def plan(triggering_asset_events: Any, params: dict[str, Any]) -> list[list[dict[str, Any]]]:
        """Return the needs of the events, grouped by table."""
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
        """Clean whole tables: files that readers needed after an earlier run may be removable now."""
        return list({group[0]["table"]: group[0] for group in planned}.values())

    planned = plan()
    tables = one_of_each_table(planned)
    compact = HiveAcidCompactOperator.partial(
        task_id="compact",
        max_active_tis_per_dagrun=2,
        map_index_template="{{ task.need[0].type }} {{ task.need[0].table }}",
    ).expand(need=planned)
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
