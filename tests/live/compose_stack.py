"""The services of docker-compose.yml on this machine: their commands, with their settings."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Self

from hiveacid.metastore.dev.embedded import free_port
from hiveacid.metastore.dev.loopback import HOST
from tests.deploy import compose, software
from tests.live.airflow_api import wait_until
from tests.live.postgres import USER, Postgres
from tests.live.process_group import ProcessGroup

START_SECONDS = 300
# The services of ports, by the number in the file.
_PORTS = {
    "postgres": 5432,
    "s3": 7070,
    "metastore": 9083,
    "spark-master": 7077,
    "spark-worker": 8081,
    "airflow-api": 8080,
}
_HOSTS = "|".join(_PORTS)
# Settings that are called like a service, but are not its host.
_NAMES = ("METASTORE_DATABASE_USER", "POSTGRES_USER")


class ComposeStack:
    """Runs services without containers, and all else as Compose would.

    Host names become this machine, ports free ones, and the folders of the image those of the
    checkout. Passwords count: PostgreSQL asks for them.

    Args:
        folder: A new folder for the services' files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._services = compose.services()
        self._ports = {number: free_port() for number in _PORTS.values()}
        self._spark_webui = free_port()
        # A container has its ports and its address for itself.
        self._instead_of_a_container = {
            "AIRFLOW__API__HOST": HOST,
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port()),
            "SPARK_LOCAL_IP": HOST,
        }
        self._groups: dict[str, ProcessGroup] = {}
        self._postgres = Postgres()
        self._ports[5432] = self._postgres.port

    def __enter__(self) -> Self:
        (self._folder / "airflow").mkdir()
        (self._folder / "spark-work").mkdir()
        self._jars = software.jars()
        self._store = software.s3_store()
        return self

    def __exit__(self, *_: object) -> None:
        for name in reversed(list(self._groups)):
            self.kill(name)
        self._postgres.stop()

    def start_postgres(self) -> None:
        """Start the server, and initialize it like its container."""
        self._postgres.__enter__()
        service = self._services["postgres"]
        script = compose.ROOT / service.mounts[0]
        server = {"PGHOST": HOST, "PGPORT": str(self._postgres.port), "POSTGRES_USER": USER}
        self._must(["/bin/sh", str(script)], os.environ | service.environment | server)
        # The server here trusts all clients; in a container it authenticates those of the network.
        rules = self._postgres.directory / "cluster" / "pg_hba.conf"
        own = f"host all {USER} {HOST}/32 trust\n"
        rules.write_text(f"{own}host all all {HOST}/32 scram-sha-256\n")
        self._postgres.query("postgres", "SELECT pg_reload_conf()")

    def query(self, database: str, sql: str) -> str:
        """Ask PostgreSQL."""
        return self._postgres.query(database, sql)

    def start(self, name: str) -> None:
        """Start a service, and return when its health check succeeds."""
        service = self._services[name]
        environment = self.environment(name)
        group = ProcessGroup(
            [self._local(word, name) for word in service.command],
            log=self._folder / f"{name}.log",
            environment=environment,
            directory=self._folder,
        )
        self._groups[name] = group
        check = [self._local(word, name) for word in service.health]

        def is_healthy() -> bool:
            assert not group.ended, group.tail()
            answer = subprocess.run(check, env=environment, capture_output=True, check=False)
            return answer.returncode == 0

        try:
            wait_until(f"{name} is healthy", is_healthy, START_SECONDS)
        except AssertionError as error:
            error.add_note(group.tail())
            raise

    def kill(self, name: str) -> None:
        """End a service at once."""
        self._groups.pop(name).kill()

    def run(self, name: str, *command: str) -> str:
        """Run a service that ends by itself, or another command in its place; return its output."""
        words = command or self._services[name].command
        return self._must([self._local(word, name) for word in words], self.environment(name))

    def environment(self, name: str) -> dict[str, str]:
        """Return the environment of a service."""
        theirs = ("AIRFLOW_", "SPARK_", "PYSPARK_", "AWS_")
        own = {key: value for key, value in os.environ.items() if not key.startswith(theirs)}
        service = self._services[name]
        wanted = (compose.image_environment() if service.ours else {}) | service.environment
        programs = [str(Path(sys.executable).parent), str(self._store.parent), own["PATH"]]
        return (
            own
            | {
                key: value if key in _NAMES else self._local(value, name)
                for key, value in wanted.items()
            }
            | self._instead_of_a_container
            | {"PATH": os.pathsep.join(programs)}
        )

    def port(self, name: str) -> int:
        """Return the port of a service."""
        return self._ports[_PORTS[name]]

    @property
    def spark_master(self) -> str:
        """The address of the pages of Spark's master."""
        return f"http://{HOST}:{self._spark_webui}"

    def _local(self, text: str, service: str) -> str:
        ports = dict(self._ports)
        if service == "spark-master":
            ports[8080] = self._spark_webui

        def here(match: re.Match[str]) -> str:
            return str(ports[int(match[0])])

        text = text.replace("/opt/hiveacid/jars", str(self._jars))
        text = text.replace("/opt/hiveacid", str(compose.ROOT))
        for place in ("/opt/airflow", "/opt/spark-work"):
            text = text.replace(place, str(self._folder / Path(place).name))
        text = re.sub(r"^/data$", str(self._folder / "s3"), text)
        # In an address, alone, or as the host of a connection; and addresses of all interfaces.
        text = re.sub(rf'(//|@|^|": ")({_HOSTS})(?=[:"]|$)', rf"\g<1>{HOST}", text)
        text = re.sub(r"^:(?=\d)", f"{HOST}:", text)
        return re.sub(rf"\b({'|'.join(map(str, ports))})\b", here, text)

    def _must(self, command: list[str], environment: dict[str, str]) -> str:
        ended = subprocess.run(
            command,
            env=environment,
            cwd=self._folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
        )
        assert ended.returncode == 0, ended.stdout[-6000:]
        return ended.stdout
