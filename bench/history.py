"""Cost of opening the history of a table with 10,000 write ids.

    python bench/history.py --json out.json

Every write id has a directory with a note of ours, in a table without partitions or in one of a thousand
partitions; then all but the newest hundred are compacted and cleaned, and the notes on the runs are left.
The metastore is a fake, which is asked three things; all with everything in the page cache.
"""

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from scale import metastore

from hiveacid.jobs.report import RunReport
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.snapshot import Snapshot
from hiveacid.records.proofs import NoteName, digest_of
from hiveacid.records.run_notes import RunNote
from hiveacid.records.table_history import table_history, version_of
from hiveacid.rules.names import (
    ACID_VERSION_FILE,
    RUN_NOTES,
    SIDECAR_FILE,
    Base,
    BucketFile,
    Delta,
    TableRef,
)
from hiveacid.rules.notes import WrittenFile, directory_note, taken_over
from hiveacid.rules.write_ids import AsOf

TABLE, PARTED = TableRef("bench", "events"), TableRef("bench", "events_by_day")
DAY, DAYS = [HiveColumn("day", "int")], 1000
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
LEFT = 100
# The history of `hiveacid history`, of the page, and the complete one.
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
        result: dict[str, object] = {"writes": writes}
        # In a new metastore a transaction has the number of its write id. Then comes the compaction.
        for ref, keys, first_txn in ((TABLE, [], 1), (PARTED, DAY, writes + 2)):
            client.create_table(
                HiveTable.new(ref, [HiveColumn("id", "bigint")], partition_keys=keys)
            )
            table = client.get_table(ref)
            root = Path(table.folder.removeprefix("file:"))
            (root / RUN_NOTES).mkdir(parents=True)
            write_often(ref, writes, 0)
            named = [HivePartition.new(table, [str(day)]) for day in range(DAYS if keys else 0)]
            client.add_partitions(ref, named)
            notes = []
            for write_id in range(1, writes + 1):
                place = root / named[write_id % DAYS].name if named else root
                notes.append(write(root, place, ref, write_id, first_txn + write_id - 1))
            if keys:
                result["directories in partitions"] = times(client, ref, rounds)
                continue
            result["directories"] = times(client, ref, rounds)
            result["as of a time"] = times_of_versions(client, ref, writes, rounds)
            compact(client, root, notes[:-LEFT])
            result["compacted, cleaned"] = times(client, ref, rounds)
        return result


def times(client: MetastoreClient, ref: TableRef, rounds: int) -> dict[str, object]:
    """The seconds of each limit, and how many entries there are."""
    medians: dict[str, object] = {}
    for limit in LIMITS:
        look = partial(table_history, client, ref, limit=limit)
        medians[f"newest {limit}"] = {"entries": len(look()), **measured(look, rounds)}
    return medians


def times_of_versions(
    client: MetastoreClient, ref: TableRef, writes: int, rounds: int
) -> dict[str, object]:
    """Return the seconds of a lookup of the version at a time."""
    medians: dict[str, object] = {}
    now = Snapshot.take(client, [ref]).write_ids[ref.full_name]
    for later in (LEFT, writes // 2):
        time = BEGIN + timedelta(minutes=writes - later)
        look = partial(version_of, client, ref, AsOf(time=time), now)
        # The first one warms up.
        assert look().high_watermark == writes - later
        medians[f"{later} writes ago"] = measured(look, rounds)
    return medians


def measured(work: Callable[[], object], rounds: int) -> dict[str, float]:
    """The medians of some rounds."""
    whole, own = zip(*(seconds_of(work) for _ in range(rounds)), strict=True)
    return {
        "seconds": round(statistics.median(whole), 3),
        "own_seconds": round(statistics.median(own), 3),
    }


def write(root: Path, place: Path, ref: TableRef, write_id: int, txn: int) -> dict[str, Any]:
    """Create the files of a write by a task; return its note."""
    report = RunReport(
        job="merge",
        target=ref.full_name,
        write_ids={ref.full_name: write_id},
        rows_inserted=10,
        rows_updated=5,
        files=1,
        bytes=100,
        seconds={"read": 1.5, "write": 2.5},
    )
    time_ = BEGIN + timedelta(minutes=write_id)
    note = {
        "run_token": f"hourly/scheduled__{time_:%FT%T}+00:00/merge/-1",
        "txn_id": txn,
        "write_id": write_id,
        "operation": "merge",
        "time": time_.isoformat(),
        "user": "airflow",
        "report": report.to_dict(),
    }
    directory = place / Delta(write_id, write_id, 0).name
    make(directory, note)
    told = {name: note[name] for name in ("run_token", "txn_id", "operation", "time", "user")}
    run = RunNote(**told, write_ids=report.write_ids, report=report)
    path = root / RUN_NOTES / NoteName(digest_of(run.run_token), txn, marked=True).name
    path.write_bytes(run.to_bytes())
    for file in (path, *directory.iterdir()):
        os.utime(file, (time_.timestamp(), time_.timestamp()))
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
