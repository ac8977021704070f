"""A PostgreSQL of the tests' own, from the packages of the system."""

import getpass
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

from airflow_hiveacid.metastore.dev.embedded import HOST, free_port
from tests.live.process_group import ProcessGroup

START_SECONDS = 60
USER = "hiveacid"


class Postgres:
    """A server with an empty cluster, which trusts all users of this machine.

    It refuses to run as root: then it runs as the user that its package made.
    """

    def __init__(self, **settings: str) -> None:
        """Describe the server.

        Args:
            **settings: Additional settings.
        """
        self._settings = settings
        self._account = "postgres" if os.getuid() == 0 else None
        self._programs = _programs()
        # Not below a test's folder, which that user could not enter.
        self.directory = Path(tempfile.mkdtemp(prefix="hiveacid-postgres-"))
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

    def create_database(self, name: str) -> str:
        """Create a database, and return the address of it without the driver: ``//user@host…``."""
        self._run("createdb", *self._address, name)
        return f"//{USER}@{HOST}:{self.port}/{name}"

    def query(self, database: str, sql: str) -> str:
        """Run SQL in a database, and return the values without any decoration."""
        return self._run("psql", *self._address, "-At", "-c", sql, database)

    def stop(self) -> None:
        if self._server is not None:
            # At once, but not so hard that its shared memory would stay.
            self._server.kill(signal.SIGQUIT)
            self._server = None
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def _address(self) -> list[str]:
        return ["-h", HOST, "-p", str(self.port), "-U", USER]

    def _start(self) -> None:
        if self._account is not None:
            shutil.chown(self.directory, self._account)
        cluster = str(self.directory / "cluster")
        self._run("initdb", "-D", cluster, "-U", USER, "--auth=trust", "-E", "UTF8", "--no-sync")
        settings = {
            "listen_addresses": HOST,
            "port": self.port,
            "unix_socket_directories": self.directory,
            "max_connections": 200,
            # The data is not needed after the test.
            "fsync": "off",
            **self._settings,
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        self._server = ProcessGroup(
            [str(self._programs / "postgres"), "-D", cluster, *options],
            log=self.directory / "log",
            environment=os.environ,
            directory=self.directory,
            user=self._account,
        )
        deadline = time.monotonic() + START_SECONDS
        ready = [str(self._programs / "pg_isready"), "-q", *self._address, "-d", "postgres"]
        while subprocess.run(ready, check=False).returncode != 0:
            assert not self._server.ended, self._server.tail()
            assert time.monotonic() < deadline, self._server.tail()
            time.sleep(0.1)

    def _run(self, program: str, *arguments: str) -> str:
        ended = subprocess.run(
            [str(self._programs / program), *arguments],
            cwd=self.directory,
            user=self._account,
            capture_output=True,
            check=False,
            encoding="utf-8",
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout.strip()


def _programs() -> Path:
    """The folder of the newest PostgreSQL that is installed."""
    programs = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/postgres"),
        key=lambda program: int(program.parts[-3]),
    )
    assert programs, f"{getpass.getuser()} needs PostgreSQL here: apt-get install postgresql"
    return programs[-1].parent
