"""Operators that submit by Spark's own program to a real API server: the submitted objects, and
deaths."""

import json
import os
import sys
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.providers.common.compat.sdk import AirflowException

from airflow_hiveacid import HiveAcidDeleteOperator
from airflow_hiveacid.cluster.kubernetes import KubernetesApplications
from hiveacid.drivers.run_files import RunFiles
from hiveacid.jobs import DeleteJob
from hiveacid.jobs.report import RunReport
from tests.airflow.cluster_task import deferred_by
from tests.kubernetes.namespace import Namespace
from tests.live.process_group import ProcessGroup

pytestmark = [pytest.mark.kubernetes, pytest.mark.usefixtures("spark_connection", "orders")]
IMAGE = "registry.example.com/spark-hiveacid:0.1.0"
_DOCS = Path(__file__).parents[2] / "docs" / "production.md"
# The work of an Airflow worker for a task, in a process that can be killed.
WORKER = """\
import json, sys
from types import SimpleNamespace
from airflow_hiveacid import HiveAcidDeleteOperator
from hiveacid.jobs import DeleteJob
ti = SimpleNamespace(
    dag_id="d",
    run_id="r",
    task_id="t",
    map_index=-1,
    xcom_push=lambda key, value: print(key, value, flush=True),
)
# As the tests do it: nothing of the provider is used.
import airflow.providers.apache.spark.hooks.spark_submit as hook
hook.kube_client = object()
job = DeleteJob(target="shop.orders", where="id = 1")
HiveAcidDeleteOperator(
    task_id="t", job=job, poll_seconds=0.1, conf=json.loads(sys.argv[1])
).execute({"ti": ti})
"""


@pytest.fixture
def conf(tmp_path: Path) -> dict[str, str]:
    """Spark's settings, with a folder that workers and pods share."""
    (tmp_path / "uploads").mkdir()
    return {
        "spark.kubernetes.container.image": IMAGE,
        "spark.kubernetes.file.upload.path": (tmp_path / "uploads").as_uri(),
        "spark.kubernetes.authenticate.driver.serviceAccountName": "spark",
    }


def _delete(conf: dict[str, str], **arguments: Any) -> HiveAcidDeleteOperator:
    job = DeleteJob(target="shop.orders", where="id = 1")
    options = {"deferrable": True, "deploy_mode": "cluster", "poll_seconds": 0.1} | arguments
    return HiveAcidDeleteOperator(task_id="t", job=job, conf=conf, **options)


def _template(folder: Path) -> Path:
    """The template of the docs."""
    text = _DOCS.read_text().split("# /opt/airflow/spark-driver.yaml\n", 1)[1].split("```", 1)[0]
    path = folder / "driver.yaml"
    path.write_text(text)
    return path


def test_the_pod_of_a_driver_is_made_of_the_connection_the_settings_and_a_template(
    namespace: Namespace, context: dict[str, Any], conf: dict[str, str], tmp_path: Path
) -> None:
    conf |= {
        "spark.kubernetes.driver.podTemplateFile": str(_template(tmp_path)),
        "spark.kubernetes.driver.podTemplateContainerName": "driver",
        "spark.kubernetes.driver.label.team": "sales",
        "spark.kubernetes.container.image.pullSecrets": "registry",
        "spark.kubernetes.driver.secretKeyRef.STORE_KEY": "store:key",
    }
    deferred_by(_delete(conf, driver_memory="2g", env_vars={"KEY": "word"}), context)

    (pod,) = namespace.drivers()
    assert pod.metadata.labels["spark-app-selector"] == context["ti"].xcoms["application_id"]
    assert pod.metadata.labels["hiveacid-run"].startswith("hiveacid-")
    assert pod.metadata.labels["team"] == "sales"
    assert pod.spec.service_account_name == "spark"
    assert pod.spec.restart_policy == "Never"
    assert [secret.name for secret in pod.spec.image_pull_secrets] == ["registry"]
    (container,) = pod.spec.containers
    assert (container.name, container.image) == ("driver", IMAGE)
    assert container.resources.limits["memory"] == "2867Mi"
    # Of the template.
    (template,) = yaml.safe_load_all(_template(tmp_path).read_text())
    assert template["metadata"]["annotations"].items() <= pod.metadata.annotations.items()
    assert "spark" in [toleration.key for toleration in pod.spec.tolerations]
    assert "/etc/hadoop" in [mount.mount_path for mount in container.volume_mounts]
    variables = {variable.name: variable for variable in container.env}
    assert variables["HADOOP_CONF_DIR"].value == "/etc/hadoop"
    assert variables["KEY"].value == "word"
    assert variables["TZ"].value == "UTC"
    assert variables["STORE_KEY"].value_from.secret_key_ref.name == "store"


