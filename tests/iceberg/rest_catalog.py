"""Iceberg's reference implementation of a REST catalog as a child process."""

import os
import urllib.request
from pathlib import Path

from hiveacid.metastore.dev.distribution import find_java, spark_jars
from hiveacid.metastore.dev.embedded import free_port
from hiveacid.metastore.dev.loopback import HOST
from tests.interop.engines import Server
from tests.interop.software import cached, copy_dependencies

HERE = Path(__file__).parent
CLIENT, SECRET = "hiveacid", "s3cret"


class RestCatalog:
    """A server whose only client needs a token.

    Args:
        folder: The folder of its database, its log, and the tables.

    Attributes:
        uri: Its address.
        folder: The folder of its namespaces.
    """

    def __init__(self, folder: Path) -> None:
        port = free_port()
        self.folder = folder / "lake"
        self.uri = f"http://{HOST}:{port}"
        libraries = cached("iceberg-rest-1.10.0", lambda home: copy_dependencies(HERE, home))
        hadoop = spark_jars("hadoop-client-api", "hadoop-client-runtime")
        classpath = os.pathsep.join(map(str, [libraries / "*", *hadoop]))
        self._server = Server(
            "rest_catalog",
            [
                *(find_java(), "-Xmx300m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
                *("-cp", classpath, str(HERE / "java" / "RestCatalog.java"), str(port)),
                *(f"jdbc:sqlite:{folder}/rest.db", f"file:{self.folder}", CLIENT, SECRET),
            ],
            folder,
            port,
        )
        self._server.await_answer(self.revoke_tokens)

    @property
    def options(self) -> dict[str, str]:
        """The options of a catalog for pyiceberg."""
        return {
            "type": "rest",
            "uri": self.uri,
            "credential": f"{CLIENT}:{SECRET}",
            "oauth2-server-uri": f"{self.uri}/v1/oauth/tokens",
            "locations": f"file:{self.folder}",
        }

    def revoke_tokens(self) -> None:
        """Make all tokens invalid; new ones are issued."""
        self._ask("revoke")

    def fail_next_commit(self, at: str, status: int) -> None:
        """Inject a fault into the next commit.

        Args:
            at: "request" if the commit has no effect, "answer" if it takes effect.
            status: The status that the client gets; 0 closes its connection.
        """
        self._ask(f"fault?at={at}&status={status}")

    def _ask(self, what: str) -> None:
        request = urllib.request.Request(f"{self.uri}/test/{what}", method="POST")
        urllib.request.urlopen(request).close()

    def close(self) -> None:
        """End the server."""
        self._server.close()
