"""A cluster for drivers: a Kubernetes of the tests, a spark-submit, and drivers that tests play."""

import json
import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hiveacid.drivers.run_files import RunFiles, Started
from hiveacid.errors import HiveAcidError
from hiveacid.jobs.report import ErrorReport, Report, RunReport
from tests.fakes.kubernetes import NAMESPACE, TOKEN, KubernetesServer

# Post the pod of a driver as the real one does, and keep its input in the annotations.
_SPARK_SUBMIT = """\
import json, os, stat, sys, time, urllib.request, uuid
from pathlib import Path
argv = sys.argv[1:]
plan = Path(__file__).with_name("plan").read_text()
if plan == "die":
    os.kill(os.getpid(), 9)
while plan == "hang":
    time.sleep(60)
given = [(word, argv[i + 1]) for i, word in enumerate(argv) if word.startswith("--")]
options = dict(given)
properties = Path(options["--properties-file"])
conf = dict(line.split(" ", 1) for line in properties.read_text().splitlines())
conf |= dict(value.split("=", 1) for option, value in given if option == "--conf")
def named(prefix):
    return {k.removeprefix(prefix): v for k, v in conf.items() if k.startswith(prefix)}
seen = {
    "argv": argv,
    "environment": named("spark.kubernetes.driverEnv."),
    "job": json.loads(Path(options["--files"]).read_text()),
    "properties_mode": stat.S_IMODE(properties.stat().st_mode),
    "pid": os.getpid(),
}
labels = {"spark-role": "driver", "spark-app-selector": f"spark-{uuid.uuid4().hex}"}
pod = {
    "metadata": {
        "name": f"merge-{uuid.uuid4().hex[:16]}-driver",
        "labels": labels | named("spark.kubernetes.driver.label."),
        "annotations": {"seen": json.dumps(seen)},
    },
    "spec": {"containers": [{"name": "spark-kubernetes-driver", "image": "spark"}]},
}
url = options["--master"].removeprefix("k8s://")
url += f"/api/v1/namespaces/{conf['spark.kubernetes.namespace']}/pods"
header = {"Authorization": "Bearer " + os.environ["FAKE_TOKEN"]}
urllib.request.urlopen(urllib.request.Request(url, json.dumps(pod).encode(), header))
if plan == "die afterwards":
    os.kill(os.getpid(), 9)
while plan == "hang afterwards":
    time.sleep(60)
"""


class SparkCluster:
    """Receives the submissions of operators, by the connection ``spark_default``.

    Args:
        folder: The folder of spark-submit.
        kubernetes: Has the drivers.
        patch: Sets the environment.
    """

    def __init__(
        self, folder: Path, kubernetes: KubernetesServer, patch: pytest.MonkeyPatch
    ) -> None:
        self.kubernetes = kubernetes
        self._plan = folder / "plan"
        self.submitter_will("end")
        self._over = threading.Event()
        program = folder / "spark-submit"
        program.write_text(f"#!{sys.executable}\n{_SPARK_SUBMIT}")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        extra = {
            "deploy-mode": "cluster",
            "namespace": NAMESPACE,
            "kubernetes_context": "fake",
        }
        connection = {"conn_type": "spark", "host": f"k8s://{kubernetes.url}", "extra": extra}
        patch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
        patch.setenv("KUBECONFIG", str(kubernetes.kubeconfig(folder / "kubeconfig")))
        patch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        patch.setenv("FAKE_TOKEN", TOKEN)
        # The Spark provider imports that of Kubernetes, of which nothing is used here.
        hook = "airflow.providers.apache.spark.hooks.spark_submit"
        patch.setattr(f"{hook}.kube_client", object(), raising=False)

    def submitter_will(self, plan: str) -> None:
        """Let the next spark-submit end, "die", "hang", "die afterwards" or "hang afterwards"."""
        self._plan.write_text(plan)

    @property
    def applications(self) -> list[str]:
        """All that were ever submitted, the oldest first."""
        pods = self.kubernetes.pods.values()
        return [pod["metadata"]["labels"]["spark-app-selector"] for pod in pods]

    def appears(self, number: int = 1) -> str:
        """Wait until so many applications were submitted; the youngest."""
        self.until(lambda: len(self.applications) >= number)
        return self.applications[-1]

    def seen(self, application: str) -> SimpleNamespace:
        """Return the arguments of spark-submit."""
        annotations = self.kubernetes.driver(application)["metadata"]["annotations"]
        return SimpleNamespace(**json.loads(annotations["seen"]))

    def killed(self, application: str) -> bool:
        return "deletionTimestamp" in self.kubernetes.driver(application)["metadata"]

    def begin(
        self, application: str, txn_ids: Sequence[int] = (), write_ids: Mapping[str, int] = {}
    ) -> None:
        """Let the driver run, and report its transaction."""
        started = Started(application_id=application, txn_ids=tuple(txn_ids), write_ids=write_ids)
        self._files(application).write_started(started)
        self.kubernetes.run(application, log="Traceback\nValueError: of the driver\n")

    def report(self, application: str, report: Report | None = None, **values: Any) -> None:
        """The driver leaves its report; by default that of a deletion with some values."""
        deletion = RunReport.from_dict({"job": "delete", "target": "shop.orders"} | values)
        self._files(application).write_report(report or deletion)

    def succeed(self, application: str, **values: Any) -> None:
        self.report(application, **values)
        self.kubernetes.end(application)

    def fail(self, application: str, error: HiveAcidError) -> None:
        told = ErrorReport.of(error)
        report = RunReport(job="delete", target="shop.orders", error=told)
        self._files(application).write_report(report)
        self.kubernetes.end(application, exit_code=told.exit_code)

    @contextmanager
    def meanwhile(self, steps: Callable[[], None]) -> Iterator[None]:
        """Let the cluster go through steps while the body waits for it."""
        self._over.clear()

        def go() -> None:
            try:
                steps()
            finally:
                # After any error in the steps, no wait is endless.
                for application in self.applications:
                    status = self.kubernetes.driver(application)["status"]
                    if status["phase"] in ("Pending", "Running"):
                        self.kubernetes.end(application, exit_code=99)

        with ThreadPoolExecutor(1) as pool:
            going = pool.submit(go)
            try:
                yield
            finally:
                self._over.set()
            going.result()

    def until(self, holds: Callable[[], Any]) -> None:
        """In a step, wait for something that is about to happen."""
        deadline = time.monotonic() + 60
        while not holds():
            assert time.monotonic() < deadline
            assert not self._over.is_set(), "no thread waits any more"
            time.sleep(0.01)

    def _files(self, application: str) -> RunFiles:
        argv = self.seen(application).argv
        return RunFiles(argv[argv.index("--report") + 1]).of(application)
