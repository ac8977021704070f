"""A Kubernetes API server as far as spark-submit and a look at its drivers need one.

Pods have the shapes that Spark 4.1 posts and a kubelet reports. A test takes the steps of a
cluster: it schedules, starts and ends submitted pods.
"""

import json
import re
import ssl
import threading
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from hiveacid.metastore.dev.embedded import free_port

Object = dict[str, Any]
NAMESPACE = "jobs"
TOKEN = "a-token"
CONTAINER = "spark-kubernetes-driver"


class KubernetesServer:
    """Listens on this machine until it is closed.

    Args:
        certificate: A file with the key and the certificate to serve HTTPS with.
    """

    def __init__(self, certificate: Path | None = None) -> None:
        self.pods: dict[str, Object] = {}
        self.config_maps: set[str] = set()
        self.logs: dict[str, str] = {}
        # The kinds of objects that are answered with an error, "pods" for example, and the error.
        self.refused: dict[str, HTTPStatus] = {}
        # The number of lists of pods, and the number of next lists that are empty.
        self.lists = 0
        self.empty_lists = 0
        self.token = TOKEN
        self._numbers = count(1)
        self._server = ThreadingHTTPServer(("127.0.0.1", free_port()), _Handler)
        self._server.kubernetes = self  # type: ignore[attr-defined]
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self.url = f"{'https' if certificate else 'http'}://127.0.0.1:{self.port}"
        serve = self._server.serve_forever
        threading.Thread(target=serve, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def kubeconfig(self, path: Path) -> Path:
        """Write a file with a context for this server."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "nowhere",
            "clusters": [
                {"name": "fake", "cluster": {"server": self.url}},
                {"name": "nowhere", "cluster": {"server": f"http://127.0.0.1:{free_port()}"}},
            ],
            "users": [{"name": "airflow", "user": {"token": self.token}}],
            "contexts": [
                {"name": name, "context": {"cluster": name, "user": "airflow"}}
                for name in ("fake", "nowhere")
            ],
        }
        path.write_text(json.dumps(config))
        return path

    def submit(self, tag: str, *, age: timedelta = timedelta(0), complete: bool = True) -> str:
        """Act as spark-submit: create a driver's pod, and its objects unless it is interrupted."""
        number = next(self._numbers)
        application, name = f"spark-{number:032x}", f"merge-{number:016x}-driver"
        volumes = [
            {"name": "spark-local-dir-1", "emptyDir": {}},
            {
                "name": "spark-conf-volume-driver",
                "configMap": {
                    "name": f"spark-drv-{number:016x}-conf-map",
                    "items": [{"key": "spark.properties", "mode": 420, "path": "spark.properties"}],
                },
            },
        ]
        labels = {
            "hiveacid-run": tag,
            "spark-app-name": "merge",
            "spark-app-selector": application,
            "spark-role": "driver",
            "spark-version": "4.1.3",
        }
        container = {"name": CONTAINER, "image": "spark:4.1.3", "args": ["driver"], "env": []}
        self.create_pod(
            NAMESPACE,
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "labels": labels},
                "spec": {"restartPolicy": "Never", "containers": [container], "volumes": volumes},
            },
            created=datetime.now(UTC) - age,
        )
        if complete:
            self.config_maps.add(volumes[1]["configMap"]["name"])  # type: ignore[index]
        return application

    def create_pod(self, namespace: str, pod: Object, created: datetime | None = None) -> Object:
        pod["metadata"] |= {
            "namespace": namespace,
            "uid": f"00000000-0000-4000-8000-{next(self._numbers):012x}",
            "creationTimestamp": f"{created or datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        }
        pod["status"] = {"phase": "Pending", "qosClass": "Burstable"}
        self.pods[pod["metadata"]["name"]] = pod
        return pod

    def driver(self, application: str) -> Object:
        return next(
            pod
            for pod in self.pods.values()
            if pod["metadata"]["labels"]["spark-app-selector"] == application
        )

    def set_status(self, application: str, phase: str, **status: Any) -> None:
        self.driver(application)["status"] = {"phase": phase, "qosClass": "Burstable", **status}

    def set_container(self, application: str, phase: str, **state: Any) -> None:
        """Let the driver's container be in a state, such as ``running={...}``."""
        self.set_status(application, phase, containerStatuses=[container_status(**state)])

    def run(self, application: str, log: str = "") -> None:
        self.set_container(application, "Running", running={"startedAt": "2026-11-20T12:00:00Z"})
        self.logs[self.driver(application)["metadata"]["name"]] = log

    def end(self, application: str, exit_code: int = 0, reason: str | None = None) -> None:
        terminated = {
            "exitCode": exit_code,
            "reason": reason or ("Error" if exit_code else "Completed"),
            "startedAt": "2026-11-20T12:00:00Z",
            "finishedAt": "2026-11-20T12:01:00Z",
            "containerID": "containerd://0123456789abcdef",
        }
        phase = "Failed" if exit_code else "Succeeded"
        self.set_container(application, phase, terminated=terminated)

    def remove(self, application: str) -> None:
        """The pod is gone, as some time after it was deleted."""
        del self.pods[self.driver(application)["metadata"]["name"]]

    def answer(self, method: str, path: str, body: Object | None, token: str) -> tuple[int, Any]:
        """Return the status and the answer: an object, or the text of a log."""
        url = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        match = re.fullmatch(r"/api/v1/namespaces/([^/]+)/(\w+)(?:/([^/]+))?(/log)?", url.path)
        if match is None:
            return _failure(HTTPStatus.NOT_FOUND)
        namespace, kind, name, log = match.groups()
        if token.lower() != f"bearer {self.token}":
            return _failure(HTTPStatus.UNAUTHORIZED)
        self.lists += (method, kind, name) == ("GET", "pods", None)
        if kind in self.refused:
            return _failure(self.refused[kind])
        pods = {
            name: pod
            for name, pod in self.pods.items()
            if pod["metadata"]["namespace"] == namespace
        }
        match (method, kind, name):
            case ("POST", "pods", None):
                assert body is not None
                return 201, self.create_pod(namespace, body)
            case ("PATCH", "configmaps" | "services", _):
                self.config_maps |= {name} if kind == "configmaps" else set()
                return 201, body
            case ("GET", "pods", None):
                if self.empty_lists:
                    self.empty_lists -= 1
                    pods = {}
                wanted = dict(pair.split("=") for pair in query["labelSelector"].split(","))
                items = [
                    pod
                    for pod in pods.values()
                    if wanted.items() <= pod["metadata"]["labels"].items()
                ]
                return 200, {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}
            case ("GET", "configmaps", _) if name in self.config_maps:
                return 200, {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}}
            case ("GET", "pods", _) if name in pods and log:
                return self._log(name, query)
            case ("DELETE", "pods", _) if name in pods:
                deleted = pods[name]["metadata"]
                deleted["deletionTimestamp"] = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
                deleted["deletionGracePeriodSeconds"] = 30
                return 200, pods[name]
        return _failure(HTTPStatus.NOT_FOUND)

    def _log(self, name: str, query: dict[str, str]) -> tuple[int, Any]:
        containers = [container["name"] for container in self.pods[name]["spec"]["containers"]]
        if name not in self.logs or (len(containers) > 1 and "container" not in query):
            return _failure(HTTPStatus.BAD_REQUEST)
        lines = self.logs[name].splitlines(keepends=True)
        return 200, "".join(lines[-int(query["tailLines"]) :])


def container_status(name: str = CONTAINER, **state: Any) -> Object:
    """Return a kubelet's report on a container."""
    return {
        "name": name,
        "image": "spark:4.1.3",
        "imageID": "",
        "ready": "running" in state,
        "started": "running" in state,
        "restartCount": 0,
        "lastState": {},
        "state": state,
    }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _handle(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.loads(content) if content else None
        server: KubernetesServer = self.server.kubernetes  # type: ignore[attr-defined]
        token = self.headers.get("Authorization", "")
        status, answer = server.answer(self.command, self.path, body, token)
        text = isinstance(answer, str)
        data = answer.encode() if text else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if text else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PATCH = do_DELETE = _handle  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        """Suppress the log, which pytest would show."""


def _failure(status: HTTPStatus) -> tuple[int, Object]:
    return status, {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"{status.phrase}, says the server",
        "reason": status.phrase.replace(" ", ""),
        "code": int(status),
    }
