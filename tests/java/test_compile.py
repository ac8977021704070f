"""The compilation of the scan: by both compilers, and whenever the sources have changed."""

import shutil
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from hiveacid.errors import JobFailed
from hiveacid.spark.java import compile as module
from hiveacid.spark.java.compile import compile_scan, current_jar, digest, scala_of, sources
from hiveacid.spark.java_scan import JARS, jar_name, sources_of
from tests.engine.scan_jars import CLASS, load_all, sources_in

SPARK = Path(pyspark.__file__).parent
SCALA = scala_of(SPARK)


@pytest.fixture
def changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source file of a copy of the sources."""
    copy = tmp_path / "java"
    shutil.copytree(module.ROOT, copy)
    monkeypatch.setattr(module, "ROOT", copy)
    return copy / next(iter(sources(SCALA)))


def test_the_jar_of_the_package_belongs_to_the_sources() -> None:
    assert sources_of((JARS / jar_name(SCALA)).read_bytes()) == digest(SCALA)


def test_a_changed_source_changes_the_digest(changed: Path) -> None:
    before = digest(SCALA)
    changed.write_text(changed.read_text() + "\n")
    after = digest(SCALA)
    changed.rename(changed.with_name("Renamed.java"))
    assert len({before, after, digest(SCALA)}) == 3


def test_lines_of_scala_have_separate_sources() -> None:
    assert digest("2.12") != digest("2.13")
    differing = [path for path, text in sources("2.12").items() if text != sources("2.13")[path]]
    assert differing == ["org/hiveacid/spark/Scala.java"]


def test_a_folder_without_spark_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="is not of a supported Spark: no Scala"):
        current_jar(tmp_path)


@pytest.mark.parametrize("eclipse", [False, True], ids=["javac", "eclipse"])
def test_both_compilers_make_a_jar_whose_classes_load(
    spark: SparkSession, tmp_path: Path, eclipse: bool
) -> None:
    jar = tmp_path / "scan.jar"
    compile_scan(SPARK, jar, eclipse=eclipse)
    classes = load_all(spark, jar)
    assert sources_in(spark, classes[CLASS]) == digest(SCALA)
    assert list(tmp_path.iterdir()) == [jar]


@pytest.mark.server
def test_only_changed_sources_are_compiled_again(changed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "jars"
    first = current_jar(SPARK, folder)
    inode, content = first.stat().st_ino, first.read_bytes()
    assert current_jar(SPARK, folder).stat().st_ino == inode
    original = changed.read_text()
    changed.write_text(f"{original}\n")
    assert sources_of(current_jar(SPARK, folder).read_bytes()) == digest(SCALA)
    changed.write_text(original)
    # Equal sources become an equal jar.
    assert current_jar(SPARK, folder).read_bytes() == content


@pytest.mark.server
def test_an_invalid_source_ends_with_the_message_of_the_compiler(
    changed: Path, tmp_path: Path
) -> None:
    changed.write_text(changed.read_text().replace("class", "klass"))
    with pytest.raises(SystemExit, match=rf"(?s)cannot be compiled.*{changed.name}"):
        current_jar(SPARK, tmp_path)
    assert not (tmp_path / jar_name(SCALA)).exists()


@pytest.mark.server
def test_a_changed_download_is_refused(
    changed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIVEACID_CACHE", str(tmp_path / "cache"))
    listed = module.ROOT / "downloads.sha256"
    listed.write_text(f"{'0' * 64}  ecj-3.40.0.jar\n")
    with pytest.raises(JobFailed, match=r"ecj-3\.40\.0\.jar has the SHA-256 checksum"):
        compile_scan(SPARK, tmp_path / "scan.jar", eclipse=True)
    assert list((tmp_path / "cache").iterdir()) == []
