"""Every hour: apply a feed of changes whose events may be late, duplicate or unordered.

Every event has a position, `seq`, which orders all changes of a row. The table stores the position
of the last change of every row, and a change with an older position has no effect. So an hour can be
run again, and hours in any order: the result is always that of the newest event of every row.

A delete leaves a row behind, the tombstone: its position keeps late events from bringing the row back.
Readers add `WHERE NOT deleted`; tombstones are removed when no event can be that late any more.

Needs two connections: `hive_acid_default` (the metastore) and `spark_default` (for example with
`local[*]` as its host). The table has the columns `id bigint, name string, email string, seq bigint,
changed_at timestamp, deleted boolean`; the feed is a folder of JSON lines per hour,
`<feed>/2026-11-20T09/`:

    {"id": 7, "name": "Ada", "email": "ada@…", "op": "upsert", "seq": 1201, "changed_at": "…"}
"""

from datetime import datetime, timedelta

from airflow.sdk import DAG, Param
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_hiveacid import (
    HiveAcidDeleteOperator,
    HiveAcidMergeOperator,
    MatchedUpdate,
    NotMatchedInsert,
    PathSource,
    QuerySource,
)
from hiveacid.jobs import DeleteJob, MergeJob

# A merge takes one change per row: the newest one. Duplicates of an event have one position.
YOUNGEST_CHANGES = QuerySource(
    sql="""
        SELECT id, name, email, seq, changed_at, op = 'delete' AS deleted FROM (
          SELECT *, row_number() OVER (PARTITION BY id ORDER BY seq DESC) AS nth FROM feed
        ) WHERE nth = 1
    """,
    inputs={
        "feed": PathSource(
            path="{{ params.feed }}/{{ data_interval_start.strftime('%Y-%m-%dT%H') }}",
            format="json",
            schema="id BIGINT, name STRING, email STRING, op STRING, seq BIGINT, "
            "changed_at TIMESTAMP",
        )
    },
)
# A deleted row keeps its id, its position and its time, and no personal data.
VALUES = {
    "id": "s.id",
    "name": "CASE WHEN NOT s.deleted THEN s.name END",
    "email": "CASE WHEN NOT s.deleted THEN s.email END",
    "seq": "s.seq",
    "changed_at": "s.changed_at",
    "deleted": "s.deleted",
}

with DAG(
    dag_id="change_feed",
    # Not a bare "@hourly": in Airflow 3 that has no data interval, and the feed's hour is needed.
    schedule=CronDataIntervalTimetable("@hourly", timezone="UTC"),
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    params={
        "table": Param("default.customers", type="string", description="The table to change"),
        "feed": Param("/var/feeds/customers", type="string", description="Folder of the feed"),
        "lateness_days": Param(7, type="integer", description="Maximum delay of an event"),
    },
    doc_md=__doc__,
    tags=["hive-acid", "example"],
):
    apply = HiveAcidMergeOperator(
        task_id="apply",
        job=MergeJob(
            target="{{ params.table }}",
            source=YOUNGEST_CHANGES,
            on="t.id = s.id",
            when=(
                MatchedUpdate(condition="s.seq > t.seq", set=VALUES),
                # A delete that comes before its row does leaves a tombstone as well.
                NotMatchedInsert(values=VALUES),
            ),
        ),
    )
    purge = HiveAcidDeleteOperator(
        task_id="purge",
        job=DeleteJob(
            target="{{ params.table }}",
            where="deleted AND changed_at < "
            "CAST(:begin AS TIMESTAMP) - make_interval(0, 0, 0, CAST(:days AS INT))",
            params={
                "begin": "{{ data_interval_start.strftime('%Y-%m-%d %H:%M:%S') }}",
                "days": "{{ params.lateness_days }}",
            },
        ),
    )
    apply >> purge
