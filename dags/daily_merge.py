r"""Every day: add the day's bookings to the balances of accounts, each day once.

A sum shows the meaning of "once": a day that was added twice would remain unnoticed. This DAG supports
backfills, retries and cleared tasks, with its days in any order:

    airflow backfill create --dag-id daily_merge --from-date 2026-01-01 --to-date 2026-01-14 \
        --max-active-runs 3

Needs two connections: `hive_acid_default` (the metastore) and `spark_default` (for example with
`local[*]` as its host). The table has the columns `account bigint, balance bigint, bookings bigint,
last_day string`; the feed is a folder of JSON lines per day, `<feed>/2026-01-01/`:

    {"account": 7, "cents": -1250}
"""

from datetime import datetime, timedelta

from airflow.sdk import DAG, Param
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_hiveacid import (
    HiveAcidMergeOperator,
    MatchedUpdate,
    NotMatchedInsert,
    PathSource,
    QuerySource,
)
from hiveacid.jobs import MergeJob

DAY = "{{ data_interval_start | ds }}"

# A merge takes one change per row: the sum of the day.
SUMS_OF_THE_DAY = QuerySource(
    sql=f"""
        SELECT account, sum(cents) AS cents, count(*) AS bookings, '{DAY}' AS day
        FROM feed GROUP BY account
    """,
    inputs={
        "feed": PathSource(
            path="{{ params.feed }}/" + DAY, format="json", schema="account BIGINT, cents BIGINT"
        )
    },
)

with DAG(
    dag_id="daily_merge",
    # Not a bare "@daily": in Airflow 3 that has no data interval, and every day would be empty.
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
    start_date=datetime(2026, 1, 1),
    catchup=False,
    # Runs wait for each other's lock on the table, but their Spark applications start concurrently.
    # The limit of a backfill is its own option, --max-active-runs, which is 10 by default.
    max_active_runs=3,
    default_args={"retries": 4, "retry_delay": timedelta(seconds=30)},
    params={
        "table": Param("default.balances", type="string", description="The table to change"),
        "feed": Param("/var/feeds/bookings", type="string", description="Folder of the feed"),
    },
    doc_md=__doc__,
    tags=["hive-acid", "example"],
):
    HiveAcidMergeOperator(
        task_id="merge",
        # A day counts once, also if several runs or a manual trigger apply it.
        once_per=DAY,
        job=MergeJob(
            target="{{ params.table }}",
            source=SUMS_OF_THE_DAY,
            on="t.account = s.account",
            when=(
                MatchedUpdate(
                    set={
                        "balance": "t.balance + s.cents",
                        "bookings": "t.bookings + s.bookings",
                        "last_day": "greatest(t.last_day, s.day)",
                    }
                ),
                NotMatchedInsert(
                    values={
                        "account": "s.account",
                        "balance": "s.cents",
                        "bookings": "s.bookings",
                        "last_day": "s.day",
                    }
                ),
            ),
        ),
    )
