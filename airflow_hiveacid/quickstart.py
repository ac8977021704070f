"""A first look: a real metastore, a demo table; Airflow merges, compacts and cleans it.

``make quickstart``, or ``python -m airflow_hiveacid.quickstart`` where Java 17 is installed. All it
makes is in one folder, which each run empties first; only the metastore's distribution is kept. With
``--stay``, or ``make quickstart STAY=1``, Airflow starts at the end and shows the page of the tables.
"""

import argparse
import json
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from airflow_hiveacid.cluster.packaged import example_dags, package_zip, spark_app_path
from airflow_hiveacid.playground.local_airflow import LocalAirflow, own_folder, run_program
from hiveacid.cli.command import until_ended
from hiveacid.cli.output import print_table
from hiveacid.errors import HiveAcidError
from hiveacid.foreign.text import parse_json
from hiveacid.jobs.job_json import to_json
from hiveacid.jobs.options import METASTORE_VARIABLE
from hiveacid.jobs.sources import PathSource
from hiveacid.jobs.write_jobs import InsertJob
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.names import TableRef
from hiveacid.rules.texts import bytes_in_words

TABLE = TableRef("demo", "customers")
MASTER = "local[2]"
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
CORRECTION = f"""\
   MERGE INTO {TABLE} t
   USING (SELECT id, country, 'sophie@example.org' AS email FROM {TABLE} WHERE id = 3) s
   ON t.country = s.country AND t.id = s.id
   WHEN MATCHED THEN UPDATE SET email = s.email"""


def main() -> int:
    """Run the quickstart and return its exit code."""
    parser = argparse.ArgumentParser(prog="quickstart", description=__doc__)
    parser.add_argument("--directory", type=Path, default=Path("build/quickstart"))
    parser.add_argument("--stay", action="store_true", help="show the page until Ctrl-C")
    arguments = parser.parse_args()
    directory: Path = arguments.directory.absolute()
    is_complete = False
    try:
        with until_ended(), own_folder(directory, fresh=True):
            run(directory, stay=arguments.stay)
            is_complete = True
    except HiveAcidError as error:
        print(f"\nquickstart: {error}", file=sys.stderr)
        return error.exit_code
    if not is_complete:
        print("\nquickstart: ended; no process is left", file=sys.stderr)
        return 0 if arguments.stay else 130  # The exit code of a shell for Ctrl-C.
    return 0


def run(directory: Path, *, stay: bool) -> None:
    """Do all steps below one folder."""
    start = time.monotonic()
    print_headline("Starting a Hive Metastore 4.0.1")
    with EmbeddedMetastore(directory=directory / "metastore") as metastore:
        airflow = LocalAirflow(
            directory, dags=example_dags(), metastore_uri=metastore.uri, master=MASTER
        )
        print(f"   It answers at {metastore.uri}")
        print_headline(f"Creating the table {TABLE} and inserting {len(CUSTOMERS)} customers")
        create_table(metastore)
        insert(directory, airflow.environment, metastore)
        print_headline("The table before the merge: one delta in each partition")
        before = files_of(metastore.warehouse)
        show_rows(metastore)
        print()
        print_table(("file", "size"), list(before.items()), right=[1])

        print_headline(f"Running the DAG hourly_merge on a feed of {len(CHANGES)} changes")
        feed = directory / "feed"
        write_changes(feed / HOUR)
        print_table(*table_of(CHANGES))
        airflow.run("db", "migrate")
        merge = ["dags", "test", "hourly_merge"]
        airflow.run(*merge, NEXT_HOUR, "--conf", json.dumps({"feed": str(feed)}))

        print_headline("After it: new deltas hold new rows, and delete deltas the ids of old ones")
        merged = files_of(metastore.warehouse)
        show_rows(metastore)
        print()
        show_difference(before, merged)
        print_headline("Its report, which the task returned as XCom")
        report = merge_report(directory / "airflow")
        show_report(report)

        print_headline("Correcting an address by a merge in the worker: without Spark and Java")
        seconds = correct(directory, metastore)
        spark = sum(report["seconds"].values())
        print(f"   It took {seconds:.1f} s, and the merge on Spark {spark:.1f} s.")
        merged = files_of(metastore.warehouse)

        print_headline("Running the DAG automatic_compaction, with two deltas taken for too many")
        thresholds = {"table": str(TABLE), "max_deltas": 1}
        log = airflow.run("dags", "test", "automatic_compaction", "--conf", json.dumps(thresholds))
        for reason in re.findall(rf"\] ({re.escape(str(TABLE))}\S* needs .*?\.) +\[", log):
            print(f"   {reason}")
        print_headline(
            "After it: compacted partitions have one base; what it replaced is kept for a day"
        )
        show_difference(merged, files_of(metastore.warehouse))
        print_headline("So the version before the merge can still be read")
        show_rows(metastore, "--as-of", "1")
        print_headline(
            "Cleaning without this retention, as Hive does: only the newest version stays"
        )
        clean(metastore)
        print_headline("The rows, with the row ids that they had before")
        show_rows(metastore, "--row-ids")
        print(f"\nDone in {time.monotonic() - start:.0f} s. Everything is in {directory}.")
        if stay:
            show_page(airflow, metastore)


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


