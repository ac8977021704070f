"""Every hour: append the new events, and update the newest state of each order.

The stream reads new files, records them in its checkpoint, and ends when no file is left. Each
micro-batch is one transaction over both tables, and is applied once, also after a kill and also if the
task is cleared. To make rows readable within seconds, set `trigger` to "8 s" and `run_for` to "55 min":
then the task runs nearly until the next one begins.

Needs two connections: `hive_acid_default` (the metastore) and `spark_default` (for example with
`local[*]` as its host). `<database>.order_events` and `<database>.orders` have the columns
`id bigint, status string, amount decimal(10,2), seq bigint`; the feed is a folder of JSON lines:

    {"id": 7, "status": "paid", "amount": 12.50, "seq": 1201}

A broker is read the same way: `StreamSource("kafka", {"kafka.bootstrap.servers": "…", "subscribe":
"orders"})`, with `packages="org.apache.spark:spark-sql-kafka-0-10_2.13:…"` for the operator.
"""

from datetime import datetime, timedelta

from airflow.sdk import DAG, Param

from airflow_hiveacid import (
    BatchSource,
    HiveAcidStreamOperator,
    MatchedUpdate,
    NotMatchedInsert,
    QuerySource,
    StreamSource,
)
from hiveacid.jobs import InsertJob, MergeJob, StreamJob

# A merge takes one change per row: the newest one of the batch.
YOUNGEST = QuerySource(
    sql="""
        SELECT id, status, amount, seq FROM (
          SELECT *, row_number() OVER (PARTITION BY id ORDER BY seq DESC) AS nth FROM batch
        ) WHERE nth = 1
    """,
    inputs={"batch": BatchSource()},
)

with DAG(
    dag_id="streamed_orders",
    schedule="@hourly",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 5, "retry_delay": timedelta(seconds=30)},
    params={
        "database": Param("default", type="string", description="Where the tables are"),
        "feed": Param("/var/feeds/orders", type="string", description="Folder of the feed"),
        "checkpoint": Param(
            "file:/var/checkpoints/orders",
            type="string",
            description="The folder of the checkpoint",
        ),
        "trigger": Param("available_now", type="string", description='Or an interval, like "8 s"'),
        "run_for": Param("55 min", type="string", description="The maximum duration"),
    },
    doc_md=__doc__,
    tags=["hive-acid", "example"],
):
    HiveAcidStreamOperator(
        task_id="orders",
        job=StreamJob(
            name="orders",
            source=StreamSource(
                "json",
                {"path": "{{ params.feed }}", "maxFilesPerTrigger": "1000"},
                "id BIGINT, status STRING, amount DECIMAL(10,2), seq BIGINT",
            ),
            statements=[
                InsertJob(target="{{ params.database }}.order_events", source=BatchSource()),
                MergeJob(
                    target="{{ params.database }}.orders",
                    source=YOUNGEST,
                    on="t.id = s.id",
                    when=(MatchedUpdate(condition="s.seq > t.seq"), NotMatchedInsert()),
                ),
            ],
            checkpoint="{{ params.checkpoint }}",
            trigger="{{ params.trigger }}",
            run_for="{{ params.run_for }}",
        ),
    )
