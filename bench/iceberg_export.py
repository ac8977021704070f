"""Exports and mirrors in Iceberg: compared with copies, with Spark, and with the merges before.

    python bench/iceberg_export.py --rows 16000000 --json out.json

The table is that of bench/compaction.py: eight deltas of one file each. Exports commit to a catalog
in SQLite, Spark writes to a catalog of files. Then two mirrors follow merges of 0.1 % of the rows, beside
each other and all over: one with applied deletes, and one with position delete files. Ratios are of
medians.
"""

import argparse
import json
import os
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import get_args

from compaction import Bench, copy, ratio, rounded
from delta_and_iceberg import ICEBERG_CATALOG, PACKAGES
from lineitem import lineitem
from pyiceberg.catalog import load_catalog
from session import seconds_of, session

from hiveacid.jobs.iceberg_job import IcebergDeletes, IcebergExportReport
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.names import TableRef

CATALOG = "lake"


class Lake:
    """A catalog in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.options = {
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"file://{folder}/lake",
        }
        self.catalog = load_catalog(CATALOG, **self.options)
        self.catalog.create_namespace("bench")

    def drop(self, name: str) -> None:
        self.catalog.drop_table(name)
        shutil.rmtree(self.folder / "lake")


def export(bench: Bench, lake: Lake, source: TableRef) -> tuple[float, IcebergExportReport]:
    """Export a table, and return the duration of the call and its report."""
    reports = []
    with bench.open(source) as table:
        seconds = seconds_of(
            lambda: reports.append(
                table.to_iceberg("bench.t", catalog=CATALOG, catalog_options=lake.options)
            )
        )
    lake.drop("bench.t")
    return seconds, reports[0]


def write_by_spark(bench: Bench, source: TableRef) -> float:
    name = f"{ICEBERG_CATALOG}.bench.t"
    with bench.open(source) as table:
        seconds = seconds_of(lambda: table.to_df().writeTo(name).using("iceberg").create())
    bench.spark.sql(f"DROP TABLE {name} PURGE")
    return seconds


def measure_mirror(
    bench: Bench, lake: Lake, source: TableRef, rows: int, runs: int
) -> dict[str, object]:
    """Merge rows, and update both mirrors, by turns."""
    result = dict[str, object]()
    many = rows // 1000
    merged = bench.like(source, "merged")
    with bench.open(merged) as table:

        def mirror(deletes: IcebergDeletes) -> IcebergExportReport:
            name = f"bench.{deletes}"
            options = lake.options
            return table.to_iceberg(name, catalog=CATALOG, catalog_options=options, deletes=deletes)

        for deletes in get_args(IcebergDeletes):
            mirror(deletes)
        for place in ("adjacent", "spread"):
            merging: list[float] = []
            mirroring = dict[str, list[float]](apply=[], positions=[])
            reports = dict[str, IcebergExportReport]()
            for run in range(runs + 1):
                first = rows // (runs + 2) * (run + 1)
                changes = lineitem(bench.spark, first, first + many, tasks=2, made_of="id + 7")
                if place == "spread":
                    changes = lineitem(bench.spark, 0, many, tasks=2, made_of="id + 7").selectExpr(
                        f"l_orderkey * 1000 + {run} as l_orderkey", *changes.columns[1:]
                    )
                statement = table.merge(changes, "t.l_orderkey = s.l_orderkey")
                seconds = seconds_of(
                    lambda statement=statement: statement.when_matched_update_all().execute()
                )
                if run:  # The first round warms up.
                    merging.append(seconds)
                for deletes in get_args(IcebergDeletes):
                    updated = seconds_of(
                        lambda deletes=deletes, reports=reports: reports.update(
                            {deletes: mirror(deletes)}
                        )
                    )
                    if run:
                        mirroring[deletes].append(updated)
            result |= {f"mirror_{place}_merge_seconds": rounded(merging)}
            for deletes, report in reports.items():
                kind = f"mirror_{deletes}_{place}"
                result |= {
                    f"{kind}_seconds": rounded(mirroring[deletes]),
                    f"{kind}_phases": report.seconds,
                    f"{kind}_stripes_copied": report.stripes_copied,
                    f"{kind}_stripes_encoded": report.stripes_encoded,
                    f"{kind}_vs_merge": ratio(
                        statistics.median(mirroring[deletes]), statistics.median(merging)
                    ),
                }
    for deletes in get_args(IcebergDeletes):
        lake.catalog.drop_table(f"bench.{deletes}")
    shutil.rmtree(lake.folder / "lake")
    bench.client.drop_table(merged)
    return result


def measure(rows: int, runs: int, folder: Path) -> dict[str, object]:
    settings = {
        "spark.jars.packages": PACKAGES[1],
        "spark.jars.excludes": "org.slf4j:*",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        f"spark.sql.catalog.{ICEBERG_CATALOG}": "org.apache.iceberg.spark.SparkCatalog",
        f"spark.sql.catalog.{ICEBERG_CATALOG}.type": "hadoop",
        f"spark.sql.catalog.{ICEBERG_CATALOG}.warehouse": str(folder / "iceberg"),
    }
    result: dict[str, object] = {"rows": rows}
    with EmbeddedMetastore("4.0.1", directory=folder / "hms") as hms:
        spark = session(folder, settings=settings)
        bench = Bench(hms, spark, folder)
        lake = Lake(folder)
        source = bench.create("source")
        bench.fill(source, rows)
        hundredth = f"l_orderkey >= {rows // 2} and l_orderkey < {rows // 2 + rows // 100}"
        deleted = bench.deleted(source, "deleted", hundredth)
        for name, table in (("whole", source), ("deleted", deleted)):
            copying, exporting, spark_seconds = [], [], []
            for run in range(runs + 1):
                copied = copy(bench.files(table), folder / "copy")
                seconds, report = export(bench, lake, table)
                if run:  # The first round warms up.
                    copying.append(copied)
                    exporting.append(seconds)
            for _ in range(2):
                spark_seconds.append(write_by_spark(bench, table))
            export_median = statistics.median(exporting)
            result |= {
                f"{name}_bytes": sum(
                    file.stat().st_size for file in bench.files(table).glob("delta_*/bucket_*")
                ),
                f"{name}_rows": report.rows,
                f"{name}_stripes_copied": report.stripes_copied,
                f"{name}_stripes_encoded": report.stripes_encoded,
                f"{name}_cp_seconds": rounded(copying),
                f"{name}_export_seconds": rounded(exporting),
                f"{name}_export_phases": report.seconds,
                f"{name}_spark_seconds": rounded(spark_seconds),
                f"{name}_export_vs_cp": ratio(export_median, statistics.median(copying)),
                f"{name}_spark_vs_export": ratio(min(spark_seconds), export_median),
            }
        result |= measure_mirror(bench, lake, source, rows, runs)
        spark.stop()
    return result | {"load_average": os.getloadavg()[0]}


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


if __name__ == "__main__":
    main()
