"""Periodic load: new and changed orders, points for customers, clicks, carts that come and go.

One Spark application runs all statements, each in a transaction of its own. They depend only on the
time of the run, so that a retried task does the same. Change them, and see the effect on the page
*Hive ACID tables*.
"""

import os
from datetime import datetime, timedelta

from airflow.sdk import DAG

from airflow_hiveacid import HiveAcidSqlOperator

SQL = """
{%- set n = dag_run.run_after.timestamp() | int -%}
{%- set today = "DATE '" ~ dag_run.run_after.date() ~ "'" -%}
-- A fact: 60 new orders; half of the last ones are sent, some are cancelled.
MERGE INTO orders t
USING (
    SELECT id, customer, if(pmod(hash(id), 9) = 0, 'cancelled', 'sent') AS status,
        amount, day
    FROM orders
    WHERE day >= date_sub({{ today }}, 1) AND status = 'new'
        AND pmod(hash(id, {{ n }}), 2) = 0
    UNION ALL
    SELECT {{ n * 100 }} + id, pmod(hash(id, {{ n }}), 500), 'new',
        CAST(pmod(hash(id, {{ n }}), 9000) / 100 AS decimal(10,2)),
        date_sub({{ today }}, CAST(id % 2 AS int))
    FROM range(60)
) s
ON t.day = s.day AND t.id = s.id
WHEN MATCHED AND s.status = 'cancelled' THEN DELETE
WHEN MATCHED THEN UPDATE SET status = s.status
WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.customer, s.status, s.amount, s.day);

-- A dimension without partitions: some customers get points.
UPDATE customers SET points = points + 10 WHERE pmod(hash(id, {{ n }}), 40) = 0;

-- A log, which only grows.
INSERT INTO clicks
SELECT current_timestamp(), pmod(hash(id, {{ n }}), 500), concat('/product/', id % 40) FROM range(200);

-- A narrow table, most of whose rows are soon deleted.
INSERT INTO carts SELECT {{ n * 1000 }} + id, pmod(hash(id, {{ n }}), 500) FROM range(300);
DELETE FROM carts WHERE pmod(hash(id, {{ n }}), 3) > 0
"""

with DAG(
    dag_id="shop_load",
    schedule=timedelta(seconds=float(os.environ.get("HIVEACID_DEMO_SECONDS", "90"))),
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=10)},
    doc_md=__doc__,
    tags=["hive-acid", "playground"],
):
    HiveAcidSqlOperator(task_id="load", database="shop", sql=SQL)
