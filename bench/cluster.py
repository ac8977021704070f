"""Processor time of the driver and of the executors of a cluster, and a model of the driver's.

    PYTHONPATH=. python bench/cluster.py --json out.json
    PYTHONPATH=. python bench/cluster.py --master yarn --json out.json
    PYTHONPATH=. python bench/cluster.py --from out.json

A master and four workers of one core are processes on this machine, as are their executors. The driver
is this process and its Java; the time of Java's compilers, which depends on what ran before, is separate.
Partitions, files, delete events and changed rows vary one at a time. A linear model of each work is fitted
to one half of the points, and predicts the other half. The metastore is that of the tests, in a process
of its own, whose time is not included.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pytest
from cluster_model import Trial
from pyarrow import orc
from pyspark.sql import SparkSession
from scale import Write, metastore
from spark_clusters import SparkCluster, running_cluster

from hiveacid.api.table import AcidTable
from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.orc.copying.transplant import transplant
from hiveacid.orc.format.tail import OrcTail
from hiveacid.orc.row_keys.delete_file import write_delete_file
from hiveacid.orc.row_keys.keys import Keys
from hiveacid.rules.names import Base, Delta, TableRef
from hiveacid.rules.row_id import encode_bucket
from hiveacid.spark.session import APPLICATION_SETTINGS
from hiveacid.storage.folder import LocalStorage, ReadOnlyStorage, Storage
from hiveacid.upkeep.table_cleaning import clean
from tests.metastore_calls import DESCRIBED, counted_calls
from tests.places import place_of

COLUMNS = [HiveColumn("id", "bigint"), HiveColumn("v", "int")]
KEYS = [HiveColumn("p", "string")]
FEWEST_ROWS = 500
WORKS = ("merge", "minor compaction", "major compaction", "cleaning")
LISTINGS = ("walk", "list_files", "list_directories")
OTHERS = ("exists", "open_input", "create", "rename", "delete_file", "delete_directory")


@dataclass(frozen=True)
class Point:
    """A table, and the change of its rows.

    Attributes:
        partitions: The number of partitions; every work touches all of them.
        files: The files with rows in each partition, each in a delta of its own.
        deletes: The delete events in the table, in one file of each partition.
        changes: The rows that the merge changes.
    """

    partitions: int = 10
    files: int = 4
    deletes: int = 10_000
    changes: int = 1_000

    @property
    def rows(self) -> int:
        """The rows of a file: the deleted ones, the changed ones, and some more."""
        each = -(-(self.deletes + self.changes) // (self.partitions * self.files))
        return max(FEWEST_ROWS, each + each // 4)

    @property
    def quantities(self) -> dict[str, float]:
        """Numbers in the whole table on which costs may depend."""
        return {
            "partitions": self.partitions,
            "files": self.partitions * self.files,
            "deletes": self.deletes,
            "changes": self.changes,
        }


FITTED = (
    Point(partitions=1),
    Point(partitions=100),
    Point(files=40),
    Point(deletes=0),
    Point(deletes=1_000_000),
    Point(changes=100_000),
)
PREDICTED = (
    Point(),
    Point(partitions=30),
    Point(partitions=400),
    Point(files=10),
    Point(files=20),
    Point(deletes=100_000),
    Point(changes=30_000),
)
# The first ones make Java compile the driver's methods.
WARM_UP = (Point(), Point(partitions=30), Point())


class Bench:
    """Works on tables of one metastore, in one driver of a cluster."""

    def __init__(
        self,
        cluster: SparkCluster,
        spark: SparkSession,
        options: MetastoreOptions,
        write: Write,
        folder: Path,
    ) -> None:
        self._cluster, self._spark, self._options = cluster, spark, options
        self._client = MetastoreClient(options)
        self._write, self._folder = write, folder
        self._java = psutil.Process(spark.sparkContext._gateway.proc.pid)  # type: ignore[union-attr]
        self._count = 0

    def measured(self, point: Point) -> dict[str, dict[str, float]]:
        """Return the costs of all works on such tables."""
        found = {}
        with self._table(point) as name, self._opened(name) as table:
            found["merge"] = self._used(lambda: self._merge(table, point))
            found["minor compaction"] = self._used(lambda: self._compact(table, "minor"))
        with self._table(point) as name, self._opened(name) as table:
            found["major compaction"] = self._used(lambda: self._compact(table, "major"))
        with self._table(point, compacted=True) as name:
            job = CleanJob(target=name, retention="0")
            found["cleaning"] = self._used(lambda: self._clean(job, point))
        return found

    def _opened(self, name: str) -> AcidTable:
        return AcidTable(name, self._options, spark=self._spark, run_in="spark")

    def _merge(self, table: AcidTable, point: Point) -> None:
        # The last rows of each file, as the first ones may be deleted.
        place = f"int(id / {point.partitions})"
        row = f"{point.rows} - 1 - int({place} / {point.files})"
        changed = self._spark.range(point.changes).selectExpr(
            f"cast(id % {point.partitions} as string) as p",
            f"cast(({place} % {point.files}) * {point.rows} + {row} as bigint) as id",
            "-1 as v",
        )
        merge = table.merge(changed, "t.p = s.p and t.id = s.id")
        report = merge.when_matched_update_all().when_not_matched_insert_all().execute()
        if report.rows_updated != point.changes:
            raise SystemExit(f"{point}: {report}")

    def _compact(self, table: AcidTable, type_: Any) -> None:
        report = table.compact(type_, run_in="spark")
        if any(each.outcome != "compacted" for each in report.partitions):
            raise SystemExit(str(report))

    def _clean(self, job: CleanJob, point: Point) -> None:
        report = clean(self._client, job)
        if len(report.removed) < point.partitions * point.files:
            raise SystemExit(str(report))

    # Costs

    def _used(self, work: Callable[[], object]) -> dict[str, float]:
        before, wall = self._seconds(), time.perf_counter()
        with counted_calls() as calls, counted_file_calls() as file_calls:
            work()
        used = {name: value - before[name] for name, value in self._seconds().items()}
        return {
            **{name: round(value, 3) for name, value in used.items()},
            "wall": round(time.perf_counter() - wall, 2),
            "calls": sum(number for name, number in calls.items() if name != DESCRIBED),
            **file_calls,
        }

    def _seconds(self) -> dict[str, float]:
        java = self._java.cpu_times()
        compilers = 0.0
        for thread in self._java.threads():
            name = Path(f"/proc/{self._java.pid}/task/{thread.id}/comm")
            # Other threads may have ended since they were listed.
            with suppress(FileNotFoundError, ProcessLookupError):
                if "CompilerThre" in name.read_text():
                    compilers += thread.user_time + thread.system_time
        python = time.process_time()
        executors = 0.0
        for parent in self._cluster.parents:
            for process in psutil.Process(parent).children(recursive=True):
                executors += sum(process.cpu_times()[:4])
        return {
            "driver": python + java.user + java.system - compilers,
            "python": python,
            "compilers": compilers,
            "executors": executors,
        }

    # Tables

    @contextmanager
    def _table(self, point: Point, *, compacted: bool = False) -> Iterator[str]:
        """A table, if need be with bases that make all other files obsolete."""
        self._count += 1
        ref = TableRef("default", f"t{self._count}")
        self._client.create_table(HiveTable.new(ref, COLUMNS, partition_keys=KEYS))
        table = self._client.get_table(ref)
        partitions = [HivePartition.new(table, [str(n)]) for n in range(point.partitions)]
        self._client.add_partitions(ref, partitions)
        self._write(ref, point.files + 1, 0)
        root = place_of(table.folder)
        template = self._folder / str(ref)
        self._fill(template, point)
        if compacted:
            base = template / Base(point.files + 1).name
            base.mkdir()
            shutil.copyfile(template / Delta(1, 1, 0).name / "bucket_00000", base / "bucket_00000")
            marker = '{"thisFileVersion":"0","dataFormat":"compacted"}'
            (base / "_metadata_acid").write_text(marker)
        for partition in partitions:
            shutil.copytree(template, root / partition.name, dirs_exist_ok=True)
        shutil.rmtree(template)
        try:
            yield ref.full_name
        finally:
            self._client.drop_table(ref)
            shutil.rmtree(root, ignore_errors=True)

    def _fill(self, folder: Path, point: Point) -> None:
        """Write the directories of a partition."""
        flat = self._folder / "flat.orc"
        for number in range(1, point.files + 1):
            ids = np.arange((number - 1) * point.rows, number * point.rows)
            rows = pa.table({"id": ids, "v": (ids % 1000).astype(np.int32)})
            orc.write_table(rows, str(flat), compression="zlib")
            sink = _bucket(folder / Delta(number, number, 0).name)
            with sink, flat.open("rb") as file:
                transplant([file], sink, write_id=number, bucket=encode_bucket(0))
        with flat.open("rb") as file:
            types = OrcTail.read(file).types
        if not point.deletes:
            return
        deleted = -(-point.deletes // (point.partitions * point.files))
        write_ids = np.repeat(np.arange(1, point.files + 1), deleted)
        numbers = np.tile(np.arange(deleted), point.files)
        buckets = np.full(len(numbers), encode_bucket(0))
        write_id = point.files + 1
        events = Keys.deletes(write_ids, buckets, numbers, write_id=write_id)
        with _bucket(folder / Delta(write_id, write_id, 0, is_delete=True).name) as sink:
            write_delete_file(sink, [events], row_types=types, codec="zlib")


def _bucket(folder: Path) -> Any:
    folder.mkdir(parents=True)
    (folder / "_orc_acid_version").write_text("2")
    return (folder / "bucket_00000").open("wb")


@contextmanager
def counted_file_calls() -> Iterator[Counter[str]]:
    """Count the listings, and the other calls for files, of this process.

    Yields:
        The numbers so far.
    """
    counts: Counter[str] = Counter(listings=0, files=0)
    lock = threading.Lock()

    def counting(method: Any, kind: str) -> Any:
        def call(self: Any, *arguments: Any, **options: Any) -> Any:
            with lock:
                counts[kind] += 1
            return method(self, *arguments, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for owner in (ReadOnlyStorage, Storage, LocalStorage):
            for kind, names in (("listings", LISTINGS), ("files", OTHERS)):
                for name in names:
                    if name in vars(owner):
                        patch.setattr(owner, name, counting(vars(owner)[name], kind))
        yield counts


@contextmanager
def driver(cluster: SparkCluster) -> Iterator[SparkSession]:
    """A driver of the cluster in this process."""
    os.environ.update(cluster.environment)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = APPLICATION_SETTINGS | cluster.settings
    java = "spark.driver.extraJavaOptions"
    # The time of a thread that has ended would be missing.
    settings[java] += " -XX:-UseDynamicNumberOfCompilerThreads"
    builder = SparkSession.builder.appName("bench")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        spark.sparkContext.setLogLevel("ERROR")
        yield spark
    finally:
        spark.stop()


def trials(result: list[dict[str, Any]], cost: str) -> dict[str, Trial]:
    """Fit a model of each work, and predict the other half of the points."""
    found = {}
    for work in WORKS:
        halves: dict[bool, tuple[list[Any], list[float]]] = {True: ([], []), False: ([], [])}
        for each in result:
            points, costs = halves[each["fitted"]]
            points.append(Point(**each["point"]).quantities)
            costs.append(each[work][cost])
        found[work] = Trial.of(halves[True], halves[False])
    return found


def report(result: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the tables of the results in Markdown."""
    yield from _measurements(result)
    for cost in ("driver", "calls"):
        names = list(Point().quantities)
        yield f"\n| {cost} | constant | {' | '.join(names)} | median error | worst |"
        yield "|---" * (len(names) + 4) + "|"
        for work, trial in trials(result, cost).items():
            cells = [f"{value:.3g}" for value in trial.model.coefficients.values()]
            errors = f"{trial.median:.0%} | {trial.worst:+.0%}"
            yield f"| {work} | {' | '.join(cells)} | {errors} |"


