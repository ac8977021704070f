"""The metastores of these tests keep their tables on HDFS."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.dev.embedded import EmbeddedMetastore
from tests.conftest import VERSIONS
from tests.fakes.metastore import FakeMetastore
from tests.faults.operations import Tables
from tests.hadoop.hdfs import RETRIES, Hdfs


@pytest.fixture(scope="session", autouse=True)
def settings_of_spark(hdfs: Hdfs) -> None:
    """Spark reads the settings of HDFS when it starts."""


def _metastore(
    version: str, hdfs: Hdfs, factory: pytest.TempPathFactory
) -> Iterator[EmbeddedMetastore]:
    with EmbeddedMetastore(
        version,
        directory=factory.mktemp(f"hms{version[0]}"),
        settings={"metastore.warehouse.dir": f"{hdfs.uri}/warehouse-{version}"},
        hadoop={"fs.defaultFS": hdfs.uri, **RETRIES},
    ) as metastore:
        yield metastore


@pytest.fixture(scope="session")
def hms4(hdfs: Hdfs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMetastore]:
    yield from _metastore("4.0.1", hdfs, tmp_path_factory)


@pytest.fixture(scope="session")
def hms3(hdfs: Hdfs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMetastore]:
    yield from _metastore("3.1.3", hdfs, tmp_path_factory)


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
