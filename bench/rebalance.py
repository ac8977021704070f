"""Savings of a rebalance for readers of a few rows: seconds, bytes and rows, before and after.

    taskset -c 2,3 python bench/rebalance.py --rows 4000000 --json out.json

The rows come in no order of their column `l_partkey`, and are then sorted by it. A point are the
rows of one of its values, a range those of one percent of them.
"""

import argparse
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from lineitem import COLUMNS, lineitem
from pyspark.sql import SparkSession, functions
from session import TASKS, seconds_of, session

from hiveacid.metastore.catalog import HiveTable, StorageFormat
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.spark.python.table import AcidTable

# Of 200,000 values of the column.
QUERIES = {
    "point": "l_partkey = 77777",
    "range": "l_partkey >= 100000 AND l_partkey < 102000",
}


def measure(rows: int, runs: int, folder: Path) -> Iterator[dict[str, object]]:
    with EmbeddedMetastore("4.0.1", directory=folder / "hms") as hms:
        client = MetastoreClient(hms.options)
        client.create_database("bench")
        spark = session(folder)
        kinds = {
            TableKind.FULL_ACID: StorageFormat.ORC,
            TableKind.INSERT_ONLY: StorageFormat.PARQUET,
        }
        for kind, form in kinds.items():
            target = TableRef("bench", kind.value)
            client.create_table(HiveTable.new(target, COLUMNS, kind=kind, format=form))
            with AcidTable(target.full_name, hms.uri, spark=spark) as table:
                table.append(lineitem(spark, 0, rows, TASKS))
                for state in "as written", "rebalanced":
                    spent = 0.0
                    if state == "rebalanced":
                        spent = seconds_of(
                            lambda table=table: table.compact("rebalance", order_by=["l_partkey"])
                        )
                    for query, where in QUERIES.items():
                        asked = ask(spark, table, where, runs)
                        yield {
                            "table": kind.value,
                            "state": state,
                            "rebalance_seconds": round(spent, 1),
                            "query": query,
                            **asked,
                        }
        spark.stop()


def ask(spark: SparkSession, table: AcidTable, where: str, runs: int) -> dict[str, object]:
    """The price of some rows, again and again: the first time warms up, the fastest counts."""
    answers, spent, read = [], [], (0, 0)

    def once() -> None:
        frame = table.to_df(where=where)
        answers.append(
            frame.agg(functions.count("*"), functions.sum("l_extendedprice")).collect()[0]
        )

    for run in range(runs + 1):
        before = input_so_far(spark)
        seconds = seconds_of(once)
        after = input_so_far(spark)
        if run:
            spent.append(seconds)
            read = after[0] - before[0], after[1] - before[1]
    assert len(set(answers)) == 1
    return {
        "seconds": round(min(spent), 3),
        "bytes_read": read[0],
        "rows_read": read[1],
        "rows_found": answers[0][0],
        "price": str(answers[0][1]),
    }


def input_so_far(spark: SparkSession) -> tuple[int, int]:
    """The bytes that this Spark has read, by the system's own count, and the rows of its scans."""
    context = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    store = context.statusStore()
    defaults = [getattr(store, f"stageList$default${number}")() for number in range(2, 6)]
    stages = store.stageList(None, *defaults)
    rows = sum(stages.apply(number).inputRecords() for number in range(stages.size()))
    process = spark._jvm.java.lang.ProcessHandle.current().pid()
    counted = dict(
        line.split(": ") for line in Path(f"/proc/{process}/io").read_text().splitlines()
    )
    return int(counted["rchar"]), rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path, required=True)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="hiveacid-bench-"))
    try:
        result = list(measure(arguments.rows, arguments.runs, folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    arguments.json.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
