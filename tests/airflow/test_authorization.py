"""The authorizer decides before a job begins, and each job leaves one audit record."""

import json
import logging
from dataclasses import replace

import pytest
from airflow.providers.common.compat.sdk import AirflowTaskTimeout
from airflow.sdk import DAG

from airflow_hiveacid import (
    HiveAcidCleanOperator,
    HiveAcidDeleteOperator,
    HiveAcidInsertOperator,
    PathSource,
    TableSource,
)
from airflow_hiveacid.hooks.metastore import HiveAcidMetastoreHook
from airflow_hiveacid.hooks.tasks import HiveAcidTaskFailure, HiveAcidTaskRefused
from airflow_hiveacid.sensors import HiveAcidDeltaCountSensor, HiveAcidNewDataSensor
from hiveacid.errors import AccessRefused
from hiveacid.jobs import CleanJob, DeleteJob, InsertJob
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.locations import partition_locations
from hiveacid.rules.names import TableRef
from tests.fakes.metastore import FakeMetastore

DELETE = DeleteJob(target="db.t", where="a = 'secret value'")
INSERT = InsertJob(target="db.t", source=TableSource("db.plain"))
ASKED = []


def allow(*, user, table, columns, action):
    ASKED.append((user, table, columns, action))
    return True


def refuse_reads(*, action, **_):
    return action != "read"


def say_nothing(**_):
    return None


def fail(**_):
    raise RuntimeError("The directory of users is away.")


NOT_CALLABLE = "allow"


@pytest.fixture
def use(monkeypatch):
    def set_authorizer(name):
        path = name if "." in name else f"{__name__}.{name}"
        monkeypatch.setenv("AIRFLOW__HIVE_ACID__AUTHORIZER", path)
        ASKED.clear()

    return set_authorizer


@pytest.fixture
def records(caplog):
    caplog.set_level(logging.INFO, logger="airflow_hiveacid.audit")

    def read():
        found = [each for each in caplog.records if each.name == "airflow_hiveacid.audit"]
        return [json.loads(each.getMessage()) for each in found]

    return read


def test_the_authorizer_is_asked_for_every_table(spark_submit, context, use):
    use("allow")
    HiveAcidInsertOperator(task_id="t", job=INSERT).execute(context)
    assert ASKED == [
        ("dag:d", "db.t", None, "insert"),
        ("dag:d", "db.plain", None, "read"),
    ]


@pytest.mark.parametrize(
    "authorizer",
    ["refuse_reads", "say_nothing", "fail", "missing", "NOT_CALLABLE", "no.such.module", "nodots."],
)
def test_any_other_answer_refuses_the_job(spark_submit, context, use, records, authorizer):
    use(authorizer)
    with pytest.raises(HiveAcidTaskRefused) as failure:
        HiveAcidInsertOperator(task_id="t", job=INSERT).execute(context)
    assert failure.value.error.id == "AccessRefused"
    assert not spark_submit.seen_file.exists()
    [record] = records()
    assert (record["outcome"], record["error"]) == ("refused", "AccessRefused")


def test_a_job_leaves_one_record_without_values(spark_submit, context, records):
    HiveAcidDeleteOperator(task_id="t", job=DELETE).execute(context)
    [record] = records()
    assert record.pop("time") > 0
    assert record.pop("metastore").startswith("thrift://")
    assert record == {
        "format": 1,
        "user": "dag:d",
        "dag_id": "d",
        "run_id": "r",
        "task_id": "t",
        "map_index": -1,
        "try_number": 2,
        "job": "DeleteJob",
        "accesses": [{"table": "db.t", "columns": None, "action": "delete"}],
        "paths": [],
        "outcome": "done",
        "error": None,
        **dict.fromkeys(("rows_inserted", "rows_updated", "rows_deleted"), 0),
        **{name: record[name] for name in ("already_done", "txn_id", "write_ids")},
    }


def test_a_failed_job_leaves_a_record(spark_submit, context, records):
    with pytest.raises(HiveAcidTaskFailure):
        HiveAcidCleanOperator(task_id="t", job=CleanJob(target="db.missing")).execute(context)
    [record] = records()
    assert (record["outcome"], record["error"]) == ("failed", "TableNotFound")