def _measurements(result: list[dict[str, Any]]) -> Iterator[str]:
    models = trials(result, "driver")
    head = ("Work", *Point().quantities, "driver", "predicted", "executors", "compilers")
    head += ("share", "calls", "listings", "file calls")
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"
    for work in WORKS:
        for each in result:
            used, quantities = each[work], Point(**each["point"]).quantities
            share = used["driver"] / (used["driver"] + used["executors"])
            predicted = f"{models[work].model.predicted(quantities):.2f}"
            cells = [f"{used['driver']:.2f}", f"({predicted})" if each["fitted"] else predicted]
            cells += [f"{used['executors']:.2f}", f"{used['compilers']:.2f}", f"{share:.0%}"]
            cells += [str(used[name]) for name in ("calls", "listings", "files")]
            numbers = [f"{value:,}" for value in quantities.values()]
            yield f"| {' | '.join([work, *numbers, *cells])} |"


def measure(master: str, warm_ups: int, json_path: Path | None) -> list[dict[str, Any]]:
    """Measure all points, and keep those that are done."""
    folder = Path(tempfile.mkdtemp(prefix="hiveacid-bench-"))
    result: list[dict[str, Any]] = []
    try:
        with ExitStack() as stack:
            options, write = stack.enter_context(metastore("fake", folder))
            assert write is not None
            cluster = stack.enter_context(running_cluster(master, folder / "cluster"))
            spark = stack.enter_context(driver(cluster))
            bench = Bench(cluster, spark, options, write, folder)
            for point in WARM_UP[:warm_ups]:
                print("warm-up", json.dumps(bench.measured(point)), flush=True)
            # Alternating, as the driver still becomes faster.
            pairs = [*zip(FITTED, PREDICTED, strict=False)]
            points = [point for pair in pairs for point in pair]
            points += [point for point in (*FITTED, *PREDICTED) if point not in points]
            for point in points:
                found = {"point": asdict(point), "fitted": point in FITTED}
                result.append(found | bench.measured(point))
                print(json.dumps(result[-1]), flush=True)
                if json_path is not None:
                    json_path.write_text(json.dumps(result, indent=2))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--master", choices=["standalone", "yarn"], default="standalone")
    parser.add_argument("--warm-ups", type=int, default=len(WARM_UP), help="fewer: less exact")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--from", dest="earlier", type=Path, help="show these results again")
    arguments = parser.parse_args()
    if arguments.earlier is not None:
        result = json.loads(arguments.earlier.read_text())
    else:
        result = measure(arguments.master, arguments.warm_ups, arguments.json)
    for line in report(result):
        print(line)


if __name__ == "__main__":
    main()
