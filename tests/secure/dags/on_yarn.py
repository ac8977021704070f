"""Merges, a compaction and a cleaning of a table on an HDFS and a YARN that ask for Kerberos."""

import json
import os
from datetime import datetime
from itertools import product

from airflow.sdk import DAG, Param

from airflow_hiveacid import (
    HiveAcidCleanOperator,
    HiveAcidCompactOperator,
    HiveAcidMergeOperator,
    MatchedUpdate,
    NotMatchedInsert,
    PathSource,
)
from hiveacid.jobs import CleanJob, CompactJob, MergeJob

for metastore, first in product(("hms4", "hms3"), ("merge", "deferred_merge")):
    with DAG(
        dag_id=f"{metastore}_{first}",
        schedule=None,
        start_date=datetime(2026, 1, 1),
        default_args={"retries": 0, "metastore_conn_id": metastore},
        params={"table": Param("", type="string"), "feed": Param("", type="string")},
    ):
        job = MergeJob(
            target="{{ params.table }}",
            source=PathSource(
                path="{{ params.feed }}", format="json", schema="account BIGINT, cents BIGINT"
            ),
            on="t.account = s.account",
            when=(
                MatchedUpdate(set={"balance": "t.balance + s.cents"}),
                NotMatchedInsert(values={"account": "s.account", "balance": "s.cents"}),
            ),
            lock_wait_seconds=1800,
        )
        in_yarn = {
            "deploy_mode": "cluster",
            "poll_seconds": 2,
            "conf": json.loads(os.environ["SPARK_CONF_OF_YARN"]),
        }
        merges = [
            HiveAcidMergeOperator(task_id="merge", job=job, deferrable=False, **in_yarn),
            HiveAcidMergeOperator(task_id="deferred_merge", job=job, deferrable=True, **in_yarn),
        ]
        before, after = merges if first == "merge" else reversed(merges)
        compact = HiveAcidCompactOperator(
            task_id="compact",
            job=CompactJob(target="{{ params.table }}", type="major", run_in="spark"),
            **in_yarn,
        )
        clean = HiveAcidCleanOperator(
            task_id="clean", job=CleanJob(target="{{ params.table }}", retention="0")
        )
        before >> after >> compact >> clean
