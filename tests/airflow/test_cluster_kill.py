"""Operators whose driver is in the cluster: when their tasks are ended, nothing runs on."""

import asyncio
import json
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from airflow.sdk.execution_time.xcom import XCom
from airflow.triggers.base import BaseTrigger

from airflow_hiveacid import (
    ChangesSource,
    HiveAcidChangesOperator,
    HiveAcidCompactOperator,
    QuerySource,
)
from airflow_hiveacid.cluster.runs import ClusterRun
from airflow_hiveacid.hooks.tasks import HiveAcidTaskTrouble
from airflow_hiveacid.operators.job import (
    HiveAcidJobOperator,
    TaskDeferralError,
    TaskDeferralTimeout,
)
from hiveacid.jobs import CompactJob, InsertJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.thrift.answers import TxnState
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.run_tokens import marked_token
from tests.airflow.cluster_task import deferred_by, delete, first_event, followed, rebuilt
from tests.upkeep.acid_folders import AcidFolders

RUN_TOKEN = "d/r/t/-1"
Context = dict[str, Any]


@pytest.fixture
def open_txns(hms4: EmbeddedMetastore) -> Iterator[Callable[[], list[bool]]]:
    """Return whether a transaction of the run, and one of another, are still open."""
    with MetastoreClient(hms4.options) as client:
        tokens = (marked_token(token, ["shop.orders"]) for token in (RUN_TOKEN, "d/r/t/0"))
        own, other = (Transaction(client, run_token=token) for token in tokens)
        with own, other:

            def are_open() -> list[bool]:
                states = {txn.txn_id: txn.state for txn in client.get_open_txns_info()}
                return [states.get(txn.txn_id) is TxnState.OPEN for txn in (own, other)]

            assert are_open() == [True, True]
            yield are_open


def test_killing_the_task_ends_its_application_and_its_transaction(cluster, context, open_txns):
    operator = delete(deferrable=False)

    def steps():
        application = followed(cluster, context)
        cluster.begin(application)
        operator.on_kill()
        assert open_txns() == [False, True]

    with cluster.meanwhile(steps), pytest.raises(HiveAcidTaskTrouble, match="TaskKilled"):
        operator.execute(context)
    assert cluster.killed(cluster.appears())


def test_killing_the_task_while_it_submits_ends_what_has_arrived(cluster, context):
    cluster.submitter_will("hang afterwards")
    operator = delete(deferrable=False)

    def steps():
        cluster.appears()
        operator.on_kill()

    with cluster.meanwhile(steps), pytest.raises(HiveAcidTaskTrouble, match="TaskKilled"):
        operator.execute(context)
    assert cluster.killed(cluster.appears())


@pytest.fixture
def killed_by_airflow() -> Iterator[Callable[[HiveAcidJobOperator[Any]], Callable[[], None]]]:
    """Return how Airflow kills a task: its main thread runs on_kill, and goes on."""
    before = signal.getsignal(signal.SIGTERM)
    main = threading.main_thread().ident
    assert main is not None

    def prepare(operator: HiveAcidJobOperator[Any]) -> Callable[[], None]:
        signal.signal(signal.SIGTERM, lambda *_: operator.on_kill())
        return lambda: signal.pthread_kill(main, signal.SIGTERM)

    yield prepare
    signal.signal(signal.SIGTERM, before)


def test_a_killed_attempt_does_not_replace_the_application_that_it_has_adopted(
    cluster, context, killed_by_airflow
):
    deferred_by(delete(deferrable=True), context)
    (application,) = cluster.applications
    context["ti"].xcoms.clear()
    operator = delete(deferrable=False, poll_seconds=30)
    kill = killed_by_airflow(operator)

    def steps():
        followed(cluster, context)
        kill()
        cluster.until(lambda: cluster.killed(application))
        with suppress(AssertionError):  # The task ends instead.
            cluster.appears(2)

    with cluster.meanwhile(steps), pytest.raises(HiveAcidTaskTrouble, match="TaskKilled"):
        operator.execute(context)
    assert cluster.applications == [application]
    assert cluster.killed(application)


@pytest.mark.parametrize(
    ("owner", "step"),
    [
        (HiveAcidJobOperator, "_prepare"),
        (HiveAcidJobOperator, "_check_early"),
        (ClusterRun, "_properties_file"),
        # The last one before the process starts.
        (SparkSubmitHook, "_build_spark_submit_command"),
    ],
)
def test_a_task_that_is_killed_before_it_submits_submits_nothing(
    cluster, context, monkeypatch, owner, step
):
    operator = delete(deferrable=False)
    do_step = getattr(owner, step)

    def killed(*arguments):
        operator.on_kill()
        return do_step(*arguments)

    cluster.submitter_will("hang")
    monkeypatch.setattr(owner, step, killed)
    with pytest.raises(HiveAcidTaskTrouble, match="TaskKilled"):
        operator.execute(context)
    assert cluster.applications == []


def test_a_task_that_is_killed_in_the_worker_does_not_go_on_in_spark(cluster, context, monkeypatch):
    operator = HiveAcidCompactOperator(task_id="t", job=CompactJob(target="shop.orders"))
    monkeypatch.setattr(operator, "_without_spark", lambda *_: operator.on_kill())
    with pytest.raises(HiveAcidTaskTrouble, match="TaskKilled"):
        operator.execute(context)
    assert cluster.applications == []


