"""Cost of the typical loads of a warehouse: seconds per phase.

    python bench/loads.py --json out.json

A dimension of 4 million rows in 8 buckets takes an upsert of 500,000 rows (four fifths change a row,
one fifth is new), then deletes of 100,000 rows. A fact table of 8 days with a million rows each, in 4
buckets a day, takes a million mixed changes: six tenths are new, three tenths change a row of the
last week, one tenth deletes one. Sources are Parquet files. Every load is run several times, one
after the other on the same table, as hours and days come; `--scale 0.01` tries it out.
"""

import argparse
import json
import shutil
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from session import TASKS, session

from hiveacid.api.table import AcidTable
from hiveacid.jobs.job import Job
from hiveacid.jobs.report import RunReport
from hiveacid.jobs.sources import PathSource
from hiveacid.jobs.write_jobs import DeleteJob, MergeJob
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.merge import MatchedDelete, MatchedUpdate, NotMatchedInsert
from hiveacid.rules.names import TableRef
from hiveacid.spark.run import run

DIMENSION, FACTS = TableRef("bench", "customers"), TableRef("bench", "orders")
DIMENSION_ROWS, UPSERTS, DELETES = 4_000_000, 500_000, 100_000
DAYS, ROWS_PER_DAY, CHANGES = 8, 1_000_000, 1_000_000
# The groups of phases in the table.
PHASES = {
    "READ": ("read",),
    "WRITE": ("write",),
    "OPEN, LOCK and SNAPSHOT": ("open", "lock", "snapshot"),
    "REGISTER, PUBLISH and COMMIT": ("register", "publish", "commit"),
}


