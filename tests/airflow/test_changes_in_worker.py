"""Changes of rows as tasks: in a worker that has neither Java nor a Spark connection, or on Spark."""

import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
)
from airflow.sdk import DAG, task

from airflow_hiveacid import (
    HiveAcidDeleteOperator,
    HiveAcidDiscardOperator,
    HiveAcidInsertOperator,
    HiveAcidMergeOperator,
    HiveAcidPublishOperator,
    HiveAcidRestoreOperator,
    HiveAcidSqlOperator,
    HiveAcidStageOperator,
    HiveAcidTransactionOperator,
    HiveAcidUpdateOperator,
    MatchedUpdate,
    NotMatchedInsert,
    PathSource,
    QuerySource,
    TableSource,
)
from airflow_hiveacid.hooks.metastore import HiveAcidMetastoreHook
from airflow_hiveacid.hooks.tasks import HiveAcidTaskTrouble
from hiveacid.errors import InvalidJob
from hiveacid.jobs import (
    DeleteJob,
    InsertJob,
    MergeJob,
    RestoreJob,
    TransactionJob,
    UpdateJob,
)
from hiveacid.jobs.report import RunReport, ScriptReport
from hiveacid.jobs.stage_jobs import StageReport
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.owner import find_open_transactions
from hiveacid.progress import FAULT_VARIABLE
from hiveacid.rules.names import TableRef
from tests.airflow.conftest import SparkSubmit
from tests.forks import died
from tests.rows import rows_of

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
Context = dict[str, Any]


