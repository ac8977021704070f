"""The supported versions of Spark, each with the Python packages of its newest release."""

import fcntl
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from hiveacid.metastore.dev.distribution import cache_folder
from hiveacid.spark.java.compile import current_jar
from hiveacid.spark.spark_versions import SPARK_4_0, SPARK_4_1, VERSION

# Beside the installed version, with which all tests run.
OTHERS = {"3.5": "3.5.9", "4.0": "4.0.5", "4.2": "4.2.1", "4.3": "4.3.0"}

# docs/platforms.md lists what the older versions lack.
NEEDS_SPARK_4_0 = pytest.mark.skipif(VERSION < SPARK_4_0, reason="needs Spark 4.0")
NEEDS_SPARK_4_1 = pytest.mark.skipif(VERSION < SPARK_4_1, reason="needs Spark 4.1")


def packages(version: str) -> Path:
    """Return a folder with pyspark, for PYTHONPATH; that of another version is downloaded once.

    The package has a jar for it.
    """
    folder = _folder(version)
    current_jar(folder / "pyspark")
    return folder


def _folder(version: str) -> Path:
    if tuple(map(int, version.split("."))) == VERSION:
        return Path(pyspark.__file__).parents[1]
    release = OTHERS[version]
    folder = cache_folder() / f"spark-{release}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            partial = folder.with_suffix(".partial")
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-warn-conflicts"]
            subprocess.run(
                [*pip, "--upgrade", "--target", str(partial), f"pyspark=={release}"], check=True
            )
            partial.rename(folder)
    return folder


if __name__ == "__main__":
    print(packages(sys.argv[1]))
