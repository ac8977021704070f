"""The installed wheel in a separate environment, with its requirements and no more."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import airflow_hiveacid

pytestmark = [pytest.mark.live, pytest.mark.timeout(1200)]

ROOT = Path(airflow_hiveacid.__file__).parents[1]


@dataclass(frozen=True)
class Environment:
    """A virtual environment with the wheel, and an Airflow that was never started."""

    folder: Path
    variables: dict[str, str]

    def run(self, *command, check=True):
        return subprocess.run(
            [self.folder / "venv" / "bin" / command[0], *command[1:]],
            check=check,
            capture_output=True,
            text=True,
            env=self.variables,
            cwd=self.folder,
        )

    def json(self, *command):
        return json.loads(self.run(*command, "--output", "json").stdout)


@pytest.fixture(scope="module")
def installed(tmp_path_factory, connections):
    folder = tmp_path_factory.mktemp("wheel")
    environment = folder / "venv"
    tools = Path(sys.executable).parent
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
    # The provider requires the library.
    for package in (ROOT / "hiveacid", ROOT):
        subprocess.run(build, check=True, cwd=package, capture_output=True)
    wheels = [f"{wheel}[spark]" for wheel in folder.glob("*.whl")]
    uv = tools / "uv"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, environment], check=True)
    locked = ["--constraints", ROOT / "requirements.lock"]
    python = ["--python", environment / "bin" / "python"]
    subprocess.run([uv, "pip", "install", "--quiet", *python, *locked, *wheels], check=True)
    variables = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AIRFLOW", "PYTHON", "PYTEST", "VIRTUAL_ENV"))
    }
    variables |= {
        "PATH": f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__TEST_CONNECTION": "Enabled",
    }
    for name, connection in connections.items():
        variables[f"AIRFLOW_CONN_{name.upper()}"] = json.dumps(connection)
    return Environment(folder, variables)


def test_nothing_of_it_comes_from_the_checkout(installed):
    code = "import airflow_hiveacid; print(airflow_hiveacid.__file__)"
    assert installed.run("python", "-c", code).stdout.startswith(str(installed.folder))


def test_airflow_lists_the_provider_with_all_it_brings(installed):
    providers = {
        entry["package_name"]: entry["version"]
        for entry in installed.json("airflow", "providers", "list")
    }
    assert providers["airflow-hiveacid"] == airflow_hiveacid.__version__
    hooks = installed.json("airflow", "providers", "hooks")
    assert "hive_acid_metastore" in {entry["connection_type"] for entry in hooks}
    links = installed.run("airflow", "providers", "links").stdout
    assert "airflow_hiveacid.links.TableHealthLink" in links
    plugins = installed.json("airflow", "plugins")
    assert "hiveacid" in {entry["name"] for entry in plugins}


def test_airflow_knows_the_options(installed):
    command = ("airflow", "config", "get-value", "hive_acid", "page_connections")
    assert installed.run(*command).stdout.strip() == "hive_acid_default"


def test_airflow_tests_the_connection(installed):
    answer = installed.run("airflow", "connections", "test", "hive_acid_default").stdout
    assert "Connection success!" in answer


def test_airflow_shows_why_a_connection_does_not_work(installed):
    installed.variables["AIRFLOW_CONN_DOWN"] = json.dumps(
        {"conn_type": "hive_acid_metastore", "host": "127.0.0.1", "port": 9}
    )
    ended = installed.run("airflow", "connections", "test", "down", check=False)
    assert ended.returncode == 1
    assert "127.0.0.1:9 cannot be reached" in ended.stdout


@pytest.mark.parametrize("command", [("airflow", "hiveacid"), ("hiveacid",)])
def test_the_doctor_finds_a_working_environment(installed, command):
    ended = installed.run(*command, "doctor", "--conn-id", "hive_acid_default", "--json")
    checks = {check["name"]: check["ok"] for check in json.loads(ended.stdout)["checks"]}
    assert all(checks.values())
    assert checks.keys() >= {"packages", "spark", "java", "metastore", "warehouse"}


def test_spark_runs_the_packaged_application(installed):
    # Refused by the application itself: so it was found, imported and run.
    code = "from airflow_hiveacid.cluster.packaged import spark_app_path; print(spark_app_path())"
    application = installed.run("python", "-c", code).stdout.strip()
    ended = installed.run(
        "spark-submit",
        "--master",
        "local[1]",
        application,
        "--job",
        "missing.json",
        "--report",
        "report.json",
        check=False,
    )
    assert "missing.json" in ended.stdout + ended.stderr


def test_the_example_dags_can_be_imported(installed):
    code = """
from airflow.dag_processing.dagbag import DagBag
from airflow_hiveacid.cluster.packaged import example_dags
bag = DagBag(dag_folder=str(example_dags()))
print(bag.import_errors or len(bag.dags))
"""
    assert int(installed.run("python", "-c", code).stdout.strip().splitlines()[-1]) >= 3
