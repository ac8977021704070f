"""Airflow's own processes; a test can kill and restart each of them."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import psutil

from hiveacid.metastore.dev.embedded import free_port
from hiveacid.metastore.dev.loopback import HOST
from tests.live.airflow_api import AirflowApi, wait_until
from tests.live.process_group import ProcessGroup

COMMANDS = {
    "api-server": ("api-server",),
    "scheduler": ("scheduler",),
    "triggerer": ("triggerer",),
    "dag-processor": ("dag-processor",),
}
# As they call themselves in the answer on their health.
_HEARTBEATS = {"scheduler": "scheduler", "triggerer": "triggerer", "dag-processor": "dag_processor"}
START_SECONDS = 180
_SUPERVISOR = "airflow worker -- LocalExecutor: "
_RUNNER = "airflow worker -- "
# Small runs: thorough compiling of code that soon ends would take most of the time.
SPARK_DEFAULTS = """\
spark.driver.extraJavaOptions  -XX:TieredStopAtLevel=1
spark.sql.shuffle.partitions   1
spark.ui.enabled               false
spark.log.level                WARN
"""


@dataclass(frozen=True)
class TaskProcess:
    """A running task: its supervisor, the process of its code, and their children."""

    supervisor: int
    runner: int | None
    programs: tuple[int, ...]

    def kill_supervisor(self) -> None:
        """Kill the worker, and leave its children alone."""
        _kill(self.supervisor)

    def kill_runner(self) -> None:
        """The code of the task ends without a word; its supervisor sees that."""
        if self.runner is not None:
            _kill(self.runner)

    def kill_worker(self) -> None:
        """As if the worker had lost its power, but for the programs that it started."""
        self.kill_supervisor()
        self.kill_runner()

    def kill_programs(self) -> None:
        """Kill the programs of the task: spark-submit and, if it runs here, the driver."""
        for pid in self.programs:
            _kill(pid)


class AirflowProcesses:
    """An Airflow with a home of its own: api-server, scheduler, triggerer, dag-processor.

    Every process is the head of a session of its own. ``stop()`` leaves none of them, nor anything
    that their tasks have started.

    Args:
        home: A new folder.
        dags: The files of the DAGs, which are copied.
        connections: The arguments of ``Connection``, by connection id.
        database: The address of a database of PostgreSQL as ``Postgres.create_database`` returns
            it; SQLite when not given.
        parallelism: The number of concurrent tasks.
        environment: More variables, which win.
    """

    def __init__(
        self,
        home: Path,
        dags: Iterable[Path],
        *,
        connections: Mapping[str, Mapping[str, Any]] | None = None,
        database: str | None = None,
        parallelism: int = 3,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.home = home
        self.dags = home / "dags"
        self.dags.mkdir(parents=True)
        for file in dags:
            shutil.copy(file, self.dags)
        spark = home / "spark"
        spark.mkdir()
        (spark / "spark-defaults.conf").write_text(SPARK_DEFAULTS)
        self._port = free_port()
        self.api = AirflowApi(f"http://{HOST}:{self._port}")
        self.environment = self._environment(database, parallelism)
        for conn_id, connection in (connections or {}).items():
            self.environment[f"AIRFLOW_CONN_{conn_id.upper()}"] = json.dumps(dict(connection))
        self.environment |= environment or {}
        self._groups: dict[str, ProcessGroup] = {}
        self._sessions: set[int] = set()

    def __enter__(self) -> Self:
        try:
            self.cli("db", "migrate")
            for name in COMMANDS:
                self._launch(name)
            for name in COMMANDS:
                self._await(name)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, name: str) -> None:
        """Start one of the processes, and return when it works."""
        self._launch(name)
        self._await(name)

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Signal one of the processes and its children; with the scheduler, all workers go."""
        self._groups.pop(name).kill(number)

    def stop(self) -> None:
        """End everything at once, including other processes of this Airflow."""
        for name in list(self._groups):
            self.kill(name)
        wait_until("nothing of this Airflow runs", self._kill_the_rest, 60, every=0.1)

    def cli(self, *arguments: str) -> str:
        """Run a command of Airflow's command line; return its output."""
        ended = subprocess.run(
            [sys.executable, "-m", "airflow", *arguments],
            env=self.environment,
            cwd=self.home,
            capture_output=True,
            check=False,
            encoding="utf-8",
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    def log(self, name: str) -> str:
        """Return the log of one of the processes."""
        return (self.home / f"{name}.log").read_text(errors="replace")

    def task_log(self, dag_id: str, run_id: str, task_id: str) -> str:
        """Return the logs of all attempts of a task, including its triggers."""
        folder = self.home / "logs" / f"dag_id={dag_id}" / f"run_id={run_id}"
        files = sorted(folder.glob(f"task_id={task_id}/**/*.log*"))
        return "\n".join(file.read_text(errors="replace") for file in files)

    def wait_for_dags(self, *dag_ids: str, seconds: float = 120) -> None:
        """Wait until the DAGs can be run; an error in one of the files fails the test."""

        def are_there() -> bool:
            errors = self.api.get("/importErrors")["import_errors"]
            assert not errors, errors
            return all(self.api.get(f"/dags/{dag_id}") for dag_id in dag_ids)

        wait_until(f"{dag_ids} are there", are_there, seconds)

    def backfill(self, dag_id: str, first: str, last: str, *options: str) -> None:
        """Create a backfill from the command line, which does not wait for its runs."""
        before = len(self.api.backfills(dag_id))
        dates = ("--from-date", first, "--to-date", last)
        self.cli("backfill", "create", "--dag-id", dag_id, *dates, *options)
        assert len(self.api.backfills(dag_id)) == before + 1

    def backfill_is_over(self, dag_id: str) -> bool:
        """Return whether all runs of the last backfill have ended."""
        return self.api.backfills(dag_id)[-1]["completed_at"] is not None

    def task_processes(self) -> list[TaskProcess]:
        """The tasks at work on this Airflow, oldest first."""
        found = []
        for process in self._own_processes():
            with suppress(psutil.Error):
                title = _title(process)
                if not title.startswith(_SUPERVISOR) or title.endswith("<idle>"):
                    continue
                below = process.children(recursive=True)
                runners = [child.pid for child in below if _title(child).startswith(_RUNNER)]
                programs = [child.pid for child in below if child.pid not in runners]
                runner = runners[0] if runners else None
                # Supervisors live on from task to task.
                began = psutil.Process(runner or process.pid).create_time()
                found.append((began, TaskProcess(process.pid, runner, tuple(programs))))
        return [task for _, task in sorted(found, key=lambda each: each[0])]

    def _environment(self, database: str | None, parallelism: int) -> dict[str, str]:
        # The user's own Airflow and Spark are neither touched nor used.
        theirs = ("AIRFLOW_", "SPARK_", "PYSPARK_")
        own = {name: value for name, value in os.environ.items() if not name.startswith(theirs)}
        settings = {
            "CORE__DAGS_FOLDER": self.dags,
            "CORE__LOAD_EXAMPLES": False,
            "CORE__EXECUTOR": "LocalExecutor",
            "CORE__PARALLELISM": parallelism,
            "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": True,
            "CORE__EXECUTION_API_SERVER_URL": f"{self.api.url}/execution/",
            "API__HOST": HOST,
            "API__PORT": self._port,
            "API__BASE_URL": self.api.url,
            "API__WORKERS": 1,
            "DATABASE__LOAD_DEFAULT_CONNECTIONS": False,
            "DAG_PROCESSOR__REFRESH_INTERVAL": 5,
            "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": 60,
            "LOGGING__WORKER_LOG_SERVER_PORT": free_port(),
            "LOGGING__TRIGGER_LOG_SERVER_PORT": free_port(),
            # The death of a worker is noticed in half a minute instead of five.
            "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": 20,
            "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": 2,
            "SCHEDULER__SCHEDULER_HEARTBEAT_SEC": 1,
            "TRIGGERER__JOB_HEARTBEAT_SEC": 2,
            "TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": 10,
            "USAGE_DATA_COLLECTION__ENABLED": False,
        }
        if database is not None:
            settings["DATABASE__SQL_ALCHEMY_CONN"] = f"postgresql+psycopg2:{database}"
        return (
            own
            | {f"AIRFLOW__{name}": str(value) for name, value in settings.items()}
            | {
                "AIRFLOW_HOME": str(self.home),
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_CONF_DIR": str(self.home / "spark"),
                "SPARK_LOCAL_IP": HOST,
                "TZ": "UTC",
            }
        )

    def _launch(self, name: str) -> None:
        group = ProcessGroup(
            [sys.executable, "-m", "airflow", *COMMANDS[name]],
            log=self.home / f"{name}.log",
            environment=self.environment,
            directory=self.home,
        )
        self._groups[name] = group
        self._sessions.add(group.pid)

    def _await(self, name: str) -> None:
        started = psutil.Process(self._groups[name].pid).create_time()

        def works() -> bool:
            assert not self._groups[name].ended, self._groups[name].tail()
            health = self.api.health()
            if health is None or name == "api-server":
                return health is not None
            component = health[_HEARTBEATS[name]]
            last = component[f"latest_{_HEARTBEATS[name]}_heartbeat"]
            return (
                component["status"] == "healthy"
                and last is not None
                and datetime.fromisoformat(last) > datetime.fromtimestamp(started, UTC)
            )

        try:
            wait_until(f"{name} works", works, START_SECONDS)
        except AssertionError as error:
            error.add_note(self._groups[name].tail())
            raise

    def _own_processes(self) -> list[psutil.Process]:
        """Those in our sessions, and those in sessions of their own that a task has started."""
        marks = {"AIRFLOW_HOME": str(self.home)}.items()
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                of_session = os.getsid(process.pid) in self._sessions
                if of_session or marks <= process.environ().items():
                    found.append(process)
        return found

    def _kill_the_rest(self) -> bool:
        """Kill the remaining processes; return whether none existed."""
        rest = [process for process in self._own_processes() if not _has_ended(process)]
        for process in rest:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        return not rest


def _has_ended(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _title(process: psutil.Process) -> str:
    return " ".join(process.cmdline()).strip("\0 ")


def _kill(pid: int) -> None:
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        process.kill()
        wait_until(f"{pid} has ended", lambda: _has_ended(process), 30, every=0.02)
