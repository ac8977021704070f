"""The log of a task, where Spark's output must not hide the progress."""

import logging
import re

import pytest
from airflow.providers.common.compat.sdk import AirflowException

from airflow_hiveacid import HiveAcidDeleteOperator
from airflow_hiveacid.hooks.tasks import HiveAcidTaskFailure
from hiveacid.errors import MetastoreUnreachable
from hiveacid.jobs import DeleteJob
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import free_port
from hiveacid.progress import Phase, PhaseClock, PhaseLog

JAVA = """\
Exception in thread "main" org.apache.spark.SparkException: It did not start
\tat org.apache.spark.deploy.SparkSubmit.main(SparkSubmit.scala)
Caused by: java.net.ConnectException: Connection refused
\t... 7 more
INFO stopped"""
OPERATOR = HiveAcidDeleteOperator(
    task_id="t", job=DeleteJob(target="db.t", where="id = 1", run_in="spark")
)


@pytest.fixture
def progress(capsys):
    """The output of a driver for a phase."""
    with PhaseClock([PhaseLog()])(Phase.READ):
        pass
    begun, ended = capsys.readouterr().out.splitlines()
    return begun, ended


def logged(capsys, *wanted):
    """Those of some texts that the log has, in its order."""
    lines = capsys.readouterr().out.splitlines()
    return [text for line in lines for text in wanted if f"] {text} " in line]


def test_the_output_of_spark_is_folded_and_progress_is_not(spark_submit, context, capsys, progress):
    begun, ended = progress
    output = ["INFO started", "INFO registered", begun, "INFO task 0", ended, "INFO stopped"]
    spark_submit.will(report={"job": "delete", "target": "db.t"}, output="\n".join(output))

    OPERATOR.execute(context)

    group = ("::group::Spark", "::endgroup::")
    assert logged(capsys, *output, *group) == [
        group[0],
        *output[:2],
        group[1],
        begun,
        group[0],
        output[3],
        group[1],
        ended,
        group[0],
        output[5],
        group[1],
    ]


def test_no_group_stays_open_when_spark_fails(spark_submit, context, capsys):
    spark_submit.will(exit_code=1, output="INFO started\nERROR out of luck")

    with pytest.raises(AirflowException, match="out of luck"):
        OPERATOR.execute(context)

    groups = logged(capsys, "::group::Spark", "::endgroup::")
    assert groups == ["::group::Spark", "::endgroup::"]


def test_the_last_line_describes_the_result(spark_submit, context, capsys):
    done = {"rows_deleted": 3, "partitions": ["d=1", "d=2"], "bytes": 6144}
    spark_submit.will(report={"job": "delete", "target": "db.t", **done}, output="INFO stopped")

    OPERATOR.execute(context)

    last = capsys.readouterr().out.splitlines()[-1]
    assert re.search(r"\] db\.t: 3 deleted, 2 partitions, 6\.0 KiB, \d+\.\d s ", last)


@pytest.mark.parametrize(
    ("output", "why"),
    [
        (JAVA, "java.net.ConnectException: Connection refused"),
        (
            "Traceback:\n  File x\nModuleNotFoundError: No module\nbye",
            "ModuleNotFoundError: No module",
        ),
        ("26/11/22 03:04:05 ERROR Utils: no room\nbye", "26/11/22 03:04:05 ERROR Utils: no room"),
        ("nothing else", "nothing else"),
    ],
)
def test_a_failure_without_a_report_ends_with_its_cause(spark_submit, context, output, why):
    spark_submit.will(exit_code=1, output=output)

    with pytest.raises(AirflowException) as failed:
        OPERATOR.execute(context)

    assert str(failed.value).startswith(
        f"JobFailed: spark-submit has failed. Error code is: 1. Its message: {why}.\nIts"
    )
    assert len(str(failed.value).splitlines()) == 3
    assert failed.value.__suppress_context__


@pytest.mark.parametrize(
    ("exit_code", "why"),
    [
        (-9, "Error code is: -9. It was ended by SIGKILL: usually for lack of memory"),
        (137, "Error code is: 137. It was ended by SIGKILL: usually for lack of memory"),
        (-15, "Error code is: -15. It was ended by SIGTERM: usually by a stop of its machine"),
    ],
)
def test_a_killed_driver_is_reported_by_its_signal(spark_submit, context, exit_code, why):
    warning = "WARN: spark.old is deprecated\nWARN: java.lang.Exception: not the reason"
    spark_submit.will(exit_code=exit_code, output=warning)

    with pytest.raises(AirflowException) as failed:
        OPERATOR.execute(context)

    message, remedy, _ = str(failed.value).splitlines()
    assert message.startswith(f"JobFailed: spark-submit has failed. {why}")
    assert "reason" not in message
    assert "deprecated" not in message
    assert ("driver_memory" in remedy) == (exit_code != -15)


def test_an_error_of_the_worker_is_not_chained_either(context):
    with pytest.raises(HiveAcidTaskFailure) as failed:
        HiveAcidDeleteOperator(
            task_id="t",
            job=DeleteJob(target="db.t", where="id = 1", run_in="spark"),
            metastore_conn_id="none",
        ).execute(context)

    assert str(failed.value).endswith("\nSee hiveacid errors InvalidConnection")
    assert failed.value.__suppress_context__


def test_the_log_has_neither_audit_records_nor_lookups_of_missing_xcoms(
    spark_submit, context, capsys, monkeypatch
):
    pulled = []
    monkeypatch.setattr(context["ti"], "xcom_pull", lambda **of: pulled.append(of))
    spark_submit.will(report={"job": "delete", "target": "db.t"})
    OPERATOR.execute(context)
    said = capsys.readouterr()
    assert "db.t: no row changed" in said.out
    assert '"outcome"' not in said.out + said.err
    assert pulled == []
    # Airflow looks it up at the end of the task.
    assert context["ti"].xcoms["_link_SparkApplicationLink"] == ""


def test_a_host_that_refuses_connections_is_an_error_without_a_traceback(caplog):
    client = MetastoreClient(MetastoreOptions(uris=f"thrift://127.0.0.1:{free_port()}"))
    with caplog.at_level(logging.INFO), client, pytest.raises(MetastoreUnreachable):
        client.get_databases()
    found = [record for record in caplog.records if record.name.startswith("thrift")]
    assert {record.levelname for record in found} == {"ERROR"}
    assert not any(record.exc_info for record in found)
