"""Whenever a table has changed: log every change of it, and make a copy follow it.

Both tasks are consumers of one table, each of a name of its own. They copy range after range of
versions, and each change once, however often they are tried, cleared or run at the same time; when one
of them fails, the other goes on. So the schedule only says when it is time to look: an event that comes
twice finds nothing new, and one that is missed is made up for by the next.

Needs two connections: `hive_acid_default` (the metastore) and `spark_default` (for example with
`local[*]` as its host). All three tables have the columns `id bigint, status string`; that of the log
has also `change string, version bigint`.
"""

from datetime import datetime, timedelta

from airflow.sdk import DAG, Asset, AssetWatcher

from airflow_hiveacid import (
    ChangesSource,
    HiveAcidChangesOperator,
    HiveAcidNewDataEventTrigger,
    InsertJob,
    QuerySource,
    mirror_job,
)

TABLE, LOG, COPY = "default.orders", "default.order_changes", "default.orders_copy"

CHANGED = Asset(
    f"{TABLE}_changed",
    watchers=[
        AssetWatcher(name=f"{TABLE}_changed", trigger=HiveAcidNewDataEventTrigger(table=TABLE))
    ],
)

with DAG(
    dag_id="two_consumers",
    schedule=[CHANGED],
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    doc_md=__doc__,
    tags=["hive-acid", "example"],
):
    log = HiveAcidChangesOperator(
        task_id="log",
        consumer="log",
        job=InsertJob(
            target=LOG,
            source=QuerySource(
                sql="SELECT id, status, _change_type AS change, _write_id AS version FROM changed",
                # With the key, an update is told as such: the row before it, and the row after it.
                inputs={"changed": ChangesSource(TABLE, after="0", keys=["id"])},
            ),
        ),
    )
    mirror = HiveAcidChangesOperator(
        task_id="mirror", consumer="mirror", job=mirror_job(TABLE, COPY, ["id"])
    )
