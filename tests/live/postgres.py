"""A PostgreSQL of the tests' own, from the packages of the system."""

import getpass
import signal
from collections.abc import Sequence
from pathlib import Path

from hiveacid.metastore.dev.loopback import HOST
from tests.live.database_server import USER, DatabaseServer


class Postgres(DatabaseServer):
    """A server with an empty cluster, which trusts all users of this machine."""

    package_user = "postgres"
    # At once, but not so hard that its shared memory would stay.
    end = signal.SIGQUIT

    def __init__(self, **settings: str) -> None:
        """Describe the server.

        Args:
            **settings: Additional settings.
        """
        self._programs = _programs()
        self._settings = settings
        super().__init__()

    def create_database(self, name: str) -> str:
        """Create a database, and return the address of it without the driver: ``//user@host…``."""
        self._run(self._program("createdb"), *self._address, name)
        return f"//{USER}@{HOST}:{self.port}/{name}"

    def query(self, database: str, sql: str) -> str:
        """Run SQL in a database, and return the values without any decoration."""
        return self._run(self._program("psql"), *self._address, "-At", "-c", sql, database)

    @property
    def _address(self) -> list[str]:
        return ["-h", HOST, "-p", str(self.port), "-U", USER]

    def _program(self, name: str) -> str:
        return str(self._programs / name)

    def _installed(self) -> Sequence[str]:
        cluster = ["-D", str(self.directory / "cluster")]
        access = ["-U", USER, "--auth=trust", "-E", "UTF8", "--no-sync"]
        self._run(self._program("initdb"), *cluster, *access)
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
        return [self._program("postgres"), *cluster, *options]

    @property
    def _ping(self) -> Sequence[str]:
        return [self._program("pg_isready"), "-q", *self._address, "-d", "postgres"]


def _programs() -> Path:
    """The folder of the newest PostgreSQL that is installed."""
    programs = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/postgres"),
        key=lambda program: int(program.parts[-3]),
    )
    assert programs, f"{getpass.getuser()} needs PostgreSQL here: apt-get install postgresql"
    return programs[-1].parent
