"""The information for clients that wait for locks."""

import pytest

from hiveacid.metastore.thrift.answers import HeldLock, LockState
from hiveacid.metastore.txn import locks as lock_request
from hiveacid.metastore.txn.locks import Pauses, holders
from hiveacid.progress import PhaseClock, PhaseObserver
from hiveacid.rules.locks import LockType
from hiveacid.rules.names import TableRef


class Notes(PhaseObserver):
    def __init__(self):
        self.lines = []

    def note(self, text):
        self.lines.append(text)


def lock(txn_id, run=None, lock_id=7):
    return HeldLock(
        lock_id=lock_id,
        database="shop",
        table=TableRef("shop", "orders"),
        partition=None,
        state=LockState.ACQUIRED,
        type=LockType.EXCL_WRITE,
        txn_id=txn_id,
        user="ada",
        host="h",
        agent_info=run,
        acquired_at=None,
        last_heartbeat=None,
    )


RUN = "hiveacid:orders_hourly/scheduled__2026-11-22T00:00:00+00:00/merge/-1"


@pytest.mark.parametrize(
    ("locks", "told"),
    [
        ([lock(25, RUN)], "transaction 25 of orders_hourly.merge"),
        ([lock(25, RUN), lock(25, RUN)], "transaction 25 of orders_hourly.merge"),
        ([lock(None)], "lock 7 of ada"),
        (
            [lock(1), lock(2), lock(3), lock(4)],
            "transaction 1 of ada, transaction 2 of ada and 2 more",
        ),
        ([], "the metastore"),
    ],
)
def test_holders_are_listed_in_short(locks, told):
    assert holders(locks) == told


def test_every_ten_seconds_a_wait_is_reported_with_its_holders(monkeypatch):
    class Time:
        now = 100.0

        def monotonic(self):
            return self.now

        def sleep(self, seconds):
            self.now += seconds

    time, notes = Time(), Notes()
    monkeypatch.setattr(lock_request, "time", time)
    pauses = Pauses(time.now, 25.0, PhaseClock([notes]))
    while not pauses.over:
        pauses.rest([lock(25)])
    waits = [line.removeprefix("waiting for transaction 25 of ada, ") for line in notes.lines]
    seconds = [int(wait.removesuffix(" s")) for wait in waits]
    assert len(seconds) == 2
    assert 10 <= seconds[0] <= 13 <= 20 <= seconds[1] <= 25
