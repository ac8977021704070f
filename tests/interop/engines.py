"""Hive, its metastore included, and Trino as child processes on free ports."""

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any
from xml.sax.saxutils import escape

from hiveacid.metastore.dev.distribution import Distribution, find_java, prepare
from hiveacid.metastore.dev.embedded import free_port
from tests.interop.software import hive_libraries, trino_home, trino_java

START_SECONDS = 180

# Java compiles them when it starts.
_SOURCE = Path(__file__).parent / "java" / "HiveEngine.java"
_STREAMING_SOURCE = Path(__file__).parent / "java" / "StreamingWriter.java"

Rows = list[tuple[str, ...]]

# Ends the server with its whole process group when the pipe to this process closes.
_GUARDED = 'exec 3<&0; (read _ <&3; kill -9 0) & exec "$@" 3<&- </dev/null'

OPENS = [
    f"--add-opens={module}=ALL-UNNAMED"
    for module in (
        *(f"java.base/java.{name}" for name in ("lang", "net", "util", "util.concurrent")),
        *(f"java.base/java.{name}" for name in ("io", "nio", "math", "time", "text")),
        *("java.base/java.util.concurrent.atomic", "java.base/java.util.regex"),
        *("java.base/java.lang.reflect", "java.base/sun.nio.ch", "java.sql/java.sql"),
    )
]

_HIVE_SETTINGS = {
    "hive.txn.manager": "org.apache.hadoop.hive.ql.lockmgr.DbTxnManager",
    "hive.support.concurrency": "true",
    "hive.exec.dynamic.partition.mode": "nonstrict",
    "hive.create.as.acid": "false",
    "hive.create.as.insert.only": "false",
    "hive.metastore.client.cache.v2.enabled": "false",
    "hive.query.results.cache.enabled": "false",
    # count(*) is still answered from statistics where Hive trusts them: that is part of the test.
    "hive.fetch.task.conversion": "none",
    "hive.notification.event.poll.interval": "0s",
    "hive.execution.engine": "tez",
    "hive.tez.container.size": "512",
    "tez.local.mode": "true",
    "tez.local.mode.without.network": "true",
    "tez.ignore.lib.uris": "true",
    # Concurrent tasks of one process share cached plans and break each other.
    "tez.am.inline.task.execution.max-tasks": "1",
    "tez.runtime.optimize.local.fetch": "true",
    "tez.runtime.io.sort.mb": "64",
    "tez.runtime.unordered.output.buffer.size-mb": "32",
    # The compaction worker runs MapReduce in this process.
    "mapreduce.framework.name": "local",
    "mapreduce.client.completion.pollinterval": "50",
    "mapreduce.task.io.sort.mb": "64",
    # A dropped partition then leaves a marker in place of its rows.
    "hive.acid.droppartition.usebase": "true",
    "hive.compactor.initiator.on": "false",
    "hive.compactor.worker.threads": "1",
    "hive.compactor.crud.query.based": "false",
    # Worker and cleaner run only on request.
    "metastore.compactor.cleaner.on": "false",
    "metastore.housekeeping.threads.on": "true",
    # Derby refuses some calls for good, which would be repeated for 20 seconds.
    "metastore.hmshandler.retry.attempts": "2",
    "metastore.hmshandler.retry.interval": "100ms",
    # Hive asks the metastore to evaluate its conditions on partitions: this class can.
    "metastore.expression.proxy": (
        "org.apache.hadoop.hive.ql.optimizer.ppr.PartitionExpressionForMetastore"
    ),
    "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
}

_TRINO_FILES = {
    "etc/config.properties": """\
coordinator=true
node-scheduler.include-coordinator=true
http-server.http.port=$port
discovery.uri=http://127.0.0.1:$port
query.max-memory=600MB
query.max-memory-per-node=600MB
memory.heap-headroom-per-node=300MB
task.max-worker-threads=2
task.concurrency=2
catalog.management=dynamic
catalog.store=memory
""",
    "etc/node.properties": """\
node.environment=interop
node.id=interop
node.data-dir=$folder/data
""",
    "etc/jvm.config": """\
-Xmx2G
-XX:+ExitOnOutOfMemoryError
-Djdk.attach.allowAttachSelf=true
-Dfile.encoding=UTF-8
-XX:+EnableDynamicAgentLoading
--add-modules=jdk.incubator.vector
--enable-native-access=ALL-UNNAMED
""",
    "etc/log.properties": "io.trino=WARN\nio.airlift=WARN\n",
}

