"""A node: runs the pods of a namespace as processes of this machine, and reports as a kubelet."""

import os
import re
import shutil
import sys
import threading
from pathlib import Path
from typing import Any, Self

from kubernetes import client

from hiveacid.metastore.dev.distribution import find_java, spark_jars
from hiveacid.metastore.dev.loopback import HOST
from tests.kubernetes.namespace import Namespace
from tests.live.process_group import ProcessGroup

_EXECUTOR = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_POLL_SECONDS = 0.1


class Node:
    """Start the pods of the API server, like the image of Spark, and report their ends.

    The paths of a container are folders of this machine: mounted paths are replaced in all
    arguments, and so are the names of services, which are this machine.

    Args:
        namespace: Its pods.
        directory: A new folder for the files and logs of the pods.
    """

    def __init__(self, namespace: Namespace, directory: Path) -> None:
        self._namespace = namespace
        self._directory = directory
        self._running: dict[str, ProcessGroup] = {}
        self._known: set[str] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="node")
        self._failure: BaseException | None = None

    def __enter__(self) -> Self:
        self._directory.mkdir()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        for group in self._running.values():
            group.kill()
        if self._failure is not None:
            raise self._failure

    def log(self, pods: str) -> str:
        """Return the logs of all pods whose names match a pattern."""
        logs = sorted(self._directory.glob(f"{pods}.log"))
        return "".join(log.read_text(errors="replace") for log in logs)

    def _work(self) -> None:
        try:
            while not self._over.wait(_POLL_SECONDS):
                for pod in self._namespace.pods():
                    self._look_after(pod)
        except BaseException as failure:  # noqa: BLE001 - it is raised where the body ends.
            self._failure = failure

    def _look_after(self, pod: Any) -> None:
        name = pod.metadata.name
        group = self._running.get(name)
        try:
            if pod.metadata.deletion_timestamp is not None:
                if group is not None:
                    group.kill()
                self._namespace.forget(name)
            elif name not in self._known:
                self._start(pod)
            elif group is not None and group.ended:
                del self._running[name]
                self._namespace.end(name, group.exit_code)
        except client.ApiException as error:
            # Pods disappear at any moment, and spark-submit creates them before their mounts.
            if error.status != 404:
                raise

    def _start(self, pod: Any) -> None:
        name = pod.metadata.name
        mounts = self._mounts(pod)
        self._known.add(name)
        self._namespace.bind(name)
        container = pod.spec.containers[0]
        account = self._namespace.token(pod.spec.service_account_name)
        kubeconfig = self._namespace.server.kubeconfig(
            self._directory / f"{name}.kubeconfig", account
        )
        environment = {
            variable.name: self._inside(variable.value or HOST, mounts)
            for variable in container.env or []
        }
        environment |= {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "JAVA_HOME": str(Path(find_java()).resolve().parents[1]),
            "KUBECONFIG": str(kubeconfig),
            "SPARK_LOCAL_IP": HOST,
        }
        arguments = [self._inside(argument, mounts) for argument in container.args]
        folder = self._directory / name
        folder.mkdir()
        self._running[name] = ProcessGroup(
            _command(arguments, environment),
            log=self._directory / f"{name}.log",
            environment=environment,
            directory=folder,
        )
        self._namespace.run(name)

    def _mounts(self, pod: Any) -> dict[str, Path]:
        """Return the folders for the paths of a pod's only container."""
        volumes = {volume.name: volume for volume in pod.spec.volumes or []}
        mounts = {
            mount.mount_path: self._directory / f"{pod.metadata.name}.{mount.name}"
            for mount in pod.spec.containers[0].volume_mounts or []
        }
        maps = {
            mount.mount_path: self._namespace.config_map(volumes[mount.name].config_map.name)
            for mount in pod.spec.containers[0].volume_mounts or []
            if volumes[mount.name].config_map is not None
        }
        for path, folder in mounts.items():
            folder.mkdir(exist_ok=True)
            for key, text in maps.get(path, {}).items():
                (folder / key).write_text(self._inside(text, mounts))
        return mounts

    def _inside(self, text: str, mounts: dict[str, Path]) -> str:
        for path in sorted(mounts, key=len, reverse=True):
            text = text.replace(path, str(mounts[path]))
        return re.sub(rf"[\w.-]+-svc\.{self._namespace.name}\.svc", HOST, text)


def _command(arguments: list[str], environment: dict[str, str]) -> list[str]:
    """Return the command of Spark's image."""
    role, *rest = arguments
    if role == "driver":
        submit = shutil.which("spark-submit")
        assert submit is not None
        bind = ["--conf", f"spark.driver.bindAddress={HOST}"]
        return [submit, *bind, "--deploy-mode", "client", *rest]
    assert role == "executor", arguments
    options = [
        value for name, value in environment.items() if re.fullmatch(r"SPARK_JAVA_OPT_\d+", name)
    ]
    jars = spark_jars("ivy")[0].parent
    given = {
        "--driver-url": "SPARK_DRIVER_URL",
        "--executor-id": "SPARK_EXECUTOR_ID",
        "--cores": "SPARK_EXECUTOR_CORES",
        "--app-id": "SPARK_APPLICATION_ID",
        "--hostname": "SPARK_EXECUTOR_POD_IP",
        "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
        "--podName": "SPARK_EXECUTOR_POD_NAME",
    }
    words = [word for option, name in given.items() for word in (option, environment[name])]
    return [find_java(), *options, "-cp", f"{jars}/*", _EXECUTOR, *words]
