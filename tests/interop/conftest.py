"""The engines that our tables are checked with: started once, ended with the tests."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.interop.engines import Hive, HiveMetastore, Trino


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("interop")


@pytest.fixture(scope="session")
def warehouse(folder: Path) -> Path:
    warehouse = folder / "warehouse"
    warehouse.mkdir()
    return warehouse


@pytest.fixture(scope="session")
def metastore(folder: Path, warehouse: Path) -> Iterator[HiveMetastore]:
    with closing(HiveMetastore(folder, warehouse)) as metastore:
        yield metastore


@pytest.fixture(scope="session")
def hive(folder: Path, warehouse: Path, metastore: HiveMetastore) -> Iterator[Hive]:
    with closing(Hive(folder, metastore.uri, warehouse)) as hive:
        yield hive


@pytest.fixture(scope="session")
def trino(folder: Path, metastore: HiveMetastore) -> Iterator[Trino]:
    with closing(Trino(folder, metastore.uri)) as trino:
        yield trino
