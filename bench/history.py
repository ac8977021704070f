"""What it costs to open the history of a table with 10,000 write ids.

    python bench/history.py --json out.json

Every write id has a directory with a note of ours, in a table without partitions; then all but the newest
hundred are compacted and cleaned, and the notes on the runs are left. The metastore is a fake, which is
asked three things; all with everything in the page cache.
"""

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from scale import metastore

from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.acid.names import (
    ACID_VERSION_FILE,
    RUN_NOTES,
    SIDECAR_FILE,
    Base,
    BucketFile,
    Delta,
)
from airflow_hiveacid.acid.run_notes import NoteName, digest_of
from airflow_hiveacid.acid.sidecar import WrittenFile, directory_note
from airflow_hiveacid.acid.write_facts import taken_over
from airflow_hiveacid.jobs.report import RunReport
from airflow_hiveacid.jobs.run_note import RunNote
from airflow_hiveacid.maintenance.table_history import table_history
from airflow_hiveacid.metastore.catalog import HiveColumn, HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient

TABLE = TableRef("bench", "events")
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
LEFT = 100
# What `hiveacid history` shows, what the page shows, and all of it.
LIMITS = (100, 500, 1_000_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--writes", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="hiveacid-bench-"))
    try:
        result = measure(arguments.writes, arguments.rounds, folder)
    finally:
        shutil.rmtree(folder)
    print(json.dumps(result, indent=2))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2))


def measure(writes: int, rounds: int, folder: Path) -> dict[str, object]:
    with metastore("fake", folder) as (options, write_often), MetastoreClient(options) as client:
        assert write_often is not None
        client.create_database(TABLE.database)
        client.create_table(HiveTable.new(TABLE, [HiveColumn("id", "bigint")]))
        root = Path(client.get_table(TABLE).folder.removeprefix("file:"))
        write_often(TABLE, writes, 0)
        (root / RUN_NOTES).mkdir(parents=True)
        # In a new metastore a transaction has the number of its write id.
        notes = [write(root, write_id) for write_id in range(1, writes + 1)]
        result: dict[str, object] = {"writes": writes, "directories": times(client, rounds)}
        compact(client, root, notes[:-LEFT])
        result["compacted, cleaned"] = times(client, rounds)
        return result


def times(client: MetastoreClient, rounds: int) -> dict[str, object]:
    """The seconds of each limit, and how many entries there are."""
    medians: dict[str, object] = {}
    for limit in LIMITS:
        shown: list[Any] = []

        def look(limit: int = limit, shown: list[Any] = shown) -> None:
            shown[:] = table_history(client, TABLE, limit=limit)

        spent = [seconds_of(look) for _ in range(rounds + 1)]
        # The first one warms up.
        whole, own = zip(*spent[1:], strict=True)
        medians[f"newest {limit}"] = {
            "entries": len(shown),
            "seconds": round(statistics.median(whole), 3),
            "own_seconds": round(statistics.median(own), 3),
        }
    return medians


def write(root: Path, write_id: int) -> dict[str, Any]:
    """What a task leaves of a write; its note."""
    report = RunReport(
        job="merge",
        target=TABLE.full_name,
        write_ids={TABLE.full_name: write_id},
        rows_inserted=10,
        rows_updated=5,
        files=1,
        bytes=100,
        seconds={"read": 1.5, "write": 2.5},
    )
    time_ = BEGIN + timedelta(minutes=write_id)
    note = {
        "run_token": f"hourly/scheduled__{time_:%FT%T}+00:00/merge/-1",
        "txn_id": write_id,
        "write_id": write_id,
        "operation": "merge",
        "time": time_.isoformat(),
        "user": "airflow",
        "report": report.to_dict(),
    }
    make(root / Delta(write_id, write_id, 0).name, note)
    told = {name: note[name] for name in ("run_token", "txn_id", "operation", "time", "user")}
    run = RunNote(**told, write_ids=report.write_ids, report=report)
    name = NoteName(digest_of(run.run_token), write_id, marked=True)
    (root / RUN_NOTES / name.name).write_bytes(run.to_bytes())
    return note


def compact(client: MetastoreClient, root: Path, notes: list[dict[str, Any]]) -> None:
    """Merge writes, and remove their directories."""
    txn = client.open_txn("bench", "localhost", None)
    merged = {Delta(note["write_id"], note["write_id"], 0).name: note for note in notes}
    told = {"operation": "major", "replaces": list(merged), **taken_over(merged, TABLE.full_name)}
    base = replace(Base(notes[-1]["write_id"]), visibility_txn=txn)
    make(root / base.name, told)
    client.commit_txn(txn)
    for name in merged:
        shutil.rmtree(root / name)


def make(directory: Path, note: dict[str, Any]) -> None:
    directory.mkdir(parents=True)
    (directory / BucketFile(0).name).write_bytes(b"\0" * 100)
    (directory / ACID_VERSION_FILE).write_bytes(b"2")
    files = [WrittenFile(BucketFile(0).name, 15, 100)]
    (directory / SIDECAR_FILE).write_bytes(directory_note(note, files))


def seconds_of(work: Callable[[], object]) -> tuple[float, float]:
    """By the clock, and those of our processor time."""
    begun, own = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - begun, time.process_time() - own


if __name__ == "__main__":
    main()
