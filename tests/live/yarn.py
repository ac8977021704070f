"""A real YARN on this machine: one ResourceManager and one NodeManager, whose files lie anywhere."""

import contextlib
import json
import os
import signal
import socket
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from hiveacid.metastore.dev.distribution import find_java
from hiveacid.metastore.dev.embedded import free_port
from hiveacid.metastore.dev.loopback import HOST
from tests.hadoop.daemons import START_SECONDS, Daemons
from tests.hadoop.software import write_configuration
from tests.live.airflow_api import wait_until

STOP_SECONDS = 20
_SMALL_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

_RESOURCE_MANAGER = "org.apache.hadoop.yarn.server.resourcemanager"


class Yarn(Daemons):
    """A ResourceManager that remembers its applications, and a NodeManager.

    Attributes:
        address: The address of the ResourceManager's REST API.
    """

    mains: ClassVar[Mapping[str, str]] = {
        "resourcemanager": f"{_RESOURCE_MANAGER}.ResourceManager",
        "nodemanager": "org.apache.hadoop.yarn.server.nodemanager.NodeManager",
    }

    def __init__(
        self,
        directory: Path,
        *,
        sites: Mapping[str, Mapping[str, str]] | None = None,
        java_options: Sequence[str] = (),
    ) -> None:
        """Describe a YARN; nothing runs before start().

        Args:
            directory: Keeps everything that it stores.
            sites: Further settings by file, like those of Kerberos, or of an HDFS as its file system.
            java_options: Further options for Java, also for that of the applications.
        """
        super().__init__(directory, java_options)
        self._sites = sites or {}
        self._ports = {
            name: free_port()
            for name in (
                *("address", "scheduler", "tracker", "admin", "webapp"),
                *("node", "localizer", "node_webapp", "collector"),
            )
        }
        self.address = f"http://{HOST}:{self._ports['webapp']}"

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of spark-submit for this YARN."""
        return {"HADOOP_CONF_DIR": str(self.conf), "SPARK_LOCAL_IP": HOST}

    @property
    def hosts(self) -> list[str]:
        """Return the names of the NodeManager's host, which depend on this machine."""
        return [HOST, socket.getfqdn(HOST)]

    @property
    def connection(self) -> dict[str, Any]:
        """An Airflow connection for applications with their drivers in this YARN."""
        extra = {
            "deploy-mode": "cluster",
            "yarn_resourcemanager_webapp_address": self.address,
            "yarn_hosts": ",".join(self.hosts),
        }
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
            # Thorough compilation of short-lived programs would take most of the time.
            "spark.driver.extraJavaOptions": " ".join((_SMALL_JAVA, *self._java_options)),
            "spark.executor.extraJavaOptions": " ".join((_SMALL_JAVA, *self._java_options)),
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
        for name in self.mains:
            self.start_daemon(name)
        self.wait_for_nodes()

    def stop(self) -> None:
        """End both and every container."""
        super().stop()
        wait_until("all containers have ended", self._kill_containers, STOP_SECONDS, every=0.05)

    def wait_for_nodes(self) -> None:
        """Return when the ResourceManager answers and has its node."""

        def has_node() -> bool:
            self._require_running()
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
        """Kill the remaining processes; return whether none existed."""
        # Each container is a session of its own, with a folder of ours in its command line.
        mark, alive = str(self.directory / "local").encode(), False
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (process / "cmdline").read_bytes():
                    alive = True
                    os.kill(int(process.name), signal.SIGKILL)
        return not alive

    def _configure(self) -> None:
        ports = {name: f"{HOST}:{port}" for name, port in self._ports.items()}
        core = {"fs.defaultFS": "file:///", "hadoop.tmp.dir": str(self.directory / "tmp")}
        yarn = {
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
            "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.5",
            "yarn.scheduler.minimum-allocation-mb": "128",
        }
        sites = {"core-site.xml": core, "yarn-site.xml": yarn}
        for name, settings in self._sites.items():
            sites[name] = {**sites.get(name, {}), **settings}
        write_configuration(self.conf, sites)


def spark_home() -> Path:
    """The Spark that the package pyspark brings."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent
