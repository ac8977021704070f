"""The engines that our tables are checked with: started once, ended with the tests."""

import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hiveacid.spark.session import APPLICATION_SETTINGS
from tests.interop.checked import Checked
from tests.interop.engines import Hive, Trino

pytest.register_assert_rewrite("tests.interop.checking")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("interop")


@pytest.fixture(scope="session")
def warehouse(folder: Path) -> Path:
    warehouse = folder / "warehouse"
    warehouse.mkdir()
    return warehouse


@pytest.fixture(scope="session")
def hive(folder: Path, warehouse: Path) -> Iterator[Hive]:
    with closing(Hive(folder, warehouse)) as hive:
        yield hive


@pytest.fixture(scope="session")
def trino(folder: Path, hive: Hive) -> Iterator[Trino]:
    with closing(Trino(folder, hive.metastore_uri)) as trino:
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


@pytest.fixture
def create_table(
    spark: SparkSession, hive: Hive, trino: Trino, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], Checked]:
    """Create a table of one of the SHAPES."""
    return lambda shape: Checked(shape, spark, hive, trino, capsys)
