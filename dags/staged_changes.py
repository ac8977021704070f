"""On demand: correct rows, and show the numbers of changed rows to a person who approves them.

The first task writes the files of the change, and leaves no lock and no transaction. Under "Required
Actions" of Airflow, a person sees how many rows it changes. "Publish" makes exactly these rows visible,
unless others have changed the same partitions since then; "Discard" removes the files. Without an answer,
a cleaning removes them after two days.

Who starts a run chooses values from lists, and writes no SQL: they reach the statement as parameters.

It needs the connection `hive_acid_default` (the metastore), and neither Spark nor Java for small changes.
"""

from datetime import datetime, timedelta

from airflow.providers.standard.operators.hitl import HITLBranchOperator
from airflow.sdk import DAG, Param

from airflow_hiveacid import (
    HiveAcidDiscardOperator,
    HiveAcidPublishOperator,
    HiveAcidStageOperator,
)
from hiveacid.jobs import UpdateJob

STATES = ["open", "closed", "cancelled"]

with DAG(
    dag_id="staged_changes",
    schedule=None,
    start_date=datetime(2026, 1, 1),
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    params={
        "target": Param("default.orders", enum=["default.orders"], description="The table"),
        "present": Param("open", enum=STATES, description="The status of the rows to correct"),
        "status": Param("closed", enum=STATES, description="Their new status"),
    },
    doc_md=__doc__,
    tags=["hive-acid", "example"],
):
    stage = HiveAcidStageOperator(
        task_id="stage",
        job=UpdateJob(
            target="{{ params.target }}",
            set={"status": ":status"},
            where="status = :present",
            params={"status": "{{ params.status }}", "present": "{{ params.present }}"},
        ),
        expires_after="2 days",
    )
    ask = HITLBranchOperator(
        task_id="ask",
        subject="Correct {{ params.target }}?",
        body="{{ ti.xcom_pull(task_ids='stage')['rows_updated'] }} rows get the `status`"
        " `{{ params.status }}`. They can be published until"
        " {{ ti.xcom_pull(task_ids='stage')['expires'] }}.",
        options=["Publish", "Discard"],
        options_mapping={"Publish": "publish", "Discard": "discard"},
    )
    publish = HiveAcidPublishOperator(task_id="publish", staged=stage.output)
    discard = HiveAcidDiscardOperator(task_id="discard", staged=stage.output)
    stage >> ask >> [publish, discard]
