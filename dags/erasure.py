"""Every day: erase the data of persons on their request, from every table and file.

A delete only hides rows: their bytes remain in older files, statistics, and versions. So the first task
deletes the rows of all tables in one transaction, and rewrites and removes the files that held them.
The second task waits for readers, consumers of changes, and mirrors that still need such files,
continues the erasure, and returns the certificate.

Needs the connection `hive_acid_default` (the metastore), and neither Spark nor Java. The tables are
listed below. The requests are a table of persons and days:

    CREATE TABLE default.erasure_requests (person BIGINT, day STRING)
"""

from datetime import datetime, timedelta

from airflow.sdk import DAG, Param
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_hiveacid import HiveAcidEraseOperator, QuerySource, TableSource
from airflow_hiveacid.sensors import HiveAcidErasedSensor
from hiveacid.jobs import EraseJob

# Each table, and the column with the person of a row.
TABLES = {"default.orders": "customer", "default.visits": "visitor"}
REQUEST = "{{ data_interval_start | ds }}"

with DAG(
    dag_id="erasure",
    # Not a bare "@daily": in Airflow 3 that has no data interval, and every day would be empty.
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
    start_date=datetime(2026, 1, 1),
    # No request may be skipped.
    catchup=True,
    # The next day must not wait for the certificate of this one.
    max_active_runs=40,
    default_args={"retries": 4, "retry_delay": timedelta(minutes=5)},
    params={
        "folder": Param(
            "file:/var/erasures", type="string", description="Folder of requests and certificates"
        ),
    },
    doc_md=__doc__,
    tags=["hive-acid", "example"],
):
    erase = HiveAcidEraseOperator(
        task_id="erase",
        job=EraseJob(
            request=REQUEST,
            keys=QuerySource(
                "SELECT person FROM requests WHERE day = :day",
                inputs={"requests": TableSource("default.erasure_requests")},
                params={"day": REQUEST},
            ),
            columns=TABLES,
            folder="{{ params.folder }}",
            # Not even for earlier versions may the data be kept.
            retention="0",
            on_empty="skip",
        ),
    )
    erased = HiveAcidErasedSensor(
        task_id="erased",
        request=REQUEST,
        folder="{{ params.folder }}",
        deferrable=True,
        poke_interval=600,
        timeout=timedelta(days=30).total_seconds(),
    )
    erase >> erased
