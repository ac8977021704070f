"""Real metastores and a real Spark for every test that wants one; each starts at most once."""

import itertools
import json
import logging
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from hypothesis import settings

from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.distribution import cache_folder
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.thrift.answers import TxnState
from tests import java_archive
from tests.fakes.metastore import FakeMetastore
from tests.google_store import BUCKET, google_store
from tests.hadoop.hdfs import Hdfs, running
from tests.s3.store import S3Store
from tests.samples import ONLY_SAMPLES, QUICK, left_out
from tests.unused_reads import end_unused_reads
from tests.upkeep.acid_folders import AcidFolders
from tests.vendors.profiles import Profile
from tests.vendors.proxy import of_vendor
from tests.versions import REAL, VENDOR

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A busy machine must not turn a property into a race against the clock.
settings.register_profile("hiveacid", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=10)
settings.load_profile("quick" if QUICK else "hiveacid")

KEY_FILE = "AIRFLOW__HIVE_ACID__SIGNING_KEY_FILE"
# The fixtures of metastores, by version.
_METASTORES = {"4.0.1": "hms4", "3.1.3": "hms3", "4.1.0": "hms41", "4.2.0": "hms42"}
# Those of `places` are no servers, but a minute of many processes.
_SERVERS = frozenset({*_METASTORES.values(), "spark", "places", "hdfs", "s3", "gcs"})
# Whole suites that start servers of many kinds.
_JAVA_THAT_STARTS_NOTHING = """\
#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "17.0.1"' >&2; exit 0; fi
echo "A test that starts Java by itself wants the mark server (pytest.mark.server)." >&2
exit 97
"""
# An import of Spark is an error, also in the processes that Python starts.
_NO_SPARK = """
import sys
for name in ("pyspark", "py4j"):
    sys.modules[name] = None
"""
# With one level of compilation Java keeps room for 48 MB of code; once that is full, after some
# hundred queries, it compiles nothing any more.
_JAVA_OPTIONS = (
    "-Duser.timezone=UTC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=512m "
    # The objects of a statement become garbage before this is full.
    "-Xmn512m"
)


def pytest_configure(config: pytest.Config) -> None:
    """Leave the long suites out unless markers are selected.

    ``-m unit`` also leaves servers out, and ``-m quick`` those that take a second.
    """
    more = {"": [], "unit": ["server"], "quick": ["server", "thorough"]}
    if (extra := more.get(config.option.markexpr)) is not None:
        marks = _suites(config) + extra
        config.option.markexpr = " and ".join(f"not {mark}" for mark in marks)


def _suites(config: pytest.Config) -> list[str]:
    """The markers of the suites that have a target of `make`, as pyproject.toml describes them."""
    return [mark.split(":")[0] for mark in config.getini("markers") if "run with `make" in mark]


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    """Mark tests with a metastore or a Spark, by their fixtures: `make unit` leaves those out."""
    # A run of another suite excludes the tests for newer metastores.
    if not re.search(r"(?<!not )metastores", config.option.markexpr):
        _leave_out(config, items, {item for item in items if item.get_closest_marker("metastores")})
    if VENDOR is not None:
        others = re.compile("|".join(map(re.escape, {*_METASTORES} - {VENDOR.apache})))
        _leave_out(config, items, {item for item in items if others.search(item.name)})
        _leave_out(config, items, {item for item in items if _needs_more(item, VENDOR)})
    suites = _suites(config)
    with_server = {item for item in items if _takes_a_server(item, suites)}
    for item in with_server:
        item.add_marker("server")
    # Pytest selects by marks: a sample of all cases could consist of those of another suite.
    yield
    if ONLY_SAMPLES:
        _leave_out(config, items, left_out(items, with_server.__contains__))
    # The longest file comes first: in the end one of two workers would wait for it.
    items.sort(key=lambda item: "histories" not in item.path.parts)


def _needs_more(item: pytest.Item, vendor: Profile) -> bool:
    """Return whether a test is about features that a vendor's metastore does not have."""
    return any(vendor.lacks(name) for mark in item.iter_markers("needs") for name in mark.args)


def _leave_out(config: pytest.Config, items: list[pytest.Item], others: set[pytest.Item]) -> None:
    config.hook.pytest_deselected(items=[*others])
    items[:] = [item for item in items if item not in others]


def _takes_a_server(item: pytest.Item, suites: Sequence[str]) -> bool:
    if not isinstance(item, pytest.Function):
        return False
    if any(item.get_closest_marker(mark) for mark in (*suites, "server")):
        return True
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    real = "hms" in item.fixturenames and not str(parameters["hms"]).startswith("fake")
    return real or not _SERVERS.isdisjoint(item.fixturenames)


