"""The Spark that everything is measured in."""

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from hiveacid.spark.session import APPLICATION_SETTINGS

TASKS = 2
CODEC = "zlib"


def session(
    folder: Path, memory: str = "4g", settings: Mapping[str, str] | None = None
) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(f"local[{TASKS}]").appName("bench")
    builder = builder.config("spark.driver.memory", memory).config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.warehouse.dir", str(folder / "spark"))
    builder = builder.config("spark.sql.shuffle.partitions", str(TASKS))
    for key, value in (APPLICATION_SETTINGS | dict(settings or {})).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def jobs_so_far(spark: SparkSession) -> int:
    """Return the number of jobs that this Spark has started."""
    return spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs()  # type: ignore[union-attr]


def seconds_of(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
