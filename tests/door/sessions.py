"""Sessions of Spark with the door in this process."""

import gc

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from hiveacid.metastore.client import MetastoreClient
from hiveacid.spark.spark_versions import SPARK_4_0, VERSION
from tests.engine.acid_tables import left_behind


def collect_garbage(spark: SparkSession, client: MetastoreClient) -> None:
    """Wait until the reads of plans have ended that nothing refers to."""
    for _ in range(100):
        gc.collect()
        spark._jvm.java.lang.System.gc()
        if not left_behind(client):
            return
    raise AssertionError(left_behind(client))


def condition_of(error: PySparkException) -> str | None:
    """Return the condition of an error, which Spark 3.5 calls its class."""
    return error.getCondition() if VERSION >= SPARK_4_0 else error.getErrorClass()
