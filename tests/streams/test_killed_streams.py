"""kill -9 of drivers, metastores and brokers at random: every row once, and the newest of each key."""

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

from hiveacid.jobs.maintenance_jobs import CleanJob, CompactJob
from hiveacid.jobs.sources import BatchSource, QuerySource
from hiveacid.jobs.stream_job import AVAILABLE_NOW, StreamJob, StreamSource
from hiveacid.jobs.write_jobs import InsertJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.spark.run import run
from hiveacid.spark.streaming import StreamCheckpoint
from hiveacid.upkeep.table_cleaning import clean
from tests.streams.broker import Broker, jars_of_spark
from tests.streams.driver import Driver
from tests.streams.stream_case import BATCH, StreamCase, upsert

pytestmark = [pytest.mark.streams, pytest.mark.timeout(3600)]
KILLS = int(os.environ.get("KILLS", "20"))
SEED = int(os.environ.get("SEED", "1"))
# Create the sender of rows; at its end all of them have arrived.
Sender = Callable[[], AbstractContextManager[Callable[..., None]]]


class Kills:
    """A stream whose driver and other services are killed repeatedly.

    Rows come all the time, in files or by a broker; between two kills the tables are compacted and
    cleaned, as others do that.
    """

    def __init__(self, case: StreamCase, sender: Sender, random: Random) -> None:
        self.case, self.random = case, random
        self.sender = sender
        self._number = 0

    def some_rows(self, send: Callable[..., None]) -> None:
        rows = []
        for _ in range(self.random.randrange(1, 30)):
            self._number += 1
            gone = self.random.random() < 0.1
            rows.append((self.random.randrange(40), "gone" if gone else f"v{self._number}"))
        send(*rows)

    def look_after(self) -> None:
        for table in (self.case.events, self.case.newest):
            options: dict[str, Any] = {"target": table, "metastore": self.case.client.options}
            kind = self.random.choice(["minor", "major"])
            report = run(self.case.spark, CompactJob(**options, type=kind))
            assert report.error is None, report
            clean(self.case.client, CleanJob(**options, retention="0"))

    def feed_until(self, over: threading.Event) -> threading.Thread:
        def feed() -> None:
            with self.sender() as send:
                while not over.wait(self.random.uniform(0.1, 0.6)):
                    self.some_rows(send)

        thread = threading.Thread(target=feed)
        thread.start()
        return thread


def live_through(
    kills: Kills,
    job: StreamJob,
    folder: Path,
    jars: list[Path],
    others: dict[str, Callable[[], None]],
) -> None:
    """Kill the driver, and one of the others now and then, KILLS times; then run it to its end."""
    random = kills.random
    killed: Counter[str] = Counter()
    while killed.total() < KILLS:
        over = threading.Event()
        feeding = kills.feed_until(over)
        driver = Driver(job, folder, jars)
        try:
            # Some kills come while the query or its first batch begins, some between later ones.
            warm = random.random() < 0.5
            begun = driver.has_told if warm else driver.has_started
            assert driver.wait_until(begun, 300), driver.log
            time.sleep(random.uniform(0.1, 4 if warm else 12))
            if others and random.random() < 0.5:
                other = random.choice(sorted(others))
                others[other]()
                killed[other] += 1
                time.sleep(random.uniform(0.1, 4))
            elif not others:
                assert driver.runs, driver.log
        finally:
            driver.kill()
            over.set()
            feeding.join()
        killed["driver"] += 1
        if random.random() < 0.3:
            kills.look_after()
    last = Driver(replace(job, trigger=AVAILABLE_NOW), folder, jars).end()
    assert last["error"] is None, last
    done = StreamCheckpoint(f"file:{kills.case.checkpoint}").state().done
    rows = f"{len(kills.case.written)} rows in {done + 1} batches"
    print(f"{datetime.now(UTC):%F} killed: {dict(killed)}; {rows}")
    assert kills.case.problems() == []


@pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3", "4.0.1", "3.1.3"], indirect=True)
def test_a_driver_that_is_killed_at_random_moments_writes_every_row_once(
    spark: Any, client: MetastoreClient, database: str, tmp_path: Path
) -> None:
    case = StreamCase(spark, client, database, tmp_path, files_per_batch="10")
    kills = Kills(case, lambda: nullcontext(case.arrive), Random(SEED))
    live_through(kills, case.job(trigger="1 s"), tmp_path, [], {})


@pytest.fixture(params=["4.0.1", "3.1.3"])
def own_metastore(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EmbeddedMetastore]:
    with EmbeddedMetastore(request.param, directory=tmp_path / "hms") as metastore:
        yield metastore


def test_a_metastore_and_a_broker_that_are_killed_too_change_nothing(
    spark: Any, own_metastore: EmbeddedMetastore, tmp_path: Path
) -> None:
    folder = tmp_path / "broker"
    folder.mkdir()
    with MetastoreClient(own_metastore.options) as client, Broker(folder) as broker:
        client.create_database("streams")
        case = StreamCase(spark, client, "streams", tmp_path)

        @contextmanager
        def sender() -> Iterator[Callable[..., None]]:
            with broker.producer("feed") as producer:

                def send(*rows: tuple[int, str]) -> None:
                    first = len(case.written)
                    new = [{"id": key, "v": v, "seq": first + n} for n, (key, v) in enumerate(rows)]
                    producer.send(map(json.dumps, new))
                    case.written += new

                yield send

        def restart_broker() -> None:
            broker.kill()
            broker.start()

        parsed = "from_json(CAST(value AS STRING), 'id BIGINT, v STRING, seq BIGINT') AS r"
        source = StreamSource(
            "kafka",
            {
                "kafka.bootstrap.servers": broker.address,
                "subscribe": "feed",
                "startingOffsets": "earliest",
            },
        )
        job = case.job(
            InsertJob(
                target=case.events,
                source=QuerySource(
                    f"SELECT r.id, r.v FROM (SELECT {parsed} FROM b)", {"b": BatchSource()}
                ),
            ),
            upsert(case.newest, f"(SELECT r.* FROM (SELECT {parsed} FROM b))"),
            source=source,
            trigger="1 s",
        )
        kills = Kills(case, sender, Random(SEED))
        with sender() as send:
            kills.some_rows(send)
        live_through(
            kills,
            job,
            tmp_path,
            jars_of_spark(tmp_path),
            {"metastore": own_metastore.restart, "broker": restart_broker},
        )


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_a_driver_that_is_asked_to_end_ends_its_batch(
    spark: Any, client: MetastoreClient, database: str, tmp_path: Path
) -> None:
    case = StreamCase(spark, client, database, tmp_path)
    case.arrive((1, "a"))
    driver = Driver(case.job(InsertJob(target=case.events, source=BATCH), trigger="1 s"), tmp_path)
    try:
        assert driver.wait_until(driver.has_told, 300), driver.log
        case.arrive((2, "b"))
        driver.terminate()
        report = driver.end(120)
    finally:
        driver.kill()
    assert report["ended"] == "asked to"
    assert len(case.rows(case.events)) == report["batches"]
