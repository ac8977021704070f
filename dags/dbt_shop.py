"""Every day: build the models of a dbt project on Hive ACID tables, then compact their tables.

Needs the connection `hive_acid_default`, the packages `dbt-hiveacid` and `hiveacid[spark]` on the
worker, and the project, such as [dbt/example](../dbt/example). dbt runs in the task, with Spark in
local mode unless the project's profile names a master.

A retry of the task, or clearing it, applies no model twice: the profile takes the run of the DAG
from `DBT_ONCE_PER`. The maintenance afterwards runs in the worker without Spark.
"""

from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, Param

from airflow_hiveacid import HiveAcidMaintainOperator

with DAG(
    dag_id="dbt_shop",
    schedule="@daily",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    params={
        "project": Param("/opt/dbt/shop", type="string", description="The folder of the project"),
        "tables": Param("shop.*", type="string", description="The tables to maintain afterwards"),
    },
    doc_md=__doc__,
    tags=["hive-acid", "example"],
):
    # Parameters reach dbt by variables, never as text of the shell.
    build = BashOperator(
        task_id="build",
        bash_command="dbt build",
        env={
            "DBT_PROJECT_DIR": "{{ params.project }}",
            "DBT_PROFILES_DIR": "{{ params.project }}",
            "DBT_ONCE_PER": "{{ run_id }}",
            "HIVEACID_METASTORE": (
                "thrift://{{ conn.hive_acid_default.host }}:{{ conn.hive_acid_default.port }}"
            ),
        },
        append_env=True,
    )
    build >> HiveAcidMaintainOperator(task_id="maintain", tables="{{ params.tables }}")
