"""Every day: update two dimensions, one without and one with the history of its rows.

Type 1 has one row per customer, which is overwritten. Type 2 has a row for every version of a
customer: a change ends the current version and begins the next one, both in the same merge, so that
no reader sees a customer with no current version or with two.

A repeated day changes nothing, and an event that is older than the current version is skipped. If
events can arrive after the delete of their row, see the DAG `change_feed`.

Needs two connections: `hive_acid_default` (the metastore) and `spark_default` (for example with
`local[*]` as its host). The tables have the columns

    customer bigint, city string, segment string, changed_at timestamp
    customer bigint, city string, segment string, valid_from timestamp, valid_to timestamp,
        is_current boolean

and the feed is a folder of JSON lines per day, `<feed>/2026-01-01/`:

    {"customer": 7, "city": "Kiel", "segment": "gold", "op": "upsert", "changed_at": "…"}
"""

from datetime import datetime, timedelta

from airflow.sdk import DAG, Param
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_hiveacid import (
    HiveAcidMergeOperator,
    MatchedDelete,
    MatchedUpdate,
    NotMatchedInsert,
    PathSource,
    QuerySource,
    TableSource,
)
from hiveacid.jobs import MergeJob

FEED = PathSource(
    path="{{ params.feed }}/{{ data_interval_start | ds }}",
    format="json",
    schema="customer BIGINT, city STRING, segment STRING, op STRING, changed_at TIMESTAMP",
)
# A merge takes one change per row: the last one of the day.
LAST_CHANGES = """
    SELECT customer, city, segment, op, changed_at FROM (
      SELECT *, row_number() OVER (PARTITION BY customer ORDER BY changed_at DESC) AS nth FROM feed
    ) WHERE nth = 1
"""
# The versions that end and those that begin. A new version has no `ends`, so it matches no row.
VERSIONS = f"""
    WITH last AS ({LAST_CHANGES}),
    changed AS (
      SELECT s.*, t.customer AS known FROM last s
      LEFT JOIN dimension t ON t.customer = s.customer AND t.is_current
      WHERE (t.customer IS NULL AND s.op <> 'delete')
         OR (s.changed_at > t.valid_from AND (
               s.op = 'delete' OR t.city IS DISTINCT FROM s.city
               OR t.segment IS DISTINCT FROM s.segment))
    )
    SELECT known AS ends, * FROM changed WHERE known IS NOT NULL
    UNION ALL
    SELECT CAST(NULL AS BIGINT) AS ends, * FROM changed WHERE op <> 'delete'
"""

with DAG(
    dag_id="slowly_changing_dimension",
    # Not a bare "@daily": in Airflow 3 that has no data interval, and every day would be empty.
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
    start_date=datetime(2026, 1, 1),
    catchup=False,
    # The days of a history must be applied in order.
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1), "depends_on_past": True},
    params={
        "now": Param("default.customers", type="string", description="The table of type 1"),
        "history": Param("default.customer_versions", type="string", description="Of type 2"),
        "feed": Param("/var/feeds/customers", type="string", description="Folder of the feed"),
    },
    doc_md=__doc__,
    tags=["hive-acid", "example"],
):
    HiveAcidMergeOperator(
        task_id="type_1",
        job=MergeJob(
            target="{{ params.now }}",
            source=QuerySource(sql=LAST_CHANGES, inputs={"feed": FEED}),
            on="t.customer = s.customer",
            when=(
                MatchedDelete(condition="s.op = 'delete' AND s.changed_at >= t.changed_at"),
                MatchedUpdate(
                    set={"city": "s.city", "segment": "s.segment", "changed_at": "s.changed_at"},
                    condition="s.op <> 'delete' AND s.changed_at > t.changed_at",
                ),
                NotMatchedInsert(
                    values={
                        "customer": "s.customer",
                        "city": "s.city",
                        "segment": "s.segment",
                        "changed_at": "s.changed_at",
                    },
                    condition="s.op <> 'delete'",
                ),
            ),
        ),
    )
    HiveAcidMergeOperator(
        task_id="type_2",
        job=MergeJob(
            target="{{ params.history }}",
            # Target and source are read as of the same moment.
            source=QuerySource(
                sql=VERSIONS,
                inputs={"feed": FEED, "dimension": TableSource("{{ params.history }}")},
            ),
            on="t.customer = s.ends AND t.is_current",
            when=(
                MatchedUpdate(set={"valid_to": "s.changed_at", "is_current": "false"}),
                NotMatchedInsert(
                    values={
                        "customer": "s.customer",
                        "city": "s.city",
                        "segment": "s.segment",
                        "valid_from": "s.changed_at",
                        "is_current": "true",
                    }
                ),
            ),
        ),
    )
