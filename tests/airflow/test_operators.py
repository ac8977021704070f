import json
import os
import signal
import threading
import time
import traceback
from itertools import pairwise
from pathlib import Path

import pytest
from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
    AirflowTaskTimeout,
)
from airflow.sdk import DAG
from airflow.serialization.helpers import serialize_template_field

from airflow_hiveacid import (
    BatchSource,
    HiveAcidDeleteOperator,
    HiveAcidInsertOperator,
    HiveAcidMergeOperator,
    HiveAcidRestoreOperator,
    HiveAcidStreamOperator,
    HiveAcidTransactionOperator,
    HiveAcidUpdateOperator,
    MatchedUpdate,
    PathSource,
    StreamSource,
)
from airflow_hiveacid.cluster.packaged import spark_app_path
from airflow_hiveacid.hooks.tasks import (
    HiveAcidTaskConflict,
    HiveAcidTaskFailure,
    HiveAcidTaskRefused,
    HiveAcidTaskTrouble,
)
from hiveacid.drivers.java_start import DIE_WITH_PARENT
from hiveacid.errors import InvalidJob
from hiveacid.jobs import (
    DeleteJob,
    InsertJob,
    MergeJob,
    RestoreJob,
    StreamJob,
    TransactionJob,
    UpdateJob,
)
from hiveacid.jobs.job_json import from_json
from hiveacid.jobs.report import ErrorReport
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift.answers import TxnState
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.run_tokens import marked_token

SOURCE = PathSource(path="/feed/{{ run_id }}", format="json")
DELETE = DeleteJob(target="db.t", where="id = 1", run_in="spark")
JOBS = [
    (HiveAcidDeleteOperator, DELETE),
    (HiveAcidInsertOperator, InsertJob(target="db.t", source=SOURCE, run_in="spark")),
    (
        HiveAcidUpdateOperator,
        UpdateJob(target="db.t", set={"a": "1"}, where="true", run_in="spark"),
    ),
    (
        HiveAcidMergeOperator,
        MergeJob(
            target="db.t",
            source=SOURCE,
            on="t.id = s.id",
            when=(MatchedUpdate(),),
            run_in="spark",
        ),
    ),
    (HiveAcidRestoreOperator, RestoreJob(target="db.t", as_of="2026-11-20 12:00:00")),
    (
        HiveAcidTransactionOperator,
        TransactionJob(
            statements=(DeleteJob(target="db.t", where="id = 1"),),
            run_in="spark",
        ),
    ),
    (
        HiveAcidStreamOperator,
        StreamJob(
            name="feed",
            source=StreamSource("rate"),
            statements=(InsertJob(target="db.t", source=BatchSource()),),
            checkpoint="file:/checkpoints/feed",
        ),
    ),
]


def report(**values):
    return {"job": "delete", "target": "db.t"} | values


@pytest.mark.parametrize(("operator", "job"), JOBS)
def test_each_operator_submits_the_application_with_its_job(operator, job, spark_submit, context):
    operator(task_id="t", job=job).execute(context)
    assert Path(spark_submit.seen.argv[-5]) == spark_app_path()
    assert type(from_json(json.dumps(spark_submit.seen.job))) is type(job)


@pytest.mark.parametrize(("operator", "job"), JOBS)
def test_an_operator_refuses_the_job_of_another(operator, job):
    other = DELETE if operator is not HiveAcidDeleteOperator else JOBS[1][1]
    with pytest.raises(InvalidJob, match=operator.job_type.__name__):
        operator(task_id="t", job=other)


def test_a_malformed_job_fails_while_the_dag_is_parsed():
    with pytest.raises(InvalidJob, match="target"), DAG("d"):
        HiveAcidDeleteOperator(task_id="t", job=DeleteJob(target=""))


def test_every_text_of_a_job_is_a_template(context):
    job = MergeJob(
        target="{{ params.table }}",
        source=SOURCE,
        on="t.id = s.id",
        when=(MatchedUpdate(set={"run": "'{{ run_id }}'"}),),
    )
    operator = HiveAcidMergeOperator(task_id="t", job=job, conf={"k": "{{ run_id }}"})
    operator.render_template_fields(context)
    assert operator.job.target == "db.orders"
    assert operator.job.source.path == "/feed/r"
    assert operator.job.when[0].set == {"run": "'r'"}
    assert operator.conf == {"k": "r"}
    assert job.target == "{{ params.table }}"