@pytest.fixture(scope="session")
def fast_java() -> Iterator[None]:
    """Make every Spark that tests start in any way start fast."""
    with pytest.MonkeyPatch.context() as patch:
        for name, options in java_archive.options(cache_folder()).items():
            patch.setenv(name, options)
        yield


@pytest.fixture(scope="session")
def java_that_starts_nothing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for JAVA_HOME whose `java` knows its version and refuses all else."""
    home = tmp_path_factory.mktemp("java")
    program = home / "bin" / "java"
    program.parent.mkdir()
    program.write_text(_JAVA_THAT_STARTS_NOTHING)
    program.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def java_only_with_the_mark(
    request: pytest.FixtureRequest,
    java_that_starts_nothing: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fail a test that starts Java by itself without the mark `server`."""
    if request.node.get_closest_marker("server") is not None:
        request.getfixturevalue("fast_java")
    else:
        monkeypatch.setenv("JAVA_HOME", str(java_that_starts_nothing))


AMetastore = TypeVar("AMetastore", EmbeddedMetastore, FakeMetastore)
# Those that tests of several files use, as long as they run.
_SHARED: list[Any] = []


def _shared(metastore: AMetastore) -> Iterator[AMetastore]:
    with metastore, of_vendor(metastore) as seen:
        _SHARED.append(seen)
        yield seen
        _SHARED.remove(seen)


def _real(version: str, factory: pytest.TempPathFactory) -> Iterator[EmbeddedMetastore]:
    yield from _shared(EmbeddedMetastore(version, directory=factory.mktemp(_METASTORES[version])))


@pytest.fixture(scope="session")
def hms4(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMetastore]:
    yield from _real("4.0.1", tmp_path_factory)


@pytest.fixture(scope="session")
def hms3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMetastore]:
    yield from _real("3.1.3", tmp_path_factory)


@pytest.fixture(scope="session")
def hms41(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMetastore]:
    yield from _real("4.1.0", tmp_path_factory)


@pytest.fixture(scope="session")
def hms42(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMetastore]:
    yield from _real("4.2.0", tmp_path_factory)


@pytest.fixture(scope="session")
def fake4(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeMetastore]:
    yield from _shared(FakeMetastore("4.0.1", directory=tmp_path_factory.mktemp("fake4")))


@pytest.fixture(scope="session")
def fake3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeMetastore]:
    yield from _shared(FakeMetastore("3.1.3", directory=tmp_path_factory.mktemp("fake3")))


@pytest.fixture(scope="session", params=REAL)
def hms(request: pytest.FixtureRequest) -> EmbeddedMetastore | FakeMetastore:
    """The metastore, once per version."""
    fake, _, version = request.param.rpartition(" ")
    return request.getfixturevalue(f"fake{version[0]}" if fake else _METASTORES[version])


@pytest.fixture(scope="session")
def hdfs(fast_java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """An HDFS, whose settings every client in this process finds."""
    with running(Hdfs(tmp_path_factory.mktemp("hdfs"))) as cluster:
        yield cluster


@pytest.fixture
def hdfs_folder(hdfs: Hdfs, tmp_path: Path) -> str:
    """The location of a folder of the test's own, which is not there yet."""
    return f"{hdfs.uri}{tmp_path}"


@pytest.fixture
def hiveacid_without_java(tmp_path: Path, client: MetastoreClient) -> Callable[..., dict[str, Any]]:
    """Run a command in a process that finds neither Java nor Spark, and return its JSON."""
    (tmp_path / "sitecustomize.py").write_text(_NO_SPARK)
    (tmp_path / "bin").mkdir()
    left_out = ("PATH", "JAVA_HOME", "SPARK_HOME", "PYTHONPATH")
    environment = {name: text for name, text in os.environ.items() if name not in left_out}
    environment["PATH"] = str(tmp_path / "bin")
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[1])])

    def run(*arguments: str) -> dict[str, Any]:
        options = ["--metastore", client.options.uris, "--json"]
        done = subprocess.run(
            [sys.executable, "-m", "hiveacid.cli.main", *arguments, *options],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    return run


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Store]:
    """An S3 store, which every client in this process finds."""
    with S3Store(tmp_path_factory.mktemp("s3")) as store, pytest.MonkeyPatch.context() as patch:
        for name, value in store.environment.items():
            patch.setenv(name, value)
        yield store


