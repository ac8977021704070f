"""The jar of the scan: its first use in sessions, on executors, and from a zip; jars of other versions."""

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from airflow_hiveacid.cluster.packaged import package_zip
from hiveacid.errors import SoftwareMissing
from hiveacid.spark import java_scan as module
from hiveacid.spark.java.compile import digest, scala_of
from hiveacid.spark.java_objects import kept_objects
from hiveacid.spark.java_scan import JARS, SOURCES, jar_name, java_scan
from tests.engine.scan_jars import CLASS, load_all, sources_in
from tests.java_calls import counted_java_calls

SCALA = scala_of(Path(pyspark.__file__).parent)
# A function of Spark that loads a class on the executor that evaluates the row.
LOAD = f"reflect('org.apache.spark.util.Utils', 'classForName', '{CLASS}', true, false)"
_FROM_A_ZIP = f"""
import sys
from pyspark.sql import SparkSession
from hiveacid.spark import java_scan as module

def start(master):
    return SparkSession.builder.master(master).config("spark.ui.enabled", "false").getOrCreate()

def tasks(spark):
    return [row[0] for row in spark.range(0, 4, 1, 4).selectExpr("{LOAD}").collect()]

assert ".zip" in module.__file__, module.__file__
spark = start("local[1]")
print(module.java_scan(spark).sources())
spark.stop()
# The driver has the class of the first context. The new executors have nothing.
spark = start("local-cluster[1,1,1024]")
assert spark.range(4).count() == 4
print(module.java_scan(spark).sources())
print(*set(tasks(spark)))
"""


@pytest.fixture
def unused(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A context whose next use of the scan is its first one."""
    kept = kept_objects(spark)
    before = kept.pop(module._SCAN, None)
    yield monkeypatch
    kept.pop(module._SCAN, None)
    if before is not None:
        kept[module._SCAN] = before


@pytest.mark.every_spark
def test_a_running_session_gets_the_jar_at_its_first_use(
    spark: SparkSession, unused: pytest.MonkeyPatch
) -> None:
    assert java_scan(spark).sources() == digest(SCALA)
    loaded = spark.range(0, 4, 1, 4).selectExpr(LOAD).collect()
    assert {row[0] for row in loaded} == {f"class {CLASS}"}


@pytest.mark.every_spark
def test_every_class_of_the_jar_fits_this_spark(spark: SparkSession) -> None:
    classes = load_all(spark, Path(str(JARS), jar_name(SCALA)))
    assert sources_in(spark, classes[CLASS]) == digest(SCALA)


def test_further_uses_of_a_context_call_no_java(spark: SparkSession) -> None:
    first = java_scan(spark)
    with counted_java_calls() as calls:
        assert java_scan(spark) is first
        assert java_scan(spark.newSession()) is first
    # That of newSession itself.
    assert calls.count <= 5


def test_a_jar_of_another_version_is_refused(
    spark: SparkSession, unused: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    java_scan(spark)
    del kept_objects(spark)[module._SCAN]
    with zipfile.ZipFile(tmp_path / jar_name(SCALA), "w") as jar:
        jar.writestr(SOURCES, "0" * 64)
    unused.setattr(module, "JARS", tmp_path)
    jars = spark.sparkContext._jsc.sc().listJars().toString()
    with pytest.raises(SoftwareMissing) as refused:
        java_scan(spark)
    assert f"from file:{spark.sparkContext._temp_dir}/hiveacid-scan_{SCALA}-" in refused.value.what
    assert "spark.jars, --jars" in refused.value.remedy
    # The executors do not get it, either.
    assert spark.sparkContext._jsc.sc().listJars().toString() == jars
    with pytest.raises(SoftwareMissing):
        java_scan(spark)


def test_a_jar_without_the_class_names_the_setting(
    spark: SparkSession, unused: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with zipfile.ZipFile(tmp_path / jar_name(SCALA), "w") as jar:
        jar.writestr(SOURCES, "0" * 64)
    unused.setattr(module, "JARS", tmp_path)
    unused.setattr(module, "_CLASS", "org.hiveacid.spark.Missing")
    with pytest.raises(
        SoftwareMissing, match=r"ClassNotFoundException: org.hiveacid.spark.Missing"
    ) as refused:
        java_scan(spark)
    assert f"{tmp_path / jar_name(SCALA)} in spark.jars" in refused.value.remedy


def test_a_missing_jar_names_the_command(
    spark: SparkSession, unused: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    unused.setattr(module, "JARS", tmp_path)
    with pytest.raises(SoftwareMissing, match="make setup") as missing:
        java_scan(spark)
    assert (
        missing.value.what
        == f"The jar for Spark with Scala {SCALA} is missing: {tmp_path / jar_name(SCALA)}."
    )


@pytest.mark.server
def test_drivers_and_executors_get_the_jar_from_the_zip_of_an_application(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(_FROM_A_ZIP)
    path = [package_zip(tmp_path), Path(pyspark.__file__).parents[1]]
    # The local cluster writes to its home.
    home = tmp_path / "spark"
    home.mkdir()
    for name in ("bin", "jars"):
        (home / name).symlink_to(Path(pyspark.__file__).with_name(name))
    variables = {"PYTHONPATH": os.pathsep.join(map(str, path)), "SPARK_HOME": str(home)}
    ended = subprocess.run(
        [sys.executable, program],
        env=os.environ | variables,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    expected = [digest(SCALA), digest(SCALA), f"class {CLASS}"]
    assert ended.stdout.splitlines() == expected, ended.stderr[-4000:]