@pytest.mark.parametrize(
    ("error", "outcome"), [(KeyboardInterrupt, "killed"), (AirflowTaskTimeout, "failed")]
)
def test_an_interrupted_job_leaves_a_record(
    spark_submit, context, records, monkeypatch, error, outcome
):
    def interrupt(*_):
        raise error

    operator = HiveAcidDeleteOperator(task_id="t", job=DELETE)
    monkeypatch.setattr(operator, "_run", interrupt)
    with pytest.raises(error):
        operator.execute(context)
    [record] = records()
    assert (record["outcome"], record["error"]) == (outcome, error.__name__)


@pytest.mark.parametrize(("allowed", "passes"), [("s3a://landing", True), ("s3a://other", False)])
def test_files_that_a_job_names_have_to_be_at_allowed_locations(
    spark_submit, context, monkeypatch, allowed, passes
):
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__ALLOWED_LOCATIONS", f"{allowed}, file")
    # Otherwise the task asks the store first how much there is to read.
    job = replace(INSERT, source=PathSource("s3a://landing/x", "orc"), run_in="spark")
    task = HiveAcidInsertOperator(task_id="t", job=job)
    if passes:
        task.execute(context)
        return
    with pytest.raises(HiveAcidTaskRefused) as failure:
        task.execute(context)
    assert failure.value.error.id == "AccessRefused"


@pytest.mark.usefixtures("spark_submit")
def test_the_connection_carries_allowed_locations(monkeypatch):
    assert HiveAcidMetastoreHook().options().allowed_locations is None
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__ALLOWED_LOCATIONS", "hdfs://nn1:8020")
    assert HiveAcidMetastoreHook().options().allowed_locations == "hdfs://nn1:8020"


@pytest.mark.parametrize("version", ["4.0.1", "3.1.3"])
def test_tables_and_partitions_have_to_be_at_allowed_locations(tmp_path, version):
    ref, keys = TableRef.parse("default.t"), [HiveColumn("p", "string")]
    with FakeMetastore(version, directory=tmp_path) as metastore:
        with MetastoreClient(metastore.options) as client:
            columns = [HiveColumn("id", "int")]
            client.create_table(HiveTable.new(ref, columns, partition_keys=keys))
            table = client.get_table(ref)
            client.add_partitions(ref, [HivePartition.new(table, ["1"])])
        options = replace(metastore.options, allowed_locations="s3a://bucket")
        with MetastoreClient(options) as client:
            for read in (
                lambda: client.get_table(ref),
                lambda: client.get_partitions(table),
                lambda: partition_locations(client, table),
            ):
                with pytest.raises(AccessRefused, match="allowed_locations"):
                    read()
        with MetastoreClient(replace(options, allowed_locations="file")) as client:
            assert len(client.get_partitions(table)) == 1


def new_data(table):
    return HiveAcidNewDataSensor(task_id="t", table=table, consumer="audit")


def deltas(table, **more):
    return HiveAcidDeltaCountSensor(task_id="t", table=table, max_deltas=1, **more)


def refuse_orders(*, table, user, action, **_):
    assert (user, action) == ("dag:d", "read")
    return table != "db.orders"


@pytest.mark.parametrize("authorizer", ["refuse_orders", "fail", "missing"])
@pytest.mark.parametrize(
    ("sensor", "table"), [(new_data, "db.orders"), (deltas, "db.orders"), (deltas, "db.*")]
)
def test_sensors_ask_before_they_look(spark_submit, context, use, authorizer, sensor, table):
    use(authorizer)
    with DAG("d"):
        task = sensor(table)
    with pytest.raises(HiveAcidTaskRefused) as failure:
        task.poke(context)
    assert failure.value.error.id == "AccessRefused"


def test_sensors_look_at_permitted_tables(spark_submit, context, use):
    use("refuse_orders")
    with DAG("d"):
        assert not deltas("db.feed").poke(context)


def test_a_table_that_a_trigger_has_found_is_asked_for(spark_submit, context, use):
    with DAG("d"):
        task = deltas("db.orders")
    [[need]] = task.poke(context).xcom_value
    event = {"status": "found", "found": [need]}
    assert task.execute_complete(context, event) == [[need]]
    use("refuse_orders")
    with pytest.raises(HiveAcidTaskRefused):
        task.execute_complete(context, event)


def test_transactions_of_the_hook_are_authorized(spark_submit, use):
    use("refuse_reads")
    with (
        pytest.raises(AccessRefused, match=r"os:\w+ may not read db\.t"),
        HiveAcidMetastoreHook().transaction(reads=["db.t"]),
    ):
        pass
