"""Compactions compared with copies of the files, and with Spark doing the same work.

    python bench/compaction.py --rows 16000000 --json out.json

The table has eight deltas of one file each, so that all rows are one bucket. Every measurement gets
a table of its own, whose files are links to the same ones. Ratios are of medians.
"""

import argparse
import io
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from lineitem import COLUMNS, lineitem
from memory import forget_peaks, peak_megabytes
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast
from pyspark.sql.types import StructField, StructType
from session import CODEC, TASKS, seconds_of, session

from airflow_hiveacid.cluster.packaged import spark_app_path
from hiveacid.api.table import AcidTable
from hiveacid.jobs.job_json import to_json
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.report import PartitionReport
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.orc.format.tail import OrcTail
from hiveacid.rules.locks import Operation, Target
from hiveacid.rules.names import TableRef
from hiveacid.spark.read.acid_snapshot import ACID_FIELDS
from hiveacid.spark.rows.columns import spark_struct
from hiveacid.spark.session import scan_session

DELTAS = 8
ROW_ID = ["originalTransaction", "bucket", "rowId"]
DELETED = {
    "clustered": "1 % of the rows deleted, all together",
    "random": "0.1 % of the rows deleted, at random",
}
# The work of a compaction outside of its transaction.
MOVING = ("read", "write", "publish")


