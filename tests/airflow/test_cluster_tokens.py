"""The delegation token of a driver in the cluster: cancelled when there is no driver, and only then."""

import json
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowTaskTimeout

from airflow_hiveacid import HiveAcidDeleteOperator
from airflow_hiveacid.cluster.runs import ClusterRun
from airflow_hiveacid.hooks.tasks import HiveAcidTaskTrouble
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.delegation import new_token
from hiveacid.metastore.sasl.channel import Protection
from hiveacid.metastore.sasl.delegation_token import DelegationToken
from hiveacid.metastore.thrift import transport
from hiveacid.metastore.thrift.idl_txns import MetaException
from tests.airflow.cluster_task import deferred_by, delete, followed
from tests.fakes.metastore import FakeMetastore
from tests.fakes.sasl import SaslFront
from tests.fakes.spark_cluster import SparkCluster
from tests.fakes.tokens import Tokens

Context = dict[str, Any]


@pytest.fixture
def hms4(tmp_path: Path) -> Iterator[FakeMetastore]:
    with FakeMetastore("4.0.1", directory=tmp_path) as metastore:
        yield metastore


@pytest.fixture
def tokens(
    cluster: SparkCluster, hms4: FakeMetastore, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Tokens]:
    """Those of a metastore that asks who calls. In the place of a ticket, the worker has one, too."""
    with MetastoreClient(replace(hms4.options, user="alice")) as client:
        ticket = DelegationToken.parse(new_token(client))
    hms4.tokens.given = 0
    front = SaslFront(hms4.uri, hms4.tokens.password, Protection.INTEGRITY)
    host, port = front.uri.removeprefix("thrift://").split(":")
    connection = {"conn_type": "hive_acid_metastore", "host": host, "port": int(port)}
    connection["extra"] = {"auth_mechanism": "GSSAPI"}
    monkeypatch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", json.dumps(connection))
    monkeypatch.setattr(transport, "_mechanism", lambda end, _: ticket.mechanism(str(end)))
    yield hms4.tokens
    front.close()


@pytest.fixture
def fails(context: Context) -> Callable[..., None]:
    def fails(match: str = "spark-submit has failed", **options: Any) -> None:
        with pytest.raises(AirflowException, match=match):
            delete(deferrable=False, **options).execute(context)

    return fails


def test_a_driver_that_runs_keeps_its_token(cluster, context, tokens):
    deferred_by(delete(deferrable=True), context)
    (application,) = cluster.applications
    assert cluster.seen(application).environment["HIVEACID_DELEGATION_TOKEN"]
    assert (tokens.given, tokens.cancelled) == (1, 0)


def test_a_driver_is_told_where_the_key_of_signatures_is(cluster, context, tokens, monkeypatch):
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__SIGNING_KEY_FILE", "/etc/hiveacid.key")
    deferred_by(delete(deferrable=True), context)
    (application,) = cluster.applications
    environment = cluster.seen(application).environment
    assert environment["AIRFLOW__HIVE_ACID__SIGNING_KEY_FILE"] == "/etc/hiveacid.key"


@pytest.mark.parametrize("metastore", ["answers", "refuses"])
def test_a_token_is_cancelled_where_nothing_was_submitted(context, tokens, metastore):
    def refuse(_: str) -> None:
        raise MetaException("not now")

    if metastore == "refuses":
        tokens.cancel_delegation_token = refuse
    missing = delete(deferrable=False, properties_file="/nowhere/spark.properties")
    with pytest.raises(FileNotFoundError):
        missing.execute(context)
    assert (tokens.given, tokens.cancelled) == (1, metastore == "answers")


def test_a_driver_that_a_dead_submitter_has_started_keeps_its_token(cluster, tokens, fails):
    cluster.submitter_will("die afterwards")
    fails("Error code is: -9")
    assert tokens.cancelled == 0


def test_a_driver_that_may_start_late_keeps_its_token(cluster, tokens, fails):
    cluster.submitter_will("die")
    fails("Error code is: -9")
    assert (tokens.given, tokens.cancelled) == (1, 0)


@pytest.mark.parametrize("cluster_says", ["ended", "nothing"])
def test_the_token_of_an_application_is_cancelled_when_it_is_seen_to_have_ended(
    cluster, context, tokens, cluster_says
):
    cluster.submitter_will("hang afterwards")
    operator = delete(deferrable=False)

    def steps():
        cluster.kubernetes.end(cluster.appears(), exit_code=1)
        if cluster_says == "nothing":
            cluster.kubernetes.refused["pods"] = 503
        operator.on_kill()

    with cluster.meanwhile(steps), pytest.raises(HiveAcidTaskTrouble, match="TaskKilled"):
        operator.execute(context)
    assert (tokens.given, tokens.cancelled) == (1, cluster_says == "ended")


@pytest.fixture
def interrupt() -> Iterator[Callable[[], None]]:
    """Ends a task as Airflow does when its time is up, from another thread."""

    def handle(*_: object) -> None:
        raise AirflowTaskTimeout("Timeout")

    before = signal.signal(signal.SIGALRM, handle)
    main = threading.main_thread().ident
    assert main is not None
    yield lambda: signal.pthread_kill(main, signal.SIGALRM)
    signal.signal(signal.SIGALRM, before)


def _is_submitting(operator: HiveAcidDeleteOperator) -> bool:
    run = operator._spark_run
    return run is not None and run._submission is not None and run._submission._hook._submit_sp


@pytest.mark.parametrize("plan", ["hang", "hang afterwards"])
def test_the_token_of_a_submission_whose_time_is_up_is_cancelled(
    cluster, context, tokens, interrupt, plan
):
    cluster.submitter_will(plan)
    operator = delete(deferrable=False)

    def steps():
        cluster.until(lambda: _is_submitting(operator))
        if plan == "hang afterwards":
            cluster.appears()
        interrupt()
        cluster.until(lambda: tokens.cancelled)

    def runner():
        try:
            operator.execute(context)
        except AirflowTaskTimeout:
            operator.on_kill()
            raise

    with cluster.meanwhile(steps), pytest.raises(AirflowTaskTimeout):
        runner()
    assert (tokens.given, tokens.cancelled) == (1, 1)


@pytest.mark.parametrize("error", [AirflowTaskTimeout, KeyboardInterrupt, SystemExit])
def test_a_token_is_cancelled_after_any_end_of_the_submission(context, tokens, monkeypatch, error):
    def end(*_: object) -> None:
        raise error

    monkeypatch.setattr(ClusterRun, "_properties_file", end)
    with pytest.raises(error):
        delete(deferrable=False).execute(context)
    assert (tokens.given, tokens.cancelled) == (1, 1)


def test_the_token_of_a_killed_driver_is_cancelled(cluster, context, tokens):
    operator = delete(deferrable=False)

    def steps():
        cluster.begin(followed(cluster, context))
        operator.on_kill()

    with cluster.meanwhile(steps), pytest.raises(HiveAcidTaskTrouble, match="TaskKilled"):
        operator.execute(context)
    assert (tokens.given, tokens.cancelled) == (1, 1)
