"""A MariaDB of the tests' own, from the packages of the system."""

import getpass
from collections.abc import Sequence
from pathlib import Path

from hiveacid.metastore.dev.loopback import HOST
from tests.live.database_server import USER, DatabaseServer

LET_GO_SECONDS = 4
_SERVER = Path("/usr/sbin/mariadbd")


class MariaDb(DatabaseServer):
    """A server with no databases but its own."""

    package_user = "mysql"

    def __init__(self) -> None:
        assert _SERVER.exists(), (
            f"{getpass.getuser()} needs MariaDB here: apt-get install mariadb-server"
        )
        super().__init__()

    def create_database(self, name: str) -> None:
        """Create a database that the user may do everything in."""
        # Of the characters that Hive's schema has in keys, four bytes each would be too long.
        sql = (
            f"CREATE DATABASE {name} CHARACTER SET latin1;"
            f"GRANT ALL ON {name}.* TO '{USER}'@'{HOST}' IDENTIFIED BY '{USER}';"
        )
        self._run("mariadb", "--no-defaults", self._socket, "-uroot", "-e", sql)

    @property
    def _socket(self) -> str:
        return f"--socket={self.directory / 'socket'}"

    def _installed(self) -> Sequence[str]:
        data = ["--no-defaults", f"--datadir={self.directory / 'data'}"]
        # Clients of the socket need no password.
        login = "--auth-root-authentication-method=normal"
        self._run("mariadb-install-db", *data, "--skip-test-db", login)
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
        return [str(_SERVER), *data, self._socket, *options]

    @property
    def _ping(self) -> Sequence[str]:
        return ["mariadb-admin", "--no-defaults", self._socket, "-uroot", "ping"]
