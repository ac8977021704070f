"""A first look: a real metastore, a demo table; Airflow merges, compacts and cleans it.

``make quickstart``, or ``python -m airflow_hiveacid.quickstart`` where Java 17 is installed. All it
makes is in one folder, which each run empties first; only the metastore's distribution is kept.
"""

import argparse
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.cluster.packaged import example_dags, package_zip, spark_app_path
from airflow_hiveacid.errors import HiveAcidError
from airflow_hiveacid.jobs.codec import to_json
from airflow_hiveacid.jobs.sources import PathSource
from airflow_hiveacid.jobs.write_jobs import InsertJob
from airflow_hiveacid.metastore.catalog import HiveColumn, HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.dev.embedded import EmbeddedMetastore

TABLE = TableRef("demo", "customers")
MASTER = "local[2]"
# A few rows on one machine: Spark's 200 tasks for each shuffle, and thorough compiling of code that
# soon ends, would take most of the time.
SPARK_DEFAULTS = """\
spark.driver.extraJavaOptions  -XX:TieredStopAtLevel=1
spark.sql.shuffle.partitions   2
spark.ui.enabled               false
spark.log.level                WARN
"""
HOUR, NEXT_HOUR = "2026-11-20T09", "2026-11-20T10:00:00+00:00"
CUSTOMERS = [
    {"id": 1, "country": "de", "name": "Emmy", "email": "emmy@example.com"},
    {"id": 2, "country": "de", "name": "Max", "email": "max@example.com"},
    {"id": 3, "country": "fr", "name": "Sophie", "email": "sophie@example.com"},
    {"id": 4, "country": "fr", "name": "Henri", "email": "henri@example.com"},
    {"id": 5, "country": "pl", "name": "Maria", "email": "maria@example.com"},
]
CHANGES = [
    {"id": 2, "country": "de", "op": "upsert", "name": "Max", "email": "max@example.org"},
    {"id": 4, "country": "fr", "op": "delete"},
    {"id": 6, "country": "fr", "op": "upsert", "name": "Évariste", "email": "eg@example.com"},
    {"id": 7, "country": "hu", "op": "upsert", "name": "Paul", "email": "paul@example.com"},
    {"id": 7, "country": "hu", "op": "upsert", "name": "Pál", "email": "paul@example.com"},
]


def main() -> int:
    """Run the quickstart and return its exit code."""
    parser = argparse.ArgumentParser(prog="quickstart", description=__doc__)
    parser.add_argument("--directory", type=Path, default=Path("build/quickstart"))
    directory: Path = parser.parse_args().directory.absolute()
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    begun = time.monotonic()
    try:
        run(directory)
    except HiveAcidError as error:
        print(f"\nquickstart: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("\nquickstart: interrupted; nothing runs on", file=sys.stderr)
        return 130  # What a shell reports for Ctrl-C.
    print(f"\nDone in {time.monotonic() - begun:.0f} s. Everything is in {directory}.")
    return 0


def run(directory: Path) -> None:
    """Do all steps below one folder."""
    say("Starting a Hive Metastore 4.0.1")
    with EmbeddedMetastore(directory=directory / "metastore") as metastore:
        environment = airflow_environment(directory, metastore.uri)
        print(f"   It answers at {metastore.uri}")
        say(f"Creating the table {TABLE} and inserting {len(CUSTOMERS)} customers")
        create_table(metastore)
        insert(directory, environment, metastore)
        say("The table's files before the merge: one delta in each partition")
        before = files_of(metastore.warehouse)
        print("\n".join(f"   {line}" for line in before))

        say(f"Running the DAG hourly_merge on a feed of {len(CHANGES)} changes")
        feed = directory / "feed"
        for line in write_changes(feed / HOUR):
            print(f"   {line}")
        airflow = Airflow(directory, environment)
        airflow.run("db", "migrate")
        merge = ["dags", "test", "hourly_merge"]
        airflow.run(*merge, NEXT_HOUR, "--conf", json.dumps({"feed": str(feed)}))

        say("After it: new deltas hold new rows, and delete deltas the ids of old ones")
        merged = files_of(metastore.warehouse)
        show_difference(before, merged)
        say("Its report, which the task returned as XCom")
        print(json.dumps(merge_report(directory / "airflow"), indent=2))

        say("Running the DAG automatic_compaction, with two deltas taken for too many")
        thresholds = {"table": str(TABLE), "max_deltas": 1}
        log = airflow.run("dags", "test", "automatic_compaction", "--conf", json.dumps(thresholds))
        for reason in re.findall(rf"\] ({re.escape(str(TABLE))}\S* needs .*?\.) +\[", log):
            print(f"   {reason}")
        say("After it: what was compacted is one base, and what it replaced has been cleaned")
        show_difference(merged, files_of(metastore.warehouse))
        cat = ["cat", str(TABLE), "--metastore", metastore.uri, "--row-ids"]
        say(f"The rows, with the row ids that they had before: hiveacid {' '.join(cat)}")
        rows = subprocess.run(
            [sys.executable, "-m", "airflow_hiveacid.cli.main", *cat],
            check=True,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )
        print(rows.stdout.expandtabs(20), end="")


class Airflow:
    """The Airflow that only this quickstart uses."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self._log = directory / "airflow.log"
        self._environment = environment

    def run(self, *command: str) -> str:
        """Run a command of Airflow and return what it logged."""
        before = self._log.stat().st_size if self._log.exists() else 0
        title = " ".join(["airflow", *command[:3]])
        wait(title, [sys.executable, "-m", "airflow", *command], self._environment, self._log)
        return self._log.read_bytes()[before:].decode(errors="replace")


def airflow_environment(directory: Path, metastore_uri: str) -> dict[str, str]:
    """Return the environment of an Airflow of its own, with the example's two connections."""
    host, port = metastore_uri.removeprefix("thrift://").split(":")
    metastore = {"conn_type": "hive_acid_metastore", "host": host, "port": int(port)}
    spark = directory / "spark"
    spark.mkdir()
    (spark / "spark-defaults.conf").write_text(SPARK_DEFAULTS, encoding="utf-8")
    # Whatever Airflow or Spark the user has is neither touched nor used.
    theirs = ("AIRFLOW_", "SPARK_", "PYSPARK_")
    own = {name: value for name, value in os.environ.items() if not name.startswith(theirs)}
    return own | {
        "AIRFLOW_HOME": str(directory / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(example_dags()),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW_CONN_HIVE_ACID_DEFAULT": json.dumps(metastore),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": MASTER}),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_CONF_DIR": str(spark),
        "TZ": "UTC",
    }


