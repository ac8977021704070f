"""Compact one table, report what a cleaning would remove, or let a run be applied again.

With `[hive_acid] page_dag = compact_or_clean` the page *Hive ACID tables* has the buttons "Compact now"
and "Clean (dry run)" for each table, and "Apply again" for each run, for users who may trigger this DAG
in Airflow. It can also be triggered manually.

A name with a wildcard is refused: a button applies to one table.
"""

from datetime import datetime
from typing import Any

from airflow.sdk import DAG, Param, task

from airflow_hiveacid import HiveAcidCleanOperator, HiveAcidCompactOperator
from airflow_hiveacid.hooks import HiveAcidMetastoreHook
from hiveacid.jobs import CleanJob, CompactJob

with DAG(
    dag_id="compact_or_clean",
    schedule=None,
    start_date=datetime(2026, 1, 1),
    catchup=False,
    params={
        "action": Param(
            "clean", enum=["compact", "clean", "apply_again"], description="What to do"
        ),
        "table": Param(
            "default.customers",
            type="string",
            pattern=r"^[^.*?\[\]]+\.[^.*?\[\]]+$",
            description="The table, database.table",
        ),
        "type": Param("minor", enum=["minor", "major"], description="How to compact"),
        "run": Param(
            "", type="string", description="The run to apply again: dag/run/task/map index"
        ),
        # The page may show several metastores; the buttons work for those that are listed here.
        "connection": Param("hive_acid_default", enum=["hive_acid_default"]),
    },
    doc_md=__doc__,
    tags=["hive-acid", "example"],
):

    @task.branch
    def chosen(params: dict[str, Any]) -> str:
        """Return the task of the action."""
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

    @task
    def apply_again(params: dict[str, Any]) -> None:
        """Remove the notes that keep a run from being applied again."""
        HiveAcidMetastoreHook(params["connection"]).apply_again(params["table"], params["run"])

    chosen() >> [compact, clean, apply_again()]
