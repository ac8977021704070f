"""Servers for development answer at no address that others could reach, or do not start."""

import ast
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid.playground import local_airflow
from airflow_hiveacid.playground.local_airflow import LocalAirflow
from hiveacid.errors import JobFailed
from hiveacid.metastore.dev import embedded
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.dev.loopback import listens, require_loopback
from tests.metastore.test_embedded import processes_using
from tests.versions import REAL

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("address", ["0.0.0.0", "::"])
def test_a_server_on_all_addresses_is_refused(address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    dual = family == socket.AF_INET6
    with socket.create_server((address, 0), family=family, dualstack_ipv6=dual) as server:
        port = server.getsockname()[1]
        assert listens(port)
        with pytest.raises(JobFailed, match=f"port {port} also answers at ") as error:
            require_loopback(port, "Airflow")
    assert "choose another port" in error.value.remedy


def test_a_server_on_loopback_is_not_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        require_loopback(server.getsockname()[1], "Airflow")


@pytest.mark.server
@pytest.mark.parametrize("version", REAL)
def test_a_metastore_answers_on_loopback_only(version: str, tmp_path: Path) -> None:
    with EmbeddedMetastore(version, directory=tmp_path) as metastore:
        port = int(metastore.uri.rpartition(":")[2])
        assert listens(port)
        require_loopback(port, version)


@pytest.mark.server
def test_a_metastore_on_all_addresses_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, eventually: Callable[..., None]
) -> None:
    monkeypatch.setattr(embedded, "write_loopback_classes", lambda *_: None)
    with pytest.raises(JobFailed, match=r"Metastore 3\.1\.3 does not keep to"):
        EmbeddedMetastore("3.1.3", directory=tmp_path).start()
    eventually("all processes end", lambda: processes_using(tmp_path) == [])


def airflow(folder: Path) -> LocalAirflow:
    uri, dags = "thrift://127.0.0.1:1", folder / "dags"
    return LocalAirflow(folder, dags=dags, metastore_uri=uri, master="local[1]")


def test_an_airflow_on_all_addresses_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo, started = airflow(tmp_path), []
    monkeypatch.setattr(LocalAirflow, "_start", lambda _, names: started.append(names))
    port = int(demo.url.rpartition(":")[2])
    with (
        socket.create_server(("0.0.0.0", port)),
        pytest.raises(JobFailed, match="Airflow does not keep to"),
    ):
        demo.start()
    assert started == [["api-server"]]


def test_an_airflow_starts_no_servers_of_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: dict[str, list[str]] = {}

    class Process:
        pid = 0

        def __init__(self, command: list[str], **_: Any) -> None:
            commands[command[3]] = command[4:]

    monkeypatch.setattr(local_airflow, "GuardedProcess", Process)
    monkeypatch.setattr(local_airflow, "wait_for", lambda *_: None)
    demo = airflow(tmp_path)
    demo.start()
    assert commands == {
        "api-server": [],
        "scheduler": ["--skip-serve-logs"],
        "triggerer": ["--skip-serve-logs"],
        "dag-processor": [],
    }
    assert demo.environment["AIRFLOW__API__HOST"] == "127.0.0.1"


def test_each_module_that_starts_servers_proves_their_addresses() -> None:
    calls: dict[str, set[str]] = {}
    for package in ("hiveacid", "airflow_hiveacid"):
        for file in (ROOT / package).rglob("*.py"):
            found = {
                node.func.id
                for node in ast.walk(ast.parse(file.read_text()))
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            }
            if "GuardedProcess" in found:
                calls[file.name] = found
    assert calls.keys() == {"embedded.py", "local_airflow.py"}
    assert all("require_loopback" in found for found in calls.values())
