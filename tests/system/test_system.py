"""The DAGs of this folder end well in an Airflow with a metastore and a Spark.

The connections of the environment determine which; without any, both are started for the tests.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_hiveacid.playground.local_airflow import LocalAirflow

DAGS = Path(__file__).parent / "dags"
CONNECTIONS = ("AIRFLOW_CONN_HIVE_ACID_DEFAULT", "AIRFLOW_CONN_SPARK_DEFAULT")

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def airflow(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """Run a command of Airflow; return its output."""
    if not any(name in os.environ for name in CONNECTIONS):
        own = LocalAirflow(
            tmp_path_factory.mktemp("system"),
            dags=DAGS,
            metastore_uri=request.getfixturevalue("hms4").uri,
            master="local[2]",
        )
        own.run("db", "migrate")
        return own.run
    environment = os.environ | {"AIRFLOW__CORE__DAGS_FOLDER": str(DAGS)}

    def run(*command: str) -> str:
        ended = subprocess.run(
            [sys.executable, "-m", "airflow", *command],
            env=environment,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )
        assert ended.returncode == 0, ended.stdout
        return ended.stdout

    return run


@pytest.mark.parametrize("name", sorted(path.stem for path in DAGS.glob("*.py")))
def test_a_dag_ends_well(name: str, airflow) -> None:
    assert f"dag_id={name}" in airflow("dags", "test", name).replace("'", "")