def test_a_job_that_renders_into_nonsense_is_not_submitted(spark_submit, context):
    operator = HiveAcidDeleteOperator(
        task_id="t", job=DeleteJob(target="{{ run_id }}", where="a = 1", run_in="spark")
    )
    operator.render_template_fields(context)
    with pytest.raises(AirflowFailException, match="'r' is not the name of a table"):
        operator.execute(context)
    assert not spark_submit.seen_file.exists()


def test_all_tries_of_a_task_instance_share_one_run_token(spark_submit, context):
    operator = HiveAcidDeleteOperator(task_id="t", job=DELETE)
    operator.execute(context)
    context["ti"].try_number += 1
    first = spark_submit.seen.job["run_token"]
    operator.execute(context)
    assert spark_submit.seen.job["run_token"] == first == "d/r/t/-1"


def test_runs_of_several_airflows_are_distinguished(spark_submit, context, monkeypatch):
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__INSTANCE_ID", "prod")
    HiveAcidDeleteOperator(task_id="t", job=DELETE).execute(context)
    assert spark_submit.seen.job["run_token"] == "prod:d/r/t/-1"


def test_an_airflow_whose_id_is_no_name_runs_nothing(spark_submit, context, monkeypatch):
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__INSTANCE_ID", "a/b")
    with pytest.raises(AirflowFailException, match="instance_id is 'a/b'"):
        HiveAcidDeleteOperator(task_id="t", job=DELETE).execute(context)
    assert not spark_submit.seen_file.exists()


def test_once_per_is_a_parameter(spark_submit, context):
    operator = HiveAcidDeleteOperator(task_id="t", job=DELETE, once_per="2026-11-20")
    operator.execute(context)
    assert spark_submit.seen.job["run_token"] == "d/2026-11-20/t/-1"
    assert spark_submit.seen.job["run_id"] == context["ti"].run_id
    HiveAcidDeleteOperator(task_id="t", job=DELETE).execute(context)
    assert spark_submit.seen.job["run_id"] is None


@pytest.mark.parametrize("once_per", ["", " ", "None"])
def test_once_per_must_not_be_empty(spark_submit, context, once_per):
    with pytest.raises(AirflowFailException, match=r"once_per .* is empty in this run"):
        HiveAcidDeleteOperator(task_id="t", job=DELETE, once_per=once_per).execute(context)
    assert not spark_submit.seen_file.exists()


@pytest.mark.parametrize("mode", [None, "client"])
def test_deferring_a_driver_on_the_worker_is_refused_at_parse(mode):
    with pytest.raises(InvalidJob, match="its driver runs in the worker"):
        HiveAcidDeleteOperator(task_id="t", job=DELETE, deploy_mode=mode, deferrable=True)


def test_the_report_is_returned_as_plain_values(spark_submit, context):
    spark_submit.will(report=report(rows_deleted=3, partitions=["c=de"], seconds={"read": 0.5}))
    returned = HiveAcidDeleteOperator(task_id="t", job=DELETE).execute(context)
    assert returned["rows_deleted"] == 3
    assert json.loads(json.dumps(returned)) == returned


def test_the_token_reaches_the_driver_by_its_environment_alone(spark_submit, context):
    HiveAcidDeleteOperator(task_id="t", job=DELETE).execute(context)
    seen = spark_submit.seen
    variable = seen.job["metastore"]["token_env"]
    assert seen.environment[variable] == "s3cret"
    assert "s3cret" not in json.dumps([seen.argv, seen.job])
    assert seen.job_mode == 0o600


def test_env_vars_stay_out_of_the_command_line_on_every_master(spark_submit, context, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "yarn"}')
    operator = HiveAcidDeleteOperator(task_id="t", job=DELETE, env_vars={"KEY": "pa55"})
    operator.execute(context)
    assert spark_submit.seen.environment["KEY"] == "pa55"
    assert "pa55" not in " ".join(spark_submit.seen.argv)


def test_a_metastore_in_the_job_needs_no_connection(
    spark_submit, context, monkeypatch, small_tables
):
    monkeypatch.delenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT")
    job = DeleteJob(target="db.t", where="true", metastore=small_tables.options, run_in="spark")
    HiveAcidDeleteOperator(task_id="t", job=job).execute(context)
    assert spark_submit.seen.job["metastore"]["uris"] == small_tables.uri


def test_spark_options_reach_spark_submit(spark_submit, context):
    HiveAcidDeleteOperator(
        task_id="t", job=DELETE, driver_memory="3g", num_executors=4, conf={"spark.a": "b"}
    ).execute(context)
    argv = spark_submit.seen.argv
    pairs = set(pairwise(argv))
    assert {
        ("--master", "local[2]"),
        ("--driver-memory", "3g"),
        ("--num-executors", "4"),
        ("--conf", "spark.a=b"),
        ("--name", "d.t"),
    } <= pairs


