"""A database server of the tests' own, from the packages of the system."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Self

from hiveacid.metastore.dev.embedded import free_port
from tests.live.process_group import ProcessGroup

START_SECONDS = 60
USER = "hiveacid"


class DatabaseServer(ABC):
    """A server in a folder of its own, which goes with it.

    It refuses to run as root: then it runs as the user that its package made.

    Attributes:
        package_user: That user.
        end: The signal that ends the server.
        directory: The folder.
        port: The port of the server.
    """

    package_user: ClassVar[str]
    end: ClassVar[signal.Signals] = signal.SIGKILL

    def __init__(self) -> None:
        self._account = self.package_user if os.getuid() == 0 else None
        # Not below a test's folder, which that user could not enter.
        self.directory = Path(tempfile.mkdtemp(prefix=f"hiveacid-{self.package_user}-"))
        self.port = free_port()
        self._server: ProcessGroup | None = None

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        if self._server is not None:
            self._server.kill(self.end)
            self._server = None
        shutil.rmtree(self.directory, ignore_errors=True)

    @abstractmethod
    def _installed(self) -> Sequence[str]:
        """Create the data, and return the command of the server."""

    @property
    @abstractmethod
    def _ping(self) -> Sequence[str]:
        """The command that succeeds when the server works."""

    def _start(self) -> None:
        if self._account is not None:
            shutil.chown(self.directory, self._account)
        self._server = ProcessGroup(
            self._installed(),
            log=self.directory / "log",
            environment=os.environ,
            directory=self.directory,
            user=self._account,
        )
        deadline = time.monotonic() + START_SECONDS
        while subprocess.run(self._ping, check=False, capture_output=True).returncode != 0:
            assert not self._server.ended, self._server.tail()
            assert time.monotonic() < deadline, self._server.tail()
            time.sleep(0.1)

    def _run(self, *command: str) -> str:
        ended = subprocess.run(
            command,
            cwd=self.directory,
            user=self._account,
            capture_output=True,
            check=False,
            encoding="utf-8",
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout.strip()
