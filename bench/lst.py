"""The workloads of LST-Bench for this package, Delta Lake and Iceberg, with the data of TPC-DS.

    PYTHONPATH=. python bench/lst.py --scale 1 --json build/lst.json

The workloads: longevity (wp1), resilience (wp2), concurrent reads and writes (wp3), and time travel
(wp4). All engines do each phase in turn in one Spark, another one first in each phase of the same
kind. After each phase that changes tables, all engines must have the same rows, and queries must
return the same rows. A run of wp2 with a hundredth of the data comes before, to warm up.

Differences from LST-Bench: tables are partitioned by month, not by day; twelve of the 99 queries;
inventory and the dimensions do not change; the refresh sets are those of bench/tpcds.py; a single
execution of the data maintenance where LST-Bench has two, unless `--executions 2` is given.

S_DR is the mean relative increase of a figure from each phase to the next of the same kind. Besides
the seconds there is the processor time of all processes, which depends less on other programs.
"""

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from delta_and_iceberg import session_with_peers
from lst_engines import ENGINES, HiveAcidLake, Lake
from lst_tables import markdown
from lst_workloads import WORKLOADS, Figures, Measured, Phase, degradations, phases_of
from peers import require_same
from pyspark.sql import DataFrame, SparkSession
from session import seconds_of
from tpcds import CHANNELS, FACTS, Tpcds, tables_in

from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.compaction_policy import CompactionPolicy

WARM_UP_SCALE = 0.01
# Below this scale a month has too few rows for a partition, and partitions have a year.
MONTHLY_SCALE = 0.1
USUAL_ENGINES = ("hiveacid", "hiveacid_auto", "delta", "iceberg")


class LakeRun:
    """The work of one engine in a workload.

    Attributes:
        executions: The number of executions of the data maintenance so far.
        versions: The versions of the tables after each phase.
    """

    def __init__(self, lake: Lake, data: Tpcds, pack: str) -> None:
        self.lake, self.data = lake, data
        self.spark = lake.spark
        self.executions = 0
        self.versions: dict[str, dict[str, int]] = {}
        self.results: dict[int, int] = {}
        lake.start(pack, {fact.name: self._file(data.base(fact)) for fact in FACTS})

    def run(self, phase: Phase) -> Figures:
        """Do a phase, and return its figures."""
        self.spark._jvm.System.gc()  # type: ignore[union-attr]
        clock = ProcessorClock()
        figures: Figures = {}
        failed: list[BaseException] = []

        def timed(name: str, work: Callable[[], object]) -> None:
            try:
                figures[name] = seconds_of(work)
            except BaseException as error:  # noqa: BLE001 - raised below
                failed.append(error)

        started = time.perf_counter()
        parts = self._parts(phase, figures)
        threads = [threading.Thread(target=timed, args=each) for each in parts.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]
        seconds = time.perf_counter() - started
        figures |= {"seconds": seconds, "cpu": clock.seconds()}
        if phase.changes:
            files, size = self.lake.files()
            figures |= {"files": files, "megabytes": size / 1e6}
            figures["stored_megabytes"] = self.lake.stored_bytes() / 1e6
            self.versions[phase.name] = dict(self.lake.versions())
        return {name: round(value, 3) for name, value in figures.items()}

    def shown(self) -> tuple[tuple[str, ...], ...]:
        """The number of rows, a sum and a hash of each table."""
        found = []
        for fact in FACTS:
            with self.lake.reading([fact]) as frames:
                frame = frames[fact.name]
                row = frame.selectExpr(
                    "count(*)",
                    f"sum({fact.amount})",
                    f"bit_xor(xxhash64({', '.join(sorted(frame.columns))}))",
                ).first()
                found.append((fact.name, *map(str, row)))
        return tuple(found)

    def _parts(self, phase: Phase, figures: Figures) -> dict[str, Callable[[], object]]:
        parts: dict[str, Callable[[], object]] = {}
        if phase.load:
            parts["load"] = self._load
        if phase.executions:
            parts["maintain"] = partial(self._maintain, phase.executions, figures)
        if phase.optimize:
            parts["optimize"] = self.lake.optimize
        if phase.queries:
            parts["query"] = partial(self._query, phase.as_of)
        return parts

    def _load(self) -> None:
        for fact in FACTS:
            # All rows of a month in one task, as in LST-Bench.
            self.lake.append(fact, self._file(self.data.base(fact)).repartition(fact.month))

    def _maintain(self, executions: int, figures: Figures) -> None:
        for _ in range(executions):
            self._execute(self.executions)
            self.executions += 1
            if self.lake.automatic:
                taken = seconds_of(self.lake.optimize)
                figures["automatic"] = figures.get("automatic", 0) + taken

    def _execute(self, execution: int) -> None:
        for sales, returns in CHANNELS:
            deleted = self.data.deleted(sales, execution)
            with self.lake.reading([sales]) as frames:
                numbers = frames[sales.name].where(deleted)
                numbers = numbers.selectExpr(f"{sales.number} AS number").distinct()
                self.lake.delete_numbers(returns, numbers)
            self.lake.delete_where(sales, deleted)
            for fact in (sales, returns):
                self.lake.append(fact, self._file(self.data.refresh(fact, execution)))

    def _query(self, as_of: str | None) -> None:
        versions = None if as_of is None else self.versions[as_of]
        self.results = {}
        for number, text in self.data.queries.items():
            with self.lake.reading(tables_in(text), versions) as frames:
                for name, frame in frames.items():
                    frame.createOrReplaceTempView(name)
                self.results[number] = hash(tuple(map(str, self.spark.sql(text).collect())))

    def _file(self, path: Path) -> DataFrame:
        return self.spark.read.parquet(str(path))


