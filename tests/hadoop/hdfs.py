"""A real HDFS on this machine: one NameNode and one DataNode."""

import contextlib
import getpass
import json
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from urllib.parse import quote, urlencode

import pytest

from hiveacid.metastore.dev.embedded import free_port
from hiveacid.metastore.dev.loopback import HOST
from tests.hadoop.daemons import START_SECONDS, Daemons
from tests.hadoop.software import write_configuration
from tests.live.airflow_api import wait_until

AnHdfs = TypeVar("AnHdfs", bound="Hdfs")

# Else Hadoop's own client gives up on a NameNode after ten seconds.
RETRIES = {
    "dfs.client.retry.policy.enabled": "true",
    "dfs.client.retry.policy.spec": "500,600",
}
SERVER = "org.apache.hadoop.hdfs.server"


class Hdfs(Daemons):
    """A NameNode and a DataNode, whose files go with their folder.

    The user of this process is HDFS's superuser; HADOOP_USER_NAME determines other users.

    Attributes:
        uri: The file system's own location.
        active: The NameNode that answers.
    """

    active = "namenode"
    mains: ClassVar[Mapping[str, str]] = {
        "namenode": f"{SERVER}.namenode.NameNode",
        "datanode": f"{SERVER}.datanode.DataNode",
    }

    def __init__(
        self,
        directory: Path,
        *,
        host: str = HOST,
        core: Mapping[str, str] | None = None,
        hdfs: Mapping[str, str] | None = None,
        java_options: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Describe an HDFS; nothing runs before start().

        Args:
            directory: Keeps everything that it stores.
            host: The name of this machine in the location.
            core: Further settings of core-site.xml, like those of Kerberos.
            hdfs: Further settings of hdfs-site.xml.
            java_options: Further options for Java.
            environment: Further variables for the servers.
        """
        super().__init__(directory, java_options, environment)
        self._further = {"core-site.xml": core or {}, "hdfs-site.xml": hdfs or {}}
        self._ports = {
            f"{main}{use}": free_port() for main in self.mains for use in ("", "_http", "_ipc")
        }
        self.uri = f"hdfs://{host}:{self._ports.get('namenode')}"

    def start(self) -> None:
        """Start all, with an empty file system at first, and return when files can be written."""
        self._configure()
        if not (self.directory / self.active).exists():
            self._format()
        self.revive()

    def ask(self, operation: str, path: str, **parameters: str | int) -> None:
        """Have a path changed by HDFS's superuser: ``SETQUOTA``, ``CREATESNAPSHOT``, ...

        Args:
            operation: One of WebHDFS's that are asked for by PUT.
            path: The path.
            **parameters: The operation's own.
        """
        query = urlencode({"op": operation, "user.name": getpass.getuser(), **parameters})
        port = self._ports[f"{self.active}_http"]
        url = f"http://{HOST}:{port}/webhdfs/v1{quote(path)}?{query}"
        with urllib.request.urlopen(urllib.request.Request(url, method="PUT"), timeout=60):
            pass

    def checksum(self, path: str) -> str:
        """Return HDFS's checksum of a file, in hexadecimal digits."""
        query = urlencode({"op": "GETFILECHECKSUM", "user.name": getpass.getuser()})
        port = self._ports[f"{self.active}_http"]
        url = f"http://{HOST}:{port}/webhdfs/v1{quote(path)}?{query}"
        with urllib.request.urlopen(url, timeout=60) as answer:
            return str(json.load(answer)["FileChecksum"]["bytes"])

    def pid(self, name: str) -> int:
        """The process id of a daemon, which is that of its group as well."""
        return self._daemons[name].pid

    def has_ended(self, name: str) -> bool:
        """Return whether another process has ended a started daemon."""
        return self._daemons[name].ended

    def revive(self) -> None:
        """Start ended daemons, and return when files can be written."""
        for name in self.mains:
            if name not in self._daemons or self._daemons[name].ended:
                self.start_daemon(name)
        self.wait_until_usable()

    def restart_namenode(self) -> None:
        """Kill the NameNode and start it again; it is not waited for."""
        self.kill_daemon(self.active)
        self.start_daemon(self.active)

    def wait_until_usable(self) -> None:
        """Return when files can be written."""
        self.wait_for_namenode(self.active)

    def wait_for_namenode(self, namenode: str) -> None:
        """Return when a NameNode has its DataNode and has left safe mode."""

        def usable() -> bool:
            self._require_running()
            state = self._bean("FSNamesystemState", namenode)
            return state.get("NumLiveDataNodes") == 1 and state["FSState"] == "Operational"

        wait_until(f"{namenode} takes files", usable, START_SECONDS, every=0.1)

    def calls(self, method: str) -> int:
        """Return the number of calls of the NameNode since its start.

        Args:
            method: Its name, like RenewDelegationToken.
        """
        port = self._ports[self.active]
        return int(self._bean(f"RpcDetailedActivityForPort{port}").get(f"{method}NumOps", 0))

    @property
    def client_settings(self) -> dict[str, str]:
        """Return the settings of a client, for any file."""
        return {"fs.defaultFS": self.uri, **RETRIES}

    def _bean(self, name: str, namenode: str = "") -> dict[str, Any]:
        """Return the NameNode's metrics: nothing without an answer."""
        query = f"jmx?qry=Hadoop:service=NameNode,name={name}"
        url = f"http://{HOST}:{self._ports[f'{namenode or self.active}_http']}/{query}"
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=10) as answer:
            beans: list[dict[str, Any]] = json.load(answer)["beans"]
            return beans[0] if beans else {}
        return {}

    def _format(self) -> None:
        self._run(self._command(self.active, "-format", "-nonInteractive"))

    def _run(self, command: Sequence[str]) -> None:
        ended = subprocess.run(
            command, env=self._environment, check=False, capture_output=True, text=True
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr

    def _at(self, server: str) -> str:
        return f"{HOST}:{self._ports[server]}"

    def _namenode_settings(self, name: str, suffix: str = "") -> dict[str, str]:
        return {
            f"dfs.namenode.name.dir{suffix}": (self.directory / name).as_uri(),
            f"dfs.namenode.rpc-address{suffix}": self._at(name),
            f"dfs.namenode.http-address{suffix}": self._at(f"{name}_http"),
        }

    def _server_settings(self) -> dict[str, str]:
        """Return the addresses of all servers except the DataNode."""
        return self._namenode_settings("namenode")

    def _configure(self) -> None:
        core = {
            "hadoop.tmp.dir": str(self.directory / "tmp"),
            "fs.trash.interval": "60",
            **self.client_settings,
        }
        hdfs = {
            "dfs.replication": "1",
            "dfs.datanode.data.dir": (self.directory / "data").as_uri(),
            "dfs.datanode.address": self._at("datanode"),
            "dfs.datanode.http.address": self._at("datanode_http"),
            "dfs.datanode.ipc.address": self._at("datanode_ipc"),
            "dfs.datanode.hostname": HOST,
            "dfs.namenode.safemode.extension": "0",
            **self._server_settings(),
            **self.client_settings,
            "dfs.heartbeat.interval": "1",
            # Machines do not fail here, only processes.
            "dfs.namenode.edits.noeditlogchannelflush": "true",
        }
        further = self._further
        write_configuration(
            self.conf,
            {
                "core-site.xml": core | further["core-site.xml"],
                "hdfs-site.xml": hdfs | further["hdfs-site.xml"],
            },
        )
        for pages in ("hdfs", "datanode", "journal"):  # The servers want to show some.
            (self.conf / "webapps" / pages).mkdir(parents=True, exist_ok=True)


@contextlib.contextmanager
def running(cluster: AnHdfs) -> Iterator[AnHdfs]:
    """Run an HDFS, whose settings every client in this process finds meanwhile."""
    with cluster, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HADOOP_CONF_DIR", str(cluster.conf))
        yield cluster
