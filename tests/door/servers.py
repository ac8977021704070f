"""Servers of Spark with the door, and their clients."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pyspark

from hiveacid.metastore.dev.embedded import EmbeddedMetastore, free_port
from hiveacid.spark.java.compile import scala_of
from hiveacid.spark.java_scan import JARS, jar_name

SPARK = Path(pyspark.__file__).parent
ROOT = Path(__file__).parents[2]
THRIFT = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
# The authorizer of the engine, and the user that it permits nothing.
AUTHORIZER = f"{__name__}.permit"
REFUSED = "eve"

Rows = list[list[str]]
_CLIENT = """
import json, sys
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession, functions as F
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
for statement in json.load(sys.stdin):
    try:
        frame = eval(statement[1:]) if statement[0] == "=" else spark.sql(statement)
        rows = [["NULL" if v is None else str(v) for v in row] for row in frame.collect()] if frame else []
        print(json.dumps(rows), flush=True)
    except PySparkException as error:
        text = f"Error: [{error.getCondition()}] {error} SQLSTATE {error.getSqlState()}"
        print(json.dumps(text), flush=True)
"""


def permit(user: str, table: str, action: str, **_: object) -> bool:
    """Whether an access is permitted; every one must be that of a user of the server.

    Others do not insert into a table that is named after its user.
    """
    if not user.startswith("spark:") or user in ("spark:", f"spark:{REFUSED}"):
        return False
    owner = table.partition("_of_")[2]
    return not owner or action != "insert" or user == f"spark:{owner}"


class Server:
    """A server of Spark, with support for Hive, whose engine is a process beside it."""

    def __init__(self, kind: str, metastore: EmbeddedMetastore, folder: Path) -> None:
        self.port = free_port()
        settings = {
            "spark.sql.extensions": "org.hiveacid.spark.AcidExtensions",
            "spark.hadoop.hive.metastore.uris": metastore.uri,
            "spark.hiveacid.python": f"{sys.executable} -m hiveacid.spark.door",
            "spark.sql.catalogImplementation": "hive",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.ui.enabled": "false",
            "spark.hadoop.hive.server2.thrift.port": str(self.port),
            "spark.hadoop.hive.server2.thrift.bind.host": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.connect.grpc.binding.address": "127.0.0.1",
        }
        options = [part for pair in settings.items() for part in ("--conf", "=".join(pair))]
        program = [str(SPARK / "bin" / "spark-submit"), "--master", "local[2]", "--class", kind]
        self._log = folder / "server.log"
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [
                    *program,
                    "--jars",
                    str(JARS / jar_name(scala_of(SPARK))),
                    *options,
                    "spark-internal",
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={
                    **os.environ,
                    "SPARK_HOME": str(SPARK),
                    "PYTHONPATH": str(ROOT),
                    "AIRFLOW__HIVE_ACID__AUTHORIZER": AUTHORIZER,
                },
            )

    def accepts(self) -> bool:
        """Whether it accepts connections."""
        assert self.process.poll() is None, self.log()[-3000:]
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def engines(self) -> list[int]:
        """The processes that the driver has started for its engine, and that run."""
        shown = subprocess.run(
            ["pgrep", "-P", str(self.process.pid), "python"],
            capture_output=True,
            text=True,
            check=False,
        )
        return [int(pid) for pid in shown.stdout.split()]

    def kill_engine(self) -> bool:
        """Kill the engine; return whether there was one."""
        engines = self.engines()
        for pid in engines:
            os.kill(pid, signal.SIGKILL)
        return bool(engines)

    def log(self) -> str:
        return self._log.read_text()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)


class SqlShell:
    """A running `spark-sql`."""

    def __init__(self, uri: str, folder: Path) -> None:
        settings = {
            "spark.sql.extensions": "org.hiveacid.spark.AcidExtensions",
            "spark.hiveacid.uris": uri,
            "spark.hiveacid.python": f"{sys.executable} -m hiveacid.spark.door",
            "spark.sql.catalogImplementation": "in-memory",
            "spark.sql.session.timeZone": "UTC",
            "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
            "spark.ui.enabled": "false",
        }
        options = [part for pair in settings.items() for part in ("--conf", "=".join(pair))]
        jar = str(JARS / jar_name(scala_of(SPARK)))
        program = [str(SPARK / "bin" / "spark-sql"), "--master", "local[2]", "--jars", jar]
        self.errors = folder / "errors"
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [*program, *options],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=folder,
                env={**os.environ, "SPARK_HOME": str(SPARK), "PYTHONPATH": str(ROOT)},
            )
        self._number = 0

    def run(self, statement: str) -> list[list[str]]:
        """Return the rows of a statement."""
        self._number += 1
        end = f"end of {self._number}"
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{statement};\nSELECT '{end}';\n".encode())
        self.process.stdin.flush()
        found: list[list[str]] = []
        for line in self.process.stdout:
            text = line.decode().rstrip("\n")
            if text == end:
                return found
            # The shell shows the statements, too.
            if not text.startswith("spark-sql ("):
                found.append(text.split("\t"))
        raise AssertionError(self.errors.read_text()[-3000:])

    def answer(self, statement: str) -> Rows | str:
        """Return the rows of a statement, or the error that it shows."""
        size = self.errors.stat().st_size
        rows = self.run(statement)
        errors = self.errors.read_bytes()[size:].decode().splitlines()
        # It also tells the time of each statement.
        return rows or "\n".join(line for line in errors if not line.startswith("Time taken")) or []

    def stop(self) -> None:
        """End it, and with it the engine."""
        self.process.kill()
        self.process.wait()

    @property
    def engine(self) -> int | None:
        """The process of the engine, a child of Java's."""
        found = subprocess.run(
            ["pgrep", "-P", str(self.process.pid), "python"],
            capture_output=True,
            text=True,
            check=False,
        )
        return int(found.stdout) if found.stdout.strip() else None


