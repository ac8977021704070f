"""Catalogs that never answer, and the triggers of another team."""

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, aclosing
from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid.triggers.base import PollThreads, Server
from airflow_hiveacid.triggers.condition import HiveAcidConditionTrigger
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

    async def first_of(trigger: HiveAcidConditionTrigger) -> Any:
        async with aclosing(trigger.run()) as events:  # type: ignore[type-var]
            return (await anext(events)).payload

    async def wait() -> Any:
        waiting = [asyncio.ensure_future(first_of(hostile(each))) for each in range(HOSTILE)]
        await asyncio.wait(waiting, timeout=1)
        event = await asyncio.wait_for(first_of(mirror.trigger()), timeout=20)
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


def test_a_poll_raises_its_own_errors() -> None:
    def fail() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        asyncio.run(PollThreads().run(Server("a", "x"), fail, 60))
