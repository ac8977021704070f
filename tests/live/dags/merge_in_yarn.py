"""Merges with their drivers in a cluster, that must be applied exactly once: they add up."""

import json
import os
from datetime import datetime, timedelta

from airflow.sdk import DAG, Param

from airflow_hiveacid import HiveAcidMergeOperator, MatchedUpdate, NotMatchedInsert, PathSource
from hiveacid.jobs import MergeJob

for dag_id, deferrable in (("deferred_merge", True), ("waiting_merge", False)):
    with DAG(
        dag_id=dag_id,
        schedule=None,
        start_date=datetime(2026, 1, 1),
        default_args={"retries": 3, "retry_delay": timedelta(seconds=1)},
        params={"table": Param("", type="string"), "feed": Param("", type="string")},
    ):
        HiveAcidMergeOperator(
            task_id="merge",
            deploy_mode="cluster",
            deferrable=deferrable,
            poll_seconds=2,
            conf=json.loads(os.environ["SPARK_CONF_OF_YARN"]),
            job=MergeJob(
                target="{{ params.table }}",
                source=PathSource(
                    path="{{ params.feed }}", format="json", schema="account BIGINT, cents BIGINT"
                ),
                on="t.account = s.account",
                when=(
                    MatchedUpdate(set={"balance": "t.balance + s.cents"}),
                    NotMatchedInsert(values={"account": "s.account", "balance": "s.cents"}),
                ),
                lock_wait_seconds=600,
                run_in="spark",
            ),
        )
