"""The compilation of the scan into the jars of the package: ``python -m hiveacid.spark.java.compile``.

Each line of Scala has its own jar, since signatures of Spark contain the class ``Seq`` of another package. The compiler is the ``javac`` beside ``java``. A Java without one runs Eclipse's
compiler, which Ivy fetches.
"""

import argparse
import hashlib
import os
import re
import subprocess
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from hiveacid.metastore.dev.distribution import (
    cache_folder,
    find_java,
    ivy_command,
    require_checksums,
    spark_jars,
)
from hiveacid.spark import java_scan
from hiveacid.spark.java_scan import SOURCES, jar_name, sources_of

ROOT = Path(__file__).parent
JARS = Path(java_scan.__file__).with_name("jars")
_ECLIPSE = ("org.eclipse.jdt", "ecj", "3.40.0")
# The oldest Java of the Sparks of each line of Scala.
_OLDEST_JAVA = {"2.12": 11, "2.13": 17}
_NEWER_SEQ = re.compile(r"scala\.collection\.immutable\.((?:Indexed)?Seq);")
_LIBRARY = re.compile(r"scala-library-(2\.\d+)\.\d+\.jar")
# One fixed time makes equal content an equal jar, whenever it is built.
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)


def main(arguments: Sequence[str] | None = None) -> None:
    """Compile the scan for the installed Spark and others, unless its jars belong to the sources."""
    parser = argparse.ArgumentParser(prog="hiveacid.spark.java.compile", description=__doc__)
    parser.add_argument("others", nargs="*", type=Path, help="the folders of other Sparks")
    installed = spark_jars("scala-library")[0].parents[1]
    for spark in (installed, *parser.parse_args(arguments).others):
        print(f"{current_jar(spark)} belongs to the sources")


def current_jar(spark: Path, folder: Path = JARS) -> Path:
    """Return the jar of a folder for a Spark, compiled if it does not belong to the sources.

    Args:
        spark: The folder of the Spark, with its ``jars``.
        folder: The folder of the jar.
    """
    scala = scala_of(spark)
    jar = folder / jar_name(scala)
    if not jar.exists() or sources_of(jar.read_bytes()) != digest(scala):
        compile_scan(spark, jar)
    # Newer than the sources, for make.
    jar.touch()
    return jar


def scala_of(spark: Path) -> str:
    """Return the line of Scala of a Spark."""
    matches = [_LIBRARY.fullmatch(path.name) for path in (spark / "jars").glob("scala-library-*")]
    scala_lines = [match[1] for match in matches if match]
    if len(scala_lines) != 1 or scala_lines[0] not in _OLDEST_JAVA:
        raise SystemExit(
            f"{spark / 'jars'} is not of a supported Spark: {scala_lines or 'no Scala'}."
        )
    return scala_lines[0]


def sources(scala: str) -> dict[str, str]:
    """Return the sources for a line of Scala, by their paths."""
    texts = {
        file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8")
        for file in sorted(ROOT.rglob("*.java"))
    }
    if scala == "2.12":
        texts = {
            path: _NEWER_SEQ.sub(r"scala.collection.\1;", text) for path, text in texts.items()
        }
    return texts


def digest(scala: str) -> str:
    """Return the digest of the names and contents of the sources for a line of Scala."""
    whole = "".join(f"{path}\0{len(text)}\0{text}" for path, text in sources(scala).items())
    return hashlib.sha256(whole.encode()).hexdigest()


def compile_scan(spark: Path, jar: Path, *, eclipse: bool = False) -> None:
    """Compile the scan into a jar, which appears when it is complete.

    Args:
        spark: The folder of a Spark, with its ``jars``.
        jar: The path of the jar.
        eclipse: Whether to use Eclipse's compiler even if ``javac`` exists.

    Raises:
        SystemExit: The compiler fails; the message contains its output.
    """
    scala = scala_of(spark)
    version = str(_OLDEST_JAVA[scala])
    classpath = os.pathsep.join(map(str, sorted((spark / "jars").glob("*.jar"))))
    java = Path(find_java())
    javac = java.with_name("javac")
    with (
        tempfile.TemporaryDirectory(prefix="hiveacid-") as folder,
        tempfile.TemporaryDirectory(prefix="hiveacid-") as scratch,
    ):
        files = [Path(folder, path) for path in sources(scala)]
        for file, text in zip(files, sources(scala).values(), strict=True):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        if eclipse or not javac.exists():
            # A runtime lacks the signatures of older versions, which --release needs.
            program = [str(java), "-jar", str(_eclipse()), "-source", version, "-target", version]
        else:
            program = [str(javac), "--release", version]
        options = ["-proc:none", "-nowarn", "-encoding", "UTF-8", "-d", scratch]
        command = [*program, *options, "-cp", classpath, *map(str, files)]
        _run(command, f"The scan cannot be compiled for {spark}")
        _pack(Path(scratch), digest(scala), jar)


def _pack(classes: Path, identity: str, jar: Path) -> None:
    contents = {
        file.relative_to(classes).as_posix(): file.read_bytes() for file in classes.rglob("*.class")
    }
    contents |= {
        "META-INF/MANIFEST.MF": b"Manifest-Version: 1.0\r\n\r\n",
        SOURCES: identity.encode(),
    }
    jar.parent.mkdir(parents=True, exist_ok=True)
    partial = jar.with_suffix(f".{os.getpid()}")
    with zipfile.ZipFile(partial, "w") as archive:
        for name, content in sorted(contents.items()):
            archive.writestr(zipfile.ZipInfo(name, _ZIP_TIME), content, zipfile.ZIP_DEFLATED)
    partial.replace(jar)


def _eclipse() -> Path:
    """Return Eclipse's compiler, fetched once into the cache."""
    organisation, name, revision = _ECLIPSE
    jar = cache_folder() / f"{name}-{revision}.jar"
    if not jar.exists():
        jar.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"{name}.", dir=jar.parent) as scratch:
            fetched = Path(scratch, "[artifact]-[revision].[ext]")
            module = ["-dependency", organisation, name, revision, "-notransitive", "-types", "jar"]
            command = ivy_command(*module, "-retrieve", str(fetched), home=Path(scratch, "ivy"))
            _run(command, f"Ivy cannot fetch {jar.name}")
            partial = fetched.with_name(jar.name)
            require_checksums([partial], ROOT / "downloads.sha256")
            partial.rename(jar)
    return jar


def _run(command: list[str], failure: str) -> None:
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    if completed.returncode:
        raise SystemExit(f"{failure}:\n{completed.stdout}{completed.stderr}")


if __name__ == "__main__":
    main()
