"""The clean environment, its constraints, and the bill of materials of its packages."""

import sys
from pathlib import Path

import pytest

from release.constraints import without_hashes, without_spark
from release.environment import CleanEnvironment
from release.sbom import describe_package, sbom_problems

ROOT = Path(__file__).parents[2]
LOCK = """\
# by make lock
pyspark==4.1.3 \\
    --hash=sha256:aa
    # via airflow-hiveacid
pandas==3.0.0 ; python_full_version >= '3.11' \\
    --hash=sha256:bb
pytz==2026.1
"""


def test_constraints_of_a_lock_are_its_pins() -> None:
    pins = without_hashes(LOCK)
    assert pins == "pyspark==4.1.3\npandas==3.0.0 ; python_full_version >= '3.11'\npytz==2026.1\n"
    # Airflow's own constraints files have this form already.
    assert without_hashes(pins) == pins
    assert without_spark(pins) == "pytz==2026.1\n"


def test_every_pin_of_this_repository_is_a_constraint() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    pinned = [line for line in lock.splitlines() if "==" in line and line[0].isalnum()]
    assert len(without_hashes(lock).splitlines()) == len(pinned) > 100


def test_a_clean_environment_does_not_see_this_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(ROOT)
    environment = CleanEnvironment(tmp_path / "environment", sys.executable)
    with pytest.raises(SystemExit, match="No module named 'airflow_hiveacid'"):
        environment.run("python", "-c", "import airflow_hiveacid")
    assert environment.installed() == {}


def document() -> dict:
    return {
        "components": [
            {"name": "airflow-hiveacid", "version": "1.0.0", "externalReferences": ["file:///x"]},
            {"name": "typing_extensions", "version": "4.16.0"},
        ]
    }


def test_the_bill_of_materials_describes_this_package() -> None:
    described = document()
    describe_package(described)
    assert described["metadata"]["component"] == {
        "name": "airflow-hiveacid",
        "version": "1.0.0",
        "purl": "pkg:pypi/airflow-hiveacid@1.0.0",
    }
    assert [each["name"] for each in described["components"]] == ["typing_extensions"]


def test_the_bill_of_materials_lists_what_is_installed() -> None:
    described = document()
    describe_package(described)
    installed = {"airflow-hiveacid": "1.0.0", "typing-extensions": "4.16.0"}
    assert sbom_problems(described, installed) == []
    assert sbom_problems(described, installed | {"typing-extensions": "4.15.0"}) == [
        "The bill of materials lists typing-extensions 4.16.0, and 4.15.0 is installed."
    ]
    assert sbom_problems(described, installed | {"thrift": "0.25.0"}) == [
        "The bill of materials lists thrift None, and 0.25.0 is installed."
    ]
