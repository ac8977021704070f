"""The files that the wheel and the source distribution must contain, and no others."""

import tarfile
import tomllib
import zipfile
from collections.abc import Iterable
from email.parser import Parser
from pathlib import Path

_PACKAGE = "airflow_hiveacid"
# Compiled, one for each line of Scala.
_JARS = [f"{_PACKAGE}/engine/jars/hiveacid-scan_{scala}.jar" for scala in ("2.12", "2.13")]


def wheel_problems(wheel: Path, tracked: Iterable[str], version: str) -> list[str]:
    """Compare a wheel with the files under version control.

    Args:
        wheel: The wheel.
        tracked: All files under version control.
        version: The version that it must have.
    """
    info = f"{_PACKAGE}-{version}.dist-info"
    moved = {
        "spark_apps/": f"{_PACKAGE}/_spark_apps/",
        "dags/": f"{_PACKAGE}/example_dags/",
        f"{_PACKAGE}/": f"{_PACKAGE}/",
    }
    expected = {
        target + file.removeprefix(source)
        for file in tracked
        for source, target in moved.items()
        if file.startswith(source)
    }
    metadata = ("METADATA", "RECORD", "WHEEL", "entry_points.txt")
    expected |= {*_JARS}
    expected |= {f"{info}/{name}" for name in (*metadata, "licenses/LICENSE", "licenses/NOTICE")}
    with zipfile.ZipFile(wheel) as archive:
        found = set(archive.namelist())
        problems = _differences(wheel, expected, found)
        if f"{info}/METADATA" in found:
            problems += _metadata_problems(
                wheel, archive.read(f"{info}/METADATA").decode(), version
            )
    return problems


def sdist_problems(sdist: Path, tracked: Iterable[str], version: str, pyproject: str) -> list[str]:
    """Compare a source distribution with the files under version control.

    Args:
        sdist: The source distribution.
        tracked: All files under version control.
        version: The version that it must have.
        pyproject: The text of pyproject.toml, which lists the included paths.
    """
    targets = tomllib.loads(pyproject)["tool"]["hatch"]["build"]["targets"]
    included = [path.removeprefix("/") for path in targets["sdist"]["include"]]
    # What the build itself needs is always included.
    included += ["pyproject.toml", "hatch_build.py", "LICENSE", "NOTICE", ".gitignore"]
    root = f"{_PACKAGE}-{version}"
    expected = {
        f"{root}/{file}"
        for file in tracked
        if any(file == path or file.startswith(f"{path}/") for path in included)
    }
    with tarfile.open(sdist) as archive:
        found = {member.name for member in archive.getmembers() if not member.isdir()}
        expected |= {f"{root}/{name}" for name in ("PKG-INFO", *_JARS)}
        problems = _differences(sdist, expected, found)
        if f"{root}/PKG-INFO" in found:
            text = archive.extractfile(f"{root}/PKG-INFO")
            assert text is not None
            problems += _metadata_problems(sdist, text.read().decode(), version)
    return problems


def _differences(archive: Path, expected: set[str], found: set[str]) -> list[str]:
    return [
        *(f"{archive.name} lacks {name}." for name in sorted(expected - found)),
        *(f"{archive.name} must not contain {name}." for name in sorted(found - expected)),
    ]


def _metadata_problems(archive: Path, text: str, version: str) -> list[str]:
    metadata = Parser().parsestr(text)
    expected = {
        "Name": "airflow-hiveacid",
        "Version": version,
        "License-Expression": "Apache-2.0",
        "Description-Content-Type": "text/markdown",
    }
    return [
        f"{archive.name} states {name}: {metadata[name]}, not {value}."
        for name, value in expected.items()
        if metadata[name] != value
    ]
