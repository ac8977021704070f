"""An Airflow of its own on this machine: its settings, its commands and its processes."""

import fcntl
import json
import os
import secrets
import shutil
import signal
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hiveacid.errors import JobFailed, UserError
from hiveacid.foreign.text import parse_json
from hiveacid.metastore.dev.embedded import GuardedProcess, free_port
from hiveacid.metastore.dev.loopback import HOST, require_loopback

# A folder that is ours, so that it may be emptied


_OWN = "_hiveacid_demo"


@contextmanager
def own_folder(folder: Path, *, fresh: bool) -> Iterator[None]:
    """Hold a folder that no other process uses, and that contains only our own files.

    Args:
        folder: The folder; it is created if it is missing.
        fresh: Whether to empty it first.

    Raises:
        UserError: The folder contains other files, or is in use.
    """
    mark = folder / _OWN
    if folder.exists() and not mark.exists() and any(folder.iterdir()):
        raise UserError(
            f"{folder} contains other files, which may be lost.",
            remedy="Name a folder that is empty or not there yet.",
        )
    folder.mkdir(parents=True, exist_ok=True)
    with mark.open("a") as lock:
        try:
            # The kernel gives it back when we end, however that happens.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"Another process already works in {folder}.",
                remedy="End that, or name another folder.",
            ) from None
        if fresh:
            for entry in folder.iterdir():
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry)
                elif entry != mark:
                    entry.unlink()
        yield


# Programs that show their progress to a waiting user


_LOOK_SECONDS, _DOT_SECONDS = 0.2, 2.0


def run_program(
    title: str, command: Sequence[str], *, environment: Mapping[str, str], log: Path
) -> str:
    """Run a program to its end, with its output in a log; an interrupted wait ends it, too.

    Args:
        title: The printed title.
        command: The words of the program.
        environment: Its variables.
        log: The file to which the output is appended.

    Returns:
        The output of the program.

    Raises:
        JobFailed: The program ended with an error.
    """
    offset = log.stat().st_size if log.exists() else 0
    program = GuardedProcess(command, log=log, environment=environment, directory=Path.cwd())
    try:
        wait_for(title, lambda: program.status is not None)
        if program.status:
            raise JobFailed(
                f"{title} ended with exit status {program.status}:\n{program.tail()}",
                remedy=f"All of it is in {log}.",
            )
    finally:
        program.kill()
    return log.read_bytes()[offset:].decode(errors="replace")


def wait_for(title: str, is_done: Callable[[], bool]) -> None:
    """Wait until something is done, with a dot every two seconds, and print how long that took."""
    start = dotted = time.monotonic()
    print(f"   {title} ", end="", flush=True)
    try:
        while not is_done():
            time.sleep(_LOOK_SECONDS)
            if time.monotonic() - dotted >= _DOT_SECONDS:
                dotted += _DOT_SECONDS
                print(".", end="", flush=True)
    finally:
        print(f" {time.monotonic() - start:.0f} s", flush=True)


_START_SECONDS = 600
_PORT = 8080
_USER = "admin"
# The server ends last: the other processes still report to it.
_WORKERS = ("scheduler", "triggerer", "dag-processor")
_SERVER = "api-server"
# Servers of logs listen on all addresses. The API server finds all logs in files.
_ARGUMENTS = {"scheduler": ["--skip-serve-logs"], "triggerer": ["--skip-serve-logs"]}
_SOFT_SECONDS, _HARD_SECONDS = 20, 20
# This variable identifies all processes that run for an Airflow of ours.
_MARK = "HIVEACID_DEMO"
# Small runs: Spark's 200 tasks per shuffle, and the optimization of short-lived code, would take
# most of the time. Not in a file: Java creates no archive of classes with a file on its path.
_SPARK_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -Dspark.sql.shuffle.partitions=2 -Dspark.ui.enabled=false"
    " -Dspark.log.level=WARN"
)


