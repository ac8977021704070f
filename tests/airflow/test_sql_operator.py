"""SQL as a task, up to the application; other tests cover the effects of statements."""

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import DAG

from airflow_hiveacid import HiveAcidSqlOperator
from airflow_hiveacid.assets import table_asset
from airflow_hiveacid.hooks.tasks import HiveAcidTaskTrouble
from hiveacid.errors import InvalidJob, SparkNeeded, SqlError, TableNotFound
from hiveacid.jobs.codec import encode
from hiveacid.jobs.report import CompactReport, RunReport, ScriptReport
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind

SCRIPT = """
DELETE FROM orders WHERE id IN (SELECT id FROM gone);
ALTER TABLE orders COMPACT 'major'
"""


@pytest.fixture
def submitted(spark_submit):
    """A spark-submit that reports the results of two statements."""
    deleted = RunReport(job="delete", target="shop.orders", txn_id=7, rows_deleted=3)
    compacted = CompactReport(target="shop.orders")
    spark_submit.will(report=ScriptReport.of("shop.orders", [deleted, compacted]).to_dict())
    return spark_submit


def test_statements_are_submitted_as_jobs(submitted, context):
    operator = HiveAcidSqlOperator(
        task_id="t", sql=SCRIPT, database="shop", lock_wait_seconds=5, conflict_policy="strict"
    )
    operator.render_template_fields(context)
    report = operator.execute(context)
    seen = submitted.seen
    assert (seen.job["job"], seen.job["target"]) == ("script", "shop.orders")
    assert (seen.job["run_token"], seen.job["lock_wait_seconds"]) == ("d/r/t/-1", 5)
    assert seen.job["conflict_policy"] == "strict"
    delete, compact = seen.job["statements"]
    assert (delete["job"], delete["where"]) == (
        "delete",
        "id IN (SELECT id FROM `shop__gone` AS `gone`)",
    )
    assert delete["inputs"] == {"shop__gone": {"kind": "table", "name": "shop.gone", "as_of": None}}
    assert (compact["job"], compact["type"]) == ("compact", "major")
    assert [statement["run"] is None for statement in report["statements"]] == [False, True]
    assert report["statements"][0]["run"]["rows_deleted"] == 3


def test_a_mistake_shows_while_the_dag_is_parsed():
    with pytest.raises(SqlError, match="Line 1, column 6: DROP INDEX is not supported"), DAG("d"):
        HiveAcidSqlOperator(task_id="t", sql="DROP INDEX t")
    with pytest.raises(SqlError, match="It only asks something"), DAG("d"):
        HiveAcidSqlOperator(task_id="t", sql="SELECT * FROM t")
    with pytest.raises(InvalidJob, match="no statement"):
        HiveAcidSqlOperator(task_id="t", sql=";")


def test_a_place_and_a_statement_that_do_not_fit_are_refused_with_the_dag() -> None:
    with pytest.raises(InvalidJob, match="run_in"):
        HiveAcidSqlOperator(task_id="t", sql="DELETE FROM a.b WHERE c = 1", run_in="here")
    with pytest.raises(SparkNeeded, match="truncate always runs on Spark"):
        HiveAcidSqlOperator(task_id="t", sql="TRUNCATE TABLE a.b", run_in="worker")


def test_a_template_is_read_when_it_is_rendered(submitted, context):
    sql = "DELETE FROM {{ params.table }} WHERE day = '{{ run_id }}'"
    submitted.will(report=ScriptReport.of("db.orders", []).to_dict())
    operator = HiveAcidSqlOperator(task_id="t", sql=sql, run_in="spark")
    operator.render_template_fields(context)
    operator.execute(context)
    (delete,) = submitted.seen.job["statements"]
    assert (delete["target"], delete["where"]) == ("db.orders", "day = 'r'")


def test_all_rows_are_deleted_only_if_the_task_states_it(submitted, context):
    with pytest.raises(SqlError, match=r"DELETE FROM db\.t has no condition.*all_rows=True"):
        HiveAcidSqlOperator(task_id="t", sql="DELETE FROM db.t")
    submitted.will(report=ScriptReport.of("db.t", []).to_dict())
    operator = HiveAcidSqlOperator(
        task_id="t", sql="DELETE FROM db.t", all_rows=True, run_in="spark"
    )
    operator.execute(context)
    (delete,) = submitted.seen.job["statements"]
    assert (delete["where"], delete["all_rows"]) == (None, True)