@pytest.fixture
def database(client: MetastoreClient, database: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database with tables, which a worker reaches that has neither Java nor Spark."""
    host, port = client.options.uris.removeprefix("thrift://").split(":")
    connection = {"conn_type": "hive_acid_metastore", "host": host, "port": int(port)}
    monkeypatch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", json.dumps(connection))
    for name in ("JAVA_HOME", "SPARK_HOME", "AIRFLOW_CONN_SPARK_DEFAULT"):
        monkeypatch.delenv(name, raising=False)
    return database


@pytest.fixture
def run(context: Context, database: str) -> Callable[..., dict[str, Any]]:
    """Run the operator of each task in its own task instance."""

    def go(operator: Any) -> dict[str, Any]:
        context["ti"].task_id = operator.task_id
        operator.render_template_fields(context)
        report: dict[str, Any] = operator.execute(context)
        assert json.loads(json.dumps(report)) == report
        return report

    return go


@pytest.fixture
def table(run: Callable[..., Any], database: str) -> str:
    """A table with two rows, and an empty one."""
    sql = (
        "CREATE TABLE IF NOT EXISTS t (id int, v string); CREATE TABLE IF NOT EXISTS u (id int, v string);"
        "INSERT INTO t VALUES (1, 'a'), (2, 'b')"
    )
    run(HiveAcidSqlOperator(task_id="fill", sql=sql, database=database, run_in="worker"))
    return f"{database}.t"


@pytest.fixture
def rows(client: MetastoreClient, table: str) -> Callable[..., list[tuple[Any, ...]]]:
    def read(name: str = table) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in rows_of(client.options.uris, name)]

    return read


@pytest.mark.parametrize("run_in", ["auto", "worker"])
def test_each_operator_changes_rows_in_the_worker(
    run, rows, table: str, context: Context, run_in: str
) -> None:
    update = UpdateJob(target=table, set={"v": "'x'"}, where="id = 1", run_in=run_in)
    report = run(HiveAcidUpdateOperator(task_id="update", job=update))
    assert (report["job"], report["rows_updated"]) == ("update", 1)
    xcoms = context["ti"].xcoms
    assert (xcoms["txn_id"], xcoms["write_ids"]) == (report["txn_id"], report["write_ids"])
    assert "application_id" not in xcoms
    source = QuerySource("VALUES (2, 'c'), (3, 'd')")
    insert = InsertJob(
        target=table.replace(".t", ".u"), source=source, by_position=True, run_in=run_in
    )
    assert run(HiveAcidInsertOperator(task_id="insert", job=insert))["rows_inserted"] == 2
    merge = MergeJob(
        target=table,
        source=TableSource(table.replace(".t", ".u")),
        on="t.id = s.id",
        when=(MatchedUpdate(), NotMatchedInsert()),
        run_in=run_in,
    )
    report = run(HiveAcidMergeOperator(task_id="merge", job=merge))
    assert (report["rows_updated"], report["rows_inserted"]) == (1, 1)
    assert rows() == [(1, "x"), (2, "c"), (3, "d")]
    both = TransactionJob(
        statements=(
            DeleteJob(target=table, where="id > 1"),
            DeleteJob(target=table.replace(".t", ".u"), where="id = 2"),
        ),
        run_in=run_in,
    )
    report = run(HiveAcidTransactionOperator(task_id="both", job=both))
    assert [each["rows_deleted"] for each in report["tables"]] == [2, 1]
    delete = DeleteJob(target=table, where="id = :id", params={"id": 1}, run_in=run_in)
    run(HiveAcidDeleteOperator(task_id="delete", job=delete))
    assert (rows(), rows(table.replace(".t", ".u"))) == ([], [(3, "d")])


def test_a_staged_change_is_published_or_discarded(run, rows, table: str, context, client) -> None:
    def stage(task_id: str) -> dict[str, Any]:
        job = UpdateJob(target=table, set={"v": "'x'"}, where="id = 1", run_in="worker")
        return run(HiveAcidStageOperator(task_id=task_id, job=job, expires_after="1 h"))

    staged = stage("stage")
    assert (staged["job"], staged["rows_updated"], staged["already_done"]) == ("update", 1, False)
    assert rows() == [(1, "a"), (2, "b")]
    assert not client.show_locks(TableRef.parse(table))
    again = stage("stage")
    assert again["staged"] != staged["staged"]
    with pytest.raises(AirflowFailException, match="StagedChangeRefused"):
        run(HiveAcidPublishOperator(task_id="publish", staged=staged))
    text = json.dumps(again)
    report = run(HiveAcidPublishOperator(task_id="publish", staged=text))
    assert report["rows_updated"] == 1
    assert context["ti"].xcoms["txn_id"] == report["txn_id"]
    assert rows() == [(1, "x"), (2, "b")]
    name = f"{again['target']}/{again['staged']}"
    assert run(HiveAcidPublishOperator(task_id="publish", staged=name))["already_done"]
    with pytest.raises(AirflowFailException, match="was published"):
        run(HiveAcidDiscardOperator(task_id="discard", staged=again))
    other = stage("other")
    assert run(HiveAcidDiscardOperator(task_id="discard", staged=other))["job"] == "discard"
    with pytest.raises(AirflowFailException, match="discarded"):
        run(HiveAcidPublishOperator(task_id="publish", staged=other))
    with pytest.raises(InvalidJob, match="cannot be staged"):
        HiveAcidStageOperator(task_id="t", job=RestoreJob(target=table, as_of="1"))
    with pytest.raises(AirflowFailException, match="must be the result"):
        run(HiveAcidPublishOperator(task_id="publish", staged="x"))


def test_a_killed_publication_is_aborted(run, rows, table: str, client, monkeypatch) -> None:
    job = UpdateJob(target=table, set={"v": "'x'"}, where="id = 1", run_in="worker")
    staged = run(HiveAcidStageOperator(task_id="stage", job=job))
    operator = HiveAcidPublishOperator(task_id="publish", staged=staged)

    def kill(*_: object) -> None:
        operator.on_kill()

    monkeypatch.setattr("hiveacid.writes.atomic_write.send_write_events", kill)
    with pytest.raises(HiveAcidTaskTrouble, match="TaskKilled"):
        run(operator)
    assert (rows(), client.show_locks(TableRef.parse(table))) == ([(1, "a"), (2, "b")], [])


def test_a_decorated_function_is_the_source_of_a_change_in_the_worker(run, rows, table) -> None:
    with DAG("d"):

        @task.hive_acid_merge(
            target=table,
            on="t.id = s.id",
            when=[MatchedUpdate(), NotMatchedInsert()],
            inputs={"feed": TableSource(table)},
            run_in="worker",
        )
        def merge():
            return "SELECT id, 'm' AS v FROM feed WHERE id = 2"

        operator = merge().operator
    assert run(operator)["rows_updated"] == 1
    assert rows() == [(1, "a"), (2, "m")]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (
            lambda table: HiveAcidUpdateOperator(
                task_id="t",
                job=UpdateJob(
                    target=table,
                    set={"v": "reflect(v, v)"},
                    where="id = 1",
                    trusted=True,
                    run_in="worker",
                ),
            ),
            "reflect",
        ),
        (
            lambda table: HiveAcidInsertOperator(
                task_id="t",
                job=InsertJob(
                    target=table, source=PathSource("/feed", format="json"), run_in="worker"
                ),
            ),
            "the schema of /feed",
        ),
        (
            lambda table: HiveAcidRestoreOperator(
                task_id="t", job=RestoreJob(target=table, as_of="1", run_in="worker")
            ),
            "restore statements",
        ),
        (
            lambda table: HiveAcidSqlOperator(
                task_id="t",
                sql=f"DELETE FROM {table} WHERE id = 1; UPDATE {table} SET v = v || v || soundex(v)",
                all_rows=True,
                run_in="worker",
            ),
            "Statement 2 of 2",
        ),
    ],
)
def test_a_change_that_is_limited_to_the_worker_never_runs_on_spark(
    run, table: str, client: MetastoreClient, make: Callable[[str], Any], reason: str
) -> None:
    with pytest.raises(AirflowFailException, match=f"SparkNeeded.*{reason}"):
        run(make(table))
    assert client.show_locks(TableRef.parse(table)) == []


def test_what_the_worker_cannot_do_is_submitted(
    run, rows, table, context, monkeypatch, capsys, request: pytest.FixtureRequest
) -> None:
    metastore = os.environ["AIRFLOW_CONN_HIVE_ACID_DEFAULT"]
    spark_submit: SparkSubmit = request.getfixturevalue("spark_submit")
    monkeypatch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", metastore)
    done = RunReport(job="update", target=table, txn_id=77, rows_updated=1)
    spark_submit.will(report=done.to_dict())
    job = UpdateJob(target=table, set={"v": "soundex(v)"}, where="id = 1", run_in="auto")
    assert run(HiveAcidUpdateOperator(task_id="t", job=job))["txn_id"] == 77
    assert spark_submit.seen.job["run_token"] == "d/r/t/-1"
    assert "On Spark: soundex" in capsys.readouterr().out
    assert rows() == [(1, "a"), (2, "b")]


def test_a_change_that_spark_must_stage_is_submitted(
    run, table, context, monkeypatch, request: pytest.FixtureRequest
) -> None:
    metastore = os.environ["AIRFLOW_CONN_HIVE_ACID_DEFAULT"]
    spark_submit: SparkSubmit = request.getfixturevalue("spark_submit")
    monkeypatch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", metastore)
    done = StageReport(job="update", target=table, rows_updated=1, staged=f"{'0' * 64}_7")
    spark_submit.will(report=done.to_dict())
    job = UpdateJob(target=table, set={"v": "soundex(v)"}, where="id = 1", run_in="auto")
    report = run(HiveAcidStageOperator(task_id="t", job=job))
    assert (report["staged"], report["rows_updated"]) == (done.staged, 1)
    submitted = spark_submit.seen.job
    assert (submitted["job"], submitted["change"]["job"]) == ("stage", "update")
    assert submitted["run_token"] == "d/r/t/-1"


def test_files_that_the_worker_does_not_find_are_left_to_spark(
    run, table, client: MetastoreClient, monkeypatch, capsys, request: pytest.FixtureRequest
) -> None:
    metastore = os.environ["AIRFLOW_CONN_HIVE_ACID_DEFAULT"]
    spark_submit: SparkSubmit = request.getfixturevalue("spark_submit")
    monkeypatch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", metastore)
    spark_submit.will(report=RunReport(job="update", target=table, txn_id=77).to_dict())
    folder = Path(urlsplit(client.get_table(TableRef.parse(table)).folder).path)
    folder.rename(folder.with_name("on_another_disk"))
    job = UpdateJob(target=table, set={"v": "'x'"}, where="id = 1", run_in="auto")
    assert run(HiveAcidUpdateOperator(task_id="t", job=job))["txn_id"] == 77
    assert re.search(f"On Spark: The directory .*{folder.name} does not", capsys.readouterr().out)
    values = f"INSERT OVERWRITE TABLE {table} VALUES (3, 'c')"
    for operator in (
        HiveAcidUpdateOperator(task_id="u", job=replace(job, run_in="worker")),
        HiveAcidSqlOperator(task_id="v", sql=values, run_in="worker"),
    ):
        with pytest.raises(AirflowException, match=r"DirectoryMissing.*does not exist"):
            run(operator)
    assert not folder.exists()


def test_spark_gets_the_statements_from_the_first_one_that_needs_it(
    run, rows, table, context, monkeypatch, capsys, request: pytest.FixtureRequest
) -> None:
    metastore = os.environ["AIRFLOW_CONN_HIVE_ACID_DEFAULT"]
    spark_submit: SparkSubmit = request.getfixturevalue("spark_submit")
    monkeypatch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", metastore)
    on_spark = [
        RunReport(job="update", target=table, rows_updated=3),
        RunReport(job="insert", target=table, rows_inserted=1),
    ]
    spark_submit.will(report=ScriptReport.of(table, on_spark).to_dict())
    insert = f"INSERT INTO {table} VALUES (3, 'c')"
    sql = f"{insert}; UPDATE {table} SET v = soundex(v) WHERE id > 0; {insert}"
    report = run(HiveAcidSqlOperator(task_id="t", sql=sql, run_in="auto"))
    statements = [each["run"] for each in report["statements"]]
    assert [(each["job"], each["rows_inserted"]) for each in statements] == [
        ("insert", 1),
        ("update", 0),
        ("insert", 1),
    ]
    assert rows() == [(1, "a"), (2, "b"), (3, "c")]
    assert (spark_submit.seen.job["first"], len(spark_submit.seen.job["statements"])) == (1, 3)
    assert "The rest on Spark: soundex" in capsys.readouterr().out


def test_an_unknown_column_is_found_before_the_first_statement(run, rows, table) -> None:
    sql = f"DELETE FROM {table} WHERE id = 1; DELETE FROM {table} WHERE oops = 1"
    with pytest.raises(AirflowFailException, match=r"Statement 2 of 2.*oops"):
        run(HiveAcidSqlOperator(task_id="t", sql=sql, run_in="worker"))
    assert rows() == [(1, "a"), (2, "b")]


def test_the_worker_is_the_default_for_small_changes(run, rows, table) -> None:
    run(HiveAcidDeleteOperator(task_id="t", job=DeleteJob(target=table, where="id = 1")))
    run(HiveAcidSqlOperator(task_id="u", sql=f"UPDATE {table} SET v = 'x' WHERE id = 2"))
    assert rows() == [(2, "x")]
    job = DeleteJob(target=table, where="id = 2", run_in="spark")
    with pytest.raises(AirflowException, match="no Spark connection 'spark_default'"):
        run(HiveAcidDeleteOperator(task_id="t", job=job))


def test_a_killed_task_ends_its_transaction_and_is_tried_again(
    run, rows, table, context: Context, client: MetastoreClient
) -> None:
    job = UpdateJob(target=table, set={"v": "'x'"}, where="id = 1", run_in="worker")
    operator = HiveAcidUpdateOperator(task_id="t", job=job)
    push = context["ti"].xcom_push

    def kill(key: str, value: object) -> None:
        if key == "txn_ids":
            operator.on_kill()

    context["ti"].xcom_push = kill
    with pytest.raises(HiveAcidTaskTrouble, match="TaskKilled"):
        run(operator)
    assert rows() == [(1, "a"), (2, "b")]
    assert operator._running is not None
    assert find_open_transactions(client, *operator._running.tokens) == []
    assert client.show_locks(TableRef.parse(table)) == []
    context["ti"].xcom_push = push
    assert run(HiveAcidUpdateOperator(task_id="t", job=job))["rows_updated"] == 1
    assert rows() == [(1, "x"), (2, "b")]


@pytest.mark.parametrize("fault", ["write:kill:after", "commit:kill", "commit:kill:after"])
@pytest.mark.parametrize("sql", [False, True])
def test_rows_are_changed_once_although_the_worker_dies(
    run, rows, table, client, monkeypatch: pytest.MonkeyPatch, fault: str, sql: bool
) -> None:
    def operator() -> Any:
        if sql:
            text = f"INSERT INTO {table} VALUES (3, 'c'); INSERT INTO {table} VALUES (3, 'c')"
            return HiveAcidSqlOperator(task_id="t", sql=text, run_in="worker")
        job = MergeJob(
            target=table,
            source=QuerySource("SELECT id + 1 AS id, v FROM f", {"f": TableSource(table)}),
            on="t.id = s.id",
            when=(MatchedUpdate(), NotMatchedInsert()),
            run_in="worker",
        )
        return HiveAcidMergeOperator(task_id="t", job=job)

    with monkeypatch.context() as patch:
        patch.setenv(FAULT_VARIABLE, fault)
        died(lambda: run(operator()))
    report = run(operator())
    first = report["statements"][0]["run"] if sql else report
    assert first["already_done"] is (fault == "commit:kill:after")
    added = [(3, "c"), (3, "c")] if sql else []
    expected = [(1, "a"), (2, "b"), *added] if sql else [(1, "a"), (2, "a"), (3, "b")]
    assert rows() == expected
    assert client.show_locks(TableRef.parse(table)) == []


@pytest.fixture
def feed(table: str, tmp_path: Path) -> InsertJob:
    path = PathSource(f"file:{tmp_path}/feed.csv", "csv", {"header": "true"}, "id int, v string")
    return InsertJob(target=table, source=path, run_in="worker")


def test_an_empty_source_skips_or_fails_the_task_and_clearing_it_applies_the_repaired_one(
    run, rows, feed: InsertJob, tmp_path: Path
) -> None:
    (tmp_path / "feed.csv").touch()
    skipped = HiveAcidInsertOperator(task_id="t", job=replace(feed, on_empty="skip"))
    with pytest.raises(
        AirflowSkipException, match=r"no bytes.*\nNothing was changed\. Clear the task"
    ):
        run(skipped)
    with pytest.raises(HiveAcidTaskTrouble, match="no bytes"):
        run(HiveAcidInsertOperator(task_id="t", job=feed))
    (tmp_path / "feed.csv").write_text("id,v\n3,c\n")
    assert run(skipped)["rows_inserted"] == 1
    assert rows() == [(1, "a"), (2, "b"), (3, "c")]


def test_an_applied_run_is_applied_again_once_by_name(run, rows, feed, tmp_path: Path) -> None:
    (tmp_path / "feed.csv").write_text("id,v\n3,c\n")
    for name, done in (("", False), ("", True), ("repaired", False), ("repaired", True)):
        operator = HiveAcidInsertOperator(task_id="again", job=feed, apply_again=name)
        assert run(operator)["already_done"] is done
    assert rows() == [(1, "a"), (2, "b"), (3, "c"), (3, "c")]


def test_the_hook_lets_a_run_be_applied_again(run, rows, context, feed, tmp_path: Path) -> None:
    (tmp_path / "feed.csv").write_text("id,v\n3,c\n")
    operator = HiveAcidInsertOperator(task_id="hook", job=feed)
    run(operator)
    ti = context["ti"]
    name = f"{ti.dag_id}/{ti.run_id}/hook/{ti.map_index}"
    (applied,) = HiveAcidMetastoreHook().apply_again(feed.target, name, dry_run=True)
    assert applied.rows_inserted == 1
    assert run(operator)["already_done"]
    HiveAcidMetastoreHook().apply_again(feed.target, name)
    assert run(operator)["rows_inserted"] == 1
    assert rows() == [(1, "a"), (2, "b"), (3, "c"), (3, "c")]
