"""Every quarter of an hour: bring a mirror in Iceberg to the newest version of a Hive table.

The Iceberg table has the rows of the Hive table, and jobs continue to write the Hive table. The first run
creates the mirror; each further run adds the changes since then as one snapshot.

A second DAG, `iceberg_mirror_report`, stands for the readers of the mirror, which another team may
schedule. Its sensor waits until the mirror is fresh: until it has all versions of the Hive table, or all but
those of the last half hour. So a mirror that no longer runs delays the report, and then fails it.

Needs one connection, `hive_acid_default` (the metastore), and the extra `iceberg`, but no Spark. The
catalog of the mirror is the metastore; with `catalog_options` of the job and of the sensor, it is
another one.
"""

from datetime import datetime, timedelta

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param

from airflow_hiveacid import HiveAcidToIcebergOperator
from airflow_hiveacid.sensors import HiveAcidMirrorFreshSensor
from hiveacid.jobs import IcebergExportJob

PARAMS = {
    "table": Param("default.orders", type="string", description="The Hive table"),
    "mirror": Param("default.orders_iceberg", type="string", description="The Iceberg table"),
}

with DAG(
    dag_id="iceberg_mirror",
    schedule=timedelta(minutes=15),
    start_date=datetime(2026, 1, 1),
    catchup=False,
    # Of two concurrent runs, only one could commit.
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    params=PARAMS,
    doc_md=__doc__,
    tags=["hive-acid", "example"],
):
    HiveAcidToIcebergOperator(
        task_id="to_iceberg",
        job=IcebergExportJob(target="{{ params.table }}", table="{{ params.mirror }}"),
    )

with DAG(
    dag_id="iceberg_mirror_report",
    schedule="@hourly",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    params=PARAMS,
    doc_md=__doc__,
    tags=["hive-acid", "example"],
):
    fresh = HiveAcidMirrorFreshSensor(
        task_id="fresh",
        target="{{ params.table }}",
        table="{{ params.mirror }}",
        max_lag=timedelta(minutes=30),
        deferrable=True,
        poke_interval=60,
        timeout=45 * 60,
    )
    fresh >> EmptyOperator(task_id="report")
