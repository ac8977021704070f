"""Counts the files of the package that one merge, one read, and one major compaction enter.

    PYTHONPATH=. python bench/control_flow.py --json out.json

Only the driver's process counts, and each pair of caller and function counts once. `files` are
the files entered, `switches` the calls from one file into another, and `returns` those of them that enter a
file again that was left before. `publish` is the part of the merge from publishing to its end. To compare
two revisions, run this file with the other checkout as PYTHONPATH and working directory.
"""

import argparse
import json
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

from session import session

import airflow_hiveacid
from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.engine.python.table import AcidTable
from airflow_hiveacid.metastore.catalog import HiveColumn, HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.dev.embedded import EmbeddedMetastore
from airflow_hiveacid.progress import Phase, PhaseObserver

PACKAGE = str(Path(airflow_hiveacid.__file__).parent) + "/"
TABLE = TableRef("bench", "orders")


class Trace(PhaseObserver):
    """The calls within the package, in their order, each pair of functions once.

    Attributes:
        entered: The files that were called into, in order.
        published: How many of them were entered before publishing.
    """

    def __init__(self) -> None:
        self.entered: list[str] = []
        self.published = 0
        self._seen: set[tuple[Any, Any]] = set()

    def enter(self, phase: Phase) -> None:
        if phase is Phase.PUBLISH and not self.published:
            self.published = len(self.entered)
            self._seen.clear()

    @contextmanager
    def running(self) -> Iterator[None]:
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _profile(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(PACKAGE):
            return
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(PACKAGE):
            caller = caller.f_back
        if caller is None:
            return
        pair = (caller.f_code, frame.f_code)
        if caller.f_code.co_filename != frame.f_code.co_filename and pair not in self._seen:
            self._seen.add(pair)
            self.entered.append(frame.f_code.co_filename.removeprefix(PACKAGE))


def figures(entered: list[str]) -> dict[str, int]:
    files = set(entered)
    switches = sum(one != other for one, other in pairwise(entered))
    return {
        "files": len(files),
        "switches": len(entered),
        "returns": max(0, switches + 1 - len(files)),
    }


def measure(folder: Path) -> dict[str, dict[str, int]]:
    found = {}
    with EmbeddedMetastore("4.0.1", directory=folder / "metastore") as metastore:
        spark = session(folder)
        with MetastoreClient(metastore.options) as client:
            client.create_database(TABLE.database)
            client.create_table(
                HiveTable.new(TABLE, [HiveColumn("id", "bigint"), HiveColumn("v", "string")])
            )
        rows = spark.range(1000).selectExpr("id", "cast(id as string) v")
        for name in ("warm up", "measured"):
            trace = Trace()
            with AcidTable(TABLE.full_name, metastore.uri, spark=spark, observers=[trace]) as table:
                table.append(rows)
                source = rows.where("id < 10").union(rows.selectExpr("id + 5000", "v").limit(5))
                trace.entered.clear()
                with trace.running():
                    merge = table.merge(source, "t.id = s.id").when_matched_update_all()
                    merge.when_not_matched_insert_all().execute()
                found["merge"] = figures(trace.entered)
                found["publish"] = figures(trace.entered[trace.published :])
                reading, compacting = Trace(), Trace()
                with reading.running():
                    table.to_df().count()
                found["read"] = figures(reading.entered)
                with compacting.running():
                    table.compact("major")
                found["major compaction"] = figures(compacting.entered)
            print(name, json.dumps(found), file=sys.stderr)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        result = measure(Path(made))
    for work, counts in result.items():
        print(work, *(f"{count} {name}" for name, count in counts.items()), sep=", ")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")
