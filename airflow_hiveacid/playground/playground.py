"""A metastore, an Airflow and four active tables, which run until they are stopped."""

import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from airflow_hiveacid.cluster.packaged import example_dags
from airflow_hiveacid.playground.local_airflow import LocalAirflow, own_folder, run_program
from hiveacid.jobs.options import METASTORE_VARIABLE
from hiveacid.metastore.dev.embedded import EmbeddedMetastore, free_port
from hiveacid.rules.texts import print_lines

# Four unlike tables, as the playground finds them when it begins


TABLES = ("shop.orders", "shop.customers", "shop.clicks", "shop.carts")
_THRESHOLD = "compactorthreshold.hive.compactor.delta"
# Under this load, a day of versions would fill a disk.
_RETENTION = "'hiveacid.retention' = '0'"

# Small tables reach Hive's own thresholds, ten deltas or a tenth of the base, with the first
# writes. Filling them again gives the same result: an earlier start may have ended in the middle.
SQL = f"""
CREATE DATABASE IF NOT EXISTS shop;

CREATE TABLE IF NOT EXISTS orders (id bigint, customer int, status string, amount decimal(10,2))
COMMENT 'A fact: partitioned, bucketed, changed by a merge'
PARTITIONED BY (day date) CLUSTERED BY (id) INTO 2 BUCKETS
TBLPROPERTIES ('{_THRESHOLD}.num.threshold' = '5', '{_THRESHOLD}.pct.threshold' = '2',
    {_RETENTION});

CREATE TABLE IF NOT EXISTS customers (id int, name string, city string, points int)
COMMENT 'A dimension: no partitions, a few rows updated each time'
TBLPROPERTIES ('{_THRESHOLD}.num.threshold' = '4', '{_THRESHOLD}.pct.threshold' = '4',
    {_RETENTION});

CREATE TABLE IF NOT EXISTS clicks (at timestamp, customer int, path string)
COMMENT 'A log: insert-only, in Parquet' STORED AS PARQUET
TBLPROPERTIES ('transactional_properties' = 'insert_only', '{_THRESHOLD}.num.threshold' = '3',
    '{_THRESHOLD}.pct.threshold' = '4',
    {_RETENTION});

CREATE TABLE IF NOT EXISTS carts (id bigint, customer int)
COMMENT 'Narrow, with many deletes'
TBLPROPERTIES ('{_THRESHOLD}.num.threshold' = '5', '{_THRESHOLD}.pct.threshold' = '6',
    {_RETENTION});

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


def fill_shop(
    folder: Path, metastore_uri: str, environment: Mapping[str, str], master: str
) -> None:
    """Create the tables with their first rows, unless that has been done.

    Args:
        folder: Where it is noted that it has been done.
        metastore_uri: The metastore.
        environment: That of the program which does it.
        master: Where Spark runs.

    Raises:
        JobFailed: It did not work.
    """
    marker = folder / "tables-are-filled"
    if marker.exists():
        return
    command = [sys.executable, "-m", "hiveacid.cli.main", "sql", SQL]
    command += ["--database", "shop", "--metastore", metastore_uri, "--master", master]
    run_program("hiveacid sql", command, environment=environment, log=folder / "tables.log")
    marker.touch()


DAGS = Path(__file__).parent / "dags"
_MASTER = "local[2]"
_METASTORE_PORT = 9083
_LOOK_SECONDS = 1
_PAGE_DAG = "compact_or_clean"
_WORDS = """
The playground is up.

  Page      {url}/plugin/hiveacid
  Login     {login}
  Load      the DAG shop_load, every {seconds:g} s; change it in {dags}
  Compacts  the DAG shop_compaction, as soon as a table needs it

In another terminal:

  export PATH={bin}:$PATH {variable}={uri}
  hiveacid tables shop
  hiveacid history shop.orders
  hiveacid sql "SELECT status, count(*) FROM orders GROUP BY status" --database shop

Ctrl-C ends all of it; the next start goes on with it."""


class Playground:
    """All parts of the playground, in one folder, where the next start continues.

    Args:
        folder: Takes everything.
        version: The version of the metastore.
        port: Where the page is; when not given 8080, or another one that is free.
        load_seconds: From one load to the next.
        fresh: Whether to begin with an empty folder.
    """

    def __init__(
        self, folder: Path, *, version: str, port: int | None, load_seconds: float, fresh: bool
    ) -> None:
        self._folder = folder.absolute()
        self._version = version
        self._port = port
        self._load_seconds = load_seconds
        self._fresh = fresh

    def run(self) -> None:
        """Start all parts, print instructions, and run until a signal arrives.

        Raises:
            JobFailed: A part did not start, or has ended by itself.
        """
        with self._running() as (metastore, airflow):
            words = _WORDS.format(
                url=airflow.url,
                login=airflow.login,
                seconds=self._load_seconds,
                dags=self._folder / "dags",
                bin=Path(sys.executable).parent,
                variable=METASTORE_VARIABLE,
                uri=metastore.uri,
            )
            print_lines(words.splitlines())
            sys.stdout.flush()
            while True:
                time.sleep(_LOOK_SECONDS)
                airflow.require_all()
                metastore.require_running()

    @contextmanager
    def _running(self) -> Iterator[tuple[EmbeddedMetastore, LocalAirflow]]:
        with ExitStack() as stack:
            stack.enter_context(own_folder(self._folder, fresh=self._fresh))
            print(f"Starting a Hive Metastore {self._version}", flush=True)
            metastore = stack.enter_context(
                EmbeddedMetastore(
                    # The files of one version's database are nothing for the other one.
                    self._version,
                    directory=self._folder / "metastore",
                    port=free_port(_METASTORE_PORT),
                )
            )
            airflow = self._airflow(metastore)
            print("Creating four tables", flush=True)
            fill_shop(self._folder, metastore.uri, airflow.environment, _MASTER)
            print("Starting Airflow", flush=True)
            airflow.run("db", "migrate")
            stack.callback(airflow.stop)
            stack.callback(print, "Ending Airflow and the metastore ...", flush=True)
            airflow.start()
            yield metastore, airflow

    def _airflow(self, metastore: EmbeddedMetastore) -> LocalAirflow:
        dags = self._folder / "dags"
        dags.mkdir(exist_ok=True)
        for file in (*DAGS.glob("shop_*.py"), example_dags() / f"{_PAGE_DAG}.py"):
            # The user's changes there are kept.
            if not (dags / file.name).exists():
                shutil.copy(file, dags)
        airflow = LocalAirflow(
            self._folder,
            dags=dags,
            metastore_uri=metastore.uri,
            master=_MASTER,
            port=self._port,
            settings={
                # The last line of a log contains the result: it must be completely visible.
                "API__DEFAULT_WRAP": True,
                "CORE__DAGS_ARE_PAUSED_AT_CREATION": False,
                "DAG_PROCESSOR__REFRESH_INTERVAL": 30,
                "HIVE_ACID__JAVA_ARCHIVE": self._folder / "java",
                "HIVE_ACID__PAGE_DAG": _PAGE_DAG,
                "HIVE_ACID__PAGE_REFRESH_SECONDS": 10,
            },
        )
        airflow.environment["HIVEACID_DEMO_SECONDS"] = str(self._load_seconds)
        return airflow
