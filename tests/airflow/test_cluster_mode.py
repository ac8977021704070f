"""Operators with their driver in the cluster: after the death of any process, the application is
found."""

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.common.compat.sdk import AirflowException, TaskDeferred

from airflow_hiveacid import HiveAcidSqlOperator
from airflow_hiveacid.cluster.applications import application_tag
from airflow_hiveacid.cluster.runs import ClusterRun
from airflow_hiveacid.hooks.tasks import (
    HiveAcidTaskConflict,
    HiveAcidTaskRefused,
    HiveAcidTaskTrouble,
)
from airflow_hiveacid.operators import job as job_operator
from airflow_hiveacid.triggers import application as application_trigger
from hiveacid.drivers.run_files import RunFiles
from hiveacid.errors import (
    InvalidConnection,
    LockTimeout,
    StorageUnreachable,
    UnknownColumn,
)
from hiveacid.jobs.report import RunReport, ScriptReport
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.parser.script import to_jobs
from hiveacid.rules.names import RUN_NOTES, VIEW_REPORTS, TableRef
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.tables.definitions.run import run_ddl
from tests.airflow.cluster_task import deferred_by, delete, first_event, followed, rebuilt

RUN_TOKEN = "d/r/t/-1"
Context = dict[str, Any]


@pytest.fixture(params=[False, True], ids=["waiting", "deferred"])
def perform(request: pytest.FixtureRequest, context: Context) -> Callable[[], dict[str, Any]]:
    """One try of the task, as Airflow goes about it: in a worker all the time, or deferred."""

    def perform() -> dict[str, Any]:
        go_on = partial(delete(deferrable=request.param).execute, context)
        while True:
            try:
                return go_on()
            except TaskDeferred as deferred:
                assert request.param
                event = asyncio.run(first_event(rebuilt(deferred, context)))
                # Another worker may go on.
                method = getattr(delete(deferrable=True), deferred.method_name)
                go_on = partial(method, context, event=event)

    return perform


def test_a_submission_carries_all_that_the_driver_needs_and_shows_no_secret(cluster, context):
    deferred = deferred_by(delete(deferrable=True, env_vars={"KEY": "pa55"}), context)
    (application,) = cluster.applications
    seen = cluster.seen(application)
    arguments = " ".join(seen.argv)
    assert "--deploy-mode cluster" in arguments
    assert "--job job.json" in arguments
    assert seen.job["run_token"] == RUN_TOKEN
    assert seen.environment[seen.job["metastore"]["token_env"]] == "s3cret"
    assert seen.environment["KEY"] == "pa55"
    assert seen.environment["TZ"] == "UTC"
    assert seen.properties_mode == 0o600
    for shown in (arguments, json.dumps(seen.job), json.dumps(deferred.trigger.serialize())):
        assert "s3cret" not in shown
        assert "pa55" not in shown


def test_a_table_that_the_job_creates_gets_the_files_of_the_run(cluster, context, orders):
    sql = "CREATE TABLE shop.day AS SELECT 1 AS id"
    deferred_by(
        HiveAcidSqlOperator(task_id="t", sql=sql, deploy_mode="cluster", deferrable=True), context
    )
    argv = cluster.seen(cluster.applications[0]).argv
    report = argv[argv.index("--report") + 1]
    run_ddl(orders.client, to_jobs("CREATE TABLE shop.day (id int)")[0])
    folder = orders.client.get_table(TableRef("shop", "day")).folder
    assert report.startswith(f"{folder}/{RUN_NOTES}/")


def test_the_files_of_a_view_are_in_its_database_until_the_report_is_read(cluster, context, orders):
    sql = "CREATE OR REPLACE VIEW shop.ids AS SELECT id FROM shop.orders"
    database = orders.client.get_database("shop")
    folder = f"{database.managed_location or database.location}/{VIEW_REPORTS}"
    view = HiveTable.new(TableRef("shop", "ids"), [HiveColumn("id", "int")])
    view.raw.tableType, view.raw.sd.location = "VIRTUAL_VIEW", None
    view.raw.viewOriginalText = view.raw.viewExpandedText = "SELECT id FROM shop.orders"
    for number, existing in enumerate((False, True)):
        if existing:
            orders.client.create_table(view)
        operator = HiveAcidSqlOperator(
            task_id=f"t{number}", sql=sql, deploy_mode="cluster", deferrable=True
        )
        deferred = deferred_by(operator, context)
        application = cluster.applications[-1]
        argv = cluster.seen(application).argv
        assert argv[argv.index("--report") + 1].startswith(f"{folder}/")
        cluster.begin(application)
        report = RunReport(job="create_view", target="shop.ids")
        cluster.report(application, ScriptReport.of("shop.ids", [report]))
        cluster.kubernetes.end(application)
        assert len(ReadOnlyStorage.of(folder).list_files()) == 2
        event = asyncio.run(first_event(rebuilt(deferred, context)))
        getattr(operator, deferred.method_name)(context, event=event)
        assert ReadOnlyStorage.of(folder).list_files() == []


