"""Cost of one poke of a compaction sensor, compared with a bare listing of the same folders.

    python bench/poke.py --json out.json

A table of 10,000 partitions, each with a base and 11 deltas, in a real metastore. All are measured
in turn, with everything in the page cache; the ratios are of medians. Before every poke the table
is written; the first poke is that of a new process, which makes more calls.
"""

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyarrow import fs

from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.compaction_decision import Decision
from hiveacid.rules.compaction_policy import CompactionPolicy
from hiveacid.rules.names import ACID_VERSION_FILE, Base, BucketFile, Delta, TableRef
from hiveacid.upkeep.survey import Survey

TABLE = TableRef("bench", "events")
DELTAS = 11
# Nothing is called for, so that a second look at the unchanged table need not list it.
POLICY = CompactionPolicy(max_deltas=DELTAS, max_delta_ratio=100.0)
# Derby's parser is recursive: one call with all partitions would overflow its stack.
PARTITIONS_PER_CALL = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="hiveacid-bench-"))
    try:
        result = measure(arguments.partitions, arguments.rounds, folder)
    finally:
        shutil.rmtree(folder)
    print(json.dumps(result, indent=2))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2))


def measure(partitions: int, rounds: int, folder: Path) -> dict[str, object]:
    with (
        EmbeddedMetastore("4.0.1", directory=folder) as metastore,
        MetastoreClient(metastore.options) as client,
    ):
        root = create_table(client, partitions)
        local = fs.LocalFileSystem()
        everything = fs.FileSelector(str(root), recursive=True)

        def listing() -> object:
            return local.get_file_info(everything)

        survey = Survey(client, POLICY)

        def poke() -> list[Decision]:
            return survey.survey([TABLE])

        def first_poke() -> list[Decision]:
            return Survey(client, POLICY).survey([TABLE])

        decisions = poke()
        assert len(decisions) == partitions
        assert all(len(each.size.deltas) == DELTAS for each in decisions)
        seconds: dict[str, list[float]] = {}
        for turn in range(rounds + 1):
            # A table without new writes would not be listed again.
            write(client)
            for work in (listing, poke, first_poke):
                spent = seconds_of(work)
                if turn:  # The first one warms up.
                    seconds.setdefault(work.__name__, []).append(spent)
        seconds["unchanged_poke"] = [seconds_of(poke) for _ in range(rounds)]
        median = {name: statistics.median(each) for name, each in seconds.items()}
        return {
            "partitions": partitions,
            "directories": partitions * (DELTAS + 1),
            "seconds": {name: [round(each, 3) for each in all_] for name, all_ in seconds.items()},
            "poke_vs_listing": round(median["poke"] / median["listing"], 3),
            "first_poke_vs_listing": round(median["first_poke"] / median["listing"], 3),
            "unchanged_poke_vs_listing": round(median["unchanged_poke"] / median["listing"], 3),
        }


def create_table(client: MetastoreClient, partitions: int) -> Path:
    """Create the table and its files, as if a compaction and eleven inserts had written them."""
    client.create_database(TABLE.database)
    columns = [HiveColumn("id", "bigint"), HiveColumn("what", "string")]
    client.create_table(HiveTable.new(TABLE, columns, partition_keys=[HiveColumn("day", "string")]))
    table = client.get_table(TABLE)
    described = [HivePartition.new(table, [str(number)]) for number in range(partitions)]
    for start in range(0, partitions, PARTITIONS_PER_CALL):
        client.add_partitions(TABLE, described[start : start + PARTITIONS_PER_CALL])
    for _ in range(DELTAS + 1):
        write(client)
    root = Path(table.folder.removeprefix("file:"))
    names = [Base(1).name, *(Delta(each, each, 0).name for each in range(2, DELTAS + 2))]
    for partition in described:
        for name in names:
            directory = root / partition.name / name
            directory.mkdir(parents=True)
            (directory / BucketFile(0).name).write_bytes(b"\0" * 100)
            (directory / ACID_VERSION_FILE).write_bytes(b"2")
    return root


def write(client: MetastoreClient) -> None:
    """Commit a write id."""
    txn = client.open_txn("bench", "localhost", None)
    client.allocate_write_id(txn, TABLE)
    client.commit_txn(txn)


def seconds_of(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
