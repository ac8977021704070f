"""Spark's own pages, which show the values of parameters, are disabled on this machine by default."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid import HiveAcidDeleteOperator
from hiveacid.drivers.java_start import NO_PAGES
from hiveacid.jobs import DeleteJob

_PAGES = (
    "from pyspark.sql import SparkSession; "
    "print(SparkSession.builder.getOrCreate().sparkContext.uiWebUrl)"
)
_COMMAND_LINE = (
    "from hiveacid.cli.local_spark import a_spark\n"
    "with a_spark('local[1]', 'test') as spark: url = spark.sparkContext.uiWebUrl\n"
    "print(url)"
)


def printed(program: str, environment: Mapping[str, str]) -> str:
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return ended.stdout.strip()


def test_a_driver_in_the_worker_has_no_pages(spark_submit: Any, context: Any) -> None:
    job = DeleteJob(target="db.t", where="id = :id", params={"id": 7}, run_in="spark")
    HiveAcidDeleteOperator(task_id="t", job=job).execute(context)
    assert NO_PAGES in spark_submit.seen.environment["SPARK_SUBMIT_OPTS"].split()
    # It would take precedence over all settings of the user.
    assert not [each for each in spark_submit.seen.argv if each.startswith("spark.ui.enabled")]


@pytest.mark.server
@pytest.mark.sampled(1)
@pytest.mark.parametrize(("settings", "shown"), [("", False), ("spark.ui.enabled true", True)])
def test_a_setting_of_the_user_enables_the_pages(
    tmp_path: Path, settings: str, shown: bool
) -> None:
    (tmp_path / "spark-defaults.conf").write_text(f"{settings}\nspark.ui.port 0\n")
    environment = {"SPARK_CONF_DIR": str(tmp_path), "SPARK_SUBMIT_OPTS": NO_PAGES}
    submitted = {**environment, "PYSPARK_SUBMIT_ARGS": "--master local[1] pyspark-shell"}
    assert ("http" in printed(_PAGES, submitted)) == shown
    del environment["SPARK_SUBMIT_OPTS"]
    assert ("http" in printed(_COMMAND_LINE, environment)) == shown
