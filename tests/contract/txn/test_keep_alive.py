"""One thread and one connection keep all transactions of a process at a metastore alive."""

import gc
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hiveacid.errors import AnswerLost, JobFailed
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift.session import Session
from hiveacid.metastore.txn import heartbeat
from hiveacid.metastore.txn.heartbeat import (
    HEARTBEATS_PER_TIMEOUT,
    Heartbeat,
    KeepAlive,
    is_of_this_process,
    keep_alive,
)
from hiveacid.metastore.txn.live_transaction import LiveTransaction
from hiveacid.metastore.txn.transaction import Lease, OpenRead, Transaction, end_reads
from hiveacid.rules.names import TableRef
from tests.fakes.metastore import FakeMetastore
from tests.fakes.transactions import Transactions
from tests.forks import forked
from tests.proxy import Harm, Proxy

TABLE = TableRef("default", "events")
_HEARTBEAT = "heartbeat_txn_range"


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[FakeMetastore]:
    """A metastore that wants a heartbeat every 0.1 s."""
    with FakeMetastore("4.0.1", directory=tmp_path) as metastore:
        metastore.settings["hive.txn.timeout"] = "300ms"
        with MetastoreClient(metastore.options) as client:
            client.create_table(HiveTable.new(TABLE, [HiveColumn("id", "bigint")]))
        yield metastore


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The transactions of each heartbeat that a metastore has received, the first and the last."""
    ranges: list[tuple[int, int]] = []
    answer = Transactions.heartbeat_txn_range

    def listen(self: Transactions, request: Any) -> Any:
        ranges.append((request.min, request.max))
        return answer(self, request)

    monkeypatch.setattr(Transactions, _HEARTBEAT, listen)
    return ranges


def _threads(uri: str) -> int:
    return sum(each.name == f"heartbeats at {uri}" for each in threading.enumerate())


def _read(client: MetastoreClient) -> Transaction:
    return Transaction(client, reads=[TABLE])


def test_one_connection_keeps_all_transactions_alive_and_no_others(
    impatient: FakeMetastore, heard: list[tuple[int, int]], eventually: Callable[..., None]
) -> None:
    with closing(Proxy(impatient)) as proxy, MetastoreClient(_at(proxy)) as client:
        own = []
        with ExitStack() as opened:
            for _ in range(20):
                own.append(opened.enter_context(_read(client)).txn_id)
                client.open_txn("somebody", "host", None)
            eventually("each has sent two", lambda: all(heard.count((i, i)) > 1 for i in own))
            assert proxy.open == _threads(proxy.uri) + 1 == 2
            assert all(is_of_this_process(client, txn_id) for txn_id in own)
        assert {each for pair in heard for each in pair} == set(own)
        eventually("the thread ends", lambda: _threads(proxy.uri) == 0)
        eventually("its connection is closed", lambda: proxy.open == 1)
        with _read(client) as later:
            eventually("it starts again", lambda: (later.txn_id, later.txn_id) in heard)


def _at(proxy: Proxy) -> MetastoreOptions:
    return MetastoreOptions(uris=proxy.uri)


def test_calls_without_an_answer_do_not_let_other_transactions_expire(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The metastore is silent about a third of them, for as long as anybody waits."""
    now, every = [0.0], 100.0
    monkeypatch.setattr(heartbeat, "monotonic", lambda: now[0])
    made = KeepAlive(MetastoreOptions(uris="thrift://silent:9083"))
    heartbeats = [Heartbeat(made.client.options, txn_id, every) for txn_id in range(30)]
    sent: dict[int, list[float]] = {each.txn_id: [0.0] for each in heartbeats}

    def send(self: Heartbeat, client: MetastoreClient) -> None:
        if self.txn_id % 3 == 0:
            now[0] += client._session._local.limit.remaining
            raise AnswerLost("No answer arrived in time.")
        now[0] += 0.01
        sent[self.txn_id].append(now[0])

    monkeypatch.setattr(Heartbeat, "send", send)
    for each in heartbeats:
        each.due = every
        made._heartbeats.add(each)
    while now[0] < 100 * every:
        now[0] += made._send_most_urgent()
    silence = {
        txn_id: max(later - earlier for earlier, later in pairwise([*times, now[0]]))
        for txn_id, times in sent.items()
    }
    heard = {txn_id: seconds for txn_id, seconds in silence.items() if txn_id % 3}
    assert max(heard.values()) < HEARTBEATS_PER_TIMEOUT * every


