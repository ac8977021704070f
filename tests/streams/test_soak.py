"""Streams of 5,000 rows a second on two cores, compacted meanwhile: how soon their rows can be read.

Both are measured from outside: the metastore's commits, and the times in the files.
"""

import json
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import orc

from hiveacid.jobs.maintenance_jobs import CleanJob, CompactJob
from hiveacid.jobs.sources import BatchSource, QuerySource
from hiveacid.jobs.stream_job import StreamJob, StreamSource
from hiveacid.jobs.write_jobs import InsertJob, MergeJob, RowJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.progress import Phase
from hiveacid.rules.directory import AcidDirectory, Rules
from hiveacid.rules.merge import MatchedUpdate, NotMatchedInsert
from hiveacid.rules.names import Delta, TableRef, parse_directory
from hiveacid.spark.run import run
from hiveacid.storage.folder import Storage
from hiveacid.storage.listing import list_files, read_state
from hiveacid.upkeep.table_cleaning import clean
from tests.engine.acid_tables import create, folder
from tests.rows import unordered_rows_of
from tests.streams.driver import Driver

pytestmark = [pytest.mark.streams, pytest.mark.timeout(7200)]
MINUTES = float(os.environ.get("STREAM_MINUTES", "3"))
ROWS_PER_SECOND = int(os.environ.get("STREAM_ROWS", "5000"))
TRIGGER = os.environ.get("STREAM_TRIGGER", "5 s")
# The folder that the figures go to, for a chart.
FIGURES = os.environ.get("STREAM_FIGURES")
# Of an upsert; each is changed again and again.
KEYS = 100_000
EVENTS = """
    SELECT value AS id, unix_micros(timestamp) AS arrived, md5(CAST(value AS STRING)) AS v FROM b
"""
NEWEST = f"""
    SELECT id % {KEYS} AS id, max_by(id, id) AS last, max_by(arrived, id) AS arrived, max_by(v, id) AS v
    FROM ({EVENTS}) GROUP BY id % {KEYS}
"""


