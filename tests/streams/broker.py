"""A Kafka broker in one JVM, and the jars of Spark to read from it."""

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pyspark

from hiveacid.metastore.dev.distribution import cache_folder, find_java, spark_jars
from hiveacid.metastore.dev.embedded import free_port

HERE = Path(__file__).parent
_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={logs}
num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""
# The jars that Spark does not contain.
_OF_SPARK = ("spark-sql-kafka", "kafka-clients", "commons-pool2")


def jars() -> Path:
    """A folder with the jars of the broker and of the connector."""
    home = cache_folder() / f"kafka-3.9.1-spark-{pyspark.__version__}"
    if not home.exists():
        cache_folder().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="kafka.", dir=cache_folder()) as scratch:
            subprocess.run(
                [
                    *("mvn", "--batch-mode", "--quiet", "dependency:copy-dependencies"),
                    *(f"-DoutputDirectory={scratch}/lib", "-DincludeScope=runtime"),
                    f"-Dspark.version={pyspark.__version__}",
                ],
                cwd=HERE,
                check=True,
            )
            Path(scratch, "lib").rename(home)
    return home


def jars_of_spark(scratch: Path) -> list[Path]:
    """The jars that a driver gets, with classes in place of those for delegation tokens."""
    classes = scratch / "tokens"
    sources = sorted((HERE / "java").rglob("*.java"))
    spark = spark_jars("ivy")[0].parent
    subprocess.run(
        ["javac", "-nowarn", "-d", classes, "-cp", f"{spark}/*", *sources],
        check=True,
        capture_output=True,
    )
    made = shutil.make_archive(str(scratch / "tokens"), "zip", classes)
    jar = Path(made).rename(scratch / "tokens.jar")
    return [jar, *(each for name in _OF_SPARK for each in jars().glob(f"{name}*.jar"))]


class Broker:
    """A broker that can be killed and restarted with its data.

    Attributes:
        address: Return its address for clients.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port, controller = free_port(), free_port()
        self.address = f"127.0.0.1:{self._port}"
        self._settings = folder / "server.properties"
        self._settings.write_text(
            _SETTINGS.format(port=self._port, controller=controller, logs=folder / "logs")
        )
        self._run(
            "kafka.tools.StorageTool",
            *("format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", str(self._settings)),
        )
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        with (self._folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._java("kafka.Kafka", str(self._settings)), stdout=log, stderr=log
            )
        deadline = time.monotonic() + 120
        while not self._answers():
            assert self._process.poll() is None, (self._folder / "broker.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
        except OSError:
            return False
        return True

    @contextmanager
    def producer(self, topic: str) -> Iterator["Producer"]:
        """A sender of rows to a topic; at the end the broker has them all."""
        arguments = [
            *("--bootstrap-server", self.address, "--topic", topic, "--timeout", "5"),
            *("--message-send-max-retries", "1000000"),
            *("--producer-property", "acks=all", "--producer-property", "enable.idempotence=true"),
            *("--producer-property", "delivery.timeout.ms=600000"),
        ]
        program = self._java("kafka.tools.ConsoleProducer", *arguments)
        with (self._folder / "producer.log").open("w+b") as log:
            process = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=log, stderr=log)
            try:
                yield Producer(process)
                process.communicate(timeout=300)
            finally:
                process.kill()
                process.wait()
            log.seek(0)
            assert process.returncode == 0, log.read().decode()

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(self._java(program, *arguments), check=True, capture_output=True)

    def _java(self, program: str, *arguments: str) -> list[str]:
        options = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        return [str(find_java()), *options, "-cp", f"{jars()}/*", program, *arguments]


class Producer:
    """Sends rows in their order, each once, also while the broker is away.

    Args:
        process: A console producer.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def send(self, lines: Iterable[str]) -> None:
        """Send rows; the broker gets them soon."""
        assert self._process.stdin is not None
        self._process.stdin.write("".join(f"{line}\n" for line in lines).encode())
        self._process.stdin.flush()
