"""An append, a merge and a major compaction on an S3 store compared with those on a local disk.

    PYTHONPATH=. python bench/object_store.py --rows 1000000 --json build/object_store.json

The same rows in the same Spark, on both in turn, another one first in each round, after a round with a
tenth of the rows. The store is the one of `make s3`, on this machine, behind a proxy that counts the
requests, and through which each byte goes. Ratios are of medians. `--renaming` leaves Spark without
its module hadoop-cloud.
"""

import argparse
import json
import os
import shutil
import statistics
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from batches import Batches
from engines import ON
from lineitem import COLUMNS
from pyspark.sql import SparkSession
from session import seconds_of, session

from hiveacid.api.table import AcidTable
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.progress import Phase
from hiveacid.rules.names import TableRef
from tests.observers import At
from tests.s3.store import S3Store

APPENDS = 4
PLACES = ("disk", "S3")
Work = Callable[[AcidTable], Any]


class Bench:
    """A database on the disk and one on the store, with one Spark."""

    def __init__(self, hms: EmbeddedMetastore, store: S3Store, spark: SparkSession) -> None:
        self.hms, self.store, self.spark = hms, store, spark
        self.client = MetastoreClient(hms.options)
        self.client.create_database("disk")
        self.client.create_database("s3", managed_location=f"{store.uri}/s3.db")

    def course(self, place: str, rows: int, folder: Path) -> Iterator[dict[str, Any]]:
        """Return the cost of each work, and the visible rows at the end."""
        ref = TableRef(place.lower(), "lineitem")
        self.client.create_table(HiveTable.new(ref, COLUMNS))
        batches = Batches(self.spark, rows, folder)
        works: dict[str, Work] = {
            f"append of {rows // APPENDS} rows, the last of {APPENDS}": lambda acid: acid.append(
                batches.some(rows - rows // APPENDS, rows // APPENDS)
            ),
            f"merge of {rows // 20} rows, all over": lambda acid: (
                acid.merge(batches.spread, ON)
                .when_matched_update_all()
                .when_not_matched_insert_all()
                .execute()
            ),
            "major compaction": lambda acid: acid.compact("major"),
        }
        with AcidTable(ref.full_name, self.hms.uri, spark=self.spark, run_in="spark") as acid:
            for number in range(APPENDS - 1):
                acid.append(batches.some(number * (rows // APPENDS), rows // APPENDS))
        for name, work in works.items():
            yield {"work": name, "place": place, **self.measure(ref, work)}
        with AcidTable(ref.full_name, self.hms.uri, spark=self.spark, run_in="spark") as acid:
            seen = acid.to_df().selectExpr("count(*)", "sum(hash(*))").collect()[0]
        self.client.drop_table(ref)
        yield {"work": "seen", "place": place, "rows": list(map(int, seen))}

    def measure(self, ref: TableRef, work: Work) -> dict[str, Any]:
        """Return the seconds and the requests to the store, before publishing and afterwards."""
        proxy, before = self.store.proxy, []
        reports: list[Any] = []
        proxy.reset()
        copied = At(Phase.PUBLISH, lambda: before.append(proxy.copied))
        with AcidTable(
            ref.full_name, self.hms.uri, spark=self.spark, run_in="spark", observers=[copied]
        ) as acid:
            seconds = seconds_of(lambda: reports.append(work(acid)))
        if reports[0].error is not None:
            raise RuntimeError(reports[0].error.message)
        return {
            "seconds": seconds,
            "requests": dict(proxy.requests),
            "bytes_put": proxy.sent,
            "bytes_copied": proxy.copied,
            "bytes_copied_from_publish_on": proxy.copied - before[0],
        }


def measure(rows: int, rounds: int, renaming: bool, folder: Path) -> dict[str, Any]:
    with S3Store(folder / "store") as store:
        os.environ.update(store.environment)
        settings = dict(store.spark_settings)
        if renaming:
            jars = settings["spark.driver.extraClassPath"].split(os.pathsep)
            kept = [jar for jar in jars if "hadoop-cloud" not in jar]
            settings["spark.driver.extraClassPath"] = os.pathsep.join(kept)
        with EmbeddedMetastore(
            "4.0.1",
            directory=folder / "hms",
            hadoop=store.hadoop,
            libraries=store.libraries,
        ) as hms:
            spark = session(folder, settings=settings)
            bench = Bench(hms, store, spark)
            measured: list[dict[str, Any]] = []
            for number in range(rounds + 1):
                size = rows if number else rows // 10
                seen = []
                for place in PLACES if number % 2 else reversed(PLACES):
                    done = list(bench.course(place, size, folder))
                    seen.append(done.pop()["rows"])
                    measured += done if number else []
                if seen[0] != seen[1]:
                    raise RuntimeError(f"Not the same rows: {seen}")
            spark.stop()
    return {"rows": rows, "rounds": rounds, "works": summary(measured)}


def summary(measured: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each work with its medians, and the requests of its last round."""
    works = []
    for name in dict.fromkeys(each["work"] for each in measured):
        of = {p: [m for m in measured if (m["work"], m["place"]) == (name, p)] for p in PLACES}
        seconds = {p: statistics.median(m["seconds"] for m in of[p]) for p in PLACES}
        last = {key: value for key, value in of["S3"][-1].items() if key not in ("place", "work")}
        told = {"disk_seconds": seconds["disk"], "s3_seconds": seconds["S3"]}
        ratio = round(seconds["S3"] / seconds["disk"], 2)
        works.append({"work": name, **last, **told, "s3_vs_disk": ratio})
    return works


def table_of(result: dict[str, Any]) -> str:
    """The works as Markdown."""
    works = result["works"]
    kinds: Counter[str] = Counter()
    for each in works:
        kinds.update(each["requests"])
    lines = [
        "| | " + " | ".join(each["work"] for each in works) + " |",
        "|---" * (len(works) + 1) + "|",
        _line("local disk, s", [f"{each['disk_seconds']:.2f}" for each in works]),
        _line("S3, s", [f"{each['s3_seconds']:.2f}" for each in works]),
        _line("times the disk's", [f"{each['s3_vs_disk']:.2f}" for each in works]),
        _line("bytes copied", [f"{each['bytes_copied']:,}" for each in works]),
        _line("of these to publish", [str(each["bytes_copied_from_publish_on"]) for each in works]),
        _line("MB put", [f"{each['bytes_put'] / 1e6:.1f}" for each in works]),
        _line("requests", [str(sum(each["requests"].values())) for each in works]),
        *(_line(kind, [str(w["requests"].get(kind, 0)) for w in works]) for kind in sorted(kinds)),
    ]
    return "\n".join(lines)


def _line(name: str, values: list[str]) -> str:
    return f"| {name} | {' | '.join(values)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--renaming", action="store_true")
    parser.add_argument("--json", type=Path, required=True)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="hiveacid-bench-"))
    try:
        result = measure(arguments.rows, arguments.rounds, arguments.renaming, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    arguments.json.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))
    print(table_of(result))


if __name__ == "__main__":
    main()
