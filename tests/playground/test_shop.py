"""The content of the playground: DAGs that Airflow reads, SQL that can be read, an Airflow of its
own."""

import json
import os
import re
import socket
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import jinja2
import pytest

try:
    from airflow.dag_processing.dagbag import DagBag
except ImportError:  # Before Airflow 3.2.
    from airflow.models.dagbag import DagBag

from airflow_hiveacid.playground import playground
from airflow_hiveacid.playground import playground as shop
from airflow_hiveacid.playground.local_airflow import LocalAirflow
from hiveacid.cli.main import main
from hiveacid.jobs.write_jobs import InsertJob
from hiveacid.metastore.dev.embedded import free_port
from hiveacid.parser.script import to_script

RUN_AFTER = datetime(2026, 11, 20, 9, tzinfo=UTC)


@pytest.fixture(scope="module")
def dags():
    bag = DagBag(dag_folder=str(playground.DAGS))
    assert bag.import_errors == {}
    return bag.dags


def test_the_load_writes_all_tables_in_some_way(dags):
    assert {*dags} == {"shop_load", "shop_compaction"}
    assert all(dag.doc_md for dag in dags.values())
    sql = dags["shop_load"].get_task("load").sql
    rendered = jinja2.Template(sql).render(dag_run=SimpleNamespace(run_after=RUN_AFTER))
    assert "{{" not in rendered
    statements = to_script(rendered, "shop").statements
    kinds = {(type(each).__name__, each.target) for each in statements}
    assert kinds == {
        ("MergeJob", "shop.orders"),
        ("UpdateJob", "shop.customers"),
        ("InsertJob", "shop.clicks"),
        ("InsertJob", "shop.carts"),
        ("DeleteJob", "shop.carts"),
    }


def test_a_load_is_the_same_when_it_is_tried_again(dags):
    sql = dags["shop_load"].get_task("load").sql
    assert not re.search(r"\brand|uuid|current_date", sql)


def test_its_tables_can_be_created():
    statements = to_script(shop.SQL, "shop").statements
    assert {each.target for each in statements if isinstance(each, InsertJob)} == {*shop.TABLES}


@pytest.fixture
def airflow(tmp_path, monkeypatch):
    for name in ("AIRFLOW_HOME", "AIRFLOW__CORE__EXECUTOR", "SPARK_HOME", "PYSPARK_PYTHON"):
        monkeypatch.setenv(name, "/of/the/user")

    def describe(**options):
        return LocalAirflow(
            tmp_path, dags=Path("dags"), metastore_uri="thrift://h:1", master="local", **options
        )

    return describe


def test_it_has_nothing_of_the_airflow_and_the_spark_of_the_user(airflow, tmp_path):
    environment = airflow(settings={"CORE__PARALLELISM": 2}).environment
    assert "/of/the/user" not in environment.values()
    assert environment["AIRFLOW_HOME"] == str(tmp_path / "airflow")
    assert environment["AIRFLOW__CORE__PARALLELISM"] == "2"
    assert json.loads(environment["AIRFLOW_CONN_HIVE_ACID_DEFAULT"])["host"] == "h"
    assert environment["HOME"] == os.environ["HOME"]


def test_its_password_is_kept_and_readable_by_the_owner_only(airflow, tmp_path):
    login = airflow().login
    assert re.fullmatch(r"admin, password \S{12}", login)
    assert airflow().login == login
    assert (tmp_path / "airflow" / "passwords.json").stat().st_mode & 0o077 == 0


def test_a_port_that_is_taken_is_another_one(airflow):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert free_port(port) != port
    assert airflow(port=port).url == f"http://127.0.0.1:{port}"


def test_loads_without_a_pause_are_refused(tmp_path, capsys):
    assert main(["demo", "--folder", str(tmp_path / "demo"), "--every", "1"]) == 20
    assert "at least 5" in capsys.readouterr().err
    assert not (tmp_path / "demo").exists()
