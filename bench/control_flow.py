"""Counts the files of the library that a merge, also in the worker, a read, and a major compaction enter.

    PYTHONPATH=. python bench/control_flow.py --json out.json

Only the driver's process counts, without heartbeats, and each pair of caller and function counts once
for each work. ORC files and the metastore count as one call each: calls inside of ``orc/`` and
``metastore/thrift/`` are not followed, and observers of progress do not count. `files` are the files
entered, `packages` the calls from one folder into another, `switches` the calls from one file into another,
and `returns` those of them that enter a file again that was left before. `read` is the call of
``TableReader.rows``. `publish to commit` is the part of the merge from ``TableOutput.publish`` to
``commit_txn``. To compare two revisions, run this file with the other checkout as PYTHONPATH and
working directory; where modules have other names there, change the imports.
"""

import argparse
import json
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path, PurePath
from types import FrameType
from typing import NamedTuple

from session import session

import hiveacid
from hiveacid.api.table import AcidTable
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.sources import PathSource
from hiveacid.jobs.write_jobs import MergeJob
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.merge import MatchedUpdate, NotMatchedInsert
from hiveacid.rules.names import TableRef
from hiveacid.worker.run import change_rows

PACKAGE = str(Path(hiveacid.__file__).parent) + "/"
NOT_FOLLOWED = ("orc/", "metastore/thrift/")
NOT_COUNTED = ("metastore/thrift/", "progress.py")
TABLE = TableRef("bench", "orders")


class Call(NamedTuple):
    """A call from one file of the package into another.

    Attributes:
        caller: The calling file and function.
        entered: The file and function that it calls.
    """

    caller: tuple[str, str]
    entered: tuple[str, str]

    @property
    def changes_package(self) -> bool:
        return PurePath(self.caller[0]).parent != PurePath(self.entered[0]).parent


class Trace:
    """The calls between files of the package, in their order.

    Attributes:
        calls: The calls.
        ends: For each file and function, the number of calls before its first return.
    """

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.ends: dict[tuple[str, str], int] = {}

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
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return
        if event == "return":
            self.ends.setdefault(_place(frame), len(self.calls))
        if event != "call":
            return
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(PACKAGE):
            caller = caller.f_back
        if caller is None or threading.current_thread().name.startswith("heartbeat"):
            return
        call = Call(_place(caller), _place(frame))
        followed = not call.caller[0].startswith(NOT_FOLLOWED)
        counted = not call.entered[0].startswith(NOT_COUNTED)
        if followed and counted and call.caller[0] != call.entered[0]:
            self.calls.append(call)


def _place(frame: FrameType) -> tuple[str, str]:
    return frame.f_code.co_filename.removeprefix(PACKAGE), frame.f_code.co_name


def between(calls: Sequence[Call], first: tuple[str, str], last: tuple[str, str]) -> list[Call]:
    """Return the calls from the first of a function to the first of another one after it."""
    entered = [call.entered for call in calls]
    begin = entered.index(first)
    return list(calls[begin : entered.index(last, begin) + 1])


def within(trace: Trace, function: tuple[str, str]) -> list[Call]:
    """Return the first call of a function, and the calls until it returns."""
    begin = [call.entered for call in trace.calls].index(function)
    return trace.calls[begin : trace.ends[function]]


def figures(calls: Sequence[Call]) -> dict[str, int]:
    once = list(dict.fromkeys(calls))
    entered = [call.entered[0] for call in once]
    files = set(entered)
    switches = sum(one != other for one, other in pairwise(entered))
    return {
        "files": len(files),
        "packages": sum(call.changes_package for call in once),
        "switches": len(once),
        "returns": switches + 1 - len(files),
    }


def worker_merge(folder: Path, metastore: MetastoreOptions) -> MergeJob:
    """A merge of as many rows, which the worker evaluates."""
    rows = [{"id": number, "v": "v"} for number in (*range(10), *range(5000, 5005))]
    source = folder / "rows.json"
    source.write_text("\n".join(map(json.dumps, rows)))
    return MergeJob(
        target=TABLE.full_name,
        source=PathSource(f"file:{source}", "json", schema="id bigint, v string"),
        on="t.id = s.id",
        when=(MatchedUpdate(), NotMatchedInsert()),
        run_in="worker",
        metastore=metastore,
    )


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
            with AcidTable(TABLE.full_name, metastore.uri, spark=spark, run_in="spark") as table:
                table.append(rows)
                source = rows.where("id < 10").union(rows.selectExpr("id + 5000", "v").limit(5))
                merging, in_worker, reading, compacting = (Trace() for _ in range(4))
                with merging.running():
                    merge = table.merge(source, "t.id = s.id").when_matched_update_all()
                    merge.when_not_matched_insert_all().execute()
                with in_worker.running():
                    change_rows(client, worker_merge(folder, metastore.options))
                with reading.running():
                    table.to_df().count()
                with compacting.running():
                    table.compact("major")
            publishing = between(
                merging.calls,
                ("writes/output.py", "publish"),
                ("metastore/client.py", "commit_txn"),
            )
            read = within(reading, ("spark/read/table_reader.py", "rows"))
            found = {
                "merge": figures(merging.calls),
                "merge in the worker": figures(in_worker.calls),
                "publish to commit": figures(publishing),
                "read": figures(read),
                "major compaction": figures(compacting.calls),
            }
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
