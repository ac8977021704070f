"""An API server of Kubernetes for all tests, and a namespace, an Airflow and a table for each."""

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid.cluster.kubernetes import KubernetesApplications
from tests.airflow.conftest import context, metastore_connection, orders
from tests.kubernetes.api_server import ApiServer
from tests.kubernetes.namespace import Namespace

__all__ = ["context", "metastore_connection", "orders"]
_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with ApiServer(tmp_path_factory.mktemp("kubernetes")) as server:
        yield server


@pytest.fixture
def namespace(api_server: ApiServer) -> Namespace:
    """A namespace of the test's own, with the accounts that the docs ask for."""
    namespace = Namespace(api_server, f"jobs-{next(_NUMBERS)}")
    namespace.set_up_as_documented()
    return namespace


@pytest.fixture
def log_in(
    namespace: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], None]:
    """Be an account of the namespace, as Airflow and spark-submit."""

    def log_in(account: str) -> None:
        token = namespace.token(account)
        config = namespace.server.kubeconfig(tmp_path / "kubeconfig", token)
        monkeypatch.setenv("KUBECONFIG", str(config))

    return log_in


@pytest.fixture
def applications(namespace: Namespace, log_in: Callable[[str], None]) -> KubernetesApplications:
    """The view of the account `airflow` on the namespace."""
    log_in("airflow")
    return KubernetesApplications(namespace.name)


@pytest.fixture
def spark_connection(
    namespace: Namespace,
    applications: KubernetesApplications,
    metastore_connection: str,
    context: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The connections of operators that submit to the namespace."""

    def push(key: str, value: Any, **_: Any) -> None:
        context["ti"].xcom_push(key, value)

    # The triggerer's way to the XComs of the task.
    monkeypatch.setattr("airflow.sdk.execution_time.xcom.XCom.set", push)
    connection = {
        "conn_type": "spark",
        "host": f"k8s://{namespace.server.url}",
        "extra": {"deploy-mode": "cluster", "namespace": namespace.name},
    }
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    # The Spark provider imports that of Kubernetes, of which nothing is used here.
    hook = "airflow.providers.apache.spark.hooks.spark_submit"
    monkeypatch.setattr(f"{hook}.kube_client", object(), raising=False)
