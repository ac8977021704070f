"""Goes the way of a newcomer, from a clone to a merge on an existing metastore and to the page.

    PYTHONPATH=. python bench/first_hour.py --json out.json

The metastore is the existing one: it runs before the clock starts. All else begins with nothing: an
empty home, a clone of the newest commit, an environment into which pip installs it. The statements,
the commands and the DAG are those of docs/first-merge.md, taken from the clone; only addresses and
paths differ. A step with an unexpected result ends the run.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hiveacid.metastore.dev.embedded import EmbeddedMetastore, free_port

ROOT = Path(__file__).parents[1]
GUIDE = Path("docs") / "first-merge.md"
TABLE = "demo.customers"
CHANGES = [
    {"id": 1, "country": "de", "op": "upsert", "name": "Emmy", "email": "emmy@example.com"},
    {"id": 2, "country": "fr", "op": "upsert", "name": "Sophie", "email": "old@example.com"},
    {"id": 2, "country": "fr", "op": "upsert", "name": "Sophie", "email": "new@example.com"},
    {"id": 3, "country": "pl", "op": "delete"},
]
PAGE_SECONDS = 300


class Newcomer:
    """A user with an empty home, and a clock.

    Attributes:
        steps: The steps, and their seconds.
    """

    def __init__(self, home: Path, metastore: str) -> None:
        self.home, self.metastore = home, metastore
        self.clone, self.venv, self.feeds = home / "clone", home / "venv", home / "feeds"
        self.steps: list[tuple[str, float]] = []
        theirs = ("AIRFLOW", "SPARK", "PYSPARK", "PYTHON", "VIRTUAL_ENV", "HIVEACID", "XDG_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(theirs)}
        path = f"{self.venv / 'bin'}{os.pathsep}{os.environ['PATH']}"
        self.environment = kept | {"HOME": str(home), "PATH": path, "TZ": "UTC"}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measure the body, and print it."""
        begun = time.monotonic()
        yield
        self.steps.append((name, round(time.monotonic() - begun, 1)))
        print(f"{self.steps[-1][1]:8.1f} s  {name}", flush=True)

    def run(self, *command: str | Path, wanted: str = "") -> str:
        """Run a command and return its output, which must contain a text."""
        ended = subprocess.run(
            command,
            env=self.environment,
            cwd=self.home,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        )
        if ended.returncode or wanted not in ended.stdout:
            shown = " ".join(map(str, command))
            raise SystemExit(f"{ended.stdout[-4000:]}\n{shown}: status {ended.returncode}")
        return ended.stdout

    def snippet(self, language: str, containing: str) -> str:
        """Return the block of the guide with a text, with the addresses of this environment."""
        guide = (self.clone / GUIDE).read_text(encoding="utf-8")
        blocks = re.findall(rf"^```{language}\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
        (found,) = [block for block in blocks if containing in block]
        host, port = self.metastore.removeprefix("thrift://").split(":")
        addressed = found.replace("thrift://hms:9083", self.metastore)
        addressed = addressed.replace(
            '"host": "hms", "port": 9083', f'"host": "{host}", "port": {port}'
        )
        return addressed.replace("/feeds/", f"{self.feeds}/")

    def export(self, lines: str) -> None:
        """Apply lines of `export NAME=VALUE`."""
        for name, value in re.findall(r"^(?:\$ )?export (\w+)='?(.*?)'?$", lines, re.MULTILINE):
            self.environment[name] = value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--airflow", default="3.3.2", help="the version of Airflow")
    parser.add_argument("--python", default=os.path.realpath(sys.executable))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="newcomer-") as folder:
        home = Path(folder) / "home"
        home.mkdir()
        with EmbeddedMetastore(directory=Path(folder) / "existing") as metastore:
            newcomer = Newcomer(home, metastore.uri)
            go(newcomer, arguments.python, arguments.airflow)
    total = sum(seconds for _, seconds in newcomer.steps)
    print(f"{total:8.1f} s  in all")
    if arguments.json:
        arguments.json.write_text(json.dumps(dict(newcomer.steps), indent=2))


