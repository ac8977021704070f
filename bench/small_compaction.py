"""Compactions in the worker and on Spark: many small tables, and a large one.

    PYTHONPATH=. python bench/small_compaction.py --tables 500 --sample 5 --json out.json
    PYTHONPATH=. python bench/small_compaction.py --large-mb 1024 --json large.json

Each small table has some 20 kB in twelve deltas, one of them with deletes. It gets a major compaction
and a cleaning: all tables in one task of the worker; a sample by a task for each, in the worker;
and a sample by a task for each that starts a Spark application. The metastore is that of the tests,
in the process that measures, and its time is not included.

The large table is compacted by a task in the worker and by one on Spark with the same cores. 1 % of
its rows is deleted, all together.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import orc

from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.orc.copying.transplant import transplant
from hiveacid.orc.format.tail import OrcTail
from hiveacid.orc.row_keys.delete_file import write_delete_file
from hiveacid.orc.row_keys.keys import Keys
from hiveacid.rules.names import Delta, TableRef
from hiveacid.rules.row_id import encode_bucket
from tests.fakes.metastore import FakeMetastore
from tests.places import place_of

DELTAS = 11
COLUMNS = [HiveColumn("id", "bigint"), HiveColumn("name", "string"), HiveColumn("price", "double")]
# All tables in one task of a worker, once Airflow has parsed its DAG.
ONE_TASK = """\
import sys
from types import SimpleNamespace
from airflow_hiveacid import HiveAcidMaintainOperator
ti = SimpleNamespace(
    dag_id="d", run_id="r", task_id="t", map_index=-1, xcom_push=lambda key, value: None
)
context = {"ti": ti, "task": SimpleNamespace(outlets=[])}
report = HiveAcidMaintainOperator(task_id="t", tables=sys.argv[1:]).execute(context)
for done in report["tables"]:
    assert done["compacted"] == 1, done
    assert done["removed"] >= 12, done
assert len(report["tables"]) == len(sys.argv) - 1, report
"""
# What a worker does with the tasks of one table, once Airflow has parsed its DAG.
TASKS = """\
import resource, sys
from pathlib import Path
from types import SimpleNamespace
from airflow_hiveacid import HiveAcidCleanOperator, HiveAcidCompactOperator
from hiveacid.jobs import CleanJob, CompactJob
run_in, *names = sys.argv[1:]
for name in names:
    ti = SimpleNamespace(
        dag_id="d", run_id=name, task_id="t", map_index=-1, xcom_push=lambda key, value: None
    )
    context = {"ti": ti, "task": SimpleNamespace(outlets=[])}
    job = CompactJob(target=name, type="major", run_in=run_in)
    (done,) = HiveAcidCompactOperator(task_id="t", job=job).execute(context)["partitions"]
    assert done["outcome"] == "compacted", done
    clean = HiveAcidCleanOperator(task_id="t", job=CleanJob(target=name)).execute(context)
    assert len(clean["removed"]) >= 3, clean
# The largest memory of this process, and of the processes that it started. For the former, ru_maxrss
# would include the memory of the process that started this one.
own = int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
print("PEAKS", own >> 10, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=500)
    parser.add_argument("--sample", type=int, default=5, help="0: only in one task")
    parser.add_argument("--large-mb", type=int, default=0)
    parser.add_argument("--deleted", type=float, default=0.01, help="the share of deleted rows")
    parser.add_argument("--run-in", nargs="+", default=["worker", "spark"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="hiveacid-bench-"))
    try:
        with (
            FakeMetastore("4.0.1", directory=folder / "fake") as metastore,
            MetastoreClient(metastore.options) as client,
        ):
            bench = Bench(client, folder)
            if arguments.large_mb:
                result = bench.large(arguments)
            else:
                result = bench.small(arguments.tables, arguments.sample)
    finally:
        shutil.rmtree(folder)
    print(json.dumps(result, indent=2))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2))


