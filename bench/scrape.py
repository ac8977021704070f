"""Duration of a scrape of the metastore's metrics with many requests in the compaction queue.

    python bench/scrape.py --json out.json

A real metastore on Derby, with requests for as many partitions of one table, of which half is
claimed. One scrape is what `hiveacid metrics` does for each request of Prometheus: four calls, the
metrics, and their text. The first one also connects.
"""

import argparse
import json
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from airflow_hiveacid.acid.compaction import CompactionType
from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.maintenance.metric_collection import metastore_samples
from airflow_hiveacid.maintenance.prometheus_text import prometheus_text
from airflow_hiveacid.metastore.catalog import HiveColumn, HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.compaction.queue import CompactionQueue
from airflow_hiveacid.metastore.dev.embedded import EmbeddedMetastore

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
        seconds = []
        with MetastoreClient(metastore.options) as scraper:
            for _ in range(rounds + 1):
                started = time.perf_counter()
                text = prometheus_text(metastore_samples(scraper, datetime.now(UTC)))
                seconds.append(time.perf_counter() - started)
        started = time.perf_counter()
        shown = CompactionQueue(client).show()
        call = time.perf_counter() - started
    assert len(shown) == requests
    assert f"\ncompaction_num_working {requests // 2}\n" in text
    return {
        "requests": requests,
        "first_seconds": seconds[0],
        "median_seconds": statistics.median(seconds[1:]),
        "largest_seconds": max(seconds[1:]),
        "show_compact_seconds": call,
        "text_bytes": len(text),
    }


def fill(client: MetastoreClient, requests: int) -> None:
    client.create_database(TABLE.database)
    client.create_table(
        HiveTable.new(TABLE, [HiveColumn("id", "int")], partition_keys=[HiveColumn("p", "int")])
    )
    queue = CompactionQueue(client)
    for number in range(requests):
        # The metastore does not check that the partition exists.
        queue.request(TABLE, f"p={number}", CompactionType.MINOR, run_as="bench")
    for number in range(requests // 2):
        queue.claim(f"bench-{number}")


if __name__ == "__main__":
    main()