def go(newcomer: Newcomer, python: str, airflow: str) -> None:
    """All of it, step by step."""
    with newcomer.step("clone the repository"):
        newcomer.run("git", "clone", "--quiet", "--depth", "1", ROOT.as_uri(), newcomer.clone)
    with newcomer.step("make an environment, and install Airflow and the package with pip"):
        newcomer.run(python, "-m", "venv", newcomer.venv)
        pip = (newcomer.venv / "bin" / "python", "-m", "pip", "install", "--quiet")
        newcomer.run(*pip, f"apache-airflow=={airflow}", f"{newcomer.clone}[spark]")
    with newcomer.step("make Airflow's database"):
        settle(newcomer)
        newcomer.run("airflow", "db", "migrate")
    with newcomer.step("set the two connections, and ask the doctor"):
        newcomer.export(newcomer.snippet("console", "AIRFLOW_CONN_HIVE_ACID_DEFAULT"))
        newcomer.run("airflow", "hiveacid", "doctor", wanted="transactions")
    with newcomer.step("create a table by SQL"):
        (newcomer.home / "customers.sql").write_text(newcomer.snippet("sql", "CREATE TABLE"))
        newcomer.export(newcomer.snippet("console", "customers.sql"))
        newcomer.run("hiveacid", "sql", "--file", "customers.sql", wanted="country")
    with newcomer.step(
        "put the DAG of the guide where Airflow looks, and a feed where the DAG looks"
    ):
        dag = newcomer.snippet("python", "CronDataIntervalTimetable")
        (newcomer.home / "airflow" / "dags" / "customers.py").write_text(dag)
        write_feed(newcomer.feeds / "customers" / "2026-11-20T09")
        newcomer.run("airflow", "dags", "list-import-errors", wanted="No data found")
    with newcomer.step("the first merge"):
        (line,) = re.findall(r"\$ (airflow dags test .*)", newcomer.snippet("console", "dags test"))
        newcomer.run(*line.split(), wanted=f"{TABLE}: 2 inserted")
    with newcomer.step("look at the rows and at the history"):
        rows = newcomer.run("hiveacid", "sql", f"SELECT * FROM {TABLE} LIMIT 10", wanted="Emmy")
        assert "new@example.com" in rows
        assert "old@example.com" not in rows
        newcomer.run("hiveacid", "history", TABLE, wanted="merge")
    with newcomer.step("start Airflow, until its page shows the table with the merge"):
        see_the_page(newcomer)


def settle(newcomer: Newcomer) -> None:
    """Airflow's own settings: a folder of DAGs, ports that are free here, and no passwords."""
    (newcomer.home / "airflow" / "dags").mkdir(parents=True)
    port = free_port()
    settings: Mapping[str, object] = {
        "CORE__LOAD_EXAMPLES": False,
        "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": True,
        "CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "API__PORT": port,
        "API__BASE_URL": f"http://127.0.0.1:{port}",
        "LOGGING__WORKER_LOG_SERVER_PORT": free_port(),
        "LOGGING__TRIGGER_LOG_SERVER_PORT": free_port(),
    }
    newcomer.environment |= {f"AIRFLOW__{name}": str(value) for name, value in settings.items()}
    newcomer.environment["AIRFLOW_HOME"] = str(newcomer.home / "airflow")


def write_feed(hour: Path) -> None:
    hour.mkdir(parents=True)
    lines = [
        json.dumps(change | {"changed_at": f"2026-11-20T09:{minute:02}:00Z"})
        for minute, change in enumerate(CHANGES)
    ]
    (hour / "changes.json").write_text("\n".join(lines))


def see_the_page(newcomer: Newcomer) -> None:
    """Start Airflow, and request the content of the page."""
    url = newcomer.environment["AIRFLOW__API__BASE_URL"]
    log = newcomer.home / "airflow.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["airflow", "standalone"],
            env=newcomer.environment,
            cwd=newcomer.home,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_until(lambda: operations(url) == ["merge"], log)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def operations(url: str) -> Sequence[str] | None:
    """Return the operations on the table from the page; None without an answer."""
    try:
        token = ask(f"{url}/auth/token")["access_token"]
        history = ask(f"{url}/hiveacid/api/tables/{TABLE}/history", token)["entries"]
    except (OSError, KeyError):
        return None
    return [entry["operation"] for entry in history]


def ask(url: str, token: str = "") -> Any:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as answer:
        return json.load(answer)


def wait_until(holds: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + PAGE_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit(f"{log.read_text(errors='replace')[-4000:]}\nThe page shows nothing.")
        time.sleep(0.5)


if __name__ == "__main__":
    main()
