"""HiveAcidStreamOperator: how a task that is stopped ends its stream."""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_hiveacid import BatchSource, HiveAcidStreamOperator, StreamSource
from airflow_hiveacid.cluster import runs as cluster_run
from airflow_hiveacid.hooks.tasks import HiveAcidTaskTrouble
from hiveacid.jobs import InsertJob, StreamJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.owner import find_open_transactions
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.records.stream_places import StreamPlace, StreamPlaces
from hiveacid.storage.folder import Storage
from tests.engine.acid_tables import create

try:
    from airflow.serialization.serialized_objects import DagSerialization as Serialization
except ImportError:  # Before Airflow 3.2.
    from airflow.serialization.serialized_objects import SerializedDAG as Serialization

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)


@pytest.fixture
def places(client: MetastoreClient, database: str) -> StreamPlaces:
    table = create(client, f"{database}.t", {"id": "bigint"})
    return StreamPlaces(Storage.of(table.folder), "feed")


@pytest.fixture
def operator(client: MetastoreClient, database: str) -> HiveAcidStreamOperator:
    job = StreamJob(
        name="feed",
        source=StreamSource("rate"),
        statements=[InsertJob(target=f"{database}.t", source=BatchSource())],
        checkpoint="file:/nowhere",
        metastore=client.options,
    )
    return HiveAcidStreamOperator(task_id="t", job=job, stop_seconds=0.5)


def test_a_secret_option_is_not_in_what_airflow_stores_and_shows(
    operator: HiveAcidStreamOperator,
) -> None:
    options = {"kafka.sasl.jaas.config": "Login required password='s3cret';", "subscribe": "orders"}
    job = replace(operator.job, source=StreamSource("kafka", options))
    with DAG("d", schedule=None) as dag:
        HiveAcidStreamOperator(task_id="t", job=job)
    stored = json.dumps(Serialization.to_dict(dag))
    assert "s3cret" not in stored
    assert "subscribe: orders" in stored


def when_submitted(spark_submit: Any, act: Callable[[], None]) -> threading.Thread:
    def wait() -> None:
        while not spark_submit.seen_file.exists():
            time.sleep(0.01)
        act()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def test_a_stream_that_does_not_end_in_time_is_killed_and_its_batch_aborted(
    spark_submit: Any,
    context: Any,
    operator: HiveAcidStreamOperator,
    places: StreamPlaces,
    client: MetastoreClient,
) -> None:
    place = StreamPlace(name="feed", query_id="q", batch_id=4, number=0)
    places.write(place)
    spark_submit.will(hang=True)
    with Transaction(client, keeps_files=True, run_token=place.next_token):
        assert find_open_transactions(client, place.next_token)
        killed = when_submitted(spark_submit, operator.on_kill)
        with pytest.raises(HiveAcidTaskTrouble, match="TaskKilled"):
            operator.execute(context)
        killed.join()
        assert find_open_transactions(client, place.next_token) == []
    assert places.is_asked_to_stop()


def test_a_stream_that_ends_when_it_is_asked_to_is_not_killed(
    spark_submit: Any,
    context: Any,
    operator: HiveAcidStreamOperator,
    places: StreamPlaces,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    report = {"job": "stream", "target": operator.job.target, "ended": "asked to"}
    spark_submit.will(report=report, hang=True)
    told: list[bool] = []

    def ends_within(run: Any, seconds: float) -> bool:
        told.append(places.is_asked_to_stop())
        submission = run._submission
        submission._hook._submit_sp.terminate()
        return bool(submission.ends_within(30))

    monkeypatch.setattr("airflow_hiveacid.cluster.runs.LocalRun.ends_within", ends_within)
    monkeypatch.setattr("airflow_hiveacid.cluster.runs.LocalRun.end", lambda _: told.append(False))
    killed = when_submitted(spark_submit, operator.on_kill)
    assert operator.execute(context)["ended"] == "asked to"
    killed.join()
    assert told == [True]
    assert Path(spark_submit.seen.argv[-5]).name == "run.py"


def test_a_killed_stream_is_ended_before_airflow_kills_its_task(
    operator: HiveAcidStreamOperator,
) -> None:
    default = HiveAcidStreamOperator(task_id="default", job=operator.job)
    # Its supervisor sends SIGKILL 5 seconds after SIGTERM.
    assert default.stop_seconds + cluster_run._SECONDS_TO_END < 5
