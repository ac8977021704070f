"""The credentials that an Airflow task passes to a driver in a cluster, if the worker logs in by a
keytab."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hiveacid.jobs import codec
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.names import TableRef
from tests.airflow.cluster_task import deferred_by, delete
from tests.airflow.conftest import context  # noqa: F401
from tests.fakes.kubernetes import KubernetesServer
from tests.fakes.spark_cluster import SparkCluster
from tests.secure.kdc import Kdc

pytestmark = pytest.mark.secure

VARIABLE = "HIVEACID_DELEGATION_TOKEN"


@pytest.fixture
def cluster(
    alice: MetastoreClient,
    secured: EmbeddedMetastore,
    kdc: Kdc,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[SparkCluster]:
    host, port = secured.uri.removeprefix("thrift://").split(":")
    extra = {
        "auth_mechanism": "GSSAPI",
        "kerberos_principal": kdc.principal("alice"),
        "kerberos_keytab": str(kdc.keytab),
    }
    metastore = {"conn_type": "hive_acid_metastore", "host": host, "port": int(port)}
    monkeypatch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", json.dumps(metastore | {"extra": extra}))
    monkeypatch.setattr("airflow.sdk.execution_time.xcom.XCom.set", lambda *_, **__: None)
    alice.create_database("shop")
    alice.create_table(HiveTable.new(TableRef("shop", "orders"), [HiveColumn("id", "int")]))
    with KubernetesServer() as kubernetes:
        yield SparkCluster(tmp_path, kubernetes, monkeypatch)
    alice.drop_database("shop", cascade=True)


def test_the_driver_gets_a_token_and_nothing_of_the_keytab(
    cluster: SparkCluster,
    context: dict[str, Any],  # noqa: F811
    kdc: Kdc,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deferred = deferred_by(delete(deferrable=True), context)
    (application,) = cluster.applications
    seen = cluster.seen(application)
    token = seen.environment[VARIABLE]
    assert seen.properties_mode == 0o600
    shown = " ".join(seen.argv) + json.dumps(seen.job)
    assert token not in shown + json.dumps(deferred.trigger.serialize())
    assert str(kdc.keytab) not in shown + json.dumps(seen.environment)
    # With that alone, a process without a ticket is alice.
    monkeypatch.delenv("KRB5_CONFIG")
    monkeypatch.setenv(VARIABLE, token)
    options: MetastoreOptions = codec.decode(MetastoreOptions, seen.job["metastore"], "metastore")
    with MetastoreClient(options) as driver:
        assert driver.user == "alice"
        assert driver.get_table(TableRef("shop", "orders")).owner == "alice"
