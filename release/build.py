"""The build of a commit as a wheel and a source distribution."""

import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

from tests.spark_versions.versions import packages

_JARS = Path("airflow_hiveacid", "engine", "jars")


@dataclass(frozen=True)
class Distributions:
    """The two files that a release uploads."""

    wheel: Path
    sdist: Path


def tracked_files(repository: Path) -> list[str]:
    """List the files of the commit."""
    command = ["git", "ls-tree", "-r", "--name-only", "-z", "HEAD"]
    names = subprocess.run(command, cwd=repository, check=True, capture_output=True, text=True)
    return names.stdout.rstrip("\0").split("\0")


def export_commit(repository: Path, folder: Path) -> None:
    """Write the files of the commit to an empty folder, without any other file of the tree."""
    folder.mkdir(parents=True)
    archive = folder.with_suffix(".tar")
    command = ["git", "archive", "--format=tar", f"--output={archive}", "HEAD"]
    subprocess.run(command, cwd=repository, check=True)
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    archive.unlink()


def build(repository: Path, folder: Path) -> Distributions:
    """Build the distributions of the commit.

    The wheel is built from the source distribution, also its jars. That it equals the wheel of the commit shows that the
    source distribution is complete and that the build is reproducible.

    Args:
        repository: The repository.
        folder: An empty folder for the files of the build. The distributions are in its `dist`.

    Raises:
        SystemExit: The two wheels differ.
    """
    source = folder / "source"
    export_commit(repository, source)
    _compile_jars(source)
    epoch = _output(["git", "log", "-1", "--format=%ct"], repository)
    dist, from_commit = folder / "dist", folder / "from-commit"
    sdist = _hatchling("sdist", source, dist, epoch)
    unpacked = folder / "from-sdist"
    with tarfile.open(sdist) as files:
        files.extractall(unpacked, filter="data")
    (root,) = unpacked.iterdir()
    shutil.rmtree(root / _JARS)
    _compile_jars(root)
    wheel = _hatchling("wheel", root, dist, epoch)
    other = _hatchling("wheel", source, from_commit, epoch)
    if other.read_bytes() != wheel.read_bytes():
        raise SystemExit(f"{wheel} and {other} differ: the source distribution is not complete.")
    return Distributions(wheel, sdist)


def _compile_jars(source: Path) -> None:
    """Compile the jars of a source tree, for Spark 3.5 and for the installed Spark."""
    # The working directory is the first place from which Python imports, before this repository.
    command = [
        sys.executable,
        "-m",
        "hiveacid.spark.java.compile",
        str(packages("3.5") / "pyspark"),
    ]
    subprocess.run(command, cwd=source, check=True, stdout=subprocess.DEVNULL)


def _hatchling(target: str, source: Path, folder: Path, epoch: str) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "--target", target]
    subprocess.run(
        [*command, "--directory", str(folder.absolute())],
        cwd=source,
        check=True,
        env={**os.environ, "SOURCE_DATE_EPOCH": epoch},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    (built,) = folder.glob("*.whl" if target == "wheel" else "*.tar.gz")
    return built


def _output(command: list[str], folder: Path) -> str:
    return subprocess.run(
        command, cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()
