"""An append compared with Spark's own flat ORC write, and the cost of a merge.

    python bench/write.py --rows 4000000 --json out.json

Both writers get the same frame in the same Spark, in turn; ratios are of medians.
"""

import argparse
import json
import shutil
import statistics
import tempfile
from pathlib import Path

from lineitem import COLUMNS, lineitem
from pyspark.sql import SparkSession
from session import CODEC, TASKS, seconds_of, session

from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.names import TableRef
from hiveacid.spark.python.table import AcidTable


def measure(rows: int, runs: int, folder: Path) -> dict[str, object]:
    with EmbeddedMetastore("4.0.1", directory=folder / "hms") as hms:
        client = MetastoreClient(hms.options)
        client.create_database("bench")
        spark = session(folder)
        target = TableRef("bench", "lineitem")
        source = lineitem(spark, 0, rows, TASKS)

        flat_folder = folder / "flat"

        def flat() -> None:
            source.write.option("compression", CODEC).orc(str(flat_folder))

        def append() -> None:
            reports.append(table.append(source))

        reports: list = []
        flat_seconds, append_seconds = [], []
        with AcidTable(target.full_name, hms.uri, spark=spark) as table:
            for run in range(runs + 1):
                client.create_table(HiveTable.new(target, COLUMNS))
                first, second = seconds_of(flat), seconds_of(append)
                if run:  # The first round warms up.
                    flat_seconds.append(first)
                    append_seconds.append(second)
                shutil.rmtree(flat_folder)
                if run < runs:
                    client.drop_table(target)
            merged = merge(table, spark, rows)
            visible = table.to_df().count()
        spark.stop()
    ratio = statistics.median(append_seconds) / statistics.median(flat_seconds)
    overhead = sum(s for phase, s in merged.seconds.items() if phase not in ("read", "write"))
    return {
        "rows": rows,
        "flat_seconds": flat_seconds,
        "append_seconds": append_seconds,
        "append_vs_flat": round(ratio, 3),
        "append_phases": reports[-1].seconds,
        "merge": merged.to_dict(),
        "merge_seconds": round(sum(merged.seconds.values()), 2),
        "merge_overhead_seconds": round(overhead, 3),
        "rows_after_merge": visible,
    }


def merge(table: AcidTable, spark: SparkSession, rows: int):
    """Three quarters of the source change a row of the table, one quarter is new."""
    changed, new = rows * 3 // 80, rows // 80
    updates = lineitem(spark, 0, rows, TASKS).where("pmod(hash(l_orderkey, 99), 80) < 3")
    updates = updates.limit(changed).withColumnRenamed("l_quantity", "q")
    updates = updates.selectExpr("* except (q)", "cast(q + 1 as decimal(15,2)) as l_quantity")
    source = updates.unionByName(lineitem(spark, rows, rows + new, TASKS))
    return (
        table.merge(source, "t.l_orderkey = s.l_orderkey")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
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


if __name__ == "__main__":
    main()