@pytest.fixture
def s3_folder(s3: S3Store, tmp_path: Path) -> str:
    """The location of a folder of the test's own, which is not there yet."""
    s3.proxy.reset()
    return f"{s3.uri}{tmp_path}"


@pytest.fixture(scope="session")
def gcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The location of a bucket of a store like Google's, which this process finds."""
    with (
        google_store(tmp_path_factory.mktemp("gcs")) as address,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("STORAGE_EMULATOR_HOST", address)
        yield f"gs://{BUCKET}"


@pytest.fixture
def gcs_folder(gcs: str, tmp_path: Path) -> str:
    """The location of a folder of the test's own, which is not there yet."""
    return f"{gcs}{tmp_path}"


def _contents(metastore: Any) -> tuple[list[Any], ...]:
    end_unused_reads()
    with MetastoreClient(metastore.options) as client:
        databases, locks = client.get_databases(), client.show_locks()
        open_txns = [txn for txn in client.get_open_txns_info() if txn.state is TxnState.OPEN]
    return databases, locks, open_txns


@pytest.fixture(scope="module", autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """Fail a file that leaves objects in a shared metastore which tests of other files may find
    there."""
    before = {metastore.uri: _contents(metastore) for metastore in _SHARED}
    yield
    for metastore in _SHARED:
        assert _contents(metastore) == before.get(metastore.uri, (["default"], [], [])), metastore


@pytest.fixture
def client(hms: EmbeddedMetastore) -> Iterator[MetastoreClient]:
    client = MetastoreClient(hms.options)
    yield client
    client.close()


_NUMBERS = itertools.count(1)


@pytest.fixture
def database(client: MetastoreClient) -> Iterator[str]:
    """An empty database of the test's own."""
    name = f"test_{next(_NUMBERS)}"
    client.create_database(name)
    yield name
    client.drop_database(name, cascade=True)


@pytest.fixture
def folders(client: MetastoreClient, database: str) -> AcidFolders:
    """A table t whose directories a test writes."""
    return AcidFolders.create(client, f"{database}.t")


@pytest.fixture
def signing_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file with the key by which this installation signs records."""
    path = tmp_path / "key"
    path.write_text("a secret of thirty two characters")
    monkeypatch.setenv(KEY_FILE, str(path))
    return path


def _remembering(look_up: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    """Look up a Java class or package once: Java searches all archives for every part of a name."""

    def remembered(place: Any, name: str) -> Any:
        member = vars(place)[name] = look_up(place, name)
        return member

    return remembered


@pytest.fixture(scope="session")
def spark_settings() -> dict[str, str]:
    """Additional settings of Spark; a folder of tests may have its own."""
    return {}


@pytest.fixture(scope="session")
def spark(
    fast_java: None, spark_settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator["SparkSession"]:
    from py4j.java_gateway import JavaPackage, JVMView
    from pyspark.sql import SparkSession

    # It reports closed connections while Python ends, when there is no output any more.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        # The tables of tests are so small that no task of Spark would run.
        patch.setattr("hiveacid.spark.parallel.DRIVER_BYTES", 0)
        for place in (JVMView, JavaPackage):
            patch.setattr(place, "__getattr__", _remembering(place.__getattr__))
        session = (
            SparkSession.builder.master("local[2]")
            .appName("hiveacid-tests")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            # Every plan is also written for the page, which no test opens.
            .config("spark.sql.ui.explainMode", "simple")
            # A task that finds no memory ends the whole process, and with it every later test.
            .config("spark.driver.memory", "2g")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.default.parallelism", "2")
            .config("spark.python.daemon.module", "tests.spark_workers")
            .config("spark.driver.extraJavaOptions", _JAVA_OPTIONS)
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("spark")))
            .config(map=dict(spark_settings))
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("OFF")
        # Except events that end the whole process, and with it every later test.
        log4j = session._jvm.org.apache.logging.log4j
        end = "org.apache.spark.util.SparkUncaughtExceptionHandler"
        log4j.core.config.Configurator.setLevel(end, log4j.Level.ERROR)
        process = session.sparkContext._gateway.proc
        yield session
        if (status := process.poll()) is not None:
            pytest.fail(f"Spark's process ended by itself, with status {status}.")
        session.stop()


@pytest.fixture
def eventually() -> Callable[..., None]:
    """Wait until something holds: eventually("the lock waits", lambda: ...)."""

    def wait(what: str, holds: Callable[[], bool], seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
            time.sleep(0.02)

    return wait
