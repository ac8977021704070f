"""The links of a task: pushed while it runs, and kept when it has ended."""

from types import SimpleNamespace
from unittest import mock

import pytest
from airflow.providers.common.compat.sdk import XCom

from airflow_hiveacid.links import (
    SparkApplicationLink,
    TableHealthLink,
    spark_application_url,
    table_health_url,
)

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


def test_without_either_an_application_has_no_address():
    assert spark_application_url("app_1", None) is None


def test_the_health_of_a_table_is_on_the_page_of_this_airflow(monkeypatch):
    assert table_health_url("sales.orders") == "/plugin/hiveacid?table=sales.orders"
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.com/team/")
    assert table_health_url("sales.orders") == (
        "https://airflow.example.com/team/plugin/hiveacid?table=sales.orders"
    )