_HIVE_CATALOG = {
    "fs.hadoop.enabled": "true",
    "hive.security": "allow-all",
    "hive.hive-views.enabled": "true",
    "hive.orc.time-zone": "UTC",
    "hive.timestamp-precision": "NANOSECONDS",
}


def _write_hive_site(folder: Path, settings: Mapping[str, str]) -> None:
    folder.mkdir()
    properties = "".join(
        f"<property><name>{name}</name><value>{escape(value)}</value></property>\n"
        for name, value in settings.items()
    )
    (folder / "hive-site.xml").write_text(f"<configuration>\n{properties}</configuration>\n")
    (folder / "log4j2.properties").write_text(
        "appender.console.type = Console\nappender.console.name = console\n"
        "appender.console.layout.type = PatternLayout\n"
        "appender.console.layout.pattern = %d %p %c{2}: %m%n%ex\n"
        "rootLogger.level = WARN\nrootLogger.appenderRef.console.ref = console\n"
    )


def hive_classpath() -> list[Path]:
    """Hive's own jars before those that it shares with the metastore."""
    libraries = hive_libraries()
    return [libraries / "lib" / "*", _release().home / "lib" / "*", libraries / "late" / "*"]


def _release() -> Distribution:
    return prepare("4.0.1", print)


class EngineError(Exception):
    """An engine answered a statement with an error."""


class Server:
    """A child process that listens on a port and dies with this one."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        folder: Path,
        port: int,
        path: str = os.environ["PATH"],
    ) -> None:
        self.port = port
        self._log = folder / f"{name}.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _GUARDED, "sh", *command],
                cwd=folder,
                # Java writes names of files that are not ASCII only under such a locale.
                env={**os.environ, "PATH": path, "LC_ALL": "C.UTF-8"},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def await_answer(self, asks: Callable[[], object]) -> None:
        """Wait until the server answers a first question."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                asks()
                return
            except (OSError, EngineError) as error:
                if self._process.poll() is None and time.monotonic() < deadline:
                    time.sleep(0.2)
                    continue
                tail = "\n".join(self._log.read_text(errors="replace").splitlines()[-40:])
                raise EngineError(f"{self._log.stem} did not start: {error}\n{tail}") from error

    def close(self) -> None:
        """End the server; nothing of it is needed again."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


class Hive:
    """A metastore with Hive's query engine and compactor, as one process.

    Attributes:
        metastore_uri: The address of the metastore.
    """

    def __init__(
        self,
        folder: Path,
        warehouse: Path,
        settings: Mapping[str, str] | None = None,
        libraries: Sequence[Path] = (),
    ) -> None:
        port, metastore_port = free_port(), free_port()
        self.metastore_uri = f"thrift://127.0.0.1:{metastore_port}"
        database = folder / "metastore_db"
        shutil.copytree(_release().database, database)
        conf = folder / "hive-conf"
        _write_hive_site(
            conf,
            {
                **_HIVE_SETTINGS,
                "hive.metastore.uris": self.metastore_uri,
                "metastore.thrift.bind.host": "127.0.0.1",
                "hive.metastore.warehouse.dir": warehouse.as_uri(),
                "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={database}",
                "fs.defaultFS": "file:///",
                "hadoop.tmp.dir": str(folder / "hadoop"),
                "hive.exec.scratchdir": str(folder / "scratch"),
                "hive.exec.local.scratchdir": str(folder / "local"),
                "hive.downloaded.resources.dir": str(folder / "resources"),
                "hive.user.install.directory": str(folder / "install"),
                "hive.querylog.location": str(folder / "querylog"),
                "tez.staging-dir": str(folder / "tez"),
                **(settings or {}),
            },
        )
        classpath = [conf, *libraries, *hive_classpath()]
        self._server = Server(
            "hive",
            [
                *(find_java(), "-Xmx2500m", "-XX:+UseSerialGC", *OPENS),
                f"-Dlog4j.configurationFile={conf / 'log4j2.properties'}",
                *("-cp", os.pathsep.join(map(str, classpath)), str(_SOURCE)),
                *(str(port), str(metastore_port)),
            ],
            folder,
            port,
        )
        for answers in (
            lambda: socket.create_connection(("127.0.0.1", metastore_port)).close(),
            lambda: self.sql("show databases"),
        ):
            self._server.await_answer(answers)

    def sql(self, statement: str) -> Rows:
        """Run one statement; NULL is the text NULL."""
        return [tuple(line.split("\t")) for line in self._post("/sql", statement).splitlines()]

    def roll_back(self, statement: str) -> None:
        """Run one statement and abort its transaction; its files remain."""
        self._post("/roll-back", statement)

    def clean(self) -> None:
        """Have Hive's cleaner go through the queue once."""
        self._post("/clean", "")

    def work(self) -> None:
        """Have Hive's worker serve the request that waits longest, by a query of its own."""
        self._post("/work", "")

    def compact(self, table: str, kind: str, partition: str = "") -> None:
        """Have Hive compact a table or one of its partitions, and wait."""
        database, _, name = table.partition(".")
        state = self._post("/compact", f"{database} {name} {kind.upper()} {partition}".rstrip())
        if state != "ready for cleaning":
            raise EngineError(f"{kind} compaction of {table} {partition} ended as {state}")

    def _post(self, path: str, body: str) -> str:
        url = f"http://127.0.0.1:{self._server.port}{path}"
        try:
            with urllib.request.urlopen(urllib.request.Request(url, body.encode())) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            raise EngineError(f"{body}\n{error.read().decode()}") from None

    def stream(self, folder: Path, first: int, last: int, lines: Sequence[str]) -> None:
        """Have Hive's writer leave a file of several write ids as Hive Streaming does.

        Args:
            folder: The folder of the table or partition.
            first: The first write id.
            last: The last write id.
            lines: "write-id id name amount" for a row, or "flush".
        """
        classpath = os.pathsep.join(map(str, hive_classpath()))
        command = [find_java(), *OPENS, "-cp", classpath, str(_STREAMING_SOURCE)]
        subprocess.run(
            [*command, str(folder), str(first), str(last)],
            input="".join(f"{line}\n" for line in lines),
            text=True,
            check=True,
        )

    def close(self) -> None:
        """End the process."""
        self._server.close()