@pytest.mark.parametrize(
    ("options", "master", "levels"),
    [
        ({}, "local[2]", ["spark.log.level=WARN"]),
        ({"conf": {"spark.log.level": "INFO"}}, "local[2]", ["spark.log.level=INFO"]),
        ({"properties_file": "/etc/own.conf"}, "local[2]", []),
        # The hook reads the id of the application from the lines of this level.
        ({}, "yarn", []),
    ],
)
def test_spark_logs_only_warnings_unless_the_user_decides_otherwise(
    spark_submit, context, monkeypatch, options, master, levels
):
    connection = {"conn_type": "spark", "host": master}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    HiveAcidDeleteOperator(task_id="t", job=DELETE, **options).execute(context)
    argv = spark_submit.seen.argv
    assert [word for word in argv if word.startswith("spark.log.level")] == levels


def test_the_driver_s_clock_is_utc_wherever_the_worker_is(spark_submit, context, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    HiveAcidDeleteOperator(task_id="t", job=DELETE).execute(context)
    assert spark_submit.seen.environment["TZ"] == "UTC"


def test_the_driver_dies_with_the_task(spark_submit, context):
    HiveAcidDeleteOperator(task_id="t", job=DELETE).execute(context)
    assert spark_submit.seen.environment[DIE_WITH_PARENT] == str(os.getpid())


@pytest.mark.parametrize(
    ("retryable", "exit_code", "failure"),
    [
        (True, 10, HiveAcidTaskConflict),
        (True, 40, HiveAcidTaskTrouble),
        (False, 20, HiveAcidTaskRefused),
    ],
)
def test_a_reported_error_is_raised_with_its_remedy(
    retryable, exit_code, failure, spark_submit, context
):
    error = {
        "id": "LockTimeout",
        "message": "Waited 300 s for db.t.",
        "remedy": "Ask ada to commit.",
        "retryable": retryable,
        "exit_code": exit_code,
    }
    spark_submit.will(report=report(error=error), exit_code=exit_code)
    with pytest.raises(HiveAcidTaskFailure) as caught:
        HiveAcidDeleteOperator(task_id="t", job=DELETE).execute(context)
    assert type(caught.value) is failure
    assert isinstance(caught.value, AirflowFailException) is not retryable
    assert caught.value.error == ErrorReport(**error)
    # A traceback ends with these three lines.
    assert traceback.format_exception_only(caught.value)[0].splitlines() == [
        f"airflow_hiveacid.hooks.tasks.{failure.__name__}: LockTimeout: Waited 300 s for db.t.",
        "Ask ada to commit.",
        "See hiveacid errors LockTimeout",
    ]
    # It is the end of the log, without later output of Airflow.
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_airflow_shows_a_job_as_yaml():
    operator = HiveAcidDeleteOperator(task_id="t", job=DELETE)
    assert operator.template_fields_renderers["job"] == "yaml"
    shown = serialize_template_field(operator.job, "job")
    assert shown.startswith("job: delete\ntarget: ")
    assert shown == str(DELETE)


def test_a_driver_that_dies_without_a_report_may_be_tried_again(spark_submit, context):
    spark_submit.will(exit_code=137, output="java.lang.OutOfMemoryError")
    with pytest.raises(AirflowException, match="OutOfMemoryError") as caught:
        HiveAcidDeleteOperator(task_id="t", job=DELETE).execute(context)
    assert not isinstance(caught.value, AirflowFailException)


def test_a_driver_s_report_of_success_counts_after_any_end(spark_submit, context):
    spark_submit.will(report=report(rows_deleted=3), exit_code=137)
    assert HiveAcidDeleteOperator(task_id="t", job=DELETE).execute(context)["rows_deleted"] == 3


def test_success_without_a_report_is_a_failure(spark_submit, context):
    spark_submit.will()
    with pytest.raises(AirflowException, match="no report"):
        HiveAcidDeleteOperator(task_id="t", job=DELETE).execute(context)


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("AIRFLOW_CONN_SPARK_DEFAULT", None, "no Spark connection 'spark_default'"),
        (
            "AIRFLOW_CONN_SPARK_DEFAULT",
            '{"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "cluster"}}',
            "deploy mode cluster does not work for Python applications",
        ),
        ("AIRFLOW_CONN_HIVE_ACID_DEFAULT", None, "no metastore connection 'hive_acid_default'"),
        ("AIRFLOW_CONN_HIVE_ACID_DEFAULT", '{"conn_type": "http", "host": "h"}', "type 'http'"),
        (
            "AIRFLOW_CONN_SPARK_DEFAULT",
            '{"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}',
            "has no address of YARN's ResourceManager",
        ),
        (
            "AIRFLOW_CONN_SPARK_DEFAULT",
            '{"conn_type": "spark", "host": "yarn", "extra": {"spark-binary": "spark3-submit"}}',
            "needs 'spark3-submit'",
        ),
        ("JAVA_HOME", "/nowhere", "Install a Java 17"),
    ],
)
def test_missing_settings_are_reported_before_the_submission(
    variable, value, message, spark_submit, context, monkeypatch
):
    if value is None:
        monkeypatch.delenv(variable)
    else:
        monkeypatch.setenv(variable, value)
    with pytest.raises(AirflowFailException, match=message):
        HiveAcidDeleteOperator(task_id="t", job=DELETE).execute(context)
    assert not spark_submit.seen_file.exists()


