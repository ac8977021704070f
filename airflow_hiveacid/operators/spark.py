"""HiveAcidSparkOperator: a job that is a Spark application."""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import AirflowException

from airflow_hiveacid.hooks.failures import task_failure
from airflow_hiveacid.hooks.submit import SparkSubmission
from airflow_hiveacid.jobs.codec import to_json
from airflow_hiveacid.jobs.report import CompactReport, RunReport
from airflow_hiveacid.operators.base import HiveAcidJobOperator, JobT

if TYPE_CHECKING:
    from airflow.sdk import Context


class HiveAcidSparkOperator(HiveAcidJobOperator[JobT]):
    """Submits the Spark application of one job and returns its report.

    The job is checked while the DAG is parsed, without a server. When a task is tried again, its
    application first settles what the earlier try left: a commit is not repeated, an open
    transaction is aborted.

    :param job: What to do. Every text in it is a template. (templated)
    :param metastore_conn_id: The metastore, unless the job names one itself.
    :param spark_conn_id: The Spark connection; its master may be ``local[*]``, a standalone
        cluster, YARN or Kubernetes, with deploy mode client.
    :param conf: Spark configuration. (templated)
    :param driver_memory: Memory of the driver, for example ``2g``.
    :param executor_memory: Memory of each executor.
    :param executor_cores: Cores of each executor.
    :param num_executors: Number of executors.
    :param jars: Jars for driver and executors, separated by commas. (templated)
    :param packages: Maven coordinates of jars, separated by commas. (templated)
    :param properties_file: A file of Spark properties; the place for secret ones. (templated)
    :param env_vars: Environment variables of the driver. (templated)
    """

    application: ClassVar[str]
    report_type: ClassVar[type[RunReport] | type[CompactReport]] = RunReport

    template_fields: Sequence[str] = (
        *HiveAcidJobOperator.template_fields,
        "conf",
        "jars",
        "packages",
        "properties_file",
        "env_vars",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"job": "py", "conf": "json"}

    def __init__(
        self,
        *,
        spark_conn_id: str = "spark_default",
        conf: dict[str, str] | None = None,
        driver_memory: str | None = None,
        executor_memory: str | None = None,
        executor_cores: int | None = None,
        num_executors: int | None = None,
        jars: str | None = None,
        packages: str | None = None,
        properties_file: str | None = None,
        env_vars: dict[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.spark_conn_id = spark_conn_id
        self.conf = conf
        self.driver_memory = driver_memory
        self.executor_memory = executor_memory
        self.executor_cores = executor_cores
        self.num_executors = num_executors
        self.jars = jars
        self.packages = packages
        self.properties_file = properties_file
        self.env_vars = env_vars
        self._submission: SparkSubmission | None = None

    def on_kill(self) -> None:
        """Stop Spark and abort the transaction, so that its locks don't outlive the task."""
        if self._submission is not None:
            self._submission.kill()
            super().on_kill()

    def _run(self, job: JobT, context: "Context") -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="hiveacid-") as folder:
            job_file, report_file = Path(folder, "job.json"), Path(folder, "report.json")
            job_file.touch(mode=0o600)
            job_file.write_text(to_json(job), encoding="utf-8")
            self._submission = SparkSubmission(
                self.application,
                ["--job", str(job_file), "--report", str(report_file)],
                environment=self.env_vars or {},
                folder=Path(folder),
                spark_conn_id=self.spark_conn_id,
                options=self._spark_options(f"{context['ti'].dag_id}.{self.task_id}"),
            )
            try:
                self._submission.run()
            except AirflowException as error:
                report = self._read_report(report_file)
                if report is None or report.error is None:
                    raise
                raise task_failure(report.error) from error
            report = self._read_report(report_file)
            if report is None:
                raise AirflowException("The application ended well but left no report.")
            return report.to_dict()

    def _read_report(self, path: Path) -> RunReport | CompactReport | None:
        try:
            return self.report_type.from_dict(json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None

    def _spark_options(self, name: str) -> dict[str, Any]:
        return {
            "name": name,
            "conf": {"spark.ui.showConsoleProgress": "false"} | (self.conf or {}),
            "driver_memory": self.driver_memory,
            "executor_memory": self.executor_memory,
            "executor_cores": self.executor_cores,
            "num_executors": self.num_executors,
            "jars": self.jars,
            "packages": self.packages,
            "properties_file": self.properties_file,
        }
