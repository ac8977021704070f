"""A stream that is killed before and after every step of a batch: every row once.

A killed run sends nothing more to the metastore and cleans nothing up, like a dead process.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from hiveacid.jobs.maintenance_jobs import CleanJob, CompactJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift.answers import TxnState
from hiveacid.metastore.txn.live_transaction import LiveTransaction
from hiveacid.progress import FaultInjector, Phase, PhaseObserver
from hiveacid.records.stream_places import StreamPlaces
from hiveacid.spark.run import run
from hiveacid.spark.streaming import StreamRun
from hiveacid.upkeep.table_cleaning import clean
from tests.streams.stream_case import StreamCase

pytestmark = pytest.mark.streams
KILLS = int(os.environ.get("KILLS", "20"))
SEED = int(os.environ.get("SEED", "1"))
EDGES = ("before", "after")
PLACES = [
    *((phase.value, edge) for phase in list(Phase)[:8] for edge in EDGES),
    *(("batch", edge) for edge in EDGES),
    *(("place", edge) for edge in EDGES),
]


class Killed(Exception):
    """The process is gone."""


class _At(PhaseObserver):
    def __init__(self, reach: Callable[[str, str], None]) -> None:
        self._reach = reach

    def enter(self, phase: Phase) -> None:
        self._reach(phase.value, "before")

    def leave(self, phase: Phase, seconds: float) -> None:
        self._reach(phase.value, "after")


class Deaths:
    """Has a run killed when it comes to a place.

    Attributes:
        count: The number of deaths.
    """

    def __init__(self) -> None:
        self.count = 0
        self._place: tuple[str, str] | None = None
        self._dead = False

    @contextmanager
    def at(self, place: tuple[str, str]) -> Iterator[None]:
        """Kill the body once it reaches a point, if it does."""
        self._place, self._dead = place, False
        abort = LiveTransaction.abort

        def no_longer(txn: LiveTransaction, reason: str) -> None:
            if not self._dead:
                abort(txn, reason)
            elif txn._heartbeat is not None:
                txn._heartbeat.stop()

        with pytest.MonkeyPatch.context() as patch:
            observer = _At(self.reach)
            patch.setattr(FaultInjector, "from_environment", classmethod(lambda _: observer))
            patch.setattr(LiveTransaction, "abort", no_longer)
            patch.setattr(StreamRun, "_apply", self._around(StreamRun._apply, "batch"))
            patch.setattr(StreamPlaces, "write", self._around(StreamPlaces.write, "place"))
            try:
                yield
            except Killed:
                self.count += 1

    def reach(self, step: str, edge: str) -> None:
        if (step, edge) == self._place:
            self._place, self._dead = None, True
            raise Killed

    def _around(self, method: Callable[..., Any], step: str) -> Callable[..., Any]:
        def struck(*arguments: Any) -> None:
            self.reach(step, "before")
            method(*arguments)
            self.reach(step, "after")

        return struck


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
def test_a_stream_that_is_killed_at_every_step_writes_every_row_once(
    spark: Any, client: MetastoreClient, database: str, tmp_path: Path
) -> None:
    random, deaths = Random(SEED), Deaths()
    case = StreamCase(spark, client, database, tmp_path)
    number = 0
    places = list(PLACES)
    while deaths.count < KILLS:
        for _ in range(random.randrange(1, 3)):
            rows = []
            for _ in range(random.randrange(1, 6)):
                number += 1
                gone = random.random() < 0.2
                rows.append((random.randrange(8), "gone" if gone else f"v{number}"))
            case.arrive(*rows)
        place = places.pop(random.randrange(len(places))) if places else random.choice(PLACES)
        with deaths.at(place):
            case.run()
        if random.random() < 0.3:
            look_after(case, random)
    case.run()
    assert case.problems() == []


def look_after(case: StreamCase, random: Random) -> None:
    """Compact and clean, once the metastore has aborted transactions without heartbeats."""
    for txn in case.client.get_open_txns_info():
        if txn.state is TxnState.OPEN and "stream/" in txn.host:
            case.client.abort_txn(txn.txn_id)
    for table in (case.events, case.newest):
        options: dict[str, Any] = {"target": table, "metastore": case.client.options}
        report = run(case.spark, CompactJob(**options, type=random.choice(["minor", "major"])))
        assert report.error is None
        clean(case.client, CleanJob(**options, retention="0"))
