r"""Every day: bring one partition of a table up to date with the feed of its day.

A run belongs to a partition key, the day, and has no data interval. Days are independent,
so that a backfill can run many of them concurrently, in any order:

    airflow backfill create --dag-id partitioned_backfill --from-date 2026-01-01 \
        --to-date 2026-01-14 --max-active-runs 3

A day is merged once, despite retries, cleared tasks and repeated backfills. To merge a day once more,
because its feed has been corrected, give the backfill a new reason, and let it reprocess
completed runs:

    --reprocess-behavior completed --dag-run-conf '{"again": "the feed of 2026-01-18"}'

Needs Airflow 3.3; before that this file declares no DAG. Needs two connections: `hive_acid_default`
(the metastore) and `spark_default` (for example with `local[*]` as its host). The table has the
columns `id bigint, name string, amount bigint` and is partitioned by `ds string`; the feed is a
folder of JSON lines per day, `<feed>/2026-01-01/`:

    {"id": 7, "name": "Ada", "amount": 12, "op": "upsert", "changed_at": "2026-01-01T09:00:00Z"}
"""

from datetime import datetime, timedelta

from airflow.sdk import DAG, Param

from airflow_hiveacid import (
    HiveAcidMergeOperator,
    MatchedDelete,
    MatchedUpdate,
    NotMatchedInsert,
    PathSource,
    QuerySource,
)
from hiveacid.jobs import MergeJob

try:
    from airflow.sdk import CronPartitionTimetable
except ImportError:
    CronPartitionTimetable = None

DAY = "{{ dag_run.partition_key }}"

# A merge takes one change per row: the last one of the day.
LAST_CHANGES = QuerySource(
    sql="""
        SELECT *, :day AS ds FROM (
          SELECT *, row_number() OVER (PARTITION BY id ORDER BY changed_at DESC) AS nth FROM feed
        ) WHERE nth = 1
    """,
    inputs={
        "feed": PathSource(
            path="{{ params.feed }}/" + DAY,
            format="json",
            schema="id BIGINT, name STRING, amount BIGINT, op STRING, changed_at TIMESTAMP",
        )
    },
    # A value and no part of the text: who starts a run may choose any key.
    params={"day": DAY},
)

if CronPartitionTimetable is not None:
    with DAG(
        dag_id="partitioned_backfill",
        # At midnight for the day that is over.
        schedule=CronPartitionTimetable(
            "@daily", timezone="UTC", run_offset=-1, key_format="%Y-%m-%d"
        ),
        start_date=datetime(2026, 1, 1),
        catchup=False,
        max_active_runs=3,
        default_args={"retries": 4, "retry_delay": timedelta(seconds=30)},
        params={
            "table": Param("default.orders", type="string", description="The table to change"),
            "feed": Param("/var/feeds/orders", type="string", description="Folder of the feed"),
            "again": Param(
                "", type="string", description="The reason to merge a day once more, if any"
            ),
        },
        doc_md=__doc__,
        tags=["hive-acid", "example"],
    ):
        HiveAcidMergeOperator(
            task_id="merge",
            # Not per run: every backfill creates another run for the same day.
            once_per=DAY,
            apply_again="{{ params.again }}",
            job=MergeJob(
                target="{{ params.table }}",
                source=LAST_CHANGES,
                # The partition column in the condition: only the day is read and locked.
                on="t.ds = s.ds AND t.id = s.id",
                when=(
                    MatchedDelete(condition="s.op = 'delete'"),
                    MatchedUpdate(set={"name": "s.name", "amount": "s.amount"}),
                    NotMatchedInsert(condition="s.op <> 'delete'"),
                ),
            ),
        )
