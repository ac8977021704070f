"""The engines that our tables are checked with: started once, ended with the tests."""

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_hiveacid.engine.session import APPLICATION_SETTINGS
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


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    builder = SparkSession.Builder().master("local[1]").config("spark.ui.enabled", "false")
    for key, value in APPLICATION_SETTINGS.items():
        builder = builder.config(key, value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
        yield session
        session.stop()
