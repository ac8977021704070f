"""A real API server of Kubernetes with its database, and no node: tests play the kubelet."""

import json
import secrets
import ssl
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from kubernetes import client

from hiveacid.metastore.dev.embedded import free_port
from hiveacid.metastore.dev.loopback import HOST
from tests.kubernetes.software import programs
from tests.live.airflow_api import wait_until
from tests.live.process_group import ProcessGroup

START_SECONDS = 120
_PATH = "/usr/bin:/bin"


class ApiServer:
    """Stores pods and permissions, and checks tokens by RBAC; it runs nothing.

    Args:
        directory: A new one, for all that it keeps.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._programs = programs()
        self._token = secrets.token_hex(16)
        self._etcd_url, self._peer_url = (f"http://{HOST}:{free_port()}" for _ in range(2))
        self._port = free_port()
        self.url = f"https://{HOST}:{self._port}"
        self.certificate = directory / "certificates" / "apiserver.crt"
        self._groups: dict[str, ProcessGroup] = {}

    def __enter__(self) -> Self:
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            key = rsa.generate_private_key(65537, 2048).private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            (self._directory / "accounts.key").write_bytes(key)
            tokens = f'{self._token},admin,1,"system:masters"\n'
            (self._directory / "tokens.csv").write_text(tokens)
            self._start("etcd", self._etcd_arguments())
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for group in self._groups.values():
            group.kill()

    def start(self) -> None:
        """Start the server, again after kill() with all that it knew, and return when it answers."""
        self._start("kube-apiserver", self._arguments())
        wait_until("the API server is ready", self._ready, START_SECONDS)

    def kill(self) -> None:
        """Kill the server, but not its database."""
        self._groups.pop("kube-apiserver").kill()

    def _start(self, name: str, arguments: Sequence[str]) -> None:
        self._groups[name] = ProcessGroup(
            [str(self._programs / name), *arguments],
            log=self._directory / f"{name}.log",
            environment={"PATH": _PATH, "HOME": str(self._directory)},
        )

    def _etcd_arguments(self) -> list[str]:
        return [
            f"--data-dir={self._directory / 'etcd'}",
            f"--listen-client-urls={self._etcd_url}",
            f"--advertise-client-urls={self._etcd_url}",
            f"--listen-peer-urls={self._peer_url}",
            f"--initial-advertise-peer-urls={self._peer_url}",
            f"--initial-cluster=default={self._peer_url}",
            "--unsafe-no-fsync",
        ]

    def _arguments(self) -> list[str]:
        key = self._directory / "accounts.key"
        return [
            f"--etcd-servers={self._etcd_url}",
            f"--bind-address={HOST}",
            f"--secure-port={self._port}",
            f"--cert-dir={self.certificate.parent}",
            "--authorization-mode=RBAC",
            f"--token-auth-file={self._directory / 'tokens.csv'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.0.0.0/24",
        ]

    def _ready(self) -> bool:
        for name, group in self._groups.items():
            assert not group.ended, f"{name} has ended:\n{group.tail()}"
        try:
            context = ssl.create_default_context(cafile=str(self.certificate))
            headers = {"Authorization": f"Bearer {self._token}"}
            request = urllib.request.Request(f"{self.url}/readyz", headers=headers)
            with urllib.request.urlopen(request, context=context, timeout=10) as answer:
                return bool(answer.status == 200)
        except (OSError, ssl.SSLError):
            # Not there yet, or not all of it: that is an HTTPError.
            return False

    def api(self) -> client.ApiClient:
        """A client that may do everything."""
        configuration = client.Configuration(host=self.url)
        configuration.ssl_ca_cert = str(self.certificate)
        configuration.api_key = {"authorization": f"Bearer {self._token}"}
        return client.ApiClient(configuration)

    def kubeconfig(self, path: Path, token: str) -> Path:
        """Write the kubeconfig of a user with a token."""
        cluster = {"server": self.url, "certificate-authority": str(self.certificate)}
        config: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "tests",
            "clusters": [{"name": "tests", "cluster": cluster}],
            "users": [{"name": "account", "user": {"token": token}}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "account"}}],
        }
        path.write_text(json.dumps(config))
        path.chmod(0o600)
        return path
