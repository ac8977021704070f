"""The tables of this package compared with Delta Lake, Iceberg and plain ORC, on the same rows in
one run.

    PYTHONPATH=. python bench/peers.py --rows 4000000 --rounds 2 --json out.json

Every engine gets the same frames in the same Spark, in turn, another one first in every round; a
round on a smaller table comes before, to warm up. After the works all engines have to show the same
rows. The courses: the works of a warehouse (`works`), a table with many partitions (`partitions`), a
hundred small merges (`small`), the changes of the last transaction (`changes`), merges into a table and
into larger ones (`growth`, with the sizes of `--growth`), changes and reads of small tables (`tiny`),
and one merge in a separate driver, which has only merged a small table so far (`first`). Hive does
nothing but the compaction of the works, and only where `make interop` has fetched it.

Ratios are of medians: `ratio_<work>_<peer>`, and `ratio_zstd_<work>_<peer>` for our tables with zstd
instead of zlib. At the end come the tables of the results, as bench/tables.py prints them.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

from batches import Batches
from change_feed import ChangeFeed
from course import Course, Shown
from delta_and_iceberg import session_with_peers
from engines import (
    ChangingEngine,
    Delta,
    Engine,
    FlatOrc,
    FlatOrcZstd,
    HiveAcid,
    HiveAcidZstd,
    Iceberg,
)
from growth import Growth
from hive_compactor import HiveCompactor
from partitioned import Partitioned
from pyspark.sql import SparkSession
from session import seconds_of
from small_merges import SmallMerges
from tables import Tables
from tiny import Tiny
from works import Works

from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore

ENGINES: dict[str, type[Engine]] = {
    engine.name: engine
    for engine in (HiveAcid, HiveAcidZstd, Delta, Iceberg, FlatOrc, FlatOrcZstd, HiveCompactor)
}
COURSES: dict[str, type[Course]] = {
    course.name: course for course in (Works, Partitioned, SmallMerges, Growth, ChangeFeed, Tiny)
}
FIRST = "first"
SMALL = 20_000
# Java compiles frequently executed code there.
WARM = 400_000

Measured = dict[str, dict[str, list[float]]]


class Comparison:
    """The measurements of the engines so far, by work and engine, one number for each round."""

    def __init__(self) -> None:
        self.seconds: Measured = defaultdict(lambda: defaultdict(list))
        self.figures: Measured = defaultdict(lambda: defaultdict(list))

    def measure(
        self,
        courses: Sequence[type[Course]],
        engines: Sequence[Engine],
        warm: Batches,
        large: Batches,
        rounds: int,
    ) -> None:
        """Let all engines go through all courses, so many times after a smaller one."""
        for number in range(rounds + 1):
            first = number % len(engines)
            for course in courses:
                shown = {}
                for engine in [*engines[first:], *engines[:first]]:
                    if not takes_part(type(engine), course.name, course.kind):
                        continue
                    table = f"{course.name}_{number}"
                    batches = large if number else warm
                    done = course(engine, batches, table, warm_up=not number)
                    shown[engine.name] = done.shown
                    taken = ", ".join(f"{work} {each:.2f}" for work, each in done.seconds.items())
                    print(f"{table} {engine.name}: {taken}", file=sys.stderr, flush=True)
                    if number:
                        self._add(engine.name, done)
                require_same(shown)

    def _add(self, engine: str, done: Course) -> None:
        for measured, numbers in ((self.seconds, done.seconds), (self.figures, done.figures)):
            for name, number in numbers.items():
                measured[name][engine].append(round(number, 3))

    def first_merges(self, engines: Sequence[str], rows: int, rounds: int) -> None:
        """Have every engine merge in a driver of its own."""
        for _ in range(rounds):
            for name in engines:
                command = [sys.executable, __file__, "--first", name, "--rows", str(rows)]
                answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                seconds = float(answer.stdout.split()[-1])
                self.seconds["merge_spread_first"][name].append(round(seconds, 3))

    def ratios(self) -> dict[str, float]:
        """Our seconds by those of others."""
        ratios = {}
        for work, by_engine in self.seconds.items():
            medians = {name: statistics.median(values) for name, values in by_engine.items()}
            for prefix, ours in (("", HiveAcid.name), ("zstd_", HiveAcidZstd.name)):
                for peer in medians.keys() - {ours, HiveAcidZstd.name}:
                    if ours in medians:
                        ratio = medians[ours] / medians[peer]
                        ratios[f"ratio_{prefix}{work}_{peer}"] = round(ratio, 3)
        return dict(sorted(ratios.items()))


def takes_part(engine: type[Engine], course: str, kind: type[Engine] = ChangingEngine) -> bool:
    return issubclass(engine, kind) and (engine.courses is None or course in engine.courses)


def require_same(shown: dict[str, dict[str, Shown]]) -> None:
    """Refuse to compare engines whose tables have other rows."""
    moments = {moment for by_moment in shown.values() for moment in by_moment}
    for moment in moments:
        tables = {name: by[moment] for name, by in shown.items() if moment in by}
        if len(set(tables.values())) > 1:
            raise RuntimeError(f"The engines show different rows ({moment}): {tables}.")


def engines_of(
    names: Sequence[str], spark: SparkSession, folder: Path, stack: ExitStack
) -> list[Engine]:
    hms = stack.enter_context(EmbeddedMetastore("4.0.1", directory=folder / "hms"))
    MetastoreClient(hms.options).create_database(HiveAcid.database)
    spark.sql("CREATE NAMESPACE IF NOT EXISTS ice.bench")
    engines: list[Engine] = []
    for name in names:
        kind = ENGINES[name]
        if issubclass(kind, HiveCompactor):
            hive = stack.enter_context(closing(kind.start(folder / "hive")))
            engines.append(kind(spark, folder, hive))
        elif issubclass(kind, HiveAcid):
            engines.append(kind(spark, folder, hms.uri))
        else:
            engines.append(kind(spark, folder))
    return engines


def in_one_spark(
    comparison: Comparison, names: Sequence[str], courses: Sequence[str], rows: int, rounds: int
) -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hiveacid-bench-")))
        spark = session_with_peers(folder)
        stack.callback(spark.stop)
        engines = engines_of(names, spark, folder, stack)
        warm = Batches(spark, min(WARM, rows), folder / "warm")
        large = Batches(spark, rows, folder / "large")
        comparison.measure([COURSES[name] for name in courses], engines, warm, large, rounds)


def first_merge(name: str, rows: int) -> float:
    """The seconds of the first real merge of a driver, which is this one."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hiveacid-bench-")))
        spark = session_with_peers(folder)
        stack.callback(spark.stop)
        (engine,) = engines_of([name], spark, folder, stack)
        assert isinstance(engine, ChangingEngine)
        small = Batches(spark, SMALL, folder / "small")
        large = Batches(spark, rows, folder / "large")
        engine.create("small")
        engine.append(small.all)
        engine.upsert(small.neighbours)
        engine.create("large")
        engine.append(large.all)
        return seconds_of(partial(engine.upsert, large.spread))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    courses = [*COURSES, FIRST]
    parser.add_argument("--courses", nargs="+", choices=courses, default=courses)
    parser.add_argument("--growth", nargs="+", type=int, default=Growth.sizes, metavar="APPENDS")
    parser.add_argument("--first", choices=ENGINES, help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows, rounds = arguments.rows, arguments.rounds
    if arguments.first:
        print(first_merge(arguments.first, rows))
        return
    Growth.sizes = arguments.growth
    names = [name for name in arguments.engines if name != HiveCompactor.name]
    if len(names) < len(arguments.engines) and HiveCompactor.available():
        names.append(HiveCompactor.name)
    elif len(names) < len(arguments.engines):
        print("Hive's compactor is left out: `make interop` fetches Hive.", file=sys.stderr)
    comparison = Comparison()
    together = [name for name in arguments.courses if name != FIRST]
    if together:
        in_one_spark(comparison, names, together, rows, rounds)
    if FIRST in arguments.courses:
        changing = [name for name in names if takes_part(ENGINES[name], FIRST)]
        comparison.first_merges(changing, rows, rounds)
    result = {
        "rows": rows,
        "rounds": rounds,
        "seconds": comparison.seconds,
        "figures": comparison.figures,
        **comparison.ratios(),
    }
    text = json.dumps(result, indent=2) + "\n"
    if arguments.json is not None:
        arguments.json.write_text(text)
    print(text + Tables(result).markdown())


if __name__ == "__main__":
    main()
