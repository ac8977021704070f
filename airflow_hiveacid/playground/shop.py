"""Four unlike tables, as the playground finds them when it begins."""

import sys
from collections.abc import Mapping
from pathlib import Path

from airflow_hiveacid.playground.local_airflow import run_program

TABLES = ("shop.orders", "shop.customers", "shop.clicks", "shop.carts")
_THRESHOLD = "compactorthreshold.hive.compactor.delta"

# Small tables reach Hive's own thresholds, ten deltas or a tenth of the base, with the first
# writes. Filling them again gives the same result: an earlier start may have ended in the middle.
SQL = f"""
CREATE DATABASE IF NOT EXISTS shop;

CREATE TABLE IF NOT EXISTS orders (id bigint, customer int, status string, amount decimal(10,2))
COMMENT 'A fact: partitioned, bucketed, changed by a merge'
PARTITIONED BY (day date) CLUSTERED BY (id) INTO 2 BUCKETS
TBLPROPERTIES ('{_THRESHOLD}.num.threshold' = '5', '{_THRESHOLD}.pct.threshold' = '2');

CREATE TABLE IF NOT EXISTS customers (id int, name string, city string, points int)
COMMENT 'A dimension: no partitions, a few rows updated each time'
TBLPROPERTIES ('{_THRESHOLD}.num.threshold' = '4', '{_THRESHOLD}.pct.threshold' = '4');

CREATE TABLE IF NOT EXISTS clicks (at timestamp, customer int, path string)
COMMENT 'A log: insert-only, in Parquet' STORED AS PARQUET
TBLPROPERTIES ('transactional_properties' = 'insert_only', '{_THRESHOLD}.num.threshold' = '3',
    '{_THRESHOLD}.pct.threshold' = '4');

CREATE TABLE IF NOT EXISTS carts (id bigint, customer int)
COMMENT 'Narrow, with many deletes'
TBLPROPERTIES ('{_THRESHOLD}.num.threshold' = '5', '{_THRESHOLD}.pct.threshold' = '6');

INSERT OVERWRITE TABLE orders
SELECT id, id % 500, 'sent', CAST(id % 90 + 9.5 AS decimal(10,2)),
    date_sub(current_date(), CAST(id % 5 AS int))
FROM range(20000);

INSERT OVERWRITE TABLE customers
SELECT id, concat('Customer ', id), element_at(array('Lviv', 'Porto', 'Oslo'), CAST(id % 3 + 1 AS int)), 0
FROM range(500);

INSERT OVERWRITE TABLE clicks
SELECT current_timestamp(), id % 500, concat('/product/', id % 40) FROM range(5000);

INSERT OVERWRITE TABLE carts SELECT id, id % 500 FROM range(2000)
"""


def fill(folder: Path, metastore_uri: str, environment: Mapping[str, str], master: str) -> None:
    """Create the tables with their first rows, unless that has been done.

    Args:
        folder: Where it is noted that it has been done.
        metastore_uri: The metastore.
        environment: That of the program which does it.
        master: Where Spark runs.

    Raises:
        DemoFailed: It did not work.
    """
    done = folder / "tables-are-filled"
    if done.exists():
        return
    command = [sys.executable, "-m", "hiveacid.cli.main", "sql", SQL]
    command += ["--database", "shop", "--metastore", metastore_uri, "--master", master]
    run_program("hiveacid sql", command, environment=environment, log=folder / "tables.log")
    done.touch()