def test_a_silent_metastore_does_not_delay_the_heartbeats_at_another_one(
    impatient: FakeMetastore, heard: list[tuple[int, int]], eventually: Callable[..., None]
) -> None:
    mute = Proxy(impatient, _HEARTBEAT, arrives=False, harm=Harm.HOLD, times=100)
    with (
        closing(mute),
        MetastoreClient(_at(mute)) as waiting,
        MetastoreClient(impatient.options) as client,
        _read(waiting) as unheard,
        _read(client) as alive,
    ):
        eventually("one waits", lambda: mute.cuts > 1)
        assert heard.count((alive.txn_id, alive.txn_id)) > 1
        assert (unheard.txn_id, unheard.txn_id) not in heard


def test_ends_of_collected_reads_delay_no_heartbeat(
    impatient: FakeMetastore, heard: list[tuple[int, int]], eventually: Callable[..., None]
) -> None:
    """The metastore does not answer them for as long as anybody waits: 40 times five seconds."""
    slow = Proxy(impatient, "commit_txn", harm=Harm.HOLD, arrives=False, times=40)
    with closing(slow), MetastoreClient(_at(slow)) as client, ExitStack() as opened:
        leases = [
            Lease(OpenRead(client.options, _read(client).__enter__(), [TABLE])) for _ in range(40)
        ]
        others = [opened.enter_context(_read(client)).txn_id for _ in range(5)]
        leases.clear()
        eventually("one is being ended", lambda: slow.cuts == 1)
        before = {txn_id: heard.count((txn_id, txn_id)) for txn_id in others}
        eventually(
            "each has sent two more",
            lambda: all(heard.count((i, i)) > n + 1 for i, n in before.items()),
        )
        assert slow.cuts == 1
        slow._times = 0
        # The metastore ends the one whose end it has never received.
        left = len(others) + 1
        eventually("the rest is ended", lambda: len(client.show_locks(TABLE)) == left)


