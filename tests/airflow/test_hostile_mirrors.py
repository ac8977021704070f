"""Catalogs that never answer, and the triggers of another team."""

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, aclosing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_hiveacid.triggers.base import PollThreads, Server
from airflow_hiveacid.triggers.condition import Condition, HiveAcidConditionTrigger, Poller
from hiveacid.errors import MetastoreUnreachable
from hiveacid.metastore.client import MetastoreClient
from tests.airflow.test_mirror_fresh import Watched
from tests.compaction.written_table import WrittenTable

HOSTILE = 8


@pytest.fixture
def silent() -> Iterator[list[str]]:
    """The addresses of catalogs that accept connections, and never answer."""
    with ExitStack() as stack:
        servers = [
            stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(HOSTILE)
        ]
        yield [f"http://127.0.0.1:{each.getsockname()[1]}" for each in servers]


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
@pytest.mark.parametrize("shared", [True, False])
def test_eight_hostile_mirrors_do_not_delay_another_trigger(
    client: MetastoreClient,
    database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    silent: list[str],
    shared: bool,
) -> None:
    host, port = client.options.uris.removeprefix("thrift://").split(":")
    connection = {"conn_type": "hive_acid_metastore", "host": host, "port": int(port)}
    monkeypatch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", json.dumps(connection))
    # A triggerer on a machine with two cores has six threads.
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    table = WrittenTable.create(client, f"{database}.t")
    table.insert(1)
    mirror = Watched(table, tmp_path)
    mirror.run()

    def hostile(number: int) -> HiveAcidConditionTrigger:
        options = {"type": "rest", "uri": silent[0 if shared else number], "locations": "s3://a"}
        return mirror.trigger(catalog_options=options)

    async def wait() -> Any:
        waiting = [asyncio.ensure_future(first_event(hostile(each))) for each in range(HOSTILE)]
        await asyncio.wait(waiting, timeout=1)
        event = await asyncio.wait_for(first_event(mirror.trigger()), timeout=20)
        assert not any(each.done() for each in waiting)
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        return event

    assert asyncio.run(wait())["status"] == "found"


def test_an_abandoned_poll_keeps_its_server_busy_until_it_ends() -> None:
    async def run() -> None:
        threads, release = PollThreads(), threading.Event()
        slow, other = Server("a", "slow"), Server("a", "other")
        with pytest.raises(MetastoreUnreachable, match="took more than"):
            await threads.run(slow, release.wait, 0.05)
        with pytest.raises(MetastoreUnreachable, match="could begin"):
            await threads.run(slow, lambda: 1, 0.05)
        assert await threads.run(other, lambda: 2, 60) == 2
        release.set()
        assert await threads.run(slow, lambda: 3, 60) == 3

    asyncio.run(run())


def test_the_polls_of_a_server_and_of_an_owner_are_limited() -> None:
    async def run() -> None:
        threads, release = PollThreads(per_server=2, per_owner=3, total=4), threading.Event()

        def begin(owner: str, server: str) -> "asyncio.Future[Any]":
            return asyncio.ensure_future(threads.run(Server(owner, server), release.wait, 60))

        running = [begin("a", "x"), begin("a", "x"), begin("a", "y")]
        await asyncio.sleep(0)
        for server in (Server("a", "x"), Server("a", "z")):
            with pytest.raises(MetastoreUnreachable, match="could begin"):
                await threads.run(server, lambda: 1, 0.05)
        running.append(begin("b", "x"))
        await asyncio.sleep(0)
        with pytest.raises(MetastoreUnreachable, match="could begin"):
            await threads.run(Server("c", "x"), lambda: 1, 0.05)
        release.set()
        assert await asyncio.gather(*running) == [True] * 4
        assert await threads.run(Server("c", "x"), lambda: 1, 60) == 1

    asyncio.run(run())


def test_a_poll_that_is_late_gives_its_place_to_the_dag_with_the_fewest_polls() -> None:
    async def run() -> None:
        threads, release = PollThreads(total=1, late_after=0.05), threading.Event()
        begun: asyncio.Queue[str] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def poll(owner: str) -> bool:
            loop.call_soon_threadsafe(begun.put_nowait, owner)
            return release.wait(60)

        running = [
            asyncio.ensure_future(threads.run(Server(owner, "x"), partial(poll, owner), 60))
            for owner in ("a", "a", "a", "b")
        ]
        async with asyncio.timeout(20):
            assert [await begun.get(), await begun.get()] == ["a", "b"]
        release.set()
        await asyncio.gather(*running)

    asyncio.run(run())