def create_table(metastore: EmbeddedMetastore) -> None:
    """Create the demo table, partitioned by country."""
    with closing(MetastoreClient(metastore.options)) as client:
        client.create_database(TABLE.database)
        columns = [
            HiveColumn("id", "bigint"),
            HiveColumn("name", "string"),
            HiveColumn("email", "string"),
        ]
        country = [HiveColumn("country", "string")]
        client.create_table(HiveTable.new(TABLE, columns, partition_keys=country))


def insert(directory: Path, environment: dict[str, str], metastore: EmbeddedMetastore) -> None:
    """Fill the table by the application that HiveAcidInsertOperator submits, without Airflow."""
    rows = directory / "customers.json"
    rows.write_text("\n".join(map(json.dumps, CUSTOMERS)), encoding="utf-8")
    source = PathSource(
        path=str(rows),
        format="json",
        schema="id BIGINT, name STRING, email STRING, country STRING",
    )
    job = directory / "insert.json"
    job.write_text(
        to_json(InsertJob(target=str(TABLE), source=source, metastore=metastore.options)),
        encoding="utf-8",
    )
    files = ["--job", str(job), "--report", str(directory / "insert-report.json")]
    submit = ["spark-submit", "--master", MASTER, "--py-files", str(package_zip(directory))]
    command = [*submit, str(spark_app_path()), *files]
    wait("spark-submit run.py", command, environment, directory / "insert.log")


def write_changes(hour: Path) -> list[str]:
    """Write one hour of the change feed and return its lines."""
    hour.mkdir(parents=True)
    changes = [
        json.dumps(change | {"changed_at": f"{HOUR}:{minute:02}:00Z"}, ensure_ascii=False)
        for minute, change in enumerate(CHANGES)
    ]
    (hour / "changes.json").write_text("\n".join(changes), encoding="utf-8")
    return changes


def merge_report(airflow_home: Path) -> dict[str, Any]:
    """Look up what the merge returned, in the Airflow that only this quickstart uses."""
    with closing(sqlite3.connect(airflow_home / "airflow.db")) as database:
        (value,) = database.execute(
            "SELECT value FROM xcom WHERE task_id = 'merge' AND key = 'return_value'"
        ).fetchone()
    report: dict[str, Any] = json.loads(value)
    return report


def files_of(warehouse: Path) -> list[str]:
    """List the data files of the table with their sizes."""
    table = next(warehouse.rglob(TABLE.name))
    return [
        f"{path.relative_to(table)}  {path.stat().st_size} bytes"
        for path in sorted(table.rglob("bucket_*"))
    ]


def show_difference(before: Sequence[str], after: Sequence[str]) -> None:
    """Print all files, with a sign at those that came and at those that went."""
    for line in sorted({*before, *after}):
        sign = "+" if line not in before else " " if line in after else "-"
        print(f" {sign} {line}")


def say(text: str) -> None:
    """Print a headline."""
    print(f"\n== {text}", flush=True)


def wait(title: str, command: Sequence[str], environment: dict[str, str], log: Path) -> None:
    """Run a command with its output in a log, and show that it is still at work."""
    begun = time.monotonic()
    print(f"   {title} ", end="", flush=True)
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
        while process.poll() is None:
            try:
                process.wait(timeout=2)
            except subprocess.TimeoutExpired:
                print(".", end="", flush=True)
    print(f" {time.monotonic() - begun:.0f} s", flush=True)
    if process.returncode:
        tail = log.read_text(encoding="utf-8", errors="replace").splitlines()[-30:]
        print("\n".join(tail), file=sys.stderr)
        raise SystemExit(f"{title} ended with exit code {process.returncode}; see {log}.")


if __name__ == "__main__":
    sys.exit(main())