def test_a_transaction_without_a_thread_for_its_heartbeats_is_refused_and_ended(
    impatient: FakeMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name.startswith("heartbeats"):
            raise RuntimeError("can't start new thread")
        start(thread)

    with MetastoreClient(impatient.options) as client:
        with monkeypatch.context() as limited:
            limited.setattr(threading.Thread, "start", refuse)
            with pytest.raises(JobFailed, match="can't start new thread") as refused:
                _read(client).__enter__()
        assert "limit of threads" in refused.value.remedy
        assert not client.show_locks(TABLE)
        with _read(client) as txn:
            assert is_of_this_process(client, txn.txn_id)


def test_work_waits_until_a_thread_can_be_started(
    impatient: FakeMetastore, eventually: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[str] = []
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name.startswith("work") and len(refused) < 3:
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    with MetastoreClient(impatient.options) as client, _read(client):
        monkeypatch.setattr(threading.Thread, "start", refuse)
        done = threading.Event()
        keep_alive(client.options).do_soon(done.set)
        eventually("it is done", done.is_set)
    assert len(refused) == 3


@pytest.mark.parametrize("failure", [MemoryError, SystemExit, GeneratorExit])
def test_heartbeats_and_work_continue_after_work_that_fails(
    impatient: FakeMetastore,
    heard: list[tuple[int, int]],
    eventually: Callable[..., None],
    failure: type[BaseException],
) -> None:
    def fail() -> None:
        raise failure

    with MetastoreClient(impatient.options) as client, _read(client) as txn:
        done = threading.Event()
        keep_alive(client.options).do_soon(fail)
        keep_alive(client.options).do_soon(done.set)
        eventually("the next work is done", done.is_set)
        before = heard.count((txn.txn_id, txn.txn_id))
        eventually("it is heard", lambda: heard.count((txn.txn_id, txn.txn_id)) > before)


def test_heartbeats_continue_after_any_failure(
    impatient: FakeMetastore,
    heard: list[tuple[int, int]],
    eventually: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failures: list[BaseException] = [
        ValueError("a defect"),
        OSError("no file is left"),
        MemoryError(),
        SystemExit(1),
    ]
    send = Heartbeat.send

    def fail(self: Heartbeat, client: MetastoreClient) -> None:
        if failures:
            raise failures.pop()
        send(self, client)

    monkeypatch.setattr(Heartbeat, "send", fail)
    with MetastoreClient(impatient.options) as client, _read(client) as txn:
        eventually("it is heard", lambda: (txn.txn_id, txn.txn_id) in heard)


def test_a_child_keeps_its_own_transactions_alive_whatever_its_parent_was_doing(
    impatient: FakeMetastore, heard: list[tuple[int, int]]
) -> None:
    with MetastoreClient(impatient.options) as client, _read(client) as parents:

        def work() -> tuple[int, bool]:
            own = threading.Event()
            monkeypatch = pytest.MonkeyPatch()
            send = Heartbeat.send

            def note(self: Heartbeat, client: MetastoreClient) -> None:
                send(self, client)
                own.set()

            monkeypatch.setattr(Heartbeat, "send", note)
            with _read(client) as txn:
                return txn.txn_id, own.wait(10)

        # Another thread of the parent holds it during the fork: nobody will release it in the child.
        with keep_alive(client.options)._lock:
            txn_id, sent = forked(work)
        assert sent
        assert (txn_id, txn_id) in heard
        assert is_of_this_process(client, parents.txn_id)


class Reads:
    """Reads that are open, and the thread of each of their calls."""

    def __init__(self, client: MetastoreClient, monkeypatch: pytest.MonkeyPatch) -> None:
        self.client = client
        self.callers: list[tuple[str, str]] = []
        invoke = Session._invoke

        def note(session: Session, call: Any, *arguments: Any, **options: Any) -> Any:
            self.callers.append((call.name, threading.current_thread().name))
            return invoke(session, call, *arguments, **options)

        monkeypatch.setattr(Session, "_invoke", note)

    def open(self) -> tuple[OpenRead, LiveTransaction]:
        txn = _read(self.client).__enter__()
        return OpenRead(self.client.options, txn, [TABLE]), txn

    def are_held(self) -> bool:
        return bool(self.client.show_locks(TABLE))


@pytest.fixture
def reads(impatient: FakeMetastore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reads]:
    with MetastoreClient(impatient.options) as client:
        yield Reads(client, monkeypatch)


def test_the_garbage_collector_has_an_unused_read_ended_by_another_thread(
    reads: Reads, eventually: Callable[..., None]
) -> None:
    leases: list[Any] = [Lease(reads.open()[0])]
    leases.append(leases)  # Only the collector finds it.
    del leases
    reads.callers.clear()
    # Not even a thread that is about to add a transaction of its own may wait here.
    with keep_alive(reads.client.options)._lock:
        gc.collect()
    here = threading.current_thread().name
    assert [call for call, caller in reads.callers if caller == here] == []
    eventually("the read is ended", lambda: not reads.are_held())
    assert [caller for call, caller in reads.callers if call == "commit_txn"] == [
        f"work at {reads.client.options.uris}"
    ]


def test_the_end_of_a_read_waits_for_the_thread_that_is_ending_it(
    reads: Reads, eventually: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_go_on = threading.Event(), threading.Event()
    release = LiveTransaction.release

    def slowly(txn: LiveTransaction, client: MetastoreClient) -> None:
        begun.set()
        assert may_go_on.wait(10)
        release(txn, client)

    monkeypatch.setattr(LiveTransaction, "release", slowly)
    read, _ = reads.open()
    del _
    lease = Lease(read)
    del lease
    assert begun.wait(10)
    held: list[bool] = []

    def lock_exclusively() -> None:
        end_reads(reads.client.options, [TABLE])
        held.append(reads.are_held())

    other = threading.Thread(target=lock_exclusively)
    other.start()
    assert held == []
    may_go_on.set()
    other.join()
    assert held == [False]
    assert not read.is_open


def test_a_read_whose_end_is_lost_is_left_to_its_timeout(impatient: FakeMetastore) -> None:
    unable = Proxy(impatient)
    with MetastoreClient(_at(unable)) as client:
        txn = _read(client).__enter__()
        read = OpenRead(client.options, txn, [TABLE])
        unable.close()
        client.close()
        read.end()
        assert txn.warnings
        assert not read.is_open
        assert not is_of_this_process(client, txn.txn_id)


def test_a_child_ends_no_read_of_its_parent(reads: Reads) -> None:
    read, _ = reads.open()
    leases = [Lease(read)]

    def work() -> list[tuple[str, str]]:
        reads.callers.clear()
        leases.clear()
        end_reads(reads.client.options, [TABLE])
        read.end()
        return [each for each in reads.callers if each[0] in ("commit_txn", "abort_txn")]

    assert forked(work) == []
    assert os.getpid() == read._process
    assert reads.are_held()
    read.end()
    assert not reads.are_held()
