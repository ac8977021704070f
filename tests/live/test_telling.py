"""The information of Airflow's own processes on our tasks: assets, links, lineage, and kinds of
failure."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest

from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.names import TableRef
from tests.live.airflow_api import wait_until
from tests.live.airflow_processes import AirflowProcesses

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

TABLE = TableRef("told", "orders")
DAGS = ("write_orders", "hear_of_orders", "write_days", "hear_of_days", "hear_of_each_day", "fail")


@pytest.fixture(scope="module")
def airflow(
    tmp_path_factory: pytest.TempPathFactory,
    connections: Mapping[str, Mapping[str, Any]],
    hms4: EmbeddedMetastore,
) -> Iterator[AirflowProcesses]:
    folder = tmp_path_factory.mktemp("telling")
    transport = {"type": "file", "log_file_path": str(folder / "lineage.json"), "append": True}
    with MetastoreClient(hms4.options) as client:
        client.create_database(TABLE.database)
        columns, keys = [HiveColumn("id", "int")], [HiveColumn("day", "string")]
        client.create_table(HiveTable.new(TABLE, columns, partition_keys=keys))
        with AirflowProcesses(
            folder / "airflow",
            [Path(__file__).parent / "dags" / "tell_of_orders.py"],
            connections=connections,
            environment={
                "TOLD_METASTORE": hms4.uri,
                "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport),
                "AIRFLOW__HIVE_ACID__SPARK_HISTORY_URL": "https://history.example.com",
            },
        ) as airflow:
            airflow.wait_for_dags(*DAGS)
            for dag_id in DAGS:
                airflow.api.unpause(dag_id)
            yield airflow
        client.drop_database(TABLE.database, cascade=True)


@pytest.fixture(scope="module")
def feed(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("feed") / "orders.json"
    rows = [{"id": number, "day": f"2026-11-{19 + number % 2}"} for number in range(4)]
    file.write_text("\n".join(map(json.dumps, rows)))
    return str(file)


@pytest.fixture(scope="module")
def written(airflow: AirflowProcesses, feed: str) -> SimpleNamespace:
    """A run of the merge with a source from a function."""
    run_id = airflow.api.trigger("write_orders", {"feed": feed})
    airflow.api.wait_for_run("write_orders", run_id)
    report = airflow.api.xcom("write_orders", run_id, "merge")
    return SimpleNamespace(run_id=run_id, report=report)


def runs_of(airflow: AirflowProcesses, dag_id: str, count: int) -> list[str]:
    """Return a number of ended scheduled runs of a DAG."""
    wait_until(f"{count} of {dag_id}", lambda: len(airflow.api.runs(dag_id)) >= count, 120)
    run_ids = [run["dag_run_id"] for run in airflow.api.runs(dag_id)]
    for run_id in run_ids:
        airflow.api.wait_for_run(dag_id, run_id)
    return run_ids


def test_a_dag_that_waits_for_a_table_receives_the_written_partitions(airflow, written):
    assert written.report["rows_inserted"] == 4
    (run_id,) = runs_of(airflow, "hear_of_orders", 1)
    (extra,) = airflow.api.xcom("hear_of_orders", run_id, "hear")
    assert extra["table"] == str(TABLE)
    assert extra["write_ids"] == written.report["write_ids"]
    assert (extra["txn_id"], extra["rows_inserted"]) == (written.report["txn_id"], 4)
    assert sorted(extra["partitions"]) == ["day=2026-11-19", "day=2026-11-20"]


def test_a_dag_that_waits_for_partitions_has_one_run_for_each(airflow, feed):
    airflow.api.wait_for_run("write_days", airflow.api.trigger("write_days", {"feed": feed}))
    run_ids = runs_of(airflow, "hear_of_days", 2)
    keys = {airflow.api.xcom("hear_of_days", run_id, "hear_key") for run_id in run_ids}
    assert keys == {"day=2026-11-19", "day=2026-11-20"}


def test_any_writing_task_can_emit_events_of_partitions(airflow, written):
    run_ids = runs_of(airflow, "hear_of_each_day", 2)
    keys = {airflow.api.xcom("hear_of_each_day", run_id, "hear_key") for run_id in run_ids}
    assert keys == {"day=2026-11-19", "day=2026-11-20"}


def test_a_task_has_links_to_its_application_and_the_table(airflow, written):
    run = quote(written.run_id, safe="")
    path = f"/dags/write_orders/dagRuns/{run}/taskInstances/merge/links"
    links = airflow.api.get(path)["extra_links"]
    application_id = airflow.api.xcom("write_orders", written.run_id, "merge", "application_id")
    history = f"https://history.example.com/history/{application_id}/"
    assert links["Spark application"] == history
    page = f"{airflow.api.url}/plugin/hiveacid"
    health = f"{page}?table=told.orders&connection=hive_acid_default"
    assert links["Table health"] == health


def test_openlineage_hears_of_the_merge_down_to_its_columns(airflow, written, feed, hms4):
    lines = (airflow.home.parent / "lineage.json").read_text().splitlines()
    (event,) = (
        event
        for event in map(json.loads, lines)
        if (event["job"]["name"], event["eventType"]) == ("write_orders.merge", "COMPLETE")
    )
    ((source,), (target,)) = event["inputs"], event["outputs"]
    assert (source["namespace"], source["name"]) == ("file", feed)
    assert target["namespace"] == hms4.uri.replace("thrift", "hive")
    assert target["name"] == str(TABLE)
    assert target["outputFacets"]["outputStatistics"]["rowCount"] == 4
    read = target["facets"]["columnLineage"]["fields"]["day"]["inputFields"]
    assert [(column["name"], column["field"]) for column in read] == [(feed, "day")]
    parent = f"spark.openlineage.parentRunId={event['run']['runId']}"
    assert parent in airflow.task_log("write_orders", written.run_id, "merge")


def test_conflicts_are_tried_again_soon_and_mistakes_never(airflow):
    run_id = airflow.api.trigger("fail")
    airflow.api.wait_for_run("fail", run_id, state="failed", seconds=120)
    lost = airflow.api.task("fail", run_id, "lose_once")
    assert (lost["state"], lost["try_number"]) == ("success", 2)
    refused = airflow.api.task("fail", run_id, "ask_for_what_is_not_there")
    assert (refused["state"], refused["try_number"]) == ("failed", 1)
