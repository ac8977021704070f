"""A namespace for drivers, and the actions of its scheduler, its kubelet and its administrator."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client

from tests.kubernetes.api_server import ApiServer

CONTAINER = "spark-kubernetes-driver"
_DOCS = Path(__file__).parents[2] / "docs" / "production.md"


class Namespace:
    """One namespace of an API server, with the rights of an administrator.

    Args:
        server: The API server.
        name: A name that is not there yet.
    """

    def __init__(self, server: ApiServer, name: str) -> None:
        self.server = server
        self.name = name
        self._core = client.CoreV1Api(server.api())
        self._rights = client.RbacAuthorizationV1Api(self._core.api_client)
        self._core.create_namespace({"metadata": {"name": name}})
        # A controller does that, which is not one of the server.
        self._core.create_namespaced_service_account(name, {"metadata": {"name": "default"}})

    def set_up_as_documented(self) -> None:
        """Create the accounts and roles of docs/production.md."""
        text = _DOCS.read_text().split("```yaml\n# kubectl apply", 1)[1].split("```", 1)[0]
        _, _, objects = text.partition("\n")
        for found in yaml.safe_load_all(objects):
            found["metadata"]["namespace"] = self.name
            for subject in found.get("subjects", []):
                subject["namespace"] = self.name
            create = {
                "ServiceAccount": self._core.create_namespaced_service_account,
                "Role": self._rights.create_namespaced_role,
                "RoleBinding": self._rights.create_namespaced_role_binding,
            }
            create[found["kind"]](self.name, found)

    def add_account(self, name: str, **verbs: Sequence[str]) -> None:
        """Create an account that has some rights, by the kind of objects."""
        self._core.create_namespaced_service_account(self.name, {"metadata": {"name": name}})
        rules = [
            {"apiGroups": [""], "resources": [kind], "verbs": list(allowed)}
            for kind, allowed in verbs.items()
        ]
        role = {"metadata": {"name": name}, "rules": rules}
        self._rights.create_namespaced_role(self.name, role)
        binding = {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": self.name}],
        }
        self._rights.create_namespaced_role_binding(self.name, binding)

    def token(self, account: str) -> str:
        """A token of an account, as a pod of its own would have it."""
        wanted: dict[str, Any] = {"spec": {"audiences": []}}
        given = self._core.create_namespaced_service_account_token(account, self.name, wanted)
        return str(given.status.token)

    def pods(self) -> list[Any]:
        """All pods, the oldest first."""
        pods = self._core.list_namespaced_pod(self.name).items
        return sorted(pods, key=lambda pod: pod.metadata.creation_timestamp)

    def drivers(self) -> list[Any]:
        """The pods of drivers."""
        return [pod for pod in self.pods() if pod.metadata.labels.get("spark-role") == "driver"]

    def config_map(self, name: str) -> dict[str, str]:
        """The texts of a config map."""
        return dict(self._core.read_namespaced_config_map(name, self.name).data)

    def create_driver(self, name: str, application: str, **labels: str) -> None:
        """Create a pod like those of Spark's drivers."""
        own = {"spark-role": "driver", "spark-app-selector": application}
        pod = {
            "metadata": {"name": name, "labels": own | labels},
            "spec": {"containers": [{"name": CONTAINER, "image": "spark:4.1.3"}]},
        }
        self._core.create_namespaced_pod(self.name, pod)

    def bind(self, name: str) -> None:
        """Give a pod to a node, as the scheduler does: from now on its kubelet ends it."""
        target = {"apiVersion": "v1", "kind": "Node", "name": "node-1"}
        binding = {"metadata": {"name": name}, "target": target}
        # The answer is no binding, which the client expects.
        self._core.create_namespaced_pod_binding(name, self.name, binding, _preload_content=False)

    def set_status(self, name: str, phase: str, **status: Any) -> None:
        """Report on a pod as its kubelet does."""
        patch = {"status": {"phase": phase, **status}}
        self._core.patch_namespaced_pod_status(name, self.name, patch)

    def set_container(self, name: str, phase: str, **state: Any) -> None:
        """Report on a pod by the state of its container, such as ``running={...}``."""
        (container,) = self._core.read_namespaced_pod(name, self.name).spec.containers
        status = {
            "name": container.name,
            "image": container.image,
            "imageID": "",
            "ready": "running" in state,
            "restartCount": 0,
            "state": state,
        }
        self.set_status(name, phase, containerStatuses=[status])

    def run(self, name: str) -> None:
        """The container of a pod has started."""
        self.set_container(name, "Running", running={"startedAt": _now()})
        # Drivers wait for that of their own pod before they ask for executors.
        self.set_status(name, "Running", conditions=[{"type": "Ready", "status": "True"}])

    def end(self, name: str, exit_code: int = 0, reason: str | None = None) -> None:
        """The container of a pod has ended."""
        terminated = {
            "exitCode": exit_code,
            "reason": reason or ("Error" if exit_code else "Completed"),
            "startedAt": _now(),
            "finishedAt": _now(),
        }
        phase = "Failed" if exit_code else "Succeeded"
        self.set_container(name, phase, terminated=terminated)

    def forget(self, name: str) -> None:
        """A pod that was deleted has ended: its kubelet lets it go."""
        now = client.V1DeleteOptions(grace_period_seconds=0)
        self._core.delete_namespaced_pod(name, self.name, body=now)


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
