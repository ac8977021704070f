from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.golden_versions import adopted
from tests.iceberg.case import ExportCase


@pytest.fixture
def case(tmp_path: Path) -> Iterator[ExportCase]:
    """A table of Hive with deletes, and an empty catalog of Iceberg."""
    with adopted("plain_crud", None, tmp_path / "hive") as hive:  # type: ignore[arg-type]
        yield ExportCase(hive, tmp_path)


@pytest.fixture(scope="session")
def spark_settings() -> dict[str, str]:
    """The settings of a Spark with Iceberg's runtime, which is fetched once."""
    return {
        "spark.jars.packages": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
        "spark.jars.excludes": "org.slf4j:*",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    }
