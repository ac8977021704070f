"""A small Spark, started once and only when a test asks for it."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.extraJavaOptions", "-Duser.timezone=UTC")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    ours = session.newSession()
    # Spark would resolve the filters against the wrong columns of an ACID file.
    ours.conf.set("spark.sql.orc.filterPushdown", "false")
    ours.conf.set("spark.sql.session.timeZone", "UTC")
    yield ours
    session.stop()
