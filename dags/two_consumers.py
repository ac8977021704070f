"""After each change of a table: log every change, and apply it to a copy.

Both tasks are consumers of one table, with different names. They copy one range of versions after the
other, and each change once, despite retries, cleared tasks and concurrent runs; if one of them fails,
the other continues. So the schedule only triggers polls: a duplicate event finds nothing new, and the
next event covers a missed one.

Needs two connections: `hive_acid_default` (the metastore) and `spark_default` (for example with
`local[*]` as its host). All three tables have the columns `id bigint, status string`; that of the log
has also `change string, version bigint`.
"""

from datetime import datetime, timedelta

from airflow.sdk import DAG, Asset, AssetWatcher

from airflow_hiveacid import ChangesSource, HiveAcidChangesOperator, QuerySource
from airflow_hiveacid.triggers import HiveAcidNewDataEventTrigger
from hiveacid.jobs import InsertJob, mirror_job

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
                # With the key, an update is reported as such: the row before it, and the row after it.
                inputs={"changed": ChangesSource(TABLE, after="0", keys=["id"])},
            ),
        ),
    )
    mirror = HiveAcidChangesOperator(
        task_id="mirror", consumer="mirror", job=mirror_job(TABLE, COPY, ["id"])
    )