@dataclass
class Watch:
    """A reader that polls the table repeatedly for the newest rows.

    Attributes:
        waits: The times when new rows were seen, and their delays until then, in seconds.
        deltas: The numbers of directories that a reader opened, with the times.
        compactions: The times of compactions.
    """

    client: MetastoreClient
    table: str
    waits: list[tuple[float, np.ndarray[Any, Any]]] = field(default_factory=list)
    deltas: list[tuple[float, int]] = field(default_factory=list)
    compactions: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.began = time.time()
        self._ref = TableRef.parse(self.table)
        self._folder = folder(self.client.get_table(self._ref))
        self._seen: set[int] = set()

    def begin(self) -> None:
        """Restart the counts: earlier rows arrived during the start of the stream."""
        self.look()
        self.began = time.time()
        self.waits.clear()
        self.deltas.clear()

    def ids(self) -> np.ndarray[Any, Any]:
        """The ids of all rows that were appended, in their order."""
        state = self._state()
        names = [*filter(None, [state.base]), *state.deltas]
        return np.sort(np.concatenate([self._values(name, "id") for name in names]))

    def look(self) -> None:
        state = self._state()
        now = time.time()
        self.deltas.append((now - self.began, len(state.deltas) + (state.base is not None)))
        for name in state.deltas:
            delta = parse_directory(name)
            assert isinstance(delta, Delta)
            if delta.is_delete:
                continue
            if delta.min_write_id == delta.max_write_id and delta.min_write_id not in self._seen:
                self._seen.add(delta.min_write_id)
                waits = now - self._values(name, "arrived") / 1e6
                self.waits.append((now - self.began, waits))

    def _state(self) -> AcidDirectory:
        snapshot = Snapshot.take(self.client, [self._ref])
        write_ids = snapshot.write_ids[self._ref.full_name]
        storage = Storage.of(str(self._folder))
        return read_state(
            storage,
            list_files(storage, None),
            write_ids,
            snapshot.txns,
            rules=Rules.HIVE4,
            strict=True,
        )

    def _values(self, directory: str, column: str) -> np.ndarray[Any, Any]:
        """A column of the rows in a directory."""
        files = sorted((self._folder / directory).glob("bucket_*"))
        rows = [orc.read_table(path, columns=["row"]).column("row") for path in files]
        return np.concatenate([each.combine_chunks().field(column).to_numpy() for each in rows])

    def figures(self) -> dict[str, Any]:
        waits = np.concatenate([wait for _, wait in self.waits])
        return {
            "rows": len(waits),
            "p50": round(float(np.percentile(waits, 50)), 2),
            "p99": round(float(np.percentile(waits, 99)), 2),
            "max": round(float(waits.max()), 2),
            "most_deltas": max(count for _, count in self.deltas),
            "compactions": [round(at) for at in self.compactions],
            "deltas": [
                (round(at, 1), count) for at, count in self.deltas[:: len(self.deltas) // 600 + 1]
            ],
            "waits": [
                (
                    round(at, 1),
                    round(float(np.percentile(wait, 50)), 2),
                    round(float(wait.max()), 2),
                )
                for at, wait in self.waits
            ],
        }


@pytest.fixture
def two_cores(spark: Any, client: MetastoreClient) -> Iterator[None]:
    """The metastore, both Sparks and all that is started from here on share two cores."""
    before = os.sched_getaffinity(0)
    _pin(set(sorted(before)[:2]))
    yield
    _pin(before)


def _pin(cores: set[int]) -> None:
    """Let this process and its descendants run on some cores only."""
    parents = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            parents[int(process.name)] = int(fields[1])
    ours = [os.getpid()]
    for pid in ours:
        ours += [child for child, parent in parents.items() if parent == pid]
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                os.sched_setaffinity(int(thread.name), cores)


@pytest.mark.parametrize("kind", ["append", "upsert"])
@pytest.mark.parametrize("hms", ["4.0.1"], indirect=True)
def test_rows_can_be_read_within_15_seconds_while_the_table_is_compacted(
    two_cores: None, spark: Any, client: MetastoreClient, database: str, tmp_path: Path, kind: str
) -> None:
    table = f"{database}.rows"
    columns = {"id": "bigint", "arrived": "bigint", "v": "string"}
    inputs = {"b": BatchSource()}
    statement: RowJob
    if kind == "append":
        statement = InsertJob(target=table, source=QuerySource(EVENTS, inputs))
    else:
        columns["last"] = "bigint"
        statement = MergeJob(
            target=table,
            source=QuerySource(NEWEST, inputs),
            on="t.id = s.id",
            when=(MatchedUpdate(), NotMatchedInsert()),
        )
    create(client, table, columns)
    job = StreamJob(
        name="soak",
        source=StreamSource("rate", {"rowsPerSecond": str(ROWS_PER_SECOND), "numPartitions": "2"}),
        statements=[statement],
        checkpoint=f"file:{tmp_path}/checkpoint",
        trigger=TRIGGER,
        metastore=client.options,
    )
    watch = Watch(client, table)
    report = watched(job, watch, spark, client, tmp_path)
    figures = watch.figures()
    told = {name: value for name, value in figures.items() if not isinstance(value, list)}
    told |= {"compactions": len(figures["compactions"]), "trigger": TRIGGER}
    print(f"{datetime.now(UTC):%F} {kind} for {MINUTES:g} minutes: {json.dumps(told)}")
    print(f"of the stream itself: {report['latency']}, {report['batches']} batches")
    print(f"seconds of a batch: {per_batch(report)}")
    if FIGURES:
        Path(FIGURES).mkdir(parents=True, exist_ok=True)
        Path(FIGURES, f"stream-{kind}.json").write_text(json.dumps(figures))
    if kind == "append":
        assert np.array_equal(watch.ids(), np.arange(report["rows"]))
        assert figures["rows"] >= 0.9 * ROWS_PER_SECOND * (MINUTES * 60 - 30)
    else:
        newest = {row["id"]: row["last"] for row in unordered_rows_of(client.options.uris, table)}
        first = max(0, report["rows"] - KEYS)
        assert newest == {last % KEYS: last for last in range(first, report["rows"])}
    assert figures["max"] < 15
    # Ten deltas call for a minor compaction, and some more come while it works.
    assert figures["most_deltas"] < 40


def per_batch(report: dict[str, Any]) -> dict[str, float]:
    """The seconds of each phase, of a batch on the average."""
    phases = {name: value for name, value in report["seconds"].items() if name in list(Phase)}
    return {name: round(value / report["batches"], 3) for name, value in phases.items()}


def watched(
    job: StreamJob, watch: Watch, spark: Any, client: MetastoreClient, folder: Path
) -> dict[str, Any]:
    """Run a stream for so many minutes while its table is looked at, compacted and cleaned."""
    over = threading.Event()

    def look_after() -> None:
        """Do the work of the DAG automatic_compaction."""
        options: dict[str, Any] = {"target": job.target, "metastore": client.options}
        with MetastoreClient(client.options) as own:
            while not over.wait(10):
                report = run(spark, CompactJob(**options, parallel=1))
                assert report.error is None, report
                if any(each.outcome == "compacted" for each in report.partitions):
                    watch.compactions.append(time.time() - watch.began)
                clean(own, CleanJob(**options, retention="0"))

    driver = Driver(job, folder)
    with ThreadPoolExecutor(1) as beside:
        try:
            assert driver.wait_until(partial(driver.has_told, 3), 300), driver.log
            watch.begin()
            looking_after = beside.submit(look_after)
            while time.time() - watch.began < MINUTES * 60:
                assert driver.runs, driver.log
                assert not looking_after.done(), looking_after.result()
                watch.look()
                time.sleep(0.25)
            driver.terminate()
            while driver.runs:
                watch.look()
                time.sleep(0.25)
            report = driver.end()
        finally:
            over.set()
            driver.kill()
        looking_after.result()
    watch.look()
    return report
