"""Compact one table, or say what a cleaning would remove: what the buttons of the page start.

With `[hive_acid] page_dag = compact_or_clean` the page *Hive ACID tables* has the buttons "Compact now"
and "Clean (dry run)" beside each table, for whoever may trigger this DAG in Airflow. It can be
triggered by hand, too.

A name with a wildcard is refused: a button means one table.
"""

from datetime import datetime
from typing import Any

from airflow.sdk import DAG, Param, task

from airflow_hiveacid import (
    CleanJob,
    CompactJob,
    HiveAcidCleanOperator,
    HiveAcidCompactOperator,
)

with DAG(
    dag_id="compact_or_clean",
    schedule=None,
    start_date=datetime(2026, 1, 1),
    catchup=False,
    params={
        "action": Param("clean", enum=["compact", "clean"], description="What to do"),
        "table": Param(
            "default.customers",
            type="string",
            pattern=r"^[^.*?\[\]]+\.[^.*?\[\]]+$",
            description="The table, database.table",
        ),
        "type": Param("minor", enum=["minor", "major"], description="How to compact"),
        # The page may show several metastores; those that are listed here have buttons that work.
        "connection": Param("hive_acid_default", enum=["hive_acid_default"]),
    },
    doc_md=__doc__,
    tags=["hive-acid", "example"],
):

    @task.branch
    def chosen(params: dict[str, Any]) -> str:
        """The task of the action."""
        return str(params["action"])

    compact = HiveAcidCompactOperator(
        task_id="compact",
        metastore_conn_id="{{ params.connection }}",
        job=CompactJob(target="{{ params.table }}", type="{{ params.type }}"),
    )
    clean = HiveAcidCleanOperator(
        task_id="clean",
        metastore_conn_id="{{ params.connection }}",
        job=CleanJob(target="{{ params.table }}", dry_run=True),
    )
    chosen() >> [compact, clean]
