"""The processor time for thousands of small deltas: compactions in the worker, and a scan.

    PYTHONPATH=. python bench/small_deltas.py --deltas 300 1000 3000 --json out.json

Each delta has ten rows of three columns. In a second kind of table, every second delta deletes a row
of the previous one. The metastore is that of the tests, in the process that measures, and its time
is not included; neither is the start of Python.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from bench.small_compaction import COLUMNS, Bench
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.orc.copying.transplant import transplant
from hiveacid.orc.format.tail import OrcTail
from hiveacid.orc.row_keys.delete_file import write_delete_file
from hiveacid.orc.row_keys.keys import Keys
from hiveacid.rules.names import Delta, TableRef
from hiveacid.rules.row_id import encode_bucket
from tests.fakes.metastore import FakeMetastore
from tests.places import place_of

ROWS = 10
PROGRAM = """\
import resource, sys
import pyarrow.dataset
from hiveacid.upkeep.compaction.table import TableCompactor
from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.tables.scan.table_scan import TableScan
def used():
    each = [resource.getrusage(who) for who in (0, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in each)
work, name, uris = sys.argv[1:]
options = MetastoreOptions(uris=uris)
before = used()
if work == "scan":
    TableScan(name, options).to_arrow()
else:
    job = CompactJob(target=name, type=work, run_in="worker")
    with MetastoreClient(options) as client, WorkerScheduler() as scheduler:
        (done,) = TableCompactor(scheduler, client, job).run().partitions
    assert done.outcome == "compacted", done
print("USED", used() - before)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--deltas", type=int, nargs="+", default=[300, 1000, 3000])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="hiveacid-bench-"))
    result: dict[str, Any] = {}
    try:
        with (
            FakeMetastore("4.0.1", directory=folder / "fake") as metastore,
            MetastoreClient(metastore.options) as client,
        ):
            bench = DeltaBench(client, folder)
            for count in arguments.deltas:
                for kind, deletes in (("inserts", False), ("inserts and deletes", True)):
                    for work in ("scan", "minor", "major"):
                        used = bench.seconds(work, bench.many_deltas(count, deletes=deletes))
                        key = f"{work} of {count} deltas, {kind}"
                        result[key] = {"ms per delta": round(1000 * used / count, 2)}
                        print(key, result[key], flush=True)
    finally:
        shutil.rmtree(folder)
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2))


class DeltaBench(Bench):
    """Tables of many deltas."""

    def seconds(self, work: str, name: str) -> float:
        """The processor time of a work on a table."""
        command = [sys.executable, "-c", PROGRAM, work, name, self.client.options.uris]
        done = subprocess.run(
            command, env=self.environment, stdout=subprocess.PIPE, text=True, check=True
        )
        return float(done.stdout.rpartition("USED")[2])

    def many_deltas(self, count: int, *, deletes: bool) -> str:
        self._count += 1
        ref = TableRef("default", f"d{self._count}")
        self.client.create_table(HiveTable.new(ref, COLUMNS))
        root = place_of(self.client.get_table(ref).folder)
        root.mkdir(parents=True, exist_ok=True)
        flat = self.write_flat(self.folder / "small.orc", ROWS)
        with flat.open("rb") as source:
            types = OrcTail.read(source).types
            for number in range(1, count + 1):
                is_delete = deletes and number % 2 == 0
                delta = Delta(number, number, 0, is_delete=is_delete)
                with self._file(root, ref, delta) as sink:
                    if is_delete:
                        row = [np.array([part]) for part in (number - 1, encode_bucket(0), 3)]
                        keys = Keys.deletes(*row, write_id=number)
                        write_delete_file(sink, [keys], row_types=types, codec="zlib")
                    else:
                        transplant([source], sink, write_id=number, bucket=encode_bucket(0))
        return str(ref)


if __name__ == "__main__":
    main()
