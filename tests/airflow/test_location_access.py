"""Operators ask for the owners of locations, for databases, and for Iceberg tables."""

import json
import logging
from dataclasses import replace

import pytest

from airflow_hiveacid import (
    HiveAcidCompactOperator,
    HiveAcidCompareIcebergOperator,
    HiveAcidInsertOperator,
    HiveAcidMaintainOperator,
    HiveAcidSqlOperator,
    HiveAcidToIcebergOperator,
    PathSource,
    TableSource,
)
from airflow_hiveacid.hooks.tasks import HiveAcidTaskRefused
from hiveacid.jobs import CompactJob, InsertJob
from hiveacid.jobs.iceberg_job import IcebergCompareJob, IcebergExportJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import TableRef

INSERT = InsertJob(target="db.t", source=TableSource("db.plain"), run_in="spark")
REFUSED = set()
ASKED = []


def refuse_some(*, user, table, action, **_):
    ASKED.append((table, action))
    return (table, action) not in REFUSED


@pytest.fixture
def refused(monkeypatch):
    """The accesses that the authorizer refuses, which a test adds."""
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__AUTHORIZER", f"{__name__}.refuse_some")
    REFUSED.clear()
    ASKED.clear()
    return REFUSED


@pytest.fixture
def folder(small_tables):
    with MetastoreClient(small_tables.options) as client:
        return client.get_table(TableRef.parse("db.orders")).folder


def refusal(task, context):
    with pytest.raises(HiveAcidTaskRefused) as failure:
        task.execute(context)
    assert failure.value.error.id == "AccessRefused"
    return str(failure.value)


def test_files_of_a_table_are_an_access_to_it(spark_submit, context, refused, folder):
    job = replace(INSERT, source=PathSource(f"{folder}/delta_0000001_0000001_0000", "orc"))
    refused.add(("db.orders", "read"))
    message = refusal(HiveAcidInsertOperator(task_id="t", job=job), context)
    assert "dag:d may not read db.orders" in message
    assert not spark_submit.seen_file.exists()
    assert {("db.t", "insert"), ("db.orders", "read")} == set(ASKED)


@pytest.mark.parametrize("own", [None, "s3a", "s3a://mine"])
def test_the_metastore_of_a_job_allows_no_other_locations(
    spark_submit, context, small_tables, monkeypatch, own
):
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__ALLOWED_LOCATIONS", "file, s3a://mine")
    metastore = replace(small_tables.options, allowed_locations=own)
    job = replace(INSERT, source=PathSource("s3a://other/x", "orc"), metastore=metastore)
    message = refusal(HiveAcidInsertOperator(task_id="t", job=job), context)
    assert "is not among the locations" in message


def test_a_driver_gets_the_locations_that_both_allow(
    spark_submit, context, small_tables, monkeypatch
):
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__ALLOWED_LOCATIONS", "file, s3a://mine, hdfs")
    metastore = replace(small_tables.options, allowed_locations="s3a, file")
    HiveAcidInsertOperator(task_id="t", job=replace(INSERT, metastore=metastore)).execute(context)
    assert spark_submit.seen.job["metastore"]["allowed_locations"] == "s3a://mine, file"


@pytest.mark.parametrize(
    ("sql", "access"),
    [
        ("CREATE DATABASE hr", ("hr", "create_database")),
        ("DROP DATABASE shop", ("shop", "drop_database")),
        ("DROP DATABASE shop CASCADE", ("shop.gone", "drop_table")),
        (
            "CREATE TABLE IF NOT EXISTS db.x (a int); DROP DATABASE IF EXISTS shop CASCADE",
            ("shop.days", "drop_table"),
        ),
    ],
)
def test_statements_on_databases_are_accesses(spark_submit, context, refused, sql, access):
    refused.add(access)
    message = refusal(HiveAcidSqlOperator(task_id="t", sql=sql), context)
    assert f"may not {access[1]} {access[0]}" in message


def test_no_driver_in_a_cluster_looks_for_tables(spark_submit, context, refused, monkeypatch):
    """There, nobody would be asked for those that appear after the check of the job."""
    extra = {"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": "127.0.0.1:1"}
    connection = {"conn_type": "spark", "host": "yarn", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    sql = "INSERT INTO db.t SELECT 1, 'a' FROM db.plain; DROP DATABASE IF EXISTS shop CASCADE"
    message = refusal(HiveAcidSqlOperator(task_id="t", sql=sql, run_in="spark"), context)
    assert "would drop all tables of shop" in message
    assert ("shop.gone", "drop_table") in ASKED
    assert not spark_submit.seen_file.exists()


CATALOG = {"type": "rest", "uri": "https://user:secret@rest:8181/x?token=t", "warehouse": "prod"}


@pytest.mark.parametrize(
    ("catalog", "options", "subject"),
    [
        ("lake", {}, "iceberg:lake.ns.t"),
        # A job can give any name to any catalog.
        ("lake", CATALOG, "iceberg:https://rest:8181/x#prod.ns.t"),
        ("lake", {"type": "hive", "warehouse": "s3a://w/x"}, "iceberg:s3a://w/x.ns.t"),
        ("lake", {"type": "glue"}, "iceberg:lake?.ns.t"),
    ],
)
@pytest.mark.parametrize(
    ("operator", "kind", "action"),
    [
        (HiveAcidToIcebergOperator, IcebergExportJob, "write"),
        (HiveAcidCompareIcebergOperator, IcebergCompareJob, "read"),
    ],
)
def test_an_iceberg_table_is_an_access(
    spark_submit, context, refused, catalog, options, subject, operator, kind, action
):
    refused.add((subject, action))
    job = kind(target="db.orders", table="ns.T", catalog=catalog, catalog_options=options)
    message = refusal(operator(task_id="t", job=job), context)
    assert f"may not {action} {subject}" in message
    assert "secret" not in message


def test_a_worker_of_the_queue_needs_all_tables(spark_submit, context, refused):
    refused.add(("*", "compact"))
    job = CompactJob(target="db.orders", mode="serve")
    assert "may not compact *" in refusal(HiveAcidCompactOperator(task_id="t", job=job), context)


@pytest.mark.parametrize("action", ["compact", "clean"])
def test_a_refused_table_of_a_maintenance_leaves_a_record(
    spark_submit, context, refused, caplog, action
):
    refused.add(("shop.gone", action))
    caplog.set_level(logging.INFO, logger="airflow_hiveacid.audit")
    with pytest.raises(HiveAcidTaskRefused):
        HiveAcidMaintainOperator(task_id="t", tables="shop.gone").execute(context)
    [record] = [json.loads(each.getMessage()) for each in caplog.records if "audit" in each.name]
    assert record["accesses"] == [{"table": "shop.gone", "columns": None, "action": action}]
    assert (record["outcome"], record["error"]) == ("refused", "AccessRefused")
    assert record["metastore"].startswith("thrift://")
