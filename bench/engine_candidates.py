"""Engines that could evaluate the expressions of the worker, judged by the results of Spark.

    pip install --target build/candidates datafusion "pysail>=0.7,<0.8"
    PYTHONPATH=. python bench/engine_candidates.py --packages build/candidates --json out.json

Each engine evaluates all expressions of ``tests/data/spark_values.parquet`` on all rows of edge values
that have a result there; rows for which Spark fails are not compared. An expression is "equal" with
the type and all values of Spark, equal "after a cast" to Spark's type, "different", or "refused". Of a
sample of the expressions that need Spark today, "beyond" is the share that an engine evaluates for a
row of nulls. The seconds and the memory are those of a new process until the result of its first
expression; the installed size is that of packages that the worker does not have. ``--packages`` is a
folder with further packages. An engine that is not installed is left out.
"""

import argparse
import atexit
import json
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pyarrow as pa
from packaging.requirements import Requirement

from hiveacid.rules.schema import parse_type
from hiveacid.worker.expressions import Scope, arrow_type, compiled, hive_type
from tests.memory import peak_megabytes
from tests.worker.spark_values import FAILS, Case, cases, rows_of, stored_results, texts_of

BATCH, SAMPLE = 200, 41
# Returns a column for each expression on some rows, and their column "number".
Engine = Callable[[pa.Table, Sequence[str]], pa.Table]


def query_of(texts: Sequence[str]) -> str:
    return f"SELECT {''.join(f'({text}) AS c{at}, ' for at, text in enumerate(texts))}number FROM t"


def worker() -> Engine:
    def select(rows: pa.Table, texts: Sequence[str]) -> pa.Table:
        kinds = {each.name: each.type for each in rows.schema}
        times = {name for name, kind in kinds.items() if pa.types.is_timestamp(kind)}
        kinds |= dict.fromkeys(times, pa.timestamp("us"))
        scope = Scope({"t": {name: hive_type(kind) for name, kind in kinds.items()}})
        rows = rows.rename_columns([f"t.{name}" for name in kinds])
        found = {f"c{at}": compiled(text, scope).values(rows) for at, text in enumerate(texts)}
        return pa.table(found | {"number": rows["t.number"]})

    return select


def duckdb() -> Engine:
    from duckdb import connect
    from sqlglot import ErrorLevel, transpile

    connection = connect()
    connection.execute("SET TimeZone = 'UTC'")

    def select(rows: pa.Table, texts: Sequence[str]) -> pa.Table:
        connection.register("t", rows)
        level = ErrorLevel.RAISE
        (query,) = transpile(query_of(texts), "spark", "duckdb", unsupported_level=level)
        return connection.sql(query).to_arrow_table()

    return select


def datafusion() -> Engine:
    from datafusion import SessionConfig, SessionContext

    config = SessionConfig().set("datafusion.sql_parser.dialect", "Spark")
    config = config.set("datafusion.sql_parser.parse_float_as_decimal", "true")
    config = config.set("datafusion.execution.enable_ansi_mode", "true")
    context = SessionContext(config.set("datafusion.execution.time_zone", "UTC"))
    context.enable_spark_functions()

    def select(rows: pa.Table, texts: Sequence[str]) -> pa.Table:
        context.deregister_table("t")
        context.from_arrow(rows, "t")
        return context.sql(query_of(texts)).to_arrow_table()

    return select


def pysail() -> Engine:
    from pysail.spark import SparkConnectServer
    from pyspark.sql.connect.session import SparkSession

    server = SparkConnectServer()
    server.start()
    _, port = server.listening_address
    session = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
    session.conf.set("spark.sql.ansi.enabled", "true")
    session.conf.set("spark.sql.session.timeZone", "UTC")
    # In reverse: a session whose server has ended waits for it for minutes.
    atexit.register(server.stop)
    atexit.register(session.stop)

    def select(rows: pa.Table, texts: Sequence[str]) -> pa.Table:
        session.createDataFrame(rows).createOrReplaceTempView("t")
        return session.sql(query_of(texts)).toArrow()

    return select


# Each engine with the packages that the worker would need for it.
ENGINES: dict[str, tuple[Callable[[], Engine], Sequence[str]]] = {
    "worker": (worker, ()),
    "duckdb": (duckdb, ("duckdb",)),
    "datafusion": (datafusion, ("datafusion",)),
    "pysail": (pysail, ("pysail", "pyspark-client")),
}