class Trino:
    """A Trino server with a single node.

    Args:
        folder: The folder of its files.
        metastore_uri: The metastore of its catalog `hive`; without one there is no such catalog.
    """

    def __init__(self, folder: Path, metastore_uri: str | None = None) -> None:
        home, port = trino_home(), free_port()
        values = {"port": port, "folder": folder / "trino"}
        for name, text in _TRINO_FILES.items():
            path = folder / "trino" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(Template(text).substitute(values))
        java = trino_java()
        self._server = Server(
            "trino",
            [str(home / "bin" / "launcher"), "run", f"--etc-dir={folder / 'trino' / 'etc'}"],
            folder,
            port,
            path=f"{java.parent}{os.pathsep}{os.environ['PATH']}",
        )
        # It listens long before it has a node to run a query on.
        self._server.await_answer(lambda: self.sql("select count(*) from system.runtime.nodes"))
        if metastore_uri is not None:
            settings = {"hive.metastore.uri": metastore_uri, **_HIVE_CATALOG}
            self.create_catalog("hive", "hive", settings)

    def create_catalog(self, name: str, connector: str, settings: Mapping[str, str]) -> None:
        """Create a catalog with the settings of its file of properties."""
        listed = ", ".join(f"\"{key}\" = '{value}'" for key, value in settings.items())
        self.sql(f"create catalog {name} using {connector} with ({listed})")

    def sql(self, statement: str) -> Rows:
        """Run one statement; NULL is the text NULL."""
        _, rows = self.ask(statement)
        return [tuple("NULL" if value is None else str(value) for value in row) for row in rows]

    def ask(self, statement: str, capabilities: str = "") -> tuple[list[Any], list[list[Any]]]:
        """Run one statement, and return the descriptions of columns and the rows, as in JSON.

        Args:
            statement: The statement.
            capabilities: Those of the client. Without PARAMETRIC_DATETIME, times have milliseconds.
        """
        headers = {
            "X-Trino-User": "interop",
            "X-Trino-Catalog": "hive",
            "X-Trino-Client-Capabilities": capabilities,
        }
        url: str | None = f"http://127.0.0.1:{self._server.port}/v1/statement"
        body: bytes | None = statement.encode()
        columns: list[Any] = []
        rows: list[list[Any]] = []
        while url:
            with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as response:
                answer = json.load(response)
            if "error" in answer:
                raise EngineError(f"{statement}\n{answer['error']['message']}")
            columns = answer.get("columns", columns)
            rows += answer.get("data", ())
            url, body = answer.get("nextUri"), None
        return columns, rows

    def close(self) -> None:
        """End the server."""
        self._server.close()
