"""On demand: what cannot easily be taken back is done when a human has approved of it.

Three things, each asked for on its own under "Required Actions" of Airflow: a table is overwritten,
people are forgotten in it, and transactions are aborted that have been open for hours and so hold up
writers and cleanings. Nothing is locked while an answer is waited for, and "Reject" skips what was asked.

- With the question about the overwrite comes the version that the table has by then. Until it is cleaned
  away, `RESTORE TABLE ... TO VERSION AS OF` brings it back.
- What is forgotten is gone for good once the last step has cleaned.
- Only those transactions are aborted that were shown, whichever have been opened since. An owner that
  is still at work then fails at its commit.

Give `assigned_users` to an ApprovalOperator to say who may answer it. Needs two connections:
`hive_acid_default` (the metastore) and `spark_default` (for example with `local[*]` as its host). The
requests are JSON lines, `{"customer": 7}`.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.providers.common.compat.sdk import AirflowSkipException
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, Param, TaskGroup, task

from airflow_hiveacid import (
    CleanJob,
    CompactJob,
    DeleteJob,
    HiveAcidCleanOperator,
    HiveAcidCompactOperator,
    HiveAcidDeleteOperator,
    HiveAcidInsertOperator,
    HiveAcidMetastoreHook,
    InsertJob,
    PathSource,
    TableSource,
)
from airflow_hiveacid.acid.versions import newest_version

TARGET = "{{ params.target }}"


@task
def look_up_version(params: Any = None) -> int:
    """Tell which version a RESTORE would have to name."""
    with HiveAcidMetastoreHook().transaction(reads=[params["target"]]) as txn:
        return newest_version(txn.snapshot.write_ids[params["target"].lower()])


@task
def find_old_ones(params: Any = None) -> dict[str, Any]:
    """List the transactions that are old, with who has opened them."""
    begun_before = datetime.now(UTC) - timedelta(hours=params["hours"])
    old = [
        txn
        for txn in HiveAcidMetastoreHook().transactions()
        if txn.state.name == "OPEN" and txn.started_at and txn.started_at < begun_before
    ]
    if not old:
        raise AirflowSkipException("No transaction is that old.")
    return {
        "ids": [txn.txn_id for txn in old],
        # Anybody may have chosen these names: as reprs they cannot pretend to be other lines.
        "text": "\n".join(
            f"- {txn.txn_id} of {txn.user!r} on {txn.host!r}, begun {txn.started_at:%F %T}, "
            f"last heard of {txn.last_heartbeat or txn.started_at:%F %T} UTC"
            for txn in old
        ),
    }


@task
def abort(found: dict[str, Any]) -> list[int]:
    """Abort those that were shown and are still open."""
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
        "hours": Param(6, type="number", minimum=1, description="How old transactions may get"),
    },
    doc_md=__doc__,
    tags=["hive-acid", "example"],
):
    with TaskGroup("overwrite"):
        ask = ApprovalOperator(
            task_id="ask",
            subject=f"Overwrite {TARGET}?",
            body=f"All rows of `{TARGET}` are replaced by those of `{{{{ params.source }}}}`. "
            "Now its version is {{ ti.xcom_pull(task_ids='overwrite.look_up_version') }}; "
            "`RESTORE TABLE` brings that back until it is cleaned away.",
        )
        overwrite = HiveAcidInsertOperator(
            task_id="overwrite",
            job=InsertJob(target=TARGET, source=TableSource("{{ params.source }}"), overwrite=True),
        )
        look_up_version() >> ask >> overwrite

    with TaskGroup("forget"):
        ask = ApprovalOperator(
            task_id="ask",
            subject=f"Forget people in {TARGET}, for good?",
            body="They are those in `{{ params.requests }}`. Their rows cannot be brought back.",
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
        clean = HiveAcidCleanOperator(task_id="clean", job=CleanJob(target=TARGET))
        ask >> delete >> compact >> clean

    with TaskGroup("abort"):
        found = find_old_ones()
        ask = ApprovalOperator(
            task_id="ask",
            subject="Abort transactions that others have opened?",
            body="{{ ti.xcom_pull(task_ids='abort.find_old_ones')['text'] }}",
        )
        found >> ask >> abort(found)
