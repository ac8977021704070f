"""Queries of a partitioned table by its partition key, compared with Spark's own on flat ORC.

    PYTHONPATH=. python bench/partition_pruning.py --rows 3000000 --json out.json

Both tables have the same rows, partitions, codec, and Spark; a round runs all queries on the one and then on
the other. Ratios are of the medians of all rounds, without the first one.
"""

import argparse
import json
import shutil
import statistics
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from course import every_value
from lineitem import COLUMNS, lineitem
from pyspark.sql import DataFrame
from session import CODEC, TASKS, seconds_of, session

from airflow_hiveacid.acid.names import TableRef
from airflow_hiveacid.engine.python.table import AcidTable
from airflow_hiveacid.metastore.catalog import HiveColumn, HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.dev.embedded import EmbeddedMetastore

KEY = HiveColumn("sold", "date")
PARTITIONS = 10
FIRST = "2024-01-01"
# The filter and the columns of each query; None: all rows with all columns.
QUERIES: Mapping[str, tuple[str, str | None]] = {
    "one partition, sum of one column": (f"sold = date'{FIRST}'", "sum(l_quantity)"),
    "one partition, all columns": (f"sold = date'{FIRST}'", None),
    "three partitions, sum of one column": (
        f"sold between date'{FIRST}' and date_add(date'{FIRST}', 2)",
        "sum(l_quantity)",
    ),
    "all partitions, sum of one column": ("true", "sum(l_quantity)"),
    "all partitions, last key": ("true", "max(sold)"),
    "all partitions, all columns": ("true", None),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="hiveacid-bench-"))
    try:
        with EmbeddedMetastore("4.0.1", directory=folder / "hms") as hms:
            taken = measure(hms, folder, arguments.rows, arguments.rounds)
    finally:
        shutil.rmtree(folder)
    medians = {
        query: {table: statistics.median(each) for table, each in by_table.items()}
        for query, by_table in taken.items()
    }
    result = {
        query: {
            "hiveacid_seconds": round(found["hiveacid"], 3),
            "flat_seconds": round(found["flat"], 3),
            "ratio": round(found["hiveacid"] / found["flat"], 2),
        }
        for query, found in medians.items()
    }
    print(json.dumps(result, indent=2))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2))


def measure(
    hms: EmbeddedMetastore, folder: Path, rows: int, rounds: int
) -> dict[str, dict[str, list[float]]]:
    """Return the seconds of each query on each table in all rounds but the first one."""
    spark = session(folder)
    ref = TableRef("bench", "sales")
    with MetastoreClient(hms.options) as client:
        client.create_database("bench")
        client.create_table(HiveTable.new(ref, COLUMNS, partition_keys=[KEY]))
    days = f"date_add(date'{FIRST}', cast(pmod(l_orderkey, {PARTITIONS}) as int)) as sold"
    frame = lineitem(spark, 0, rows, TASKS).selectExpr("*", days)
    flat = str(folder / "flat")
    taken: dict[str, dict[str, list[float]]] = {
        query: {"hiveacid": [], "flat": []} for query in QUERIES
    }
    expected: dict[str, list[object]] = {}
    with AcidTable(ref.full_name, hms.uri, spark=spark) as table:
        table.append(frame)
        # One file for each partition.
        (
            frame.repartition(PARTITIONS, "sold")
            .write.option("compression", CODEC)
            .partitionBy("sold")
            .orc(flat)
        )
        for number in range(rounds + 1):
            # A new frame for each round: a second action on one reuses its shuffles.
            tables = {"hiveacid": table.to_df(), "flat": spark.read.orc(flat)}
            for name, source in tables.items():
                for query, (condition, asked) in QUERIES.items():
                    answers: list[object] = []
                    work = partial(answer, source.where(condition), asked, answers)
                    seconds = seconds_of(work)
                    if answers != expected.setdefault(query, answers):
                        raise RuntimeError(f"{query}: {name} answers {answers}.")
                    if number:
                        taken[query][name].append(seconds)
    spark.stop()
    return taken


def answer(found: DataFrame, asked: str | None, answers: list[object]) -> None:
    """Append an answer: the requested value, or the number of rows."""
    answers.append(every_value(found) if asked is None else found.selectExpr(asked).collect())


if __name__ == "__main__":
    main()
