"""The playground from a user's view: start it, follow its output, watch its tables, end it."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from airflow_hiveacid.playground.playground import TABLES
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import free_port
from hiveacid.records.table_history import table_history
from hiveacid.rules.names import TableRef

pytestmark = [pytest.mark.live, pytest.mark.timeout(3600)]
PATIENCE = 1200


class Demo:
    """A `hiveacid demo` in a folder, and its output."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._log = folder.with_suffix(".log")
        self._sessions: set[int] = set()
        with self._log.open("wb") as output:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "hiveacid.cli.main", "demo"),
                    *("--folder", str(folder), "--every", "5", "--port", str(free_port())),
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        return self._log.read_text()

    @property
    def url(self) -> str:
        return re.findall(r"Page +(http://[\d.:]+)/plugin/hiveacid", self.said)[0]

    @property
    def login(self) -> dict[str, str]:
        user, password = re.findall(r"Login +(\w+), password (\S+)", self.said)[0]
        return {"username": user, "password": password}

    @property
    def commands(self) -> list[str]:
        """Return the suggested commands for another terminal."""
        return re.findall(r"^  ((?:export|hiveacid) .*)$", self.said, re.M)

    @property
    def metastore(self) -> MetastoreOptions:
        return MetastoreOptions(uris=re.findall(r"=(thrift://\S+)", self.said)[0])

    def is_up(self) -> bool:
        assert self.process.poll() is None, self.said
        return "Ctrl-C ends all of it" in self.said and bool(self.alive())

    def alive(self) -> list[str]:
        """Return its processes: Airflow, its tasks, Spark, the metastore."""
        found = []
        for process in psutil.process_iter():
            try:
                session, words = os.getsid(process.pid), " ".join(process.cmdline())
                texts = [words, *process.environ().values()]
                ours = any(str(self.folder) in text for text in texts)
                if process.status() == psutil.STATUS_ZOMBIE or process.pid == os.getpid():
                    continue
                if ours or session in self._sessions:
                    # Those that have given themselves another title are known by their session.
                    self._sessions.add(session)
                    found.append(words)
            except (psutil.Error, OSError):
                continue
        return found

    def ask(self, path: str, body: object = None, token: str = "") -> dict[str, object]:
        """Return Airflow's answer."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        request = urllib.request.Request(f"{self.url}{path}", data, headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return dict(json.load(answer))

    def counts(self) -> tuple[dict[str, int], int]:
        """Return the number of writes of each table, and of compactions of any."""
        writes, compactions = {}, 0
        with MetastoreClient(self.metastore) as client:
            for table in TABLES:
                entries = table_history(client, TableRef.parse(table))
                writes[table] = sum(entry.write_id is not None for entry in entries)
                compactions += sum(entry.write_id is None for entry in entries)
        return writes, compactions

    def all_are_written_since(self, before: dict[str, int]) -> bool:
        now, _ = self.counts()
        return all(now[table] > before[table] for table in TABLES)

    def end(self, number: signal.Signals) -> None:
        self.process.send_signal(number)
        assert self.process.wait(120) == 0, self.said
        assert self.alive() == []


@contextmanager
def started(folder: Path, eventually: Callable[..., None]) -> Iterator[Demo]:
    demo = Demo(folder)
    try:
        eventually("it is up", demo.is_up, PATIENCE)
        yield demo
    finally:
        if demo.process.poll() is None:
            demo.process.kill()
            demo.process.wait()


def test_it_runs_until_it_is_ended_and_continues_after_a_restart(
    tmp_path: Path, eventually: Callable[..., None]
) -> None:
    folder = tmp_path / "demo"
    with started(folder, eventually) as demo:
        before, _ = demo.counts()
        token = str(demo.ask("/auth/token", demo.login)["access_token"])
        page = demo.ask("/hiveacid/api/tables", token=token)
        assert page["counts"] is not None
        eventually("all are written", lambda: demo.all_are_written_since(before), PATIENCE)
        eventually("one is compacted", lambda: demo.counts()[1] > 0, PATIENCE)
        ended = subprocess.run(
            ["/bin/bash", "-ec", "\n".join(demo.commands)],
            env={name: os.environ[name] for name in ("HOME", "PATH")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (len(demo.commands), ended.returncode) == (4, 0), ended.stderr
        for word in (*TABLES, "merge", "shop_load.load", "status", "new"):
            assert word in ended.stdout
        writes, _ = demo.counts()
        demo.end(signal.SIGTERM)

    with started(folder, eventually) as demo:
        now, _ = demo.counts()
        assert all(now[table] >= writes[table] for table in TABLES)
        eventually("the load goes on", lambda: demo.all_are_written_since(writes), PATIENCE)
        demo.end(signal.SIGINT)

    with started(folder, eventually) as demo:
        demo.process.kill()
        demo.process.wait()
        eventually("nothing lives on", lambda: demo.alive() == [], 300)