def insert(directory: Path, environment: Mapping[str, str], metastore: EmbeddedMetastore) -> None:
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
    log = directory / "insert.log"
    run_program("spark-submit run.py", command, environment=environment, log=log)


def write_changes(hour: Path) -> None:
    """Write one hour of the change feed."""
    hour.mkdir(parents=True)
    changes = [
        json.dumps(change | {"changed_at": f"{HOUR}:{minute:02}:00Z"}, ensure_ascii=False)
        for minute, change in enumerate(CHANGES)
    ]
    (hour / "changes.json").write_text("\n".join(changes), encoding="utf-8")


def merge_report(airflow_home: Path) -> dict[str, Any]:
    """Fetch the result of the merge from this quickstart's own Airflow."""
    with closing(sqlite3.connect(airflow_home / "airflow.db")) as database:
        (value,) = database.execute(
            "SELECT value FROM xcom WHERE task_id = 'merge' AND key = 'return_value'"
        ).fetchone()
    report: dict[str, Any] = parse_json(value)
    return report


def correct(directory: Path, metastore: EmbeddedMetastore) -> float:
    """Change a row by the command line, and return the seconds from its start to its end."""
    command = ["sql", "--run-in", "worker", "--metastore", metastore.uri, CORRECTION]
    print(f"   hiveacid {' '.join(command[:3])} '\n{CORRECTION}'\n", flush=True)
    start = time.monotonic()
    with (directory / "correction.log").open("wb") as log:
        program = [sys.executable, "-m", "hiveacid.cli.main", *command]
        subprocess.run(program, check=True, stderr=log)
    return time.monotonic() - start


def clean(metastore: EmbeddedMetastore) -> None:
    """Remove the replaced directories by the command line."""
    command = ["clean", str(TABLE), "--retention", "0", "--metastore", metastore.uri]
    print(f"   hiveacid {' '.join(command)}\n", flush=True)
    program = [sys.executable, "-m", "hiveacid.cli.main", *command]
    subprocess.run(program, check=True, stderr=subprocess.DEVNULL)


def files_of(warehouse: Path) -> dict[str, str]:
    """The data files of the table with their sizes."""
    table = next(warehouse.rglob(TABLE.name))
    return {
        str(path.relative_to(table)): bytes_in_words(path.stat().st_size)
        for path in sorted(table.rglob("bucket_*"))
    }


def table_of(records: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """The names of all fields, and the rows of their values."""
    names = list(dict.fromkeys(name for record in records for name in record))
    return names, [[str(record.get(name, "")) for name in names] for record in records]


def show_rows(metastore: EmbeddedMetastore, *options: str) -> None:
    """Print the rows that a reader of the table sees."""
    command = ["cat", str(TABLE), "--metastore", metastore.uri, *options]
    print(f"   hiveacid {' '.join(command)}\n", flush=True)
    rows = subprocess.run(
        [sys.executable, "-m", "hiveacid.cli.main", *command],
        check=True,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    head, *lines = [line.split("\t") for line in rows.stdout.splitlines()]
    print_table(head, lines)


def show_difference(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Print all files, with a sign at those that came and at those that went."""
    rows = []
    for file, size in sorted({**before, **after}.items()):
        sign = "+" if file not in before else " " if file in after else "-"
        rows.append((sign, file, size))
    print_table(("", "file", "size"), rows, right=[2])


def show_report(report: Mapping[str, Any]) -> None:
    """Print the changes of a merge, and the duration of its phases."""
    counts = ("rows_inserted", "rows_updated", "rows_deleted", "files", "txn_id")
    rows = [(name.replace("_", " "), str(report[name])) for name in counts]
    rows.append(("bytes", bytes_in_words(report["bytes"])))
    rows.append(("partitions", ", ".join(report["partitions"])))
    rows += [(name, f"{seconds:.1f} s") for name, seconds in report["seconds"].items()]
    print_table(("", "merge"), rows)


def show_page(airflow: LocalAirflow, metastore: EmbeddedMetastore) -> None:
    """Start Airflow and stay until a signal ends that."""
    print_headline("Starting Airflow, with the page of the tables")
    try:
        airflow.start()
        print(f"\n  Page   {airflow.url}/plugin/hiveacid\n  Login  {airflow.login}")
        print(f"\n  export {METASTORE_VARIABLE}={metastore.uri}\n\nCtrl-C ends it.", flush=True)
        while True:
            time.sleep(1)
            airflow.require_all()
    finally:
        airflow.stop()


def print_headline(text: str) -> None:
    """Print a headline."""
    print(f"\n== {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
