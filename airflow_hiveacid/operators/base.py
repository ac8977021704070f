"""HiveAcidJobOperator: what the operators of all jobs have in common."""

import dataclasses
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException
from airflow.sdk import BaseOperator

from airflow_hiveacid.acid.errors import HiveAcidError, InvalidJob
from airflow_hiveacid.hooks.metastore import HiveAcidMetastoreHook
from airflow_hiveacid.hooks.submit import SparkSubmission
from airflow_hiveacid.jobs.codec import to_json
from airflow_hiveacid.jobs.options import Job
from airflow_hiveacid.jobs.report import RunReport

if TYPE_CHECKING:
    from airflow.sdk import Context

JobT = TypeVar("JobT", bound=Job)


class HiveAcidJobOperator(BaseOperator, Generic[JobT]):
    """Submits the Spark application of one job and returns its report.

    The job is checked while the DAG is parsed, without a server. The application runs one
    transaction; when a task is tried again, its application first settles what the earlier try
    left: a commit is not repeated, an open transaction is aborted.

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

    job_type: ClassVar[type[Job]]
    application: ClassVar[str]

    template_fields: Sequence[str] = (
        "job",
        "conf",
        "jars",
        "packages",
        "properties_file",
        "env_vars",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"job": "py", "conf": "json"}
    ui_color = "#fde8c9"

    def __init__(
        self,
        *,
        job: JobT,
        metastore_conn_id: str = HiveAcidMetastoreHook.default_conn_name,
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
        if not isinstance(job, self.job_type):
            raise InvalidJob(
                f"{type(self).__name__} {self.task_id!r} was given a {type(job).__name__}.",
                remedy=f"Pass job={self.job_type.__name__}(...).",
            )
        job.validate()
        self.job = job
        self.metastore_conn_id = metastore_conn_id
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
        self._submitted: Job | None = None

    def render_template(self, content: Any, context: "Context", *args: Any, **kwargs: Any) -> Any:
        """Render a job, which is frozen, into a new one; anything else as Airflow does."""
        render = super().render_template
        if isinstance(content, Job):
            return content.render(lambda text: str(render(text, context, *args, **kwargs)))
        return render(content, context, *args, **kwargs)

    def execute(self, context: "Context") -> dict[str, Any]:
        """Run the application and return its report."""
        try:
            return self._run(context)
        except HiveAcidError as error:
            raise _failure(str(error), error.retryable) from error
        except KeyboardInterrupt:
            self.on_kill()
            raise

    def on_kill(self) -> None:
        """Stop Spark and abort the transaction, so that its locks don't outlive the task."""
        if self._submission is None or self._submitted is None:
            return
        self._submission.kill()
        try:
            aborted = _abort_transactions(self._submitted)
        except HiveAcidError as error:
            self.log.warning("The transaction is left to the metastore's timeout: %s", error)
        else:
            self.log.info("Aborted transactions: %s", aborted or "none was open")

    def _run(self, context: "Context") -> dict[str, Any]:
        metastore = self.job.metastore
        if metastore is None:
            metastore = HiveAcidMetastoreHook(self.metastore_conn_id).options()
        job = dataclasses.replace(self.job, metastore=metastore, run_token=run_token(context))
        job.validate()
        self._submitted = job
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
                report = _read_report(report_file)
                if report is None or report.error is None:
                    raise
                told = report.error
                text = f"{told.id}: {told.message} {told.remedy}".strip()
                raise _failure(text, told.retryable) from error
            report = _read_report(report_file)
            if report is None:
                raise AirflowException("The application ended well but left no report.")
            return report.to_dict()

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


def run_token(context: "Context") -> str:
    """Name what a task instance does, the same for all of its tries."""
    ti = context["ti"]
    return f"{ti.dag_id}/{ti.run_id}/{ti.task_id}/{ti.map_index}"


def _abort_transactions(job: Job) -> list[int]:
    # Thrift is heavy, and this module is imported while DAGs are parsed.
    from airflow_hiveacid.metastore.client import MetastoreClient
    from airflow_hiveacid.metastore.settle import abort_open_transactions

    if job.metastore is None or job.run_token is None:
        return []
    with MetastoreClient(job.metastore) as client:
        return abort_open_transactions(client, job.run_token)


def _failure(text: str, retryable: bool) -> AirflowException:
    # AirflowFailException skips the remaining tries: what can't succeed shouldn't wait for them.
    return AirflowException(text) if retryable else AirflowFailException(text)


def _read_report(path: Path) -> RunReport | None:
    try:
        return RunReport.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
