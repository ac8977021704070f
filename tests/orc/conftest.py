"""The Spark of all tests, without settings that would disturb it in its own files."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(spark: "SparkSession") -> "SparkSession":
    ours = spark.newSession()
    # Spark would resolve the filters against the wrong columns of an ACID file.
    ours.conf.set("spark.sql.orc.filterPushdown", "false")
    ours.conf.set("spark.sql.session.timeZone", "UTC")
    return ours
