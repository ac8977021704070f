"""The build of a commit: a wheel and a source distribution of each project."""

import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

from tests.spark_versions.versions import packages

_JARS = Path("spark", "jars")


@dataclass(frozen=True)
class Project:
    """A project of this repository.

    Attributes:
        name: Its name.
        folder: The folder of its pyproject.toml.
    """

    name: str
    folder: str

    @property
    def package(self) -> str:
        """Its package, with which the names of its files begin."""
        return self.name.replace("-", "_")


LIBRARY, PROVIDER = Project("hiveacid", "hiveacid"), Project("airflow-hiveacid", ".")
ADAPTER = Project("dbt-hiveacid", "dbt")


@dataclass(frozen=True)
class Distributions:
    """The two files of a project that a release uploads."""

    project: Project
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
    _unpack(archive, folder)
    archive.unlink()


def _unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as files:
        # The filter exists since Python 3.11.4.
        files.extraction_filter = getattr(tarfile, "data_filter", None)
        files.extractall(folder)


def build(repository: Path, folder: Path) -> list[Distributions]:
    """Build the distributions of the commit: the library, the provider, and the adapter of dbt.

    Each wheel is built from the source distribution, also its jars. That it equals the wheel of the commit shows that
    the source distribution is complete and that the build is reproducible.

    Args:
        repository: The repository.
        folder: An empty folder for the files of the build. The distributions are in its `dist`.

    Raises:
        SystemExit: Two wheels differ.
    """
    source = folder / "source"
    export_commit(repository, source)
    _compile_jars(source)
    epoch = _output(["git", "log", "-1", "--format=%ct"], repository)
    return [_build(project, source, folder, epoch) for project in (LIBRARY, PROVIDER, ADAPTER)]


def _build(project: Project, source: Path, folder: Path, epoch: str) -> Distributions:
    dist, own = folder / "dist", folder / project.package
    sdist = _hatchling(project, "sdist", source / project.folder, dist, epoch)
    _unpack(sdist, own)
    (root,) = own.iterdir()
    if project == LIBRARY:
        # The folder of the project is that of the package.
        root = root.rename(own / project.package)
        shutil.rmtree(root / _JARS)
        _compile_jars(own)
    wheel = _hatchling(project, "wheel", root, dist, epoch)
    other = _hatchling(project, "wheel", source / project.folder, folder / "from-commit", epoch)
    if other.read_bytes() != wheel.read_bytes():
        raise SystemExit(f"{wheel} and {other} differ: the source distribution is not complete.")
    return Distributions(project, wheel, sdist)


def _compile_jars(folder: Path) -> None:
    """Compile the jars of the library in a folder, for Spark 3.5 and for the installed Spark."""
    # The working directory is the first place from which Python imports, before this repository.
    command = [sys.executable, "-m", "hiveacid.spark.java.compile"]
    command += [str(packages("3.5") / "pyspark")]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def _hatchling(project: Project, target: str, source: Path, folder: Path, epoch: str) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "--target", target]
    subprocess.run(
        [*command, "--directory", str(folder.absolute())],
        cwd=source,
        check=True,
        env={**os.environ, "SOURCE_DATE_EPOCH": epoch},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    suffix = ".whl" if target == "wheel" else ".tar.gz"
    (built,) = folder.glob(f"{project.package}-*{suffix}")
    return built


def _output(command: list[str], folder: Path) -> str:
    return subprocess.run(
        command, cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()
