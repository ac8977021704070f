"""The files that wheels and source distributions must contain, and no others."""

import tarfile
import tomllib
import zipfile
from collections.abc import Iterable
from email.parser import Parser
from pathlib import Path

from release.build import ADAPTER, LIBRARY, Distributions, Project

# Compiled, one for each line of Scala.
_JARS = [f"spark/jars/hiveacid-scan_{scala}.jar" for scala in ("2.12", "2.13")]
# Files of the library's folder that its wheel does not contain as files of the package.
_NOT_IN_LIBRARY = ("pyproject.toml", "README.md", "LICENSE", "NOTICE", "spark/java/")


def wheel_problems(made: Distributions, tracked: Iterable[str], version: str) -> list[str]:
    """Compare a wheel with the files under version control.

    Args:
        made: The distributions of a project.
        tracked: All files under version control.
        version: The version that it must have.
    """
    project, wheel = made.project, made.wheel
    metadata = ["METADATA", "RECORD", "WHEEL", "entry_points.txt"]
    metadata += ["licenses/LICENSE", "licenses/NOTICE"]
    info = f"{project.package}-{version}.dist-info"
    moved = {f"{project.package}/": f"{project.package}/"}
    left_out: tuple[str, ...] = ()
    if project == LIBRARY:
        left_out = tuple(f"{project.package}/{name}" for name in _NOT_IN_LIBRARY)
    elif project == ADAPTER:
        moved = {f"dbt/{part}/": f"dbt/{part}/" for part in ("adapters", "include")}
    else:
        moved |= {
            "spark_apps/": f"{project.package}/_spark_apps/",
            "dags/": f"{project.package}/example_dags/",
        }
    expected = {
        target + file.removeprefix(source)
        for file in tracked
        for source, target in moved.items()
        if file.startswith(source) and not file.startswith(left_out)
    }
    expected |= {f"{info}/{name}" for name in metadata}
    if project == LIBRARY:
        expected |= {f"{project.package}/{name}" for name in _JARS}
    with zipfile.ZipFile(wheel) as archive:
        found = set(archive.namelist())
        problems = _differences(wheel, expected, found)
        if f"{info}/METADATA" in found:
            text = archive.read(f"{info}/METADATA").decode()
            problems += _metadata_problems(project, wheel, text, version)
    return problems


def sdist_problems(
    made: Distributions, tracked: Iterable[str], version: str, pyproject: str
) -> list[str]:
    """Compare a source distribution with the files under version control.

    Args:
        made: The distributions of a project.
        tracked: All files under version control.
        version: The version that it must have.
        pyproject: The text of the project's pyproject.toml.
    """
    project, sdist = made.project, made.sdist
    root = f"{project.package}-{version}"
    if project == LIBRARY:
        folder = f"{project.folder}/"
        expected = {
            f"{root}/{file.removeprefix(folder)}" for file in tracked if file.startswith(folder)
        }
        expected |= {f"{root}/{name}" for name in (".gitignore", *_JARS)}
    else:
        targets = tomllib.loads(pyproject)["tool"]["hatch"]["build"]["targets"]
        included = [path.removeprefix("/") for path in targets["sdist"]["include"]]
        # What the build itself needs is always included.
        included += [
            "pyproject.toml",
            "hatch_build.py",
            "README.md",
            "LICENSE",
            "NOTICE",
            ".gitignore",
        ]
        folder = "" if project.folder == "." else f"{project.folder}/"
        own = [file.removeprefix(folder) for file in tracked if file.startswith(folder)]
        expected = {
            f"{root}/{file}"
            for file in [*own, ".gitignore"]
            if any(file == path or file.startswith(f"{path}/") for path in included)
        }
    with tarfile.open(sdist) as archive:
        found = {member.name for member in archive.getmembers() if not member.isdir()}
        problems = _differences(sdist, expected | {f"{root}/PKG-INFO"}, found)
        if f"{root}/PKG-INFO" in found:
            text = archive.extractfile(f"{root}/PKG-INFO")
            assert text is not None
            problems += _metadata_problems(project, sdist, text.read().decode(), version)
    return problems


def _differences(archive: Path, expected: set[str], found: set[str]) -> list[str]:
    return [
        *(f"{archive.name} lacks {name}." for name in sorted(expected - found)),
        *(f"{archive.name} must not contain {name}." for name in sorted(found - expected)),
    ]


def _metadata_problems(project: Project, archive: Path, text: str, version: str) -> list[str]:
    metadata = Parser().parsestr(text)
    expected = {
        "Name": project.name,
        "Version": version,
        "License-Expression": "Apache-2.0",
        "Description-Content-Type": "text/markdown",
    }
    return [
        f"{archive.name} states {name}: {metadata[name]}, not {value}."
        for name, value in expected.items()
        if metadata[name] != value
    ]