def test_invalid_rendered_templates_are_not_submitted(submitted, context):
    operator = HiveAcidSqlOperator(task_id="t", sql="{{ run_id }} TABLE t")
    operator.render_template_fields(context)
    with pytest.raises(AirflowFailException, match="R is not supported"):
        operator.execute(context)
    assert not submitted.seen_file.exists()


def test_a_file_is_read_with_the_dag(submitted, context, tmp_path):
    (tmp_path / "right.sql").write_text("DELETE FROM orders WHERE id = 1")
    (tmp_path / "wrong.sql").write_text("-- a comment\nGRANT ALL")
    with DAG("d", template_searchpath=str(tmp_path)):
        right = HiveAcidSqlOperator(
            task_id="right", sql="right.sql", database="shop", run_in="spark"
        )
        wrong = HiveAcidSqlOperator(task_id="wrong", sql="wrong.sql")
    right.resolve_template_files()
    right.execute(context)
    assert submitted.seen.job["statements"][0]["target"] == "shop.orders"
    with pytest.raises(SqlError, match="Line 2, column 1: GRANT"):
        wrong.resolve_template_files()


def test_a_script_that_cannot_be_retried_is_refused_while_the_dag_is_parsed():
    with pytest.raises(
        InvalidJob, match=r"Statement 1 of 2, create_table of default\.t, cannot run"
    ):
        HiveAcidSqlOperator(task_id="t", sql="CREATE TABLE t (a int); INSERT INTO t VALUES (1)")
    with pytest.raises(InvalidJob, match="a task of its own"):
        HiveAcidSqlOperator(task_id="t", sql="DROP TABLE IF EXISTS t; INSERT INTO t VALUES (1)")
    HiveAcidSqlOperator(task_id="t", sql="CREATE TABLE t (a int)")


def test_definitions_need_no_spark(spark_submit, metastore_connection, hms4, context):
    sql = (
        "CREATE TABLE IF NOT EXISTS made (id int) STORED AS PARQUET;"
        "CREATE TABLE IF NOT EXISTS other (id int)"
    )
    with MetastoreClient(hms4.options) as client:
        client.create_database("defined")
        operator = HiveAcidSqlOperator(
            task_id="t", sql=sql, database="defined", metastore_conn_id=metastore_connection
        )
        report = operator.execute(context)
        assert client.get_table(TableRef("defined", "made")).kind is TableKind.INSERT_ONLY
        assert client.get_table(TableRef("defined", "other")).kind is TableKind.FULL_ACID
        client.drop_database("defined", cascade=True)
    assert [statement["run"]["job"] for statement in report["statements"]] == ["create_table"] * 2
    assert not spark_submit.seen_file.exists()


def test_a_killed_script_begins_no_further_statement(
    spark_submit, small_tables, context, monkeypatch
):
    sql = "CREATE DATABASE IF NOT EXISTS first; CREATE DATABASE IF NOT EXISTS second"
    operator = HiveAcidSqlOperator(task_id="t", sql=sql)
    create = MetastoreClient.create_database

    def killed(client, *described, **more):
        operator.on_kill()
        create(client, *described, **more)

    with MetastoreClient(small_tables.options) as client, monkeypatch.context() as patch:
        patch.setattr(MetastoreClient, "create_database", killed)
        with pytest.raises(HiveAcidTaskTrouble, match="TaskKilled"):
            operator.execute(context)
        client.drop_database("first")
        with pytest.raises(TableNotFound):
            client.get_database("second")


def test_outlets_learn_of_the_statements_on_their_table(submitted, context, small_tables):
    events = {}

    class Events:
        # As in Airflow itself: the assets of 3.1 are no keys.
        def __getitem__(self, asset):
            return events.setdefault(asset.uri, type("Event", (), {"extra": {}})())

    orders = table_asset("shop.orders", small_tables.uri)
    others = table_asset("shop.others", small_tables.uri)
    operator = HiveAcidSqlOperator(
        task_id="t", sql=SCRIPT, database="shop", outlets=[orders, others]
    )
    timetable = type("Timetable", (), {"partitioned_at_runtime": False})()
    dag = type("Dag", (), {"timetable": timetable})()
    operator.execute(context | {"task": operator, "outlet_events": Events(), "dag": dag})
    assert events[orders.uri].extra["rows_deleted"] == 3
    assert others.uri not in events


def test_a_report_survives_xcom():
    failed = encode(RunReport(job="delete", target="shop.orders"))
    report = ScriptReport.of(
        "shop.orders", [RunReport.from_dict(failed), CompactReport(target="a.b")]
    )
    assert ScriptReport.from_dict(report.to_dict()) == report