def test_the_driver_s_progress_reaches_the_task_during_the_work(cluster, context, perform):
    xcoms = context["ti"].xcoms

    def steps():
        application = followed(cluster, context)
        cluster.begin(application, txn_ids=[7], write_ids={"shop.orders": 3})
        cluster.until(lambda: xcoms.get("txn_id") == 7)
        # The table has moved meanwhile, and the driver has begun again.
        cluster.begin(application, txn_ids=[7, 9], write_ids={"shop.orders": 4})
        cluster.until(lambda: xcoms.get("write_ids") == {"shop.orders": 4})
        assert xcoms["txn_id"] == 9
        cluster.succeed(application, rows_deleted=3)

    with cluster.meanwhile(steps):
        assert perform()["rows_deleted"] == 3


@pytest.mark.parametrize("dies", ["before", "after"])
def test_a_retry_submits_only_what_a_dead_submitter_has_not(cluster, context, perform, dies):
    cluster.submitter_will("die" if dies == "before" else "die afterwards")
    with pytest.raises(AirflowException, match="Error code is: -9"):
        perform()
    assert len(cluster.applications) == (0 if dies == "before" else 1)
    assert "application_id" not in context["ti"].xcoms
    cluster.submitter_will("end")

    def steps():
        application = followed(cluster, context)
        cluster.succeed(application, rows_deleted=1)

    with cluster.meanwhile(steps):
        assert perform()["rows_deleted"] == 1
    assert len(cluster.applications) == 1


def test_a_retry_continues_with_the_application_of_a_dead_worker(cluster, context, perform):
    deferred_by(delete(deferrable=True), context)
    (application,) = cluster.applications
    cluster.begin(application, txn_ids=[5])

    def steps():
        cluster.until(lambda: context["ti"].xcoms.get("txn_id") == 5)
        cluster.succeed(application, rows_deleted=2)

    with cluster.meanwhile(steps):
        assert perform()["rows_deleted"] == 2
    assert cluster.applications == [application]


@pytest.mark.parametrize("deferrable", [False, True])
def test_the_state_of_the_task_shows_the_application(cluster, context, perform, deferrable):
    states = {}
    context["task_state_store"] = SimpleNamespace(set=states.__setitem__)
    if deferrable:
        deferred_by(delete(deferrable=True), context)
        assert states == {SparkSubmitOperator.external_id_key: cluster.applications[-1]}
    else:
        with cluster.meanwhile(lambda: cluster.succeed(followed(cluster, context), rows_deleted=1)):
            perform()
        assert states == {SparkSubmitOperator.external_id_key: cluster.applications[-1]}


def test_a_try_that_came_before_the_end_of_the_one_before_submits_again(cluster, context, perform):
    deferred_by(delete(deferrable=True), context)
    (application,) = cluster.applications
    context["ti"].xcoms.clear()

    def steps():
        followed(cluster, context)
        cluster.kubernetes.remove(application)
        cluster.succeed(cluster.appears(1), rows_deleted=2)

    with cluster.meanwhile(steps):
        assert perform()["rows_deleted"] == 2


def test_a_retry_does_not_wait_for_what_has_ended(cluster, perform):
    with (
        cluster.meanwhile(lambda: cluster.kubernetes.end(cluster.appears(), exit_code=1)),
        pytest.raises(AirflowException, match="Error, exit code 1"),
    ):
        perform()
    with cluster.meanwhile(lambda: cluster.succeed(cluster.appears(2), rows_deleted=1)):
        assert perform()["rows_deleted"] == 1


def test_runs_do_not_wait_for_each_others_applications(cluster, perform):
    other = cluster.kubernetes.submit(application_tag("d/r/t/0"))
    cluster.kubernetes.run(other)
    with cluster.meanwhile(lambda: cluster.succeed(cluster.appears(2), rows_deleted=1)):
        assert perform()["rows_deleted"] == 1


def test_nothing_is_submitted_while_running_applications_are_unknown(cluster, perform):
    cluster.kubernetes.refused["pods"] = HTTPStatus.SERVICE_UNAVAILABLE
    with pytest.raises(HiveAcidTaskTrouble, match="503"):
        perform()
    assert cluster.applications == []


