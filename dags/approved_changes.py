"""On demand: changes that are hard to undo, each after a human approval.

The DAG requests three separate approvals under "Required Actions" of Airflow: to overwrite a table, to
delete the data of people from it, and to abort transactions that have been open for hours and block
writers and cleanings. No lock is held before the answer, and "Reject" skips the change.

- The request for the overwrite contains the current version of the table. `RESTORE TABLE ... TO VERSION
  AS OF` restores that version until it is cleaned.
- The last step cleans the table; then the deleted data cannot be restored.
- Only the transactions in the request are aborted, not later ones. An owner that is still active then
  fails at its commit.

The parameter `assigned_users` of an ApprovalOperator restricts the users who may answer. Needs two connections:
`hive_acid_default` (the metastore) and `spark_default` (for example with `local[*]` as its host). The
requests are JSON lines, `{"customer": 7}`.
"""

from datetime import datetime, timedelta
from typing import Any

from airflow.providers.common.compat.sdk import AirflowSkipException
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, Param, TaskGroup, task

from airflow_hiveacid import (
    HiveAcidCleanOperator,
    HiveAcidCompactOperator,
    HiveAcidDeleteOperator,
    HiveAcidInsertOperator,
    PathSource,
    TableSource,
)
from airflow_hiveacid.hooks import HiveAcidMetastoreHook
from hiveacid.jobs import CleanJob, CompactJob, DeleteJob, InsertJob
from hiveacid.rules.versions import newest_version

TARGET = "{{ params.target }}"


@task
def look_up_version(params: Any = None) -> int:
    """Return the version for a later RESTORE."""
    with HiveAcidMetastoreHook().transaction(reads=[params["target"]]) as txn:
        return newest_version(txn.snapshot.write_ids[params["target"].lower()])


@task
def find_old_ones(params: Any = None) -> dict[str, Any]:
    """List old transactions with their owners."""
    txns = HiveAcidMetastoreHook().transactions()
    # By the clock of the metastore, which it told when somebody began or was alive.
    times = [time for txn in txns for time in (txn.started_at, txn.last_heartbeat) if time]
    old = [
        txn
        for txn in txns
        if txn.state.name == "OPEN"
        and txn.started_at
        and txn.started_at <= max(times) - timedelta(hours=params["hours"])
    ]
    if not old:
        raise AirflowSkipException("No transaction is that old.")
    return {
        "ids": [txn.txn_id for txn in old],
        # Any user may have chosen these names: as reprs they cannot imitate other lines.
        "text": "\n".join(
            f"- {txn.txn_id} of {txn.user!r} on {txn.host!r}, begun {txn.started_at:%F %T}, "
            f"last heartbeat {txn.last_heartbeat or txn.started_at:%F %T} UTC"
            for txn in old
        ),
    }


@task
def abort(found: dict[str, Any]) -> list[int]:
    """Abort the listed transactions that are still open."""
    hook = HiveAcidMetastoreHook()
    still_open = {txn.txn_id for txn in hook.transactions() if txn.state.name == "OPEN"}
    aborted = [txn_id for txn_id in found["ids"] if txn_id in still_open]
    with hook.get_conn() as client:
        for txn_id in aborted:
            client.abort_txn(txn_id)
    return aborted


with DAG(
    dag_id="approved_changes",
    schedule=None,
    start_date=datetime(2026, 1, 1),
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    params={
        "target": Param("default.orders", type="string", description="The table"),
        "source": Param("default.orders_corrected", type="string", description="Its new rows"),
        "requests": Param("/var/feeds/forget", type="string", description="Folder of requests"),
        "hours": Param(6, type="number", minimum=1, description="Maximum age of transactions"),
    },
    doc_md=__doc__,
    tags=["hive-acid", "example"],
):
    with TaskGroup("overwrite"):
        ask = ApprovalOperator(
            task_id="ask",
            subject=f"Overwrite {TARGET}?",
            body=f"All rows of **{TARGET}** are replaced by those of **{{{{ params.source }}}}**. "
            "Now its version is {{ ti.xcom_pull(task_ids='overwrite.look_up_version') }}; "
            "`RESTORE TABLE` restores that version until it is cleaned.",
        )
        overwrite = HiveAcidInsertOperator(
            task_id="overwrite",
            job=InsertJob(target=TARGET, source=TableSource("{{ params.source }}"), overwrite=True),
        )
        look_up_version() >> ask >> overwrite

    with TaskGroup("forget"):
        ask = ApprovalOperator(
            task_id="ask",
            subject=f"Permanently delete the data of people from {TARGET}?",
            body="The people are listed in `{{ params.requests }}`. Their rows cannot be restored.",
        )
        delete = HiveAcidDeleteOperator(
            task_id="delete",
            job=DeleteJob(
                target=TARGET,
                where="t.customer IN (SELECT customer FROM requests)",
                inputs={
                    "requests": PathSource(
                        path="{{ params.requests }}", format="json", schema="customer BIGINT"
                    )
                },
            ),
        )
        compact = HiveAcidCompactOperator(
            task_id="compact", job=CompactJob(target=TARGET, type="major")
        )
        # Not even for earlier versions may the data be kept.
        clean = HiveAcidCleanOperator(task_id="clean", job=CleanJob(target=TARGET, retention="0"))
        ask >> delete >> compact >> clean

    with TaskGroup("abort"):
        found = find_old_ones()
        ask = ApprovalOperator(
            task_id="ask",
            subject="Abort transactions of other users?",
            body="{{ ti.xcom_pull(task_ids='abort.find_old_ones')['text'] }}",
        )
        found >> ask >> abort(found)
