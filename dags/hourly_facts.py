"""Every hour: change facts and their dimension in one transaction, so that they are always consistent.

The facts are partitioned by day and bucketed by order; an hour brings new orders, corrections and
cancellations of the last days. No reader sees an order without its shop.

Needs two connections: `hive_acid_default` (the metastore) and `spark_default` (for example with
`local[*]` as its host). The tables are

    orders: order_id bigint, shop int, amount decimal(12,2), version bigint
        partitioned by (day string) clustered by (order_id)
    shops: shop int, name string, country string

and the feeds are folders of JSON lines per hour, `<feed>/2026-11-20T09/orders/` and `…/shops/`:

    {"order_id": 1, "shop": 7, "amount": 9.5, "version": 2, "op": "upsert", "day": "2026-11-20"}
    {"shop": 7, "name": "Nord", "country": "de"}
"""

from datetime import datetime, timedelta

from airflow.sdk import DAG, Param
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_hiveacid import (
    HiveAcidTransactionOperator,
    MatchedDelete,
    MatchedUpdate,
    NotMatchedInsert,
    PathSource,
    QuerySource,
)
from hiveacid.jobs import MergeJob, TransactionJob

HOUR = "{{ params.feed }}/{{ data_interval_start.strftime('%Y-%m-%dT%H') }}"

# A merge takes one change per row: the one with the highest version.
LAST_VERSIONS = QuerySource(
    sql="""
        SELECT * FROM (
          SELECT *, row_number() OVER (PARTITION BY day, order_id ORDER BY version DESC) AS nth
          FROM feed
        ) WHERE nth = 1
    """,
    inputs={
        "feed": PathSource(
            path=f"{HOUR}/orders",
            format="json",
            schema="order_id BIGINT, shop INT, amount DECIMAL(12,2), version BIGINT, op STRING, "
            "day STRING",
        )
    },
)

with DAG(
    dag_id="hourly_facts",
    # Not a bare "@hourly": in Airflow 3 that has no data interval, and the feed's hour is needed.
    schedule=CronDataIntervalTimetable("@hourly", timezone="UTC"),
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    params={
        "facts": Param("default.orders", type="string", description="The table of the facts"),
        "dimension": Param("default.shops", type="string", description="The table of the shops"),
        "feed": Param("/var/feeds/sales", type="string", description="Folder of the feeds"),
    },
    doc_md=__doc__,
    tags=["hive-acid", "example"],
):
    HiveAcidTransactionOperator(
        task_id="apply",
        job=TransactionJob(
            statements=(
                MergeJob(
                    target="{{ params.dimension }}",
                    source=QuerySource(
                        sql="SELECT DISTINCT shop, name, country FROM feed",
                        inputs={
                            "feed": PathSource(
                                path=f"{HOUR}/shops",
                                format="json",
                                schema="shop INT, name STRING, country STRING",
                            )
                        },
                    ),
                    on="t.shop = s.shop",
                    when=(MatchedUpdate(), NotMatchedInsert()),
                ),
                MergeJob(
                    target="{{ params.facts }}",
                    source=LAST_VERSIONS,
                    # The partition column in the condition: only the feed's days are read and locked.
                    on="t.day = s.day AND t.order_id = s.order_id",
                    when=(
                        MatchedDelete(condition="s.op = 'cancel' AND s.version > t.version"),
                        MatchedUpdate(
                            set={"shop": "s.shop", "amount": "s.amount", "version": "s.version"},
                            condition="s.version > t.version",
                        ),
                        NotMatchedInsert(
                            values={
                                "order_id": "s.order_id",
                                "shop": "s.shop",
                                "amount": "s.amount",
                                "version": "s.version",
                                "day": "s.day",
                            },
                            condition="s.op <> 'cancel'",
                        ),
                    ),
                ),
            ),
        ),
    )
