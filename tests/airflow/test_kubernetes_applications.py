"""The drivers of a Kubernetes cluster, seen by its real client through an API server of ours."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Connection
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from airflow_hiveacid.cluster.applications import Application, ApplicationState, application_tag
from airflow_hiveacid.cluster.kubernetes import KubernetesApplications, _require_tls
from airflow_hiveacid.cluster.spark_master import applications_of
from hiveacid.errors import ClusterUnreachable, InvalidConnection
from tests.clocks import set_clock
from tests.fakes.kubernetes import NAMESPACE, KubernetesServer, container_status

TAG = application_tag("shop/manual/merge/-1")
OTHER_TAG = application_tag("shop/manual/compact/-1")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubernetesServer]:
    with KubernetesServer() as server:
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "config")))
        yield server


@pytest.fixture
def applications(server: KubernetesServer) -> KubernetesApplications:
    applications = applications_of(_connection(namespace=NAMESPACE, kubernetes_context="fake"))
    assert isinstance(applications, KubernetesApplications)
    return applications


def test_applications_are_found_by_their_tag(
    server: KubernetesServer, applications: KubernetesApplications
) -> None:
    younger = server.submit(TAG)
    older = server.submit(TAG, age=timedelta(minutes=30))
    server.submit(OTHER_TAG)

    assert [application.id for application in applications.find(TAG)] == [older, younger]
    assert applications.find(application_tag("another run")) == []


def test_only_the_namespace_of_the_connection_is_searched(server: KubernetesServer) -> None:
    server.submit(TAG)

    assert applications_of(_connection(kubernetes_context="fake")).find(TAG) == []


def test_an_application_is_followed_to_its_end(
    server: KubernetesServer, applications: KubernetesApplications
) -> None:
    submitted = server.submit(TAG)
    states = [_state(applications, submitted)]
    server.run(submitted)
    states.append(_state(applications, submitted))
    server.end(submitted)
    states.append(_state(applications, submitted))

    assert states == ["pending", "running", "succeeded"]


def test_a_failed_application_reports_its_error(
    server: KubernetesServer, applications: KubernetesApplications
) -> None:
    submitted = server.submit(TAG)
    server.end(submitted, exit_code=137, reason="OOMKilled")

    failed = applications.get(submitted)

    assert failed == Application(submitted, ApplicationState.FAILED, "OOMKilled, exit code 137")


@pytest.mark.parametrize(
    ("phase", "status", "state", "diagnostics"),
    [
        (
            "Pending",
            {
                "conditions": [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "0/3 nodes are available: 3 Insufficient memory.",
                    }
                ]
            },
            "pending",
            "Unschedulable: 0/3 nodes are available: 3 Insufficient memory.",
        ),
        (
            "Pending",
            {
                "containerStatuses": [
                    container_status(waiting={"reason": "ErrImagePull", "message": "not found"})
                ]
            },
            "pending",
            "ErrImagePull: not found",
        ),
        (
            "Failed",
            {"reason": "Evicted", "message": "The node was low on resource: memory."},
            "failed",
            "Evicted: The node was low on resource: memory.",
        ),
        # The node does not answer: its containers may continue.
        ("Unknown", {"reason": "NodeLost"}, "running", "NodeLost"),
    ],
)
def test_the_cluster_s_message_about_a_pod_is_forwarded(
    server: KubernetesServer,
    applications: KubernetesApplications,
    phase: str,
    status: dict[str, Any],
    state: str,
    diagnostics: str,
) -> None:
    submitted = server.submit(TAG)
    server.set_status(submitted, phase, **status)

    assert applications.get(submitted) == Application(
        submitted, ApplicationState(state), diagnostics
    )


def test_other_containers_of_the_pod_do_not_keep_an_application_running(
    server: KubernetesServer, applications: KubernetesApplications
) -> None:
    submitted = server.submit(TAG)
    server.driver(submitted)["spec"]["containers"].insert(0, {"name": "proxy", "image": "proxy"})
    server.end(submitted)
    ended = server.driver(submitted)["status"]["containerStatuses"]
    proxy = container_status("proxy", running={"startedAt": "2026-11-20T12:00:00Z"})
    server.set_status(submitted, "Running", containerStatuses=[proxy, *ended])

    assert _state(applications, submitted) == "succeeded"


def test_a_killed_application_ends_with_its_pod(
    server: KubernetesServer, applications: KubernetesApplications
) -> None:
    submitted = server.submit(TAG)
    server.run(submitted)

    applications.kill(submitted)
    applications.kill(submitted)
    assert _state(applications, submitted) == "killed"
    # Spark ends with 143 when it is asked to.
    server.end(submitted, exit_code=143)
    assert _state(applications, submitted) == "killed"

    server.remove(submitted)
    assert applications.get(submitted) is None
    assert applications.find(TAG) == []
    applications.kill(submitted)


def test_killing_what_has_ended_keeps_its_log(
    server: KubernetesServer, applications: KubernetesApplications
) -> None:
    submitted = server.submit(TAG)
    server.run(submitted, log="hiveacid: commit done\n")
    server.end(submitted)

    applications.kill(submitted)

    assert _state(applications, submitted) == "succeeded"
    assert applications.log_tail(submitted) == ["hiveacid: commit done"]


def test_the_end_of_the_log_is_the_drivers(
    server: KubernetesServer, applications: KubernetesApplications
) -> None:
    submitted = server.submit(TAG)
    server.driver(submitted)["spec"]["containers"].append({"name": "proxy", "image": "proxy"})
    assert applications.log_tail(submitted) == []
    server.run(submitted, log="one\ntwo: caf\u00e9 'b'\nthree\n")

    assert applications.log_tail(submitted, lines=2) == ["two: caf\u00e9 'b'", "three"]
    assert applications.log_tail("spark-unknown") == []


@pytest.mark.parametrize("ahead_days", [-10, 0, 10])
def test_a_pod_whose_submitter_died_does_not_wait_for_ever(
    server: KubernetesServer,
    applications: KubernetesApplications,
    monkeypatch: pytest.MonkeyPatch,
    ahead_days: int,
) -> None:
    """The age of the pod is that by the clock of the cluster."""
    set_clock(monkeypatch.setattr, [timedelta(days=ahead_days)])
    fresh = server.submit(TAG, complete=False)
    stuck = server.submit(TAG, complete=False, age=timedelta(minutes=2))
    queued = server.submit(TAG, age=timedelta(minutes=2))

    assert _state(applications, fresh) == "pending"
    assert _state(applications, queued) == "pending"
    assert _state(applications, stuck) == "failed"
    # Without the right to look, it may as well be waiting for a node.
    server.refused["configmaps"] = HTTPStatus.FORBIDDEN
    assert _state(applications, stuck) == "pending"


def test_trouble_of_the_server_can_be_waited_out(
    server: KubernetesServer, applications: KubernetesApplications
) -> None:
    submitted = server.submit(TAG)
    server.refused["pods"] = HTTPStatus.SERVICE_UNAVAILABLE

    with pytest.raises(ClusterUnreachable, match="503 Service Unavailable"):
        applications.get(submitted)
    with pytest.raises(ClusterUnreachable):
        applications.kill(submitted)
    assert applications.log_tail(submitted) == []

    server.refused.clear()
    assert _state(applications, submitted) == "pending"


def test_an_unknown_context_is_an_error_of_the_connection(server: KubernetesServer) -> None:
    with pytest.raises(InvalidConnection, match="No configuration for Kubernetes was found"):
        KubernetesApplications(NAMESPACE, "no such context").find(TAG)


def test_a_closed_port_is_an_error_of_the_cluster(server: KubernetesServer) -> None:
    # The current context is another cluster, which is down.
    with pytest.raises(ClusterUnreachable, match="does not answer"):
        KubernetesApplications(NAMESPACE).find(TAG)


def test_missing_rights_are_named(
    server: KubernetesServer, applications: KubernetesApplications
) -> None:
    server.refused["pods"] = HTTPStatus.FORBIDDEN

    with pytest.raises(InvalidConnection, match="get, list and delete pods"):
        applications.find(TAG)


def test_a_token_that_was_replaced_is_read_again(
    server: KubernetesServer,
    applications: KubernetesApplications,
    tmp_path: Path,
) -> None:
    submitted = server.submit(TAG)
    assert _state(applications, submitted) == "pending"
    server.token = "the-next-token"
    server.kubeconfig(tmp_path / "config")

    with pytest.raises(ClusterUnreachable, match="401"):
        applications.get(submitted)
    assert _state(applications, submitted) == "pending"


def test_a_service_account_of_a_pod_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = _certificate(tmp_path / "server.pem")
    with KubernetesServer(certificate) as server:
        (tmp_path / "token").write_text(server.token)
        loader = "kubernetes.config.incluster_config"
        monkeypatch.setattr(f"{loader}.SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
        monkeypatch.setattr(f"{loader}.SERVICE_CERT_FILENAME", str(certificate))
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.port))
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
        submitted = server.submit(TAG)

        assert [application.id for application in KubernetesApplications(NAMESPACE).find(TAG)] == [
            submitted
        ]


def test_without_the_client_of_kubernetes_its_package_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes.client", None)

    with pytest.raises(InvalidConnection, match=r"Install airflow-hiveacid\[kubernetes\]"):
        KubernetesApplications(NAMESPACE).find(TAG)
    with pytest.raises(InvalidConnection, match=r"Install airflow-hiveacid\[kubernetes\]"):
        KubernetesApplications(NAMESPACE).kill("spark-1")


@pytest.mark.server
def test_spark_submits_what_is_found_again(
    server: KubernetesServer, applications: KubernetesApplications, tmp_path: Path
) -> None:
    conf = applications.submit_conf(TAG) | applications.driver_env_conf({"HIVEACID_TOKEN": "s3"})
    conf["spark.kubernetes.container.image"] = "spark:4.1.3"
    properties = tmp_path / "spark.properties"
    properties.write_text("".join(f"{name} {value}\n" for name, value in conf.items()))
    submit = ["spark-submit", "--master", f"k8s://{server.url}", "--deploy-mode", "cluster"]
    submit += ["--properties-file", str(properties), "local:///opt/app.py"]

    ran = subprocess.run(submit, text=True, capture_output=True, check=False, timeout=120)

    assert ran.returncode == 0, ran.stderr
    (application,) = applications.find(TAG)
    assert f"application ID {application.id}" in ran.stderr
    assert application.state is ApplicationState.PENDING
    (container,) = server.driver(application.id)["spec"]["containers"]
    assert {"name": "HIVEACID_TOKEN", "value": "s3"} in container["env"]
    server.end(application.id)
    assert _state(applications, application.id) == "succeeded"


def _connection(**extra: str) -> Connection:
    return Connection(
        conn_id="spark_default",
        conn_type="spark",
        host="k8s://https://cluster.example.com:6443",
        extra=json.dumps(extra),
    )


def _state(applications: KubernetesApplications, application_id: str) -> str:
    application = applications.get(application_id)
    assert application is not None
    return application.state.value


def _certificate(path: Path) -> Path:
    """Write the key and the certificate of a server on this machine."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "kubernetes")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.mark.parametrize(
    ("host", "refused"),
    [("http://k8s.example:8001", True), ("http://127.0.0.1:8001", False), ("https://k8s", False)],
)
def test_no_token_goes_to_another_machine_without_tls(host: str, refused: bool) -> None:
    from kubernetes import client

    configuration = client.Configuration(host=host, api_key={"authorization": "Bearer s3cret"})
    with pytest.raises(InvalidConnection) if refused else nullcontext() as caught:
        _require_tls(configuration)
    if caught is not None:
        assert "without TLS" in str(caught.value)
        assert "s3cret" not in str(caught.value)
    _require_tls(client.Configuration(host=host))