def by_beeline(server: Server, user: str, statements: list[str]) -> list[Rows | str]:
    """Run statements in one session of the Thrift server, and return the rows or the error of each."""
    ends = [f"end of {number}" for number in range(len(statements))]
    script = [
        text
        for statement, end in zip(statements, ends, strict=True)
        for text in (statement, f"SELECT '{end}'")
    ]
    options = ["--silent=true", "--showHeader=false", "--outputformat=tsv2", "--force=true"]
    url = f"jdbc:hive2://127.0.0.1:{server.port}/default"
    shown = subprocess.run(
        [str(SPARK / "bin" / "beeline"), "-u", url, "-n", user, *options, "-f", "/dev/stdin"],
        input=";\n".join(script) + ";\n",
        env={**os.environ, "SPARK_HOME": str(SPARK)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    ).stdout
    # The prompts.
    lines = re.sub(r"null {3,}null", "\n", shown).split("\n")
    answers: list[Rows | str] = []
    current: list[str] = []
    for line in lines:
        if line in ends:
            error = next((text for text in current if text.startswith("Error: ")), None)
            answers.append(error or [text.split("\t") for text in current if text])
            current = []
        elif not line.startswith(("\t", "WARNING")):
            current.append(line)
    assert len(answers) == len(statements), shown[-3000:]
    return answers


def by_connect(server: Server, user: str, statements: list[str]) -> list[Rows | str]:
    """Run statements in one session of the Connect server; after a "=" is an expression of Python."""
    url = f"sc://127.0.0.1:{server.port}/;user_id={user}"
    shown = subprocess.run(
        [sys.executable, "-c", _CLIENT, url],
        input=json.dumps(statements),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    answers = [json.loads(line) for line in shown.stdout.splitlines()]
    assert len(answers) == len(statements), shown.stderr[-3000:]
    return answers