class LstBench:
    """All workloads, with the engines in turn."""

    def __init__(self, spark: SparkSession, engines: Sequence[Lake], data: Tpcds) -> None:
        self.engines, self.data = engines, data
        for name in data.dimensions:
            frame = spark.read.parquet(str(data.folder / f"{name}.parquet"))
            frame.createOrReplaceTempView(name)

    def run(self, pack: str, phases: Sequence[Phase]) -> Measured:
        """Run a workload.

        Raises:
            RuntimeError: The engines have different rows.
        """
        engines = [each for each in self.engines if each.packs is None or pack in each.packs]
        executions = sum(phase.executions for phase in phases)
        for fact in FACTS:
            self.data.base(fact)
            for execution in range(executions):
                self.data.refresh(fact, execution)
        runs = [LakeRun(lake, self.data, pack) for lake in engines]
        measured: Measured = {}
        of_kind: Counter[str] = Counter()
        for phase in phases:
            # The first engine finds the dimensions cold.
            first = of_kind[phase.kind] % len(runs)
            of_kind[phase.kind] += 1
            measured[phase.name] = {}
            for run in [*runs[first:], *runs[:first]]:
                figures = run.run(phase)
                measured[phase.name][run.lake.name] = figures
                print(
                    f"{pack} {phase.name} {run.lake.name}: {figures}", file=sys.stderr, flush=True
                )
            if phase.changes:
                require_same({run.lake.name: {phase.name: run.shown()} for run in runs})
            if phase.queries and not phase.concurrent:
                require_same({run.lake.name: {phase.name: results_of(run)} for run in runs})
        for run in runs:
            run.lake.drop()
        return measured


def results_of(run: LakeRun) -> tuple[tuple[int, int], ...]:
    return tuple(sorted(run.results.items()))


class ProcessorClock:
    """The processor time of this process and of all below it since the clock was made.

    Idle Python workers of Spark end without being waited for, so that their earlier time disappears
    from the sums of the system; the clock therefore compares single processes.
    """

    def __init__(self) -> None:
        self._before = _ticks()

    def seconds(self) -> float:
        """The time so far, of ended processes only if this process waited for them."""
        used = sum(ticks - self._before.get(each, 0) for each, ticks in _ticks().items())
        return used / os.sysconf("SC_CLK_TCK")


def _ticks() -> dict[int, int]:
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # It has just ended.
            continue
        process = int(stat.parent.name)
        parents[process] = int(fields[1])
        ticks[process] = sum(map(int, fields[11 : 15 if process == os.getpid() else 13]))
    below: dict[int, int] = {}
    for process in parents:
        above = process
        while above not in (os.getpid(), 0):
            above = parents.get(above, 0)
        if above:
            below[process] = ticks[process]
    return below


def months_at(scale: float) -> int:
    """The usual number of months in each partition."""
    return 1 if scale >= MONTHLY_SCALE else 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1, help="the scale factor of TPC-DS")
    parser.add_argument("--packs", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(USUAL_ENGINES))
    parser.add_argument("--rounds", type=int, default=5, help="at most those of LST-Bench")
    parser.add_argument("--executions", type=int, default=1, help="of data maintenance in a round")
    thresholds = {"max_deltas": int, "max_delta_ratio": float}
    for name, type_ in thresholds.items():
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=type_,
            help="a threshold of our compactions in place of Hive's",
        )
    parser.add_argument("--months", type=int, help="the months in each partition")
    parser.add_argument("--cold", action="store_true", help="do not warm up")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    given = {name: getattr(arguments, name) for name in thresholds}
    HiveAcidLake.policy = CompactionPolicy(
        **{name: value for name, value in given.items() if value is not None}
    )
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hiveacid-bench-")))
        months = arguments.months or months_at(arguments.scale)
        data = Tpcds.generate(arguments.scale, folder / "tpcds", months)
        hms = stack.enter_context(EmbeddedMetastore("4.0.1", directory=folder / "hms"))
        spark = session_with_peers(folder)
        stack.callback(spark.stop)
        spark.sql("CREATE NAMESPACE IF NOT EXISTS ice.lst")
        engines = [ENGINES[name](spark, folder, hms) for name in arguments.engines]
        if not arguments.cold:
            small = Tpcds.generate(WARM_UP_SCALE, folder / "warm_up", months_at(WARM_UP_SCALE))
            LstBench(spark, engines, small).run("wp2", phases_of("wp2", 1, 1))
        bench = LstBench(spark, engines, data)
        packs: dict[str, object] = {}
        for pack in arguments.packs:
            phases = phases_of(pack, arguments.rounds, arguments.executions)
            measured = bench.run(pack, phases)
            packs[pack] = {"phases": measured, "s_dr": degradations(phases, measured)}
            result = {
                "scale": arguments.scale,
                "rounds": arguments.rounds,
                "executions": arguments.executions,
                "months": months,
                **{name: getattr(HiveAcidLake.policy, name) for name in thresholds},
                "packs": packs,
            }
            # A long run keeps the workloads that are complete.
            if arguments.json is not None:
                arguments.json.write_text(json.dumps(result, indent=2) + "\n")
    print(markdown(result))


if __name__ == "__main__":
    main()