def test_answers_that_are_lost_on_the_way_are_asked_for_again(cluster, context, perform):
    def steps():
        application = followed(cluster, context)
        kubernetes = cluster.kubernetes
        cluster.begin(application)
        for trouble in (
            HTTPStatus.SERVICE_UNAVAILABLE,
            HTTPStatus.UNAUTHORIZED,
            HTTPStatus.FORBIDDEN,
        ):
            kubernetes.refused["pods"] = trouble
            asked = kubernetes.lists
            cluster.until(lambda asked=asked: kubernetes.lists > asked + 6)
            kubernetes.refused.clear()
        # As after a restart, when its information returns step by step.
        kubernetes.empty_lists = 4
        cluster.until(lambda: not kubernetes.empty_lists)
        cluster.succeed(application, rows_deleted=1)

    with cluster.meanwhile(steps):
        assert perform()["rows_deleted"] == 1
    assert len(cluster.applications) == 1


@pytest.mark.parametrize("reachable", [True, False])
def test_an_application_that_cannot_be_followed_is_ended_or_adopted_by_the_next_attempt(
    cluster, context, perform, monkeypatch, reachable
):
    def refuse(_):
        if not reachable:
            cluster.kubernetes.refused["pods"] = HTTPStatus.FORBIDDEN
        raise InvalidConnection("The service account lacks the right to list pods.")

    for module in (application_trigger, job_operator):
        monkeypatch.setattr(module, "PATIENCE", timedelta(0))
    with monkeypatch.context() as patch:
        patch.setattr(ClusterRun, "poll", refuse)
        with pytest.raises(HiveAcidTaskTrouble, match="InvalidConnection"):
            perform()
    (application,) = cluster.applications
    assert cluster.killed(application) is reachable
    cluster.kubernetes.refused.clear()
    if not reachable:
        context["ti"].xcoms.clear()
        with cluster.meanwhile(lambda: cluster.succeed(followed(cluster, context), rows_deleted=1)):
            assert perform()["rows_deleted"] == 1
        assert cluster.applications == [application]


def test_a_waiting_writer_survives_an_expired_ticket(cluster, context, perform, monkeypatch):
    """The driver's reports are on HDFS; its state comes from the cluster."""

    def steps():
        application = followed(cluster, context)
        looks = []

        def refuse(files):
            looks.append(files)
            raise StorageUnreachable("hdfs://nn/t cannot be reached: Ticket expired.")

        with monkeypatch.context() as patch:
            patch.setattr(RunFiles, "read_started", refuse)
            cluster.begin(application, txn_ids=[7])
            cluster.until(lambda: len(looks) > 3)
        # Another process has renewed it.
        cluster.until(lambda: context["ti"].xcoms.get("txn_id") == 7)
        cluster.succeed(application, rows_deleted=1)

    with cluster.meanwhile(steps):
        assert perform()["rows_deleted"] == 1
    assert len(cluster.applications) == 1


def test_an_application_that_vanishes_fails_the_task(cluster, context, perform):
    def steps():
        application = followed(cluster, context)
        cluster.begin(application)
        cluster.kubernetes.remove(application)

    with (
        cluster.meanwhile(steps),
        pytest.raises(AirflowException, match=r"lost\. The cluster does not know spark-"),
    ):
        perform()


@pytest.mark.parametrize("end", ["vanishes", "fails"])
def test_the_driver_s_report_of_success_counts(cluster, context, perform, end):
    def steps():
        application = followed(cluster, context)
        cluster.report(application, rows_deleted=4)
        if end == "vanishes":
            cluster.kubernetes.remove(application)
        else:
            cluster.kubernetes.end(application, exit_code=137, reason="OOMKilled")

    with cluster.meanwhile(steps):
        assert perform()["rows_deleted"] == 4


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (LockTimeout("not in time."), HiveAcidTaskConflict),
        (UnknownColumn("There is no column x."), HiveAcidTaskRefused),
    ],
)
def test_the_drivers_error_is_the_tasks(cluster, perform, error, failure):
    with (
        cluster.meanwhile(lambda: cluster.fail(cluster.appears(), error)),
        pytest.raises(failure, match=error.what),
    ):
        perform()


def test_a_driver_without_a_report_leaves_its_last_words_in_the_log(cluster, perform, capsys):
    def steps():
        cluster.begin(application := cluster.appears())
        cluster.kubernetes.end(application, exit_code=137, reason="OOMKilled")

    with (
        cluster.meanwhile(steps),
        pytest.raises(
            AirflowException, match=r"failed\. OOMKilled, exit code 137\. It was .* SIGKILL"
        ),
    ):
        perform()
    assert "ValueError: of the driver" in capsys.readouterr().out


def test_deferring_follows_airflows_setting_where_the_driver_is_in_the_cluster(
    cluster, context, monkeypatch
):
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", "True")
    # The connection asks for deploy mode cluster.
    deferred_by(delete(deploy_mode=None), context)
