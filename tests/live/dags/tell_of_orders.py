"""Merges with outlets and their listeners; tasks that fail in several ways."""

import os
from datetime import datetime, timedelta

from airflow.sdk import (
    DAG,
    Asset,
    IdentityMapper,
    Param,
    PartitionedAssetTimetable,
    PartitionedAtRuntime,
    get_current_context,
    task,
)

from airflow_hiveacid import (
    HiveAcidMergeOperator,
    MatchedUpdate,
    NotMatchedInsert,
    PathSource,
    hive_acid_retry_policy,
    table_asset,
)
from hiveacid.errors import LockTimeout, TableNotFound
from hiveacid.jobs import MergeJob

TABLE = "told.orders"
ORDERS = table_asset(TABLE, os.environ["TOLD_METASTORE"])
EACH_DAY = table_asset(TABLE, os.environ["TOLD_METASTORE"], by_partition=True)
DAYS = Asset("days_of_orders")
WHEN = (MatchedUpdate(), NotMatchedInsert())
COMMON = {"start_date": datetime(2026, 1, 1), "params": {"feed": Param("", type="string")}}

with DAG("write_orders", schedule=None, **COMMON):

    @task.hive_acid_merge(
        target=TABLE, on="t.id = s.id", when=WHEN, run_in="spark", outlets=[ORDERS, EACH_DAY]
    )
    def merge(params):
        return {"path": params["feed"], "format": "json", "schema": "id INT, day STRING"}

    merge()

with DAG("hear_of_orders", schedule=[ORDERS], start_date=COMMON["start_date"]):

    @task
    def hear(triggering_asset_events):
        return [event.extra for event in triggering_asset_events[ORDERS]]

    hear()

with DAG("write_days", schedule=PartitionedAtRuntime(), **COMMON):
    HiveAcidMergeOperator(
        task_id="merge",
        job=MergeJob(
            target=TABLE,
            source=PathSource("{{ params.feed }}", "json", schema="id INT, day STRING"),
            on="t.id = s.id",
            when=WHEN,
        ),
        outlets=[DAYS],
    )

for dag_id, days in (("hear_of_days", DAYS), ("hear_of_each_day", EACH_DAY)):
    with DAG(
        dag_id,
        schedule=PartitionedAssetTimetable(assets=days, default_partition_mapper=IdentityMapper()),
        start_date=COMMON["start_date"],
    ):

        @task
        def hear_key():
            return get_current_context()["dag_run"].partition_key

        hear_key()

with DAG("fail", schedule=None, start_date=COMMON["start_date"]):
    patient = {
        "retries": 2,
        "retry_delay": timedelta(hours=1),
        "retry_policy": hive_acid_retry_policy(conflicts_after=timedelta(seconds=1)),
    }

    @task(**patient)
    def lose_once(ti):
        if ti.try_number == 1:
            raise LockTimeout("Waited 300 s for told.orders.")

    @task(**patient)
    def ask_for_what_is_not_there():
        raise TableNotFound("told.gone does not exist.")

    lose_once()
    ask_for_what_is_not_there()