class Bench:
    """Tables on one metastore, and programs that maintain them."""

    def __init__(self, client: MetastoreClient, folder: Path) -> None:
        self.client, self.folder = client, folder
        self._random = Random(1)
        self._count = 0
        host, port = client.options.uris.removeprefix("thrift://").split(":")
        self.environment = os.environ | {
            "AIRFLOW_HOME": str(folder / "airflow"),
            "AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS": "False",
            "AIRFLOW__HIVE_ACID__JAVA_ARCHIVE": str(folder / "archive"),
            "AIRFLOW_CONN_HIVE_ACID_DEFAULT": json.dumps(
                {"conn_type": "hive_acid_metastore", "host": host, "port": int(port)}
            ),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        }

    def small(self, tables: int, sample: int) -> dict[str, Any]:
        kilobytes = []

        def names(count: int) -> list[str]:
            made = [self.table(rows=20) for _ in range(count)]
            kilobytes.extend(size / 1000 for _, size in made)
            return [name for name, _ in made]

        result = {"one task": per_table(self.used(ONE_TASK, *names(tables)), tables)}
        for run_in in ("worker", "spark") if sample else ():
            # The first one also fills caches, or makes the archive of Spark's classes.
            self.used(TASKS, run_in, *names(1))
            used = [self.used(TASKS, run_in, name) for name in names(sample)]
            total = {key: sum(each[key] for each in used) for key in used[0]}
            result[f"a task for each, {run_in}"] = per_table(total, sample)
        return {
            "tables": tables,
            "sample": sample,
            "kB": round(sum(kilobytes) / len(kilobytes), 1),
            **result,
        }

    def large(self, arguments: argparse.Namespace) -> dict[str, Any]:
        flat = self.folder / "flat.orc"
        # Of 24 hexadecimal digits, a number and a price, compressed.
        self.write_flat(flat, (arguments.large_mb << 20) // DELTAS // 24)
        result: dict[str, Any] = {}
        for number in range(arguments.rounds):
            for run_in in arguments.run_in:
                name, size = self.table(flat=flat, share=arguments.deleted)
                result["MB"] = size >> 20
                result.setdefault(run_in, []).append(self.used(TASKS, run_in, name))
                self._drop(name)
                print(number, run_in, result[run_in][-1], flush=True)
        return result

    def used(self, program: str, *arguments: str) -> dict[str, float]:
        """The seconds of the processor and of the clock that a program takes."""
        command = [sys.executable, "-c", program, *arguments]
        before, began = sum(os.times()[2:4]), time.perf_counter()
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
        used = {"wall": time.perf_counter() - began, "cpu": sum(os.times()[2:4]) - before}
        for line in done.stdout.splitlines():
            if line.startswith("PEAKS"):
                used |= zip(("MB", "MB of a child"), map(int, line.split()[1:]), strict=True)
        return used

    def _drop(self, name: str) -> None:
        ref = TableRef.parse(name)
        root = place_of(self.client.get_table(ref).folder)
        self.client.drop_table(ref)
        shutil.rmtree(root, ignore_errors=True)

    def table(
        self, *, rows: int = 0, flat: Path | None = None, share: float = 0.01, spread: bool = False
    ) -> tuple[str, int]:
        """A table with eleven deltas of rows, and one of deletes; its name and its bytes.

        Args:
            rows: The number of rows of each delta.
            flat: A file with the rows of each delta, instead of their number.
            share: The share of deleted rows.
            spread: Whether these are spread over all rows; otherwise they are the first ones.
        """
        self._count += 1
        ref = TableRef("default", f"t{self._count}")
        self.client.create_table(
            HiveTable.new(ref, COLUMNS, parameters={"hiveacid.retention": "0"})
        )
        root = place_of(self.client.get_table(ref).folder)
        root.mkdir(parents=True, exist_ok=True)
        for number in range(1, DELTAS + 1):
            source = flat or self.write_flat(self.folder / "small.orc", rows)
            with self._file(root, ref, Delta(number, number, 0)) as sink, source.open("rb") as file:
                transplant([file], sink, write_id=number, bucket=encode_bucket(0))
        with source.open("rb") as file:
            tail = OrcTail.read(file)
        deleted = max(2, int(tail.rows * DELTAS * share))
        places = np.arange(deleted) * (int(1 / share) if spread else 1)
        write_ids, numbers = np.divmod(places, tail.rows)
        write_id = DELTAS + 1
        with self._file(root, ref, Delta(write_id, write_id, 0, is_delete=True)) as sink:
            write_delete_file(
                sink,
                [
                    Keys.deletes(
                        write_ids + 1,
                        np.full(deleted, encode_bucket(0)),
                        numbers,
                        write_id=write_id,
                    )
                ],
                row_types=tail.types,
                codec="zlib",
            )
        return str(ref), sum(path.stat().st_size for path in root.rglob("*") if path.is_file())

    def _file(self, root: Path, ref: TableRef, delta: Delta) -> Any:
        txn = self.client.open_txn("bench", "localhost", None)
        assert self.client.allocate_write_id(txn, ref) == delta.min_write_id
        self.client.commit_txn(txn)
        folder = root / delta.name
        folder.mkdir()
        (folder / "_orc_acid_version").write_text("2")
        return (folder / "bucket_00000").open("wb")

    def write_flat(self, path: Path, rows: int) -> Path:
        """Write a file that tables are made of."""
        random = self._random
        batch = 200_000
        schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("price", pa.float64())])
        with orc.ORCWriter(str(path), compression="zlib", stripe_size=64 << 20) as writer:
            for start in range(0, rows, batch):
                count = min(batch, rows - start)
                columns = {
                    "id": range(start, start + count),
                    "name": [f"{random.getrandbits(96):024x}" for _ in range(count)],
                    "price": [random.random() for _ in range(count)],
                }
                writer.write(pa.table(columns, schema=schema))
        return path


def per_table(used: dict[str, float], tables: int) -> dict[str, float]:
    return {f"{key} s per table": round(used[key] / tables, 3) for key in ("cpu", "wall")}


if __name__ == "__main__":
    main()