def test_java_too_old_is_named_as_the_cause(spark_submit, context):
    spark_submit.will(
        exit_code=1, output="java.lang.UnsupportedClassVersionError: org/apache/spark"
    )
    with pytest.raises(AirflowFailException, match="Java 17"):
        HiveAcidDeleteOperator(task_id="t", job=DELETE).execute(context)


def when_submitted(spark_submit, act):
    """Do something from another thread as soon as Spark runs."""

    def wait():
        while not spark_submit.seen_file.exists():
            time.sleep(0.01)
        act()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def assert_ended(pid):
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_killing_the_task_ends_spark(spark_submit, context):
    spark_submit.will(hang=True)
    operator = HiveAcidDeleteOperator(task_id="t", job=DELETE)
    when_submitted(spark_submit, operator.on_kill)
    with pytest.raises(HiveAcidTaskTrouble, match="TaskKilled"):
        operator.execute(context)
    assert_ended(spark_submit.seen.pid)


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, AirflowTaskTimeout])
def test_an_interrupted_task_leaves_no_spark_behind(
    interruption, spark_submit, context, monkeypatch
):
    def interrupt(*_):
        raise interruption

    ended = threading.Event()

    def insist():
        # A signal that comes just before a read begins is noticed only when that has ended.
        while not ended.is_set():
            os.kill(os.getpid(), signal.SIGUSR1)
            ended.wait(10)

    spark_submit.will(hang=True)
    before = signal.signal(signal.SIGUSR1, interrupt)
    insisting = when_submitted(spark_submit, insist)
    try:
        with pytest.raises(interruption):
            HiveAcidDeleteOperator(task_id="t", job=DELETE).execute(context)
    finally:
        ended.set()
        insisting.join()
        signal.signal(signal.SIGUSR1, before)
    assert_ended(spark_submit.seen.pid)


def test_killing_the_task_aborts_its_transaction_and_no_other(spark_submit, context, small_tables):
    spark_submit.will(hang=True)
    operator = HiveAcidDeleteOperator(
        task_id="t",
        job=DeleteJob(target="db.t", where="true", metastore=small_tables.options, run_in="spark"),
    )
    with MetastoreClient(small_tables.options) as client:
        # The application that the driver would have started, and another map index of the same
        # task.
        tokens = (marked_token(token, ["db.t"]) for token in ("d/r/t/-1", "d/r/t/0"))
        own, other = (Transaction(client, run_token=token) for token in tokens)
        with other, own:
            killed = when_submitted(spark_submit, operator.on_kill)
            with pytest.raises(HiveAcidTaskTrouble, match="TaskKilled"):
                operator.execute(context)
            killed.join()
            states = {txn.txn_id: txn.state for txn in client.get_open_txns_info()}
    assert states.get(own.txn_id) is not TxnState.OPEN
    assert states[other.txn_id] is TxnState.OPEN


def test_a_parameter_with_braces_is_no_template(spark_submit, context):
    with DAG("d", schedule=None):
        operator = HiveAcidRestoreOperator(
            task_id="t", job=RestoreJob(target="db.t", as_of="{{ params.version }}")
        )
    operator.render_template_fields({"params": {"version": "{{ params.version }}"}})
    with pytest.raises(HiveAcidTaskRefused, match="InvalidJob"):
        operator.execute(context)
    assert not spark_submit.seen_file.exists()