def test_a_server_with_many_polls_gets_one_of_each_dag() -> None:
    async def run() -> None:
        threads, release = PollThreads(per_owner=2), threading.Event()
        running = [
            asyncio.ensure_future(threads.run(Server(owner, "x"), release.wait, 60))
            for owner in "aabb"
        ]
        await asyncio.sleep(0)
        running.append(asyncio.ensure_future(threads.run(Server("c", "x"), release.wait, 60)))
        await asyncio.sleep(0)
        with pytest.raises(MetastoreUnreachable, match="could begin"):
            await threads.run(Server("c", "x"), lambda: 1, 0.05)
        assert await threads.run(Server("c", "y"), lambda: 1, 60) == 1
        release.set()
        await asyncio.gather(*running)

    asyncio.run(run())


def test_a_poll_that_is_cancelled_leaves_nothing() -> None:
    async def run() -> None:
        threads, release = PollThreads(per_server=1, total=1), threading.Event()
        server = Server("a", "x")
        first = asyncio.ensure_future(threads.run(server, release.wait, 60))
        waiting = asyncio.ensure_future(threads.run(Server("b", "x"), lambda: 1, 60))
        await asyncio.sleep(0)
        waiting.cancel()
        release.set()
        assert await first
        assert await threads.run(server, lambda: 2, 60) == 2
        admitted = asyncio.ensure_future(threads.run(server, lambda: 3, 60))
        await asyncio.sleep(0)
        admitted.cancel()
        await asyncio.gather(waiting, admitted, return_exceptions=True)
        assert await threads.run(server, lambda: 4, 60) == 4

    asyncio.run(run())


@pytest.mark.parametrize(
    ("dags", "names"),
    [(1, 3), (30, 3), (30, 900), (900, 3), (900, 900), (900, 1)],
    ids=str,
)
def test_900_silent_polls_delay_those_of_other_dags_by_less_than_an_interval(
    dags: int, names: int
) -> None:
    """With one name, the others poll this server, too: silent is the storage of its tables."""
    interval, others = 5.0, 100
    release = threading.Event()
    late: list[float] = []

    async def poll_thrice(threads: PollThreads, number: int) -> None:
        loop = asyncio.get_running_loop()
        server = Server(f"good_{number % 10}", "server_0" if names == 1 else "metastore")
        for _ in range(3):
            due = loop.time()
            late.append(await threads.run(server, loop.time, 60) - due)
            await asyncio.sleep(0.1)

    async def run() -> None:
        threads = PollThreads(late_after=0.05)
        silent = [
            asyncio.ensure_future(
                threads.run(
                    Server(f"dag_{each % dags}", f"server_{each % names}"), release.wait, 60
                )
            )
            for each in range(900)
        ]
        await asyncio.sleep(0)
        await asyncio.gather(*(poll_thrice(threads, each) for each in range(others)))
        assert not any(each.done() for each in silent)
        release.set()
        await asyncio.gather(*silent)

    asyncio.run(run())
    assert len(late) == 3 * others
    assert max(late) < interval


@dataclass(frozen=True)
class Silent(Condition):
    """A condition on a catalog that never answers, unless it has no name.

    Attributes:
        catalog: The catalog.
    """

    catalog: str

    @property
    def server(self) -> str | None:
        return self.catalog or None

    def validate(self) -> None:
        return

    def poll(self, poller: Poller) -> Any:
        if self.catalog:
            END.wait(60)
        return "found"


END = threading.Event()


def test_three_silent_catalogs_do_not_stop_another_dag_with_the_same_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection = {"conn_type": "hive_acid_metastore", "host": "127.0.0.1", "port": 1}
    monkeypatch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", json.dumps(connection))
    END.clear()

    def deferred(dag_id: str, catalog: str) -> "asyncio.Future[Any]":
        trigger = HiveAcidConditionTrigger(
            condition=Silent(catalog), metastore_conn_id="hive_acid_default", poke_interval=60
        )
        task = SimpleNamespace(dag_id=dag_id, task_id="wait")
        trigger.task_instance = task  # type: ignore[assignment]
        return asyncio.ensure_future(first_event(trigger))

    async def run() -> Any:
        silent = [deferred("silent", f"catalog_{each % 3}") for each in range(30)]
        await asyncio.wait(silent, timeout=0.5)
        event = await asyncio.wait_for(deferred("good", ""), timeout=20)
        assert not any(each.done() for each in silent)
        END.set()
        for each in silent:
            each.cancel()
        await asyncio.gather(*silent, return_exceptions=True)
        return event

    assert asyncio.run(run()) == {"status": "found", "found": "found"}


async def first_event(trigger: HiveAcidConditionTrigger) -> Any:
    async with aclosing(trigger.run()) as events:  # type: ignore[type-var]
        return (await anext(events)).payload


def test_a_poll_raises_its_own_errors() -> None:
    def fail() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        asyncio.run(PollThreads().run(Server("a", "x"), fail, 60))
