"""The life of a task whose Spark runs in the worker, from the start of its operator to its report.

    PYTHONPATH=. python bench/start.py --rounds 5 --json out.json

A merge of 1,000 rows into a table of two partitions, each time by a worker process of its own, with
an archive of Spark's classes and without in turn. The metastore is that of the tests, which takes
no time. In addition to the phases of the report, "worker" is the time of the operator before and
after. "repeated" are the seconds of equal merges in one application: the second and later ones show
what a driver that serves several tasks would leave of the work.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from hiveacid.jobs.job_json import to_json
from hiveacid.jobs.sources import PathSource
from hiveacid.jobs.write_jobs import MergeJob
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.merge import MatchedUpdate, NotMatchedInsert
from hiveacid.rules.names import TableRef
from tests.fakes.metastore import FakeMetastore

ROWS = 1000
# The work of an Airflow worker for a task, once its DAG is parsed.
WORKER = """\
import json, sys, time
from types import SimpleNamespace
from airflow_hiveacid import HiveAcidMergeOperator
from hiveacid.jobs.job_json import from_json
ti = SimpleNamespace(
    dag_id="d", run_id=sys.argv[2], task_id="t", map_index=-1, xcom_push=lambda key, value: None
)
operator = HiveAcidMergeOperator(task_id="t", job=from_json(sys.argv[1]))
began = time.perf_counter()
report = operator.execute({"ti": ti, "task": SimpleNamespace(outlets=[])})
whole = time.perf_counter() - began
print("RESULT", json.dumps({"whole": whole, **report["seconds"]}))
"""
# Several merges in one application, as in a driver that outlives its task.
REPEATED = """\
import json, sys
from types import SimpleNamespace
from airflow_hiveacid import HiveAcidSqlOperator
ti = SimpleNamespace(
    dag_id="d", run_id=sys.argv[2], task_id="r", map_index=-1, xcom_push=lambda key, value: None
)
operator = HiveAcidSqlOperator(task_id="r", sql=sys.argv[1])
report = operator.execute({"ti": ti, "task": SimpleNamespace(outlets=[])})
done = [sum(each["run"]["seconds"].values()) for each in report["statements"]]
print("RESULT", json.dumps({str(at): seconds for at, seconds in enumerate(done, start=1)}))
"""
MERGES = 6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--master", default="local[*]")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="hiveacid-bench-"))
    try:
        result = measure(arguments.rounds, arguments.master, folder)
    finally:
        shutil.rmtree(folder)
    print(json.dumps(result, indent=2))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2))


def measure(rounds: int, master: str, folder: Path) -> dict[str, object]:
    rows = folder / "rows.json"
    lines = [{"id": number, "v": number, "day": f"d{number % 2}"} for number in range(ROWS)]
    rows.write_text("\n".join(map(json.dumps, lines)))
    with (
        FakeMetastore("4.0.1", directory=folder / "fake") as metastore,
        MetastoreClient(metastore.options) as client,
    ):
        columns = [HiveColumn("id", "int"), HiveColumn("v", "int")]
        table = TableRef("default", "t")
        day = HiveColumn("day", "string")
        client.create_table(HiveTable.new(table, columns, partition_keys=[day]))
        job = MergeJob(
            target=table.full_name,
            source=PathSource(path=str(rows), format="json", schema="id int, v int, day string"),
            on="t.id = s.id AND t.day = s.day",
            when=(MatchedUpdate(), NotMatchedInsert()),
        )
        host, port = metastore.uri.removeprefix("thrift://").split(":")
        environment = os.environ | {
            "AIRFLOW_HOME": str(folder / "airflow"),
            "AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS": "False",
            "AIRFLOW_CONN_HIVE_ACID_DEFAULT": json.dumps(
                {"conn_type": "hive_acid_metastore", "host": host, "port": int(port)}
            ),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": master}),
        }
        archive = {"AIRFLOW__HIVE_ACID__JAVA_ARCHIVE": str(folder / "archive")}
        variants = {"without": environment, "with archive": environment | archive}
        merge = f"""
            MERGE INTO {table} t
            USING (SELECT CAST(id AS INT) id, CAST(id AS INT) v, concat('d', id % 2) day
                   FROM range({ROWS})) s
            ON t.id = s.id AND t.day = s.day
            WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *
        """
        seen: dict[str, list[dict[str, float]]] = {name: [] for name in (*variants, "repeated")}
        for number in range(rounds + 1):
            for name, variables in variants.items():
                told = life(WORKER, to_json(job), f"{name} {number}", variables)
                if number:  # The first one makes the archive.
                    seen[name].append(told)
                print(name, told, flush=True)
            if number:
                script = ";".join([merge] * MERGES)
                told = life(REPEATED, script, f"repeated {number}", environment | archive)
                seen["repeated"].append(told)
                print("repeated", told, flush=True)
    return {name: medians(lives) for name, lives in seen.items()}


def life(program: str, job: str, run: str, environment: dict[str, str]) -> dict[str, float]:
    command = [sys.executable, "-c", program, job, run]
    before = sum(os.times()[2:4])
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    used = sum(os.times()[2:4]) - before
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    if not lines:
        raise RuntimeError(f"{done.stdout}\n{done.stderr}")
    told: dict[str, float] = json.loads(lines[0].removeprefix("RESULT"))
    if "whole" in told:
        told["worker"] = told["whole"] - sum(told.values()) + told["whole"]
    return {name: round(seconds, 2) for name, seconds in told.items()} | {
        "processor": round(used, 1)
    }


def medians(lives: list[dict[str, float]]) -> dict[str, float]:
    return {
        name: round(statistics.median(told.get(name, 0.0) for told in lives), 2)
        for name in lives[-1]
    }


if __name__ == "__main__":
    main()
