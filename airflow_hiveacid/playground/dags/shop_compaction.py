"""Compact a table of the shop as soon as it is worth compacting, then clean it.

The tables are an asset with a watcher: the triggerer polls them every 20 seconds and reports each
partition once, when it has become worth compacting by the thresholds of its table.
"""

from datetime import datetime, timedelta
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, AssetWatcher, task

from airflow_hiveacid import HiveAcidCleanOperator, HiveAcidCompactOperator, compaction_groups
from airflow_hiveacid.hooks import HiveAcidMetastoreHook
from airflow_hiveacid.triggers import HiveAcidCompactionEventTrigger

SHOP = Asset(
    "shop",
    watchers=[
        AssetWatcher(
            name="shop_needs_compaction",
            trigger=HiveAcidCompactionEventTrigger(
                table="shop.*", poke_interval=20, remind_after_hours=0.5
            ),
        )
    ],
)

with DAG(
    dag_id="shop_compaction",
    schedule=[SHOP],
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=10)},
    doc_md=__doc__,
    tags=["hive-acid", "playground"],
):

    @task
    def plan(triggering_asset_events: Any) -> list[list[dict[str, Any]]]:
        """Take the needs from the events, or poll if a user has started the DAG."""
        needs = [
            need
            for events in triggering_asset_events.values()
            for event in events
            for need in event.extra["payload"]["needs"]
        ]
        return compaction_groups(needs or HiveAcidMetastoreHook().compaction_needs("shop.*"))

    @task
    def one_of_each_table(groups: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
        """Clean whole tables."""
        return list({group[0]["table"]: group[0] for group in groups}.values())

    planned = plan()
    tables = one_of_each_table(planned)
    compact = HiveAcidCompactOperator.partial(
        task_id="compact", map_index_template="{{ task.need[0].type }} {{ task.need[0].table }}"
    ).expand(need=planned)
    clean = HiveAcidCleanOperator.partial(
        task_id="clean",
        map_index_template="{{ task.need.table }}",
        # The compacted partitions can be cleaned, even if others failed.
        trigger_rule="all_done",
    ).expand(need=tables)
    compact >> clean
    # Without this last task, the run would succeed although a compaction failed.
    [compact, tables] >> EmptyOperator(task_id="compacted", trigger_rule="none_failed")
