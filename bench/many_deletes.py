"""Reads and writes of a table with millions of delete events, in a driver with 1 GB of memory.

    python bench/many_deletes.py --millions 1 5 12 50 --json out.json

Five of six rows are deleted. Counts and sums are compared with those of the numbers themselves.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from session import seconds_of, session

from hiveacid.api.table import AcidTable
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.names import TableRef

COLUMNS = [HiveColumn("id", "bigint"), HiveColumn("v", "string")]


def measure(millions: list[int], folder: Path) -> Iterator[dict[str, object]]:
    spark = session(folder, memory="1g")
    with EmbeddedMetastore(directory=folder / "hms") as hms:
        client = MetastoreClient(hms.options)
        client.create_database("bench")
        for count in millions:
            ref = TableRef("bench", f"deletes_{count}")
            client.create_table(HiveTable.new(ref, COLUMNS))
            with AcidTable(ref.full_name, hms.options, spark=spark, run_in="spark") as table:
                yield {"millions": count} | of_table(spark, table, count * 1_200_000)


def of_table(spark: SparkSession, table: AcidTable, rows: int) -> dict[str, float]:
    numbers = spark.range(rows)
    table.append(numbers.selectExpr("id", "concat('v', id % 100) AS v"))
    taken = {"read before": seconds_of(lambda: summed(table.to_df()))}
    taken["delete"] = seconds_of(lambda: table.delete("id % 6 <> 0"))
    taken["read"] = seconds_of(lambda: summed(table.to_df()))
    taken["delete one"] = seconds_of(lambda: table.delete("id = 6"))
    taken["update one"] = seconds_of(lambda: table.update({"v": "'v12'"}, "id = 12"))
    expected = summed(numbers.where("id % 6 = 0 AND id <> 6"))
    if summed(table.to_df()) != expected:
        raise SystemExit(f"{summed(table.to_df())} differs from {expected}.")
    return {name: round(seconds, 1) for name, seconds in taken.items()}


def summed(frame: DataFrame) -> tuple[int, ...]:
    return tuple(frame.selectExpr("count(*)", "sum(id)", "sum(hash(id))").collect()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millions", type=int, nargs="+", default=[1, 5, 12])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measured = list(measure(arguments.millions, Path(folder)))
    for row in measured:
        print(row)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(measured, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
