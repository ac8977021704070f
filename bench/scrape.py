"""Duration of a scrape of the metastore's metrics with many requests in the compaction queue.

    python bench/scrape.py --json out.json

A real metastore on Derby, with requests for as many partitions of one table, some of them claimed.
One scrape is what `hiveacid metrics` does for each request of Prometheus: four calls, the metrics,
and their text. The first one also connects. The seconds of the processor are those of this process
and of the metastore, and do not depend on other work of the machine.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import CompactionQueue
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.names import TableRef
from hiveacid.upkeep.metric_collection import metastore_samples
from hiveacid.upkeep.metrics import prometheus_text

TABLE = TableRef("bench", "events")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hiveacid-bench-") as folder:
        result = measure(arguments.requests, arguments.rounds, Path(folder))
    print(json.dumps(result, indent=2))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2))


def measure(requests: int, rounds: int, folder: Path) -> dict[str, float]:
    with (
        EmbeddedMetastore("4.0.1", directory=folder) as metastore,
        MetastoreClient(metastore.options) as client,
    ):
        fill(client, requests)
        seconds, own, others = [], [], []
        with MetastoreClient(metastore.options) as scraper:
            for _ in range(rounds + 1):
                started, before, below = time.perf_counter(), time.process_time(), children_cpu()
                text = prometheus_text(metastore_samples(scraper, datetime.now(UTC)))
                seconds.append(time.perf_counter() - started)
                own.append(time.process_time() - before)
                others.append(children_cpu() - below)
    assert f"\ncompaction_num_working {claimed_of(requests)}\n" in text
    assert f"\ncompaction_num_initiated {requests - claimed_of(requests)}\n" in text
    return {
        "requests": requests,
        "first_seconds": seconds[0],
        "median_seconds": statistics.median(seconds[1:]),
        "least_seconds": min(seconds[1:]),
        "median_cpu_seconds": statistics.median(own[1:]),
        "mean_metastore_cpu_seconds": statistics.mean(others[1:]),
        "load": os.getloadavg()[0],
    }


def claimed_of(requests: int) -> int:
    # A claim searches the whole queue.
    return requests // 50


def children_cpu() -> float:
    """The seconds of the processor that the processes below this one have used."""
    stats = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # It has just ended.
            fields = path.read_text().rpartition(")")[2].split()
            stats[int(path.parent.name)] = (int(fields[1]), int(fields[11]) + int(fields[12]))
    below, found = {os.getpid()}, 0
    while found < len(below):
        found = len(below)
        below |= {pid for pid, (parent, _) in stats.items() if parent in below}
    ticks = sum(used for pid, (_, used) in stats.items() if pid in below - {os.getpid()})
    return ticks / os.sysconf("SC_CLK_TCK")


def fill(client: MetastoreClient, requests: int) -> None:
    client.create_database(TABLE.database)
    client.create_table(
        HiveTable.new(TABLE, [HiveColumn("id", "int")], partition_keys=[HiveColumn("p", "int")])
    )
    queue = CompactionQueue(client)
    for number in range(requests):
        # The metastore does not check that the partition exists.
        queue.request(TABLE, f"p={number}", CompactionType.MINOR, run_as="bench")
    for number in range(claimed_of(requests)):
        queue.claim(f"bench-{number}")


if __name__ == "__main__":
    main()
