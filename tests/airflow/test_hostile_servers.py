"""Servers that never answer, and the applications and assets of another team."""

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, aclosing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from airflow.triggers.base import TriggerEvent

from airflow_hiveacid.cluster import yarn
from airflow_hiveacid.triggers.application import HiveAcidApplicationTrigger
from airflow_hiveacid.triggers.base import PollThreads
from airflow_hiveacid.triggers.compaction_event import HiveAcidCompactionEventTrigger
from hiveacid.metastore.client import MetastoreClient
from tests.upkeep.acid_folders import AcidFolders

HOSTILE = 8
Connect = Callable[[str, dict[str, Any]], None]


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Connect:
    # A triggerer on a machine with two cores has six threads.
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr(yarn, "TIMEOUT_SECONDS", 120)

    def connect(name: str, connection: dict[str, Any]) -> None:
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(connection))

    return connect


@pytest.fixture
def silent() -> Iterator[list[int]]:
    """The ports of servers that accept connections, and never answer."""
    with ExitStack() as stack:
        servers = [
            stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(HOSTILE)
        ]
        yield [each.getsockname()[1] for each in servers]


@pytest.fixture
def resource_manager() -> Iterator[int]:
    """The port of a ResourceManager whose applications have ended."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            app = {"id": "application_1_1", "state": "FINISHED", "finalStatus": "SUCCEEDED"}
            data = json.dumps({"app": app}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def yarn_connection(port: int) -> dict[str, Any]:
    extra = {"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": f"127.0.0.1:{port}"}
    return {"conn_type": "spark", "host": "yarn", "extra": extra}


def application(conn_id: str, folder: Path) -> HiveAcidApplicationTrigger:
    return HiveAcidApplicationTrigger(
        application_id="application_1_1",
        tag="t",
        tokens=["d/r/t/-1"],
        report=f"file:{folder}/report",
        spark_conn_id=conn_id,
        metastore_conn_id="hive_acid_default",
        metastore=None,
        poll_seconds=0.05,
        adopted=False,
    )


async def first_of(events: AsyncIterator[TriggerEvent]) -> Any:
    async with aclosing(events):  # type: ignore[type-var]
        return (await anext(events)).payload


def fired(hostile: list[Any], good: Any) -> Any:
    """Return the event of a trigger while others wait for their servers."""

    async def wait() -> Any:
        waiting = [asyncio.ensure_future(first_of(each.run())) for each in hostile]
        await asyncio.wait(waiting, timeout=1)
        event = await asyncio.wait_for(first_of(good.run()), timeout=20)
        assert not any(each.done() for each in waiting)
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        return event

    return asyncio.run(wait())


@pytest.mark.parametrize("shared", [True, False])
def test_silent_clusters_do_not_delay_the_application_of_another_one(
    tmp_path: Path, connect: Connect, silent: list[int], resource_manager: int, shared: bool
) -> None:
    for number in range(HOSTILE):
        connect(f"silent_{number}", yarn_connection(silent[0 if shared else number]))
    connect("good", yarn_connection(resource_manager))
    hostile = [
        application("silent_0" if shared else f"silent_{each}", tmp_path) for each in range(HOSTILE)
    ]
    assert fired(hostile, application("good", tmp_path))["state"] == "succeeded"


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_silent_metastores_do_not_delay_the_assets_of_another_one(
    client: MetastoreClient, database: str, connect: Connect, silent: list[int]
) -> None:
    def metastore(port: int) -> dict[str, Any]:
        return {"conn_type": "hive_acid_metastore", "host": "127.0.0.1", "port": port}

    def watching(conn_id: str) -> HiveAcidCompactionEventTrigger:
        return HiveAcidCompactionEventTrigger(
            table=f"{database}.t",
            policy={"max_deltas": 1, "max_delta_ratio": None},
            metastore_conn_id=conn_id,
            poke_interval=0.05,
        )

    for number, port in enumerate(silent):
        connect(f"silent_{number}", metastore(port))
    connect("good", metastore(int(client.options.uris.rpartition(":")[2])))
    table = AcidFolders.create(client, f"{database}.t")
    for _ in range(2):
        table.insert()
    hostile = [watching(f"silent_{number}") for number in range(HOSTILE)]
    [need] = fired(hostile, watching("good"))["needs"]
    assert need["table"] == f"{database}.t"


def test_polls_that_hang_do_not_prevent_the_end_of_an_application(
    tmp_path: Path, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "airflow_hiveacid.triggers.application"
    monkeypatch.setattr(f"{module}.THREADS", PollThreads(per_server=1))
    monkeypatch.setattr(f"{module}._SECONDS", 1)
    requests = []

    async def end(cluster: socket.socket) -> None:
        trigger = application("silent", tmp_path)
        waiting = asyncio.ensure_future(first_of(trigger.run()))
        loop = asyncio.get_running_loop()
        poll, _ = await asyncio.wait_for(loop.sock_accept(cluster), timeout=20)
        killing = asyncio.ensure_future(trigger.on_kill())
        other, _ = await asyncio.wait_for(loop.sock_accept(cluster), timeout=20)
        requests.append(await loop.sock_recv(other, 1000))
        await asyncio.wait_for(killing, timeout=20)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        poll.close()
        other.close()

    with socket.create_server(("127.0.0.1", 0)) as cluster:
        cluster.setblocking(False)
        connect("silent", yarn_connection(cluster.getsockname()[1]))
        asyncio.run(end(cluster))
    assert b"applicationTags=t" in requests[0]
