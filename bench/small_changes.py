"""Small changes of a table, each by a process of its own: the worker, Spark, deltalake, and pyiceberg.

    PYTHONPATH=. python bench/small_changes.py --rows 1000000 --rounds 3 --json build/small_changes.json

Each process is measured from its start to its end: seconds, seconds of the processor, and the
largest memory, with those of its children. All tables have the same rows of 17 columns, compressed
with zstd. The peer deltalake takes part where it is installed.
"""

import argparse
import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import pyarrow.parquet as pq
from lineitem import TYPES, lineitem
from session import TASKS, session

from hiveacid.api.table import AcidTable
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.names import TableRef
from hiveacid.tables.scan.table_scan import TableScan

KEY = "l_orderkey"
BATCHES = {"40": 40, "2000": 2000, "append": 1000}
WORKS = ("merge of 40 rows", "merge of 2,000 rows", "delete of 100 keys", "append of 1,000 rows")
MERGE = (
    f"MERGE INTO t USING s{{}} s ON t.{KEY} = s.{KEY} "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
)
DELTA = """
import sys
from deltalake import DeltaTable, write_deltalake
import pyarrow.parquet as pq
work, folder, batch, keys, key = sys.argv[1:]
table = DeltaTable(folder + "/delta")
if work.startswith("merge"):
    table.merge(pq.read_table(batch), f"t.{key} = s.{key}", source_alias="s", target_alias="t") \\
        .when_matched_update_all().when_not_matched_insert_all().execute()
elif work.startswith("delete"):
    table.delete(f"{key} IN ({keys})")
else:
    write_deltalake(table, pq.read_table(batch), mode="append")
"""
ICEBERG = """
import sys
from pyiceberg.catalog.sql import SqlCatalog
import pyarrow.parquet as pq
work, folder, batch, keys, key = sys.argv[1:]
catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
table = catalog.load_table("d.t")
if work.startswith("merge"):
    table.upsert(pq.read_table(batch), join_cols=[key])
elif work.startswith("delete"):
    table.delete(f"{key} IN ({keys})")
else:
    table.append(pq.read_table(batch))
"""
# Also waits for processes that outlive their parents, such as Spark's Java.
LAUNCH = """
import ctypes, json, os, subprocess, sys, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
began = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
processor, memory = 0.0, 0
while True:
    try:
        pid, status, used = os.wait4(-1, 0)
    except ChildProcessError:
        break
    processor += used.ru_utime + used.ru_stime
    memory = max(memory, used.ru_maxrss)
    if pid == process.pid:
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
print(json.dumps([seconds, processor, memory]))
sys.exit(process.returncode)
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as temporary,
        EmbeddedMetastore(directory=Path(temporary) / "hms") as metastore,
    ):
        folder = Path(temporary)
        engines = set_up(asked.rows, folder, metastore)
        figures = measure(engines, asked.rows, asked.rounds, folder, metastore.uri)
    for (work, engine), found in sorted(figures.items()):
        print(f"{work:22} {engine:10} {found}")
    if asked.json:
        asked.json.write_text(json.dumps({"/".join(k): v for k, v in figures.items()}, indent=1))


def set_up(count: int, folder: Path, metastore: EmbeddedMetastore) -> list[str]:
    """Write the same rows into a table of each engine, and the batches into files and tables."""
    spark = session(folder)
    columns = [HiveColumn(*column) for column in TYPES.items()]
    for name in ("t", *(f"s{batch}" for batch in BATCHES)):
        with MetastoreClient(metastore.options) as client:
            ref = TableRef("default", name)
            client.create_table(HiveTable.new(ref, columns, parameters={"orc.compress": "ZSTD"}))
    with AcidTable("default.t", metastore.uri, spark=spark, run_in="spark") as table:
        table.append(lineitem(spark, 0, count, TASKS))
    for name, size in BATCHES.items():
        step = max(1, count // size)
        known = lineitem(spark, 0, count, TASKS).where(f"{KEY} % {step} = 0").limit(size * 3 // 4)
        new = lineitem(spark, count, count + size - size * 3 // 4, 1)
        rows = new if name == "append" else known.union(new).coalesce(1)
        with AcidTable(f"default.s{name}", metastore.uri, spark=spark, run_in="spark") as table:
            table.append(rows)
        pq.write_table(
            TableScan(f"default.s{name}", metastore.uri).to_arrow(), folder / f"{name}.parquet"
        )
    spark.stop()
    rows = TableScan("default.t", metastore.uri).to_arrow()
    engines = ["worker", "spark", "pyiceberg"]
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
    catalog.create_namespace("d")
    catalog.create_table("d.t", rows.schema).append(rows)
    if importlib.util.find_spec("deltalake"):
        from deltalake import WriterProperties, write_deltalake

        write_deltalake(
            folder / "delta", rows, writer_properties=WriterProperties(compression="ZSTD")
        )
        engines.append("deltalake")
    return engines


def measure(
    engines: list[str], count: int, rounds: int, folder: Path, uri: str
) -> dict[tuple[str, str], dict[str, float]]:
    """Measure every work in each round, another engine first each time; a round warms up."""
    taken: dict[tuple[str, str], list[tuple[float, float, float]]] = defaultdict(list)
    for number in range(rounds + 1):
        keys = ", ".join(str(number + 1 + n * (count // 100)) for n in range(100))
        for work in WORKS:
            for engine in engines[number % len(engines) :] + engines[: number % len(engines)]:
                found = process(command(engine, work, folder, uri, keys))
                if number:
                    taken[work, engine].append(found)
    return {
        case: dict(
            zip(
                ("seconds", "processor", "MB"),
                (round(statistics.median(part), 2) for part in zip(*found, strict=True)),
                strict=True,
            )
        )
        for case, found in taken.items()
    }


def command(engine: str, work: str, folder: Path, uri: str, keys: str) -> list[str]:
    batch = "append" if work.startswith("append") else "40" if "40" in work else "2000"
    if engine in ("worker", "spark"):
        if work.startswith("merge"):
            sql = MERGE.format(batch)
        elif work.startswith("delete"):
            sql = f"DELETE FROM t WHERE {KEY} IN ({keys})"
        else:
            sql = "INSERT INTO t SELECT * FROM sappend"
        return ["hiveacid", "sql", "--run-in", engine, "--metastore", uri, sql]
    text = DELTA if engine == "deltalake" else ICEBERG
    file = str(folder / f"{batch}.parquet")
    return [sys.executable, "-c", text, work, str(folder), file, keys, KEY]


def process(command: list[str]) -> tuple[float, float, float]:
    """Run a process, and return its seconds, its seconds of the processor, and its megabytes."""
    # From a small process, whose memory the new one does not inherit.
    launched = subprocess.run(
        [sys.executable, "-S", "-c", LAUNCH, *command], check=False, capture_output=True, text=True
    )
    if launched.returncode:
        raise RuntimeError(f"{command[:3]}: {launched.stderr[-2000:]}")
    seconds, processor, memory = json.loads(launched.stdout)
    return seconds, processor, memory / 1024


if __name__ == "__main__":
    main()
