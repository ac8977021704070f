"""Calls of changes and reads by the number of partitions, in the table and touched.

    PYTHONPATH=. python bench/touched.py --partitions 10 100 1000 10000 --json build/touched.json

Counted are calls of the metastore, and those of the file system: listings, looks at a name, files
that are opened, written, flushed, moved, and removed. All work is that of the worker, on a real
metastore; an append has made one file of ten rows in each partition before. The last column is the
peak of the memory of Python's own objects.
"""

import argparse
import json
import tempfile
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hiveacid.api.table import AcidTable
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.names import TableRef
from hiveacid.storage.folder import LocalStorage
from hiveacid.tables.scan.table_scan import TableScan
from hiveacid.upkeep.compaction.table import TableCompactor
from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler
from tests.metastore_calls import DESCRIBED, counted_calls

FEW, ROWS = 3, 10
KINDS = {
    "_list": "listed",
    "_info": "looked at",
    "open_input": "opened",
    "create": "written",
    "make_directory": "made",
    "_flush": "flushed",
    "_name": "moved",
    "rename": "moved",
    "delete_file": "removed",
    "delete_directory": "removed",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--version", default="4.0.1")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    figures = []
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedMetastore(arguments.version, directory=Path(folder)) as metastore,
        MetastoreClient(metastore.options) as client,
    ):
        for partitions in arguments.partitions:
            for touched in dict.fromkeys((FEW, partitions)):
                figures += measure(client, partitions, touched)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1))


def measure(client: MetastoreClient, partitions: int, touched: int) -> Iterator[dict[str, Any]]:
    """Yield the figures of each work in a new table."""
    ref = TableRef("default", f"t_{partitions}_{touched}")
    columns = [HiveColumn("id", "bigint"), HiveColumn("v", "int")]
    days = [HiveColumn("day", "string")]
    client.create_table(HiveTable.new(ref, columns, partition_keys=days))
    table = AcidTable(str(ref), client.options, "worker")
    table.append(rows_of(range(partitions), 0, ROWS))
    part = "" if touched == partitions else f"day < 'd{touched:05d}'"
    where = f" AND {part}" if part else ""
    scanned = pc.field("day") < f"d{touched:05d}"
    changes = rows_of(range(touched), ROWS - 1, 2)

    def merge() -> object:
        clauses = table.merge(changes, f"t.day = s.day AND t.id = s.id{where and ' AND t.' + part}")
        return clauses.when_matched_update_all().when_not_matched_insert_all().execute()

    def compact() -> object:
        names = None if touched == partitions else [f"day=d{n:05d}" for n in range(touched)]
        with WorkerScheduler() as scheduler:
            job = CompactJob(target=str(ref), type="major", partitions=names)
            return TableCompactor(scheduler, client, job).run()

    works: dict[str, Callable[[], object]] = {
        "append": lambda: table.append(rows_of(range(touched), ROWS, 1)),
        "update": lambda: table.update({"v": "v + 1"}, f"id = 1{where}"),
        "delete": lambda: table.delete(f"id = 2{where}"),
        "merge": merge,
        "read": lambda: TableScan(str(ref), client.options, filter=scanned).to_arrow(),
        "compaction": compact,
    }
    for name, work in works.items():
        tracemalloc.start()
        with counted_calls() as calls, counted_files() as files:
            work()
        memory = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        figure = {
            "partitions": partitions,
            "touched": touched,
            "work": name,
            "calls": sum(calls.values()) - calls[DESCRIBED],
            "files": sum(files.values()),
            "MB": round(memory / 1e6, 1),
            "by call": dict(calls),
            "by kind": dict(files),
        }
        print(json.dumps(figure), flush=True)
        yield figure


def rows_of(days: range, first: int, count: int) -> pa.Table:
    ids = [first + number for _ in days for number in range(count)]
    names = [f"d{day:05d}" for day in days for _ in range(count)]
    return pa.table({"id": ids, "v": pa.array([0] * len(ids), pa.int32()), "day": names})


@contextmanager
def counted_files() -> Iterator[Counter[str]]:
    """Count the calls of the file system in this process."""
    counts: Counter[str] = Counter()

    def counted(kind: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*parameters: Any, **options: Any) -> Any:
            counts[kind] += 1
            return method(*parameters, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name, kind in KINDS.items():
            patch.setattr(LocalStorage, name, counted(kind, getattr(LocalStorage, name)))
        yield counts


if __name__ == "__main__":
    main()