class Bench:
    """Tables on one metastore and one Spark."""

    def __init__(self, hms: EmbeddedMetastore, spark: SparkSession, folder: Path) -> None:
        self.hms, self.spark, self.folder = hms, spark, folder
        self.client = MetastoreClient(hms.options)
        self.client.create_database("bench")

    def create(self, name: str) -> TableRef:
        ref = TableRef("bench", name)
        self.client.create_table(HiveTable.new(ref, COLUMNS))
        return ref

    def files(self, ref: TableRef) -> Path:
        return Path(self.client.get_table(ref).folder.removeprefix("file:"))

    def open(self, ref: TableRef) -> AcidTable:
        return AcidTable(ref.full_name, self.hms.uri, spark=self.spark, run_in="spark")

    def fill(self, ref: TableRef, rows: int) -> None:
        with self.open(ref) as table:
            for first in range(0, rows, rows // DELTAS):
                table.append(lineitem(self.spark, first, first + rows // DELTAS, tasks=1))

    def like(self, source: TableRef, name: str) -> TableRef:
        """A table with the files of another one, and as many write ids."""
        ref = self.create(name)
        folders = sorted(self.files(source).glob("del*"))
        for _ in folders:
            with Transaction(self.client, targets=[Target(ref, Operation.INSERT)]) as txn:
                txn.commit()
        for folder in folders:
            shutil.copytree(folder, self.files(ref) / folder.name, copy_function=os.link)
        return ref

    def deleted(self, source: TableRef, name: str, where: str) -> TableRef:
        ref = self.like(source, name)
        with self.open(ref) as table:
            table.delete(where)
        return ref

    def compact(self, source: TableRef, type_: str) -> tuple[float, PartitionReport]:
        """Compact a copy, and return the duration of the call and its report."""
        ref = self.like(source, f"{source.name}_{type_}")
        reports = []
        with self.open(ref) as table:
            seconds = seconds_of(lambda: reports.append(table.compact(type_)))
        (report,) = reports
        if report.error is not None:
            raise RuntimeError(report.error.message)
        self.client.drop_table(ref)
        return seconds, report.partitions[0]

    def warm_up(self) -> None:
        """Start the Python workers; Spark lets idle ones go."""
        few = self.create("few")
        self.fill(few, 80 * DELTAS)
        self.compact(few, "minor")
        self.client.drop_table(few)


def copy(source: Path, target: Path) -> float:
    target.mkdir()
    folders = map(str, source.glob("delta_*"))
    seconds = seconds_of(lambda: subprocess.run(["cp", "-r", *folders, target], check=True))
    shutil.rmtree(target)
    return seconds


def measure_minor(bench: Bench, source: TableRef, runs: int) -> dict[str, object]:
    files = bench.files(source)
    size = sum(file.stat().st_size for file in files.glob("delta_*/bucket_*"))
    copying, moving, whole, phases = [], [], [], []
    for run in range(runs + 1):
        bench.warm_up()
        forget_peaks()
        copied = copy(files, bench.folder / "copy")
        seconds, done = bench.compact(source, "minor")
        if run:  # The first round warms up.
            copying.append(copied)
            whole.append(seconds)
            moving.append(sum(done.seconds[phase] for phase in MOVING))
            phases.append(done.seconds)
    peak = peak_megabytes()
    application = application_seconds(bench, source)
    cp = statistics.median(copying)
    return {
        "minor_throughput_vs_cp": ratio(cp, statistics.median(moving)),
        "minor_throughput_vs_cp_with_transaction": ratio(cp, statistics.median(whole)),
        "minor_throughput_vs_cp_with_spark_start": ratio(cp, application),
        "minor_bytes": size,
        "minor_rows": done.rows,
        "minor_stripes_copied": done.stripes_copied,
        "minor_stripes_encoded": done.stripes_encoded,
        "cp_seconds": rounded(copying),
        "minor_seconds": rounded(moving),
        "minor_seconds_with_transaction": rounded(whole),
        "minor_seconds_with_spark_start": round(application, 3),
        "minor_phases": phases,
        "minor_peak_task_mb": peak,
    }


def application_seconds(bench: Bench, source: TableRef) -> float:
    """The packaged application from the start of its process to its end."""
    ref = bench.like(source, "application")
    job = CompactJob(target=ref.full_name, type="minor", metastore=bench.hms.options)
    (bench.folder / "job.json").write_text(to_json(job))
    settings = {"spark.master": f"local[{TASKS}]", "spark.ui.enabled": "false"}
    lines = [f"{key} {value}\n" for key, value in settings.items()]
    (bench.folder / "spark-defaults.conf").write_text("".join(lines))
    files = ["--job", "job.json", "--report", str(bench.folder / "report")]
    command = [sys.executable, spark_app_path(), *files]
    run = partial(
        subprocess.run,
        command,
        cwd=bench.folder,
        env=os.environ | {"SPARK_CONF_DIR": str(bench.folder)},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    seconds = seconds_of(run)
    bench.client.drop_table(ref)
    return seconds


def measure_major(bench: Bench, source: TableRef, runs: int) -> dict[str, object]:
    name = source.name
    peaks, taken = [], []
    for _ in range(runs):
        bench.warm_up()
        forget_peaks()
        seconds, done = bench.compact(source, "major")
        taken.append(seconds)
        peaks.append(peak_megabytes())
    target = bench.folder / "peer"
    spark_seconds = seconds_of(lambda: peer(bench.spark, bench.files(source), target))
    left = sum(OrcTail.read(io.BytesIO(file.read_bytes())).rows for file in target.glob("*.orc"))
    shutil.rmtree(target)
    if left != done.rows:
        raise RuntimeError(f"Spark kept {left} rows, the compaction {done.rows}.")
    return {
        f"major_{name}_speedup_vs_spark": ratio(spark_seconds, statistics.median(taken)),
        f"major_{name}_seconds": rounded(taken),
        f"major_{name}_spark_seconds": round(spark_seconds, 2),
        f"major_{name}_rows": done.rows,
        f"major_{name}_stripes_copied": done.stripes_copied,
        f"major_{name}_stripes_encoded": done.stripes_encoded,
        f"major_{name}_phases": done.seconds,
        f"major_{name}_peak_task_mb": max(peaks),
    }


def peer(spark: SparkSession, files: Path, target: Path) -> None:
    """A major compaction as a Spark job: the same files, rows, columns and codec."""
    rows, events = (read(spark, files.glob(pattern)) for pattern in ("delta_*", "delete_delta_*"))
    kept = rows.join(broadcast(events.select(*ROW_ID)), ROW_ID, "left_anti")
    kept = kept.select(*rows.columns).orderBy(*ROW_ID)
    kept.write.option("compression", CODEC).orc(str(target))


def read(spark: SparkSession, folders) -> DataFrame:
    schema = StructType([*ACID_FIELDS, StructField("row", spark_struct(COLUMNS))])
    frame = scan_session(spark).read.schema(schema).orc([str(folder) for folder in folders])
    # Names all six columns and is always true: ORC needs every one of them to be read.
    numbers = " + ".join(field.name for field in ACID_FIELDS)
    return frame.where(f"row.l_linenumber is null or {numbers} is not null")


def measure(rows: int, runs: int, folder: Path) -> dict[str, object]:
    with EmbeddedMetastore("4.0.1", directory=folder / "hms") as hms:
        spark = session(folder, memory="6g")
        bench = Bench(hms, spark, folder)
        full = bench.create("lineitem")
        bench.fill(full, rows)
        result: dict[str, object] = {"rows": rows, "deltas": DELTAS}
        result |= measure_minor(bench, full, runs)
        hundredth = f"l_orderkey >= {rows // 2} and l_orderkey < {rows // 2 + rows // 100}"
        conditions = {"clustered": hundredth, "random": "pmod(hash(l_orderkey, 99), 1000) = 0"}
        for name, where in conditions.items():
            result |= measure_major(bench, bench.deleted(full, name, where), runs)
        spark.stop()
    peaks = [value for key, value in result.items() if key.endswith("peak_task_mb")]
    return result | {"peak_task_mb": max(peaks)}


def table_of(result: dict[str, object]) -> str:
    """The seconds and stripes as Markdown."""
    minor, copying = (statistics.median(result[key]) for key in ("minor_seconds", "cp_seconds"))
    lines = [
        "| | Compaction, s | Peer, s | Stripes copied | Stripes encoded |",
        "|---|---|---|---|---|",
        f"| minor | {minor:.2f} | `cp -r`: {copying:.2f} | {_stripes(result, 'minor')} |",
    ]
    for name, label in DELETED.items():
        key = f"major_{name}"
        taken = statistics.median(result[f"{key}_seconds"])
        stripes = _stripes(result, key)
        spark = result[f"{key}_spark_seconds"]
        lines.append(f"| major, {label} | {taken:.2f} | Spark: {spark:.1f} | {stripes} |")
    return "\n".join(lines)


def _stripes(result: dict[str, object], key: str) -> str:
    return f"{result[f'{key}_stripes_copied']} | {result[f'{key}_stripes_encoded']}"


def ratio(slower: float, faster: float) -> float:
    return round(slower / faster, 3)


def rounded(seconds: list[float]) -> list[float]:
    return [round(each, 3) for each in seconds]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=16_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=Path, required=True)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="hiveacid-bench-"))
    try:
        result = measure(arguments.rows, arguments.runs, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    arguments.json.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))
    print(table_of(result))


if __name__ == "__main__":
    main()
