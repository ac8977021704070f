"""A real HDFS on this machine that outlives its NameNode: a name service of two of them."""

import contextlib
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from hiveacid.metastore.dev.loopback import HOST
from tests.hadoop.hdfs import SERVER, START_SECONDS, Hdfs
from tests.hadoop.software import java_command
from tests.live.airflow_api import wait_until

NAME = "nameservice1"
_NAMENODES = ("nn1", "nn2")


class NameService(Hdfs):
    """Two NameNodes, one active and the other one standby, and their shared services.

    Only a test makes the other one active. Clients have Hadoop's defaults.
    """

    mains: ClassVar[Mapping[str, str]] = {
        "journal": f"{SERVER.removesuffix('.server')}.qjournal.server.JournalNode",
        "datanode": Hdfs.mains["datanode"],
        **dict.fromkeys(_NAMENODES, Hdfs.mains["namenode"]),
    }

    def __init__(self, directory: Path) -> None:
        """Describe one; nothing runs before start().

        Args:
            directory: Keeps everything that it stores.
        """
        super().__init__(directory)
        self.active, self.standby = _NAMENODES
        self.uri = f"hdfs://{NAME}"

    @property
    def client_settings(self) -> dict[str, str]:
        providers = "org.apache.hadoop.hdfs.server.namenode.ha"
        return {
            "fs.defaultFS": self.uri,
            "dfs.nameservices": NAME,
            f"dfs.ha.namenodes.{NAME}": ",".join(_NAMENODES),
            **{f"dfs.namenode.rpc-address.{NAME}.{name}": self._at(name) for name in _NAMENODES},
            f"dfs.client.failover.proxy.provider.{NAME}": (
                f"{providers}.ConfiguredFailoverProxyProvider"
            ),
        }

    def wait_until_usable(self) -> None:
        """Return when one is active and takes files, and the other one could take its place."""
        wait_until("both NameNodes answer", lambda: "" not in self._states(), START_SECONDS, 0.1)
        if "active" not in self._states():
            self._administer("-transitionToActive", self.active)
        super().wait_until_usable()
        self.wait_for_namenode(self.standby)

    def fail_over(self) -> None:
        """Make the other one active; the one that was is standby then."""
        self.wait_for_namenode(self.standby)
        self._replace_active()

    def kill_and_fail_over(self) -> None:
        """Kill the active one, and make the other one active; the killed one starts again."""
        self.wait_for_namenode(self.standby)
        killed = self.active
        self.kill_daemon(killed)
        self._replace_active()
        self.start_daemon(killed)

    def step_down(self) -> None:
        """Make both standby."""
        self._administer("-transitionToStandby", self.active)

    def _replace_active(self) -> None:
        self._administer("-failover", self.active, self.standby)
        self.active, self.standby = self.standby, self.active

    def _states(self) -> list[str]:
        return [str(self._bean("NameNodeStatus", name).get("State", "")) for name in _NAMENODES]

    def _administer(self, *arguments: str) -> None:
        tool = "org.apache.hadoop.hdfs.tools.DFSHAAdmin"
        self._run(java_command(self.conf, tool, *arguments))

    def _format(self) -> None:
        self.start_daemon("journal")
        wait_until("the JournalNode listens", self._journal_listens, START_SECONDS, 0.1)
        super()._format()
        shutil.copytree(self.directory / self.active, self.directory / self.standby)

    def _journal_listens(self) -> bool:
        with contextlib.suppress(OSError):
            socket.create_connection((HOST, self._ports["journal"])).close()
            return True
        return False

    def _command(self, name: str, *arguments: str) -> list[str]:
        if name not in _NAMENODES:
            return super()._command(name, *arguments)
        # By their addresses, both would be on this machine.
        return super()._command(name, "-D", f"dfs.ha.namenode.id={name}", *arguments)

    def _server_settings(self) -> dict[str, str]:
        settings = {
            "dfs.namenode.shared.edits.dir": f"qjournal://{self._at('journal')}/{NAME}",
            "dfs.journalnode.edits.dir": str(self.directory / "journal"),
            "dfs.journalnode.rpc-address": self._at("journal"),
            "dfs.journalnode.http-address": self._at("journal_http"),
            # A standby that has just started could not take over before it knows of all blocks.
            "dfs.ha.tail-edits.in-progress": "true",
            "dfs.ha.tail-edits.period": "1s",
            # The JournalNode takes no edits of one that was replaced.
            "dfs.ha.fencing.methods": "shell(/bin/true)",
        }
        for name in _NAMENODES:
            settings |= self._namenode_settings(name, f".{NAME}.{name}")
        return settings
