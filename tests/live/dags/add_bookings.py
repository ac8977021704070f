"""A merge that must be applied exactly once: it adds to the existing values."""

from datetime import datetime, timedelta

from airflow.sdk import DAG, Param

from airflow_hiveacid import HiveAcidMergeOperator, MatchedUpdate, NotMatchedInsert, PathSource
from hiveacid.jobs import MergeJob

with DAG(
    dag_id="add_bookings",
    schedule=None,
    start_date=datetime(2026, 1, 1),
    default_args={"retries": 3, "retry_delay": timedelta(seconds=1)},
    params={"table": Param("", type="string"), "feed": Param("", type="string")},
):
    HiveAcidMergeOperator(
        task_id="merge",
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
            run_in="spark",
        ),
    )
