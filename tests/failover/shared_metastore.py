"""Metastores whose database is a server, so that several can have the same one."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from typing import Any

from hiveacid.metastore.dev.distribution import (
    Distribution,
    java_command,
    java_environment,
    prepare,
    write_site,
)
from hiveacid.metastore.dev.embedded import EmbeddedMetastore, GuardedProcess
from hiveacid.metastore.dev.loopback import HOST
from tests.failover.mariadb import MariaDb
from tests.live import postgres
from tests.live.postgres import Postgres

# The release that has the drivers among its jars.
_WITH_DRIVERS = "4.0.1"


@dataclass(frozen=True)
class MetastoreDatabase:
    """An empty database for metastores.

    Attributes:
        kind: Its name for the schema tool.
        driver: The prefix of the driver's jar.
        settings: The settings of a metastore for it.
    """

    kind: str
    driver: str
    settings: Mapping[str, str]

    @classmethod
    def on(cls, server: Postgres | MariaDb, name: str = "metastore") -> "MetastoreDatabase":
        """A new one."""
        server.create_database(name)
        if isinstance(server, Postgres):
            url = f"jdbc:postgresql://{HOST}:{server.port}/{name}"
            return cls._of("postgres", "postgresql-", url, "org.postgresql.Driver")
        # Each metastore requests its own ids: none may see uncommitted ones of another.
        url = f"jdbc:mysql://{HOST}:{server.port}/{name}?useSSL=false"
        return cls._of("mysql", "mysql-connector-j-", url, "com.mysql.cj.jdbc.Driver")

    @classmethod
    def _of(cls, kind: str, driver: str, url: str, name: str) -> "MetastoreDatabase":
        settings = {
            "javax.jdo.option.ConnectionURL": url,
            "javax.jdo.option.ConnectionDriverName": name,
            "javax.jdo.option.ConnectionUserName": postgres.USER,
            "javax.jdo.option.ConnectionPassword": postgres.USER,
        }
        return cls(kind, driver, settings)

    def fill(self, version: str, folder: Path) -> None:
        """Create the schema, by the scripts of the release."""
        distribution = self.with_driver(prepare(version, print), folder / "home")
        write_site(folder / "conf", folder / "none", self.settings)
        ended = subprocess.run(
            java_command(
                *(distribution, folder, distribution.release.schema_tool),
                *("-dbType", self.kind, "-initSchema"),
            ),
            cwd=folder,
            env=java_environment(distribution, folder),
            capture_output=True,
            check=False,
            encoding="utf-8",
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr

    def with_driver(self, distribution: Distribution, home: Path) -> Distribution:
        """The release with the driver among its jars.

        Args:
            distribution: The release.
            home: The location, created from links.
        """
        if not home.exists():
            (home / "lib").mkdir(parents=True)
            for each in distribution.home.iterdir():
                if each.name != "lib":
                    (home / each.name).symlink_to(each)
            drivers = (prepare(_WITH_DRIVERS, print).home / "lib").glob(f"{self.driver}*.jar")
            jars = [*(distribution.home / "lib").iterdir(), *drivers]
            for name, jar in {jar.name: jar for jar in jars}.items():
                (home / "lib" / name).symlink_to(jar)
        return replace(distribution, home=home)


class SharedMetastore(EmbeddedMetastore):
    """A metastore on a database that is filled, beside others."""

    def __init__(
        self, version: str, database: MetastoreDatabase, directory: Path, **more: Any
    ) -> None:
        super().__init__(version, directory=directory, **more)
        self._database = database

    @property
    def runs(self) -> bool:
        """Return whether it was started, and neither killed nor ended."""
        return self._process is not None and self._process.status is None

    def stop(self) -> None:
        """Suspend it, with its connections."""
        self._running.signal(SIGSTOP)

    def go_on(self) -> None:
        """Let it go on as if nothing had been."""
        self._running.signal(SIGCONT)

    @property
    def _running(self) -> GuardedProcess:
        assert self._process is not None
        return self._process

    def _settings(self, distribution: Distribution) -> dict[str, str]:
        return {**super()._settings(distribution), **self._database.settings}

    def _launch(self, distribution: Distribution) -> GuardedProcess:
        home = self._directory / "home"
        return super()._launch(self._database.with_driver(distribution, home))
