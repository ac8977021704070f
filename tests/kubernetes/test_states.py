"""A kubelet's reports on a driver, through a real API server, and the permissions."""

from pathlib import Path

import pytest

from airflow_hiveacid.cluster.kubernetes import KubernetesApplications
from hiveacid.errors import ClusterUnreachable, InvalidConnection
from tests.kubernetes.namespace import Namespace

pytestmark = pytest.mark.kubernetes
TAG = "hiveacid-0123456789abcdef01234567"
DRIVER = "merge-1-driver"
APPLICATION = "spark-1"
STARTED = "2026-11-20T12:00:00Z"


@pytest.fixture
def driver(namespace: Namespace) -> str:
    namespace.create_driver(DRIVER, APPLICATION, **{"hiveacid-run": TAG})
    namespace.bind(DRIVER)
    return DRIVER


def _seen(applications: KubernetesApplications) -> tuple[str, str]:
    application = applications.get(APPLICATION)
    assert application is not None
    assert applications.find(TAG) == [application]
    return application.state.value, application.diagnostics


def test_a_pod_is_followed_from_its_creation_to_its_end(namespace, driver, applications):
    assert _seen(applications) == ("pending", "")
    waiting = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "spark:4.1.3"'}
    namespace.set_container(driver, "Pending", waiting=waiting)
    assert _seen(applications) == ("pending", ": ".join(waiting.values()))
    namespace.run(driver)
    assert _seen(applications) == ("running", "")
    namespace.end(driver)
    assert _seen(applications) == ("succeeded", "")


def test_a_pending_pod_reports_its_reason(namespace, driver, applications):
    unschedulable = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/3 nodes are available: 3 Insufficient memory.",
    }
    namespace.set_status(driver, "Pending", conditions=[unschedulable])
    assert _seen(applications) == (
        "pending",
        "Unschedulable: 0/3 nodes are available: 3 Insufficient memory.",
    )


@pytest.mark.parametrize(
    ("exit_code", "reason", "diagnostics"),
    [(1, None, "Error, exit code 1"), (137, "OOMKilled", "OOMKilled, exit code 137")],
)
def test_a_failing_driver_reports_its_error(
    namespace, driver, applications, exit_code, reason, diagnostics
):
    namespace.run(driver)
    namespace.end(driver, exit_code, reason)
    assert _seen(applications) == ("failed", diagnostics)


def test_an_evicted_pod_has_failed(namespace, driver, applications):
    namespace.run(driver)
    namespace.set_status(
        driver, "Failed", reason="Evicted", message="The node was low on resource: memory."
    )
    state, diagnostics = _seen(applications)
    assert (state, diagnostics) == ("failed", "Evicted: The node was low on resource: memory.")


def test_killing_deletes_the_pod_that_runs(namespace, driver, applications):
    namespace.run(driver)
    applications.kill(APPLICATION)
    # Its kubelet lets the container end, and the pod go.
    assert _seen(applications) == ("killed", "The driver's pod was deleted.")
    namespace.end(driver, 143)
    assert _seen(applications)[0] == "killed"
    applications.kill(APPLICATION)
    namespace.forget(driver)
    assert applications.get(APPLICATION) is None
    applications.kill(APPLICATION)


def test_killing_before_there_is_a_node_deletes_the_pod_at_once(namespace, applications):
    namespace.create_driver(DRIVER, APPLICATION)
    applications.kill(APPLICATION)
    assert applications.get(APPLICATION) is None


def test_a_driver_that_has_ended_stays_for_its_log(namespace, driver, applications):
    namespace.end(driver, 1)
    applications.kill(APPLICATION)
    assert _seen(applications) == ("failed", "Error, exit code 1")


def test_other_namespaces_are_out_of_sight(namespace, driver, applications):
    with pytest.raises(InvalidConnection, match="does not allow it in the namespace 'default'"):
        KubernetesApplications("default").find(TAG)


@pytest.mark.parametrize("deed", ["find", "get", "kill"])
def test_an_account_without_rights_learns_what_to_allow(namespace, driver, log_in, deed):
    namespace.add_account("stranger")
    log_in("stranger")
    with pytest.raises(InvalidConnection) as raised:
        getattr(KubernetesApplications(namespace.name), deed)(APPLICATION)
    assert "does not allow it" in str(raised.value)
    assert "403 Forbidden" in str(raised.value)
    assert "get, list and delete pods" in str(raised.value)


def test_an_account_that_may_only_look_cannot_kill(namespace, driver, log_in):
    namespace.add_account("looker", pods=["get", "list"])
    log_in("looker")
    applications = KubernetesApplications(namespace.name)
    assert _seen(applications) == ("pending", "")
    with pytest.raises(InvalidConnection, match="does not allow it"):
        applications.kill(APPLICATION)
    assert _seen(applications) == ("pending", "")


def test_a_token_that_is_none_is_trouble_that_can_pass(
    namespace: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = namespace.server.kubeconfig(tmp_path / "expired", "expired")
    monkeypatch.setenv("KUBECONFIG", str(config))
    with pytest.raises(ClusterUnreachable, match="401 Unauthorized"):
        KubernetesApplications(namespace.name).find(TAG)


def test_a_server_that_was_killed_knows_all_drivers_afterwards(
    namespace: Namespace, driver: str, applications: KubernetesApplications
) -> None:
    namespace.run(driver)
    namespace.server.kill()
    try:
        with pytest.raises(ClusterUnreachable):
            applications.get(APPLICATION)
    finally:
        namespace.server.start()
    assert _seen(applications) == ("running", "")


def test_the_log_of_a_driver_is_nothing_where_its_node_is_away(driver, applications):
    assert applications.log_tail(APPLICATION) == []
