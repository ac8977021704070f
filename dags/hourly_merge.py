"""Every hour: apply a feed of changes (inserts, updates, deletes) to a Hive ACID table.

Needs two connections: `hive_acid_default` (the metastore) and `spark_default` (for example with
`local[*]` as its host). The feed is a folder of JSON lines per hour, `<feed>/2026-11-20T09/`:

    {"id": 7, "country": "de", "name": "Ada", "email": "ada@…", "op": "upsert", "changed_at": "…"}

Try it with `make quickstart`.
"""

from datetime import datetime, timedelta
from typing import Any

from airflow.sdk import DAG, Param, task
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_hiveacid import (
    HiveAcidMergeOperator,
    MatchedDelete,
    MatchedUpdate,
    NotMatchedInsert,
    PathSource,
    QuerySource,
)
from hiveacid.jobs import MergeJob

# A merge takes one change per row: the last one of the hour. All fields of a job are templates.
LAST_CHANGES = QuerySource(
    sql="""
        SELECT * FROM (
          SELECT *, row_number() OVER (PARTITION BY country, id ORDER BY changed_at DESC) AS nth
          FROM feed
        ) WHERE nth = 1
    """,
    inputs={
        "feed": PathSource(
            path="{{ params.feed }}/{{ data_interval_start.strftime('%Y-%m-%dT%H') }}",
            format="json",
            schema="id BIGINT, country STRING, name STRING, email STRING, "
            "op STRING, changed_at TIMESTAMP",
        )
    },
)

with DAG(
    dag_id="hourly_merge",
    # Not a bare "@hourly": in Airflow 3 that has no data interval, and the feed's hour is needed.
    schedule=CronDataIntervalTimetable("@hourly", timezone="UTC"),
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    params={
        "table": Param("demo.customers", type="string", description="The table to change"),
        "feed": Param("/var/feeds/customers", type="string", description="Folder of the feed"),
    },
    doc_md=__doc__,
    tags=["hive-acid", "example"],
):
    merge = HiveAcidMergeOperator(
        task_id="merge",
        job=MergeJob(
            target="{{ params.table }}",
            source=LAST_CHANGES,
            # The partition column in the condition: only the feed's countries are read and locked.
            on="t.country = s.country AND t.id = s.id",
            when=(
                MatchedDelete(condition="s.op = 'delete'"),
                MatchedUpdate(set={"name": "s.name", "email": "s.email"}),
                NotMatchedInsert(condition="s.op <> 'delete'"),
            ),
        ),
    )

    @task
    def summary(report: dict[str, Any]) -> str:
        """Use the report, which the operator returns as its XCom."""
        return (
            f"{report['target']}: {report['rows_inserted']} inserted, "
            f"{report['rows_updated']} updated, {report['rows_deleted']} deleted "
            f"in {len(report['partitions'])} partitions"
        )

    summary(merge.output)