class LocalAirflow:
    """An Airflow whose home, database and logs are in one folder.

    The user's own Airflow and Spark are not touched or used.

    Attributes:
        url: The address of its page, once started.
        environment: The variables of its processes.
    """

    def __init__(
        self,
        folder: Path,
        *,
        dags: Path,
        metastore_uri: str,
        master: str,
        port: int | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        """Describe it; nothing runs before start().

        Args:
            folder: Takes all that it stores.
            dags: The folder of its DAGs.
            metastore_uri: Where the connection hive_acid_default leads.
            master: Where Spark runs.
            port: Where it listens on this machine; when not given 8080, or another one that is free.
            settings: More of Airflow's settings, like {"CORE__PARALLELISM": 2}.
        """
        self._home = folder / "airflow"
        self._home.mkdir(exist_ok=True)
        self._log = folder / "airflow.log"
        self._port = port or free_port(_PORT)
        self.url = f"http://{HOST}:{self._port}"
        self._passwords = self._home / "passwords.json"
        self._processes: dict[str, GuardedProcess] = {}
        self._sessions: set[int] = set()
        self.environment = self._environment(folder / "spark", dags, settings or {})
        host, metastore_port = metastore_uri.removeprefix("thrift://").split(":")
        for conn_id, connection in (
            (
                "HIVE_ACID_DEFAULT",
                {"conn_type": "hive_acid_metastore", "host": host, "port": int(metastore_port)},
            ),
            ("SPARK_DEFAULT", {"conn_type": "spark", "host": master}),
        ):
            self.environment[f"AIRFLOW_CONN_{conn_id}"] = json.dumps(connection)

    @property
    def login(self) -> str:
        """The user's name and password."""
        return f"{_USER}, password {parse_json(self._passwords.read_text())[_USER]}"

    def run(self, *command: str) -> str:
        """Run a command of Airflow and return its output.

        Raises:
            JobFailed: The command ended with an error.
        """
        words = [sys.executable, "-m", "airflow", *command]
        title = " ".join(["airflow", *command[:3]])
        return run_program(title, words, environment=self.environment, log=self._log)

    def start(self) -> None:
        """Start all of its processes and return when they work; its database has to be there.

        Raises:
            JobFailed: One of them has ended, did not begin to work in time, or answers at other
                addresses of this machine.
        """
        # An earlier start that was killed may have left tasks at work.
        _wait(self._kill_remaining, _HARD_SECONDS)
        # A task that begins before the server answers has failed.
        self._start([_SERVER])
        require_loopback(self._port, "Airflow")
        self._start(_WORKERS)

    def require_all(self) -> None:
        """See to it that all processes still run.

        Raises:
            JobFailed: One has ended.
        """
        for name, process in self._processes.items():
            if process.status is not None:
                raise JobFailed(
                    f"airflow {name} ended with status {process.status}:\n{process.tail()}",
                    remedy=f"All of it is in {process.log}.",
                )

    def stop(self) -> None:
        """End its processes, its tasks, and their child processes."""
        self._end(_WORKERS)
        self._end([_SERVER])
        # A task is not a member of its supervisor's process group.
        _wait(self._kill_remaining, _HARD_SECONDS)

    def _environment(
        self, spark: Path, dags: Path, variables: Mapping[str, object]
    ) -> dict[str, str]:
        # A folder without the user's Spark settings.
        spark.mkdir(exist_ok=True)
        if not self._passwords.exists():
            self._passwords.touch(mode=0o600)
            self._passwords.write_text(json.dumps({_USER: secrets.token_urlsafe(9)}))
        settings: dict[str, object] = {
            "API__BASE_URL": self.url,
            "API__HOST": HOST,
            "API__PORT": self._port,
            "API__WORKERS": 1,
            "CORE__DAGS_FOLDER": dags,
            "CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "CORE__EXECUTOR": "LocalExecutor",
            "CORE__LOAD_EXAMPLES": False,
            # One after the other: each has a Spark of its own.
            "CORE__PARALLELISM": 1,
            "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": self._passwords,
            "CORE__SIMPLE_AUTH_MANAGER_USERS": f"{_USER}:admin",
            "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": 120,
            "DAG_PROCESSOR__PARSING_PROCESSES": 1,
            "DATABASE__LOAD_DEFAULT_CONNECTIONS": False,
            "LOGGING__TRIGGER_LOG_SERVER_PORT": free_port(),
            "LOGGING__WORKER_LOG_SERVER_PORT": free_port(),
            # Tasks killed with an earlier start are detected in less than five minutes.
            "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": 120,
            "USAGE_DATA_COLLECTION__ENABLED": False,
            # The five seconds of the default are too few where all cores are busy.
            "WORKERS__EXECUTION_API_TIMEOUT": 60,
            **variables,
        }
        theirs = ("AIRFLOW_", "SPARK_", "PYSPARK_")
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(theirs)
        }
        return (
            environment
            | {f"AIRFLOW__{name}": str(value) for name, value in settings.items()}
            | {
                "AIRFLOW_HOME": str(self._home),
                _MARK: str(self._home),
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_CONF_DIR": str(spark),
                "SPARK_SUBMIT_OPTS": _SPARK_OPTIONS,
                "SPARK_LOCAL_IP": HOST,
                "TZ": "UTC",
            }
        )

    def _start(self, names: Sequence[str]) -> None:
        start = datetime.now(UTC)
        for name in names:
            log = self._home / f"{name}.log"
            log.unlink(missing_ok=True)
            self._processes[name] = GuardedProcess(
                [sys.executable, "-m", "airflow", name, *_ARGUMENTS.get(name, ())],
                log=log,
                environment=self.environment,
                directory=self._home,
            )
            self._sessions.add(self._processes[name].pid)
        wait_for(f"airflow {' '.join(names)}", lambda: self._work(names, start))

    def _end(self, names: Sequence[str]) -> None:
        ending = [self._processes.pop(name) for name in names if name in self._processes]
        for process in ending:
            process.signal(signal.SIGTERM)
        _wait(lambda: all(process.status is not None for process in ending), _SOFT_SECONDS)
        for process in ending:
            process.kill()

    def _work(self, names: Sequence[str], start: datetime) -> bool:
        """Whether these processes have sent a heartbeat since a time."""
        self.require_all()
        if (datetime.now(UTC) - start).total_seconds() > _START_SECONDS:
            raise JobFailed(
                f"Airflow did not begin to work within {_START_SECONDS} seconds.",
                remedy=f"See the logs in {self._home}.",
            )
        try:
            url = f"{self.url}/api/v2/monitor/health"
            with urllib.request.urlopen(url, timeout=10) as answer:
                health: dict[str, Any] = parse_json(answer.read())
        except OSError:
            return False
        for name in {*names} - {_SERVER}:
            key = name.replace("-", "_")
            last = (health.get(key) or {}).get(f"latest_{key}_heartbeat")
            if last is None or datetime.fromisoformat(last) < start:
                return False
        return True

    def _kill_remaining(self) -> bool:
        """Kill the remaining processes of this Airflow, and return whether none existed."""
        import psutil

        processes = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                # A process that gives itself a title loses its environment, and Spark has a session of its own.
                ours = os.getsid(process.pid) in self._sessions or (
                    process.environ().get(_MARK) == str(self._home)
                )
                if ours and process.status() != psutil.STATUS_ZOMBIE:
                    processes.append(process)
                    process.kill()
        return not processes


def _wait(holds: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.1)
