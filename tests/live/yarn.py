"""A real YARN on this machine: one ResourceManager and one NodeManager, whose files lie anywhere.

Hadoop's own jars are fetched once into the cache, by Maven coordinates.
"""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from airflow_hiveacid.metastore.dev.distribution import cache_folder, find_java, spark_jars
from airflow_hiveacid.metastore.dev.embedded import HOST, free_port
from tests.live.airflow_api import wait_until
from tests.live.process_group import ProcessGroup

VERSION = "3.4.2"
START_SECONDS = 90
STOP_SECONDS = 20
_SMALL_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

_RESOURCE_MANAGER = "org.apache.hadoop.yarn.server.resourcemanager"
_MAINS = {
    "resourcemanager": f"{_RESOURCE_MANAGER}.ResourceManager",
    "nodemanager": "org.apache.hadoop.yarn.server.nodemanager.NodeManager",
}


class Yarn:
    """A ResourceManager that remembers its applications, and a NodeManager.

    Attributes:
        directory: Keeps everything that they store.
        address: Where the ResourceManager's REST API answers.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        self._ports = {
            name: free_port()
            for name in (
                *("address", "scheduler", "tracker", "admin", "webapp"),
                *("node", "localizer", "node_webapp", "collector"),
            )
        }
        self.address = f"http://{HOST}:{self._ports['webapp']}"
        self._daemons: dict[str, ProcessGroup] = {}

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def environment(self) -> dict[str, str]:
        """What spark-submit needs in its environment to find this YARN."""
        return {"HADOOP_CONF_DIR": str(self.directory / "conf"), "SPARK_LOCAL_IP": HOST}

    @property
    def connection(self) -> dict[str, Any]:
        """An Airflow connection for applications with their drivers in this YARN."""
        extra = {"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": self.address}
        return {"conn_type": "spark", "host": "yarn", "extra": extra}

    @property
    def spark_conf(self) -> dict[str, str]:
        """Spark settings for small applications whose drivers and executors are our Python's."""
        home = spark_home()
        variables = {"JAVA_HOME": str(Path(find_java()).resolve().parents[1])}
        variables |= {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": HOST}
        conf = {
            "spark.yarn.jars": f"local:{home / 'jars'}/*",
            "spark.yarn.stagingDir": (self.directory / "staging").as_uri(),
            "spark.yarn.scheduler.heartbeat.interval-ms": "200",
            "spark.pyspark.python": sys.executable,
            # Compiling thoroughly what soon ends would take most of the time.
            "spark.driver.extraJavaOptions": _SMALL_JAVA,
            "spark.executor.extraJavaOptions": _SMALL_JAVA,
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.executor.instances": "1",
            "spark.executor.cores": "1",
            "spark.sql.shuffle.partitions": "1",
            "spark.ui.enabled": "false",
        }
        for name, value in variables.items():
            conf[f"spark.yarn.appMasterEnv.{name}"] = value
            conf[f"spark.executorEnv.{name}"] = value
        return conf

    def start(self) -> None:
        """Start both and return when applications can run."""
        self._configure()
        self.start_daemon("resourcemanager")
        self.start_daemon("nodemanager")
        self.wait_for_nodes()

    def start_daemon(self, name: str) -> None:
        """Start ``resourcemanager`` or ``nodemanager``, without waiting for it."""
        command = [
            *(find_java(), "--add-opens=java.base/java.lang=ALL-UNNAMED", "-Xmx256m"),
            *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
            *("-cp", f"{self.directory / 'conf'}{os.pathsep}{_libraries()}/*", _MAINS[name]),
        ]
        log = self.directory / f"{name}.log"
        self._daemons[name] = ProcessGroup(command, log=log, environment=os.environ)

    def kill_daemon(self, name: str) -> None:
        """Kill a daemon at once, as if its machine had failed. Containers go on."""
        self._daemons.pop(name).kill()

    def stop(self) -> None:
        """End both and every container."""
        for name in list(self._daemons):
            self.kill_daemon(name)
        wait_until("all containers have ended", self._kill_containers, STOP_SECONDS, every=0.05)

    def wait_for_nodes(self) -> None:
        """Return when the ResourceManager answers and has its node."""

        def has_node() -> bool:
            for name, daemon in self._daemons.items():
                assert not daemon.ended, f"{name} has ended:\n{daemon.tail()}"
            with contextlib.suppress(OSError):
                return bool(self._metrics()["activeNodes"] == 1)
            return False

        wait_until("YARN has a node", has_node, START_SECONDS, every=0.1)

    def _metrics(self) -> dict[str, Any]:
        url = f"{self.address}/ws/v1/cluster/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            metrics: dict[str, Any] = json.load(answer)["clusterMetrics"]
        return metrics

    def _kill_containers(self) -> bool:
        """Kill what there is; whether there was nothing any more."""
        # Each container is a session of its own, with a folder of ours in its command line.
        mark, alive = str(self.directory / "local").encode(), False
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (process / "cmdline").read_bytes():
                    alive = True
                    os.kill(int(process.name), signal.SIGKILL)
        return not alive

    def _configure(self) -> None:
        conf = self.directory / "conf"
        conf.mkdir(parents=True, exist_ok=True)
        ports = {name: f"{HOST}:{port}" for name, port in self._ports.items()}
        _write_site(
            conf / "core-site.xml",
            {"fs.defaultFS": "file:///", "hadoop.tmp.dir": str(self.directory / "tmp")},
        )
        _write_site(
            conf / "yarn-site.xml",
            {
                "yarn.resourcemanager.hostname": HOST,
                "yarn.resourcemanager.address": ports["address"],
                "yarn.resourcemanager.scheduler.address": ports["scheduler"],
                "yarn.resourcemanager.resource-tracker.address": ports["tracker"],
                "yarn.resourcemanager.admin.address": ports["admin"],
                "yarn.resourcemanager.webapp.address": ports["webapp"],
                "yarn.resourcemanager.scheduler.class": (
                    f"{_RESOURCE_MANAGER}.scheduler.fifo.FifoScheduler"
                ),
                "yarn.resourcemanager.recovery.enabled": "true",
                "yarn.resourcemanager.store.class": (
                    f"{_RESOURCE_MANAGER}.recovery.FileSystemRMStateStore"
                ),
                "yarn.resourcemanager.fs.state-store.uri": (self.directory / "state").as_uri(),
                "yarn.resourcemanager.connect.retry-interval.ms": "500",
                "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "100",
                "yarn.nodemanager.hostname": HOST,
                "yarn.nodemanager.bind-host": HOST,
                "yarn.nodemanager.address": ports["node"],
                "yarn.nodemanager.localizer.address": ports["localizer"],
                "yarn.nodemanager.webapp.address": ports["node_webapp"],
                "yarn.nodemanager.collector-service.address": ports["collector"],
                "yarn.nodemanager.local-dirs": str(self.directory / "local"),
                "yarn.nodemanager.log-dirs": str(self.directory / "logs"),
                "yarn.nodemanager.resource.memory-mb": "8192",
                "yarn.nodemanager.resource.cpu-vcores": "8",
                "yarn.nodemanager.vmem-check-enabled": "false",
                "yarn.nodemanager.pmem-check-enabled": "false",
                "yarn.nodemanager.disk-health-checker"
                ".max-disk-utilization-per-disk-percentage": "99.5",
                "yarn.scheduler.minimum-allocation-mb": "128",
            },
        )
        (conf / "log4j.properties").write_text(
            "log4j.rootLogger=WARN,console\n"
            "log4j.appender.console=org.apache.log4j.ConsoleAppender\n"
            "log4j.appender.console.layout=org.apache.log4j.PatternLayout\n"
            "log4j.appender.console.layout.ConversionPattern=%d %p %c: %m%n\n"
        )


def spark_home() -> Path:
    """The Spark that the package pyspark brings."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def _write_site(path: Path, settings: dict[str, str]) -> None:
    properties = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>\n"
        for name, value in settings.items()
    )
    path.write_text(f"<configuration>\n{properties}</configuration>\n")


def _libraries() -> Path:
    """The folder of Hadoop's jars, fetched if need be: it is complete or absent."""
    cache = cache_folder()
    home = cache / f"yarn-{VERSION}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"yarn-{VERSION}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.exists():
            print(f"Fetching YARN {VERSION} (about 60 MB, once) ...", flush=True)
            with tempfile.TemporaryDirectory(prefix=f"yarn-{VERSION}.", dir=cache) as scratch:
                _fetch(Path(scratch))
                shutil.move(Path(scratch, "lib"), home)
    return home


def _fetch(scratch: Path) -> None:
    settings = os.environ.get("HIVEACID_IVY_SETTINGS")
    command = [
        *(find_java(), f"-Divy.home={scratch / 'ivy'}", f"-Djava.io.tmpdir={scratch}"),
        *("-jar", str(spark_jars("ivy")[0])),
        *(["-settings", settings] if settings else []),
        *("-ivy", str(Path(__file__).with_name("yarn-ivy.xml"))),
        *("-retrieve", f"{scratch}/lib/[artifact]-[revision].[ext]"),
    ]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise RuntimeError(f"YARN could not be fetched:\n{answer.stdout[-3000:]}")