def values_of(
    engine: Engine, types: tuple[str, ...], numbers: Sequence[int], texts: Sequence[str]
) -> list[pa.ChunkedArray | None]:
    """Evaluate expressions on some rows of edge values; None are those that fail alone."""
    columns = {"number": pa.chunked_array([pa.array(range(len(numbers)), pa.int64())])}
    for name in "abc"[: len(types)]:
        values = rows_of(types, for_spark=True)[name].take(pa.array(numbers))
        # The worker evaluates no text that is not UTF-8.
        columns[name] = values.cast(pa.string()) if values.type == pa.binary() else values
    try:
        found = engine(pa.table(columns), texts).sort_by("number")
        found.validate(full=True)
    except Exception:  # noqa: BLE001 - each engine has its own
        half = len(texts) // 2
        parts = [texts[:half], texts[half:]] if half else []
        return [v for part in parts for v in values_of(engine, types, numbers, part)] or [None]
    return [*found.columns[:-1]]


def verdict(found: pa.ChunkedArray | None, type_: str, expected: Sequence[str | None]) -> str:
    if found is None:
        return "refused"
    kind = arrow_type(parse_type(type_))
    try:
        if texts_of(found.cast(kind)) != expected:
            return "different"
    except pa.ArrowException:
        return "different"
    # To Spark, texts of all layouts are one type, and timestamps of all units.
    names = {re.sub(r"large_|_view|\[.*", "", str(each)) for each in (found.type, kind)}
    return "equal" if len(names) == 1 else "after a cast"


def judged(engine: Engine, stored: Mapping[Case, tuple[str, list[str | None]]]) -> Iterator[str]:
    """Yield the verdicts on an engine for all expressions."""
    together: dict[tuple[tuple[str, ...], tuple[int, ...]], list[str]] = {}
    for case, (_, results) in stored.items():
        numbers = tuple(n for n, result in enumerate(results) if result != FAILS)
        together.setdefault((case.types, numbers), []).append(case.text)
    for (types, numbers), texts in together.items():
        for at in range(0, len(texts), BATCH):
            some = texts[at : at + BATCH]
            for text, values in zip(some, values_of(engine, types, numbers, some), strict=True):
                type_, results = stored[Case(text, types)]
                yield verdict(values, type_, [results[n] for n in numbers])


def started(command: Sequence[str]) -> tuple[float, int]:
    """Return the seconds and the memory of a new process until its first result."""
    begun = time.monotonic()
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return round(time.monotonic() - begun, 2), int(done.stdout)


def added_megabytes(names: Sequence[str]) -> int:
    """Return the size of packages and of all that they require, without those of the worker."""
    waiting, seen, size = [*names], {"pyarrow", "numpy", "sqlglot"}, 0
    while waiting:
        if (name := waiting.pop()) not in seen:
            seen.add(name)
            found = distribution(name)
            paths = [Path(str(file.locate())) for file in found.files or ()]
            size += sum(path.stat().st_size for path in paths if path.is_file())
            wanted = [Requirement(each) for each in found.requires or ()]
            waiting += [w.name for w in wanted if not w.marker or w.marker.evaluate({"extra": ""})]
    return size >> 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", default="build/candidates")
    parser.add_argument("--first", choices=ENGINES, help="only evaluate one expression")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    # Behind the packages of the worker, such as Arrow.
    sys.path.append(arguments.packages)
    if arguments.first:
        ENGINES[arguments.first][0]()(pa.table({"number": [0]}), ["1 + 1"])
        print(peak_megabytes())
        return
    stored = stored_results()
    others = [case for case in dict.fromkeys(cases()) if case not in stored][::SAMPLE]
    found: dict[str, dict[str, float]] = {}
    for name, (start, packages) in ENGINES.items():
        try:
            found[name] = {"installed_mb": added_megabytes(packages)}
        except PackageNotFoundError as error:
            print(f"{name} is left out: {error}")
            continue
        command = [sys.executable, __file__, "--packages", arguments.packages, "--first", name]
        seconds, memory = min(started(command) for _ in range(5))
        found[name] |= {"seconds": seconds, "memory_mb": memory}
        engine = start()
        found[name] |= Counter(judged(engine, stored))
        known = [values_of(engine, each.types, [0], [each.text]) != [None] for each in others]
        found[name]["beyond_percent"] = round(100 * sum(known) / len(known))
        print(name, found[name], flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
