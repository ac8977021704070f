"""Jobs by Spark on a name service with either NameNode active or dead."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_hiveacid.plugin.metastores import Metastore
from airflow_hiveacid.sensors import HiveAcidDeltaCountSensor
from hiveacid.cli.main import main
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.spark.run import run
from tests.airflow.conftest import metastore_connection  # noqa: F401
from tests.faults.submitted_driver import run_driver
from tests.hadoop.name_service import NameService
from tests.hdfs.test_namenode_under_spark import Judged, judged  # noqa: F401

pytestmark = [pytest.mark.hdfs, pytest.mark.parametrize("hms", ["4.0.1"], indirect=True)]


def nothing(hdfs: NameService) -> None:
    """The first of the list is active."""


def standby_dies(hdfs: NameService) -> None:
    """The first of the list has become standby, and was killed then."""
    hdfs.fail_over()
    hdfs.kill_daemon(hdfs.standby)


TURNS = [
    (nothing, "insert"),
    (NameService.fail_over, "merge"),
    (standby_dies, "insert"),
    (NameService.kill_and_fail_over, "merge"),
]


@pytest.mark.parametrize(("turn", "operation"), TURNS)
def test_the_effects_of_drivers_are_visible_with_any_active_namenode(
    hdfs: NameService,
    spark: SparkSession,
    judged: Callable[[str], Judged],  # noqa: F811
    turn: Callable[[NameService], None],
    operation: str,
    tmp_path: Path,
) -> None:
    judge = judged(operation)
    if hdfs.active != "nn1":
        hdfs.fail_over()
    turn(hdfs)
    # Neither of the two clients of a new process knows which one is active.
    status, errors = run_driver(judge.job, "", tmp_path)
    assert status == 0, errors
    assert judge.outsider.rows() == judge.new
    compaction = Judged(judge.tables, "major compaction")
    report = run(spark, replace(compaction.job, run_token="a compaction"))
    assert report.error is None
    judge.require_whole()
    assert hdfs.active == ("nn1" if turn is nothing else "nn2")


@pytest.mark.usefixtures("metastore_connection")
def test_the_page_the_command_and_sensors_see_deltas_whichever_is_active(
    hdfs: NameService,
    judged: Callable[[str], Judged],  # noqa: F811
    hms: EmbeddedMetastore,
    interrupt: Callable[[], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = str(judged("merge").tables.main)
    page, seen = Metastore("hive_acid_default", 0), []
    for happens in (None, interrupt):
        if happens:
            happens()
        sensor = HiveAcidDeltaCountSensor(task_id="t", table=table, max_deltas=1)
        needs = sensor.poke({}).xcom_value
        history = page.history(table)
        health = {each.table: each for each in page._measure()}[table]
        capsys.readouterr()
        assert main(["tables", table, "--json", "--metastore", hms.uri]) == 0
        (listed,) = json.loads(capsys.readouterr().out)["tables"]
        assert main(["cat", "--directories", table, "--metastore", hms.uri]) == 0
        inspected = capsys.readouterr().out
        assert "delta_0000001_0000001_0000" in inspected
        assert health.deltas == listed["deltas"] == sum(need["deltas"] for need in needs[0])
        seen.append((health.deltas, [entry.write_id for entry in history], inspected))
    assert seen[0] == seen[1]
    assert seen[0][:2] == (5, [3, 2, 1])
