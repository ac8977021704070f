"""Clusters of Spark on this machine whose masters, workers and executors are processes."""

import json
import os
import sys
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from hiveacid.metastore.dev.distribution import find_java
from hiveacid.metastore.dev.embedded import HOST, free_port
from tests.live.airflow_api import wait_until
from tests.live.process_group import ProcessGroup
from tests.live.yarn import Yarn, spark_home

START_SECONDS = 600
WORKERS = 4
MEMORY_MB = 512


class SparkCluster(ABC):
    """A running cluster for drivers in client mode.

    Attributes:
        settings: The settings of a driver's session.
        environment: The additional variables of a driver.
    """

    def __init__(self, settings: dict[str, str], environment: dict[str, str]) -> None:
        self.settings = {
            "spark.driver.bindAddress": HOST,
            "spark.driver.host": HOST,
            "spark.executor.cores": "1",
            "spark.executor.memory": f"{MEMORY_MB}m",
            "spark.ui.enabled": "false",
        } | settings
        self.environment = {"SPARK_LOCAL_IP": HOST} | environment

    @property
    @abstractmethod
    def parents(self) -> list[int]:
        """The processes whose descendants are the executors."""


class StandaloneCluster(SparkCluster):
    """A master, and workers with one core each."""

    def __init__(self, master: str, workers: list[ProcessGroup]) -> None:
        super().__init__({"spark.master": master}, {})
        self._workers = workers

    @property
    def parents(self) -> list[int]:
        """See the base class."""
        # Below the process that starts and guards a worker is the worker itself.
        return [child for worker in self._workers for child in javas_of(worker.pid)]


class YarnCluster(SparkCluster):
    """One ResourceManager, and one NodeManager with cores for all executors."""

    def __init__(self, yarn: Yarn) -> None:
        # The driver is Java with its usual options, as on the other cluster.
        settings = {k: v for k, v in yarn.spark_conf.items() if "extraJavaOptions" not in k}
        size = {"spark.master": "yarn", "spark.executor.instances": str(WORKERS)}
        size |= {"spark.executor.memory": f"{MEMORY_MB}m", "spark.yarn.am.memory": f"{MEMORY_MB}m"}
        super().__init__(settings | size, yarn.environment | {"SPARK_HOME": str(spark_home())})
        self._node = yarn.pid_of("nodemanager")

    @property
    def parents(self) -> list[int]:
        """See the base class."""
        return javas_of(self._node)


@contextmanager
def running_cluster(master: str, folder: Path) -> Iterator[SparkCluster]:
    """Run a cluster; `master` is `standalone` or `yarn`."""
    folder.mkdir(parents=True)
    if master == "yarn":
        with Yarn(folder) as yarn:
            yield YarnCluster(yarn)
        return
    processes: list[ProcessGroup] = []
    try:
        yield _standalone(folder, processes)
    finally:
        for process in reversed(processes):
            process.kill()


def _standalone(folder: Path, processes: list[ProcessGroup]) -> StandaloneCluster:
    port, page = free_port(), free_port()
    url = f"spark://{HOST}:{port}"

    def start(name: str, *arguments: str) -> ProcessGroup:
        classes = f"{spark_home() / 'jars'}/*"
        main = f"org.apache.spark.deploy.{name}"
        process = ProcessGroup(
            [
                *(find_java(), *_OPENED, "-Xmx128m", "-XX:+UseSerialGC"),
                *("-XX:TieredStopAtLevel=1", "-cp", classes, main, "--host", HOST, *arguments),
            ],
            log=folder / f"{name.rpartition('.')[2]}{len(processes)}.log",
            environment=os.environ
            | {"SPARK_HOME": str(spark_home()), "SPARK_LOCAL_IP": HOST, "TZ": "UTC"}
            # As set by the scripts of Spark, which also start workers.
            | {"PYSPARK_PYTHON": sys.executable, "SPARK_SCALA_VERSION": "2.13"},
        )
        processes.append(process)
        return process

    start("master.Master", "--port", str(port), "--webui-port", str(page))
    workers = [
        start(
            *("worker.Worker", "--cores", "1", "--memory", f"{MEMORY_MB}m", "--webui-port", "0"),
            *("--work-dir", str(folder / f"work{number}"), url),
        )
        for number in range(WORKERS)
    ]

    def all_registered() -> bool:
        for process in processes:
            assert not process.ended, process.log.read_text()
        with suppress(OSError), urllib.request.urlopen(f"http://{HOST}:{page}/json/") as answer:
            return int(json.load(answer)["aliveworkers"]) == WORKERS
        return False

    wait_until("the master has its workers", all_registered, START_SECONDS, every=0.2)
    return StandaloneCluster(url, workers)


# Spark's own scripts pass the same options to Java 17.
_OPENED = [
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
]


def javas_of(pid: int) -> list[int]:
    """The processes of Java among a process and its children."""
    process = psutil.Process(pid)
    return [each.pid for each in (process, *process.children()) if each.name() == "java"]
