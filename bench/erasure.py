"""An erasure beside a delete and a major compaction of the whole table, without Spark.

    PYTHONPATH=. python bench/erasure.py --rows 16000000 --erased 100000 --json build/erasure.json

The table has 16 partitions with two deltas each, and a text key of each row. The rows of the erased keys
are in some partitions (``--partitions``), all over them, with the smallest and the largest key of
each. The bytes are those of the files that the compactions of both ways have written; the delete
events are the same. The metastore is that of the tests, in the process that measures.

With ``--peers``, Spark erases the same keys from tables of Iceberg and Delta Lake with the same rows.
Their bytes are those of all files that their statements add. Afterwards the bytes of all files below
the folders of the tables, decompressed, are searched for the keys, without readers of this package.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
from cpu import cpu_seconds
from pyarrow import orc

from hiveacid.erasure.keys import KeySet
from hiveacid.erasure.requests import Eraser
from hiveacid.erasure.rows import EraseRows
from hiveacid.jobs.erase_job import EraseJob
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.report import CompactReport
from hiveacid.jobs.sources import BatchSource
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.orc.copying.transplant import transplant
from hiveacid.rules.names import Delta, TableRef
from hiveacid.rules.row_id import encode_bucket
from hiveacid.upkeep.compaction.table import TableCompactor
from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler
from hiveacid.worker.engine import ArrowEngine
from hiveacid.writes.atomic_write import run_statements
from hiveacid.writes.statement import WriteOptions
from tests.fakes.metastore import FakeMetastore
from tests.places import place_of

PARTITIONS, DELTAS = 16, 2
# Java compiles frequently executed code in a run with so many rows.
SMALL = 100_000
COLUMNS = [
    HiveColumn("who", "string"),
    HiveColumn("amount", "double"),
    HiveColumn("note", "string"),
]


class Bench:
    """Two equal tables."""

    def __init__(self, client: MetastoreClient, folder: Path, rows: int) -> None:
        self.client, self.folder = client, folder
        self.rows = rows // PARTITIONS
        self.files = [self._flat(*divmod(number, DELTAS)) for number in range(DELTAS * PARTITIONS)]
        self.size = sum(file.stat().st_size for file in self.files)

    def keys(self, erased: int, partitions: int) -> list[str]:
        """Keys of as many rows, all over some partitions."""
        of_each = erased // partitions
        step = self.rows // of_each
        keys = []
        for p in range(partitions):
            ordered = sorted(self._key(p, row) for row in range(self.rows))
            spread = [self._key(p, row * step) for row in range(of_each)]
            keys += [*dict.fromkeys((ordered[0], ordered[-1], *spread))][:of_each]
        return keys

    def place(self, name: str) -> Path:
        return Path(place_of(self.client.get_table(TableRef.parse(name)).folder))

    def table(self, name: str) -> str:
        ref = TableRef("default", name)
        self.client.create_table(
            HiveTable.new(ref, COLUMNS, partition_keys=[HiveColumn("p", "int")])
        )
        table = self.client.get_table(ref)
        partitions = [HivePartition.new(table, [str(p)]) for p in range(PARTITIONS)]
        self.client.add_partitions(ref, partitions)
        for number, file in enumerate(self.files):
            partition = number // DELTAS
            txn = self.client.open_txn("bench", "localhost", None)
            write_id = self.client.allocate_write_id(txn, ref)
            folder = place_of(table.folder) / f"p={partition}" / Delta(write_id, write_id, 0).name
            folder.mkdir(parents=True)
            with (folder / "bucket_00000").open("wb") as sink, file.open("rb") as source:
                transplant([source], sink, write_id=write_id, bucket=encode_bucket(0))
            self.client.commit_txn(txn)
        return str(ref)

    def delete_and_compact(self, name: str, keys: list[str]) -> dict[str, Any]:
        found = KeySet.of(b"bench", keys)
        statement = EraseRows(TableRef.parse(name), None, "who", lambda _: found)
        began, used = time.perf_counter(), cpu_seconds()
        done = run_statements(ArrowEngine(), self.client, WriteOptions(), [], [statement])
        job = CompactJob(target=name, type="major", metastore=self.client.options)
        with WorkerScheduler() as scheduler:
            report = TableCompactor(scheduler, self.client, job).run()
        written = sum(each.bytes_written for each in report.partitions)
        seconds, used = time.perf_counter() - began, cpu_seconds() - used
        return {"s": seconds, "cpu_s": used, "bytes": written, "rows": done.rows_deleted}

    def erase(self, name: str, keys: list[str]) -> dict[str, Any]:
        reports: list[CompactReport] = []
        run = TableCompactor.run

        def noted(compactor: TableCompactor) -> CompactReport:
            reports.append(run(compactor))
            return reports[-1]

        job = EraseJob(
            request="bench",
            keys=BatchSource(),
            columns={name: "who"},
            folder=f"file:{self.folder}/erasures",
            retention="0",
            metastore=self.client.options,
        )
        TableCompactor.run = noted  # type: ignore[method-assign]
        began, used = time.perf_counter(), cpu_seconds()
        try:
            report = Eraser(self.client, job.folder).run(job, keys)
        finally:
            TableCompactor.run = run  # type: ignore[method-assign]
        seconds, used = time.perf_counter() - began, cpu_seconds() - used
        if report.certificate is None:
            raise SystemExit(f"There is no certificate: {report.waits}")
        done = [each for compacted in reports for each in compacted.partitions]
        written = sum(each.bytes_written for each in done)
        return {"s": seconds, "cpu_s": used, "bytes": written, "rows": report.rows_deleted}

    def _key(self, partition: int, row: int) -> str:
        # The bounds of texts in Iceberg have 16 characters.
        return f"person{partition:02x}{row * 2654435761 % 2**32:08x}"

    def _flat(self, partition: int, part: int) -> Path:
        path = self.folder / f"{partition}-{part}.orc"
        first, end = (self.rows * each // DELTAS for each in (part, part + 1))
        schema = pa.schema([("who", pa.string()), ("amount", pa.float64()), ("note", pa.string())])
        with orc.ORCWriter(str(path), compression="zlib", stripe_size=16 << 20) as writer:
            for start in range(first, end, 200_000):
                numbers = range(start, min(start + 200_000, end))
                columns = {
                    "who": [self._key(partition, row) for row in numbers],
                    "amount": [row * 0.37 for row in numbers],
                    "note": [f"note {row % 1000}" for row in numbers],
                }
                writer.write(pa.table(columns, schema=schema))
        return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=16_000_000)
    parser.add_argument("--erased", type=int, default=100_000)
    parser.add_argument("--partitions", type=int, nargs="+", default=[4, PARTITIONS])
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    result: dict[str, Any] = {"rows": arguments.rows, "erased": arguments.erased}
    for partitions in arguments.partitions:
        with (
            tempfile.TemporaryDirectory(prefix="hiveacid-bench-") as folder,
            FakeMetastore("4.0.1", directory=Path(folder) / "fake") as metastore,
            MetastoreClient(metastore.options) as client,
        ):
            bench = Bench(client, Path(folder), arguments.rows)
            result["MB"] = bench.size >> 20
            keys = bench.keys(arguments.erased, partitions)
            both = {
                "delete and major compaction": bench.delete_and_compact(bench.table("a"), keys),
                "erasure": bench.erase(bench.table("b"), keys),
            }
            whole, erased = (each["bytes"] for each in both.values())
            result[f"{partitions} partitions"] = {**both, "share": round(erased / whole, 3)}
            print(json.dumps({partitions: both, "share": erased / whole}), flush=True)
            if arguments.peers:
                from erasure_peers import found_keys, measure_peers

                wanted = {key.encode() for key in keys}
                both["erasure"]["left"] = found_keys(bench.place("default.b"), wanted)
                little = Path(folder) / "little"
                little.mkdir()
                small = Bench(client, little, min(SMALL, arguments.rows)).files
                peers = measure_peers(Path(folder) / "peers", bench.files, small, keys)
                result[f"{partitions} partitions"]["peers"] = peers
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
