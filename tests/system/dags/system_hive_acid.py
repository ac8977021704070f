"""A user's operations on a table, from its creation to its end.

It uses the connections `hive_acid_default` and `spark_default`, and works in a separate database,
which it always drops at the end.
"""

import os
from datetime import datetime
from typing import Any

from airflow.sdk import DAG, task

from airflow_hiveacid import (
    HiveAcidCleanOperator,
    HiveAcidCompactOperator,
    HiveAcidSqlOperator,
    TableScan,
)
from airflow_hiveacid.hooks import HiveAcidMetastoreHook
from airflow_hiveacid.sensors import HiveAcidCompactionNeededSensor
from hiveacid.jobs import CleanJob, CompactJob

DATABASE = f"hive_acid_system_{os.environ.get('SYSTEM_TESTS_ENV_ID', 'default').lower()}"
TABLE = f"{DATABASE}.orders"

with DAG(
    dag_id="system_hive_acid",
    schedule=None,
    start_date=datetime(2026, 1, 1),
    catchup=False,
    # Leftovers of an earlier run are no failure of this one.
    max_active_runs=1,
    doc_md=__doc__,
    tags=["hive-acid", "system"],
) as dag:
    create = HiveAcidSqlOperator(
        task_id="create",
        sql=f"""
            CREATE DATABASE IF NOT EXISTS {DATABASE};
            CREATE TABLE IF NOT EXISTS {TABLE} (id int, status string) PARTITIONED BY (day string)
        """,
    )
    write = HiveAcidSqlOperator(
        task_id="write",
        database=DATABASE,
        sql="""
            INSERT INTO orders VALUES (1, 'new', 'mon'), (2, 'new', 'mon'), (3, 'new', 'tue');
            MERGE INTO orders t USING (SELECT id, 'paid' AS status, 'mon' AS day FROM range(2, 5)) s
            ON t.id = s.id AND t.day = s.day
            WHEN MATCHED THEN UPDATE SET status = s.status
            WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.status, s.day)
        """,
    )
    needed = HiveAcidCompactionNeededSensor(
        task_id="needed", table=TABLE, policy={"max_deltas": 1}, timeout=60
    )
    compact = HiveAcidCompactOperator(
        task_id="compact", job=CompactJob(target=TABLE, partitions=["day=mon"], type="major")
    )
    again = HiveAcidCompactOperator(
        task_id="compact_again", job=CompactJob(target=TABLE, partitions=["day=mon"], type="major")
    )
    clean = HiveAcidCleanOperator(task_id="clean", job=CleanJob(target=TABLE, retention="0"))

    @task
    def look(compacted: dict[str, Any], again: dict[str, Any]) -> None:
        """Compare the rows and the reports with the expected ones."""
        rows = TableScan(TABLE, HiveAcidMetastoreHook().options()).to_arrow().to_pylist()
        found = sorted((row["id"], row["status"], row["day"]) for row in rows)
        expected = [
            *((1, "new", "mon"), (2, "paid", "mon"), (3, "new", "tue"), (3, "paid", "mon")),
            (4, "paid", "mon"),
        ]
        if found != expected:
            raise ValueError(f"The rows are {found}.")
        outcomes = [
            part["outcome"] for report in (compacted, again) for part in report["partitions"]
        ]
        if outcomes != ["compacted", "skipped"]:
            raise ValueError(f"The compactions have ended as {outcomes}.")

    drop = HiveAcidSqlOperator(task_id="drop", sql=f"DROP DATABASE IF EXISTS {DATABASE} CASCADE")
    looked = look(compact.output, again.output)
    create >> write >> needed >> compact >> again >> clean >> looked
    looked >> drop.as_teardown(setups=create)