class Loads:
    """The tables and their loads; all numbers of rows are scaled."""

    def __init__(
        self, hms: EmbeddedMetastore, spark: SparkSession, folder: Path, scale: float
    ) -> None:
        self.hms, self.spark, self.folder, self.scale = hms, spark, folder, scale
        self.client = MetastoreClient(hms.options)
        self.client.create_database("bench")

    def rows(self, count: int) -> int:
        return max(10, int(count * self.scale))

    def create(self) -> None:
        columns = ["customer bigint", "name string", "city string", "segment string"]
        columns += ["balance decimal(12,2)", "changed_at timestamp"]
        named = [HiveColumn(*column.split(" ")) for column in columns]
        self.client.create_table(
            HiveTable.new(DIMENSION, named, bucket_columns=["customer"], num_buckets=8)
        )
        columns = ["order_id bigint", "shop int", "amount decimal(12,2)", "note string"]
        named = [HiveColumn(*column.split(" ")) for column in [*columns, "version bigint"]]
        self.client.create_table(
            HiveTable.new(
                FACTS,
                named,
                partition_keys=[HiveColumn("day", "string")],
                bucket_columns=["order_id"],
                num_buckets=4,
            )
        )
        with self._open(DIMENSION) as table:
            table.append(self.customers(0, self.rows(DIMENSION_ROWS)))
        with self._open(FACTS) as table:
            table.append(self.orders(0, DAYS * self.rows(ROWS_PER_DAY)))

    def upsert(self, hour: int) -> Job:
        """Rows all over the table, and rows after its end."""
        known, share = self.rows(DIMENSION_ROWS), self.rows(UPSERTS) * 4 // 5
        changed = self.customers(0, known).where(f"pmod(hash(customer, {hour}), {known}) < {share}")
        new = self.rows(UPSERTS) - share
        first = known + hour * new
        source = changed.selectExpr("* except (balance)", "balance + 1 as balance")
        source = source.unionByName(self.customers(first, first + new))
        return MergeJob(
            target=DIMENSION.full_name,
            source=self._feed(source, f"upsert{hour}"),
            on="t.customer = s.customer",
            when=(MatchedUpdate(), NotMatchedInsert()),
        )

    def delete(self, day: int) -> Job:
        # Customers that are still there: each day takes other ones.
        known = self.rows(DIMENSION_ROWS)
        share = known // self.rows(DELETES)
        requests = self.spark.range(known).where(f"pmod(id, {share}) = {day}")
        return DeleteJob(
            target=DIMENSION.full_name,
            where="t.customer IN (SELECT customer FROM requests)",
            inputs={
                "requests": self._feed(requests.withColumnRenamed("id", "customer"), f"del{day}")
            },
        )

    def mixed(self, hour: int) -> Job:
        """New orders of the last day; changes and cancellations of the last seven."""
        count, per_day = self.rows(CHANGES), self.rows(ROWS_PER_DAY)
        known = DAYS * per_day
        first = known + hour * count
        new = self.orders(first, first + count * 6 // 10, day=DAYS - 1)
        share = 7 * per_day // (count * 4 // 10)
        old = self.orders(per_day, known).where(f"pmod(order_id, {share}) = {hour}")
        cancelled = "CASE WHEN pmod(hash(order_id), 4) = 0 THEN 'cancel' ELSE 'upsert' END AS op"
        old = old.selectExpr("* except (version)", f"{hour + 2}L as version", cancelled)
        source = old.unionByName(new.selectExpr("*", "'upsert' as op"))
        values = {name: f"s.{name}" for name in ("shop", "amount", "note", "version")}
        return MergeJob(
            target=FACTS.full_name,
            source=self._feed(source, f"mixed{hour}"),
            on="t.day = s.day AND t.order_id = s.order_id",
            when=(
                MatchedDelete(condition="s.op = 'cancel'"),
                MatchedUpdate(set=values, condition="s.version > t.version"),
                NotMatchedInsert(
                    values={**values, "order_id": "s.order_id", "day": "s.day"},
                    condition="s.op <> 'cancel'",
                ),
            ),
        )

    def measure(self, make: Callable[[int], Job], runs: int) -> dict[str, object]:
        reports = []
        for number in range(runs + 1):
            reports.append(run(self.spark, replace(make(number), metastore=self.hms.options)))
        return summary(reports[1:])  # The first one warms up.

    def customers(self, first: int, end: int) -> DataFrame:
        return self.spark.range(first, end, 1, TASKS).selectExpr(
            "id as customer",
            "concat('name ', hex(hash(id))) as name",
            "element_at(array('Bonn', 'Kiel', 'Ulm'), cast(pmod(hash(id, 1), 3) + 1 as int))"
            " as city",
            "element_at(array('gold', 'iron'), cast(pmod(hash(id, 2), 2) + 1 as int)) as segment",
            "cast(pmod(hash(id, 3), 1000000) / 100 as decimal(12,2)) as balance",
            "timestamp_seconds(1700000000 + pmod(hash(id, 4), 50000000)) as changed_at",
        )

    def orders(self, first: int, end: int, day: int | None = None) -> DataFrame:
        per_day = self.rows(ROWS_PER_DAY)
        number = f"cast(id div {per_day} as int)" if day is None else str(day)
        return self.spark.range(first, end, 1, TASKS).selectExpr(
            "id as order_id",
            "cast(pmod(hash(id), 500) as int) as shop",
            "cast(pmod(hash(id, 1), 1000000) / 100 as decimal(12,2)) as amount",
            "concat('note ', hex(hash(id, 2)), hex(hash(id, 3))) as note",
            "1L as version",
            f"cast(date_add(date'2026-11-01', {number}) as string) as day",
        )

    def _feed(self, rows: DataFrame, name: str) -> PathSource:
        path = str(self.folder / "feeds" / name)
        rows.write.parquet(path)
        return PathSource(path=path, format="parquet")

    def _open(self, ref: TableRef) -> AcidTable:
        return AcidTable(ref.full_name, self.hms.uri, spark=self.spark, run_in="spark")


def summary(reports: list[RunReport]) -> dict[str, object]:
    """The run of median length, and how long each took."""
    failed = [report.error for report in reports if report.error is not None]
    if failed:
        raise RuntimeError(failed[0].message)
    seconds = [round(sum(report.seconds.values()), 2) for report in reports]
    middle = reports[seconds.index(statistics.median_low(seconds))]
    return {
        "seconds": seconds,
        "phases": {phase: round(taken, 3) for phase, taken in middle.seconds.items()},
        "rows_inserted": middle.rows_inserted,
        "rows_updated": middle.rows_updated,
        "rows_deleted": middle.rows_deleted,
        "files": middle.files,
        "bytes": middle.bytes,
    }


def table_of(loads: dict[str, dict]) -> str:
    """The seconds per phase as Markdown."""
    lines = [f"| Phase | {' | '.join(loads)} |", "|---" * (len(loads) + 1) + "|"]
    for label, phases in PHASES.items():
        taken = [sum(load["phases"].get(phase, 0) for phase in phases) for load in loads.values()]
        lines.append(f"| {label} | {' | '.join(f'{each:.2f}' for each in taken)} |")
    for label, total in (("together", statistics.median), ("the slowest", max)):
        cells = [f"{total(load['seconds']):.2f}" for load in loads.values()]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    for label, key in (("files", "files"), ("MB", "bytes")):
        cells = [f"{load[key] / (1e6 if key == 'bytes' else 1):.3g}" for load in loads.values()]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def measure(scale: float, runs: int, folder: Path) -> dict[str, dict]:
    with EmbeddedMetastore("4.0.1", directory=folder / "hms") as hms:
        spark = session(folder, memory="6g")
        loads = Loads(hms, spark, folder, scale)
        loads.create()
        result = {
            "upsert": loads.measure(loads.upsert, runs),
            "delete": loads.measure(loads.delete, runs),
            "mixed": loads.measure(loads.mixed, runs),
        }
        spark.stop()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=Path, required=True)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="hiveacid-bench-"))
    try:
        result = measure(arguments.scale, arguments.runs, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    arguments.json.write_text(json.dumps({"scale": arguments.scale, **result}, indent=2) + "\n")
    print(json.dumps(result, indent=2))
    print(table_of(result))


if __name__ == "__main__":
    main()