def test_this_package_and_the_job_are_sent_along(
    namespace: Namespace, context: dict[str, Any], conf: dict[str, str]
) -> None:
    deferred_by(_delete(conf), context)

    (pod,) = namespace.drivers()
    (name,) = [
        volume.config_map.name
        for volume in pod.spec.volumes
        if volume.name == "spark-conf-volume-driver"
    ]
    properties = dict(
        line.split("=", 1)
        for line in namespace.config_map(name)["spark.properties"].splitlines()
        if not line.startswith("#")
    )
    sent = properties["spark.submit.pyFiles"].replace("\\", "").removeprefix("file:")
    with zipfile.ZipFile(sent) as package:
        assert "hiveacid/spark/application.py" in package.namelist()
    job = properties["spark.files"].replace("\\", "").removeprefix("file:")
    assert json.loads(Path(job).read_text())["run_token"] == "d/r/t/-1"
    assert pod.spec.containers[0].args[-4:-1] == ["--job", "job.json", "--report"]


def test_the_worker_is_killed_and_the_next_try_waits_for_the_driver_that_is_there(
    namespace: Namespace,
    applications: KubernetesApplications,
    context: dict[str, Any],
    conf: dict[str, str],
    tmp_path: Path,
    eventually: Callable[..., None],
) -> None:
    worker = ProcessGroup(
        [sys.executable, "-c", WORKER, json.dumps(conf)],
        log=tmp_path / "worker.log",
        environment=os.environ,
    )
    waits = "application_id spark-"
    eventually("the worker waits", lambda: worker.ended or waits in worker.tail(400), seconds=240)
    assert not worker.ended, worker.tail()
    worker.kill()
    (pod,) = namespace.drivers()
    namespace.bind(pod.metadata.name)
    namespace.run(pod.metadata.name)
    application = pod.metadata.labels["spark-app-selector"]
    with ThreadPoolExecutor(1) as pool:
        task = pool.submit(_delete(conf, deferrable=False).execute, context)
        told = context["ti"].xcoms
        eventually("the next try waits", lambda: task.done() or "application_id" in told, 240)
        assert not task.done(), task.result()
        report = RunReport.from_dict({"job": "delete", "target": "shop.orders", "rows_deleted": 3})
        RunFiles(pod.spec.containers[0].args[-1]).of(application).write_report(report)
        namespace.end(pod.metadata.name)
        assert task.result()["rows_deleted"] == 3

    assert told["application_id"] == application
    assert len(namespace.drivers()) == 1


def test_killing_the_task_deletes_the_pod(
    namespace: Namespace, context: dict[str, Any], conf: dict[str, str]
) -> None:
    operator = _delete(conf)
    deferred_by(operator, context)
    (pod,) = namespace.drivers()
    namespace.bind(pod.metadata.name)
    namespace.run(pod.metadata.name)
    operator.on_kill()
    (pod,) = namespace.drivers()
    assert pod.metadata.deletion_timestamp is not None


def test_a_missing_permission_for_pods_is_reported(
    namespace: Namespace,
    context: dict[str, Any],
    conf: dict[str, str],
    log_in: Callable[[str], None],
) -> None:
    namespace.add_account("looker", pods=["get", "list"])
    log_in("looker")
    with pytest.raises(AirflowException) as raised:
        _delete(conf).execute(context)
    assert "pods is forbidden" in str(raised.value)
    assert f"system:serviceaccount:{namespace.name}:looker" in str(raised.value)
    assert namespace.drivers() == []


def test_an_account_of_the_driver_that_is_not_there_is_named(
    namespace: Namespace, context: dict[str, Any], conf: dict[str, str]
) -> None:
    conf["spark.kubernetes.authenticate.driver.serviceAccountName"] = "sparc"
    with pytest.raises(AirflowException, match='serviceaccount "sparc" not found'):
        _delete(conf).execute(context)
    assert namespace.drivers() == []
