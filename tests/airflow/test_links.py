"""The links of a task: pushed while it runs, and kept when it has ended."""

import os
from contextlib import nullcontext
from types import SimpleNamespace
from unittest import mock

import pytest
from airflow.providers.common.compat.sdk import AirflowException, XCom

from airflow_hiveacid import HiveAcidDeleteOperator
from airflow_hiveacid.links import (
    SparkApplicationLink,
    TableHealthLink,
    spark_application_url,
    table_health_url,
)
from hiveacid.jobs import DeleteJob

TI = SimpleNamespace(dag_id="d", run_id="r", task_id="t", map_index=-1)


@pytest.mark.parametrize("link", [SparkApplicationLink(), TableHealthLink()])
@pytest.mark.parametrize(
    ("pushed", "address"), [("https://rm/app_1", "https://rm/app_1"), (None, "")]
)
def test_the_address_is_the_one_that_the_task_has_pushed(link, pushed, address):
    with mock.patch.object(XCom, "get_value", return_value=pushed) as get_value:
        assert link.get_link(operator=None, ti_key=TI) == address
    get_value.assert_called_once_with(key=link.xcom_key, ti_key=TI)


def test_links_have_keys_of_their_own():
    assert SparkApplicationLink().xcom_key != TableHealthLink().xcom_key


def test_the_page_of_the_cluster_comes_before_the_history_server(monkeypatch):
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__SPARK_HISTORY_URL", "https://history:18080/")
    assert spark_application_url("app_1", "https://rm/proxy/app_1/") == "https://rm/proxy/app_1/"
    assert spark_application_url("app_1", None) == "https://history:18080/history/app_1/"


@pytest.mark.parametrize("exit_code", [0, 1])
@pytest.mark.parametrize(
    ("history", "address"),
    [("https://history:18080", "https://history:18080/history/local-1/"), ("", "")],
)
def test_the_page_of_a_driver_in_the_worker_is_removed_when_the_driver_has_ended(
    spark_submit, context, monkeypatch, history, address, exit_code
):
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__SPARK_HISTORY_URL", history)
    pushed = []
    context["ti"].xcom_push = lambda key, value: pushed.append((key, value))
    spark_submit.will(
        report=None if exit_code else {"job": "delete", "target": "db.t"},
        started={"format": 1, "application_id": "local-1", "ui_url": "http://worker:4040"},
        output="hiveacid: read the rows that match ...",
        exit_code=exit_code,
    )
    operator = HiveAcidDeleteOperator(
        task_id="t", job=DeleteJob(target="db.t", where="id = 1", run_in="spark")
    )
    with pytest.raises(AirflowException) if exit_code else nullcontext():
        operator.execute(context)
    links = [value for key, value in pushed if key == SparkApplicationLink().xcom_key]
    assert links == ["", "http://worker:4040", address]


def test_without_either_an_application_has_no_address():
    assert spark_application_url("app_1", None) is None


def test_the_health_of_a_table_is_on_the_page_of_this_airflow(monkeypatch):
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__PAGE_CONNECTIONS", "one, two")
    assert table_health_url("sales.orders") == "/plugin/hiveacid?table=sales.orders"
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.com/team/")
    assert table_health_url("sales.orders") == (
        "https://airflow.example.com/team/plugin/hiveacid?table=sales.orders"
    )


@pytest.mark.parametrize(
    ("conn_id", "parameter"),
    [("one", "&connection=one"), ("a&b", "&connection=a%26b"), ("unknown", ""), (None, "")],
)
def test_the_page_opens_with_the_metastore_of_the_task_if_the_page_has_it(
    monkeypatch, conn_id, parameter
):
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__PAGE_CONNECTIONS", "one, a&b")
    address = table_health_url("sales.orders", conn_id)
    assert address == f"/plugin/hiveacid?table=sales.orders{parameter}"


def test_a_task_links_to_its_table_in_its_own_metastore(spark_submit, context, monkeypatch):
    connection = os.environ["AIRFLOW_CONN_HIVE_ACID_DEFAULT"]
    monkeypatch.setenv("AIRFLOW_CONN_SECOND", connection)
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__PAGE_CONNECTIONS", "hive_acid_default,second")
    job = DeleteJob(target="db.t", where="id = 1", run_in="spark")
    HiveAcidDeleteOperator(task_id="t", job=job, metastore_conn_id="second").execute(context)
    link = context["ti"].xcoms[TableHealthLink().xcom_key]
    assert link == "/plugin/hiveacid?table=db.t&connection=second"
