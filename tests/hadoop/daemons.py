"""Servers of Hadoop that a test starts and kills."""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Self

from tests.hadoop.software import java_command
from tests.live.process_group import ProcessGroup

START_SECONDS = 90


class Daemons(ABC):
    """Servers with one configuration; nothing runs before start().

    Attributes:
        directory: Keeps everything that they store.
        conf: The folder for HADOOP_CONF_DIR, of the servers and of their clients.
        mains: All that has to run, and the classes that do it.
    """

    mains: ClassVar[Mapping[str, str]]

    def __init__(
        self,
        directory: Path,
        java_options: Sequence[str],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = directory.absolute()
        self.conf = self.directory / "conf"
        self._java_options = java_options
        self._environment = os.environ | (environment or {})
        self._daemons: dict[str, ProcessGroup] = {}

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @abstractmethod
    def start(self) -> None:
        """Start all, and return when they work."""

    def start_daemon(self, name: str) -> None:
        """Start one of ``mains``, without waiting for it."""
        self._daemons[name] = ProcessGroup(
            self._command(name),
            log=self.directory / f"{name}.log",
            environment=self._environment,
        )

    def kill_daemon(self, name: str) -> None:
        """Kill a daemon at once, as if its machine had failed; its own children go on."""
        self._daemons.pop(name).kill()

    def pid_of(self, name: str) -> int:
        """Return the process that started a running daemon, or that has become it."""
        return self._daemons[name].pid

    def stop(self) -> None:
        """End all."""
        for name in list(self._daemons):
            self.kill_daemon(name)

    def _require_running(self) -> None:
        for name, daemon in self._daemons.items():
            assert not daemon.ended, f"{name} has ended:\n{daemon.tail()}"

    def _command(self, name: str, *arguments: str) -> list[str]:
        return java_command(self.conf, self.mains[name], *arguments, options=self._java_options)
