"""The start of spark-submit for a quick start of tasks, and the settings that remain unchanged."""

import json
import os
from pathlib import Path

import pytest

from airflow_hiveacid import HiveAcidDeleteOperator
from hiveacid.drivers.java_start import DRIVER_OPTIONS, NO_PAGES, ClassArchive
from hiveacid.errors import UserError
from hiveacid.jobs import DeleteJob
from hiveacid.progress import SUBMITTED_VARIABLE

JOB = DeleteJob(target="db.t", where="id = 1", run_in="spark")


def run(context, **options):
    return HiveAcidDeleteOperator(task_id="t", job=JOB, **options).execute(context)


def test_a_driver_on_the_worker_imports_what_python_has_compiled(spark_submit, context, tmp_path):
    theirs = str(tmp_path / "theirs")
    run(context, env_vars={"PYTHONPATH": theirs})
    paths = spark_submit.seen.environment["PYTHONPATH"].split(os.pathsep)
    assert len(paths) == 2
    assert paths[1] == theirs
    assert "--py-files" not in spark_submit.seen.argv


def test_a_cluster_is_given_the_package(spark_submit, context, monkeypatch, small_tables):
    # Something that listens.
    master = small_tables.uri.replace("thrift", "spark")
    monkeypatch.setenv(
        "AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": master})
    )
    monkeypatch.delenv("PYTHONPATH", raising=False)
    run(context)
    assert "--py-files" in spark_submit.seen.argv
    assert "PYTHONPATH" not in spark_submit.seen.environment


def test_java_options_of_the_user_take_precedence(spark_submit, context):
    run(context, env_vars={"SPARK_SUBMIT_OPTS": "-Dtheirs=1 -XX:Tier4InvocationThreshold=1"})
    seen = spark_submit.seen.environment["SPARK_SUBMIT_OPTS"]
    assert seen == f"{NO_PAGES} {DRIVER_OPTIONS} -Dtheirs=1 -XX:Tier4InvocationThreshold=1"


def test_the_report_contains_the_duration_of_the_end(spark_submit, context):
    before = {"launch": 2.5, "write": 1.0}
    spark_submit.will(report={"job": "delete", "target": "db.t", "seconds": before})
    seconds = run(context)["seconds"]
    assert {**seconds, "end": 0} == {**before, "end": 0}
    assert 0 <= seconds["end"] < 60
    assert float(spark_submit.seen.environment[SUBMITTED_VARIABLE]) > 0


def options_of(folder: Path, environment=None) -> str:
    with ClassArchive(folder, environment or {}) as archive:
        return archive.options


def test_the_first_application_makes_the_archive_for_all_others(tmp_path):
    folder = tmp_path / "with a blank"
    with ClassArchive(folder, {}) as first:
        assert "-XX:ArchiveClassesAtExit=" in first.options
        assert options_of(folder) == "", "one at a time makes it"
        partial = next(folder.glob("*.lock")).with_suffix(".partial")
        assert str(partial) in first.options
        partial.write_bytes(b"classes")
    (archive,) = folder.glob("*.jsa")
    assert archive.read_bytes() == b"classes"
    assert f"'-XX:SharedArchiveFile={archive}'" in options_of(folder)
    assert "ArchiveClassesAtExit" in options_of(folder, {"SPARK_HOME": "/another"})


def fail_with_archive(folder: Path) -> None:
    with ClassArchive(folder, {}):
        partial = next(folder.glob("*.lock")).with_suffix(".partial")
        partial.write_bytes(b"half of it")
        raise OSError("killed")


def test_an_application_that_fails_leaves_no_archive(tmp_path):
    with pytest.raises(OSError, match="killed"):
        fail_with_archive(tmp_path)
    assert list(tmp_path.glob("*.jsa")) == list(tmp_path.glob("*.partial")) == []
    assert "ArchiveClassesAtExit" in options_of(tmp_path)


def test_leftovers_of_a_killed_worker_are_not_an_archive(tmp_path):
    options_of(tmp_path)
    partial = next(tmp_path.glob("*.lock")).with_suffix(".partial")
    partial.write_bytes(b"half of it")
    options_of(tmp_path)
    assert list(tmp_path.glob("*.jsa")) == []


def test_a_java_that_makes_no_archive_changes_nothing(tmp_path):
    for _ in range(2):
        assert "ArchiveClassesAtExit" in options_of(tmp_path)


def test_others_must_not_be_able_to_write_the_archive(tmp_path, spark_submit, context, monkeypatch):
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(UserError, match="may write to the folder"):
        ClassArchive(folder, {})
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__JAVA_ARCHIVE", str(folder))
    with pytest.raises(Exception, match="may write to the folder"):
        run(context)
    assert not spark_submit.seen_file.exists()


def test_the_folder_of_the_archive_is_asked_for(spark_submit, context, tmp_path, monkeypatch):
    folder = tmp_path / "archive"
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__JAVA_ARCHIVE", str(folder))
    run(context)
    assert str(folder) in json.dumps(spark_submit.seen.environment["SPARK_SUBMIT_OPTS"])
    assert folder.stat().st_mode & 0o777 == 0o700
