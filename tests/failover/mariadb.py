"""A MariaDB of the tests' own, from the packages of the system."""

import getpass
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

from airflow_hiveacid.metastore.dev.embedded import HOST, free_port
from tests.live.process_group import ProcessGroup

START_SECONDS = 60
LET_GO_SECONDS = 4
USER = "hiveacid"
_SERVER = Path("/usr/sbin/mariadbd")


class MariaDb:
    """A server with no databases but its own.

    It refuses to run as root: then it runs as the user that its package made.
    """

    def __init__(self) -> None:
        assert _SERVER.exists(), (
            f"{getpass.getuser()} needs MariaDB here: apt-get install mariadb-server"
        )
        self._account = "mysql" if os.getuid() == 0 else None
        # Not below a test's folder, which that user could not enter.
        self.directory = Path(tempfile.mkdtemp(prefix="hiveacid-mariadb-"))
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

    def create_database(self, name: str) -> None:
        """Create a database that the user may do everything in."""
        # Of the characters that Hive's schema has in keys, four bytes each would be too long.
        self._query(
            f"CREATE DATABASE {name} CHARACTER SET latin1;"
            f"GRANT ALL ON {name}.* TO '{USER}'@'{HOST}' IDENTIFIED BY '{USER}';"
        )

    def stop(self) -> None:
        if self._server is not None:
            self._server.kill()
            self._server = None
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def _socket(self) -> str:
        return f"--socket={self.directory / 'socket'}"

    @property
    def _data(self) -> list[str]:
        return ["--no-defaults", f"--datadir={self.directory / 'data'}"]

    def _start(self) -> None:
        if self._account is not None:
            shutil.chown(self.directory, self._account)
        install = ["mariadb-install-db", *self._data, "--skip-test-db"]
        # Clients of the socket need no password.
        self._run([*install, "--auth-root-authentication-method=normal"])
        settings = {
            "bind-address": HOST,
            "port": self.port,
            "pid-file": self.directory / "pid",
            # The data is not needed after the test.
            "innodb-flush-log-at-trx-commit": 0,
            "skip-name-resolve": 1,
            # Otherwise a hanging metastore would keep its locks.
            "idle-transaction-timeout": LET_GO_SECONDS,
        }
        options = [f"--{name}={value}" for name, value in settings.items()]
        self._server = ProcessGroup(
            [str(_SERVER), *self._data, self._socket, *options],
            log=self.directory / "log",
            environment=os.environ,
            directory=self.directory,
            user=self._account,
        )
        deadline = time.monotonic() + START_SECONDS
        ready = ["mariadb-admin", "--no-defaults", self._socket, "-uroot", "ping"]
        while subprocess.run(ready, check=False, capture_output=True).returncode != 0:
            assert not self._server.ended, self._server.tail()
            assert time.monotonic() < deadline, self._server.tail()
            time.sleep(0.1)

    def _query(self, sql: str) -> None:
        self._run(["mariadb", "--no-defaults", self._socket, "-uroot", "-e", sql])

    def _run(self, command: list[str]) -> None:
        ended = subprocess.run(
            command,
            cwd=self.directory,
            user=self._account,
            capture_output=True,
            check=False,
            encoding="utf-8",
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
