"""A major compaction of many small partitions in the worker, on a real metastore.

    PYTHONPATH=. python bench/partition_compaction.py --partitions 396 --rows 800000

Each partition has three deltas of rows and one of deletes. Printed are the seconds of the clock and of
the processor, here with the processes of the worker and in the metastore, and the calls.
"""

import argparse
import json
import resource
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hiveacid import AcidTable
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.names import TableRef
from hiveacid.upkeep.compaction.table import TableCompactor
from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler

REF = TableRef("default", "t")
INSERTS = 3
COLUMNS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=396)
    parser.add_argument("--rows", type=int, default=800_000)
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument("--version", default="4.0.1")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedMetastore(arguments.version, directory=Path(folder)) as metastore,
        MetastoreClient(metastore.options) as client,
    ):
        fill(client, arguments.partitions, arguments.rows)
        print(json.dumps(compact(client, metastore, arguments.parallel), indent=2))


def fill(client: MetastoreClient, partitions: int, rows: int) -> None:
    """Append the rows in three transactions, and delete one of fifty."""
    columns = [HiveColumn("id", "bigint")]
    columns += [HiveColumn(f"price{number}", "double") for number in range(COLUMNS)]
    columns += [HiveColumn(f"name{number}", "string") for number in range(COLUMNS)]
    keys = [HiveColumn("day", "string")]
    client.create_table(HiveTable.new(REF, columns, partition_keys=keys))
    table = AcidTable(str(REF), client.options, "worker")
    random = np.random.default_rng(1)
    # The worker has a limit for the rows of one change.
    step = min(rows // INSERTS, 100_000)
    for _ in range(0, rows, step):
        data: dict[str, Any] = {"id": np.arange(step)}
        for number in range(COLUMNS):
            data[f"price{number}"] = random.random(step)
            data[f"name{number}"] = [f"v{value}" for value in random.integers(0, 1000, step)]
        data["day"] = [f"d{row % partitions:04d}" for row in range(step)]
        table.append(pa.table(data))
    table.delete("id % 50 = 7")


def compact(client: MetastoreClient, metastore: EmbeddedMetastore, parallel: int) -> dict[str, Any]:
    """Compact the table, and return the costs."""
    calls: Counter[str] = Counter()
    call = client.call

    def counted(made: Any, *parameters: Any, **options: Any) -> Any:
        calls[made.name] += 1
        return call(made, *parameters, **options)

    client.call = counted  # type: ignore[method-assign]
    before, before_there, began = (
        processor_seconds(),
        seconds_of(metastore.pid),
        time.perf_counter(),
    )
    with WorkerScheduler() as scheduler:
        job = CompactJob(target=str(REF), type="major", parallel=parallel)
        report = TableCompactor(scheduler, client, job).run()
    wall = time.perf_counter() - began
    done = [partition for partition in report.partitions if partition.outcome == "compacted"]
    return {
        "partitions": len(done),
        "rows": sum(partition.rows for partition in done),
        "transactions": len({partition.txn_id for partition in done}),
        "seconds": round(wall, 2),
        "processor ms for a partition": round(1000 * (processor_seconds() - before) / len(done), 1),
        "metastore's processor ms for a partition": round(
            1000 * (seconds_of(metastore.pid) - before_there) / len(done), 1
        ),
        "calls for a partition": round(calls.total() / len(done), 2),
        "phases": report.seconds,
    }


def processor_seconds() -> float:
    """The processor time of this process, and of those that it has started and that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def seconds_of(pid: int) -> float:
    """The processor time of another process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


if __name__ == "__main__":
    main()
