"""Measure a second commit of the files of a job whose transaction was lost.

    PYTHONPATH=. python bench/retry.py --rows 4000000 --rounds 3 --json out.json

An append of a whole table, a merge of one row in twenty, all over it, and a merge of all of them: in turn
one that nothing happens to, and one whose transaction is aborted when its files are there and it is about
to commit. Of the latter, the bytes of the user's columns are compared with those that the first
transaction had published. `ratio` is the time of the second commit by that of an undisturbed job.
"""

import argparse
import json
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from batches import Batches
from engines import ON
from lineitem import COLUMNS
from session import seconds_of, session

from hiveacid.jobs.report import CommitRetry, RunReport
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.txn.heartbeat import Heartbeat
from hiveacid.orc.format.envelope import FIELDS
from hiveacid.orc.format.streams import StripeFooter
from hiveacid.orc.format.tail import OrcTail
from hiveacid.progress import Phase, PhaseObserver
from hiveacid.rules.names import TableRef
from hiveacid.spark.python.table import AcidTable
from hiveacid.spark.write.statement import WriteOptions

TABLE = TableRef("bench", "lineitem")
Job = Callable[[AcidTable], RunReport]


class Losing(PhaseObserver):
    """Has the first transaction of a job aborted at its commit, as if its driver had been silent.

    Attributes:
        published: The data files that it had published, by their names.
    """

    def __init__(self, client: MetastoreClient, folder: Path) -> None:
        self._client, self._folder = client, folder
        self._txn: int | None = None
        self.published: dict[str, Path] = {}

    def opened(self, txn_id: int, write_ids: object) -> None:
        self._txn = self._txn or txn_id

    def enter(self, phase: Phase) -> None:
        if phase is not Phase.COMMIT or self.published or self._txn is None:
            return
        table = self._client.get_table(TABLE)
        for file in newest_files(table):
            copy = self._folder / file.name
            shutil.copyfile(file, copy)
            self.published[file.name] = copy
        Heartbeat.silence = property(lambda heartbeat: 1e6)  # type: ignore[assignment,method-assign]
        self._client.abort_txn(self._txn)


class Retries:
    """A table, jobs on it, and their durations."""

    def __init__(self, client: MetastoreClient, spark, uri: str, folder: Path) -> None:
        self.client, self.spark, self.uri, self.folder = client, spark, uri, folder
        self.runs = 0
        self.figures: dict[str, dict[str, list[float]]] = {}

    def run(self, job: Job, *observers: PhaseObserver) -> tuple[float, RunReport]:
        self.runs += 1
        options = WriteOptions(run_token=f"bench/{self.runs}/retry/-1")
        reports: list[RunReport] = []
        with AcidTable(
            TABLE.full_name, self.uri, spark=self.spark, options=options, observers=observers
        ) as table:
            seconds = seconds_of(lambda: reports.append(job(table)))
        return seconds, reports[0]

    def go(self, batches: Batches) -> None:
        for measure_one in (self.undisturbed, self.disturbed):
            self.client.drop_table(TABLE)
            self.client.create_table(HiveTable.new(TABLE, COLUMNS))
            measure_one("append", lambda table: table.append(batches.all))
            measure_one("merge", upsert(batches.spread))
            measure_one("merge_of_all", upsert(batches.all))

    def undisturbed(self, name: str, job: Job) -> None:
        seconds, _ = self.run(job)
        self._add(name, whole=seconds)

    def disturbed(self, name: str, job: Job) -> None:
        losing = Losing(self.client, self.folder)
        silence = Heartbeat.silence
        try:
            _, report = self.run(job, losing)
        finally:
            Heartbeat.silence = silence  # type: ignore[method-assign]
        retry = report.commit_retry
        assert isinstance(retry, CommitRetry)
        files = {file.name: file for file in newest_files(self.client.get_table(TABLE))}
        if not files or files.keys() != losing.published.keys():
            raise RuntimeError(f"{sorted(files)} are not {sorted(losing.published)}.")
        compared = sum(same_bytes(losing.published[each], files[each]) for each in files)
        self._add(
            name,
            second_commit=retry.seconds,
            saved=retry.seconds_saved,
            megabytes=retry.bytes / 1e6,
            megabytes_same=compared / 1e6,
        )

    def _add(self, name: str, **figures: float) -> None:
        for figure, value in figures.items():
            self.figures.setdefault(name, {}).setdefault(figure, []).append(round(value, 3))


def newest_files(table: HiveTable) -> Iterator[Path]:
    """The data files of the last transaction."""
    folder = Path(table.folder.removeprefix("file:"))
    deltas = sorted(path for path in folder.iterdir() if path.name.startswith("delta_"))
    yield from deltas[-1].glob("bucket_*")


def same_bytes(one: Path, other: Path) -> int:
    """Compare all streams of the user's columns, also indexes; return their size in bytes."""
    first, second = user_streams(one), user_streams(other)
    if first != second:
        raise RuntimeError(f"{other} has other bytes than {one} in columns of the user.")
    return sum(map(len, first.values()))


def user_streams(path: Path) -> dict[tuple[int, int, int], bytes]:
    """The bytes of each stream, by stripe, column and kind."""
    found = {}
    with path.open("rb") as source:
        tail = OrcTail.read(source)
        for number, stripe in enumerate(tail.stripes):
            footer = StripeFooter.read(source, tail, stripe)
            for stream in (*footer.index, *footer.data):
                # Before them come the root, and the columns that every ACID file has.
                if stream.column > len(FIELDS):
                    source.seek(stream.offset)
                    key = (number, stream.column, stream.kind)
                    found[key] = source.read(stream.length)
    return found


def upsert(source) -> Job:
    return lambda table: (
        table.merge(source, ON).when_matched_update_all().when_not_matched_insert_all().execute()
    )


def measure(rows: int, rounds: int, folder: Path) -> dict[str, dict[str, list[float]]]:
    with (
        EmbeddedMetastore("4.0.1", directory=folder / "hms") as hms,
        MetastoreClient(hms.options) as client,
    ):
        client.create_database(TABLE.database)
        spark = session(folder)
        client.create_table(HiveTable.new(TABLE, COLUMNS))
        retries = Retries(client, spark, hms.uri, folder)
        # Java compiles frequently executed code there.
        retries.go(Batches(spark, max(rows // 10, 1000), folder))
        retries.figures.clear()
        batches = Batches(spark, rows, folder)
        for _ in range(rounds):
            retries.go(batches)
        spark.stop()
    return retries.figures


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, required=True)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="hiveacid-bench-"))
    try:
        figures = measure(arguments.rows, arguments.rounds, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    medians = {
        name: {figure: statistics.median(values) for figure, values in each.items()}
        for name, each in figures.items()
    }
    for each in medians.values():
        each["ratio"] = round(each["second_commit"] / each["whole"], 4)
    arguments.json.write_text(json.dumps({"all": figures, "medians": medians}, indent=2) + "\n")
    print(json.dumps(medians, indent=2))


if __name__ == "__main__":
    main()
