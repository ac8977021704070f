"""Every day: delete the data of people on their request, from every table and file.

A delete only hides rows: their bytes remain in older files. So each table is then
compacted to a new base without them, and the replaced files are removed as soon as no reader needs
them. The reports of the three steps are the proof.

Needs two connections: `hive_acid_default` (the metastore) and `spark_default` (for example with
`local[*]` as its host). The tables are listed below; the requests are a folder of JSON lines per day,
`<requests>/2026-01-01/`:

    {"customer": 7}
"""

from datetime import datetime, timedelta

from airflow.sdk import DAG, Param, TaskGroup
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_hiveacid import (
    HiveAcidCleanOperator,
    HiveAcidCompactOperator,
    HiveAcidDeleteOperator,
    PathSource,
)
from hiveacid.jobs import CleanJob, CompactJob, DeleteJob

# Each table, and the column with the person of a row.
TABLES = {"default.orders": "customer", "default.visits": "visitor"}
REQUESTS = PathSource(
    path="{{ params.requests }}/{{ data_interval_start | ds }}",
    format="json",
    schema="customer BIGINT",
)

with DAG(
    dag_id="compliance_delete",
    # Not a bare "@daily": in Airflow 3 that has no data interval, and every day would be empty.
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
    start_date=datetime(2026, 1, 1),
    # No request may be skipped.
    catchup=True,
    max_active_runs=1,
    default_args={"retries": 4, "retry_delay": timedelta(minutes=5)},
    params={
        "requests": Param("/var/feeds/forget", type="string", description="Folder of the requests"),
    },
    doc_md=__doc__,
    tags=["hive-acid", "example"],
):
    for table, column in TABLES.items():
        with TaskGroup(table.replace(".", "_")):
            delete = HiveAcidDeleteOperator(
                task_id="delete",
                job=DeleteJob(
                    target=table,
                    where=f"t.{column} IN (SELECT customer FROM requests)",
                    inputs={"requests": REQUESTS},
                ),
            )
            compact = HiveAcidCompactOperator(
                task_id="compact", job=CompactJob(target=table, type="major")
            )
            # Not even for earlier versions may the data be kept.
            clean = HiveAcidCleanOperator(
                task_id="clean", job=CleanJob(target=table, retention="0")
            )
            delete >> compact >> clean
