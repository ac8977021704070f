"""What it costs to open the history of a table with 10,000 write ids.

    python bench/history.py --json out.json

Every write id has a directory with a note of ours, in a table without partitions, on a real metastore;
then all but the newest hundred are compacted and cleaned, and the notes on the runs are left. All with
everything in the page cache.
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

from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.acid.names import ACID_VERSION_FILE, SIDECAR_FILE, Base, BucketFile, Delta
from airflow_hiveacid.acid.sidecar import WrittenFile, directory_note
from airflow_hiveacid.acid.write_facts import taken_over
from airflow_hiveacid.jobs.report import RunReport
from airflow_hiveacid.jobs.run_note import RunNote
from airflow_hiveacid.maintenance.run_note_folder import NoteFile, mark_committed, write_note
from airflow_hiveacid.maintenance.table_history import table_history
from airflow_hiveacid.metastore.catalog import HiveColumn, HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.dev.embedded import EmbeddedMetastore
from airflow_hiveacid.storage import Storage

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
    with (
        EmbeddedMetastore("4.0.1", directory=folder) as metastore,
        MetastoreClient(metastore.options) as client,
    ):
        client.create_database(TABLE.database)
        client.create_table(HiveTable.new(TABLE, [HiveColumn("id", "bigint")]))
        root = Path(client.get_table(TABLE).folder.removeprefix("file:"))
        notes = [write(client, root) for _ in range(writes)]
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
        medians[f"newest {limit}"] = {
            "entries": len(shown),
            "seconds": round(statistics.median(spent[1:]), 3),
        }
    return medians


def write(client: MetastoreClient, root: Path) -> dict[str, Any]:
    """Commit a write of a task; its note."""
    txn = client.open_txn("bench", "localhost", None)
    write_id = client.allocate_write_id(txn, TABLE)
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
    note = {
        "run_token": f"hourly/scheduled__{BEGIN + timedelta(minutes=write_id):%FT%T}+00:00/merge/-1",
        "txn_id": txn,
        "write_id": write_id,
        "operation": "merge",
        "time": (BEGIN + timedelta(minutes=write_id)).isoformat(),
        "user": "airflow",
        "report": report.to_dict(),
    }
    make(root / Delta(write_id, write_id, 0).name, note)
    client.commit_txn(txn)
    own = NoteFile.new(
        RunNote(
            run_token=note["run_token"],
            txn_id=txn,
            write_ids=report.write_ids,
            report=report,
            operation="merge",
            time=note["time"],
            user="airflow",
        )
    )
    storage = Storage.of(str(root))
    write_note(storage, own)
    mark_committed(storage, own)
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


def seconds_of(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
