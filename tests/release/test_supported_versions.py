"""The page of releases supports the versions that the project declares and tests."""

import re
import tomllib
from pathlib import Path

import yaml

from hiveacid.drivers.spark_support import OLDEST_PACKAGES, SUPPORTED_TEXT
from hiveacid.metastore.dev.distribution import RELEASES

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
LIBRARY = tomllib.loads((ROOT / "hiveacid" / "pyproject.toml").read_text())["project"]


def supported(page: str) -> dict[str, str]:
    """Return the versions of each component in the first table of a page that lists Airflow's."""
    rows = re.findall(r"^\| ([\w ]+) \| (.+?) \|", (ROOT / page).read_text(), re.M)
    return dict(reversed(rows))


def limits(versions: list[str]) -> tuple[str, str]:
    numbers = sorted([[*map(int, version.split(".")[:2])] for version in versions])
    return ".".join(map(str, numbers[0])), ".".join(map(str, numbers[-1]))


def test_pythons_are_those_of_the_package() -> None:
    for project in (PROJECT, LIBRARY):
        declared = [
            line.split(" :: ")[-1] for line in project["classifiers"] if " Python :: 3." in line
        ]
        assert supported("docs/releases.md")["Python"] == "{} to {}".format(*limits(declared))


def test_oldest_packages_are_those_of_the_package_and_of_its_tests() -> None:
    for package, oldest in OLDEST_PACKAGES.items():
        version = ".".join(map(str, oldest)).removesuffix(".0")
        declared = [item for item in LIBRARY["dependencies"] if item.startswith(package)]
        assert [item.partition(",")[0] for item in declared] == [f"{package}>={version}"]
        assert f"{package}=={version}.*" in PYPROJECT["dependency-groups"]["oldest"]


def test_airflows_are_those_of_the_workflow() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    tested = workflow["jobs"]["versions"]["strategy"]["matrix"]["airflow"]
    expected = "{} to {}".format(*limits(tested))
    assert supported("docs/releases.md")["Airflow"] == expected
    assert supported("README.md")["Airflow"].startswith(expected)


def test_metastores_are_those_that_the_tests_start() -> None:
    started = [release for release in RELEASES if not release.startswith("2.")]
    assert supported("docs/releases.md")["Hive Metastore"] == "{} to {}".format(*limits(started))


def test_sparks_are_those_that_a_job_accepts_and_a_release_tries() -> None:
    accepted = re.findall(r"\d\.\d", SUPPORTED_TEXT)
    assert supported("docs/releases.md")["Spark"].split(", ") == accepted
    (tried,) = re.findall(r"^SPARKS \?= (.*)$", (ROOT / "Makefile").read_text(), re.M)
    assert tried.split() == accepted
