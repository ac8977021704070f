"""The metastores of these tests keep their tables on HDFS."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.storage.folder import Storage
from tests.fakes.metastore import FakeMetastore
from tests.faults.operations import Tables
from tests.hadoop.hdfs import Hdfs
from tests.hadoop.software import write_configuration
from tests.versions import VERSIONS

Strike = Callable[[str, int, Callable[[], None]], None]


@pytest.fixture(scope="session", autouse=True)
def settings_of_spark(hdfs: Hdfs) -> None:
    """Spark reads the settings of HDFS when it starts."""


@pytest.fixture(autouse=True)
def what_was_killed_runs_again(hdfs: Hdfs) -> Iterator[None]:
    """A test that kills a NameNode leaves one to the next test."""
    yield
    hdfs.revive()


@pytest.fixture
def interrupt(hdfs: Hdfs) -> Callable[[], None]:
    """Kills the NameNode, which starts again at once."""
    return hdfs.restart_namenode


@pytest.fixture
def strike(monkeypatch: pytest.MonkeyPatch) -> Strike:
    """Lets something happen before a method of Storage is called, after so many other calls."""

    def strike(method: str, calls: int, happens: Callable[[], None]) -> None:
        really = getattr(Storage, method)
        left = [None] * calls

        def struck(storage: Storage, *arguments: Any) -> Any:
            if left:
                left.pop()
            else:
                monkeypatch.setattr(Storage, method, really)
                happens()
            return really(storage, *arguments)

        monkeypatch.setattr(Storage, method, struck)

    return strike


def metastore_on(
    hdfs: Hdfs, version: str, factory: pytest.TempPathFactory, **more: Any
) -> EmbeddedMetastore:
    """A metastore, not yet started, whose tables are on HDFS."""
    directory = factory.mktemp(f"hms{version[0]}")
    return EmbeddedMetastore(
        version,
        directory=directory,
        settings={"metastore.warehouse.dir": f"{hdfs.uri}/{directory.name}"},
        hadoop=hdfs.client_settings,
        **more,
    )


def impatient_conf(hdfs: Hdfs, directory: Path) -> Path:
    """A folder for HADOOP_CONF_DIR with short timeouts for both clients, Hadoop's and ours."""
    settings = {
        **hdfs.client_settings,
        "dfs.client.retry.policy.enabled": "false",
        "dfs.replication": "1",
        "ipc.client.connect.max.retries": "1",
        "ipc.client.connect.retry.interval": "100",
        "dfs.client.failover.max.attempts": "2",
        "dfs.client.failover.sleep.base.millis": "100",
    }
    write_configuration(directory, {"core-site.xml": settings, "hdfs-site.xml": settings})
    return directory


@pytest.fixture(scope="session")
def hms4(hdfs: Hdfs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMetastore]:
    with metastore_on(hdfs, "4.0.1", tmp_path_factory) as metastore:
        yield metastore


@pytest.fixture(scope="session")
def hms3(hdfs: Hdfs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMetastore]:
    with metastore_on(hdfs, "3.1.3", tmp_path_factory) as metastore:
        yield metastore


@pytest.fixture(scope="session", params=VERSIONS)
def hms(request: pytest.FixtureRequest) -> EmbeddedMetastore:
    """The metastore, once per version; the real one also where elsewhere a fake one will do."""
    version = request.param.removeprefix("fake ")
    return request.getfixturevalue(f"hms{version[0]}")


@pytest.fixture(params=VERSIONS)
def tables(request: pytest.FixtureRequest, hdfs_folder: str, tmp_path: Path) -> Iterator[Tables]:
    """A table of three writes, which are done without Spark."""
    sources = tmp_path / "sources"
    sources.mkdir()
    with (
        FakeMetastore(request.param, directory=tmp_path, location=hdfs_folder) as metastore,
        MetastoreClient(metastore.options) as client,
    ):
        tables = Tables(client, "db", sources)
        tables.create(tables.main)
        tables.fill(tables.main)
        yield tables
