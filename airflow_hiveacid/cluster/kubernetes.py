"""The applications of a Kubernetes cluster, through the pods of their drivers."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_hiveacid.cluster.applications import Application, ApplicationState
from hiveacid.errors import ClusterUnreachable, InvalidConnection

if TYPE_CHECKING:
    from airflow.sdk import Connection

NAMESPACE_EXTRA = "namespace"
CONTEXT_EXTRA = "kubernetes_context"
# To connect and to be answered.
TIMEOUT_SECONDS = (10, 30)

_TAG_LABEL = "hiveacid-run"
# Names that Spark uses.
_ID_LABEL = "spark-app-selector"
_DRIVER_LABEL = "spark-role=driver"
_DRIVER_CONTAINER = "spark-kubernetes-driver"
_CONFIGURATION_VOLUME = "spark-conf-volume-driver"
# spark-submit creates the pod first, and the mounted objects within a second.
_SUBMISSION = timedelta(minutes=1)


class KubernetesApplications:
    """The applications of one namespace of a Kubernetes cluster.

    Authentication works as for ``kubectl`` and spark-submit: with a kubeconfig file, or with the
    service account of the pod of this process. The account must be allowed to get, list and delete
    pods, and to get their logs and config maps.

    :param namespace: The namespace of the drivers.
    :param context: The context of the kubeconfig file; its current one by default.
    """

    def __init__(self, namespace: str, context: str | None = None) -> None:
        self._namespace = namespace
        self._context = context
        self._api: Any = None

    @classmethod
    def from_connection(cls, connection: "Connection") -> "KubernetesApplications":
        """Return the applications of a Spark connection whose master is Kubernetes.

        :param connection: Its extra ``namespace`` holds the namespace; without one it is
            ``default``, as Spark has it. Its extra ``kubernetes_context`` holds the context.
        """
        extra = connection.extra_dejson
        return cls(extra.get(NAMESPACE_EXTRA) or "default", extra.get(CONTEXT_EXTRA) or None)

    def find(self, tag: str) -> list[Application]:
        """Return the applications that carry a tag, the oldest first."""
        with self._asking() as api:
            return [self._application(api, pod) for pod in self._drivers(api, _TAG_LABEL, tag)]

    def get(self, application_id: str) -> Application | None:
        """Return an application; None if its driver's pod was deleted."""
        with self._asking() as api:
            for pod in self._drivers(api, _ID_LABEL, application_id):
                return self._application(api, pod)
        return None

    def kill(self, application_id: str) -> None:
        """Delete the driver's pod, and with it those of the executors.

        A pod that has ended stays, for the sake of its log.
        """
        with self._asking() as api:
            from kubernetes.client import ApiException

            for pod in self._drivers(api, _ID_LABEL, application_id):
                if _terminated(pod) is None:
                    try:
                        api.delete_namespaced_pod(
                            pod.metadata.name, self._namespace, _request_timeout=TIMEOUT_SECONDS
                        )
                    except ApiException as error:
                        if error.status != 404:
                            raise

    def log_tail(self, application_id: str, lines: int = 50) -> list[str]:
        """Return the end of the output of the driver and Spark."""
        try:
            with self._asking() as api:
                for pod in self._drivers(api, _ID_LABEL, application_id):
                    answer = api.read_namespaced_pod_log(
                        pod.metadata.name,
                        self._namespace,
                        container=_driver_container(pod),
                        tail_lines=lines,
                        _request_timeout=TIMEOUT_SECONDS,
                        # The bytes: some versions of the client make "b'...'" of a text.
                        _preload_content=False,
                    )
                    return [line.decode(errors="replace") for line in answer.data.splitlines()]
        except (ClusterUnreachable, InvalidConnection):
            pass
        return []

    def submit_conf(self, tag: str) -> dict[str, str]:
        """Return Spark settings for a submission that can be found by its tag."""
        conf = {
            f"spark.kubernetes.driver.label.{_TAG_LABEL}": tag,
            "spark.kubernetes.namespace": self._namespace,
            "spark.kubernetes.submission.waitAppCompletion": "false",
        }
        if self._context is not None:
            conf["spark.kubernetes.context"] = self._context
        return conf

    def driver_env_conf(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return Spark settings that give the driver environment variables.

        The pod contains them: users with access to the pods of the namespace can read them.
        """
        return {f"spark.kubernetes.driverEnv.{name}": value for name, value in environment.items()}

    def _drivers(self, api: Any, label: str, value: str) -> list[Any]:
        pods = api.list_namespaced_pod(
            self._namespace,
            label_selector=f"{_DRIVER_LABEL},{label}={value}",
            _request_timeout=TIMEOUT_SECONDS,
        )
        return sorted(pods.items, key=lambda pod: pod.metadata.creation_timestamp)

    def _application(self, api: Any, pod: Any) -> Application:
        state, diagnostics = _state_of(pod)
        if state is ApplicationState.PENDING and self._left_unfinished(api, pod):
            state = ApplicationState.FAILED
            diagnostics = "spark-submit ended before it had created all that the driver needs."
        return Application(pod.metadata.labels[_ID_LABEL], state, diagnostics)

    def _left_unfinished(self, api: Any, pod: Any) -> bool:
        """Whether a pod waits for a config map that no process will create."""
        from kubernetes.client import ApiException

        for volume in pod.spec.volumes or []:
            if volume.name == _CONFIGURATION_VOLUME and volume.config_map is not None:
                try:
                    api.read_namespaced_config_map(
                        volume.config_map.name, self._namespace, _request_timeout=TIMEOUT_SECONDS
                    )
                except ApiException as error:
                    if error.status == 404:
                        # By one clock, that of the API server.
                        now = parsedate_to_datetime(error.headers["Date"])
                        return bool(now - pod.metadata.creation_timestamp >= _SUBMISSION)
                    # We may lack the permission to read it; then the pod is taken for one that
                    # waits.
                    if error.status != 403:
                        raise
        return False

    @contextmanager
    def _asking(self) -> Iterator[Any]:
        """Provide the API, and translate errors from its use."""
        try:
            from kubernetes.client import ApiException
            from kubernetes.config import ConfigException
            from urllib3.exceptions import HTTPError
        except ImportError as error:
            raise InvalidConnection(
                "To follow Spark on Kubernetes, Airflow needs the package 'kubernetes'.",
                remedy="Install airflow-hiveacid[kubernetes].",
            ) from error
        try:
            if self._api is None:
                self._api = _connect(self._context)
            yield self._api
        except ConfigException as error:
            raise InvalidConnection(
                f"No configuration for Kubernetes was found: {error}",
                remedy="Give Airflow's workers and triggerers a kubeconfig file, or run them in "
                "the cluster with a service account.",
            ) from error
        except ApiException as error:
            # Tokens expire: next time they are read again.
            self._api = None
            if error.status == 403:
                raise InvalidConnection(
                    f"Kubernetes does not allow it in the namespace {self._namespace!r}: "
                    f"{_reason(error)}",
                    remedy="Allow it to get, list and delete pods, and to get pods/log and "
                    "configmaps there.",
                ) from error
            raise ClusterUnreachable(f"Kubernetes answers {_reason(error)}") from error
        except HTTPError as error:
            raise ClusterUnreachable(f"Kubernetes does not answer: {error}") from error


def _connect(context: str | None) -> Any:
    from kubernetes import client, config

    configuration = client.Configuration()
    # The caller asks again by itself, and knows when.
    configuration.retries = False
    try:
        config.load_kube_config(
            config_file=os.environ.get("KUBECONFIG") or "~/.kube/config",
            context=context,
            client_configuration=configuration,
            persist_config=False,
        )
    except config.ConfigException:
        if context is not None or not os.environ.get("KUBERNETES_SERVICE_HOST"):
            raise
        config.load_incluster_config(client_configuration=configuration)
    _require_tls(configuration)
    return client.CoreV1Api(client.ApiClient(configuration))


def _require_tls(configuration: Any) -> None:
    """Refuse to send a token or a password to another machine without TLS."""
    server = urlsplit(str(configuration.host))
    host = server.hostname or ""
    is_local = host in ("localhost", "::1") or host.startswith("127.")
    if (
        server.scheme == "http"
        and not is_local
        and (configuration.api_key or configuration.password)
    ):
        raise InvalidConnection(
            f"The token for Kubernetes would go to {host} without TLS: others on the network "
            "could read and use it.",
            remedy="Write https:// as the cluster's server in the kubeconfig.",
        )


def _state_of(pod: Any) -> tuple[ApplicationState, str]:
    """Return the state of a driver, and its reason if the cluster reports one.

    The driver's container decides: others, such as those of a service mesh, can outlive it.
    """
    deleted = pod.metadata.deletion_timestamp is not None
    terminated = _terminated(pod)
    if terminated is not None and terminated.exit_code == 0:
        return ApplicationState.SUCCEEDED, ""
    if deleted:
        return ApplicationState.KILLED, "The driver's pod was deleted."
    if terminated is not None:
        text = f"{terminated.reason or 'Error'}, exit code {terminated.exit_code}"
        return ApplicationState.FAILED, _sentence(text, terminated.message)
    phase = pod.status.phase
    if phase == "Succeeded":
        return ApplicationState.SUCCEEDED, ""
    # Reasons such as Evicted or NodeLost are the pod's own.
    reason = _sentence(pod.status.reason, pod.status.message)
    if phase == "Failed":
        return ApplicationState.FAILED, reason
    if phase == "Pending":
        return ApplicationState.PENDING, reason or _awaited(pod)
    return ApplicationState.RUNNING, reason


def _awaited(pod: Any) -> str:
    """Return the reason why a pod does not run."""
    status = _driver_status(pod)
    waiting = status.state.waiting if status is not None and status.state is not None else None
    if waiting is not None:
        return _sentence(waiting.reason, waiting.message)
    for condition in pod.status.conditions or []:
        if condition.type == "PodScheduled" and condition.status == "False":
            return _sentence(condition.reason, condition.message)
    return ""


def _terminated(pod: Any) -> Any:
    status = _driver_status(pod)
    return status.state.terminated if status is not None and status.state is not None else None


def _driver_status(pod: Any) -> Any:
    name = _driver_container(pod)
    for status in pod.status.container_statuses or []:
        if status.name == name:
            return status
    return None


def _driver_container(pod: Any) -> str:
    # A pod template may give the container another name; Spark then takes the first.
    names = [container.name for container in pod.spec.containers]
    return _DRIVER_CONTAINER if _DRIVER_CONTAINER in names else str(names[0])


def _sentence(reason: str | None, message: str | None) -> str:
    return ": ".join(part for part in (reason, message) if part)


def _reason(error: Any) -> str:
    # The whole error holds headers and bodies over many lines.
    return f"{error.status} {error.reason}"
