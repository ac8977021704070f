"""Lets Spark start in a third of its time: its classes come parsed, from an archive of Java's.

Tests start dozens of short-lived Sparks, and each would spend ten seconds of two processors on
reading the same classes. The archive is made once for each Java and each Spark, and kept where the
metastores are kept. A Java that cannot make it or use it starts as it always did.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from hiveacid.metastore.dev.distribution import find_java

# A short life: thorough compilation takes longer than it would save. Messages about the archive are
# suppressed.
SHORT_LIFE = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData -Xlog:disable"

# Spark 3.5 runs on older versions than metastores.
_VERSIONS = range(11, 26)

# The common actions of tests: write ORC, read it with a shuffle, and call Python.
_TYPICAL = """\
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
rows = spark.createDataFrame([(1, "a", "x"), (2, "b", "y")], "id int, v string, p string")
rows.write.partitionBy("p").orc(sys.argv[1])
read = spark.read.orc(sys.argv[1])
read.alias("t").join(rows.alias("s"), "id").groupBy("s.v").count().orderBy("v").collect()
read.rdd.map(lambda row: row.id).collect()
spark.stop()
"""


def options(cache: Path) -> dict[str, str]:
    """Return the environment for a fast start of Spark.

    Args:
        cache: The folder of the archive, which is created if it is missing.
    """
    archive = _archive(cache)
    return {
        "SPARK_LAUNCHER_OPTS": SHORT_LIFE,
        "SPARK_SUBMIT_OPTS": f"{SHORT_LIFE} -XX:SharedArchiveFile={archive} -Xshare:auto",
    }


def _archive(cache: Path) -> Path:
    import pyspark

    java = find_java(_VERSIONS)
    version = subprocess.run([java, "-version"], capture_output=True, check=True).stderr
    text = b"\0".join([version, pyspark.__file__.encode(), pyspark.__version__.encode()])
    archive = cache / f"spark-{hashlib.sha256(text).hexdigest()[:16]}.jsa"
    cache.mkdir(parents=True, exist_ok=True)
    with archive.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            _make(archive)
    return archive


def _make(archive: Path) -> None:
    """Run something typical and keep the classes that it took; under its name once it is whole."""
    import pyspark

    partial = archive.with_suffix(f".{os.getpid()}")
    program, table = partial.with_suffix(".py"), partial.with_suffix(".table")
    program.write_text(_TYPICAL)
    conf = ["spark.ui.enabled=false", "spark.sql.shuffle.partitions=2", "spark.log.level=OFF"]
    submit = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2]"]
    submit += [word for setting in conf for word in ("--conf", setting)]
    environment = {
        "SPARK_SUBMIT_OPTS": f"{SHORT_LIFE} -XX:ArchiveClassesAtExit={partial}",
        "PYSPARK_PYTHON": sys.executable,
    }
    subprocess.run(
        [*submit, str(program), str(table)],
        env=os.environ | environment,
        check=False,
        capture_output=True,
    )
    # A Java that was installed without an archive of its own refuses to make one.
    if partial.exists():
        partial.rename(archive)
    program.unlink()
    shutil.rmtree(table, ignore_errors=True)
