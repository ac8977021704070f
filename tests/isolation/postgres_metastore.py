"""A metastore on PostgreSQL, where many clients do not keep each other waiting as on Derby."""

import subprocess
from dataclasses import replace
from pathlib import Path

from airflow_hiveacid.metastore.dev.distribution import (
    Distribution,
    java_command,
    java_environment,
    prepare,
    write_site,
)
from airflow_hiveacid.metastore.dev.embedded import HOST, EmbeddedMetastore
from tests.live.postgres import USER, Postgres

# The release that has the driver among its jars.
_WITH_DRIVER = "4.0.1"


class PostgresMetastore(EmbeddedMetastore):
    """A metastore with a database of its own on a server."""

    def __init__(self, version: str, postgres: Postgres, directory: Path) -> None:
        super().__init__(version, directory=directory)
        self._home = directory / "home"
        postgres.create_database("metastore")
        self._connection = {
            "javax.jdo.option.ConnectionURL": f"jdbc:postgresql://{HOST}:{postgres.port}/metastore",
            "javax.jdo.option.ConnectionDriverName": "org.postgresql.Driver",
            "javax.jdo.option.ConnectionUserName": USER,
            "javax.jdo.option.ConnectionPassword": USER,
        }
        self._fill(directory / "schema")

    def _settings(self, distribution: Distribution) -> dict[str, str]:
        return {**super()._settings(distribution), **self._connection}

    def _launch(self, distribution: Distribution) -> subprocess.Popen[bytes]:
        return super()._launch(self._with_driver(distribution))

    def _fill(self, folder: Path) -> None:
        distribution = self._with_driver(prepare(self.version, print))
        write_site(folder / "conf", folder / "none", self._connection)
        ended = subprocess.run(
            java_command(
                *(distribution, folder, distribution.release.schema_tool),
                *("-dbType", "postgres", "-initSchema"),
            ),
            cwd=folder,
            env=java_environment(distribution, folder),
            capture_output=True,
            check=False,
            encoding="utf-8",
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr

    def _with_driver(self, distribution: Distribution) -> Distribution:
        """The release with the driver among its jars."""
        if not self._home.exists():
            (self._home / "lib").mkdir(parents=True)
            for each in distribution.home.iterdir():
                if each.name != "lib":
                    (self._home / each.name).symlink_to(each)
            drivers = (prepare(_WITH_DRIVER, print).home / "lib").glob("postgresql-*.jar")
            jars = [*(distribution.home / "lib").iterdir(), *drivers]
            for name, jar in {jar.name: jar for jar in jars}.items():
                (self._home / "lib" / name).symlink_to(jar)
        return replace(distribution, home=self._home)