@pytest.mark.parametrize("reachable", [True, False])
def test_killing_a_deferred_task_ends_what_it_can(cluster, context, open_txns, reachable):
    trigger = rebuilt(deferred_by(delete(deferrable=True), context), context)
    (application,) = cluster.applications
    if not reachable:
        cluster.kubernetes.refused["pods"] = HTTPStatus.SERVICE_UNAVAILABLE
    asyncio.run(trigger.on_kill())
    assert cluster.killed(application) is reachable
    assert open_txns() == [False, True]


@pytest.mark.parametrize("lost", ["spark_default", "hive_acid_default"])
def test_killing_a_deferred_task_without_a_connection_ends_the_rest(
    cluster, context, open_txns, monkeypatch, lost
):
    trigger = rebuilt(deferred_by(delete(deferrable=True), context), context)
    (application,) = cluster.applications
    monkeypatch.delenv(f"AIRFLOW_CONN_{lost.upper()}")
    asyncio.run(trigger.on_kill())
    assert cluster.killed(application) is (lost != "spark_default")
    assert open_txns() == [lost == "hive_acid_default", True]


def test_a_kill_by_the_user_is_handled_while_xcoms_are_pushed(cluster, context, monkeypatch):
    trigger = rebuilt(deferred_by(delete(deferrable=True), context), context)
    (application,) = cluster.applications
    cluster.begin(application, txn_ids=[5])
    telling, told = threading.Event(), threading.Event()
    monkeypatch.setattr(XCom, "set", lambda *_, **__: (telling.set(), told.wait(60)))

    async def cancelled():
        waiting = asyncio.create_task(first_event(trigger))
        assert await asyncio.to_thread(telling.wait, 60)
        waiting.cancel("by the user")
        told.set()
        with pytest.raises(asyncio.CancelledError) as caught:
            await waiting
        # It pushes through this loop; a poll that never ends would block those of other tests.
        for thread in threading.enumerate():
            if thread.name.startswith("poll of "):
                await asyncio.to_thread(thread.join)
        return caught.value.args

    # By its message, Airflow knows that on_kill is due.
    assert asyncio.run(cancelled()) == ("by the user",)


@pytest.mark.parametrize(
    ("state", "killed"),
    # Of a run that is not there any more Airflow knows no state.
    [("failed", True), ("deferred", False), (None, False)],
)
def test_before_airflow_3_3_a_cancelled_trigger_finds_out_why(
    cluster, context, open_txns, monkeypatch, state, killed
):
    monkeypatch.delattr(BaseTrigger, "on_kill", raising=False)
    monkeypatch.setattr(
        RuntimeTaskInstance,
        "get_task_states",
        lambda *_, **__: {} if state is None else {"r": {"t": state}},
    )
    trigger = rebuilt(deferred_by(delete(deferrable=True), context), context)
    (application,) = cluster.applications

    async def cancelled():
        waiting = asyncio.create_task(first_event(trigger))
        looks = cluster.kubernetes.lists
        while cluster.kubernetes.lists == looks:
            assert not waiting.done(), waiting.result()
            await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.wait([waiting])
        return waiting.cancelled()

    assert asyncio.run(cancelled())
    assert cluster.killed(application) is killed
    assert open_txns() == [not killed, True]


def copy_changes(**arguments: Any) -> HiveAcidChangesOperator:
    changed = ChangesSource("shop.orders", after="1")
    source = QuerySource("SELECT id FROM changed", {"changed": changed})
    job = InsertJob(target="shop.log", source=source, run_in="spark")
    return HiveAcidChangesOperator(task_id="t", consumer="log", job=job, **arguments)


@pytest.mark.parametrize("error", ["Trigger timeout", "Trigger failure"])
@pytest.mark.parametrize("lost", [None, "spark_default", "hive_acid_default"])
def test_a_deferred_task_without_a_trigger_ends_what_it_can(
    cluster, context, open_txns, monkeypatch, caplog, lost, error
):
    caplog.set_level(logging.INFO, "airflow_hiveacid.audit")
    deferred_by(delete(deferrable=True), context)
    (application,) = cluster.applications
    if lost is not None:
        monkeypatch.delenv(f"AIRFLOW_CONN_{lost.upper()}")
    with pytest.raises((TaskDeferralTimeout, TaskDeferralError)):
        delete(deferrable=True).resume_execution("__fail__", {"error": error}, context)
    (record,) = (each for each in caplog.records if each.name == "airflow_hiveacid.audit")
    assert json.loads(record.getMessage())["outcome"] == "failed"
    assert cluster.killed(application) is (lost != "spark_default")
    assert open_txns() == [lost == "hive_acid_default", True]


def test_the_application_of_a_consumer_is_ended_without_the_metastore(
    cluster, context, orders, monkeypatch
):
    orders.insert()
    AcidFolders.create(orders.client, "shop.log")
    context["ti"].xcom_pull = lambda key, **_: context["ti"].xcoms.get(key)
    deferred_by(copy_changes(deploy_mode="cluster", deferrable=True), context)
    (application,) = cluster.applications
    monkeypatch.delenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT")
    with pytest.raises(TaskDeferralTimeout):
        copy_changes().resume_execution("__fail__", {"error": "Trigger timeout"}, context)
    assert cluster.killed(application)
